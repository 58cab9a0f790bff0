"""That work for those who have not logged in is done off the shards: no turn of a shard takes long meanwhile.

It is the CPU time of a turn that counts, so a machine that is busy with other things changes nothing.
"""

from __future__ import annotations

import contextlib
import re
import urllib.request

# One password of an account takes more to compare.
TURN_SECONDS = "0.01"
# A virtual machine counts some of its own pauses as time of the thread that it stops. Work of this kind on a shard would be dozens of turns.
PAUSES_MAX = 3


def long_turns(broker) -> int:
    """Turns of all shards since the start that took more than that."""
    with urllib.request.urlopen(f"{broker.http}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    total = re.search(r"^courser_shard_turn_seconds_count (\d+)$", text, re.MULTILINE)
    short = re.search(rf'^courser_shard_turn_seconds_bucket{{le="{TURN_SECONDS}"}} (\d+)$', text, re.MULTILINE)
    return int(total[1]) - int(short[1])


@contextlib.contextmanager
def only_short_turns(broker):
    before = long_turns(broker)
    yield
    more = long_turns(broker) - before
    assert more <= PAUSES_MAX, f"{more} turns of shards took more than {TURN_SECONDS} s of CPU time"
