"""A command at a terminal where somebody answers."""

import os
import pty
import select
import subprocess
import time

# Nothing that we call writes this: it says that all which was written before it has been read.
END = b"\x1b[end]"
PATIENCE = 60


def at_terminal(prompt: bytes, answer: bytes, **command) -> tuple[int, str]:
    """Calls the command (arguments of `Popen`), gives the answer the first time that the screen ends with this prompt, and says the
    code and what stands there in the end.

    Both ends stay open until all is read: what a process has written last may be lost when nobody holds the end that it wrote to.
    """
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(**command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
            deadline = time.monotonic() + PATIENCE
            screen = b""
            ended = False
            while not screen.endswith(END):
                assert time.monotonic() < deadline, screen
                if not ended and process.poll() is not None:
                    ended = True
                    os.write(theirs, END)
                screen += _written(ours)
                if answer and screen.endswith(prompt):
                    os.write(ours, answer)
                    answer = b""
            return process.returncode, screen.removesuffix(END).decode()
    finally:
        os.close(ours)
        os.close(theirs)


def _written(terminal: int) -> bytes:
    """What has come, after a moment if nothing has."""
    ready, _, _ = select.select([terminal], [], [], 0.02)
    return os.read(terminal, 1 << 16) if ready else b""
