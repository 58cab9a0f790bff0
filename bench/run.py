#!/usr/bin/env python3
"""Starts this broker and others side by side and prints the table of docs/performance.md.

    bench/run.py                                    all rows, all brokers, three rounds
    bench/run.py --row "QoS 1" --rounds 5           some rows
    bench/run.py --broker courser --broker mosquitto
    bench/run.py --broker courser --broker courser-disk   what the disk costs
    bench/run.py --durable                          rows of sessions that are kept on a disk and synced
    bench/run.py --tls                              what TLS costs beside plain TCP, and a storm of handshakes
    bench/run.py --add 'bare=/path/bare-relay {port}'   any other broker that can be started on a port, such as a relay that shows
                                                    what the kernel takes
    bench/run.py --running other=127.0.0.1:1883:4711   a broker that runs already: host, port and process id
    bench/run.py --row "QoS 1" --json a.json        a part of a long run, kept;
    bench/run.py --merge a.json --merge b.json      the table of all parts, without running anything

Rounds are interleaved: in each, every row runs on every broker, each on a freshly started one (save `--running`), in an order that changes from round
to round. Figures are medians over the rounds, with the range behind them. The load generator is `courser bench`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys
import time
from typing import Any

from brokers import KINDS, ROOT, TARGET, Broker, Kind, Running, custom, find_binary, install, raise_open_files, running
from rows import DURABLE, OVER_TLS, ROWS, Figure, Row, is_whole, matching

Results = dict[tuple[str, str], list[dict[str, Any]]]
RUN_SECONDS_MAX = 180


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", default=[], help="part of a row's name")
    parser.add_argument("--durable", action="store_true", help="the rows of kept sessions, with brokers that keep them")
    parser.add_argument("--tls", action="store_true", help="the rows of TLS beside plain TCP")
    parser.add_argument("--broker", action="append", default=[], choices=sorted(KINDS))
    parser.add_argument("--add", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--running", action="append", default=[], metavar="NAME=HOST:PORT:PID")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="measured seconds of a timed row")
    parser.add_argument("--version", default="311", choices=("311", "5"))
    parser.add_argument("--no-install", action="store_true", help="leave out peers that are missing")
    parser.add_argument("--json", type=pathlib.Path, help="write all results to this file")
    parser.add_argument("--merge", action="append", default=[], type=pathlib.Path, metavar="JSON",
                        help="print the table of results that were written before; as often as there are parts")
    return parser.parse_args()


def since(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """What the shards' turns took since `before`."""
    seen = {f"{name}_meanwhile": after[name] - before[name] for name in ("turns", "turns_over_1ms")}
    # The longest of a start is not the load's.
    if after["longest_turn_us"] > before["longest_turn_us"]:
        seen["longest_turn_us_meanwhile"] = after["longest_turn_us"]
    return seen


