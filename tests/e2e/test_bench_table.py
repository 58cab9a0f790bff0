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


@pytest.mark.parametrize("quantile", ["p50", "p99"])
def test_a_synced_row_is_judged_by_a_relay_and_its_own_syncs(quantile):
    """Ours may take 1.2 times what the relay without syncs and the syncs of its own run take together; each of two of ours has syncs of its own."""
    row = rows.DURABLE[-1]
    key, sync = f"delivery_{quantile}_us", f"log_commit_{quantile}_us"
    usual = measured(row)
    relay = {key: 100 for key in usual}

    def table(**ours):
        results = {(row.name, "unsynced"): [relay], **{(row.name, name): [usual | figures] for name, figures in ours.items()}}
        text, passed = run.table(results, [row], ["unsynced", *ours])
        line = next(line for line in text.splitlines() if f"| {quantile}, " in line)
        return [cell.strip() for cell in line.split("|")[-3:-1]], passed

    assert table(courser={key: 360, sync: 200}) == (["360", "pass"], True)
    assert table(courser={key: 361, sync: 200}) == (["360", "FAIL"], False)
    assert table(**{"courser-disk": {key: 361, sync: 200}, "courser-1": {key: 361, sync: 300}}) == (["360 / 480", "FAIL / pass"], False)


def test_a_synced_row_without_its_relay_or_its_syncs_is_not_judged():
    row = rows.DURABLE[-1]
    slow = {key: 10**9 for key in measured(row)}
    assert verdicts(row, [slow]) == ([], True)
    without = {key: value for key, value in slow.items() if not key.startswith("log_commit")}
    text, passed = run.table({(row.name, NAME): [without], (row.name, "unsynced"): [measured(row)]}, [row], ["unsynced", NAME])
    assert passed and "pass" not in text and "FAIL" not in text


def test_at_qos_2_nothing_comes_again():
    """Not even marked; at QoS 1 what is marked may."""
    for row in (*rows.ROWS, *rows.DURABLE):
        assert rows.is_whole(row, measured(row, duplicates_marked=1)) == ("QoS 2" not in row.name), row.name
