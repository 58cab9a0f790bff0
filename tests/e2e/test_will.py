"""Wills: when they are published, and with what."""

import pytest
from clients.base import Subscription, Will


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_will_on_drop(mqtt, qos):
    """A connection lost without DISCONNECT publishes the will with its QoS, not retained.

    v3 [MQTT-3.1.2-8] v3 [MQTT-3.1.2-16] v5 [MQTT-3.1.2-7] v5 [MQTT-3.1.2-8] v5 [MQTT-3.1.2-14]
    """
    topic = mqtt.topic("will")
    watcher = mqtt.subscriber(topic)
    mqtt.connect("dying", will=Will(topic, b"gone", qos)).drop()
    found = watcher.message()
    assert (found.topic, found.payload, found.qos, found.retain) == (topic, b"gone", qos, False)
    late = mqtt.subscriber(topic, name="late")
    watcher_publisher = mqtt.connect("pub")
    watcher_publisher.publish(topic, b"marker", 1)
    assert late.messages_until(b"marker") == []


def test_will_retained(mqtt):
    """Will Retain keeps the will for later subscribers.

    v3 [MQTT-3.1.2-17] v5 [MQTT-3.1.2-15]
    """
    topic = mqtt.topic("will")
    watcher = mqtt.subscriber(topic)
    mqtt.connect("dying", will=Will(topic, b"gone", 1, retain=True)).drop()
    assert watcher.message().retain is False
    late = mqtt.subscriber(topic, name="late").message()
    assert (late.payload, late.retain) == (b"gone", True)
    mqtt.connect("pub").publish(topic, b"", 1, retain=True)


def test_no_will_after_disconnect(mqtt):
    """DISCONNECT (0x00) throws the will away, also for good.

    v3 [MQTT-3.14.4-3] v3 [MQTT-3.1.2-10] v3 [MQTT-3.1.2-12] v5 [MQTT-3.14.4-3] v5 [MQTT-3.1.2-10]
    """
    topic = mqtt.topic("will")
    watcher = mqtt.subscriber(topic)
    client = mqtt.connect("polite", will=Will(topic, b"must not come", 1))
    client.disconnect()
    without = mqtt.subscriber(mqtt.topic("own"), name="polite")
    without.drop()
    mqtt.connect("dying", will=Will(topic, b"marker", 1)).drop()
    assert watcher.messages_until(b"marker") == []


@pytest.mark.v5
def test_will_with_disconnect_0x04(mqtt):
    """DISCONNECT with 0x04 publishes the will."""
    topic = mqtt.topic("will")
    watcher = mqtt.subscriber(topic)
    mqtt.connect("c", will=Will(topic, b"gone", 1)).disconnect(reason_code=0x04)
    assert watcher.message().payload == b"gone"


@pytest.mark.v5
def test_will_properties(mqtt):
    """A will carries its properties, user properties in order.

    v5 [MQTT-3.1.3-10]
    """
    topic = mqtt.topic("will")
    properties = {
        "payload_format": 1,
        "message_expiry": 600,
        "content_type": "text/plain",
        "response_topic": "answer/here",
        "correlation_data": b"\x00\x01\xff",
        "user_properties": [("b", "2"), ("b", "1"), ("a", "3")],
    }
    watcher = mqtt.subscriber(topic)
    mqtt.connect("dying", will=Will(topic, b"gone", 1, properties=properties)).drop()
    found = watcher.message().properties
    assert found.pop("message_expiry") <= 600
    assert {name: found.get(name) for name in properties if name != "message_expiry"} == {
        name: value for name, value in properties.items() if name != "message_expiry"
    }


@pytest.mark.v5
def test_will_delay_cancelled_by_reconnect(mqtt):
    """Coming back before the delay is over: no will. The marker is a will with a longer delay of another client.

    v5 [MQTT-3.1.3-9]
    """
    topic = mqtt.topic("will")
    watcher = mqtt.subscriber(topic)
    options = {"properties": {"session_expiry": 600}, "clean_start": False}
    mqtt.connect("back", will=Will(topic, b"must not come", 1, properties={"will_delay": 1}), **options).drop()
    mqtt.connect("marker", will=Will(topic, b"marker", 1, properties={"will_delay": 3}), **options).drop()
    again = mqtt.connect("back", **options)
    again.subscribe([Subscription(mqtt.topic("own"), 0)])
    assert watcher.messages_until(b"marker") == []
    again.disconnect()


@pytest.mark.v5
def test_will_delay_passes(mqtt):
    """The will comes after the delay, not before a message published meanwhile."""
    topic = mqtt.topic("will")
    watcher = mqtt.subscriber(topic)
    mqtt.connect(
        "dying", will=Will(topic, b"gone", 1, properties={"will_delay": 1}), properties={"session_expiry": 600}
    ).drop()
    mqtt.connect("pub").publish(topic, b"first", 1)
    assert [message.payload for message in watcher.messages(2)] == [b"first", b"gone"]


@pytest.mark.restart
@pytest.mark.v5
def test_will_delay_cut_by_clean_start(mqtt):
    """A clean start ends the session, so a delayed will goes out at once.

    v5 [MQTT-3.1.2-8]
    """
    topic = mqtt.topic("will")
    options = {"properties": {"session_expiry": 600}}
    mqtt.connect("c", will=Will(topic, b"gone", 1, properties={"will_delay": 500}), **options).drop()
    mqtt.restart()
    watcher = mqtt.subscriber(topic)
    again = mqtt.connect("c", clean_start=True, **options)
    again.subscribe([Subscription(mqtt.topic("own"), 0)])
    assert watcher.message().payload == b"gone"


def test_will_on_takeover(mqtt):
    """A takeover ends a connection without DISCONNECT from the client: its will is published."""
    topic = mqtt.topic("will")
    watcher = mqtt.subscriber(topic)
    mqtt.connect("same", will=Will(topic, b"gone", 1))
    mqtt.subscriber(mqtt.topic("own"), name="same")
    assert watcher.message().payload == b"gone"


@pytest.mark.restart
def test_will_reaches_wildcards_and_offline_sessions(mqtt):
    """A will is matched like any publish."""
    topic = mqtt.topic("w/1")
    absent, _ = mqtt.resume("absent")
    absent.subscribe([Subscription(mqtt.topic("w/+"), 1)])
    absent.disconnect()
    watcher = mqtt.subscriber(mqtt.topic("#"))
    mqtt.connect("dying", will=Will(topic, b"gone", 1)).drop()
    assert watcher.message().topic == topic
    again, _ = mqtt.resume("absent")
    again.subscribe([Subscription(mqtt.topic("w/+"), 1)])
    assert again.message().payload == b"gone"
