"""Inputs that have made other brokers keep memory for ever, by the names of their advisories.

Each sends several megabytes, twice: after the second time the broker has allocated no more than after the first, save for a bound that
a tenth of what was sent would exceed.
"""

import contextlib
import time

import pytest
import wire
from broker import until
from wire import V5

pytestmark = pytest.mark.courser

KIB = 1 << 10
KEPT = 256 * KIB


@pytest.fixture
def leaks(brokers, raw):
    """Requires of a round, which gives how many bytes it has sent, that it leaves nothing."""
    raw.broker = brokers.common(sys_interval=0)

    def check(one_round):
        one_round()
        rest = at_rest(raw.broker)
        sent = one_round()
        assert sent > 10 * KEPT, f"too little to tell: {sent}"
        until(lambda: raw.broker.heap_bytes() < rest + KEPT, f"{sent} bytes were sent, and more than {KEPT} are kept")

    yield check
    raw.broker.check_alive()


def at_rest(broker):
    """The least that it has allocated in a second in which that did not fall: what it frees later is not taken for a leak of the round before."""
    least, since = broker.heap_bytes(), time.monotonic()
    while time.monotonic() - since < 1:
        time.sleep(0.05)
        if (now := broker.heap_bytes()) < least:
            least, since = now, time.monotonic()
    return least


def refused(raw, packet):
    """Sends a first packet that ends its connection."""
    client = raw.open()
    raw.made.remove(client)
    with contextlib.suppress(OSError):
        client.send(packet)
    client.read_all()
    client.close()
    return len(packet)


def test_cve_2017_7654_2021_34431_crafted_connects(raw, leaks):
    """A thousand CONNECTs that break off at all places leak nothing."""
    whole = wire.connect(
        raw.version, "leak", username="u" * 2000, password=b"p" * 2000, will=wire.Will("w", b"x" * 4000),
        properties={"session_expiry": 5, "user_property": ("k", "v")} if raw.v5 else (),
    )  # fmt: skip
    body = whole[3:]
    # Each byte of what comes before the long fields, and then some.
    lengths = [*range(60), *range(60, len(body), 9)]
    leaks(lambda: sum(refused(raw, wire.packet(wire.CONNECT, body[:length])) for length in lengths))


def test_cve_2023_28366_qos2_ids_repeated(raw, leaks):
    """The same QoS 2 id sent 20,000 times, and PUBREC never answered, takes no memory while the client is there."""
    client = raw.connect("attacker")
    packet = wire.publish(raw.version, raw.topic("q"), b"x" * 400, qos=2, packet_id=1)

    def one_round():
        for _ in range(200):
            client.send(packet * 50)
            for _ in range(50):
                client.expect(wire.PUBREC, packet_id=1)
        return 10_000 * len(packet)

    leaks(one_round)


@pytest.mark.v5
def test_cve_2023_3592_will_properties(raw, leaks):
    """A thousand wills with properties of wrong types leak nothing."""
    long = wire.prop("user_property", ("k", "v" * 500)) * 10

    def one_round():
        wills = (wire.Will("w", b"x", properties=long + bytes([number % 256, 0, 1])) for number in range(1000))
        return sum(refused(raw, wire.connect(V5, "w", will=will)) for will in wills)

    leaks(one_round)


def test_nats_cve_2026_58210_partial_connects(raw, leaks):
    """Five hundred CONNECTs with the end of their 16 KiB missing leave nothing when they go, and others get in meanwhile."""
    part = b"\x10\x80\x7f\0\x04MQTT" + bytes([raw.version]) + b"\x02\0\x3c" + b"\0" * 12_000

    def one_round():
        clients = [raw.open() for _ in range(500)]
        for client in clients:
            client.send(part)
        raw.connect("meanwhile").ping()
        raw.release()
        raw.made.clear()
        return 500 * len(part)

    leaks(one_round)


def test_partial_connects_are_not_given_what_they_announce(raw, brokers):
    """While five hundred CONNECTs of 16 KiB are there with their first bytes only, they hold no quarter of what they have announced."""
    raw.broker = brokers.common(sys_interval=0)
    before = at_rest(raw.broker)
    for _ in range(500):
        raw.open().send(b"\x10\x80\x7f\0\x04MQTT" + bytes([raw.version]) + b"\x02\0\x3c")
    raw.connect("meanwhile").ping()
    assert raw.broker.heap_bytes() - before < 500 * 4 * KIB
