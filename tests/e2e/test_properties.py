"""MQTT 5 properties of messages, message expiry, topic aliases, packet limits, request/response."""

import time

import pytest
from clients.base import Subscription

pytestmark = pytest.mark.v5

PASSED_ON = {
    "payload_format": 1,
    "content_type": "application/json; ü",
    "response_topic": "answer/ü/here",
    "correlation_data": bytes(range(256)),
    "user_properties": [("z", "1"), ("z", "4"), ("z", "1"), ("a", ""), ("ключ", "значение")],
}


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_passed_on_unchanged(mqtt, qos):
    """Payload format, content type, response topic, correlation data and user properties come out as they went in.

    v5 [MQTT-3.3.2-4] v5 [MQTT-3.3.2-15] v5 [MQTT-3.3.2-16] v5 [MQTT-3.3.2-17] v5 [MQTT-3.3.2-18] v5 [MQTT-3.3.2-20]
    v5 [MQTT-3.3.2-13] v5 [MQTT-3.3.2-19] v5 [MQTT-1.5.7-1]
    """
    topic = mqtt.topic()
    subscriber = mqtt.subscriber(topic)
    mqtt.connect("pub").publish(topic, "{}ü".encode(), qos, properties=PASSED_ON)
    found = subscriber.message().properties
    assert {name: found.get(name) for name in PASSED_ON} == PASSED_ON


@pytest.mark.restart
def test_passed_on_to_absent_session(mqtt):
    """The same for a message that waited in a session."""
    topic = mqtt.topic()
    client, _ = mqtt.resume("sub")
    client.subscribe([Subscription(topic, 1)])
    client.disconnect()
    mqtt.connect("pub").publish(topic, b"x", 1, properties=PASSED_ON)
    again, _ = mqtt.resume("sub")
    again.subscribe([Subscription(topic, 1)])
    found = again.message().properties
    assert {name: found.get(name) for name in PASSED_ON} == PASSED_ON


def test_order_of_user_properties(mqtt):
    """Sixty user properties with names that come again keep their order.

    v5 [MQTT-3.3.2-17] v5 [MQTT-3.3.2-18]
    """
    topic = mqtt.topic()
    subscriber = mqtt.subscriber(topic)
    pairs = [("", "empty name"), *((f"k{number % 7}", f"{number}") for number in range(60))]
    mqtt.connect("pub").publish(topic, b"x", 1, properties={"user_properties": pairs})
    assert subscriber.message().user_properties == pairs


@pytest.mark.restart
def test_message_expires_in_queue(mqtt):
    """A message whose time is over is not delivered; others come with the time that is left.

    The wait is until the expiry is certain: a second of tolerance, for whole seconds are counted.

    v5 [MQTT-3.3.2-5] v5 [MQTT-3.3.2-6]
    """
    topic = mqtt.topic()
    client, _ = mqtt.resume("sub")
    client.subscribe([Subscription(topic, 1)])
    client.disconnect()
    publisher = mqtt.connect("pub")
    started = time.monotonic()
    publisher.publish(topic, b"short", 1, properties={"message_expiry": 1})
    publisher.publish(topic, b"long", 1, properties={"message_expiry": 100})
    publisher.publish(topic, b"for ever", 1)
    while time.monotonic() - started < 2.2:
        publisher.publish(mqtt.topic("clock"), b"", 1)
        time.sleep(0.05)
    again, _ = mqtt.resume("sub")
    again.subscribe([Subscription(topic, 1)])
    found = again.messages(2)
    assert [message.payload for message in found] == [b"long", b"for ever"]
    left = found[0].properties["message_expiry"]
    waited = time.monotonic() - started
    assert 100 - waited - 1.5 <= left <= 98, f"{left} s left after {waited:.1f} s"
    assert "message_expiry" not in found[1].properties


