"""Packets that end a connection, each with its reason code in 5.0. Another client must notice nothing."""

import pytest
import wire
from broker import until
from wire import V3, V5


def publish_body(version, topic=b"\0\x01a", rest=b""):
    return topic + (b"\0" if version == V5 else b"") + rest


def subscribe_body(version, filters, packet_id=1, properties=b"\0"):
    return wire.two(packet_id) + (properties if version == V5 else b"") + filters


A0 = wire.text("a") + b"\0"

# name -> (packet, reason codes that fit in 5.0)
BOTH = {
    "second CONNECT": (lambda v: wire.connect(v, "again"), {0x82}),
    "packet type 0": (lambda v: b"\x00\x00", {0x81, 0x82}),
    "CONNACK from a client": (lambda v: b"\x20\x02\0\0" if v == V3 else b"\x20\x03\0\0\0", {0x81, 0x82}),
    "SUBACK from a client": (lambda v: wire.packet(wire.SUBACK, subscribe_body(v, b"\0")), {0x81, 0x82}),
    "UNSUBACK from a client": (lambda v: wire.packet(wire.UNSUBACK, subscribe_body(v, b"")), {0x81, 0x82}),
    "PINGRESP from a client": (lambda v: b"\xd0\x00", {0x81, 0x82}),
    "PUBLISH QoS 3": (lambda v: wire.publish(v, "a", qos=3, packet_id=1), {0x81}),
    "PUBLISH DUP with QoS 0": (lambda v: wire.publish(v, "a", dup=True), {0x81, 0x82}),
    "PUBLISH with #": (lambda v: wire.publish(v, "a/#"), {0x81, 0x82, 0x90}),
    "PUBLISH with +": (lambda v: wire.publish(v, "a/+/b", qos=1, packet_id=1), {0x81, 0x82, 0x90}),
    "PUBLISH without topic": (lambda v: wire.publish(v, ""), {0x81, 0x82, 0x90}),
    "PUBLISH topic with U+0000": (lambda v: wire.publish(v, b"a\0b"), {0x81, 0x90}),
    "PUBLISH topic ill-formed": (lambda v: wire.publish(v, b"a\xff"), {0x81, 0x90}),
    "PUBLISH topic with surrogate": (lambda v: wire.publish(v, b"\xed\xb0\x80"), {0x81, 0x90}),
    "PUBLISH packet id 0": (lambda v: wire.publish(v, "a", qos=1, packet_id=0), {0x81, 0x82}),
    "PUBLISH cut in the topic": (lambda v: wire.packet(wire.PUBLISH, b"\0\x05ab"), {0x81}),
    "PUBLISH cut in the packet id": (lambda v: wire.packet(wire.PUBLISH, b"\0\x01a\0", 2), {0x81}),
    "PUBLISH empty": (lambda v: wire.packet(wire.PUBLISH), {0x81}),
    "PUBACK too short": (lambda v: wire.packet(wire.PUBACK, b"\0"), {0x81}),
    "PUBACK flags": (lambda v: wire.packet(wire.PUBACK, b"\0\x01", 2), {0x81}),
    "PUBREC flags": (lambda v: wire.packet(wire.PUBREC, b"\0\x01", 1), {0x81}),
    "PUBREL flags": (lambda v: wire.packet(wire.PUBREL, b"\0\x01", 0), {0x81}),
    "PUBCOMP flags": (lambda v: wire.packet(wire.PUBCOMP, b"\0\x01", 8), {0x81}),
    "PUBREL packet id 0": (lambda v: wire.ack(wire.PUBREL, 0), {0x81, 0x82}),
    "SUBSCRIBE flags": (lambda v: wire.packet(wire.SUBSCRIBE, subscribe_body(v, A0), 0), {0x81}),
    "SUBSCRIBE packet id 0": (lambda v: wire.subscribe(v, 0, [("a", 0)]), {0x81, 0x82}),
    "SUBSCRIBE without filter": (lambda v: wire.subscribe(v, 1, []), {0x81, 0x82}),
    "SUBSCRIBE without options": (lambda v: wire.packet(wire.SUBSCRIBE, subscribe_body(v, wire.text("a")), 2), {0x81}),
    "SUBSCRIBE QoS 3": (lambda v: wire.subscribe(v, 1, [("a", 3)]), {0x81, 0x82}),
    "SUBSCRIBE reserved bits": (lambda v: wire.subscribe(v, 1, [("a", 0xC0)]), {0x81}),
    "SUBSCRIBE ill-formed filter": (lambda v: wire.subscribe(v, 1, [(b"\xc3\x28", 0)]), {0x81, 0x8F}),
    "SUBSCRIBE U+0000": (lambda v: wire.subscribe(v, 1, [(b"a\0", 0)]), {0x81, 0x8F}),
    "UNSUBSCRIBE flags": (lambda v: wire.packet(wire.UNSUBSCRIBE, subscribe_body(v, wire.text("a")), 0), {0x81}),
    "UNSUBSCRIBE without filter": (lambda v: wire.unsubscribe(v, 1, []), {0x81, 0x82}),
    "UNSUBSCRIBE packet id 0": (lambda v: wire.unsubscribe(v, 0, ["a"]), {0x81, 0x82}),
    "PINGREQ flags": (lambda v: b"\xc1\x00", {0x81}),
    "PINGREQ with a body": (lambda v: b"\xc0\x01x", {0x81}),
    "DISCONNECT flags": (lambda v: b"\xe1\x00", {0x81}),
    "remaining length of five bytes": (lambda v: b"\x30\x80\x80\x80\x80\x01", {0x81}),
}

