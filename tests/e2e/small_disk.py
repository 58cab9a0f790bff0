"""A small file system of its own in a file, for what a full disk does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

BYTES = 20 << 20


class NoSmallDisk(Exception):
    """This machine makes no file systems: no loop devices, or not allowed to."""


class SmallDisk:
    """20 MiB or as many bytes as are asked for at `folder`/mount, until it is left."""

    def __init__(self, folder: Path, size: int = BYTES):
        self.image, self.mount = folder / "image", folder / "mount"
        self.mount.mkdir(parents=True)
        self.image.write_bytes(b"")
        os.truncate(self.image, size)
        self._run("mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", str(self.image))
        self._run("mount", "-o", "loop", str(self.image), str(self.mount))

    @staticmethod
    def _run(*command: str) -> None:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise NoSmallDisk(f"no small file system: {error}") from error
        if done.returncode:
            raise NoSmallDisk(f"no small file system: {done.stderr.strip()}")

    def leave(self) -> None:
        subprocess.run(["umount", str(self.mount)], check=True)
