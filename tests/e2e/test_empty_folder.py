"""What an empty broker takes of the disk, as README.md and docs/start.md say it."""

import os
import re
from pathlib import Path

import pytest
from broker import Courser, until
from doors import running

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="there is no data folder"),
]

MIB = 1 << 20
ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/start.md", "docs/operations/disk.md")


def taken(folder):
    """Bytes of the files below a folder, as the file system counts them."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def test_an_empty_broker_takes_six_segments(tmp_path):
    """With 4 MiB each it is 25 MiB, and so the pages have 385 MiB for the default."""
    with running(Courser, tmp_path / "broker", segment_bytes="4MiB") as broker:
        data = broker.folder / "data"
        until(lambda: len(list(data.glob("log/*.seg"))) == 6 and taken(data) > 24 * MIB, "the log makes its room")
        assert taken(data) <= 25 * MIB
    for page in PAGES:
        text = re.sub(r"\s+", " ", (ROOT / page).read_text())
        assert "385 MiB" in text and "25 MiB" in text, page
