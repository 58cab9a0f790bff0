#!/usr/bin/env python3
"""A million subscriptions in one broker: 90,000 sessions that are away and 10,000 that are connected, ten filters each.

    bench/million.py                                    the whole size, within 1 GiB
    bench/million.py --detached 9000 --connected 1000   a quick look
    bench/million.py --set memory.max=1GiB              with a setting: what the broker refuses is counted

Prints the time, the broker's memory and what a subscription takes. Then some sessions of both kinds are picked at random: a
publish to a filter of theirs must reach the connected ones at once and the others when they resume. Ends with 1 if anything
fails or is refused, or the broker's largest resident size exceeds the limit.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import random
import re
import shlex
import sys
import time

import wire
from brokers import KINDS, METRICS, Broker, Kind, find_binary, metrics, raise_open_files
from wire import Peer, mib

EXPIRY_SECONDS = 3600
# Filters that all sessions of a region share: each is one node of a trie with many receivers.
REGIONS = 100


def filters(session: int, count: int) -> list[str]:
    """The filters of a session: of ten, six exact topics of its own, two with `+`, one with `#`, one shared by a region."""
    own = f"site/{session // 100}/device/{session}"
    kinds = (
        f"{own}/state", f"{own}/battery", f"{own}/+/alarm", f"{own}/position", f"region/{session % REGIONS}/notices",
        f"{own}/log/#", f"{own}/firmware", f"site/+/device/{session}/command", f"{own}/config", f"{own}/clock",
    )
    return [kinds[at] if at < len(kinds) else f"{own}/channel/{at}" for at in range(count)]


def topic_for(topic_filter: str) -> str:
    """A topic name that a filter takes."""
    return topic_filter.replace("+", "7").replace("#", "kernel/boot")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--detached", type=int, default=90_000, help="sessions that are away")
    parser.add_argument("--connected", type=int, default=10_000, help="sessions that stay connected")
    parser.add_argument("--filters", type=int, default=10, help="subscriptions of each session")
    parser.add_argument("--qos", type=int, default=1, choices=(0, 1), help="of the subscriptions")
    parser.add_argument("--in-flight", type=int, default=200, help="sessions that are made at once")
    parser.add_argument("--limit-mib", type=float, default=1024.0, help="what the broker may take at most")
    parser.add_argument("--checks", type=int, default=100, help="sessions of each kind that must get a message")
    parser.add_argument("--seed", type=int, default=1, help="decides which sessions are checked")
    parser.add_argument("--broker", default="courser", choices=sorted(KINDS))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings", help="of a broker of ours")
    parser.add_argument("--binary", help="another binary of this broker; also from BENCH")
    return parser.parse_args()


def name(session: int) -> str:
    return f"device-{session}"


def granted(peer: Peer) -> int:
    """How many of its filters a client was granted: none where it was not let in."""
    # Who is not let in is closed with what it has sent behind its CONNECT.
    with contextlib.suppress(ConnectionError):
        if peer.expect(wire.CONNACK)[1] == 0:
            body = peer.expect(wire.SUBACK)
            return sum(code <= 2 for code in body[3 + body[2]:])
    return 0


def make(port: int, sessions: range, options: argparse.Namespace, *, stay: bool) -> tuple[list[Peer], int]:
    """Makes sessions, CONNECT and SUBSCRIBE in one write. They are left behind, or returned connected; and how many filters were granted."""
    stayed, count = [], 0
    for batch in wire.batches(len(sessions), options.in_flight):
        peers = []
        for session in (sessions[at] for at in batch):
            peer = Peer(port)
            peer.send(wire.connect(name(session), expiry_seconds=EXPIRY_SECONDS)
                      + wire.subscribe(filters(session, options.filters), options.qos))
            peers.append(peer)
        made = []
        for peer in peers:
            filters_granted = granted(peer)
            count += filters_granted
            if not filters_granted:
                peer.abort()
                continue
            made.append(peer)
            if not stay:
                peer.send(wire.DISCONNECT)
        if stay:
            stayed += made
        else:
            leave(made)
    return stayed, count


def leave(peers: list[Peer]) -> None:
    """Waits until the broker has closed the connections: a reset before that would be a loss, not a good-bye."""
    for peer in peers:
        if peer.socket.recv(1):
            raise ConnectionError("something came after DISCONNECT")
        peer.abort()


def build(broker: Broker, options: argparse.Namespace) -> tuple[list[Peer], int]:
    """All sessions, with a line on each kind; those that stay, and how many subscriptions there are."""
    away, here = range(options.detached), range(options.detached, options.detached + options.connected)
    stayed: list[Peer] = []
    subscriptions = 0
    for kind, sessions, stay in (("detached", away, False), ("connected", here, True)):
        if not sessions:
            continue
        before, _ = wire.memory(broker.pid)
        used, started = wire.cpu_seconds(broker.pid), time.monotonic()
        more, count = make(broker.port, sessions, options, stay=stay)
        stayed += more
        subscriptions += count
        seconds = time.monotonic() - started
        wire.wait_until_idle(broker.pid)
        after, _ = wire.memory(broker.pid)
        used = wire.cpu_seconds(broker.pid) - used
        print(f"{len(sessions):>7,} {kind:9} sessions in {seconds:5.1f} s ({len(sessions) / seconds:,.0f}/s; broker CPU "
              f"{used * 1e6 / len(sessions):.0f} µs each), RSS {mib(before)} -> {mib(after)}: "
              f"{(after - before) / len(sessions):,.0f} B a session", flush=True)
    return stayed, subscriptions


def counted(broker: Broker) -> str:
    """What a broker of ours with `/metrics` counts against memory.max."""
    try:
        found = dict(re.findall(r'^courser_memory_bytes{use="(\w+)"} (\S+)$', metrics(broker.values["http"]), re.MULTILINE))
    except OSError:
        return ""
    said = {"allocated": "allocated", "sessions": "of sessions by their weights", "resident": "resident"}
    return ", ".join(f"{mib(float(found[use]))} {what}" for use, what in said.items() if use in found)


def checks(broker: Broker, stayed: list[Peer], options: argparse.Namespace) -> dict[str, int]:
    """Failures of each kind."""
    pick = random.Random(options.seed)
    return {
        "connected": check_connected(broker, stayed, options, pick),
        "resumed": check_detached(broker, options, pick),
        # Last: what it leaves for the sessions that are away would come before their own messages.
        "region": check_region(broker, stayed, options),
    }


def check_connected(broker: Broker, stayed: list[Peer], options: argparse.Namespace, pick: random.Random) -> int:
    """Failures among some connected sessions, each asked by one filter after the other."""
    failures = 0
    with wire.session(broker.port, "publisher") as publisher:
        for turn, at in enumerate(pick.sample(range(len(stayed)), min(options.checks, len(stayed)))):
            chosen = filters(options.detached + at, options.filters)
            # A region's notice would also go to the others that were picked.
            chosen = [one for one in chosen if not one.startswith("region/")]
            topic, payload = topic_for(chosen[turn % len(chosen)]), f"to {at}".encode()
            publisher.deliver(topic, payload)
            failures += not arrives(stayed[at], topic, payload)
    return failures


def arrives(peer: Peer, topic: str, payload: bytes) -> bool:
    peer.socket.settimeout(5)
    try:
        found = peer.message()
    except (OSError, ConnectionError) as error:
        print(f"  {topic}: {error}")
        return False
    if found != (topic, payload):
        print(f"  {topic}: got {found}")
    return found == (topic, payload)


def check_detached(broker: Broker, options: argparse.Namespace, pick: random.Random) -> int:
    """Failures among some sessions that are away: each resumes and must find itself and its message."""
    failures = 0
    with wire.session(broker.port, "publisher") as publisher:
        for turn, session in enumerate(pick.sample(range(options.detached), min(options.checks, options.detached))):
            chosen = [one for one in filters(session, options.filters) if not one.startswith("region/")]
            topic, payload = topic_for(chosen[turn % len(chosen)]), f"for {session}".encode()
            publisher.deliver(topic, payload)
            with Peer(broker.port) as peer:
                peer.send(wire.connect(name(session), clean_start=False, expiry_seconds=EXPIRY_SECONDS))
                present = peer.welcomed()
                if not present:
                    print(f"  {name(session)}: its session is gone")
                # Without QoS nothing is kept for who is away; the session itself must still be there.
                failures += not (present and (options.qos == 0 or arrives(peer, topic, payload)))
                peer.send(wire.DISCONNECT)
    return failures


def check_region(broker: Broker, stayed: list[Peer], options: argparse.Namespace) -> int:
    """A notice to one region reaches all connected sessions of it."""
    if options.filters < 5:
        return 0
    members = [at for at in range(len(stayed)) if (options.detached + at) % REGIONS == 0]
    with wire.session(broker.port, "publisher") as publisher:
        publisher.deliver("region/0/notices", b"notice")
        return sum(not arrives(stayed[at], "region/0/notices", b"notice") for at in members)


def main() -> int:
    options = arguments()
    raise_open_files()
    kind = KINDS[options.broker]
    binary = options.binary or (os.environ.get("BENCH") if options.broker.startswith("courser") else None)
    if binary:
        kind = Kind(kind.name, binary, kind.command, kind.files)
    if options.broker.startswith("courser") and METRICS not in kind.command:
        kind = dataclasses.replace(kind, command=kind.command + METRICS)
    if options.settings:
        kind = dataclasses.replace(kind, command=kind.command + "".join(f" --set {shlex.quote(it)}" for it in options.settings))
    if find_binary(kind) is None:
        raise SystemExit(f"{kind.binary} is missing: cargo build --release -p courser")
    print(wire.machine())
    wanted = (options.detached + options.connected) * options.filters
    with Broker(kind) as broker:
        before, _ = wire.memory(broker.pid)
        stayed, subscriptions = build(broker, options)
        after, _ = wire.memory(broker.pid)
        print(f"{subscriptions:,} of {wanted:,} subscriptions are granted; {counted(broker)}", flush=True)
        # Of those that are picked all are there.
        failures = {"granted": wanted - subscriptions} if subscriptions < wanted else checks(broker, stayed, options)
        _, largest = wire.memory(broker.pid)
        # Before the broker stops: its TIME_WAIT would hold the ports for the next run.
        for peer in stayed:
            peer.abort()
        rest = wire.wait_until_idle(broker.pid)
        last, _ = wire.memory(broker.pid)
        print(f"when all are away: {counted(broker)}")
    within = largest <= options.limit_mib * 1048576
    print(f"{subscriptions:,} subscriptions: {mib(after - before)}, {(after - before) / max(subscriptions, 1):.0f} B each; largest RSS "
          f"{mib(largest)} of {options.limit_mib:.0f} MiB; {mib(last)} when all are away"
          + ("" if rest else ", where the broker does not come to rest"))
    for what, count in failures.items():
        print(f"checks, {what}: {'all right' if not count else f'{count} FAILED'}")
    passed = within and rest and not any(failures.values())
    print("pass" if passed else "FAIL")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
