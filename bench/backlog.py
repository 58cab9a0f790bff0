#!/usr/bin/env python3
"""What a backlog on the disk costs: a large queue that is kept half full, and live traffic while somebody takes an old backlog.

    bench/backlog.py                                both parts: about ten minutes, some 4 GB of disk
    bench/backlog.py --only draining --rounds 5
    bench/backlog.py --only steady --queue-mib 1024

| part | what is measured | limit |
|---|---|---|
| steady | CPU for each message of a queue that is kept half full by producers and consumers at equal rate, with a cleaner and without | 1.25 times |
| | p99.9 to the acknowledgement | 1.5 times |
| draining | CPU for each live message at half of what saturates, while an old backlog is taken and while none is | 1.05 times |

The queue is that of ten sessions. Eight take theirs all the time, oldest first; two take all that waits for them once in eight rounds, so that a fifth of the messages outlive
those around them and the cleaner has to move them, where eight rounds are long enough for the others to take more than twice what waits for them: so with the defaults.
Of a queue that is taken in order alone it has nothing to move, and of a larger one in longer rounds only.

Without a cleaner there is one segment that is never full, as in `bench/disk.py`; both brokers are loaded in turns. While a backlog is taken the
broker's CPU time is that of both; what the same backlog takes at the same pace when nothing else happens is taken off. Ends with 1 if a limit is not
kept or a message was lost.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import select
import statistics
import sys
import time
from collections.abc import Iterable

import wire
from brokers import Broker, raise_open_files
from disk import EXPIRY_SECONDS, OPEN_WINDOW, SMALL, Rounds, Verdict, counters, kind, load, pairs, print_parts, store, whole
from wire import Peer

PAYLOAD_BYTES = 128
# Of what saturates, in messages a second.
STEADY_LOAD, LIVE_LOAD = 0.15, 0.5
# Few sessions, so that each gets as much at a time as the taker's turns allow.
SESSIONS = range(4)
# Those of the queue that is kept half full, with one topic each: who takes at once, and who now and then.
QUICK, LASTING = range(8), range(8, 10)
# Each of the latter takes in one of so many rounds.
LASTING_ROUNDS = 8
ALL = len(QUICK) + len(LASTING)
# Less than wait for a session that takes all, by what the generator may have sent more to others.
SURELY = 0.98
ROOM = ("session.queue_messages_max=10000000", 'session.queue_bytes_max="4GiB"')
# Takers look at their pace this often.
TURN_SECONDS = 0.005


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], choices=sorted(PARTS))
    parser.add_argument("--seconds", type=float, default=8.0, help="measured seconds of each load")
    parser.add_argument("--rounds", type=int, default=LASTING_ROUNDS)
    parser.add_argument("--queue-mib", type=int, default=256, help="size of the queue that is kept half full")
    parser.add_argument("--drained", type=int, default=1_000_000, help="messages of the backlog that is taken")
    return parser.parse_args()


class Taker(Peer):
    """A session that was away, and counts what it is given."""

    def __init__(self, port: int, session: int) -> None:
        super().__init__(port)
        self.send(wire.connect(f"away-{session}", clean_start=False, expiry_seconds=EXPIRY_SECONDS))

    def take(self) -> int:
        """Acknowledges the messages that have come whole; how many these are."""
        self.received += self.socket.recv(1 << 18)
        held, at, answers = bytes(self.received), 0, []
        while len(held) - at >= 3:
            # Nothing here is longer than two digits of length can say.
            head, length = (2, held[at + 1]) if held[at + 1] < 0x80 else (3, held[at + 1] & 0x7F | held[at + 2] << 7)
            end = at + head + length
            if end > len(held):
                break
            if held[at] >> 4 == wire.PUBLISH:
                place = at + head + 2 + (held[at + head] << 8 | held[at + head + 1])
                answers.append(b"\x40\x02" + held[place:place + 2])
            at = end
        del self.received[:at]
        if answers:
            self.send(b"".join(answers))
        return len(answers)


def take(broker: Broker, sessions: Iterable[int], messages: int, seconds: float) -> tuple[float, int]:
    """Takes these messages of some sessions together, or a few more, spread over the time; how long it took, and how many. They wait at the broker and in sockets until then."""
    begun = time.monotonic()
    with select.epoll() as poll:
        takers = {}
        for session in sessions:
            taker = Taker(broker.port, session)
            takers[taker.socket.fileno()] = taker
            poll.register(taker.socket, select.EPOLLIN)
        taken = 0
        while taken < messages:
            due = (time.monotonic() - begun) / seconds * messages
            if taken >= due:
                time.sleep(TURN_SECONDS)
                continue
            events = poll.poll(wire.ANSWER_SECONDS)
            if not events:
                raise RuntimeError(f"{messages - taken} of {messages} messages are missing")
            taken += sum(takers[handle].take() for handle, _ in events)
        for taker in takers.values():
            taker.send(wire.DISCONNECT)
            taker.socket.close()
    return time.monotonic() - begun, taken


def lasting_of(round_number: int) -> list[int]:
    """Who of those that take now and then does so in this round: one, or nobody."""
    which, none = divmod(round_number % LASTING_ROUNDS, LASTING_ROUNDS // len(LASTING))
    return [] if none else [LASTING[which]]


@dataclasses.dataclass
class Steady(Rounds):
    """Rounds of a broker whose queue is kept half full."""

    # For each session that takes now and then.
    waiting: dict[int, float] = dataclasses.field(default_factory=dict)
    rounds: int = 0

    def fill(self, messages: int) -> None:
        """Before the first round."""
        store(self.broker, ALL, messages, ALL)
        self.waiting = {session: messages / ALL for session in LASTING}

    def round(self, options: argparse.Namespace, rate: float) -> None:
        """As much comes as is taken. Each topic has a publisher of its own, so that all get the same."""
        quick = int(rate * options.seconds * len(QUICK) / ALL)
        lasting = lasting_of(self.rounds)
        old = int(sum(self.waiting[session] for session in lasting) * SURELY)
        before = wire.cpu_seconds(self.broker.pid)
        with concurrent.futures.ThreadPoolExecutor() as together:
            sent = together.submit(load, self.broker, "--subscribers", "0", "--prefix", "stored", "--publishers", str(ALL), "--topics", str(ALL),
                                   "--rate", str(rate), "-d", str(options.seconds), "--warmup", "0", "--from-sending")
            taken = [together.submit(take, self.broker, sessions, messages, options.seconds)
                     for sessions, messages in ((QUICK, quick), (lasting, old))]
            result = sent.result()
            (_, quick), (_, old) = (one.result() for one in taken)
        self.rounds += 1
        for session in lasting:
            self.waiting[session] -= old
        for session in LASTING:
            self.waiting[session] += result["sent"] / ALL
        handled = result["sent"] + quick + old
        self.cpu.append((wire.cpu_seconds(self.broker.pid) - before) / handled * 1e6)
        self.p999.append(result["acknowledgement_p99_9_us"])
        self.good &= not result["failures"] and not result["refused"]


def steady(options: argparse.Namespace) -> Verdict:
    verdict = Verdict()
    messages = options.queue_mib * 1024 * 1024 // 2 // PAYLOAD_BYTES
    with Broker(kind(*ROOM, *SMALL)) as cleaned, Broker(kind(*ROOM, 'log.segment_bytes="4GiB"', SMALL[1])) as whole_log:
        rate = load(cleaned, "-d", "3", "--warmup", "1", *pairs(8))["sent_per_second"] * STEADY_LOAD
        with_it, without = Steady(cleaned), Steady(whole_log)
        for one in (with_it, without):
            one.fill(messages)
            # Nothing is cleaned before there is something old.
            for _ in range(LASTING_ROUNDS):
                one.round(options, rate)
            one.forget()
        before = counters(cleaned.port)
        for _ in range(options.rounds):
            for one in (with_it, without):
                one.round(options, rate)
        after = counters(cleaned.port)
        idle = counters(whole_log.port)["log_cleaned_segments"]
    grown = {name: after[name] - before[name] for name in ("log_bytes", "log_kept_bytes", "log_kept_records", "log_cleaned_segments")}
    written, kept = grown["log_bytes"], grown["log_kept_bytes"]
    verdict.say(f"{messages:,} messages of {PAYLOAD_BYTES} B wait in {ALL} sessions, {rate:,.0f} a second come and go, {len(LASTING) / ALL:.0%} of them for a session that "
                f"takes in one of {LASTING_ROUNDS} rounds; write amplification {written / max(written - kept, 1):.2f}, {grown['log_cleaned_segments']:,} segments cleaned, "
                f"{grown['log_kept_records']:,} records moved; without: {idle}")
    cpu, cpu_without = statistics.median(with_it.cpu), statistics.median(without.cpu)
    verdict.limit(f"{cpu:.2f} s of CPU for a million in and out, without {cpu_without:.2f} s: {cpu / cpu_without:.2f} times, at most 1.25",
                  with_it.good and without.good and idle == 0 and grown["log_cleaned_segments"] > 0 and cpu <= 1.25 * cpu_without)
    p999, p999_without = statistics.median(with_it.p999), statistics.median(without.p999)
    verdict.limit(f"p99.9 to the acknowledgement {p999:.0f} µs, without {p999_without:.0f} µs: {p999 / p999_without:.2f} times, at most 1.5",
                  p999 <= 1.5 * p999_without)
    return verdict


def draining(options: argparse.Namespace) -> Verdict:
    verdict = Verdict()
    count = len(SESSIONS)
    messages = options.drained // count * count
    live, alone, both, good = [], [], [], True
    with Broker(kind(*ROOM, 'session.hot_bytes="8MiB"')) as broker, concurrent.futures.ThreadPoolExecutor() as other:
        rate = load(broker, "-d", "3", "--warmup", "1", *pairs(8))["sent_per_second"] * LIVE_LOAD
        flags = ("-d", str(options.seconds), "--warmup", "0", *pairs(8), "--rate", str(rate), "-w", OPEN_WINDOW)

        def backlog() -> None:
            store(broker, count, messages, count)
            wire.wait_until_idle(broker.pid)

        for _ in range(options.rounds):
            before = wire.cpu_seconds(broker.pid)
            result = load(broker, *flags)
            good &= whole(result)
            live.append((wire.cpu_seconds(broker.pid) - before) / result["sent"])

            backlog()
            before = wire.cpu_seconds(broker.pid)
            take(broker, SESSIONS, messages, options.seconds)
            alone.append(wire.cpu_seconds(broker.pid) - before)

            backlog()
            before = wire.cpu_seconds(broker.pid)
            taken = other.submit(take, broker, SESSIONS, messages, options.seconds)
            result = load(broker, *flags)
            took, _ = taken.result()
            good &= whole(result)
            both.append((wire.cpu_seconds(broker.pid) - before, result["sent"]))
    backlog_cpu = statistics.median(alone)
    beside = statistics.median((cpu - backlog_cpu) / sent for cpu, sent in both)
    without = statistics.median(live)
    verdict.say(f"{rate:,.0f} live messages a second, half of what saturates; {messages:,} old ones are taken beside them in {took:.1f} s, "
                f"which takes {backlog_cpu / messages * 1e6:.2f} s of CPU for a million when nothing else happens")
    verdict.limit(f"{beside / 2 * 1e6:.3f} s of CPU for a million live messages in and out, {without / 2 * 1e6:.3f} s without: {beside / without:.2f} times, at most 1.05",
                  good and beside <= 1.05 * without)
    return verdict


PARTS = {"steady": steady, "draining": draining}


if __name__ == "__main__":
    raise_open_files()
    options = arguments()
    sys.exit(print_parts(PARTS, options.only, options))
