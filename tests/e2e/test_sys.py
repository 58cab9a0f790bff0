"""$-topics: what matches them, and the broker's own `$SYS/broker/…`."""

import dataclasses
import json
import re
import subprocess
import time

import pytest
import wire
from broker import until
from clients.base import Subscription
from raw import RawClient
from wire import V5

# Mosquitto's names, which its exporters and dashboards read.
TOPICS = {
    f"$SYS/broker/{name}"
    for name in (
        "bytes/received", "bytes/sent", "heap/current", "heap/maximum", "messages/received", "messages/sent", "messages/stored",
        "publish/bytes/received", "publish/bytes/sent", "publish/messages/dropped", "publish/messages/received",
        "publish/messages/sent", "retained messages/count", "shared_subscriptions/count", "store/messages/bytes",
        "store/messages/count", "subscriptions/count", "uptime", "version",
        *(f"clients/{state}" for state in "active connected disconnected expired inactive maximum total".split()),
        *(
            f"load/{what}/{minutes}min"
            for what in (
                "bytes/received", "bytes/sent", "connections", "messages/received", "messages/sent", "publish/dropped",
                "publish/received", "publish/sent", "sockets",
            )
            for minutes in (1, 5, 15)
        ),
    )
}  # fmt: skip


def test_version(mqtt):
    """`$SYS/broker/version` is there for a new subscriber."""
    found = mqtt.subscriber("$SYS/broker/version", qos=0).message()
    assert found.topic == "$SYS/broker/version"
    assert b"version" in found.payload.lower() or found.payload[:1].isdigit() or b"courser" in found.payload.lower()
    assert found.retain


def test_values_move(brokers, mqtt):
    """The number of connected clients and the messages received change with time, each value a number."""
    mqtt.broker = brokers.common(sys_interval=1)
    watcher = mqtt.subscriber("$SYS/broker/uptime", qos=0)
    first, second = watcher.messages(2)
    assert first.payload != second.payload


@pytest.mark.parametrize("name", ["clients/connected", "messages/received", "subscriptions/count", "bytes/sent"])
def test_values_are_numbers(brokers, mqtt, name):
    """Counters are plain decimal numbers."""
    mqtt.broker = brokers.common(sys_interval=1)
    found = mqtt.subscriber(f"$SYS/broker/{name}", qos=0).message()
    assert int(found.payload) >= 0


@dataclasses.dataclass
class Tally:
    """Packets and their bytes on the wire."""

    packets: int = 0
    bytes: int = 0

    def add(self, packet_bytes):
        self.packets += 1
        self.bytes += packet_bytes


class Counting(RawClient):
    """Keeps account of what all clients send and get. It sends whole packets."""

    sent, got = Tally(), Tally()

    def send(self, *packets):
        for packet in packets:
            self.sent.add(len(packet))
        super().send(*packets)

    def _from_wire(self, timeout):
        found = super()._from_wire(timeout)
        if found:
            self.got.add(found.size)
        return found


def retained(broker, *words):
    """What an operator is told, which is no traffic. None: there is no such message."""
    command = [broker.binary(), "retained", *words, "--server", "data", "-o", "jsonl"]
    done = subprocess.run(command, cwd=broker.folder, capture_output=True, text=True, timeout=60, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()] if done.returncode == 0 else None


def value(broker, name):
    """What the broker has published of itself last; None: nothing yet."""
    found = retained(broker, "show", f"$SYS/broker/{name}")
    return found and found[0]["payload"]