V5_ONLY = {
    "topic alias 0": (wire.publish(V5, "a", properties={"topic_alias": 0}), {0x94, 0x82}),
    "topic alias above the maximum": (wire.publish(V5, "a", properties={"topic_alias": 65535}), {0x94, 0x82}),
    "topic alias never given": (wire.publish(V5, "", properties={"topic_alias": 1}), {0x82, 0x94}),
    "topic alias twice": (wire.publish(V5, "a", properties=wire.prop("topic_alias", 1) * 2), {0x82}),
    "subscription identifier from a client": (wire.publish(V5, "a", properties={"subscription_id": 1}), {0x81, 0x82}),
    "payload format 2": (wire.publish(V5, "a", properties={"payload_format": 2}), {0x81, 0x82, 0x99}),
    "message expiry twice": (wire.publish(V5, "a", properties=wire.prop("message_expiry", 1) * 2), {0x82}),
    "wildcard in response topic": (wire.publish(V5, "a", properties={"response_topic": "a/+"}), {0x81, 0x82, 0x90}),
    "response topic ill-formed": (wire.publish(V5, "a", properties={"response_topic": b"\xff"}), {0x81}),
    "content type with U+0000": (wire.publish(V5, "a", properties={"content_type": b"a\0"}), {0x81}),
    "unknown property": (wire.publish(V5, "a", properties=b"\x7f\x01"), {0x81}),
    "property of CONNECT in PUBLISH": (wire.publish(V5, "a", properties={"receive_maximum": 1}), {0x81, 0x82}),
    "property length beyond PUBLISH": (wire.packet(wire.PUBLISH, b"\0\x01a\x50"), {0x81}),
    "property length not minimal": (wire.packet(wire.PUBLISH, b"\0\x01a\x80\0"), {0x81}),
    "subscription identifier 0": (wire.subscribe(V5, 1, [("a", 0)], {"subscription_id": 0}), {0x82, 0x81}),
    "subscription identifier twice": (
        wire.subscribe(V5, 1, [("a", 0)], [("subscription_id", 1), ("subscription_id", 2)]), {0x82},
    ),
    "retain handling 3": (wire.subscribe(V5, 1, [("a", 0x30)]), {0x82, 0x81}),
    "No Local on a shared subscription": (wire.subscribe(V5, 1, [("$share/g/a", 0x04)]), {0x82}),
    "PUBACK with an unknown reason": (wire.ack(wire.PUBACK, 1, 0x55), {0x81, 0x82}),
    "PUBREL with a reason of PUBREC": (wire.ack(wire.PUBREL, 1, 0x97), {0x81, 0x82}),
    "DISCONNECT with an unknown reason": (wire.disconnect(V5, 0x55), {0x81, 0x82}),
    "expiry from 0 by DISCONNECT": (wire.disconnect(V5, 0, {"session_expiry": 10}), {0x82}),
    "AUTH without a method": (wire.packet(wire.AUTH, b"\x18\x00"), {0x82, 0x8C}),
    "AUTH flags": (wire.packet(wire.AUTH, b"\x18\x00", 2), {0x81}),
    "AUTH with an unknown reason": (wire.packet(wire.AUTH, b"\x55\x00"), {0x81, 0x82}),
}


