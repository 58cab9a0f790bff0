"""Settings of the broker that a client sees."""

import pytest
import wire

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
