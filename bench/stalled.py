#!/usr/bin/env python3
"""What subscribers that never read cost those that do: broker CPU per message with and without 10,000 of them.

    bench/stalled.py                                       nine pairs, the whole size
    bench/stalled.py --stalled 1000 --pairs 3 --seconds 2  a quick look
    bench/stalled.py --groups 100                          the stalled ones are members of 100 shared groups

One broker serves a healthy load (`courser bench mqtt`: publishers to as many subscribers as topics) at half the rate at which
it saturates. In one half of a pair a crowd of stalled subscribers is there as well, half of them at QoS 0 and half at QoS 1.
Before that half is measured they are flooded until their sockets and their places in the broker are full. In both halves
the same slow trickle is published to their topic, so that the halves differ by the crowd alone. With `--groups` each stalled
subscriber is a member of one of so many shared groups, and the flood is as much longer as its group has members: each group has
a backlog that nobody takes, and members that give back what they have no room for. Which half goes first
changes from pair to pair; the crowd closes after its half, so the broker's tidying up is in every pair too.

Ends with 1 if the median ratio is above the limit, the ratios are too far apart to say so, a healthy message is lost, a stalled
connection did not stay, the broker's memory grows from pair to pair, or the broker does not serve on afterwards.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import dataclasses
import fcntl
import json
import os
import socket
import statistics
import subprocess
import sys
import termios
import threading
import time
from typing import Any, Iterator

import wire
from brokers import KINDS, Broker, Kind, find_binary, raise_open_files
from rows import paced
from wire import Peer, mib

FLOOD_TOPIC = "flood/all"
ESTABLISHED = 1
CPU = "broker_cpu_seconds_per_million"
# Memory may move by this much between the first and the last pair: buffers that are kept for the next crowd.
GROWTH_MAX = 1.25
# Ratios of the middle half of the pairs lie within this, or the machine was too busy to tell anything.
SPREAD_MAX = 0.15
# How long the broker is watched with the trickle alone.
TRICKLE_SECONDS = 3.0
RUN_SECONDS_MAX = 180


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--stalled", type=int, default=10_000, help="subscribers that do not read")
    parser.add_argument("--groups", type=int, default=0,
                        help="shared groups that the stalled ones are members of; 0: each subscribes for itself")
    parser.add_argument("--healthy", type=int, default=1000, help="subscribers that do, each with a topic")
    parser.add_argument("--publishers", type=int, default=10, help="of the healthy load")
    parser.add_argument("--seconds", type=float, default=4.0, help="measured in each half")
    parser.add_argument("--qos", type=int, default=1, choices=(0, 1, 2), help="of the healthy load")
    parser.add_argument("--rate", type=float, help="messages/s of the healthy load instead of half the saturation")
    parser.add_argument("--trickle", type=float, default=0.5, help="messages/s to the stalled ones, 64 B")
    parser.add_argument("--fill-bytes", type=int, default=1_500_000, help="what the crowd is flooded with, for each of them")
    parser.add_argument("--fill-size", type=int, default=8192, help="payload bytes of the flood")
    parser.add_argument("--limit", type=float, default=1.05, help="largest median ratio of CPU per message")
    parser.add_argument("--broker", default="courser", choices=sorted(KINDS))
    parser.add_argument("--binary", help="another binary of courser, for broker and load; also from BENCH")
    found = parser.parse_args()
    if not 0 <= found.groups <= found.stalled:
        parser.error("--groups: at most as many as there are stalled subscribers")
    return found


@dataclasses.dataclass
class Half:
    """One measured load."""

    cpu: float
    # Of the broker, CPU seconds a second, with the trickle alone.
    unloaded: float
    resident: int
    whole: bool
    # Connections of the crowd that were there at the end; none without a crowd.
    stayed: int = 0
    # Whether nothing moved into a stalled socket while the load was measured.
    full: bool = True


class Crowd:
    """Connections that subscribe and are never read again."""

    def __init__(self, port: int, count: int, groups: int) -> None:
        """`groups`: shared ones, to which they belong in turn; 0: none."""
        self.peers: list[Peer] = []
        for batch in wire.batches(count, 200):
            fresh = []
            for at in batch:
                peer = Peer(port, small=True)
                # The members of a group take turns at the two levels as well, also where the number of groups is even.
                qos = (at // groups if groups else at) % 2
                topic_filter = f"$share/stalled-{at % groups}/{FLOOD_TOPIC}" if groups else FLOOD_TOPIC
                peer.send(wire.connect(f"stalled-{at}") + wire.subscribe([topic_filter], qos))
                fresh.append(peer)
            for peer in fresh:
                peer.welcomed()
                peer.subscribed()
            self.peers += fresh

    def waiting_bytes(self) -> int:
        """Bytes that wait, unread, in the kernel on this side."""
        found = array.array("i", [0])
        total = 0
        for peer in self.peers:
            fcntl.ioctl(peer.socket, termios.FIONREAD, found)
            total += found[0]
        return total

    def established(self) -> int:
        """Connections that the broker has not ended: the first byte of TCP_INFO is the state."""
        return sum(peer.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == ESTABLISHED for peer in self.peers)

    def close(self) -> None:
        for peer in self.peers:
            peer.abort()
        self.peers.clear()


def fill(broker: Broker, options: argparse.Namespace) -> None:
    """Floods the crowd a few messages at a time, each step acknowledged: the broker never has more under way than these."""
    payload = b"\0" * options.fill_size
    # Of what a group gets each member has a part.
    members = -(-options.stalled // options.groups) if options.groups else 1
    count = -(-options.fill_bytes * members // options.fill_size)
    with wire.session(broker.port, "flood") as publisher:
        for batch in wire.batches(count, 4):
            publisher.deliver(FLOOD_TOPIC, payload, len(batch))


@contextlib.contextmanager
def trickle(broker: Broker, options: argparse.Namespace) -> Iterator[None]:
    """Publishes to the crowd's topic at a steady rate for the length of the block."""
    stop = threading.Event()
    failed: list[Exception] = []

    def run() -> None:
        try:
            with wire.session(broker.port, "trickle") as publisher:
                while not stop.wait(1 / options.trickle):
                    publisher.deliver(FLOOD_TOPIC, bytes(64))
        except (OSError, ConnectionError) as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]


