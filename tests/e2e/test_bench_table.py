"""The table of `bench/run.py`: a round or a connection that failed is seen in it, also where messages may be lost."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

import rows
import run

pytestmark = pytest.mark.courser

NAME = "courser"
LOSSY = [row for row in (*rows.ROWS, *rows.OVER_TLS) if row.may_lose]
STRICT = rows.ROWS[0]


def measured(row, **more):
    """A round in which every figure is as good as it can be."""
    return {figure.key: 0.001 for figure in row.figures} | more


def verdicts(row, rounds):
    """What the table says of each figure that has a bound, and whether all of it passes."""
    text, passed = run.table({(row.name, NAME): rounds}, [row], [NAME])
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
    return [(line[2], line[4]) for line in lines if line[3] != "–"], passed


@pytest.mark.parametrize("row", [STRICT, *LOSSY], ids=lambda row: row.name)
@pytest.mark.parametrize("failed", [{"failures": 5000}, None], ids=["connections", "round"])
def test_what_failed_fails_the_row(row, failed):
    """Half of the connections of one round, or one whole round of three, which has no figures then."""
    good = measured(row, failures=0)
    found, passed = verdicts(row, [good, good, good])
    assert passed and found and all(verdict == "pass" and "†" not in cell for cell, verdict in found)
    bad = measured(row, **failed) if failed else {"failures": 1, "error": "no result"}
    found, passed = verdicts(row, [good, bad, good])
    assert not passed and all(verdict == "FAIL" and "†" in cell for cell, verdict in found)


def test_rounds_that_all_failed_are_told_from_rounds_that_were_not_run():
    """Both have no figure."""
    row = LOSSY[0]
    broken = {"failures": 1, "error": "no result"}
    assert {cell for cell, _ in verdicts(row, [broken])[0]} == {"– †"}
    assert {cell for cell, _ in verdicts(row, [])[0]} == {"–"}


def test_only_a_row_that_may_lose_may():
    """Lost messages of QoS 0 or of a storm are not its business."""
    for row in (STRICT, *LOSSY):
        assert rows.is_whole(row, measured(row, lost=1)) == row.may_lose


def test_at_qos_2_nothing_comes_again():
    """Not even marked; at QoS 1 what is marked may."""
    for row in (*rows.ROWS, *rows.DURABLE):
        assert rows.is_whole(row, measured(row, duplicates_marked=1)) == ("QoS 2" not in row.name), row.name
