"""Filters, subscription options and identifiers, unsubscribing."""

import pytest
from clients.base import Subscription

MATCHES = {
    "x/y/z": ["x/y/z", "x/+/z", "x/#", "+/y/#", "x/y/z/#", "x/y/+"],
    "x": ["x", "+", "#", "x/#"],
    "x/": ["x/", "x/+", "x/#", "+/+", "+/#"],
    "/x": ["/x", "/+", "+/x", "+/+", "/#"],
    "x//z": ["x//z", "x/+/z", "+//+", "x/#"],
}
MISSES = {
    "x/y/z": ["x/y", "x/+", "X/y/z", "x/y/z/", "x/y/z/+", "+", "/x/y/z", "y/#"],
    "x": ["x/", "/x", "x/+", "X"],
    "x/": ["x", "+", "x//"],
    "/x": ["x", "+", "x/#"],
    "x//z": ["x/z", "x/+"],
}


@pytest.mark.parametrize("name", MATCHES)
def test_filter_matching(mqtt, name):
    """A topic reaches the filters that fit and no other, character by character.

    v3 [MQTT-3.3.2-3] v3 [MQTT-4.7.3-4] v3 [MQTT-4.7.1-3] v5 [MQTT-3.3.2-3] v5 [MQTT-4.7.3-4] v5 [MQTT-4.7.1-2]
    """
    base = mqtt.topic("")
    publisher = mqtt.connect("pub")
    fitting = [mqtt.subscriber(base + item, qos=1, name=f"m{at}") for at, item in enumerate(MATCHES[name])]
    others = [mqtt.subscriber(base + item, mqtt.mark + "/marker", qos=1, name=f"n{at}") for at, item in enumerate(MISSES[name])]
    publisher.publish(base + name, b"hit", 1)
    publisher.publish(mqtt.mark + "/marker", b"marker", 1)
    for subscriber in fitting:
        assert subscriber.message().topic == base + name
    for subscriber in others:
        assert subscriber.messages_until(b"marker") == []


def test_unicode_and_spaces_are_not_normalised(mqtt):
    """Composed and decomposed letters, case, blanks and U+FEFF stay as they are.

    v3 [MQTT-4.7.3-4] v5 [MQTT-4.7.3-4] v3 [MQTT-1.5.3-3] v5 [MQTT-1.5.4-3]
    """
    names = ["é", "e\u0301", "É", " é", "\ufeffé"]
    base = mqtt.topic("")
    subscribers = [mqtt.subscriber(base + name, mqtt.topic("end"), qos=1, name=f"s{at}") for at, name in enumerate(names)]
    publisher = mqtt.connect("pub")
    for name in names:
        publisher.publish(base + name, name.encode(), 1)
    publisher.publish(mqtt.topic("end"), b"marker", 1)
    for name, subscriber in zip(names, subscribers, strict=True):
        assert [message.payload for message in subscriber.messages_until(b"marker")] == [name.encode()]


def test_several_filters_in_one_subscribe(mqtt):
    """One SUBACK answers all filters, in their order.

    v3 [MQTT-3.8.4-4] v3 [MQTT-3.9.3-1] v3 [MQTT-3.8.4-2] v5 [MQTT-3.8.4-5] v5 [MQTT-3.8.4-6] v5 [MQTT-3.9.3-1] v5 [MQTT-3.8.4-2]
    """
    client = mqtt.connect("sub")
    codes = client.subscribe([Subscription(mqtt.topic(str(at)), qos) for at, qos in enumerate([2, 0, 1, 1, 0])])
    assert codes == [2, 0, 1, 1, 0]
    mqtt.connect("pub").publish(mqtt.topic("0"), b"x", 2)
    assert client.message().qos == 2


def test_overlapping_subscriptions(mqtt):
    """A message that matches three subscriptions of a client comes once, with the highest QoS.

    v3 [MQTT-3.3.5-1] v5 [MQTT-3.3.4-2]
    """
    client = mqtt.connect("sub")
    client.subscribe([Subscription(mqtt.topic("a/b"), 0), Subscription(mqtt.topic("a/+"), 2), Subscription(mqtt.topic("#"), 1)])
    publisher = mqtt.connect("pub")
    publisher.publish(mqtt.topic("a/b"), b"once", 2)
    publisher.publish(mqtt.topic("a/b"), b"marker", 2)
    found = client.messages_until(b"marker")
    assert [(message.payload, message.qos) for message in found] == [(b"once", 2)]


def test_same_filter_replaces(mqtt):
    """Subscribing again changes the QoS and does not double the delivery.

    v3 [MQTT-3.8.4-3] v5 [MQTT-3.8.4-3]
    """
    topic = mqtt.topic()
    client = mqtt.connect("sub")
    assert client.subscribe([Subscription(topic, 0)]) == [0]
    assert client.subscribe([Subscription(topic, 2)]) == [2]
    publisher = mqtt.connect("pub")
    publisher.publish(topic, b"once", 2)
    publisher.publish(topic, b"marker", 2)
    found = client.messages_until(b"marker")
    assert [(message.payload, message.qos) for message in found] == [(b"once", 2)]


