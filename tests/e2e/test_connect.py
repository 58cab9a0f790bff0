"""CONNECT and CONNACK as client libraries see them."""

import string

import pytest
from clients.base import Options


def test_accepted(mqtt):
    """A first connection is accepted and no session is present.

    v3 [MQTT-3.1.4-4] v3 [MQTT-3.2.2-1] v5 [MQTT-3.1.4-5] v5 [MQTT-3.2.2-2] v5 [MQTT-3.1.2-4] v3 [MQTT-3.1.2-6]
    v3 [MQTT-7.0.0-2]
    """
    client, connack = mqtt.open("c")
    assert connack.session_may_be(False)
    assert connack.reason_code == 0
    client.disconnect()


@pytest.mark.parametrize("length", [1, 22, 23])
def test_client_ids_that_must_be_allowed(mqtt, length):
    """Ids of 1 to 23 letters and digits are accepted.

    v3 [MQTT-3.1.3-5] v5 [MQTT-3.1.3-5]
    """
    alphabet = string.ascii_letters + string.digits
    client_id = (mqtt.mark + alphabet)[:length] if length > 1 else "Z"
    client, connack = mqtt.open("c", client_id=client_id)
    assert connack.reason_code == 0
    client.disconnect()


def test_long_and_unicode_client_id(mqtt):
    """Longer ids and ids outside ASCII work as keys of sessions, and two of them are two sessions.

    v3 [MQTT-3.1.3-2] v5 [MQTT-3.1.3-2]
    """
    name = "ключ/日本語-" + "x" * 200
    client, _ = mqtt.resume(name)
    client.disconnect()
    other, connack = mqtt.resume(name + "y")
    assert connack.session_may_be(False)
    other.disconnect()
    again, connack = mqtt.resume(name)
    assert connack.session_may_be(True)
    again.disconnect()


@pytest.mark.v5
def test_assigned_client_id(mqtt):
    """An empty id gets a unique one, told in CONNACK, under which the session can be taken up.

    v5 [MQTT-3.1.3-6] v5 [MQTT-3.1.3-7] v5 [MQTT-3.2.2-16]
    """
    properties = {"session_expiry": 100}
    first, one = mqtt.open("c", client_id="", properties=properties)
    second, two = mqtt.open("c", client_id="")
    assigned = one.properties["assigned_client_id"]
    assert assigned and two.properties["assigned_client_id"] and assigned != two.properties["assigned_client_id"]
    first.disconnect()
    again, connack = mqtt.open("c", client_id=assigned, clean_start=False, properties=properties)
    assert connack.session_may_be(True)
    assert "assigned_client_id" not in connack.properties
    again.disconnect()
    second.disconnect()


@pytest.mark.v3
def test_empty_client_id_3_1_1(mqtt):
    """Clean sessions without an id are told apart.

    v3 [MQTT-3.1.3-6]
    """
    one = mqtt.subscriber(mqtt.topic("1"), client_id="")
    two = mqtt.subscriber(mqtt.topic("2"), client_id="")
    publisher = mqtt.connect("pub")
    publisher.publish(mqtt.topic("1"), b"one", 1)
    publisher.publish(mqtt.topic("2"), b"two", 1)
    assert one.message().payload == b"one"
    assert two.message().payload == b"two"


@pytest.mark.v5
def test_connack_tells_limits(mqtt):
    """CONNACK properties: whole QoS, retained messages, wildcards, identifiers, shared subscriptions; the packet limit.

    v5 [MQTT-3.2.2-9]
    """
    _, connack = mqtt.open("c")
    found = connack.properties
    assert found.get("maximum_qos", 2) == 2
    for name in ("retain_available", "wildcard_available", "subscription_ids_available", "shared_available"):
        assert found.get(name, 1) == 1, name
    assert found.get("receive_maximum", 65535) >= 1
    assert found.get("maximum_packet_size", 1 << 28) >= 1 << 20


@pytest.mark.v5
def test_topic_alias_maximum_is_told(mqtt):
    """The broker takes topic aliases from clients."""
    _, connack = mqtt.open("c")
    assert connack.properties.get("topic_alias_maximum", 0) >= 1


@pytest.mark.v5
def test_properties_of_connect_are_taken(mqtt):
    """Every CONNECT property at once is accepted."""
    client, connack = mqtt.open(
        "c",
        properties={
            "session_expiry": 30,
            "receive_maximum": 10,
            "maximum_packet_size": 100_000,
            "topic_alias_maximum": 5,
            "request_response_info": 1,
            "request_problem_info": 0,
            "user_properties": [("k", "1"), ("k", "2")],
        },
    )
    assert connack.reason_code == 0
    client.disconnect()


@pytest.mark.v5
@pytest.mark.courser
def test_response_information(brokers, mqtt):
    """Who asks for Response Information is told what is set; who does not ask is told nothing.

    v5 [MQTT-3.1.2-28]
    """
    mqtt.broker = brokers.common(response_information="answers/")
    _, asked = mqtt.open("asks", properties={"request_response_info": 1})
    assert asked.properties["response_info"] == "answers/"
    _, silent = mqtt.open("silent")
    assert "response_info" not in silent.properties


@pytest.mark.v5
def test_server_keep_alive(brokers, mqtt):
    """A keep alive above the broker's limit comes back smaller in CONNACK; one below it is left as it is.

    v5 [MQTT-3.2.2-22]
    """
    mqtt.broker = brokers.common(keep_alive_max=20)
    _, capped = mqtt.open("long", keep_alive=600)
    assert capped.properties["server_keep_alive"] == 20
    _, kept = mqtt.open("short", keep_alive=15)
    assert kept.properties.get("server_keep_alive", 15) == 15


def test_reconnect_many_times(mqtt):
    """One client id comes and goes; every connection works."""
    topic = mqtt.topic()
    subscriber = mqtt.subscriber(topic)
    for number in range(20):
        client = mqtt.client()
        client.connect(Options(client_id=mqtt.client_id("again")))
        client.publish(topic, b"%d" % number, 1)
        client.disconnect()
    assert [message.payload for message in subscriber.messages(20)] == [b"%d" % n for n in range(20)]
