"""`courser bench` shows how far it is where somebody looks: once a second on a terminal, and nothing of it elsewhere."""

import re
import subprocess

import pytest
from terminal import at_terminal

pytestmark = pytest.mark.courser

# At a rate, so that it is known what each second has.
RATE, SECONDS = 200, 3
SHOWN = re.compile(r"\r +(\d+) s +(\d+) sent/s +(\d+) received/s ")


def bench(broker, *more):
    command = [str(broker.binary()), "bench", "mqtt", "-p", str(broker.port), "--rate", str(RATE), "-d", str(SECONDS), "--warmup", "0"]
    return [*command, "--prefix", "progress", *more]


def test_progress_is_shown_at_a_terminal(broker):
    """A line that is written over each second and is gone before the result; what it says was sent and received is what the run has done."""
    code, screen = at_terminal(b"", b"", args=bench(broker))
    assert code == 0, screen
    lines = [tuple(map(int, found)) for found in SHOWN.findall(screen)]
    seconds = [second for second, _, _ in lines]
    assert len(lines) >= SECONDS - 1 and seconds == sorted(seconds), screen
    sent = int(re.search(r"^sent +(\d+)", screen, re.MULTILINE)[1])
    assert 0 < sum(line[1] for line in lines) <= sent and all(line[2] <= sent for line in lines), screen
    progress, _, result = screen.rpartition("\r" + " " * 60 + "\r")
    assert SHOWN.search(progress) and not SHOWN.search(result) and "received_per_second" in result, screen


def test_progress_is_not_shown_where_it_is_not_wanted(broker):
    code, screen = at_terminal(b"", b"", args=bench(broker, "--quiet"))
    assert code == 0 and "sent/s" not in screen, screen
    done = subprocess.run(bench(broker), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "sent/s" not in done.stdout + done.stderr, done.stdout + done.stderr
