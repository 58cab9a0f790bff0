"""Sessions of clients that are away fill no memory, however little there is: new ones that stay are refused before connections would be.

The control groups are those of test_memory.py, where one session with much is the flood; here each has ten subscriptions."""

import time

import groups
import pytest
import wire
from test_memory import (
    IN_A_ROW,
    KEPT,
    LASTS,
    MIB,
    QUOTA,
    Client,
    Healthy,
    Server,
    end_queued,
    end_retained,
    end_sessions,
    flood_retained,
    queue,
    subscribed,
    until_refused,
)

pytestmark = pytest.mark.courser


def leave(client):
    client.send(wire.packet(14, b""))
    client.close()


def flood_absent(server, healthy):
    """Sessions that stay, of clients that go at once, until there is no room for one more: their names."""
    names, refused = [], 0

    def step(number):
        nonlocal refused
        if number % 50 == 0:
            healthy.is_served()
        client = Client(server.port, f"s{number}", properties=KEPT)
        assert client.reason in (0, QUOTA), f"{client.reason:#x}"
        if client.reason:
            refused += 1
            client.close()
            time.sleep(0.1)
        else:
            refused = 0
            names.append(f"s{number}")
            subscribed(client, 1, [f"fleet/{number}/{it}" for it in range(10)])
            leave(client)
        return refused == IN_A_ROW

    until_refused(step, server.max_bytes >> 10)
    passing = Client(server.port, "comes and goes")
    assert passing.reason == 0
    assert subscribed(passing, 1, ["here"]) == [1], "who ends with the connection subscribes"
    leave(passing)
    again = Client(server.port, names[0], clean=False, properties=KEPT)
    assert again.reason == 0, "who has one comes in"
    leave(again)
    return names


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mib", [32, 64])
def test_sessions_fill_no_memory_of_the_smallest_control_groups(tmp_path, mib):
    """Alone, and beside what waits and what is retained."""
    try:
        with groups.memory_group(mib * MIB) as group:
            server = Server(tmp_path, None, group)
            try:
                with Healthy(server.port) as healthy:
                    names = flood_absent(server, healthy)
                    healthy.is_served(LASTS, 60)
                    end_sessions(server, names)
                    print(f"{len(names)} sessions")
                    # All that is kept on purpose, at once.
                    queuer, waiting = queue(server, healthy)
                    retainers = flood_retained(server, healthy)
                    names = flood_absent(server, healthy)
                    healthy.is_served(LASTS, 60)
                    print(f"{len(names)} sessions beside {waiting} messages; peak {server.peak_own >> 20} of {server.max_bytes >> 20} MiB")
                    # Nobody is shut out who comes to take it away.
                    end_sessions(server, names)
                    end_queued(server, [queuer])
                    end_retained(server, retainers)
                assert healthy.refused == 0
            finally:
                code, log = server.stop()
    except groups.CannotMake as reason:
        pytest.skip(f"no control group can be made here: {reason}")
    assert code == 0, log
    assert "sessions_full" in log and "memory_full" not in log, log
    # The kernel takes pages of the program's own file away, and counts them for who has read them first.
    assert server.peak_own <= server.max_bytes * 1.15, f"{server.peak_own >> 20} MiB: {log}"
