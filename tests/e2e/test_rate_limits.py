"""Rates of clients hold over time, for who stays, who comes again and again, and who takes its own connection over.

Counts are compared with the time that has passed here, and never times: a slow machine takes less of a client, never more.
"""

import time

import pytest
import wire
from broker import Courser
from doors import running
from raw import RawClient
from wire import CONNACK, V5

pytestmark = pytest.mark.courser

RATE = 20
SECONDS = 3
MANY = 400


@pytest.fixture
def broker(tmp_path):
    with running(Courser, tmp_path, message_rate=RATE) as broker:
        yield broker


def received(broker):
    return sum(broker.metric(f'courser_messages_received_total{{protocol="mqtt",qos="{qos}"}}') for qos in range(3))


def publishes(qos):
    return b"".join(wire.publish(V5, "rate/x", b"x", qos=qos, packet_id=at if qos else None) for at in range(1, MANY + 1))


def come(broker, client_id, qos):
    """One connection that sends far more than it may at once, and is not closed."""
    client = RawClient(broker.address, V5)
    client.send(wire.connect(V5, client_id))
    client.expect(CONNACK)
    client.send(publishes(qos))
    return client


def stay(broker, client_id, qos, until):
    client = come(broker, client_id, qos)
    time.sleep(until - time.monotonic())
    client.reset()


def come_again(broker, client_id, qos, until):
    while time.monotonic() < until:
        client = come(broker, client_id, qos)
        # Closed in order, so that all that it sent is there to be read.
        client.send(wire.disconnect(V5))
        client.close()


def take_over(broker, client_id, qos, until):
    client = None
    while time.monotonic() < until:
        before, client = client, come(broker, client_id, qos)
        if before:
            before.close()
    client.close()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("how", [stay, come_again, take_over], ids=lambda how: how.__name__)
def test_a_client_is_taken_no_faster_than_its_rate(broker, how, qos):
    before, begun = received(broker), time.monotonic()
    how(broker, "same", qos, begun + SECONDS)
    taken, passed = received(broker) - before, time.monotonic() - begun
    # A burst of one second and one packet; a second more for what passes between two looks.
    assert RATE < taken <= RATE * (passed + 2) + 1, f"{taken} messages in {passed:.1f} s"


def test_clients_without_a_name_are_one_at_their_address(broker):
    before, begun = received(broker), time.monotonic()
    come_again(broker, "", 0, begun + SECONDS)
    taken, passed = received(broker) - before, time.monotonic() - begun
    assert RATE < taken <= RATE * (passed + 2) + 1, f"{taken} messages in {passed:.1f} s"


def test_other_clients_owe_nothing(broker):
    come(broker, "one", 0).close()
    before = received(broker)
    come(broker, "other", 0)
    deadline = time.monotonic() + 10
    while received(broker) < before + RATE:
        assert time.monotonic() < deadline
        time.sleep(0.05)
