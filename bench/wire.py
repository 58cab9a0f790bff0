"""The few packets of MQTT 5.0 that the scripts here send themselves, and a crowd of sockets that sends them in bulk.

No client library: it would read what must stay unread, and cost more than the broker that is measured.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import struct
import time
from typing import Iterable, Iterator

CONNACK, PUBLISH, PUBACK, SUBACK = 2, 3, 4, 9
PACKET_NAMES = {CONNACK: "CONNACK", PUBLISH: "PUBLISH", PUBACK: "PUBACK", SUBACK: "SUBACK"}
# Answers come long before this unless something is wrong.
ANSWER_SECONDS = 60.0


def number(value: int) -> bytes:
    """A variable byte integer."""
    encoded = bytearray()
    while True:
        value, digit = divmod(value, 128)
        encoded.append(digit | (0x80 if value else 0))
        if not value:
            return bytes(encoded)


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded


def packet(first: int, body: bytes) -> bytes:
    return bytes((first,)) + number(len(body)) + body


def connect(client_id: str, *, clean_start: bool = True, expiry_seconds: int = 0) -> bytes:
    """Without keep-alive: a client that is silent for long stays connected."""
    properties = b"\x11" + struct.pack(">I", expiry_seconds) if expiry_seconds else b""
    flags = 2 if clean_start else 0
    return packet(0x10, text("MQTT") + bytes((5, flags, 0, 0)) + number(len(properties)) + properties + text(client_id))


def subscribe(filters: Iterable[str], qos: int, packet_id: int = 1) -> bytes:
    return packet(0x82, struct.pack(">H", packet_id) + b"\0" + b"".join(text(name) + bytes((qos,)) for name in filters))


def publish(topic: str, payload: bytes, packet_id: int) -> bytes:
    """At QoS 1."""
    return packet(0x32, text(topic) + struct.pack(">H", packet_id) + b"\0" + payload)


def puback(packet_id: int) -> bytes:
    return packet(0x40, struct.pack(">H", packet_id))


DISCONNECT = packet(0xE0, b"")


class Peer:
    """A blocking connection to the broker that reads whole packets."""

    def __init__(self, port: int, *, small: bool = False) -> None:
        """`small`: the kernel holds as little as it can for this client, in segments as they are on an Ethernet."""
        self.socket = socket.socket()
        self.received = bytearray()
        self.packet_id = 0
        if small:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            # The loopback's 64 KiB segments would let the broker's side of each socket grow to 4 MiB.
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1460)
        self.socket.settimeout(ANSWER_SECONDS)
        self.socket.connect(("127.0.0.1", port))

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self) -> tuple[int, int, bytes]:
        """The next packet: type, flags, and what follows its length."""
        while True:
            found = self._whole()
            if found:
                return found
            more = self.socket.recv(65_536)
            if not more:
                raise ConnectionError("the broker closed the connection")
            self.received += more

    def _whole(self) -> tuple[int, int, bytes] | None:
        length, shift = 0, 0
        for at, byte in enumerate(self.received[1:5], start=1):
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if len(self.received) <= at + length:
                    return None
                first, body = self.received[0], bytes(self.received[at + 1:at + 1 + length])
                del self.received[:at + 1 + length]
                return first >> 4, first & 15, body
        return None

    def expect(self, kind: int) -> bytes:
        found, _, body = self.read()
        if found != kind:
            raise ConnectionError(f"expected {PACKET_NAMES[kind]}, got packet type {found}")
        return body

    def welcomed(self) -> bool:
        """Reads CONNACK and says whether a session was present."""
        body = self.expect(CONNACK)
        if body[1]:
            raise ConnectionError(f"refused with reason code {body[1]:#x}")
        return bool(body[0] & 1)

    def subscribed(self) -> None:
        body = self.expect(SUBACK)
        properties = body[2]
        refused = [code for code in body[3 + properties:] if code > 2]
        if refused:
            raise ConnectionError(f"subscription refused with reason code {refused[0]:#x}")

    def deliver(self, topic: str, payload: bytes, count: int = 1) -> None:
        """Publishes at QoS 1 and waits for all acknowledgements: then the broker has taken and routed them."""
        for _ in range(count):
            self.packet_id = self.packet_id % 0xFFFF + 1
            self.send(publish(topic, payload, self.packet_id))
        for _ in range(count):
            self.expect(PUBACK)

    def message(self) -> tuple[str, bytes]:
        """The next message, acknowledged if it asks for that: topic and payload."""
        kind, flags, body = self.read()
        if kind != PUBLISH:
            raise ConnectionError(f"expected PUBLISH, got packet type {kind}")
        topic_end = 2 + struct.unpack_from(">H", body)[0]
        at = topic_end
        if flags & 6:
            self.send(puback(struct.unpack_from(">H", body, at)[0]))
            at += 2
        return body[2:topic_end].decode(), body[at + 1 + body[at]:]

    def abort(self) -> None:
        """Closes with a reset: no port stays in TIME_WAIT, of which there are too few for so many connections."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def batches(count: int, size: int) -> Iterator[range]:
    for start in range(0, count, size):
        yield range(start, min(count, start + size))


def memory(pid: int) -> tuple[int, int]:
    """Resident bytes of a process, now and at most so far."""
    lines = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return tuple(int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))


def cpu_seconds(pid: int) -> float:
    """Of the threads that a process has, user and system, to the nanosecond: `stat` counts in hundredths of a second."""
    threads = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def wait_until_idle(pid: int, share: float = 0.02, seconds: float = 30.0) -> bool:
    """Waits until a process takes less than `share` of a core for half a second. False: it did not come to rest."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        before = cpu_seconds(pid)
        time.sleep(0.5)
        if cpu_seconds(pid) - before <= share * 0.5:
            return True
    return False


@contextlib.contextmanager
def session(port: int, client_id: str, **options: object) -> Iterator[Peer]:
    """A client that is connected for the length of a block."""
    with Peer(port) as peer:
        peer.send(connect(client_id, **options))
        peer.welcomed()
        yield peer
        peer.send(DISCONNECT)


def mib(count: float) -> str:
    return f"{count / 1048576:.1f} MiB"


def machine() -> str:
    """Processor, cores and load, to stand beside figures."""
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), "unknown processor")
    one, five, _ = os.getloadavg()
    return f"{model}, {os.cpu_count()} cores, load average {one:.1f} (1 min) {five:.1f} (5 min)"
