"""Packets, and records of TLS, that are begun and stop or trickle, on many connections and each of them small: what they hold is given back, and others are
served again."""

import contextlib
import time

import pytest
import wire
from test_memory import IN_A_ROW, MIB, QUOTA, Client, Server, subscribed
from test_memory_held import Sealed

pytestmark = pytest.mark.courser

# Below what is closed at once, and together more than there is.
BEGUN, LASTS, MANY = 12_000, 60, 3_000
# What comes of a packet in so many seconds: more than keeps it from counting as stuck.
TRICKLE, PAUSE = 1_010, 25


class Plain(Client):
    """Its packet goes on."""

    def __init__(self, server, client_id):
        super().__init__(server.port, client_id)

    def begin(self):
        self.send(wire.packet(3, wire.text("begun") + b"\0" + b"b" * 15_900)[:BEGUN])

    def go_on(self):
        self.send(b"b" * TRICKLE)


class Secret(Sealed):
    """Its record ends, which also keeps it from counting as stuck, and the next one begins."""

    def begin(self):
        super().begin(BEGUN)

    go_on = begin


# Who begins something.
DOORS = {"mqtt": Plain, "mqtts": Secret}


def begin(server, kind):
    """Clients, each with something that has begun, until no more come in, and not only for a moment."""
    others, refused = [], 0
    for number in range(MANY):
        refused += 1
        with contextlib.suppress(OSError, IndexError, EOFError):
            client = kind(server, f"c{number}")
            if client.reason:
                client.close()
            else:
                refused = 0
                others.append(client)
                client.begin()
        if refused == IN_A_ROW:
            return others
    pytest.fail("memory is not short")


def go_on(others):
    for client in others:
        with contextlib.suppress(OSError):
            client.go_on()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("stops", [True, False])
def test_small_things_that_stop_or_trickle_shut_nobody_out(tmp_path, door, stops):
    server = Server(tmp_path, 48 * MIB)
    healthy = Client(server.port, "healthy")
    assert subscribed(healthy, 1, ["here"]) == [1]
    others = begin(server, DOORS[door])
    begun = sent = time.monotonic()
    reasons = []
    while time.monotonic() < begun + LASTS:
        if not stops and time.monotonic() > sent + PAUSE:
            sent = time.monotonic()
            go_on(others)
        reasons.append(healthy.publish("here", b"x"))
        if reasons[-20:] == [0] * 20:
            break
        time.sleep(0.05)
    assert set(reasons) <= {0, QUOTA}
    assert reasons[-20:] == [0] * 20, "it is served again"
    print(f"{len(others)} clients; served after {time.monotonic() - begun:.0f} s, {reasons.count(QUOTA)} refused")
    for client in others:
        client.close()
    code, log = server.stop()
    assert code == 0, log
