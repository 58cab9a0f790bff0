"""$-topics: what matches them, and the broker's own `$SYS/broker/…`."""

import time

import pytest
import wire
from clients.base import Subscription

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
