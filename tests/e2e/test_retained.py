"""Retained messages."""

import threading

import pytest
from clients.base import Subscription


@pytest.mark.restart
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_set_replace_clear(mqtt, qos):
    """A new subscriber gets the last one, with RETAIN; an empty one clears it and is itself delivered.

    v3 [MQTT-3.3.1-5] v3 [MQTT-3.3.1-6] v3 [MQTT-3.3.1-7] v3 [MQTT-3.3.1-8] v3 [MQTT-3.3.1-9] v3 [MQTT-3.3.1-10]
    v3 [MQTT-3.3.1-11] v5 [MQTT-3.3.1-5] v5 [MQTT-3.3.1-6] v5 [MQTT-3.3.1-7] v5 [MQTT-3.3.1-9] v5 [MQTT-3.3.1-12]
    """
    topic = mqtt.topic()
    live = mqtt.subscriber(topic, name="live")
    publisher = mqtt.connect("pub")
    publisher.publish(topic, b"one", qos, retain=True)
    publisher.publish(topic, b"two", qos, retain=True)
    assert [(m.payload, m.retain) for m in live.messages(2)] == [(b"one", False), (b"two", False)]
    mqtt.restart()
    late = mqtt.subscriber(topic, name="late")
    found = late.message()
    assert (found.payload, found.qos, found.retain) == (b"two", qos, True)
    mqtt.connect("clearing").publish(topic, b"", qos, retain=True)
    assert late.message().payload == b""
    mqtt.restart()
    after = mqtt.subscriber(topic, name="after")
    mqtt.connect("marking").publish(topic, b"marker", 1)
    assert after.messages_until(b"marker") == []


@pytest.mark.restart
def test_plain_publish_leaves_it(mqtt):
    """A publish without RETAIN neither stores, replaces nor clears.

    v3 [MQTT-3.3.1-12] v5 [MQTT-3.3.1-8]
    """
    topic = mqtt.topic()
    publisher = mqtt.connect("pub")
    publisher.publish(mqtt.topic("none"), b"live", 1)
    publisher.publish(topic, b"kept", 1, retain=True)
    publisher.publish(topic, b"live", 1)
    publisher.publish(topic, b"", 1)
    mqtt.restart()
    client = mqtt.subscriber(mqtt.topic("none"), topic, qos=1)
    publisher = mqtt.connect("later")
    assert client.message().payload == b"kept"
    publisher.publish(topic, b"marker", 1)
    assert client.messages_until(b"marker") == []
    publisher.publish(topic, b"", 1, retain=True)


@pytest.mark.restart
def test_wildcard(mqtt):
    """A wildcard subscription gets all matching retained messages, each once, at the lower QoS."""
    publisher = mqtt.connect("pub")
    topics = [mqtt.topic(name) for name in ("r/a", "r/b", "r/b/c", "s/a")]
    for topic in topics:
        publisher.publish(topic, topic.encode(), 2, retain=True)
    mqtt.restart()
    plus = mqtt.subscriber(mqtt.topic("r/+"), qos=1, name="plus")
    assert sorted(message.topic for message in plus.messages(2)) == topics[:2]
    multi = mqtt.subscriber(mqtt.topic("#"), qos=0, name="multi")
    found = multi.messages(4)
    assert sorted(message.topic for message in found) == topics
    assert all(message.retain and message.qos == 0 and message.payload == message.topic.encode() for message in found)
    publisher = mqtt.connect("later")
    publisher.publish(mqtt.topic("r/c"), b"marker", 0)
    assert plus.messages_until(b"marker") == []
    for topic in topics:
        publisher.publish(topic, b"", 1, retain=True)


def test_two_thousand_to_a_wildcard(mqtt):
    """2,000 retained messages all come to a wildcard subscriber, while another client is served."""
    publisher = mqtt.connect("pub")
    topics = [mqtt.topic(f"many/{number % 50}/{number}") for number in range(2000)]
    for topic in topics:
        publisher.publish(topic, topic.encode(), 0, retain=True)
    publisher.publish(mqtt.topic("barrier"), b"x", 1)
    other = mqtt.subscriber(mqtt.topic("other"), name="other")
    client = mqtt.subscriber(mqtt.topic("many/#"), qos=1)
    publisher.publish(mqtt.topic("other"), b"meanwhile", 1)
    assert other.message().payload == b"meanwhile"
    found = client.messages(2000, 60)
    assert sorted(message.topic for message in found) == sorted(topics)
    assert all(message.retain and message.payload == message.topic.encode() for message in found)
    for some in range(0, len(topics), 500):  # gmqtt does not wait when the broker's Receive Maximum is reached
        publisher.publish_many([(topic, b"") for topic in topics[some : some + 500]], 1, retain=True)


