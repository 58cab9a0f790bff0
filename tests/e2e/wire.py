"""MQTT packets as bytes, for scenarios that no client library would send or let one see.

Written from the two standards, independent of the broker's own codec. Building is permissive (it must be able to build
wrong packets); reading what the broker sent is strict, so every scenario also checks the broker's encoding.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)

NAMES = (
    "0 CONNECT CONNACK PUBLISH PUBACK PUBREC PUBREL PUBCOMP "
    "SUBSCRIBE SUBACK UNSUBSCRIBE UNSUBACK PINGREQ PINGRESP DISCONNECT AUTH"
).split()

V3, V5 = 4, 5

# name -> (identifier, kind of value)
PROPERTIES = {
    "payload_format": (0x01, "byte"),
    "message_expiry": (0x02, "four"),
    "content_type": (0x03, "string"),
    "response_topic": (0x08, "string"),
    "correlation_data": (0x09, "binary"),
    "subscription_id": (0x0B, "varint"),
    "session_expiry": (0x11, "four"),
    "assigned_client_id": (0x12, "string"),
    "server_keep_alive": (0x13, "two"),
    "authentication_method": (0x15, "string"),
    "authentication_data": (0x16, "binary"),
    "request_problem_info": (0x17, "byte"),
    "will_delay": (0x18, "four"),
    "request_response_info": (0x19, "byte"),
    "response_info": (0x1A, "string"),
    "server_reference": (0x1C, "string"),
    "reason_string": (0x1F, "string"),
    "receive_maximum": (0x21, "two"),
    "topic_alias_maximum": (0x22, "two"),
    "topic_alias": (0x23, "two"),
    "maximum_qos": (0x24, "byte"),
    "retain_available": (0x25, "byte"),
    "user_property": (0x26, "pair"),
    "maximum_packet_size": (0x27, "four"),
    "wildcard_available": (0x28, "byte"),
    "subscription_ids_available": (0x29, "byte"),
    "shared_available": (0x2A, "byte"),
}
BY_ID = {identifier: (name, kind) for name, (identifier, kind) in PROPERTIES.items()}

# What a server may put into each packet (v5 table 2-4), and the reason codes of each packet's own table.
SERVER_PROPERTIES = {
    CONNACK: set(
        "session_expiry assigned_client_id server_keep_alive authentication_method authentication_data response_info "
        "server_reference reason_string receive_maximum topic_alias_maximum maximum_qos retain_available user_property "
        "maximum_packet_size wildcard_available subscription_ids_available shared_available".split()
    ),
    PUBLISH: set(
        "payload_format message_expiry content_type response_topic correlation_data subscription_id topic_alias "
        "user_property".split()
    ),
    DISCONNECT: {"server_reference", "reason_string", "user_property"},
    AUTH: {"authentication_method", "authentication_data", "reason_string", "user_property"},
}
REASON_STRING_AND_USER = {"reason_string", "user_property"}
REASON_CODES = {
    CONNACK: {0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F},
    PUBACK: {0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    PUBREC: {0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    PUBREL: {0, 0x92},
    PUBCOMP: {0, 0x92},
    SUBACK: {0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2},
    UNSUBACK: {0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91},
    DISCONNECT: {
        0, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3),
    },
    AUTH: {0, 0x18, 0x19},
}


class WireError(AssertionError):
    """The broker sent bytes that the standard forbids."""


# ---- building -------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def two(value: int) -> bytes:
    return value.to_bytes(2, "big")


def text(value: str | bytes) -> bytes:
    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return two(len(raw)) + raw


def prop(name: str, value) -> bytes:
    """One property with its identifier."""
    identifier, kind = PROPERTIES[name]
    encoded = {
        "byte": lambda: bytes([value]),
        "two": lambda: two(value),
        "four": lambda: value.to_bytes(4, "big"),
        "varint": lambda: varint(value),
        "string": lambda: text(value),
        "binary": lambda: text(bytes(value)),
        "pair": lambda: text(value[0]) + text(value[1]),
    }[kind]()
    return bytes([identifier]) + encoded


def props(items=()) -> bytes:
    """Property length and properties. `items`: a dict, a list of (name, value), or bytes to take as they are."""
    if isinstance(items, (bytes, bytearray)):
        return varint(len(items)) + bytes(items)
    pairs = items.items() if isinstance(items, dict) else items
    body = b"".join(prop(name, value) for name, value in pairs)
    return varint(len(body)) + body


def packet(kind: int, body: bytes = b"", flags: int = 0) -> bytes:
    return bytes([kind << 4 | flags]) + varint(len(body)) + body


@dataclass
class Will:
    topic: str | bytes
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: object = ()


def connect(
    version: int,
    client_id: str | bytes = "",
    *,
    clean: bool = True,
    keep_alive: int = 60,
    properties=(),
    will: Will | None = None,
    username: str | bytes | None = None,
    password: bytes | None = None,
    flags: int | None = None,
    name: str = "MQTT",
    level: int | None = None,
) -> bytes:
    bits = 0x02 if clean else 0
    payload = text(client_id)
    if will:
        bits |= 0x04 | will.qos << 3 | (0x20 if will.retain else 0)
        payload += props(will.properties) if version == V5 else b""
        payload += text(will.topic) + text(bytes(will.payload))
    if username is not None:
        bits |= 0x80
        payload += text(username)
    if password is not None:
        bits |= 0x40
        payload += text(password)
    head = text(name) + bytes([version if level is None else level, bits if flags is None else flags])
    head += two(keep_alive) + (props(properties) if version == V5 else b"")
    return packet(CONNECT, head + payload)


def publish(
    version: int, topic: str | bytes, payload: bytes = b"", *, qos=0, packet_id=None, retain=False, dup=False, properties=()
) -> bytes:
    flags = (8 if dup else 0) | qos << 1 | int(retain)
    body = text(topic) + (two(packet_id) if packet_id is not None else b"")
    return packet(PUBLISH, body + (props(properties) if version == V5 else b"") + payload, flags)


def ack(kind: int, packet_id: int, reason: int | None = None, properties=None) -> bytes:
    """PUBACK, PUBREC, PUBREL, PUBCOMP; the short form unless a reason is given."""
    body = two(packet_id) + (b"" if reason is None else bytes([reason]))
    body += b"" if properties is None else props(properties)
    return packet(kind, body, 2 if kind == PUBREL else 0)


def subscribe(version: int, packet_id: int, filters, properties=()) -> bytes:
    """`filters`: (filter, options byte) pairs."""
    body = two(packet_id) + (props(properties) if version == V5 else b"")
    return packet(SUBSCRIBE, body + b"".join(text(name) + bytes([options]) for name, options in filters), 2)


def unsubscribe(version: int, packet_id: int, filters, properties=()) -> bytes:
    body = two(packet_id) + (props(properties) if version == V5 else b"")
    return packet(UNSUBSCRIBE, body + b"".join(text(name) for name in filters), 2)


def disconnect(version: int, reason: int | None = None, properties=None) -> bytes:
    body = b"" if reason is None else bytes([reason])
    return packet(DISCONNECT, body + (b"" if properties is None else props(properties)))


PING = packet(PINGREQ)


# ---- reading --------------------------------------------------------------------------------------------------------


@dataclass
class Packet:
    """A packet from the broker. `size` is its length on the wire, properties are a dict (lists for what may repeat)."""

    kind: int
    flags: int
    size: int
    packet_id: int | None = None
    reason: int = 0
    reasons: list[int] = field(default_factory=list)
    session_present: bool = False
    topic: str = ""
    payload: bytes = b""
    properties: dict = field(default_factory=dict)

    @property
    def qos(self) -> int:
        return self.flags >> 1 & 3

    @property
    def retain(self) -> bool:
        return bool(self.flags & 1)

    @property
    def dup(self) -> bool:
        return bool(self.flags & 8)

    def __str__(self) -> str:
        shown = f"{NAMES[self.kind]} flags={self.flags:x} id={self.packet_id} reason={self.reason:#x} {self.reasons}"
        return f"{shown} topic={self.topic!r} payload={self.payload[:40]!r} {self.properties}"


class Reader:
    """Reads fields from a body and fails on anything short or ill-formed."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise WireError(f"packet too short: {self.data.hex()}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                if byte == 0 and shift > 7:
                    raise WireError("variable byte integer longer than needed")
                return value
            if shift > 21:
                raise WireError("variable byte integer of more than four bytes")

    def text(self) -> str:
        value = self.take(self.number(2)).decode("utf-8", "strict")
        if "\0" in value:
            raise WireError("U+0000 in a string")
        return value

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    def properties(self, kind: int) -> dict:
        inner = Reader(self.take(self.varint()))
        allowed = SERVER_PROPERTIES.get(kind, REASON_STRING_AND_USER)
        found: dict = {}
        while inner.at < len(inner.data):
            identifier = inner.varint()
            if identifier not in BY_ID or BY_ID[identifier][0] not in allowed:
                raise WireError(f"property {identifier:#x} in {NAMES[kind]}")
            name, how = BY_ID[identifier]
            value = inner.value(how)
            if name in ("user_property", "subscription_id"):
                found.setdefault(name, []).append(value)
            elif name in found:
                raise WireError(f"{name} twice in {NAMES[kind]}")
            else:
                found[name] = value
        return found

    def value(self, kind: str):
        return {
            "byte": lambda: self.number(1),
            "two": lambda: self.number(2),
            "four": lambda: self.number(4),
            "varint": self.varint,
            "string": self.text,
            "binary": lambda: self.take(self.number(2)),
            "pair": lambda: (self.text(), self.text()),
        }[kind]()


