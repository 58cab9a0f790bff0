"""`courser bench --csv`: one header, and below it a line for each run in which every column is filled."""

import csv
import subprocess

import pytest

pytestmark = pytest.mark.courser

# By what it is called: its flags, and a column that says that it has done something.
RUNS = {
    "mqtt": (["mqtt", "-n", "2000", "--drain", "30s"], "received"),
    "connect": (["connect", "-n", "100", "--hold", "1s"], "connected"),
    "retained": (["retained", "-n", "200", "--topics", "200"], "replayed"),
    "absent": (["absent", "-n", "200", "--topics", "20"], "replayed"),
}
LABEL = 'first, "second"'


@pytest.mark.parametrize("name", RUNS)
def test_every_column_of_a_run_is_filled(broker, tmp_path, name):
    """Two runs into one file; the process of the broker is named, without which its time and memory are not known."""
    words, counted = RUNS[name]
    file = tmp_path / "runs.csv"
    more = ["-p", str(broker.port), "--pid", str(broker.process.pid), "--label", LABEL, "--prefix", f"csv/{name}", "--csv", str(file), "--quiet"]
    for _ in range(2):
        done = subprocess.run([str(broker.binary()), "bench", *words, *more], capture_output=True, text=True, timeout=80, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    header, *lines = csv.reader(file.read_text().splitlines())
    assert len(lines) == 2, "the header is there once"
    assert len(set(header)) == len(header) and counted in header, header
    for line in lines:
        assert len(line) == len(header), (header, line)
        found = dict(zip(header, line, strict=True))
        empty = [column for column, value in found.items() if value in ("", "-")]
        assert not empty, (empty, found)
        assert found["label"] == LABEL and float(found[counted]) > 0, found
