#!/usr/bin/env python3
"""What durable messages cost beside CPU time: how many share a sync, how long one waits for it, how fast a start is.

    bench/disk.py                                   all of it: about seven minutes
    bench/disk.py --only stop-and-wait --only tail  some of it
    bench/disk.py --only recovery --references 1000000 --distinct 10000000
    bench/disk.py --only stop-and-wait --add 'bare=/path/bare-relay-synced {port} {folder}/log'

| part | what is measured | limit |
|---|---|---|
| saturated | acknowledged messages for each sync, 64 pairs with a window of 50 | at least 64 |
| stop-and-wait | p50 to the acknowledgement of one message at a time | p50 of a bare write and sync of the same run, and 60 µs |
| tail | p99.9 from sending to the acknowledgement at half of what saturates, windows of 100 | 3 times the broker's own p99.9 of a commit |
| | the longest within 5 ms of a segment's end or a checkpoint | twice the p99.9 elsewhere |
| cleaner | CPU for each message while two fifths of all that is published stay | 1.25 times that without a cleaner |
| | p99.9 to the acknowledgement of the others | 1.5 times that without |
| recovery | a start after kill -9, with checkpoints and by the log alone; the first one | 2 s with all references, or 1,000,000 records/s; 1 s |
| | the same where each message waits for one session; what a turn does for a checkpoint | 2 s; 200 µs |

One message at a time is also measured with a single shard, without a sync, and with what `--add` names, such as a relay that does no more than
write, sync and answer: what the machine takes for the two wakes of a thread that syncs for another one. The tail is also measured in an open loop, from when
a message was due, without a limit, and says for how long nobody was acknowledged: a disk or a machine that stands still delays all that is due meanwhile,
which is much more than a thousandth of the messages, while it is one commit of thousands.

The cleaner has no switch: without it there is one segment that is never full, and all else is the same, checkpoints too. Segments of 1 MiB are
many times smaller than those of the settings, so there is as much more to do for each message. Both brokers are loaded in turns.

Every part starts a broker of its own in an empty folder. The broker's own counters are those under `$SYS/broker/disk`. Ends with 1 if
a limit is not kept or a message was lost.
"""

from __future__ import annotations

import argparse
import bisect
import concurrent.futures
import contextlib
import csv
import dataclasses
import itertools
import json
import mmap
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Callable

import watch
import wire
from brokers import KINDS, TARGET, Broker, Kind, custom, free_port, longest, metrics, raise_open_files
from rows import paced
from wire import Peer

GENERATOR = TARGET / "release" / "courser"
LOAD_SECONDS_MAX = 500
# Reports come this often; the last one before a figure is read is not older.
REPORT_SECONDS = 0.5
NEAR_NS = 5_000_000
EXPIRY_SECONDS = 3600


@dataclasses.dataclass
class Verdict:
    """Lines of a part, and whether its limits were kept."""

    lines: list[str] = dataclasses.field(default_factory=list)
    kept: bool = True

    def say(self, text: str) -> None:
        self.lines.append(text)

    def limit(self, text: str, kept: bool) -> None:
        self.lines.append(f"{text}: {'pass' if kept else 'FAIL'}")
        self.kept &= kept


Parts = dict[str, Callable[[argparse.Namespace], Verdict]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], choices=sorted(PARTS))
    parser.add_argument("--seconds", type=float, default=10.0, help="measured seconds of each load")
    parser.add_argument("--references", type=int, default=10_000_000, help="stored references of the recovery")
    parser.add_argument("--sessions", type=int, default=1_000, help="sessions that share them")
    parser.add_argument("--distinct", type=int, default=0, help="messages that wait for one session each, such as 10000000")
    parser.add_argument("--records", type=int, default=1_000_000, help="messages that are replayed without a checkpoint")
    parser.add_argument("--add", action="append", default=[], metavar="NAME=COMMAND", help="a broker that is measured one at a time as well")
    return parser.parse_args()


def kind(*settings: str) -> Kind:
    """A broker on a disk that reports often."""
    settings = (f'sys.interval="{int(REPORT_SECONDS * 1000)}ms"', *settings)
    chosen = " ".join(f"--set '{setting}'" for setting in settings)
    disk = KINDS["courser-disk"]
    return dataclasses.replace(disk, command=f"{disk.command} {chosen}")


