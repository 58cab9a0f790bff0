"""Sessions that outlive connections: presence, clean start, expiry, queues, takeover."""

import pytest
from clients.base import Subscription, Will


@pytest.mark.restart
def test_session_present(mqtt):
    """The session is there after a reconnect with its subscriptions.

    v3 [MQTT-3.1.2-4] v3 [MQTT-3.2.2-2] v3 [MQTT-3.2.2-3] v3 [MQTT-4.1.0-1] v3 [MQTT-3.1.4-3]
    v5 [MQTT-3.1.2-5] v5 [MQTT-3.1.2-6] v5 [MQTT-3.2.2-3] v5 [MQTT-3.1.2-23] v5 [MQTT-4.1.0-1]
    """
    client, first = mqtt.resume("sub")
    assert first.session_may_be(False)
    client.subscribe([Subscription(mqtt.topic(), 1)])
    client.disconnect()
    again, second = mqtt.resume("sub")
    assert second.session_may_be(True)
    mqtt.has_connected(again, Subscription(mqtt.topic(), 1))
    again.publish(mqtt.topic(), b"still subscribed", 1)
    assert again.message().payload == b"still subscribed"


@pytest.mark.restart
def test_offline_queue(mqtt):
    """QoS 1 and 2 messages wait for an absent session, in order; the delivery is not a duplicate.

    v3 [MQTT-3.1.2-5] v3 [MQTT-4.5.0-1] v5 [MQTT-4.5.0-1] v3 [MQTT-3.3.1-3] v5 [MQTT-3.3.1-3]
    """
    topic = mqtt.topic()
    client, _ = mqtt.resume("sub")
    client.subscribe([Subscription(topic, 2)])
    client.disconnect()
    publisher = mqtt.connect("pub")
    for number in range(50):
        publisher.publish(topic, b"%d" % number, 1 + number % 2)
    again, _ = mqtt.resume("sub")
    again.subscribe([Subscription(topic, 2)])
    found = again.messages(50)
    for qos in (1, 2):
        part = [int(message.payload) for message in found if message.qos == qos]
        assert part == [number for number in range(50) if 1 + number % 2 == qos]
    assert not any(message.dup for message in found)


@pytest.mark.restart
def test_offline_queue_many(mqtt):
    """A thousand QoS 1 messages wait for an absent session."""
    topic = mqtt.topic()
    client, _ = mqtt.resume("sub")
    client.subscribe([Subscription(topic, 1)])
    client.disconnect()
    payloads = [b"%d" % number for number in range(1000)]
    mqtt.connect("pub").publish_many([(topic, payload) for payload in payloads], 1)
    again, _ = mqtt.resume("sub")
    again.subscribe([Subscription(topic, 1)])
    assert [message.payload for message in again.messages(1000)] == payloads


@pytest.mark.restart
def test_clean_start_discards(mqtt):
    """A clean start ends the old session with its subscriptions and its queue.

    v3 [MQTT-3.1.2-6] v3 [MQTT-3.2.2-1] v5 [MQTT-3.1.2-4] v5 [MQTT-3.2.2-2] v5 [MQTT-3.1.4-4]
    """
    topic = mqtt.topic()
    client, _ = mqtt.resume("sub")
    client.subscribe([Subscription(topic, 1)])
    client.disconnect()
    publisher = mqtt.connect("pub")
    publisher.publish(topic, b"lost", 1)
    clean, connack = mqtt.open("sub", clean_start=True)
    assert connack.session_may_be(False)
    publisher.publish(topic, b"not subscribed", 1)
    clean.subscribe([Subscription(topic, 1)])
    publisher.publish(topic, b"marker", 1)
    assert clean.messages_until(b"marker") == []
    clean.disconnect()
    _, after = mqtt.resume("sub")
    assert after.session_may_be(False)


@pytest.mark.restart
def test_clean_session_does_not_last(mqtt):
    """A session without expiry ends with its connection.

    v3 [MQTT-3.1.2-6] v5 [MQTT-4.1.0-2]
    """
    mqtt.subscriber(mqtt.topic()).disconnect()
    _, connack = mqtt.resume("sub")
    assert connack.session_may_be(False)


@pytest.mark.restart
def test_retained_outlives_session(mqtt):
    """A session's end leaves what it retained.

    v3 [MQTT-3.1.2-7]
    """
    publisher = mqtt.connect("pub")
    publisher.publish(mqtt.topic(), b"kept", 1, retain=True)
    publisher.disconnect()
    mqtt.connect("pub").disconnect()
    mqtt.restart()
    found = mqtt.subscriber(mqtt.topic()).message()
    assert (found.payload, found.retain) == (b"kept", True)
    mqtt.connect("pub").publish(mqtt.topic(), b"", 1, retain=True)


@pytest.mark.v5
def test_session_expires(mqtt):
    """A session with expiry 1 s is gone after its end, which its delayed will announces.

    v5 [MQTT-4.1.0-2] v5 [MQTT-3.1.2-8]
    """
    watcher = mqtt.subscriber(mqtt.topic("will"))
    client = mqtt.connect(
        "short",
        properties={"session_expiry": 1},
        will=Will(mqtt.topic("will"), b"ended", 1, properties={"will_delay": 600}),
    )
    client.drop()
    assert watcher.message().payload == b"ended"
    _, connack = mqtt.resume("short")
    assert connack.session_may_be(False)


@pytest.mark.v5
def test_expiry_changed_by_disconnect(mqtt):
    """DISCONNECT may shorten the session to nothing, or lengthen it."""
    ended, _ = mqtt.resume("a")
    ended.disconnect(properties={"session_expiry": 0})
    _, connack = mqtt.resume("a")
    assert connack.session_may_be(False)
    kept = mqtt.connect("b", clean_start=False, properties={"session_expiry": 1})
    kept.disconnect(properties={"session_expiry": 600})
    watcher = mqtt.subscriber(mqtt.topic("will"))
    clock = mqtt.connect(
        "clock", properties={"session_expiry": 2}, will=Will(mqtt.topic("will"), b"2 s", 1, properties={"will_delay": 600})
    )
    clock.drop()
    watcher.message()
    _, connack = mqtt.resume("b")
    assert connack.session_may_be(True)


def test_takeover(mqtt):
    """A second connection with the same id ends the first; 5.0 clients are told with 0x8E.

    v3 [MQTT-3.1.4-2] v5 [MQTT-3.1.4-3]
    """
    topic = mqtt.topic()
    old, _ = mqtt.resume("same")
    old.subscribe([Subscription(topic, 1)])
    new, connack = mqtt.resume("same")
    assert connack.session_may_be(True)
    mqtt.has_connected(new, Subscription(topic, 1))
    reason = old.wait_closed()
    assert reason == (0x8E if mqtt.v5 else None)
    mqtt.connect("pub").publish(topic, b"to the new one", 1)
    assert new.message().payload == b"to the new one"


def test_takeover_chain(mqtt):
    """Ten connections take one session over in a row; messages published all along arrive in order.

    A takeover may overtake an acknowledgement: then the last message comes once more, with DUP.
    """
    topic = mqtt.topic()
    current, _ = mqtt.resume("same")
    current.subscribe([Subscription(topic, 1)])
    publisher = mqtt.connect("pub")
    for number in range(10):
        publisher.publish(topic, b"%d" % number, 1)
        for message in current.messages_until(b"%d" % number):
            assert message.payload == b"%d" % (number - 1) and message.dup is not False, message
        current, connack = mqtt.resume("same")
        assert connack.session_may_be(True)