def check(raw, sent, reasons):
    neighbour = raw.subscriber(raw.topic(), name="neighbour")
    client = raw.connect("bad")
    client.send(sent, wire.PING)
    reason = client.expect_closed(*reasons)
    assert (reason is not None) == raw.v5, "5.0 is told why after CONNACK, 3.1.1 has no word for it"
    raw.connect("pub").publish(raw.topic(), b"marker")
    neighbour.message(payload=b"marker")
    return reason


@pytest.mark.parametrize("name", BOTH)
def test_ends_connection(raw, name):
    """Malformed packets and those that a client may not send.

    v3 [MQTT-2.2.2-2] v3 [MQTT-3.1.0-2] v3 [MQTT-2.3.1-1] v3 [MQTT-3.3.1-4] v3 [MQTT-3.3.2-1] v3 [MQTT-3.3.2-2] v3 [MQTT-3.6.1-1]
    v3 [MQTT-3.8.1-1] v3 [MQTT-3.8.3-4] v3 [MQTT-3.10.1-1] v3 [MQTT-3.14.1-1] v3 [MQTT-4.7.1-1] v3 [MQTT-4.7.3-1] v3 [MQTT-4.7.3-2]
    v3 [MQTT-4.8.0-1] v3 [MQTT-1.5.3-1] v3 [MQTT-1.5.3-2] v3 [MQTT-3.3.1-2]
    v5 [MQTT-3.1.0-2] v5 [MQTT-3.3.1-4] v5 [MQTT-3.3.1-2] v5 [MQTT-3.3.2-1] v5 [MQTT-3.3.2-2] v5 [MQTT-3.6.1-1] v5 [MQTT-3.8.1-1]
    v5 [MQTT-3.8.3-5] v5 [MQTT-3.10.1-1] v5 [MQTT-3.14.1-1] v5 [MQTT-4.7.0-1] v5 [MQTT-4.7.3-1] v5 [MQTT-4.7.3-2]
    v5 [MQTT-4.13.1-1] v5 [MQTT-1.5.4-1] v5 [MQTT-1.5.4-2] v5 [MQTT-3.14.4-1] v5 [MQTT-3.14.4-2] v5 [MQTT-3.14.2-1]
    """
    build, reasons = BOTH[name]
    check(raw, build(raw.version), reasons)


@pytest.mark.v5
@pytest.mark.parametrize("name", V5_ONLY)
def test_ends_connection_5_0(raw, name):
    """Properties and reason codes that are wrong for their packet.

    v5 [MQTT-3.3.2-8] v5 [MQTT-3.3.2-13] v5 [MQTT-3.3.2-14] v5 [MQTT-3.3.2-19] v5 [MQTT-1.5.5-1] v5 [MQTT-3.15.1-1] v5 [MQTT-3.15.2-1]
    v5 [MQTT-4.13.2-1] v5 [MQTT-3.6.2-1]
    """
    check(raw, *V5_ONLY[name])


@pytest.mark.v5
def test_disconnect_with_a_server_reference(raw):
    """Only servers send one, but the standard calls it no error of a client: it ends the connection, with or without a reason."""
    client = raw.connect("c")
    client.send(wire.disconnect(V5, 0, {"server_reference": "x"}), wire.PING)
    client.expect_closed(0x81, 0x82)


@pytest.mark.courser
def test_closes_are_counted_by_reason(raw, brokers):
    """Each connection that a fault has ended counts once, under its reason code; those that end in order do not."""
    raw.broker = brokers.own()
    faults = {
        0x81: wire.packet(wire.PUBREL, b"\0\x01", 0),
        0x82: wire.connect(raw.version, "again"),
        0x90: wire.publish(raw.version, "a/#"),
    }

    def counts():
        return {code: raw.broker.metric(f'courser_mqtt_closes_by_reason_total{{reason_code="{code:#x}"}}') for code in faults}

    assert counts() == {0x81: 0, 0x82: 0, 0x90: 0}
    for times, fault in enumerate(faults.values(), 1):
        for _ in range(times):
            client = raw.connect("bad")
            client.send(fault)
            client.expect_closed()
            raw.connect("good").disconnect()
    until(lambda: sum(counts().values()) >= 6, "all are counted")
    assert counts() == {0x81: 1, 0x82: 2, 0x90: 3}


@pytest.mark.v3
def test_auth_in_3_1_1(raw):
    """Packet type 15 does not exist in 3.1.1."""
    check(raw, b"\xf0\x00", set())