def counters(port: int) -> dict[str, int]:
    """The broker's counters of its disk, not older than a report."""
    time.sleep(2 * REPORT_SECONDS)
    found: dict[str, int] = {}
    with wire.session(port, "bench-counters") as peer:
        peer.send(wire.subscribe(["$SYS/broker/disk/#"], 0))
        peer.socket.settimeout(2 * REPORT_SECONDS)
        try:
            while True:
                packet, _, body = peer.read()
                if packet == wire.PUBLISH:
                    length = int.from_bytes(body[:2], "big")
                    at = 2 + length
                    found[body[2:at].decode().rsplit("/", 1)[1]] = int(body[at + 1 + body[at]:])
        except TimeoutError:
            return found


def load(broker: Broker, *flags: str, kept: bool = True) -> dict[str, float]:
    """`courser bench mqtt` with QoS 1 and 128 bytes, with sessions that are kept on both sides unless told otherwise."""
    sessions = ("--persistent", "--persistent-publishers") if kept else ()
    command = [str(GENERATOR), "bench", "mqtt", "-q", "1", "-s", "128", *sessions, "-V", "311",
               "-p", str(broker.port), "--pid", str(broker.pid), "-o", "jsonl", "--quiet", *paced(*flags)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LOAD_SECONDS_MAX)
    if not done.stdout.strip():
        raise RuntimeError(done.stderr.strip() or "no result")
    return json.loads(done.stdout.strip().splitlines()[-1])


def whole(result: dict[str, float]) -> bool:
    return all(result[name] == 0 for name in ("lost", "duplicates_unmarked", "out_of_order", "foreign", "failures"))


def timed(options: argparse.Namespace) -> tuple[str, ...]:
    return ("-d", str(options.seconds), "--warmup", "1")


def pairs(count: int) -> tuple[str, ...]:
    return ("--publishers", str(count), "--subscribers", str(count), "--topics", str(count))


def saturated(options: argparse.Namespace) -> Verdict:
    verdict = Verdict()
    with Broker(kind()) as broker:
        before = counters(broker.port)
        result = load(broker, *timed(options), *pairs(64), "-w", "50")
        after = counters(broker.port)
    syncs = after["log_syncs"] - before["log_syncs"]
    verdict.say(f"{result['sent']:,.0f} messages acknowledged, {result['sent_per_second']:,.0f} a second, {syncs:,} syncs")
    each = result["sent"] / max(syncs, 1)
    verdict.limit(f"{each:,.0f} messages for each sync, at least 64", each >= 64 and whole(result))
    return verdict


class BareFile:
    """A file whose blocks are written already, and single blocks written to it and synced: what any durable message waits for."""

    BLOCK, BLOCKS = 4096, 4096

    def __init__(self, folder: pathlib.Path) -> None:
        path = folder / "bare"
        path.write_bytes(bytes(self.BLOCK * self.BLOCKS))
        self.file = os.open(path, os.O_RDWR | os.O_DIRECT)
        os.fsync(self.file)
        # Direct writes want their memory at the beginning of a page.
        self.block = mmap.mmap(-1, self.BLOCK)
        self.next = 0

    def commit(self) -> float:
        """Microseconds of one write and one fdatasync."""
        start = time.perf_counter_ns()
        os.pwrite(self.file, self.block, self.next * self.BLOCK)
        os.fdatasync(self.file)
        took = time.perf_counter_ns() - start
        self.next = (self.next + 1) % self.BLOCKS
        return took / 1000

    def commits(self, seconds: float) -> list[float]:
        deadline = time.monotonic() + seconds
        took = []
        while time.monotonic() < deadline:
            took.append(self.commit())
        return took

    def close(self) -> None:
        os.close(self.file)


def one_at_a_time(broker: Broker, options: argparse.Namespace, kept: bool = True) -> dict[str, float]:
    """A burst of one publisher that waits for each acknowledgement."""
    return load(broker, "-w", "1", "-d", str(options.seconds / BURSTS), "--warmup", "0", kept=kept)


