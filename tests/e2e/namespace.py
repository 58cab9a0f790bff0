"""A network of its own for one test: a loopback on which every port is free. Root makes one, and where the kernel lets them, others."""

from __future__ import annotations

import contextlib
import os
import subprocess


class CannotMake(Exception):
    """This machine does not let this user make a network."""


@contextlib.contextmanager
def own_network():
    """How a command begins that runs in it."""
    is_root = os.geteuid() == 0
    # It is there for as long as the holder, which ends with its standard input at the latest.
    command = ["unshare", "--net", *([] if is_root else ["--map-root-user"]), "sh", "-c", "ip link set lo up && echo up && exec cat"]
    try:
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError as error:
        raise CannotMake(str(error)) from None
    with holder:
        if holder.stdout.readline() != "up\n":
            raise CannotMake(holder.stderr.read().strip())
        yield ["nsenter", f"--target={holder.pid}", "--net", *([] if is_root else ["--user", "--preserve-credentials"])]
