#!/usr/bin/env python3
"""How long a start takes: from the start of the program until it says that it is ready.

    bench/ready.py                        21 rounds, about half a minute
    bench/ready.py --rounds 5 --shards 2

Each round makes a first start, in an empty data folder, and a later one in the same folder, after the first was stopped in order; both
serve MQTT and operators on free ports of loopback. Prints median, smallest and largest of both. Ends with 1 if a median is not
below the limit, one second.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from brokers import TARGET

PATIENCE_SECONDS = 60.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21, help="first and later starts")
    parser.add_argument("--shards", type=int, help="threads that serve connections; without it one for each core")
    parser.add_argument("--limit-ms", type=float, default=1000.0, help="what a median must be below")
    parser.add_argument("--binary", default=os.environ.get("BENCH", str(TARGET / "release" / "courser")), help="the program; also from BENCH")
    return parser.parse_args()


def start(command: list[str], folder: pathlib.Path) -> float:
    """Milliseconds until a server is ready, which is stopped then and must end in order."""
    with (folder / "log").open("a") as log:
        began = time.monotonic()
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
    with server:
        try:
            ready = next((time.monotonic() for line in server.stdout if line == "ready\n"), None)
            if ready is None:
                sys.exit(f"it ended before it was ready: {' '.join(command)}\n{(folder / 'log').read_text()}")
            server.send_signal(signal.SIGTERM)
            if server.wait(PATIENCE_SECONDS) != 0:
                sys.exit(f"it did not stop in order: {' '.join(command)}")
        finally:
            server.kill()
    return (ready - began) * 1000


def main() -> int:
    chosen = arguments()
    # Each server has a folder of its own as the current one.
    binary = os.path.abspath(shutil.which(chosen.binary) or chosen.binary)
    shards = ["--shards", str(chosen.shards)] if chosen.shards else []
    took: dict[str, list[float]] = {"first": [], "later": []}
    with tempfile.TemporaryDirectory(prefix="courser-ready-") as around:
        for number in range(chosen.rounds):
            folder = pathlib.Path(around, str(number))
            folder.mkdir()
            command = [binary, "server", "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", "data", *shards]
            for times in took.values():
                times.append(start(command, folder))
    print(f"load average: {os.getloadavg()[0]:.2f}")
    kept = True
    for name, times in took.items():
        median = statistics.median(times)
        good = median < chosen.limit_ms
        kept &= good
        verdict = "pass" if good else "FAIL"
        print(f"{name} start: median {median:.0f} ms ({min(times):.0f}–{max(times):.0f}), limit {chosen.limit_ms:.0f} ms: {verdict}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