def stop_and_wait(options: argparse.Namespace) -> Verdict:
    """Bursts of all of them, in turns, on the same disk: it drifts by more than the difference that matters."""
    verdict = Verdict()
    bare_times: list[float] = []
    p50s: list[float] = []
    without: list[float] = []
    messages = syncs = 0
    good = True
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(Broker(kind()))
        single = dataclasses.replace(kind(), name="a single shard", command=f"{kind().command} --shards 1")
        others = [stack.enter_context(Broker(other)) for other in (single, *map(custom, options.add))]
        of_others: dict[str, list[float]] = {other.kind.name: [] for other in others}
        bare = BareFile(broker.folder)
        for _ in range(BURSTS):
            bare_times += bare.commits(options.seconds / BURSTS)
            before = counters(broker.port)
            result = one_at_a_time(broker, options)
            after = counters(broker.port)
            good &= whole(result)
            p50s.append(result["acknowledgement_p50_us"])
            without.append(one_at_a_time(broker, options, kept=False)["acknowledgement_p50_us"])
            for other in others:
                of_others[other.kind.name].append(one_at_a_time(other, options)["acknowledgement_p50_us"])
            messages += int(result["sent"])
            syncs += after["log_syncs"] - before["log_syncs"]
        bare.close()
    ours, theirs = statistics.median(p50s), statistics.median(bare_times)
    verdict.say(f"bare write and fdatasync of 4 KiB: p50 {theirs:.0f} µs over {len(bare_times):,}")
    verdict.say(f"{messages:,} messages one at a time, {syncs / messages:.2f} syncs for each")
    verdict.say(f"the same with sessions that are not kept, so without a sync: p50 to the acknowledgement {statistics.median(without):.0f} µs")
    for name, times in of_others.items():
        verdict.say(f"the same with {name}, synced: p50 to the acknowledgement {statistics.median(times):.0f} µs")
    verdict.limit(f"p50 to the acknowledgement {ours:.0f} µs, at most {theirs + 60:.0f} µs", ours <= theirs + 60 and good)
    return verdict


