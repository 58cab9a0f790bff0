"""Packets that are begun and do not end, on many connections and each of them small: what they hold is given back, and others are served again."""

import contextlib
import time

import pytest
import wire
from test_memory import MIB, QUOTA, Client, Server, subscribed

pytestmark = pytest.mark.courser

# Below what is closed at once, and together more than there is.
BEGUN, LASTS, MANY = 12_000, 60, 3_000
# What comes of each packet in so many seconds: more than keeps it from counting as stuck.
TRICKLE, PAUSE = 1_010, 25


def begin(server):
    """Clients, each with a packet that has begun, until one more is refused."""
    others = []
    for number in range(MANY):
        with contextlib.suppress(OSError, IndexError):
            client = Client(server.port, f"c{number}")
            others.append(client)
            if client.reason:
                break
            client.send(wire.packet(3, wire.text("begun") + b"\0" + b"b" * 15_900)[:BEGUN])
    else:
        pytest.fail("memory is not short")
    return others


def trickle(others):
    for client in others:
        with contextlib.suppress(OSError):
            client.send(b"b" * TRICKLE)


@pytest.mark.parametrize("goes_on", [False, True])
def test_small_packets_that_do_not_end_shut_nobody_out(tmp_path, goes_on):
    server = Server(tmp_path, 48 * MIB)
    healthy = Client(server.port, "healthy")
    assert subscribed(healthy, 1, ["here"]) == [1]
    others = begin(server)
    begun = sent = time.monotonic()
    reasons = []
    while time.monotonic() < begun + LASTS:
        if goes_on and time.monotonic() > sent + PAUSE:
            sent = time.monotonic()
            trickle(others)
        reasons.append(healthy.publish("here", b"x"))
        if reasons[-20:] == [0] * 20:
            break
        time.sleep(0.05)
    assert set(reasons) <= {0, QUOTA}
    assert reasons[-20:] == [0] * 20, "it is served again"
    print(f"{len(others)} clients; served after {time.monotonic() - begun:.0f} s")
    for client in others:
        client.close()
    code, log = server.stop()
    assert code == 0, log
