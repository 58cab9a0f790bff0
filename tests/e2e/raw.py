"""A client on a bare socket: sends any bytes and sees every packet of the broker as it came."""

from __future__ import annotations

import socket
import time

import wire
from wire import Packet

WAIT_SECONDS = 10


class Closed(AssertionError):
    """The broker closed the connection where a packet was expected."""


class RawClient:
    """Blocking. Nothing is acknowledged unless the scenario does it (`answer` for the usual cases)."""

    # How long a packet may take.
    patience = WAIT_SECONDS
    # The largest packet that it has said it takes.
    packet_max: int | None = None

    def __init__(self, address: tuple[str, int], version: int):
        self.version = version
        self.sock = socket.create_connection(address, timeout=WAIT_SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.kept: list[Packet] = []
        self.trace: list[str] = []
        self.connacks = 0
        self.next_id = 0

    # -- sockets

    def send(self, *packets: bytes) -> None:
        self.sock.sendall(b"".join(packets))

    def close(self) -> None:
        """Closes the socket without DISCONNECT."""
        self.sock.close()

    def reset(self) -> None:
        """Closes the socket by RST, as a broken network does."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def _fill(self, deadline: float) -> bool:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no packet within the time; seen so far:\n" + "\n".join(self.trace[-20:]))
        self.sock.settimeout(left)
        try:
            data = self.sock.recv(1 << 16)
        except (ConnectionResetError, BrokenPipeError):
            return False
        except TimeoutError:
            raise TimeoutError("no packet within the time; seen so far:\n" + "\n".join(self.trace[-20:])) from None
        self.buffer += data
        return bool(data)

    def receive(self, timeout: float | None = None) -> Packet | None:
        """The next packet, or None when the broker closed the connection."""
        return self.kept.pop(0) if self.kept else self._from_wire(self.patience if timeout is None else timeout)

    def _from_wire(self, timeout: float) -> Packet | None:
        deadline = time.monotonic() + timeout
        while True:
            found = self._cut()
            if found:
                self.trace.append(str(found))
                assert self.packet_max is None or found.size <= self.packet_max, f"longer than {self.packet_max}: {found}"
                if found.kind == wire.CONNACK:
                    self.connacks += 1
                    assert self.connacks == 1, "a second CONNACK"
                return found
            if not self._fill(deadline):
                assert not self.buffer, f"closed in the middle of a packet: {bytes(self.buffer[:64]).hex()}"
                return None

    def _cut(self) -> Packet | None:
        length = shift = 0
        for at in range(1, min(len(self.buffer), 5)):
            byte = self.buffer[at]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte & 0x80:
                continue
            if byte == 0 and at > 1:
                raise wire.WireError("remaining length longer than needed")
            end = at + 1 + length
            if len(self.buffer) < end:
                return None
            body = bytes(self.buffer[at + 1 : end])
            first = self.buffer[0]
            del self.buffer[:end]
            return wire.parse(self.version, first, body, end)
        if len(self.buffer) >= 5:
            raise wire.WireError("remaining length of more than four bytes")
        return None

    def read_all(self) -> bytes:
        """All bytes until the broker closes, not taken for packets."""
        found = b""
        try:
            while data := self.sock.recv(1 << 16):
                found += data
        except ConnectionResetError:
            pass
        return found

    # -- expectations

    def expect(self, kind: int, **fields) -> Packet:
        """The next packet has this kind and these fields."""
        found = self.receive()
        if found is None:
            raise Closed(f"closed, expected {wire.NAMES[kind]}; seen:\n" + "\n".join(self.trace[-20:]))
        assert found.kind == kind, f"expected {wire.NAMES[kind]} {fields}, got {found}"
        for name, value in fields.items():
            assert getattr(found, name) == value, f"expected {name}={value!r}, got {found}"
        return found

    def expect_closed(self, *reasons: int, timeout: float = WAIT_SECONDS) -> int | None:
        """The broker closes; a DISCONNECT (v5) before that must carry one of `reasons`. Returns the reason, if one came."""
        seen = None
        while True:
            found = self.receive(timeout)
            if found is None:
                return seen
            assert seen is None, f"sent after DISCONNECT: {found}"
            assert found.kind == wire.DISCONNECT, f"expected the end of the connection, got {found}"
            assert not reasons or found.reason in reasons, f"expected reason {[hex(r) for r in reasons]}, got {found}"
            seen = found.reason

    def expect_refused(self, *reasons: int) -> int | None:
        """Instead of a session: a CONNACK with one of `reasons` or no CONNACK at all, then the end of the connection."""
        found = self.receive()
        if found is None:
            return None
        assert found.kind == wire.CONNACK and found.reason, f"expected a refusal, got {found}"
        assert found.reason in reasons, f"expected {[hex(r) for r in reasons]}, got {found}"
        after = self.receive()
        assert after is None, f"sent after a refusal: {after}"
        return found.reason

    # -- usual steps

    def new_id(self) -> int:
        self.next_id = self.next_id % 65535 + 1
        return self.next_id

    def connect(self, client_id: str = "", **options) -> Packet:
        """CONNECT and the CONNACK that accepts it. No packet may be longer than the Maximum Packet Size that is given here."""
        self.packet_max = dict(options.get("properties", ())).get("maximum_packet_size")
        self.send(wire.connect(self.version, client_id, **options))
        return self.expect(wire.CONNACK, reason=0)

    def subscribe(self, *filters, qos: int = 0, options: int | None = None, properties=()) -> Packet:
        """SUBSCRIBE and its SUBACK; a filter is a string or (filter, options byte)."""
        packet_id = self.new_id()
        byte = qos if options is None else options
        pairs = [item if isinstance(item, tuple) else (item, byte) for item in filters]
        self.send(wire.subscribe(self.version, packet_id, pairs, properties))
        found = self.expect(wire.SUBACK, packet_id=packet_id)
        assert len(found.reasons) == len(pairs)
        return found

    def unsubscribe(self, *filters) -> Packet:
        packet_id = self.new_id()
        self.send(wire.unsubscribe(self.version, packet_id, filters))
        return self.expect(wire.UNSUBACK, packet_id=packet_id)

    def publish(self, topic: str, payload: bytes = b"", *, qos: int = 0, **options) -> None:
        """PUBLISH with its whole handshake; returns when the broker has taken it."""
        packet_id = self.new_id() if qos else None
        self.send(wire.publish(self.version, topic, payload, qos=qos, packet_id=packet_id, **options))
        if qos == 1:
            assert self.expect(wire.PUBACK, packet_id=packet_id).reason < 0x80
        elif qos == 2:
            assert self.expect(wire.PUBREC, packet_id=packet_id).reason < 0x80
            self.send(wire.ack(wire.PUBREL, packet_id))
            self.expect(wire.PUBCOMP, packet_id=packet_id)

    def answer(self, found: Packet) -> None:
        """Acknowledges a delivery: PUBACK, or the whole QoS 2 exchange."""
        if found.qos == 1:
            self.send(wire.ack(wire.PUBACK, found.packet_id))
        elif found.qos == 2:
            self.send(wire.ack(wire.PUBREC, found.packet_id))
            self._await_pubrel(found.packet_id)
            self.send(wire.ack(wire.PUBCOMP, found.packet_id))

    def _await_pubrel(self, packet_id: int) -> None:
        """Reads up to this PUBREL; what comes before it (pipelined deliveries) is kept for later."""
        while True:
            found = self._from_wire(self.patience)
            if found is None:
                raise Closed("closed, expected PUBREL")
            if found.kind == wire.PUBREL and found.packet_id == packet_id:
                return
            self.kept.append(found)

    def message(self, **fields) -> Packet:
        """The next packet is a PUBLISH with these fields; it is acknowledged."""
        found = self.expect(wire.PUBLISH, **fields)
        self.answer(found)
        return found

    def ping(self) -> None:
        """PINGREQ, and PINGRESP is the very next packet."""
        self.send(wire.PING)
        self.expect(wire.PINGRESP)

    def disconnect(self, reason: int | None = None, properties=None) -> None:
        """DISCONNECT, then the end of the connection."""
        self.send(wire.disconnect(self.version, reason, properties))
        assert self.receive() is None, "something sent after DISCONNECT"
        self.sock.close()
