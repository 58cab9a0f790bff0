#!/usr/bin/env python3
"""Asks another load generator whether it measures what `courser bench` measures.

    bench/agree.py --generator /path/mqload                 all rows that both can do
    bench/agree.py --generator /path/mqload --row "QoS 1" --rounds 5

Both generators put the same load on the same kind of broker, alternately and each on a freshly started one, in an order that changes
from round to round. What the broker used is compared by medians. Ends with 1 if a median is more than `--within` per cent off, or a
generator saw a loss.

The other generator is one that takes the arguments of OTHERS below and prints one line of JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
from typing import Any

from brokers import KINDS, TARGET, Broker, Kind, find_binary, raise_open_files
from rows import ROWS, Row, is_whole, matching

RUN_SECONDS_MAX = 180
Run = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Other:
    """How another generator is told to do a row, and where its figures are, by the keys of ours. Dots lead into objects.

    `longer`: arguments of ours instead of the row's, for a row that is over before the other's clock of 10 ms has moved."""

    row: str
    arguments: str
    keys: dict[str, str]
    longer: tuple[str, ...] = ()


CPU = {"broker_cpu_seconds_per_million": "broker_cpu_s_per_mmsg"}
OTHERS = (
    Other("QoS 0, 1 to 1, 64 B", "tput -q 0 -s 64 --e2e-window 5000", CPU),
    Other("QoS 0, 1 to 50", "tput -q 0 -s 64 -c 50 --e2e-window 500", CPU),
    Other("QoS 0, 10,000 topics", "tput -q 0 -s 64 -t 10000 --sub wild --e2e-window 5000", CPU),
    Other("QoS 1, 1 to 1", "tput -q 1 -s 128 -w 100", CPU),
    Other("QoS 1, 8 pairs", "tput -q 1 -s 128 -w 20 -p 8 -c 8 -t 8", CPU),
    Other("QoS 2, 1 to 1", "tput -q 2 -s 128 -w 100", CPU),
    Other("QoS 1, shared group", "tput -q 1 -s 128 -w 100 -c 4 --share g", CPU),
    Other("10,000 retained", "retained -t 500000 -s 64",
          {"stored_broker_cpu_seconds_per_million": "store_cpu_s_per_mmsg",
           "replayed_broker_cpu_seconds_per_million": "replay_cpu_s_per_mmsg"},
          ("retained", "--topics", "500000", "-s", "64", "--prefix", "mql")),
    Other("QoS 1 for an absent", "offline -n 1000000 -s 128",
          {"stored_broker_cpu_seconds_per_million": "store_cpu_s_per_mmsg",
           "replayed_broker_cpu_seconds_per_million": "drain_cpu_s_per_mmsg"},
          ("absent", "-n", "1000000", "-s", "128", "--topics", "1")),
    Other("5,000 messages/s", "latency -q 1 -s 128 --rate 5000",
          {**CPU, "delivery_p50_us": "latency_us.p50", "delivery_p99_us": "latency_us.p99"}),
    Other("10,000 idle connections", "storm -n 10000",
          {"broker_cpu_us_per_connection": "cpu_us_per_conn",
           "broker_resident_bytes_per_connection": "rss_per_conn_bytes"}),
    Other("10,000 idle connections with a subscription", "storm -n 10000 --subs 1",
          {"broker_resident_bytes_per_connection": "rss_per_conn_bytes"}),
)


# A session that is away may have all messages of the longest row.
ROOM = '--set session.queue_messages_max=1000000 --set session.queue_bytes_max="1GiB"'


def other_of(row: Row) -> Other | None:
    found = [other for other in OTHERS if row.name.startswith(other.row)]
    return max(found, key=lambda other: len(other.row), default=None)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generator", required=True, help="the other load generator")
    parser.add_argument("--row", action="append", default=[], help="part of a row's name")
    parser.add_argument("--broker", default="courser-1", choices=sorted(KINDS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="measured seconds of a timed row")
    parser.add_argument("--within", type=float, default=10.0, help="per cent")
    return parser.parse_args()


def last_line(command: list[str]) -> Run:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_SECONDS_MAX,
                          preexec_fn=raise_open_files)
    if not done.stdout.strip():
        raise SystemExit(f"{command[0]}: {done.stderr.strip() or 'no result'}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def ours(row: Row, other: Other, broker: Broker, options: argparse.Namespace) -> Run:
    command = [str(TARGET / "release" / "courser"), "bench", *(other.longer or row.arguments), "-p", str(broker.port), "--pid", str(broker.pid),
               "-V", "311", "-o", "jsonl", "--quiet"]
    if row.arguments[0] == "mqtt":
        command += ["-d", str(options.seconds), "--warmup", "1"]
    return last_line(command)


def theirs(other: Other, broker: Broker, options: argparse.Namespace) -> Run:
    command = [options.generator, *other.arguments.split(), "-P", str(broker.port), "--pid", str(broker.pid)]
    if other.arguments.split()[0] in ("tput", "latency"):
        command += ["--duration", str(options.seconds), "--warmup", "1"]
    return last_line(command)


def look_up(run: Run, key: str) -> float:
    value: Any = run
    for name in key.split("."):
        value = value[name]
    return float(value)


def measure(row: Row, other: Other, kind: Kind, options: argparse.Namespace) -> tuple[list[Run], list[Run]]:
    mine: list[Run] = []
    others: list[Run] = []
    for turn in range(options.rounds):
        for which in ("ours", "theirs") if turn % 2 == 0 else ("theirs", "ours"):
            print(f"round {turn + 1}/{options.rounds}  {which:6}  {row.name}", file=sys.stderr, flush=True)
            with Broker(kind) as broker:
                if which == "ours":
                    mine.append(ours(row, other, broker, options))
                else:
                    others.append(theirs(other, broker, options))
    return mine, others


def compare(row: Row, other: Other, runs: tuple[list[Run], list[Run]], within: float) -> bool:
    """Prints the lines of a row; whether all of it agrees."""
    mine, others = runs
    whole = all(is_whole(row, run) for run in mine)
    lost = sum(int(run.get("lost", 0)) for run in others)
    good = whole and lost == 0
    for figure in row.figures:
        if figure.key not in other.keys:
            continue
        left = statistics.median(float(run[figure.key]) for run in mine)
        right = statistics.median(look_up(run, other.keys[figure.key]) for run in others)
        off = (left / right - 1) * 100 if right else float("inf")
        agrees = abs(off) <= within
        good &= agrees
        loss = "" if whole and lost == 0 else f", lost: {'none' if whole else 'some'} / {lost}"
        name = f"{row.name} ({other.arguments})" if other.longer else row.name
        print(f"| {name} | {figure.name}, {figure.unit} | {left:.3g} | {right:.3g} | {off:+.0f} % "
              f"| {'yes' if agrees else 'NO'}{loss} |", flush=True)
    return good


def main() -> int:
    options = arguments()
    raise_open_files()
    kind = KINDS[options.broker]
    kind = dataclasses.replace(kind, command=f"{kind.command} {ROOM}")
    if find_binary(kind) is None:
        raise SystemExit("build it first: cargo build --release -p courser")
    rows = [(row, other) for row in matching(options.row) if (other := other_of(row)) is not None]
    if not rows:
        raise SystemExit("no such row; rows are:\n" + "\n".join(f"  {row.name}" for row in ROWS))
    print("| workload | figure | courser bench | other | off | agrees |\n|---|---|---|---|---|---|")
    good = [compare(row, other, measure(row, other, kind, options), options.within) for row, other in rows]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
