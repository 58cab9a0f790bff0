"""$-topics: what matches them, and the broker's own `$SYS/broker/…`."""

import pytest
from clients.base import Subscription

# Mosquitto's names, which its exporters and dashboards read.
TOPICS = """
version uptime clients/total clients/inactive clients/disconnected clients/active clients/connected clients/maximum clients/expired
messages/received messages/sent messages/stored messages/inflight store/messages/count store/messages/bytes subscriptions/count
retained\u0020messages/count publish/messages/dropped publish/messages/received publish/messages/sent
publish/bytes/received publish/bytes/sent bytes/received bytes/sent shared_subscriptions/count
load/messages/received/1min load/messages/received/5min load/messages/received/15min load/messages/sent/1min
load/bytes/received/1min load/bytes/sent/1min load/publish/received/1min load/publish/sent/1min load/publish/dropped/1min
load/connections/1min load/sockets/1min
""".replace("retained\u0020messages", "retained_messages").split()


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
    """A wildcard under $SYS gives the names that Mosquitto 2.0 has."""
    raw.broker = brokers.common(sys_interval=1)
    watcher = raw.subscriber("$SYS/#")
    wanted = {f"$SYS/broker/{name.replace('retained_messages', 'retained messages')}" for name in TOPICS}
    while wanted:
        wanted.discard(watcher.message().topic)


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
    publisher = mqtt.connect("pub")
    publisher.publish("$SYS/broker/forged", b"forged", 0)
    other = mqtt.connect("pub2")
    other.publish(mqtt.topic(), b"marker", 1)
    assert watcher.messages_until(b"marker") == []
