"""When files appear in, leave, or change their name in some folders: inotify, without a package."""

from __future__ import annotations

import ctypes
import os
import pathlib
import select
import struct
import threading
import time

CREATED, MOVED_FROM, MOVED_TO, DELETED = 0x100, 0x40, 0x80, 0x200
HEAD = struct.Struct("iIII")


class Watch:
    """Events of folders while a block runs, each with its moment in nanoseconds since 1970, folder and file name."""

    def __init__(self, *folders: pathlib.Path) -> None:
        self.events: list[tuple[int, str, str]] = []
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.handle = self.libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self.handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self.names: dict[int, str] = {}
        for folder in folders:
            number = self.libc.inotify_add_watch(self.handle, os.fsencode(folder), CREATED | MOVED_FROM | MOVED_TO | DELETED)
            if number < 0:
                raise OSError(ctypes.get_errno(), f"inotify_add_watch {folder}")
            self.names[number] = folder.name
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watch":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
        os.close(self.handle)

    def _run(self) -> None:
        while not self.over.is_set():
            if not select.select([self.handle], [], [], 0.1)[0]:
                continue
            now, data, at = time.time_ns(), os.read(self.handle, 65_536), 0
            while at < len(data):
                number, _, _, length = HEAD.unpack_from(data, at)
                name = data[at + HEAD.size:at + HEAD.size + length].rstrip(b"\0").decode()
                self.events.append((now, self.names[number], name))
                at += HEAD.size + length
