"""What clients have the broker hold for them, whose count says little of what it takes: shared groups of sessions that are away, and topic aliases of
idle connections. Neither shuts anybody out."""

import time

import groups
import pytest
import wire
from raw import RawClient
from test_memory import (
    GROUP,
    IN_A_ROW,
    KEPT,
    LARGE,
    LASTS,
    MIB,
    QUOTA,
    Client,
    Healthy,
    Server,
    end_by_closing,
    end_sessions,
    subscribed,
    until_refused,
)
from wire import CONNACK, V5

pytestmark = pytest.mark.courser

# As many shared groups as a session may have, and how many sessions have them where all of a quarter of a GiB is theirs at a KiB each.
GROUPS, SESSIONS_MOST = 256, 1_000
# Connections that would hold all of the memory with the topic aliases that each may bind.
IDLE, ALIASES, TOPIC_BYTES = 2_400, 32, 4_000


def share(server, healthy):
    """Sessions that stay, each with all the groups that it may have, of clients that go at once: their names."""
    names, refused = [], 0

    def step(number):
        nonlocal refused
        client = Client(server.port, f"g{number}", properties=KEPT)
        healthy.is_served()
        assert client.reason in (0, QUOTA), f"{client.reason:#x}"
        full = client.reason == QUOTA
        if not full:
            names.append(f"g{number}")
            full = QUOTA in subscribed(client, 1, [f"$share/{number}-{it}/q" for it in range(GROUPS)])
        client.close()
        refused = refused + 1 if full else 0
        return refused == IN_A_ROW

    until_refused(step, SESSIONS_MOST)
    # What connected members needed has had time to go.
    healthy.is_served(LASTS, 60)
    passing = Client(server.port, "comes and goes")
    assert passing.reason == 0, "who wants no session that stays comes in"
    assert subscribed(passing, 1, ["here"]) == [1]
    assert passing.publish("here", b"x") == 0
    passing.close()
    return names


def bound(alias):
    """A PUBLISH that binds an alias to a long name."""
    topic = f"t/{alias}/".ljust(TOPIC_BYTES, "x")
    return wire.packet(3, wire.text(topic) + wire.props([("topic_alias", alias)]))


def alias_maximum(server):
    """What one is told who comes now."""
    client = RawClient(("127.0.0.1", server.port), V5)
    client.send(wire.connect(V5, "coming"))
    connack = client.receive()
    client.close()
    assert connack.kind == CONNACK and connack.reason == 0, connack
    return connack.properties.get("topic_alias_maximum", 0)


def alias(server, healthy):
    """Connections that bind all the aliases that they may, and stay."""
    assert alias_maximum(server) == ALIASES
    clients = [Client(server.port, f"a{number}") for number in range(IDLE)]
    assert all(client.reason == 0 for client in clients)
    packets = b"".join(bound(alias) for alias in range(1, ALIASES + 1))
    for number, client in enumerate(clients):
        if number % 100 == 0:
            healthy.is_served()
        try:
            client.send(packets)
        except OSError:
            # It was sent away.
            continue
    healthy.is_served(LASTS, 60)
    assert alias_maximum(server) == 0, "who comes now is told of none"
    return clients


def end_aliases(server, clients):
    """All are gone: there is room again."""
    end_by_closing(server, clients)
    deadline = time.monotonic() + 15
    while alias_maximum(server) == 0:
        assert time.monotonic() < deadline, "the room that was freed is not used"
        time.sleep(0.1)


# How each begins and ends, and what the log says of it.
HELD = {"share": (share, end_sessions, "sessions_full"), "alias": (alias, end_aliases, "aliases_full")}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", HELD)
def test_what_is_held_for_clients_shuts_nobody_out(tmp_path, name):
    """With 256 MiB in a control group of 512 MiB: the process lives, is resident with 1.15 times the number at most, refuses a healthy client nothing, and
    all recovers."""
    begin, end, said = HELD[name]
    try:
        with groups.memory_group(GROUP) as group:
            server = Server(tmp_path, LARGE, group)
            try:
                with Healthy(server.port) as healthy:
                    clients = begin(server, healthy)
                    print(f"{name}: {len(clients)}; peak {server.peak / MIB:.0f} of {LARGE // MIB} MiB")
                    end(server, clients)
                    healthy.is_served()
                assert healthy.refused == 0
            finally:
                code, log = server.stop()
    except groups.CannotMake as reason:
        pytest.skip(f"no control group can be made here: {reason}")
    assert code == 0, log
    assert said in log and "memory_full" not in log, log
    assert server.peak <= LARGE * 1.15, f"{server.peak >> 20} MiB: {log}"