def load(row: Row, broker: Broker | Running, options: argparse.Namespace) -> dict[str, Any]:
    command = [str(TARGET / "release" / "courser"), "bench", *row.arguments, *broker.client, "--pid", str(broker.pid), "-V", options.version, "-o", "jsonl", "--quiet"]
    if row.arguments[0] == "mqtt":
        command += ["-d", str(options.seconds), "--warmup", "1"]
    seen = {}
    watched = row.look_after is not None and isinstance(broker, Broker) and broker.kind.name.startswith("courser")
    before = broker.turns() if watched else {}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=raise_open_files) as generator:
        if watched:
            time.sleep(row.look_after)
            seen = since(before, broker.turns())
        try:
            printed, complaint = generator.communicate(timeout=RUN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            generator.kill()
            raise
    if not printed.strip():
        raise RuntimeError(complaint.strip() or "no result")
    return json.loads(printed.strip().splitlines()[-1]) | seen


def measure(rows: list[Row], kinds: list[Kind | Running], options: argparse.Namespace) -> Results:
    results: Results = {}
    for turn in range(options.rounds):
        for row in rows:
            order = kinds[turn % len(kinds):] + kinds[:turn % len(kinds)]
            for kind in order:
                if kind.name in row.skip:
                    continue
                print(f"round {turn + 1}/{options.rounds}  {kind.name:12}  {row.name}", file=sys.stderr, flush=True)
                try:
                    with kind if isinstance(kind, Running) else Broker(kind) as broker:
                        result = load(row, broker, options)
                    result |= broker.last_words
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    print(f"  failed: {error}", file=sys.stderr)
                    result = {"failures": 1, "error": str(error)}
                results.setdefault((row.name, kind.name), []).append(result)
    return results


def values(results: Results, row: Row, broker: str, figure: Figure) -> list[float]:
    runs = results.get((row.name, broker), [])
    return [run[figure.key] for run in runs if isinstance(run.get(figure.key), (int, float))]


def median(results: Results, row: Row, broker: str, figure: Figure) -> float | None:
    found = values(results, row, broker, figure)
    return statistics.median(found) if found else None


def added(results: Results, row: Row, ours: str, figure: Figure) -> float | None:
    """What is added to a peer's figure, of the runs of ours; None where these have not said it."""
    return median(results, row, ours, dataclasses.replace(figure, key=figure.plus)) if figure.plus else 0.0


def limit(results: Results, row: Row, figure: Figure, brokers: list[str], ours: str) -> float | None:
    """What ours may be in this run: the best whole peer's figure, and what is added to it, times the share that target and the one seen of that
    peer make."""
    whole = []
    for peer, seen in figure.seen.items():
        runs = results.get((row.name, peer), [])
        theirs = median(results, row, peer, figure)
        if peer in brokers and theirs is not None and all(is_whole(row, run) for run in runs):
            whole.append((theirs, seen))
    if not whole:
        return None if figure.relative and figure.seen else figure.target
    best, seen = min(whole)
    more = added(results, row, ours, figure)
    return None if more is None else (best + more) * figure.target / seen


def shown(found: list[float], whole: bool) -> str:
    if not found:
        return "–" if whole else "– †"
    middle = statistics.median(found)
    digits = 0 if middle >= 100 else 1 if middle >= 10 else 3 if middle < 1 else 2
    spread = f" ({min(found):.{digits}f}–{max(found):.{digits}f})" if len(found) > 1 else ""
    return f"{middle:.{digits}f}{spread}" + ("" if whole else " †")


def table(results: Results, rows: list[Row], names: list[str]) -> tuple[str, bool]:
    lines = ["| workload | figure | " + " | ".join(names) + " | at most | |", "|---" * (len(names) + 4) + "|"]
    passed = True
    for row in rows:
        for figure in row.figures:
            cells = []
            for name in names:
                runs = results.get((row.name, name), [])
                cells.append(shown(values(results, row, name, figure), all(is_whole(row, run) for run in runs)))
            judged = {name: limit(results, row, figure, names, name) for name in names if name.startswith("courser")}
            verdicts = []
            for name, bound in judged.items():
                ours = median(results, row, name, figure)
                runs = results.get((row.name, name), [])
                if bound is not None and runs:
                    good = ours is not None and ours <= bound and all(is_whole(row, run) for run in runs)
                    passed &= good
                    verdicts.append("pass" if good else "FAIL")
            bounds = judged.values() or [limit(results, row, figure, names, "")]
            most = " / ".join(dict.fromkeys("–" if bound is None else f"{bound:.2f}" if bound < 100 else f"{bound:.0f}" for bound in bounds))
            lines.append(f"| {row.name} | {figure.name}, {figure.unit} | " + " | ".join(cells)
                         + f" | {most} | {' / '.join(verdicts)} |")
    return "\n".join(lines), passed


def described(options: argparse.Namespace) -> str:
    """Machine, commit and command of the runs that this process makes."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    processor = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                      if line.startswith("model name")), platform.machine())
    cores = len([line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("processor")])
    command = shlex.join(["bench/run.py", *sys.argv[1:]])
    load, _, _ = os.getloadavg()
    return (f"{processor}, {cores} cores, Linux {platform.release()}, loopback; commit {commit}; {time.strftime('%Y-%m-%d')}; "
            f"load average {load:.1f} before it; {options.rounds} interleaved rounds; `{command}`")


EXPLAINED = ("Medians of the rounds (range). † lost, repeated or reordered messages, or a failed run. \"At most\" is the share of the "
             "best whole peer of this run, see bench/rows.py.\n")


def write(path: pathlib.Path, about: str, results: Results) -> None:
    flat = [{"row": row, "broker": broker, "runs": runs} for (row, broker), runs in results.items()]
    path.write_text(json.dumps({"about": about, "results": flat}, indent=1))


def merge(paths: list[pathlib.Path]) -> tuple[list[str], Results]:
    """What several processes wrote. Runs of the same row and broker are put together."""
    about, results = [], {}
    for path in paths:
        part = json.loads(path.read_text())
        about.append(part["about"])
        for one in part["results"]:
            results.setdefault((one["row"], one["broker"]), []).extend(one["runs"])
    return about, results


def print_merged(paths: list[pathlib.Path]) -> int:
    about, results = merge(paths)
    rows = [row for row in OVER_TLS + DURABLE + ROWS if any(name == row.name for name, _ in results)]
    names = list(dict.fromkeys(broker for _, broker in results))
    text, passed = table(results, rows, names)
    print("\n".join(about), EXPLAINED, text, sep="\n\n")
    return 0 if passed else 1


def main() -> int:
    options = arguments()
    if options.merge:
        return print_merged(options.merge)
    about = described(options)
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "courser"], cwd=ROOT, check=True)
    raise_open_files()
    kept = ["courser-disk", "mosquitto-kept", "rumqttd", "nats-server"]
    usual = ["courser", "courser-tls"] if options.tls else kept if options.durable else [name for name, kind in KINDS.items() if kind.usual]
    kinds = [KINDS[name] for name in (options.broker or usual)] + [custom(text) for text in options.add]
    for kind in kinds:
        if not options.no_install:
            install(kind)
    missing = [kind.name for kind in kinds if find_binary(kind) is None]
    kinds = [kind for kind in kinds if kind.name not in missing]
    if missing:
        print(f"left out, not installed: {', '.join(missing)}", file=sys.stderr)
    kinds += [running(text) for text in options.running]
    every = OVER_TLS if options.tls else DURABLE if options.durable else ROWS
    rows = matching(options.row, every)
    if not rows:
        raise SystemExit("no such row; rows are:\n" + "\n".join(f"  {row.name}" for row in every))
    results = measure(rows, kinds, options)
    if options.json:
        write(options.json, about, results)
    text, passed = table(results, rows, [kind.name for kind in kinds])
    print(about, EXPLAINED, text, sep="\n\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