@pytest.mark.v5
def test_no_local(mqtt):
    """No Local keeps a client's own messages from it, not those of others.

    v5 [MQTT-3.8.3-3]
    """
    topic = mqtt.topic()
    client = mqtt.connect("sub")
    client.subscribe([Subscription(topic, 1, no_local=True)])
    client.publish(topic, b"own", 1)
    mqtt.connect("pub").publish(topic, b"other", 1)
    assert client.messages_until(b"other") == []


@pytest.mark.v5
def test_retain_as_published(mqtt):
    """The RETAIN flag is passed on only where it was asked for.

    v5 [MQTT-3.3.1-12] v5 [MQTT-3.3.1-13]
    """
    topic = mqtt.topic()
    plain = mqtt.subscriber(Subscription(topic, 1), name="plain")
    keeping = mqtt.subscriber(Subscription(topic, 1, retain_as_published=True), name="keeping")
    publisher = mqtt.connect("pub")
    publisher.publish(topic, b"1", 1, retain=True)
    publisher.publish(topic, b"2", 1)
    publisher.publish(topic, b"", 1, retain=True)
    assert [message.retain for message in plain.messages(3)] == [False, False, False]
    assert [message.retain for message in keeping.messages(3)] == [True, False, True]


@pytest.mark.v5
def test_subscription_identifiers(mqtt):
    """One delivery carries the identifiers of all matching subscriptions; none where none was given.

    v5 [MQTT-3.3.4-3] v5 [MQTT-3.3.4-4]
    """
    client = mqtt.connect("sub")
    client.subscribe([Subscription(mqtt.topic("a/#"), 1)], {"subscription_id": 1})
    client.subscribe([Subscription(mqtt.topic("a/+"), 2)], {"subscription_id": 268_435_455})
    client.subscribe([Subscription(mqtt.topic("a/b"), 0)])
    client.subscribe([Subscription(mqtt.topic("c"), 0)])
    publisher = mqtt.connect("pub")
    publisher.publish(mqtt.topic("a/b"), b"x", 1)
    found = client.message()
    assert sorted(found.properties["subscription_ids"]) == [1, 268_435_455]
    publisher.publish(mqtt.topic("a/b/c"), b"y", 1)
    assert client.message().properties["subscription_ids"] == [1]
    publisher.publish(mqtt.topic("c"), b"z", 1)
    assert client.message().properties.get("subscription_ids", []) == []


@pytest.mark.v5
def test_subscription_identifier_is_replaced(mqtt):
    """The same filter with another identifier: only the new one is delivered."""
    topic = mqtt.topic()
    client = mqtt.connect("sub")
    client.subscribe([Subscription(topic, 1)], {"subscription_id": 5})
    client.subscribe([Subscription(topic, 1)], {"subscription_id": 6})
    mqtt.connect("pub").publish(topic, b"x", 1)
    assert client.message().properties["subscription_ids"] == [6]


def test_unsubscribe(mqtt):
    """After UNSUBACK nothing more comes; other subscriptions stay, also those with a filter that differs by one character.

    v3 [MQTT-3.10.4-1] v3 [MQTT-3.10.4-2] v3 [MQTT-3.10.4-4] v3 [MQTT-3.10.4-6]
    v5 [MQTT-3.10.4-1] v5 [MQTT-3.10.4-2] v5 [MQTT-3.10.4-4] v5 [MQTT-3.10.4-6] v5 [MQTT-3.11.3-1]
    """
    client = mqtt.subscriber(mqtt.topic("a"), mqtt.topic("b/+"), mqtt.topic("b/c"), mqtt.topic("A"), qos=1)
    codes = client.unsubscribe([mqtt.topic("a"), mqtt.topic("none"), mqtt.topic("b/+")])
    assert codes == ([0, 0x11, 0] if mqtt.v5 else [])
    publisher = mqtt.connect("pub")
    publisher.publish(mqtt.topic("a"), b"no", 1)
    publisher.publish(mqtt.topic("b/x"), b"no", 1)
    publisher.publish(mqtt.topic("b/c"), b"yes", 1)
    publisher.publish(mqtt.topic("A"), b"marker", 1)
    assert [message.payload for message in client.messages_until(b"marker")] == [b"yes"]


def test_unsubscribe_from_nothing(mqtt):
    """UNSUBACK comes even if there was no subscription.

    v3 [MQTT-3.10.4-5] v5 [MQTT-3.10.4-5] v5 [MQTT-3.11.3-2]
    """
    client = mqtt.connect("c")
    assert client.unsubscribe([mqtt.topic("never")]) == ([0x11] if mqtt.v5 else [])


def test_deep_and_long_topics(mqtt):
    """Topics with 100 levels and with 4,000 bytes work, exactly and by wildcard."""
    deep = mqtt.topic("/".join(["l"] * 99))
    long = mqtt.topic("x" * (4000 - len(mqtt.topic(""))))
    client = mqtt.subscriber(mqtt.topic("#"), qos=1, name="wild")
    exact = mqtt.subscriber(deep, long, qos=1, name="exact")
    publisher = mqtt.connect("pub")
    for topic in (deep, long):
        publisher.publish(topic, b"x", 1)
        assert client.message().topic == topic
        assert exact.message().topic == topic