def load(broker: Broker, options: argparse.Namespace, *extra: str) -> dict[str, Any]:
    """Runs the healthy load. It exits with an error if anything is lost, repeated or out of order."""
    command = [options.generator, "bench", "mqtt", "-p", str(broker.port), "--pid", str(broker.pid), "-o", "jsonl", "--quiet",
               "-q", str(options.qos), "-s", "128", "--publishers", str(options.publishers), "--subscribers", str(options.healthy),
               "--topics", str(options.healthy), "--warmup", "1", *paced(*extra)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_SECONDS_MAX,
                          preexec_fn=raise_open_files)
    if not done.stdout.strip():
        raise RuntimeError(done.stderr.strip() or "the load gave no result")
    result = json.loads(done.stdout.strip().splitlines()[-1])
    result["whole"] = done.returncode == 0
    if done.returncode:
        print(f"  load: {done.stderr.strip() or result}", file=sys.stderr)
    return result


def saturation(broker: Broker, options: argparse.Namespace) -> float:
    """Messages/s that get through when publishers wait for nothing but a bound of what is under way: the better of two."""
    runs = [load(broker, options, "-d", "3", "-w", "100", "--in-flight-max", "5000") for _ in range(2)]
    return max(run["received_per_second"] for run in runs)


def half(broker: Broker, options: argparse.Namespace, rate: float, *, crowded: bool) -> Half:
    crowd = Crowd(broker.port, options.stalled, options.groups) if crowded else None
    try:
        if crowd:
            fill(broker, options)
        wire.wait_until_idle(broker.pid)
        before = crowd.waiting_bytes() if crowd else 0
        with trickle(broker, options):
            used = wire.cpu_seconds(broker.pid)
            time.sleep(TRICKLE_SECONDS)
            unloaded = (wire.cpu_seconds(broker.pid) - used) / TRICKLE_SECONDS
            # As wide a window as there is: the rate shall decide, not the acknowledgements.
            result = load(broker, options, "-d", str(options.seconds), "-w", "1000", "--rate", str(rate))
        resident, _ = wire.memory(broker.pid)
        measured = Half(result[CPU], unloaded, resident, result["whole"])
        if crowd:
            measured.stayed = crowd.established()
            measured.full = crowd.waiting_bytes() == before
        return measured
    finally:
        if crowd:
            crowd.close()
            if not wire.wait_until_idle(broker.pid):
                print("  the broker does not come to rest after the crowd has gone", file=sys.stderr)


