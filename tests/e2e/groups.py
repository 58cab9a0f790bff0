"""A control group with a limit of memory, where this machine lets one be made."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class CannotMake(Exception):
    """This machine does not let this user make a control group."""


def _own(controller: str) -> str:
    """The path of this process in a hierarchy; empty for that of version 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == controller:
            return path.lstrip("/")
    return ""


def _parents() -> list[tuple[Path, str]]:
    """Where a group may be made, and the file of its limit."""
    old = ROOT / "memory"
    return [
        (ROOT / _own(""), "memory.max"),
        (ROOT, "memory.max"),
        (old / _own("memory"), "memory.limit_in_bytes"),
        (old, "memory.limit_in_bytes"),
    ]


@contextlib.contextmanager
def memory_group(limit: int):
    """The folder of a new group; a process joins by writing its id into `cgroup.procs`."""
    failures = []
    for parent, file in _parents():
        made = parent / f"courser-test-{os.getpid()}"
        if not (parent / "cgroup.procs").exists():
            failures.append(f"{parent}: no control group")
            continue
        try:
            made.mkdir()
        except OSError as error:
            failures.append(f"{made}: {error.strerror}")
            continue
        try:
            # Without the controller the file is not there, and cannot be made.
            (made / file).write_text(str(limit))
        except OSError as error:
            failures.append(f"{made / file}: {error.strerror}")
            made.rmdir()
            continue
        try:
            yield made
        finally:
            # Its last process may still be leaving.
            deadline = time.monotonic() + 10
            while made.exists():
                with contextlib.suppress(OSError):
                    made.rmdir()
                assert time.monotonic() < deadline, f"{made} is not empty"
                time.sleep(0.02)
        return
    raise CannotMake("; ".join(failures))


def join(group: Path) -> None:
    """To be called in the process that joins."""
    (group / "cgroup.procs").write_text(str(os.getpid()))