def parse(version: int, first: int, body: bytes, size: int) -> Packet:
    """A packet of the broker, checked: flags, length, properties and reason codes allowed there."""
    found = Packet(first >> 4, first & 15, size)
    if found.kind not in (CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, PINGRESP, DISCONNECT, AUTH):
        raise WireError(f"a server may not send {NAMES[found.kind]}")
    if found.kind != PUBLISH and found.flags != (2 if found.kind == PUBREL else 0):
        raise WireError(f"flags {found.flags:#x} in {NAMES[found.kind]}")
    if version == V3 and found.kind in (DISCONNECT, AUTH):
        raise WireError(f"{NAMES[found.kind]} from a server to a 3.1.1 client")
    fields = Reader(body)
    _PARSERS[found.kind](version, fields, found)
    if fields.at != len(body):
        raise WireError(f"bytes after the last field of {found}")
    if version == V5:
        for code in found.reasons or [found.reason]:
            if found.kind in REASON_CODES and code not in REASON_CODES[found.kind]:
                raise WireError(f"reason {code:#x} is not of {NAMES[found.kind]}")
    return found


def _connack(version, fields, found):
    flags = fields.number(1)
    if flags > 1:
        raise WireError(f"CONNACK flags {flags:#x}")
    found.session_present, found.reason = bool(flags), fields.number(1)
    if version == V5:
        found.properties = fields.properties(CONNACK)
    elif found.reason > 5:
        raise WireError(f"return code {found.reason} in a 3.1.1 CONNACK")
    if found.reason and found.session_present:
        raise WireError("Session Present in a refusal")


