"""CONNECT packets that must not lead to a session. Another client must notice nothing."""

import pytest
import wire
from wire import V3, V5

ID = wire.text("bad")


def body(version, flags=0x02, payload=ID, properties=b"\0", name="MQTT"):
    return wire.text(name) + bytes([version, flags]) + wire.two(60) + (properties if version == V5 else b"") + payload


def will_payload(version, topic, payload=b"x", properties=b"\0"):
    return ID + (properties if version == V5 else b"") + wire.text(topic) + wire.text(payload)


MALFORMED = {
    "reserved flag": lambda v: wire.packet(wire.CONNECT, body(v, 0x03)),
    "header flags": lambda v: wire.packet(wire.CONNECT, body(v), 1),
    "will QoS without will": lambda v: wire.packet(wire.CONNECT, body(v, 0x0A)),
    "will RETAIN without will": lambda v: wire.packet(wire.CONNECT, body(v, 0x22)),
    "will QoS 3": lambda v: wire.packet(wire.CONNECT, body(v, 0x1E, will_payload(v, "w"))),
    "no client id": lambda v: wire.packet(wire.CONNECT, body(v, payload=b"")),
    "client id cut short": lambda v: wire.packet(wire.CONNECT, body(v, payload=b"\0\x09ab")),
    "bytes at the end": lambda v: wire.packet(wire.CONNECT, body(v, payload=ID + b"x")),
    "user name missing": lambda v: wire.packet(wire.CONNECT, body(v, 0x82)),
    "will payload missing": lambda v: wire.packet(wire.CONNECT, body(v, 0x06, ID + (b"\0" if v == V5 else b"") + wire.text("w"))),
    "ill-formed UTF-8": lambda v: wire.connect(v, b"\xc3\x28"),
    "overlong UTF-8": lambda v: wire.connect(v, b"\xc0\xaf"),
    "surrogate": lambda v: wire.connect(v, b"\xed\xa0\x80"),
    "U+0000": lambda v: wire.connect(v, b"a\0b"),
    "user name with U+0000": lambda v: wire.connect(v, "bad", username=b"a\0b"),
    "wildcard in will topic": lambda v: wire.packet(wire.CONNECT, body(v, 0x06, will_payload(v, "a/#"))),
    "U+0000 in will topic": lambda v: wire.packet(wire.CONNECT, body(v, 0x06, will_payload(v, b"a\0"))),
    "empty will topic": lambda v: wire.packet(wire.CONNECT, body(v, 0x06, will_payload(v, ""))),
    "nothing": lambda v: wire.packet(wire.CONNECT),
    "only a name": lambda v: wire.packet(wire.CONNECT, wire.text("MQTT")),
    "remaining length of five bytes": lambda v: b"\x10\xff\xff\xff\xff\x01",
}


def neighbour_lives(raw):
    client = raw.connect("neighbour")
    client.ping()
    client.disconnect()


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(raw, name):
    """A malformed CONNECT: 3.1.1 closes without a CONNACK, 5.0 may send one with 0x81, 0x82, 0x85 or 0x90.

    v3 [MQTT-3.1.4-1] v3 [MQTT-3.1.2-3] v3 [MQTT-1.5.3-1] v3 [MQTT-1.5.3-2] v3 [MQTT-2.2.2-2] v3 [MQTT-4.8.0-1] v3 [MQTT-4.7.3-2]
    v5 [MQTT-3.1.4-1] v5 [MQTT-3.1.2-3] v5 [MQTT-1.5.4-1] v5 [MQTT-1.5.4-2] v5 [MQTT-4.13.1-1] v5 [MQTT-3.2.2-7] v5 [MQTT-3.2.2-8]
    """
    client = raw.open()
    client.send(MALFORMED[name](raw.version))
    reason = client.expect_refused(0x81, 0x82, 0x85, 0x90)
    assert raw.v5 or reason is None
    neighbour_lives(raw)