def test_more_than_an_output_holds_at_qos_0(mqtt):
    """Retained messages of several MiB all come to a subscriber of QoS 0, however slowly it reads: none is dropped for want of room.

    v3 [MQTT-3.3.1-6] v5 [MQTT-3.3.1-9]
    """
    publisher = mqtt.connect("pub")
    topics = [mqtt.topic(f"large/{number}") for number in range(200)]
    payloads = {topic: b"%05d" % number * (6_000 if number % 50 else 50_000) for number, topic in enumerate(topics)}
    for topic, payload in payloads.items():
        publisher.publish(topic, payload, 1, retain=True)
    found = mqtt.subscriber(mqtt.topic("large/#"), qos=0).messages(len(topics), 60)
    assert {message.topic: message.payload for message in found} == payloads
    for topic in topics:
        publisher.publish(topic, b"", 1, retain=True)


def test_resubscribe_sends_again(mqtt):
    """The same filter again: retained messages are sent again (5.0: Retain Handling 0), live ones are not lost.

    v3 [MQTT-3.8.4-3] v5 [MQTT-3.8.4-4]
    """
    topic = mqtt.topic()
    publisher = mqtt.connect("pub")
    publisher.publish(topic, b"kept", 1, retain=True)
    client = mqtt.connect("sub")
    for _ in range(3):
        client.subscribe([Subscription(topic, 1)])
        found = client.message()
        assert (found.payload, found.retain) == (b"kept", True)
    numbers = [b"%d" % number for number in range(300)]
    sender = threading.Thread(target=publisher.publish_many, args=([(topic, number) for number in numbers], 1))
    sender.start()
    for _ in range(10):
        client.subscribe([Subscription(topic, 1)])
    sender.join()
    publisher.publish(topic, b"end", 1)
    live = [message.payload for message in client.messages_until(b"end") if not message.retain]
    assert live == numbers
    publisher.publish(topic, b"", 1, retain=True)


@pytest.mark.v5
def test_retain_handling(mqtt):
    """0: at every subscribe; 1: only for a new subscription; 2: never.

    v5 [MQTT-3.3.1-9] v5 [MQTT-3.3.1-10] v5 [MQTT-3.3.1-11]
    """
    topic = mqtt.topic()
    publisher = mqtt.connect("pub")
    publisher.publish(topic, b"kept", 1, retain=True)
    client = mqtt.connect("sub")
    for handling, expected in ((2, 0), (1, 0), (0, 1)):
        client.subscribe([Subscription(topic, 1, retain_handling=handling)])
        # Nothing says that a retained message comes before what is published after the SUBACK.
        for _ in range(expected):
            assert client.message().retain
        publisher.publish(topic, b"marker", 1)
        assert client.messages_until(b"marker") == [], f"retain handling {handling}"
    client.unsubscribe([topic])
    client.subscribe([Subscription(topic, 1, retain_handling=1)])
    assert client.message().retain
    client.subscribe([Subscription(topic, 1, retain_handling=1)])
    publisher.publish(topic, b"marker", 1)
    assert client.messages_until(b"marker") == []
    publisher.publish(topic, b"", 1, retain=True)


@pytest.mark.restart
@pytest.mark.v5
def test_retained_keeps_properties(mqtt):
    """A retained message is delivered with its properties and the subscription's identifier.

    v5 [MQTT-3.3.2-17] v5 [MQTT-3.3.4-3]
    """
    topic = mqtt.topic()
    properties = {"content_type": "a/b", "user_properties": [("k", "2"), ("k", "1")], "message_expiry": 500}
    publisher = mqtt.connect("pub")
    publisher.publish(topic, b"kept", 1, retain=True, properties=properties)
    mqtt.restart()
    client = mqtt.connect("sub")
    client.subscribe([Subscription(topic, 1)], {"subscription_id": 77})
    found = client.message()
    assert found.properties["subscription_ids"] == [77]
    assert found.properties["content_type"] == "a/b"
    assert found.user_properties == [("k", "2"), ("k", "1")]
    assert 400 < found.properties["message_expiry"] <= 500
    mqtt.connect("end").publish(topic, b"", 1, retain=True)
