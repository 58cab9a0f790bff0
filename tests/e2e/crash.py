"""Kills the broker again and again under load from real clients, and checks what it promised.

    COURSER_BIN=target/release/courser tests/e2e/run.sh crash --cycles 25

Publishers of QoS 1 and 2 and subscribers with sessions that outlive connections (paho, which keeps its half of every
exchange in memory) run all the time. Each cycle lets them work for a moment, ends the broker's process with SIGKILL (now
and then with SIGTERM or in the middle of such a stop, now and then again in the middle of its recovery) and starts it on the same folder and port. After
each round of cycles the publishers rest until everything is acknowledged, and then:

- I1: what was acknowledged has reached every subscriber, also the one that was away;
- I3: of one publisher at one QoS, messages came first in the order in which they were sent;
- I4: what was published at QoS 2 came to a subscriber of QoS 2 exactly once.

What else touches the log is at work all the while: checkpoints; the cleaner, since of each segment only what is for the absent subscriber
is needed; the scrub, which must find nothing; the reading of what is only in the log, since in every other round of each kind hardly
anything that waits may be in memory; backups, one after the other, which kills end as well. The last one of a round is made of the broker
that has all, and is verified, pruned and restored: a broker on that, with another number of shards, must have what the absent subscriber waits
for. Retained messages go when they are too old, all of them. In one cycle of a round a partition is set aside for a while (`crash_aside.py`).
How often each has come to its end is printed.

Five of 25 cycles are on a small disk (`crash_full.py`) that is filled while one subscriber is away, and drained by it; the kill comes while it
fills, when it is full, or in the middle of draining it. The same promises hold, and when it is drained publishes are accepted again within 5 s.
Where no small file system can be made these are cycles like the others, and a line says so.

Rounds are counted in a file, so that a run that was ended goes on where it was. A violation ends the run with code 1 and
keeps the folder; the seed of the kill times is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from broker import Courser
from crash_aside import set_aside
from crash_clients import COUNTED, PATIENCE, Publisher, Retainer, Subscriber, Violation, Work, memory_of_round, wait_for
from crash_full import FullRound
from small_disk import NoSmallDisk

# Cycles of a round with room, and of one on a small disk, which is filled and drained in each of them.
ROUND, FULL_ROUND = 20, 5
# The cycle of a round in which a partition is set aside.
SET_ASIDE = 4
# Fewer cycles may not come to all of it.
BOTH_KINDS = ROUND + FULL_ROUND
# The absent session keeps all of a round: on a fast machine that is more than a session may by default.
LIMITS = {"queue_messages": 10_000_000, "queue_bytes": "4GiB"}
# What comes to its end in rounds of both kinds, and what is printed.
ALWAYS = [*COUNTED, "backups", "set aside", "too old"]
WORK = [*ALWAYS, "full disks"]
# Retained messages go after so many seconds.
RETAINED_SECONDS = 1
# A broker on what was restored has one of these numbers of shards.
SHARDS = (1, 3, 5)


class Round:
    """Some cycles on one data folder, then the check."""

    def __init__(self, folder: Path, seed: int, is_tight: bool):
        self.random = random.Random(seed)
        # The end of a process takes nothing from what is only written: half of the sessions are relaxed.
        classes = ", ".join('{ filter = "%s", class = "relaxed" }' % name for name in ("sub2", "pub1", "pub2"))
        settings = {"checkpoint_bytes": "1MiB", "sys_interval": 0, "classes": classes}
        beside = {
            "scrub_period": "1s", "backup_folders": '"backups"', "retained_age": RETAINED_SECONDS, **memory_of_round(is_tight)
        }
        (folder / "backups").mkdir(parents=True)
        self.broker = Courser(folder, {**settings, **LIMITS, **beside})
        self.work = Work(self.broker)
        self.broker.keep_port = True
        self.broker.start()
        port = self.broker.port
        self.subscribers = [Subscriber(f"sub{qos}", qos).subscribe(port) for qos in (1, 2)]
        # A quarter of what is published: the rest of a segment is dead soon, and the cleaner moves this.
        self.absent = Subscriber("absent", 2, "crash/pub0/1").subscribe(port)
        self.absent.leave()
        self.publishers = [Publisher(port, f"pub{number}", 1 + number % 2) for number in range(4)]
        self.retainer = Retainer(self.broker)
        self.lives = 0
        self.stopping = False
        self.thread = threading.Thread(target=self.publish)
        self.thread.start()

    def publish(self) -> None:
        while not self.stopping:
            for publisher in self.publishers:
                publisher.work()
            time.sleep(0.002)

    def cycle(self) -> None:
        # Now and then, and once for certain, it lives long enough to have something to clean and to have read all of it.
        self.lives += 1
        is_long = self.lives == ROUND // 2 or self.random.random() < 0.1
        time.sleep(self.random.uniform(1.5, 3) if is_long else self.random.uniform(0.05, 0.6))
        kind = signal.SIGTERM if self.random.random() < 0.1 else signal.SIGKILL
        self.broker.check_alive()
        self.work.look()
        self.retainer.retain()
        if self.lives == SET_ASIDE:
            return set_aside(self.work, self.random)
        if self.random.random() < 0.2:
            self.work.begin_backup()
            time.sleep(self.random.uniform(0, 0.2))
        if kind == signal.SIGTERM and self.random.random() < 0.5:
            # In the middle of the stop, which may be saving partitions.
            self.broker.process.send_signal(kind)
            time.sleep(self.random.uniform(0, 0.05))
            self.broker.stop(signal.SIGKILL)
            return self.broker.start()
        code = self.broker.stop(kind)
        assert code == (0 if kind == signal.SIGTERM else -signal.SIGKILL), f"the broker ended with {code}"
        if self.random.random() < 0.3:
            self.broker.spawn()
            time.sleep(self.random.uniform(0, 0.1))
            self.broker.stop(signal.SIGKILL)
        self.broker.start()

    def check(self) -> int:
        """Waits until all is acknowledged and delivered; the number of messages."""
        self.stopping = True
        self.thread.join()
        self.rest()
        self.work.counts["too old"] += self.retainer.wait_until_gone()
        self.work.last_backup()
        self.check_restored()
        self.absent.connect(self.broker.port)
        everybody = [*self.subscribers, self.absent]
        wait_for(everybody, self.publishers)
        # Nothing may come a second time behind the last one.
        time.sleep(0.3)
        self.work.look()
        for subscriber in everybody:
            subscriber.check(self.publishers)
        return sum(publisher.next for publisher in self.publishers)

    def rest(self) -> None:
        """All that was published is acknowledged."""
        deadline = time.monotonic() + PATIENCE
        while any(publisher.open for publisher in self.publishers):
            for publisher in self.publishers:
                publisher.look()
            if time.monotonic() > deadline:
                raise Violation(f"I13: not acknowledged: {[len(publisher.open) for publisher in self.publishers]}")
            time.sleep(0.01)

    def check_restored(self) -> None:
        """A broker on what was restored, with the same limits and other shards, gives the absent subscriber all that waits for it."""
        shards = self.random.choice(SHARDS)
        settings = {"data": str(self.broker.folder / "restored"), "sys_interval": 0, "shards": shards, **LIMITS}
        restored = Courser(self.broker.folder / "from-backup", settings)
        restored.start()
        again = Subscriber(self.absent.name, self.absent.qos, self.absent.topics)
        again.connect(restored.port)
        try:
            wait_for([again], self.publishers)
        finally:
            again.leave()
            restored.stop()

    def end(self) -> None:
        self.stopping = True
        self.thread.join()
        for client in [*(p.client for p in self.publishers), *(s.client for s in self.subscribers), self.absent.client]:
            client.disconnect()
            client.loop_stop()
        self.broker.stop()


def begin(folder: Path, seed: int, done: int, wanted: int) -> tuple[Round | FullRound, int]:
    """The next round after so many cycles, and how many it has."""
    before, at = divmod(done, BOTH_KINDS)
    is_full = at >= ROUND
    # One of the two rounds, in turns: so few cycles as CI has come to a tight one too.
    is_tight = (before % 2 == 1) == is_full
    if not is_full:
        return Round(folder, seed, is_tight), min(ROUND - at, wanted - done)
    cycles = min(BOTH_KINDS - at, wanted - done)
    try:
        return FullRound(folder, seed, is_tight), cycles
    except NoSmallDisk as error:
        print(f"skipped: full disks: {error}", flush=True)
        shutil.rmtree(folder)
        return Round(folder, seed, is_tight), cycles


def failed(why: str, passed: int, begun: float) -> int:
    """Says it as a test runner does, so that whoever counts can name it."""
    print(f"FAILED crash.py: {why}\n1 failed, {passed} passed in {time.monotonic() - begun:.1f}s", flush=True)
    return 1


def run(arguments: argparse.Namespace) -> int:
    begun = time.monotonic()
    build = Path(os.environ.get("E2E_BUILD", "target/e2e")) / "crash"
    build.mkdir(parents=True, exist_ok=True)
    state_file = build / "state.json"
    state = {"cycles": 0, "messages": 0}
    if arguments.resume and state_file.exists():
        state = json.loads(state_file.read_text())
    while state["cycles"] < arguments.cycles:
        seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 32)
        folder = build / f"round-{os.getpid()}-{state['cycles']}"
        found, cycles = begin(folder, seed, state["cycles"], arguments.cycles)
        try:
            for _ in range(cycles):
                found.cycle()
            messages = found.check()
        except Exception as error:  # Whatever it is: clients whose round nobody ends would keep the process.
            names = ["sub1", "sub2", found.absent.name, *(publisher.topic.split("/")[1] for publisher in found.publishers)]
            print(found.broker.tail(), found.work.says_of(names), sep="\n", flush=True)
            code = failed(f"seed {seed}, folder {folder}: {error!r}", state["cycles"], begun)
            found.end()
            return code
        found.end()
        shutil.rmtree(folder)
        counts = state.get("work", {})
        work = {name: counts.get(name, 0) + found.work.counts[name] for name in WORK}
        longest = max(state.get("longest", 0.0), found.work.longest)
        state = {"cycles": state["cycles"] + cycles, "messages": state["messages"] + messages, "work": work, "longest": longest}
        state_file.write_text(json.dumps(state))
        did = ", ".join(f"{count} {name}" for name, count in sorted(work.items()))
        print(f"{state['cycles']} of {arguments.cycles} cycles, {state['messages']} messages, {did}, "
              f"full disks took messages again after {longest:.2f} s at most, seed {seed}", flush=True)
    idle = [name for name in ALWAYS if state["cycles"] >= BOTH_KINDS and not state["work"][name]]
    if idle:
        return failed(f"never at work: {', '.join(idle)}", state["cycles"], begun)
    print(f"{state['cycles']} passed in {time.monotonic() - begun:.1f}s", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=25, help="kills, those of earlier runs included with --resume")
    parser.add_argument("--resume", action="store_true", help="go on counting where the last run ended")
    parser.add_argument("--seed", type=int, help="of the moments of the kills")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
