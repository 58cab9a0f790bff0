"""`server.pin_shards`: each shard has a core of its own."""

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.courser


def cores_of_shards(server):
    """Where each shard's thread may run."""
    found = {}
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith("shard-"):
            line = next(line for line in (task / "status").read_text().splitlines() if line.startswith("Cpus_allowed_list:"))
            found[name] = line.split()[1]
    return found


def test_pinned_shards_share_no_core(brokers):
    """One core each, no two the same."""
    cores = cores_of_shards(brokers.own(pin_shards="true"))
    assert cores and all(core.isdigit() for core in cores.values()), cores
    assert len(set(cores.values())) == len(cores) == len(os.sched_getaffinity(0)), cores