def _publish(version, fields, found):
    if found.qos == 3:
        raise WireError("QoS 3")
    if found.qos == 0 and found.dup:
        raise WireError("DUP with QoS 0")
    found.topic = fields.text()
    if "#" in found.topic or "+" in found.topic:
        raise WireError(f"wildcard in topic name {found.topic!r}")
    if found.qos:
        found.packet_id = fields.number(2)
        if not found.packet_id:
            raise WireError("packet id 0")
    if version == V5:
        found.properties = fields.properties(PUBLISH)
        if found.properties.get("topic_alias") == 0:
            raise WireError("topic alias 0")
        if 0 in found.properties.get("subscription_id", []):
            raise WireError("subscription identifier 0")
    if not found.topic and "topic_alias" not in found.properties:
        raise WireError("empty topic without alias")
    found.payload = fields.rest()


def _ack(version, fields, found):
    found.packet_id = fields.number(2)
    if version == V5 and fields.at < len(fields.data):
        found.reason = fields.number(1)
        if fields.at < len(fields.data):
            found.properties = fields.properties(found.kind)


def _codes(version, fields, found):
    found.packet_id = fields.number(2)
    if version == V5:
        found.properties = fields.properties(found.kind)
    found.reasons = list(fields.rest())
    if version == V3 and found.kind == SUBACK and any(code not in (0, 1, 2, 0x80) for code in found.reasons):
        raise WireError(f"3.1.1 SUBACK with {found.reasons}")


def _reason(version, fields, found):
    if fields.data:
        found.reason = fields.number(1)
        if fields.at < len(fields.data):
            found.properties = fields.properties(found.kind)


_PARSERS = {
    CONNACK: _connack, PUBLISH: _publish, PUBACK: _ack, PUBREC: _ack, PUBREL: _ack, PUBCOMP: _ack,
    SUBACK: _codes, UNSUBACK: _codes, PINGRESP: lambda *_: None, DISCONNECT: _reason, AUTH: _reason,
}
