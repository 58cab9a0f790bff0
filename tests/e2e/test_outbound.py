"""The broker is a server only: it dials out to nobody, so it need not conform as a client."""

import os
from pathlib import Path

import pytest
from clients.base import Subscription, Will

pytestmark = pytest.mark.courser

LISTEN = "0A"


def inodes(pid: int) -> set[str]:
    """The sockets of a process."""
    found = set()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(entry.path)
        except FileNotFoundError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            found.add(target.removeprefix("socket:[").removesuffix("]"))
    return found


def internet_sockets(pid: int) -> list[tuple[str, str, str]]:
    """Protocol, local port and state of each socket of a process that can reach other machines."""
    own = inodes(pid)
    found = []
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        table = Path(f"/proc/{pid}/net/{protocol}")
        lines = table.read_text().splitlines()[1:] if table.exists() else []
        for fields in (line.split() for line in lines):
            if fields[9] in own:
                found.append((protocol, fields[1].rsplit(":", 1)[1], fields[3]))
    return found


def test_dials_nobody(mqtt):
    """Whatever clients do, each TCP socket of the broker listens or was accepted where it listens, and it has no other kind.

    v3 [MQTT-7.0.0-1]
    """
    watcher = mqtt.subscriber(mqtt.topic("#"))
    client, _ = mqtt.resume("c", will=Will(mqtt.topic("will"), b"gone", 1))
    client.subscribe([Subscription("$SYS/broker/version", 0)])
    client.publish(mqtt.topic("kept"), b"kept", 2, retain=True)
    assert watcher.message().payload == b"kept"
    client.drop()
    assert watcher.message().payload == b"gone"
    sockets = internet_sockets(mqtt.broker.process.pid)
    listening = {port for protocol, port, state in sockets if protocol.startswith("tcp") and state == LISTEN}
    mqtt_port = f"{mqtt.broker.address[1]:04X}"
    assert mqtt_port in listening
    assert any(port == mqtt_port and state != LISTEN for _, port, state in sockets), "the clients' own connections are seen"
    assert [socket for socket in sockets if not socket[0].startswith("tcp") or socket[1] not in listening] == []
