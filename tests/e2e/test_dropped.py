"""What a client can bring about is counted as dropped by its own reason, each message once, and by no other: `courser_messages_dropped_total`.

Each case says how many it has caused. What is left out is in `NOT_BY_CLIENTS`.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import wire
from broker import Courser, until
from doors import WithAccounts, running
from scenario import Raw
from test_cve_access import Attacked
from wire import PUBACK, PUBLISH, V5

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="some of it is about what a data folder keeps"),
]

# The bytes of a record that the disk has lost: test_repair.py.
NOT_BY_CLIENTS = {"damaged"}
ROOM, SENT = 3, 5
# More than all buffers of the system between two processes hold.
FLOOD, FLOOD_BYTES = 400, 60_000
ALL_OF_THE_DISK = "1TiB"


@dataclass
class Case:
    """`cause` brings drops about and says how many."""

    cause: Callable[[Raw], int]
    settings: dict[str, object] = field(default_factory=dict)
    kind: type[Courser] = Courser


def absent(raw: Raw, topic: str) -> None:
    """A session that is away and has subscribed."""
    client, _ = raw.resume("absent")
    client.subscribe(topic, qos=1)
    client.disconnect()


def publish(raw: Raw, topic: str, count: int, **options) -> list[int]:
    """Messages of one client that is gone then, and what was answered."""
    client = raw.connect("pub")
    codes = []
    for number in range(count):
        client.send(wire.publish(V5, topic, b"%d" % number, packet_id=1 if options.get("qos") else None, **options))
        if options.get("qos"):
            codes.append(client.expect(PUBACK).reason)
    client.ping()
    client.disconnect()
    return codes


def no_subscriber(raw):
    assert publish(raw, "nobody", 2, qos=1) == [0x10, 0x10]
    publish(raw, "nobody", 1)
    return 3


def queue_full(raw):
    absent(raw, "w")
    assert publish(raw, "w", SENT, qos=1) == [0] * SENT
    return SENT - ROOM


def quota(raw):
    absent(raw, "w")
    assert publish(raw, "w", SENT, qos=1) == [0] * ROOM + [0x97] * (SENT - ROOM)
    return SENT - ROOM


def over_limit(raw):
    """The limit is lowered under what waits."""
    absent(raw, "w")
    publish(raw, "w", SENT, qos=1)
    config = raw.broker.folder / "limits.toml"
    config.write_text(f"[session]\nqueue_messages_max = {ROOM}\n")
    raw.broker.process.send_signal(signal.SIGHUP)
    return SENT - ROOM


def expired(raw):
    absent(raw, "w")
    publish(raw, "w", 2, qos=1, properties={"message_expiry": 1})
    publish(raw, "w", 1, qos=1, properties={"message_expiry": 1000})
    return 2


def too_old(raw):
    absent(raw, "w")
    publish(raw, "w", 2, qos=1)
    return 2


def too_large(raw):
    """Longer than the client takes, at QoS 0 and above; what is not comes."""
    client = raw.connect("sub", properties={"maximum_packet_size": 100})
    client.subscribe("w", qos=1)
    publisher = raw.connect("pub")
    publisher.publish("w", bytes(200))
    publisher.publish("w", bytes(200), qos=1)
    publisher.publish("w", b"marker", qos=1)
    client.message(payload=b"marker")
    return 2


def output_full(raw):
    """QoS 0 for a client that does not read, beyond what it may have waiting; all others come, and QoS 1 does."""
    client = raw.connect("slow", keep_alive=0)
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client.subscribe("flood")
    client.subscribe("end", qos=1)
    publisher = raw.connect("pub")
    for _ in range(FLOOD):
        publisher.publish("flood", bytes(FLOOD_BYTES))
    publisher.publish("end", qos=1)
    came = 0
    while client.expect(PUBLISH).topic == "flood":
        came += 1
    assert 0 < came < FLOOD
    return FLOOD - came


def offline(raw):
    absent(raw, "w")
    publish(raw, "w", 2)
    return 2


def rejected(raw):
    """By the client that gets it."""
    client = raw.connect("sub")
    client.subscribe("w", qos=1)
    publish(raw, "w", 1, qos=1)
    client.send(wire.ack(PUBACK, client.expect(PUBLISH).packet_id, 0x80))
    client.ping()
    return 1


def retained_full(raw):
    """Nobody can be told at QoS 0."""
    publish(raw, "kept", 2, retain=True)
    return 2


def disk_full(raw):
    publish(raw, "kept", 2, retain=True)
    return 2


def denied(raw):
    """What a client may not publish, nobody but the broker may, and what it has subscribed to and may not have."""
    operator = Attacked(raw.broker)
    operator.user("reader", ("subscribe", "w/#"), ("subscribe", "w/secret", "--deny", "--yes"))
    reader, _ = operator.connect(V5, "reader", "reader")
    reader.subscribe("w/#", qos=1)
    reader.send(wire.publish(V5, "w/a", b""))
    root, _ = operator.connect(V5, "root", "root")
    root.publish("w/secret", b"0")
    root.publish("w/secret", b"1", qos=1)
    root.publish("$SYS/broker/forged", b"")
    root.publish("w/open", b"marker", qos=1)
    reader.message(payload=b"marker")
    return 4


def author_denied(raw):
    """Who has published it has lost the right to its topic, and two ask for it."""
    operator = Attacked(raw.broker)
    operator.user("writer", ("publish", "w/#"))
    writer, _ = operator.connect(V5, "writer", "writer")
    writer.publish("w/a", b"kept", qos=1, retain=True)
    operator.run("acl", "revoke", "writer", "publish", "w/#", "--yes")
    for name in ("one", "two"):
        root, _ = operator.connect(V5, "root", name)
        root.subscribe("w/#")
        # Its retained messages may still be looked for.
        raw.made.append(root)
    return 2


CASES = {
    "no_subscriber": Case(no_subscriber),
    "queue_full": Case(queue_full, {"queue_messages": ROOM}),
    "quota": Case(quota, {"queue_messages": ROOM, "overflow": "refuse"}),
    "over_limit": Case(over_limit, {"config": "limits.toml"}),
    "expired": Case(expired),
    "too_old": Case(too_old, {"queue_age": 1}),
    "too_large": Case(too_large),
    "output_full": Case(output_full, {"output_bytes": "64KiB"}),
    "offline": Case(offline),
    "rejected": Case(rejected),
    "retained_full": Case(retained_full, {"retained_messages": 0}),
    "disk_full": Case(disk_full, {"reserve_bytes": ALL_OF_THE_DISK}),
    "denied": Case(denied, kind=WithAccounts),
    "author_denied": Case(author_denied, kind=WithAccounts),
}


def counted(broker: Courser) -> dict[str, int]:
    """Dropped messages by reason, those of which there are none too."""
    with urllib.request.urlopen(f"{broker.http}/metrics", timeout=20) as answer:  # noqa: S310
        text = answer.read().decode()
    return {reason: int(float(count)) for reason, count in re.findall(r'^courser_messages_dropped_total\{reason="(\w+)"\} (\S+)$', text, re.MULTILINE)}


@pytest.fixture
def small_disk():
    """A folder on a disk of less room than may be kept in reserve: it is memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield folder


@pytest.mark.parametrize("reason", CASES)
def test_a_drop_is_counted_by_its_reason(tmp_path, small_disk, reason):
    case = CASES[reason]
    (tmp_path / "limits.toml").touch()
    more = {"data": f"{small_disk}/data"} if reason == "disk_full" else {}
    with running(case.kind, tmp_path, sys_interval=0, **case.settings, **more) as broker:
        none = counted(broker)
        assert set(none) == set(CASES) | NOT_BY_CLIENTS and not any(none.values())
        raw = Raw(broker, V5)
        expected = none | {reason: case.cause(raw)}
        until(lambda: counted(broker)[reason] >= expected[reason], f"{counted(broker)} instead of {expected}")
        assert counted(broker) == expected
        raw.release()
    # Nor did any come later.
    at_the_end = re.findall(r"\bdropped_(\w+)=(\d+)", broker.output())
    assert {name: int(count) for name, count in at_the_end} == {reason: expected[reason]}
