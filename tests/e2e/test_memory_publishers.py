"""What publishers see of `memory.max`: near it they are read less and refused, and when there is room again they go on as before.

Packets that do not end take the memory up, each too short for that its client is closed for it. And what `memory.max` is where nobody has set it.
"""

import re
import time

import groups
import pytest
import wire
from broker import Courser
from doors import running
from test_memory import MIB, QUOTA, SMALL, Client, Server

pytestmark = pytest.mark.courser

# At most one read of a publisher in this time while memory is short (docs/limits.md), a little less for how ticks are rounded.
PAUSE_SECONDS = 0.018
# What one client sends of a packet that does not end: while memory is short, who is in the middle of one with 16 KiB is closed.
UNFINISHED = 15_000
# As many as may hold all of the budget, and how many go on at once: few, since what is a little above where refusals begin closes new sockets unanswered.
HOLDERS, TOGETHER = SMALL // UNFINISHED, 4
SERVED = 0
TOPIC = "t"
PATIENCE = 30


def unfinished():
    """The beginning of a PUBLISH."""
    return wire.packet(3, wire.text("much") + bytes(2 * UNFINISHED))[:UNFINISHED]


@pytest.mark.timeout(180)
def test_a_publisher_is_read_less_then_refused_then_served(tmp_path):
    """Its acknowledgements say 0x97 and come one in 20 ms; once others have gone they say again what they said before."""
    server = Server(tmp_path, SMALL)
    holders = []
    try:
        # What nobody gets takes no memory and is not refused.
        reader = Client(server.port, "reader")
        assert reader.subscribe(TOPIC, qos=0) == 0
        publisher = Client(server.port, "publisher")
        assert publisher.publish(TOPIC, b"x") == SERVED
        # Some of them in a row, so that it is not only for the packet that has just come.
        holders = [Client(server.port, f"holder-{number}") for number in range(HOLDERS)]
        assert not any(holder.reason for holder in holders)
        left = list(holders)
        while not all(publisher.publish(TOPIC, b"x") == QUOTA for _ in range(5)):
            assert left, "it is refused before what its holders have begun is all of the budget"
            for _ in range(min(TOGETHER, len(left))):
                left.pop().send(unfinished())
        began = time.monotonic()
        codes = {publisher.publish(TOPIC, b"x") for _ in range(26)}
        took = time.monotonic() - began
        assert codes == {QUOTA}
        # A machine that is slow for other reasons takes longer, never less.
        assert took >= 25 * PAUSE_SECONDS, f"26 publishes were read in {took:.3f} s"
        assert Client(server.port, "new").reason == QUOTA
        while holders:
            holders.pop().close()
        deadline = time.monotonic() + PATIENCE
        while publisher.publish(TOPIC, b"x") != SERVED:
            assert time.monotonic() < deadline, "there is room again, and it is refused"
        assert Client(server.port, "after").reason == 0
    finally:
        for holder in holders:
            holder.close()
        code, log = server.stop()
    assert code == 0, log
    slowed = re.search(r"publishers_slowed=(\d+)", log)
    assert slowed and int(slowed.group(1)) >= 25, log
    assert "event=memory_full" in log


def test_without_a_setting_it_is_sixty_percent_of_the_group(tmp_path):
    """In a control group of 512 MiB the server says 307, whatever the machine has."""

    class InGroup(Courser):
        def command(self):
            # Joins before it is the server.
            return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group), *super().command()]

    try:
        with groups.memory_group(512 * MIB) as group, running(InGroup, tmp_path / "broker") as broker:
            assert "memory: at most 307 MiB\n" in broker.output()
    except groups.CannotMake as reason:
        pytest.skip(f"no control group can be made here: {reason}")