V5_PROPERTIES = {
    "receive maximum 0": (wire.prop("receive_maximum", 0), {0x82}),
    "maximum packet size 0": (wire.prop("maximum_packet_size", 0), {0x82}),
    "session expiry twice": (wire.prop("session_expiry", 1) * 2, {0x82}),
    "receive maximum twice": (wire.prop("receive_maximum", 1) * 2, {0x82}),
    "request problem information 2": (wire.prop("request_problem_info", 2), {0x82}),
    "request response information 2": (wire.prop("request_response_info", 2), {0x82}),
    "authentication data without method": (wire.prop("authentication_data", b"x"), {0x82}),
    "topic alias": (wire.prop("topic_alias", 1), {0x81, 0x82}),
    "unknown property": (b"\x7f\0", {0x81}),
    "property cut short": (b"\x11\0\0", {0x81}),
    "user property ill-formed": (b"\x26\0\x02\xc3\x28\0\0", {0x81}),
}


@pytest.mark.v5
@pytest.mark.parametrize("name", V5_PROPERTIES)
def test_bad_properties(raw, name):
    """Properties of CONNECT that are wrong, twice or not for CONNECT.

    v5 [MQTT-3.1.4-1] v5 [MQTT-4.13.2-1] v5 [MQTT-1.5.7-1] v5 [MQTT-3.2.2-6]
    """
    given, reasons = V5_PROPERTIES[name]
    client = raw.open()
    client.send(wire.connect(V5, "bad", properties=given))
    client.expect_refused(*reasons)
    neighbour_lives(raw)


WILL_PROPERTIES = {
    "delay twice": wire.prop("will_delay", 1) * 2,
    "topic alias": wire.prop("topic_alias", 1),
    "payload format 2": wire.prop("payload_format", 2),
    "session expiry": wire.prop("session_expiry", 1),
    "wildcard in response topic": wire.prop("response_topic", "a/#"),
}


@pytest.mark.v5
@pytest.mark.parametrize("name", WILL_PROPERTIES)
def test_bad_will_properties(raw, name):
    """Properties that a will may not have.

    v5 [MQTT-3.3.2-14]
    """
    client = raw.open()
    client.send(wire.connect(V5, "bad", will=wire.Will("w", b"x", properties=WILL_PROPERTIES[name])))
    client.expect_refused(0x81, 0x82, 0x90, 0x99)
    neighbour_lives(raw)


def test_property_length_beyond_packet(raw):
    """A property length that points behind the packet, and one of five bytes."""
    for properties in (b"\x40", b"\x80\x80\x80\x80\x01"):
        client = raw.open()
        client.send(wire.packet(wire.CONNECT, body(V5, properties=properties)))
        client.version = V5
        client.expect_refused(0x81)
    neighbour_lives(raw)


@pytest.mark.v3
def test_password_without_user_name(raw):
    """3.1.1 forbids it; 5.0 allows it."""
    client = raw.open()
    client.send(wire.packet(wire.CONNECT, body(V3, 0x42, ID + wire.text(b"secret"))))
    assert client.expect_refused() is None


@pytest.mark.v3
def test_empty_id_without_clean_session(raw):
    """An empty client id with CleanSession 0 is refused with 0x02.

    v3 [MQTT-3.1.3-8] v3 [MQTT-3.1.3-9] v3 [MQTT-3.2.2-4] v3 [MQTT-3.2.2-5]
    """
    client = raw.open()
    client.send(wire.connect(V3, "", clean=False))
    assert client.expect_refused(2) == 2


@pytest.mark.parametrize("level", [0, 2, 6, 127, 255])
def test_unknown_level(raw, level):
    """An unknown protocol level is answered with CONNACK 0x01 (or 0x84 in the form of 5.0), then the end.

    v3 [MQTT-3.1.2-2] v5 [MQTT-3.1.2-2] v3 [MQTT-3.2.2-6]
    """
    client = raw.open()
    client.send(wire.connect(raw.version, "bad", level=level))
    answer = client.read_all()
    assert answer in (b"\x20\x02\x00\x01", b"\x20\x03\x00\x84\x00"), answer.hex()
    neighbour_lives(raw)