@pytest.mark.courser
def test_values_are_what_was_done(brokers, monkeypatch):
    """Clients that count come, go and publish at each QoS to who is there, who is away and nobody: the values say the same afterwards."""
    sent, got = Tally(), Tally()
    monkeypatch.setattr(Counting, "sent", sent)
    monkeypatch.setattr(Counting, "got", got)
    broker = brokers.own(sys_interval=1)

    def connect(name, **more):
        client = Counting(broker.address, V5)
        client.connect(name, **more)
        return client

    kept = {"session_expiry": 3600}
    absent = connect("absent", clean=False, properties=kept)
    absent.subscribe("waits", "$share/g/shared", qos=1)
    absent.disconnect()
    connect("short", clean=False, properties={"session_expiry": 1}).disconnect()
    until(lambda: value(broker, "clients/expired") == "1", "its session is over")
    guest = connect("guest")
    subscriber = connect("subscriber")
    subscriber.subscribe("a", "b/+", qos=2)
    publisher = connect("publisher")
    until(lambda: value(broker, "clients/total") == "4", "all of them are seen")
    guest.disconnect()

    for qos in (0, 1, 2):
        for number in range(qos + 1):
            publisher.publish("a", bytes(10), qos=qos)
            subscriber.message(qos=qos)
    for _ in range(4):
        publisher.publish("waits", bytes(100), qos=1)
    publisher.publish("waits", bytes(100))
    for topic in ("kept/1", "kept/2"):
        publisher.publish(topic, bytes(1000), qos=1, retain=True)
    publisher.publish("nobody", bytes(1))
    publisher.ping()
    # What came in one turn may be told before what was answered in it.
    for name, tally in (("bytes/received", sent), ("bytes/sent", got)):
        until(lambda name=name, tally=tally: value(broker, name) == str(tally.bytes), f"{name}: {tally.bytes}, not {value(broker, name)}")

    names = [topic.removeprefix("$SYS/broker/") for topic in TOPICS]
    found = {name: value(broker, name) for name in names}
    own = len(retained(broker, "list", "$SYS/#"))
    expected = {
        "bytes/received": sent.bytes,
        "bytes/sent": got.bytes,
        "messages/received": sent.packets,
        "messages/sent": got.packets,
        "publish/messages/received": 6 + 4 + 1 + 2 + 1,
        "publish/bytes/received": 6 * 10 + 5 * 100 + 2 * 1000 + 1,
        "publish/messages/sent": 6,
        "publish/bytes/sent": 6 * 10,
        # At QoS 0 for who is away; what nobody has subscribed to is no loss.
        "publish/messages/dropped": 1,
        # Shared ones are in the other count, as Mosquitto has it.
        "subscriptions/count": 3,
        "shared_subscriptions/count": 1,
        "retained messages/count": own + 2,
        "messages/stored": own + 4 + 2,
        "store/messages/count": own + 4 + 2,
        "clients/total": 3,
        "clients/connected": 2,
        "clients/active": 2,
        "clients/disconnected": 1,
        "clients/inactive": 1,
        "clients/maximum": 4,
        "clients/expired": 1,
    }
    assert {name: int(found[name]) for name in expected} == expected
    assert 4 * 100 + 2 * 1000 < int(found["store/messages/bytes"])
    assert 0 < int(found["heap/current"]) <= int(found["heap/maximum"])
    assert re.fullmatch(r"\d+ seconds", found["uptime"]) and re.fullmatch(r"courser version \d+\.\d+\.\d+", found["version"])
    for what in ("messages/received", "messages/sent", "publish/received", "publish/sent", "bytes/received", "bytes/sent", "connections", "sockets"):
        assert float(found[f"load/{what}/1min"]) > 0, what
    for client in (subscriber, publisher):
        client.close()


def test_names_are_those_of_mosquitto(brokers, raw):
    """A wildcard under $SYS gives all 53 names that Mosquitto 2.0.11 has."""
    raw.broker = brokers.common(sys_interval=1)
    raw.connect("pub").publish(raw.topic(), b"x")
    watcher = raw.subscriber("$SYS/#")
    missing = set(TOPICS)
    deadline = time.monotonic() + 15
    while missing and time.monotonic() < deadline:
        missing.discard(watcher.message().topic)
    assert not missing


def test_leading_wildcards_do_not_match(brokers, mqtt):
    """Neither # nor + at the start matches a $-topic, live or retained; `$SYS/#` does.

    The proof: an interval in which `$SYS/#` had news passed by.

    v3 [MQTT-4.7.2-1] v5 [MQTT-4.7.2-1]
    """
    mqtt.broker = brokers.common(sys_interval=1)
    inside = mqtt.subscriber("$SYS/broker/uptime", qos=0, name="inside")
    outside = mqtt.subscriber("#", "+/broker/uptime", "+/broker/#", qos=0, name="outside")
    mark = mqtt.topic("end")
    inside.messages(3)
    mqtt.connect("pub").publish(mark, b"marker", 1)
    seen = []
    while (message := outside.message()).topic != mark:
        seen.append(message.topic)
    assert not [topic for topic in seen if topic.startswith("$")]


def test_other_dollar_topics(mqtt):
    """A $-topic that is not the broker's own is a topic like any other, save for leading wildcards.

    v3 [MQTT-4.7.2-1] v5 [MQTT-4.7.2-1]
    """
    topic = f"$other/{mqtt.mark}"
    exact = mqtt.subscriber(topic, name="exact", qos=1)
    wild = mqtt.subscriber("+/" + mqtt.mark, mqtt.topic("end"), name="wild", qos=1)
    publisher = mqtt.connect("pub")
    publisher.publish(topic, b"x", 1)
    publisher.publish(mqtt.topic("end"), b"marker", 1)
    assert exact.message().topic == topic
    assert wild.messages_until(b"marker") == []


@pytest.mark.v5
def test_clients_cannot_publish_to_sys(mqtt):
    """A client's publish to `$SYS/…` reaches nobody; the client lives on or is told so."""
    watcher = mqtt.connect("sub")
    watcher.subscribe([Subscription("$SYS/broker/forged", 1), Subscription(mqtt.topic(), 1)])
    forger = mqtt.raw()
    forger.connect(mqtt.client_id("forger"))
    forger.send(wire.publish(forger.version, "$SYS/broker/forged", b"forged"), wire.PING)
    forger.receive()
    forger.close()
    mqtt.connect("pub").publish(mqtt.topic(), b"marker", 1)
    assert watcher.messages_until(b"marker") == []