def measure(broker: Broker, options: argparse.Namespace, rate: float) -> list[tuple[Half, Half]]:
    """Pairs of halves without and with the crowd."""
    pairs = []
    for turn in range(options.pairs):
        order = (False, True) if turn % 2 == 0 else (True, False)
        halves = {crowded: half(broker, options, rate, crowded=crowded) for crowded in order}
        alone, crowded = halves[False], halves[True]
        pairs.append((alone, crowded))
        print(f"pair {turn + 1}/{options.pairs}: CPU {alone.cpu:.3f} alone, {crowded.cpu:.3f} crowded, ratio "
              f"{crowded.cpu / alone.cpu:.3f}; RSS {mib(alone.resident)} alone, {mib(crowded.resident)} crowded; stalled and "
              f"connected {crowded.stayed:,}{'' if crowded.full else ', some not full'}", flush=True)
    return pairs


def verdicts(pairs: list[tuple[Half, Half]], options: argparse.Namespace) -> dict[str, bool]:
    ratios = [crowded.cpu / alone.cpu for alone, crowded in pairs]
    median = statistics.median(ratios)
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else (median,) * 3
    first, last = pairs[0][1].resident, pairs[-1][1].resident
    return {
        f"median ratio {median:.3f}, at most {options.limit}": median <= options.limit,
        f"quiet enough to tell: middle half of the ratios {low:.3f} to {high:.3f}, at most {SPREAD_MAX} apart":
            high - low <= SPREAD_MAX,
        "no healthy message lost, repeated or out of order": all(one.whole for pair in pairs for one in pair),
        "every stalled connection stayed, its socket full": all(crowded.stayed == options.stalled and crowded.full
                                                               for _, crowded in pairs),
        f"memory with the crowd does not grow: {mib(first)} first, {mib(last)} last": last <= first * GROWTH_MAX,
    }


def own_cost(pairs: list[tuple[Half, Half]], rate: float) -> str:
    """What the crowd takes by itself: less exact than the pairs in what it counts, but not blurred by the healthy load."""
    extra = statistics.median(crowded.unloaded - alone.unloaded for alone, crowded in pairs)
    healthy = statistics.median(alone.cpu for alone, _ in pairs) * 2 * rate / 1e6
    return (f"without the healthy load, crowd and trickle take {extra * 1e3:.2f} ms of CPU a second; that load takes "
            f"{healthy * 1e3:.0f} ms: {extra / healthy:.1%}")


def main() -> int:
    options = arguments()
    raise_open_files()
    kind = KINDS[options.broker]
    options.generator = options.binary or os.environ.get("BENCH") or KINDS["courser"].binary
    if options.broker.startswith("courser"):
        kind = Kind(kind.name, options.generator, kind.command)
    if find_binary(kind) is None:
        raise SystemExit(f"{kind.binary} is missing: cargo build --release -p courser")
    print(wire.machine())
    with Broker(kind) as broker:
        rate = options.rate or saturation(broker, options) / 2
        print(f"{options.healthy:,} healthy subscribers at QoS {options.qos}, {rate:,.0f} messages/s; {options.stalled:,} stalled ones"
              f"{f' in {options.groups:,} shared groups' if options.groups else ''}, flooded with {mib(options.fill_bytes)} each in "
              f"payloads of {options.fill_size} B, then {options.trickle:g} messages/s; "
              f"CPU is of the broker, s per million in + out; RSS at first {mib(wire.memory(broker.pid)[0])}", flush=True)
        pairs = measure(broker, options, rate)
        served = load(broker, options, "-d", "1", "--rate", str(rate))
        results = verdicts(pairs, options)
        results["serves on after the crowd has gone"] = served["whole"] and wire.wait_until_idle(broker.pid)
        rest, largest = wire.memory(broker.pid)
    print(own_cost(pairs, rate))
    print(f"RSS {mib(rest)} at the end, {mib(largest)} at most; {wire.machine()}")
    for what, passed in results.items():
        print(f"{'pass' if passed else 'FAIL'}  {what}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
