"""Large messages from shard to shard, with little memory: what the batches between them hold on to is given back before it shuts everybody out."""

import contextlib
import re
import threading
import time
import urllib.request

import pytest
import wire
from test_memory import LASTS, MIB, Client, Healthy, Server

pytestmark = pytest.mark.courser

# The least memory that so many shards start with. All that their links hold on to would fill it up.
SHARDS, MAX = 8, 24 * MIB
# Who sends to whom, how much at once, and how many of these each reader has before it ends.
PAIRS, BYTES, MESSAGES = 8, 60_000, 60
# Below this memory is not short, and buffers are kept.
SHORT = MAX // 16 * 10


def allocated(server):
    """Bytes, as /metrics has them."""
    address = re.search(r"API, metrics and health on (http://[0-9.:]+)", server.log.read_text())[1]
    text = urllib.request.urlopen(f"{address}/metrics", timeout=10).read().decode()  # noqa: S310
    return int(re.search(r'^courser_memory_bytes\{use="allocated"\} (\d+)', text, re.MULTILINE)[1])


class Reader(Client):
    """Reads all that comes, and counts it."""

    def __init__(self, server, number):
        super().__init__(server.port, f"r{number}")
        assert self.subscribe(f"large/{number}", qos=0) == 0
        self.bytes = 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        with contextlib.suppress(OSError):
            while data := self.socket.recv(1 << 18):
                self.bytes += len(data)


def write(client, done):
    """To all readers in turn, by QoS 0."""
    payload = bytes(BYTES)
    with contextlib.suppress(OSError):
        while not done.is_set():
            for number in range(PAIRS):
                client.send(wire.packet(3, wire.text(f"large/{number}") + b"\0" + payload))


@pytest.mark.timeout(120)
def test_what_links_hold_on_to_is_given_back(tmp_path):
    """Readers that read have all of their messages, and when these end nobody is refused."""
    server = Server(tmp_path, MAX, http='["127.0.0.1:0"]', shards=SHARDS)
    try:
        with Healthy(server.port) as healthy:
            healthy.is_served(LASTS, 60)
            before, done = allocated(server), threading.Event()
            readers = [Reader(server, number) for number in range(PAIRS)]
            writers = [Client(server.port, f"w{number}") for number in range(PAIRS)]
            threads = [threading.Thread(target=write, args=(writer, done), daemon=True) for writer in writers]
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + 60
            while min(reader.bytes for reader in readers) < MESSAGES * BYTES:
                assert time.monotonic() < deadline, [reader.bytes for reader in readers]
                time.sleep(0.05)
            during = allocated(server)
            done.set()
            for client in (*writers, *readers):
                client.close()
            deadline = time.monotonic() + 20
            while (after := allocated(server)) >= SHORT:
                assert time.monotonic() < deadline, f"{before >> 10} KiB before, {during >> 10} in between, and {after >> 10} stay"
                time.sleep(0.1)
            # What was answered before that was seen.
            healthy.is_served(1, 20)
            refused = healthy.refused
            healthy.is_served(LASTS, 60)
            assert healthy.refused == refused, "nothing holds memory any more"
            print(f"{before >> 10} KiB before, {during >> 10} in between, {after >> 10} after; {refused} refused")
    finally:
        code, log = server.stop()
    assert code == 0, log
