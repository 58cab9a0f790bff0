"""Messages at each QoS between clients of one library."""

import pytest
from clients.base import Subscription


@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_delivery_qos(mqtt, published, granted):
    """The delivery has the lower of published and granted QoS.

    v3 [MQTT-3.8.4-6] v5 [MQTT-3.8.4-8] v3 [MQTT-3.3.4-1] v5 [MQTT-3.3.4-1] v3 [MQTT-3.8.4-1] v5 [MQTT-3.8.4-1]
    v5 [MQTT-3.8.4-7] v3 [MQTT-3.8.4-5]
    """
    topic = mqtt.topic()
    subscriber = mqtt.subscriber(topic, qos=granted)
    assert mqtt.connect("pub").publish(topic, b"hello", published) == 0
    found = subscriber.message()
    assert (found.topic, found.payload, found.qos, found.retain) == (topic, b"hello", min(published, granted), False)
    assert not found.dup


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_pipelined(mqtt, qos):
    """500 messages handed over at once arrive once each, in order.

    v3 [MQTT-4.6.0-6] v3 [MQTT-4.6.0-5] v5 [MQTT-4.6.0-5] v5 [MQTT-4.6.0-6] v3 [MQTT-4.3.1-1] v5 [MQTT-4.3.1-1]
    v3 [MQTT-4.3.2-1] v3 [MQTT-4.3.3-1]
    """
    topic = mqtt.topic()
    subscriber = mqtt.subscriber(topic, qos=qos)
    payloads = [b"%d" % number for number in range(500)]
    codes = mqtt.connect("pub").publish_many([(topic, payload) for payload in payloads], qos)
    assert set(codes) == {0}
    assert [message.payload for message in subscriber.messages(500, 30)] == payloads


def test_echo_to_itself(mqtt):
    """A client receives what it publishes to its own subscription, at each QoS."""
    topic = mqtt.topic()
    client = mqtt.subscriber(topic)
    for qos in (0, 1, 2):
        client.publish(topic, b"%d" % qos, qos)
    assert sorted(message.payload for message in client.messages(3)) == [b"0", b"1", b"2"]


def test_fan_out(mqtt):
    """One message reaches ten subscribers, each with its own QoS."""
    topic = mqtt.topic()
    subscribers = [mqtt.subscriber(topic, qos=number % 3, name=f"s{number}") for number in range(10)]
    mqtt.connect("pub").publish(topic, b"all", 2)
    for number, subscriber in enumerate(subscribers):
        found = subscriber.message()
        assert (found.payload, found.qos) == (b"all", number % 3)


def test_fan_in(mqtt):
    """Five publishers' messages all arrive, each publisher's in its order."""
    subscriber = mqtt.subscriber(mqtt.topic("in/#"), qos=1)
    publishers = [mqtt.connect(f"p{number}") for number in range(5)]
    for number, publisher in enumerate(publishers):
        publisher.publish_many([(mqtt.topic(f"in/{number}"), b"%d" % count) for count in range(50)], 1)
    found = subscriber.messages(250, 30)
    for number in range(5):
        part = [int(message.payload) for message in found if message.topic.endswith(f"/{number}")]
        assert part == list(range(50))


@pytest.mark.parametrize("size", [0, 1, 127, 128, 4096, 4097, 65_535, 100_000, 1_000_000])
def test_payload_sizes(mqtt, size):
    """Payloads from nothing to near the packet limit arrive unchanged."""
    topic = mqtt.topic()
    subscriber = mqtt.subscriber(topic, qos=1)
    payload = bytes((number * 7 + number // 251) % 256 for number in range(size))
    mqtt.connect("pub").publish(topic, payload, 1)
    assert subscriber.message().payload == payload


def test_publish_without_subscriber(mqtt):
    """A message that nobody wants is acknowledged all the same (5.0: 0x00 or 0x10).

    v5 [MQTT-3.4.2-1] v5 [MQTT-3.5.2-1]
    """
    publisher = mqtt.connect("pub")
    for qos in (1, 2):
        assert publisher.publish(mqtt.topic("nobody"), b"x", qos) in (0, 0x10)


def test_mixed_qos_on_one_topic(mqtt):
    """Messages of one QoS keep their order among those of the others.

    v3 [MQTT-4.6.0-6] v5 [MQTT-4.6.0-5]
    """
    topic = mqtt.topic()
    subscriber = mqtt.subscriber(topic)
    publisher = mqtt.connect("pub")
    for number in range(90):
        publisher.publish(topic, b"%d" % number, number % 3)
    found = subscriber.messages(90)
    for qos in (0, 1, 2):
        part = [int(message.payload) for message in found if message.qos == qos]
        assert part == list(range(qos, 90, 3))


@pytest.mark.restart
def test_held_acks_then_redelivery(mqtt):
    """Unacknowledged QoS 1 messages come again after a reconnect: in order, with DUP, then never more.

    v3 [MQTT-4.4.0-1] v5 [MQTT-4.4.0-1] v3 [MQTT-3.3.1-1] v5 [MQTT-3.3.1-1]
    """
    topic = mqtt.topic()
    first, _ = mqtt.resume("sub", manual_acks=True)
    first.subscribe([Subscription(topic, 1)])
    publisher = mqtt.connect("pub")
    publisher.publish_many([(topic, b"%d" % number) for number in range(10)], 1)
    seen = first.messages(10)
    assert not any(message.dup for message in seen)
    first.drop()
    second, connack = mqtt.resume("sub")
    assert connack.session_may_be(True)
    again = second.messages(10)
    assert [message.payload for message in again] == [b"%d" % number for number in range(10)]
    assert all(message.dup is not False for message in again)
    mqtt.connect("pub").publish(topic, b"marker", 1)
    assert second.messages_until(b"marker") == []


@pytest.mark.v5
def test_receive_maximum_of_client(mqtt):
    """The broker sends no more than the client's Receive Maximum without acknowledgement.

    The proof that no sixth message came: a SUBACK (UNSUBACK) asked for after all were published has overtaken it.

    v5 [MQTT-3.3.4-9] v5 [MQTT-3.3.4-10] v5 [MQTT-4.9.0-2] v5 [MQTT-4.9.0-3]
    """
    topic = mqtt.topic()
    client = mqtt.connect("sub", manual_acks=True, properties={"receive_maximum": 5})
    client.subscribe([Subscription(topic, 1)])
    mqtt.connect("pub").publish_many([(topic, b"%d" % number) for number in range(25)], 1)
    waiting = client.messages(5)
    client.subscribe([Subscription(mqtt.topic("other"), 1)])
    assert client.inbox.empty()
    payloads = [message.payload for message in waiting]
    for _ in range(20):
        client.ack(waiting.pop(0))
        found = client.message()
        payloads.append(found.payload)
        waiting.append(found)
        client.unsubscribe([mqtt.topic("none")])
        assert client.inbox.empty(), "one acknowledgement made room for more than one message"
    assert payloads == [b"%d" % number for number in range(25)]
    assert client.inbox.empty()
    for message in waiting:
        client.ack(message)
