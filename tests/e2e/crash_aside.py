"""A cycle in which a start hears that the program has panicked twice at an entry (M50): the partition of that entry is set aside and refuses, the
others serve under load, and retried it has all that it had.

The panics are planted: what two of them leave behind is the file DATA/crash.
"""

from __future__ import annotations

import json
import random
import signal
import time
import urllib.error
import urllib.request

from crash_clients import PATIENCE, Violation, Work


def last_entry(work: Work) -> tuple[int, int] | None:
    """Partition and index of the last entry of the log that says something to its partition."""
    for segment in sorted((work.broker.folder / "data" / "log").glob("*.seg"), reverse=True):
        lines = work.courser("inspect", "segment", str(segment), "--records", "--json").stdout.splitlines()
        for line in map(json.loads, reversed(lines)):
            if line["is"] == "record" and line["kind"] == "entry" and line["bytes"] and line["partition"]:
                return line["partition"], line["index"]
    return None


def serves_partly(work: Work) -> bool:
    try:
        with urllib.request.urlopen(f"{work.broker.http}/readyz?partial", timeout=PATIENCE) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def set_aside(work: Work, moments: random.Random) -> None:
    """Kills the broker, has a partition set aside for a while, and takes it back."""
    broker = work.broker
    assert broker.stop(signal.SIGKILL) == -signal.SIGKILL
    found = last_entry(work)
    if found is None:
        raise Violation("the log of a broker under load has no entry")
    partition, index = found
    (broker.folder / "data" / "crash").write_text(f"apply {partition} {index}\n" * 2)
    broker.start()
    deadline = time.monotonic() + PATIENCE
    while not serves_partly(work):
        if time.monotonic() > deadline:
            raise Violation("I10: what is not set aside does not serve")
        time.sleep(0.02)
    # Its checkpoint may have come to that entry: then nothing is to be applied.
    work.counts["set aside"] += int(broker.metric("courser_partitions_set_aside"))
    time.sleep(moments.uniform(0.1, 0.5))
    work.look()
    broker.check_alive()
    assert broker.stop(signal.SIGKILL) == -signal.SIGKILL
    done = work.courser("repair", "data", "--retry", str(partition))
    if done.returncode:
        raise Violation(f"repair --retry {partition}: {done.stdout}{done.stderr}")
    broker.start()
    if broker.metric("courser_partitions_set_aside"):
        raise Violation(f"partition {partition} is retried and stays aside")
