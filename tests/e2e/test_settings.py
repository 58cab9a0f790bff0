"""Settings of the broker that a client sees."""

import pytest
import wire
from clients.base import Subscription

pytestmark = pytest.mark.courser


@pytest.mark.v5
def test_response_information(brokers, raw):
    """Those who ask for Response Information get what is set, the others nothing.

    v5 [MQTT-3.1.2-28]
    """
    raw.broker = brokers.common(response_information="answers/")
    for asked, told in ((1, "answers/"), (0, None)):
        client = raw.open()
        connack = client.connect(raw.client_id(f"c{asked}"), properties={"request_response_info": asked})
        assert connack.properties.get("response_info") == told


OFF = {"wildcard_subscriptions": "false", "subscription_identifiers": "false", "shared_subscriptions": "false"}


@pytest.mark.v5
def test_clients_read_what_is_not_available(brokers, mqtt):
    """CONNACK names the highest QoS and the kinds of subscriptions that there are not, in each library; what there is goes on.

    v5 [MQTT-3.2.2-9] v5 [MQTT-3.2.2-10]
    """
    mqtt.broker = brokers.common(qos=1, **OFF)
    client, connack = mqtt.open("c")
    found = connack.properties
    assert found.get("maximum_qos") == 1
    for name in ("wildcard_available", "subscription_ids_available", "shared_available"):
        assert found.get(name) == 0, name
    assert client.subscribe([Subscription(mqtt.topic(), 2)]) == [1]
    client.publish(mqtt.topic(), b"x", 1)
    assert client.message().payload == b"x"


@pytest.mark.parametrize("most", [0, 1])
def test_highest_qos(brokers, raw, most):
    """A subscription gets `mqtt.qos_max`; a publish above it ends the connection, a will above it is refused.

    v5 [MQTT-3.2.2-9] v5 [MQTT-3.2.2-10] v5 [MQTT-3.2.2-12]
    """
    raw.broker = brokers.common(qos=most)
    watcher = raw.connect("watcher")
    assert list(watcher.subscribe(raw.topic(), qos=2).reasons) == [most]
    client = raw.connect("pub")
    client.publish(raw.topic(), b"x", qos=most)
    watcher.message(payload=b"x", qos=most)
    client.send(wire.publish(raw.version, raw.topic(), b"y", qos=most + 1, packet_id=9))
    assert client.expect_closed(0x9B) == (0x9B if raw.v5 else None)
    client = raw.open()
    client.send(wire.connect(raw.version, raw.client_id("will"), will=wire.Will(raw.topic(), b"z", qos=most + 1)))
    client.expect_refused(0x9B)


def test_kinds_of_subscriptions(brokers, raw):
    """What is switched off: 5.0, which was told, is cut with the reason; 3.1.1 is refused filter by filter and goes on.

    v3 [MQTT-3.8.3-2]
    """
    raw.broker = brokers.common(qos=1, **OFF)
    for filter_, reason in ((raw.topic("#"), 0xA2), (f"$share/g/{raw.topic()}", 0x9E)):
        client = raw.connect("c")
        packet = wire.subscribe(raw.version, 5, [(filter_, 0)])
        client.send(packet)
        if raw.v5:
            assert client.expect_closed(reason) == reason
        else:
            assert list(client.expect(wire.SUBACK, packet_id=5).reasons) == [0x80]
            client.subscribe(raw.topic())
    if raw.v5:
        client = raw.connect("c")
        client.send(wire.subscribe(raw.version, 5, [(raw.topic(), 0)], {"subscription_id": 1}))
        assert client.expect_closed(0xA1) == 0xA1


@pytest.mark.parametrize("permanently, reason", [("false", 0x9C), ("true", 0x9D)])
def test_redirection(brokers, raw, permanently, reason):
    """All clients are sent elsewhere: 5.0 clients are told where, 3.1.1 clients are refused."""
    raw.broker = brokers.common(redirect_to="b.example:1883 c.example", redirect_permanently=permanently)
    client = raw.open()
    client.send(wire.connect(raw.version, raw.client_id()))
    found = client.expect(wire.CONNACK, reason=reason if raw.v5 else 3)
    if raw.v5:
        assert found.properties["server_reference"] == "b.example:1883 c.example"
    assert client.receive() is None


def test_connect_limit(brokers, raw):
    """A CONNECT above `mqtt.connect_bytes_max` ends the connection, although later packets may be larger."""
    raw.broker = brokers.common(connect_bytes="1100")
    raw.open().connect("c" * 1024)
    client = raw.open()
    client.send(wire.connect(raw.version, "c" * 1024, username="u" * 100, password=b"p"))
    client.expect_refused(0x95)
    client = raw.connect("large")
    client.publish(raw.topic(), b"x" * 4096, qos=1)


def test_retained_payload_limit(brokers, raw):
    """A payload above `retained.payload_bytes_max` is not retained, and its publisher is told or closed."""
    raw.broker = brokers.common(retained_payload="10")
    topic = raw.topic()
    client = raw.connect("pub")
    client.publish(topic, b"x" * 10, qos=1, retain=True)
    client.publish(topic, b"x" * 11, qos=1)
    for qos, answer in ((1, wire.PUBACK), (2, wire.PUBREC)):
        client = raw.connect(f"pub{qos}")
        client.send(wire.publish(raw.version, topic, b"x" * 11, qos=qos, packet_id=7, retain=True))
        if raw.v5:
            client.expect(answer, packet_id=7, reason=0x97)
        else:
            client.expect_closed()
    watcher = raw.subscriber(topic, name="watcher")
    watcher.message(payload=b"x" * 10)
    client = raw.connect("last")
    client.publish(topic, b"", retain=True)
    client.ping()
    watcher = raw.subscriber(topic, raw.topic("end"), name="later")
    client.publish(raw.topic("end"), b"marker")
    watcher.message(payload=b"marker")