def quantile(ordered: list[int], share: float) -> float:
    """Microseconds of a sorted list of nanoseconds."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1000 if ordered else 0.0


@dataclasses.dataclass
class Tail:
    """Acknowledgements of a run at a rate, in nanoseconds: all, those near a change of files, those elsewhere, in order of their length."""

    every: list[int]
    near: list[int]
    far: list[int]
    changes: int
    pauses: tuple[int, float, float]
    commits: dict[str, int]
    whole: bool


def run_tail(rate: float, seconds: float, *flags: str) -> Tail:
    with Broker(kind(*SMALL)) as broker, tempfile.NamedTemporaryFile(suffix=".csv") as file:
        data = broker.folder / "data"
        with watch.Watch(data / "log", data / "checkpoints") as seen:
            result = load(broker, "-d", str(seconds), "--warmup", "1", *pairs(8), "--rate", str(rate), *flags, "--timeline", file.name)
        commits = counters(broker.port)
        with open(file.name, newline="") as lines:
            timeline = [(int(line["at_unix_ns"]), int(line["took_ns"])) for line in csv.DictReader(lines)]
    # The first second is the warm-up.
    begin = min(at for at, _ in timeline) + 1_000_000_000
    moments = sorted(at for at, _, _ in seen.events)
    near: list[int] = []
    far: list[int] = []
    for at, took in timeline:
        if at >= begin:
            (near if is_near(moments, at - took, at) else far).append(took)
    return Tail(sorted(near + far), sorted(near), sorted(far), len(moments), pauses(timeline, begin), commits, whole(result))


def tail(options: argparse.Namespace) -> Verdict:
    verdict = Verdict()
    with Broker(kind(*SMALL)) as broker:
        most = load(broker, *timed(options), *pairs(8))["sent_per_second"]
    rate = most / 2
    seconds = max(options.seconds, ACKNOWLEDGEMENTS_MIN * 1.1 / rate)
    due = run_tail(rate, seconds, "-w", OPEN_WINDOW)
    sent = run_tail(rate, seconds, "--from-sending")
    for name, run in (("when it was due", due), ("its sending", sent)):
        count, longest, share = run.pauses
        commits = run.commits
        verdict.say(f"from {name}: {len(run.every):,} acknowledgements at {rate:,.0f} a second, half of what saturates: p50 {quantile(run.every, 0.5):.0f} µs, "
                    f"p99 {quantile(run.every, 0.99):.0f} µs, p99.9 {quantile(run.every, 0.999):.0f} µs")
        verdict.say(f"  commits: p50 {commits['log_commit_p50_us']} µs, p99 {commits['log_commit_p99_us']} µs, p99.9 {commits['log_commit_p99_9_us']} µs, "
                    f"the longest {commits['log_commit_longest_us'] / 1000:.0f} ms, {commits['log_syncs']:,} syncs; nobody was acknowledged for 5 ms and more "
                    f"{count} times, at most {longest:.0f} ms, {share:.1%} of the time")
    p999, sync = quantile(sent.every, 0.999), sent.commits["log_commit_p99_9_us"]
    verdict.limit(f"p99.9 from sending to the acknowledgement {p999:.0f} µs, at most 3 times a commit's {sync} µs",
                  p999 <= 3 * sync and len(sent.every) >= ACKNOWLEDGEMENTS_MIN and sent.whole and due.whole)
    elsewhere = quantile(sent.far, 0.999)
    worst = sent.near[-1] / 1000 if sent.near else 0.0
    verdict.limit(f"{len(sent.near):,} acknowledgements within 5 ms of {sent.changes:,} changes of segments and checkpoints, the longest "
                  f"{worst:.0f} µs, at most twice the p99.9 elsewhere of {elsewhere:.0f} µs", bool(sent.near) and worst <= 2 * elsewhere)
    return verdict


def pauses(timeline: list[tuple[int, int]], begin: int) -> tuple[int, float, float]:
    """Times of 5 ms and more in which nobody was acknowledged: how many, the longest in milliseconds, and their share of the whole."""
    moments = sorted(at for at, _ in timeline if at >= begin)
    long = [after - at for at, after in itertools.pairwise(moments) if after - at >= NEAR_NS]
    share = sum(long) / max(moments[-1] - moments[0], 1)
    return len(long), max(long, default=0) / 1e6, share


def is_near(moments: list[int], sent: int, acknowledged: int) -> bool:
    """Whether one of the moments lies within the time of a message, or 5 ms of it."""
    first = bisect.bisect_left(moments, sent - NEAR_NS)
    return first < len(moments) and moments[first] <= acknowledged + NEAR_NS


def send_away(broker: Broker, sessions: int, topics: int) -> None:
    """Makes sessions that wait for messages while they are away: with one topic each gets all of them, else each has its own."""
    for batch in wire.batches(sessions, 200):
        peers = [Peer(broker.port) for _ in batch]
        for session, peer in zip(batch, peers):
            peer.send(wire.connect(f"away-{session}", expiry_seconds=EXPIRY_SECONDS)
                      + wire.subscribe([f"stored/+/{session % topics}"], 1))
        for peer in peers:
            peer.welcomed()
            peer.subscribed()
            peer.send(wire.DISCONNECT)
            peer.socket.close()


def store(broker: Broker, sessions: int, messages: int, topics: int) -> None:
    """Messages for sessions that are away."""
    send_away(broker, sessions, topics)
    result = load(broker, "--subscribers", "0", "--prefix", "stored", "--topics", str(topics), "-w", "1000", "-n", str(messages))
    if result["failures"] or result["refused"]:
        raise RuntimeError(f"not everything was stored: {result}")


def restart(broker: Broker) -> tuple[float, float]:
    """Kills the broker and starts it again: seconds until it takes a connection, and its CPU seconds until then."""
    broker.process.send_signal(signal.SIGKILL)
    broker.process.wait()
    start = time.perf_counter()
    broker.start()
    took = time.perf_counter() - start
    return took, wire.cpu_seconds(broker.pid)


def is_kept(port: int) -> bool:
    """Whether a session that was away resumes and is given a message."""
    with Peer(port) as peer:
        peer.send(wire.connect("away-0", clean_start=False, expiry_seconds=EXPIRY_SECONDS))
        if not peer.welcomed():
            return False
        return peer.read()[0] == wire.PUBLISH


def distinct(options: argparse.Namespace, verdict: Verdict) -> None:
    """Each message for one session: there are as many records as references."""
    http = free_port()
    with Broker(kind(f'http.listen="127.0.0.1:{http}"')) as broker:
        store(broker, options.sessions, options.distinct, options.sessions)
        before = counters(broker.port)
        said = metrics(http)
        turn, save = longest(said, "shard_longest_turn_seconds"), longest(said, "shard_longest_save_seconds")
        took, cpu = restart(broker)
        found = counters(broker.port)
        kept = is_kept(broker.port)
    verdict.say(f"{options.distinct:,} messages, each for one of {options.sessions:,} sessions, with checkpoints: {took:.2f} s, {cpu:.2f} s of CPU, "
                f"{found['log_recovered_entries']:,} entries applied; until then {before['checkpoints']:,} checkpoints, {before['checkpoint_bytes']:,} bytes "
                f"beside {before['log_bytes']:,} of the log; longest turn {turn:.0f} µs")
    verdict.limit(f"the longest that a turn did for a checkpoint: {save:.0f} µs, at most 200", save <= 200)
    verdict.limit(f"a start within 2 s ({took:.2f} s)", kept and took <= 2)


def recovery(options: argparse.Namespace) -> Verdict:
    verdict = Verdict()
    if options.distinct:
        distinct(options, verdict)
    messages = options.references // options.sessions
    begun = time.perf_counter()
    with Broker(kind()) as broker:
        first = time.perf_counter() - begun
        verdict.limit(f"the first start, in an empty folder, within 1 s ({first:.2f} s)", first <= 1)
        store(broker, options.sessions, messages, 1)
        took, cpu = restart(broker)
        found = counters(broker.port)
        kept = is_kept(broker.port)
    verdict.say(f"{messages * options.sessions:,} references to {messages:,} messages, {options.sessions:,} sessions, with checkpoints: "
                f"{took:.2f} s, {cpu:.2f} s of CPU, {found['log_recovered_entries']:,} entries applied, "
                f"{messages * options.sessions / took:,.0f} references/s")
    whole_log = ('log.checkpoint_bytes="64GiB"',)
    with Broker(kind(*whole_log)) as broker:
        empty, _ = restart(broker)
        store(broker, REPLAYED_SESSIONS, options.records, REPLAYED_SESSIONS)
        replayed, cpu = restart(broker)
        found = counters(broker.port)
        kept &= is_kept(broker.port)
    each = options.records / max(replayed - empty, 1e-3)
    verdict.say(f"{options.records:,} messages of {REPLAYED_SESSIONS} sessions, without a checkpoint: {replayed:.2f} s beside "
                f"{empty:.2f} s of an empty log, {cpu:.2f} s of CPU, {found['log_recovered_entries']:,} entries applied: {each:,.0f} records/s")
    verdict.limit(f"a start within 2 s ({took:.2f} s), or 1,000,000 records/s ({each:,.0f})",
                  kept and (took <= 2 or each >= 1_000_000))
    return verdict


@dataclasses.dataclass
class Rounds:
    """What rounds of one of two brokers gave that are loaded in turns."""

    broker: Broker
    cpu: list[float] = dataclasses.field(default_factory=list)
    p999: list[float] = dataclasses.field(default_factory=list)
    good: bool = True

    def forget(self) -> None:
        """The first round is not measured."""
        self.cpu.clear()
        self.p999.clear()


class Steady(Rounds):
    """Rounds of the part about the cleaner."""

    def round(self, options: argparse.Namespace, rate: float) -> None:
        """Most is taken at once, the rest stays, at a steady rate together."""
        before = wire.cpu_seconds(self.broker.pid)
        stays = ("--subscribers", "0", "--prefix", "stored", "--publishers", "8", "--topics", str(STAYING), "--rate", str(rate * STAYS))
        taken = (*pairs(8), "--rate", str(rate * (1 - STAYS)))
        with concurrent.futures.ThreadPoolExecutor() as both:
            runs = [both.submit(load, self.broker, "-d", str(options.seconds), "--warmup", "0", "-w", OPEN_WINDOW, *which)
                    for which in (taken, stays)]
            first, second = (run.result() for run in runs)
        messages = first["sent"] + second["sent"]
        self.cpu.append((wire.cpu_seconds(self.broker.pid) - before) / messages * 1e6)
        self.p999.append(first["acknowledgement_p99_9_us"])
        self.good &= whole(first) and not second["failures"] and not second["refused"]


def cleaner(options: argparse.Namespace) -> Verdict:
    verdict = Verdict()
    checkpoints = 'log.checkpoint_bytes="8MiB"'
    with Broker(kind(checkpoints, 'log.segment_bytes="1MiB"')) as cleaned, Broker(kind(checkpoints, 'log.segment_bytes="512MiB"')) as whole_log:
        rate = load(cleaned, "-d", "3", "--warmup", "1", *pairs(8))["sent_per_second"] * CLEANER_LOAD
        with_it, without = Steady(cleaned), Steady(whole_log)
        for one in (with_it, without):
            send_away(one.broker, STAYING, STAYING)
            # Nothing is cleaned before there is something old.
            one.round(options, rate)
            one.forget()
        before = counters(cleaned.port)
        for _ in range(CLEANER_ROUNDS):
            for one in (with_it, without):
                one.round(options, rate)
        after = counters(cleaned.port)
        idle = counters(whole_log.port)["log_cleaned_segments"]
    grown = {name: after[name] - before[name] for name in ("log_bytes", "log_kept_bytes", "log_cleaned_segments", "log_kept_records", "checkpoint_bytes")}
    written, kept, saved = grown["log_bytes"], grown["log_kept_bytes"], grown["checkpoint_bytes"]
    given = max(written - kept, 1)
    verdict.say(f"{rate:,.0f} messages a second, {STAYS:.0%} of them stay; {grown['log_cleaned_segments']:,} segments cleaned, {grown['log_kept_records']:,} "
                f"records moved, write amplification {written / given:.2f}, with the files of checkpoints {(written + saved) / given:.2f}; without: {idle} segments cleaned")
    cpu, cpu_without = statistics.median(with_it.cpu), statistics.median(without.cpu)
    good = with_it.good and without.good and grown["log_cleaned_segments"] > 0 and idle == 0
    verdict.limit(f"{cpu:.2f} s of CPU for a million messages, without {cpu_without:.2f} s: {cpu / cpu_without:.2f} times, at most 1.25",
                  good and cpu <= 1.25 * cpu_without)
    p999, p999_without = statistics.median(with_it.p999), statistics.median(without.p999)
    verdict.limit(f"p99.9 to the acknowledgement {p999:.0f} µs, without {p999_without:.0f} µs: {p999 / p999_without:.2f} times, at most 1.5",
                  p999 <= 1.5 * p999_without)
    return verdict


BURSTS = 5
# Many segments end and many checkpoints are written within a run.
SMALL = ('log.segment_bytes="8MiB"', 'log.checkpoint_bytes="64MiB"')
# Of all that is published so much stays, in as many sessions, at this share of what saturates; measured in so many rounds of each broker.
STAYS = 0.4
STAYING = 50
CLEANER_LOAD = 0.35
CLEANER_ROUNDS = 4
# An open loop must not wait for acknowledgements: with the generator's 100 for each publisher, 800 messages under way would be all, and
# one slow commit more than what is due meanwhile.
OPEN_WINDOW = "16384"
# A session keeps 100,000 messages unless a setting says otherwise.
REPLAYED_SESSIONS = 50
ACKNOWLEDGEMENTS_MIN = 100_000
PARTS: Parts = {
    "saturated": saturated,
    "stop-and-wait": stop_and_wait,
    "tail": tail,
    "cleaner": cleaner,
    "recovery": recovery,
}


def print_parts(parts: Parts, only: list[str], options: argparse.Namespace) -> int:
    """Runs parts, all unless some are named, and prints what they say; 1 if a limit is not kept."""
    if not GENERATOR.exists():
        raise SystemExit("build it first: cargo build --release -p courser")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True)
    print(f"{wire.machine()}; commit {commit.stdout.strip()}; {time.strftime('%Y-%m-%d')}", flush=True)
    good = True
    for name in only or parts:
        verdict = parts[name](options)
        good &= verdict.kept
        print(f"{name}", *(f"  {line}" for line in verdict.lines), sep="\n", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    raise_open_files()
    chosen = arguments()
    sys.exit(print_parts(PARTS, chosen.only, chosen))