@pytest.mark.restart
def test_retained_message_expires(mqtt):
    """A retained message is gone when its time is over, another one is not.

    v5 [MQTT-3.3.2-5]
    """
    topic = mqtt.topic()
    publisher = mqtt.connect("pub")
    publisher.publish(topic, b"short", 1, retain=True, properties={"message_expiry": 1})
    publisher.publish(topic + "/b", b"long", 1, retain=True, properties={"message_expiry": 1000})
    mqtt.restart()
    publisher = mqtt.connect("later")
    started = time.monotonic()
    while time.monotonic() - started < 2.2:
        publisher.publish(mqtt.topic("clock"), b"", 1)
        time.sleep(0.05)
    late = mqtt.subscriber(topic + "/#")
    assert late.message().payload == b"long"
    publisher.publish(topic, b"marker", 1)
    assert late.messages_until(b"marker") == []
    publisher.publish(topic + "/b", b"", 1, retain=True)


def test_expiry_shown_to_live_subscriber(mqtt):
    """A message that did not wait keeps its expiry interval.

    v5 [MQTT-3.3.2-6]
    """
    topic = mqtt.topic()
    subscriber = mqtt.subscriber(topic)
    mqtt.connect("pub").publish(topic, b"x", 1, properties={"message_expiry": 300})
    assert 298 <= subscriber.message().properties["message_expiry"] <= 300


def test_topic_alias_from_client(mqtt):
    """The broker takes a topic alias and resolves it; the alias may be given a new topic.

    v5 [MQTT-3.3.2-12]
    """
    subscriber = mqtt.subscriber(mqtt.topic("#"), qos=1)
    publisher = mqtt.connect("pub")
    alias = {"topic_alias": 1}
    publisher.publish(mqtt.topic("a"), b"1", 1, properties=alias)
    publisher.publish("", b"2", 1, properties=alias)
    publisher.publish(mqtt.topic("b"), b"3", 1, properties=alias)
    publisher.publish("", b"4", 1, properties=alias)
    found = [(message.topic, message.payload) for message in subscriber.messages(4)]
    a, b = mqtt.topic("a"), mqtt.topic("b")
    assert found == [(a, b"1"), (a, b"2"), (b, b"3"), (b, b"4")]


def test_topic_alias_to_client(mqtt):
    """A client that allows aliases gets every message with its right topic, more topics than aliases included.

    v5 [MQTT-3.1.2-26]
    """
    subscriber = mqtt.connect("sub", properties={"topic_alias_maximum": 4})
    subscriber.subscribe([Subscription(mqtt.topic("#"), 1)])
    publisher = mqtt.connect("pub")
    sent = [(mqtt.topic(f"some/long/name/{number % 9}"), b"%d" % number) for number in range(60)]
    publisher.publish_many(sent, 1)
    assert [(message.topic, message.payload) for message in subscriber.messages(60)] == sent


def test_too_large_for_client_is_skipped(mqtt):
    """A message above the client's Maximum Packet Size is left out, the next ones come.

    v5 [MQTT-3.1.2-24] v5 [MQTT-3.1.2-25]
    """
    topic = mqtt.topic()
    client = mqtt.connect("sub", properties={"maximum_packet_size": 1000})
    client.subscribe([Subscription(topic, 1)])
    whole = mqtt.subscriber(topic, qos=1, name="whole")
    publisher = mqtt.connect("pub")
    publisher.publish(topic, b"x" * 2000, 1)
    publisher.publish(topic, b"marker", 1)
    assert client.messages_until(b"marker") == []
    assert len(whole.messages_until(b"marker")) == 1


def test_request_response(mqtt):
    """A request with response topic and correlation data is answered."""
    service = mqtt.subscriber(mqtt.topic("service"), qos=1, name="service")
    asking = mqtt.subscriber(mqtt.topic("answers/1"), qos=1, name="asking")
    asking.publish(
        mqtt.topic("service"), b"2+2", 1,
        properties={"response_topic": mqtt.topic("answers/1"), "correlation_data": b"\x01\x02"},
    )  # fmt: skip
    request = service.message()
    service.publish(
        request.properties["response_topic"], b"4", 1,
        properties={"correlation_data": request.properties["correlation_data"]},
    )  # fmt: skip
    answer = asking.message()
    assert (answer.payload, answer.properties["correlation_data"]) == (b"4", b"\x01\x02")