@pytest.mark.parametrize("name", ["MQTS", "mqtt", "", "MQTTX"])
def test_wrong_protocol_name(raw, name):
    """A wrong protocol name ends the connection, 5.0 perhaps with 0x84.

    v3 [MQTT-3.1.2-1] v5 [MQTT-3.1.2-1]
    """
    client = raw.open()
    client.send(wire.connect(raw.version, "bad", name=name))
    answer = client.read_all()
    assert answer in (b"", b"\x20\x02\x00\x01", b"\x20\x03\x00\x84\x00"), answer.hex()
    neighbour_lives(raw)


@pytest.mark.v5
def test_unknown_authentication_method(raw):
    """An authentication method that the broker does not have: 0x8C (or 0x87), then the end.

    v5 [MQTT-4.12.0-1] v5 [MQTT-3.1.4-2]
    """
    client = raw.open()
    client.send(wire.connect(V5, "bad", properties={"authentication_method": "no such method"}))
    client.expect_refused(0x8C, 0x87)
    neighbour_lives(raw)


@pytest.mark.v5
def test_no_authentication_unasked(raw):
    """Without a method in CONNECT there is none in CONNACK, and no AUTH.

    v5 [MQTT-4.12.0-6] v5 [MQTT-3.2.0-1]
    """
    client = raw.open()
    found = client.connect("plain" + raw.mark)
    assert "authentication_method" not in found.properties
    client.ping()


def test_nothing_after_refusal_is_handled(raw):
    """What a refused client sent behind its CONNECT has no effect.

    v3 [MQTT-3.1.4-5] v5 [MQTT-3.1.4-6] v3 [MQTT-3.2.2-5] v5 [MQTT-3.2.2-7]
    """
    topic = raw.topic()
    watcher = raw.subscriber(topic)
    client = raw.open()
    refused = wire.connect(raw.version, "bad", level=9)
    client.send(refused, wire.publish(raw.version, topic, b"must not come"), wire.PING)
    client.read_all()
    raw.connect("pub").publish(topic, b"marker")
    watcher.message(payload=b"marker")


FIRST_PACKETS = {
    "PUBLISH": lambda v: wire.publish(v, "a", b"x"),
    "PUBLISH QoS 1": lambda v: wire.publish(v, "a", b"x", qos=1, packet_id=1),
    "PUBACK": lambda v: wire.ack(wire.PUBACK, 1),
    "PUBREL": lambda v: wire.ack(wire.PUBREL, 1),
    "SUBSCRIBE": lambda v: wire.subscribe(v, 1, [("#", 0)]),
    "UNSUBSCRIBE": lambda v: wire.unsubscribe(v, 1, ["#"]),
    "PINGREQ": lambda v: wire.PING,
    "DISCONNECT": lambda v: wire.disconnect(v),
    "CONNACK": lambda v: b"\x20\x02\x00\x00",
    "AUTH": lambda v: b"\xf0\x00",
    "type 0": lambda v: b"\x00\x00",
}


@pytest.mark.parametrize("name", FIRST_PACKETS)
def test_first_packet_is_not_connect(raw, name):
    """Any other packet before CONNECT ends the connection; nothing is sent, for no CONNACK came.

    v5 [MQTT-3.14.0-1] v3 [MQTT-3.2.0-1] v5 [MQTT-3.2.0-1]
    """
    topic = raw.topic()
    watcher = raw.subscriber("a", topic)
    client = raw.open()
    client.send(FIRST_PACKETS[name](raw.version), wire.connect(raw.version, raw.client_id("late")))
    assert client.receive() is None
    raw.connect("pub").publish(topic, b"marker")
    watcher.message(payload=b"marker")