@pytest.mark.v5
def test_reason_is_told(raw):
    """The broker says why, and ends the connection with it.

    v5 [MQTT-4.13.1-1] v5 [MQTT-3.14.2-2]
    """
    assert check(raw, wire.connect(V5, "again"), {0x82}) == 0x82
    assert check(raw, wire.packet(wire.PUBREL, b"\0\x01", 0), {0x81}) == 0x81


BAD_FILTERS = ["a#", "a/#/b", "#/a", "a+", "+a/b", "a/b+/c", "##", "a/++", ""]
# "$share" alone is a plain filter: no slash follows.
BAD_SHARES = ["$share/", "$share/g", "$share/g/", "$share//a", "$share/g+/a", "$share/#/a", "$share/g/a#"]


@pytest.mark.parametrize("name", BAD_FILTERS + BAD_SHARES)
def test_bad_filter(raw, name):
    """A filter that is none is refused in SUBACK (0x80, 0x8F) or ends the connection; later publishes do no harm.

    v3 [MQTT-4.7.1-2] v3 [MQTT-4.7.1-3] v5 [MQTT-4.7.1-1] v5 [MQTT-4.7.1-2] v5 [MQTT-4.8.2-1] v5 [MQTT-4.8.2-2] v5 [MQTT-3.9.3-2]
    v3 [MQTT-3.9.3-2] v3 [MQTT-4.7.3-1]
    """
    client = raw.connect("bad")
    client.send(wire.subscribe(raw.version, 1, [(name, 0)]))
    found = client.receive()
    if found is not None and found.kind == wire.SUBACK:
        assert found.reasons[0] >= 0x80, f"{name!r} was accepted"
        assert raw.v5 or found.reasons == [0x80]
        client.ping()
    elif found is not None:
        assert found.kind == wire.DISCONNECT and found.reason in (0x81, 0x82, 0x8F)
        assert client.receive() is None
    publisher = raw.connect("pub")
    publisher.publish("a", b"x", qos=1)
    publisher.publish("g/a", b"x", qos=1)


@pytest.mark.parametrize("bad", ["a/#/b", "$share/g", "a/" * 200])
def test_one_good_and_one_bad_filter(raw, bad):
    """A bad filter has a code of its own in SUBACK, and the good one works; or the connection ends, and neither is there.

    v3 [MQTT-3.8.4-4] v3 [MQTT-3.8.4-5] v5 [MQTT-3.8.4-5] v5 [MQTT-3.8.4-6]
    """
    topic, marker = raw.topic(), raw.topic("marker")
    client, _ = raw.resume("c")
    client.send(wire.subscribe(raw.version, 1, [(topic, 0), (bad, 0)]))
    found = client.receive()
    is_answered = found is not None and found.kind == wire.SUBACK
    if is_answered:
        assert (found.packet_id, found.reasons[0], len(found.reasons)) == (1, 0, 2) and found.reasons[1] >= 0x80, found
    else:
        if found is not None:
            assert found.kind == wire.DISCONNECT and found.reason in (0x81, 0x82, 0x8F), found
            assert client.receive() is None
        client, present = raw.resume("c")
        assert present
    client.subscribe(marker)
    publisher = raw.connect("pub")
    publisher.publish(topic, b"to the good one", qos=1)
    publisher.publish(marker, b"marker", qos=1)
    if is_answered:
        client.message(payload=b"to the good one")
    client.message(payload=b"marker")


def test_nothing_behind_a_bad_packet_is_handled(raw):
    """What follows a bad packet on the same socket is not handled.

    v3 [MQTT-4.8.0-1] v5 [MQTT-4.13.1-1]
    """
    topic = raw.topic()
    watcher = raw.subscriber(topic)
    client = raw.connect("bad")
    client.send(
        wire.publish(raw.version, topic, b"before"),
        wire.publish(raw.version, "a/#", b"bad"),
        wire.publish(raw.version, topic, b"must not come"),
    )
    client.expect_closed()
    raw.connect("pub").publish(topic, b"marker")
    watcher.message(payload=b"before")
    watcher.message(payload=b"marker")


def test_unknown_packet_ids_do_no_harm(raw):
    """Acknowledgements of ids that were never sent: 5.0 answers 0x92 where it must answer; nothing else happens.

    v3 [MQTT-4.3.3-2] v5 [MQTT-3.7.2-1]
    """
    client = raw.connect("c")
    client.send(wire.ack(wire.PUBREL, 77))
    assert client.expect(wire.PUBCOMP, packet_id=77).reason == (0x92 if raw.v5 else 0)
    client.ping()
