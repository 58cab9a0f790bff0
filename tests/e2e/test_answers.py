"""The form of what the broker sends: flags, ids, lengths, and how little of it there may be."""

import pytest
import wire
from wire import CONNACK, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, UNSUBACK, V5


def test_every_answer_to_the_byte(raw):
    """Each kind of answer of the broker, compared as bytes: flags, packet ids, property lengths, one CONNACK.

    v3 [MQTT-2.2.2-1] v3 [MQTT-2.3.1-7] v3 [MQTT-2.3.1-6] v3 [MQTT-3.8.4-2] v3 [MQTT-3.10.4-4]
    v5 [MQTT-2.1.3-1] v5 [MQTT-2.2.1-6] v5 [MQTT-2.2.1-5] v5 [MQTT-2.2.2-1] v5 [MQTT-3.2.0-2] v5 [MQTT-3.2.2-1]
    """
    client = raw.connect("c")
    version, topic = raw.version, raw.topic()
    none = b"\0" if raw.v5 else b""
    for sent, expected in (
        (wire.subscribe(version, 0x1234, [(topic, 1)]), wire.packet(SUBACK, b"\x12\x34" + none + b"\x01")),
        (wire.unsubscribe(version, 0x4321, [topic]), wire.packet(UNSUBACK, b"\x43\x21" + none + (b"\0" if raw.v5 else b""))),
        (wire.PING, b"\xd0\x00"),
    ):
        client.send(sent)
        assert read_bytes(client, len(expected)) == expected
    raw.subscriber(topic, name="other", qos=2)  # so that 5.0 has no reason to say 0x10
    for sent, kind, flags in (
        (wire.publish(version, topic, b"", qos=1, packet_id=0xFFFF), PUBACK, 0),
        (wire.publish(version, topic, b"", qos=2, packet_id=0x0100), PUBREC, 0),
        (wire.ack(PUBREL, 0x0100), PUBCOMP, 0),
    ):
        client.send(sent)
        packet = client.expect(kind, flags=flags, reason=0)
        assert packet.packet_id in (0xFFFF, 0x0100)
        assert packet.size == 4 or raw.v5 and packet.size <= 6


def read_bytes(client, count):
    found = b""
    while len(found) < count:
        piece = client.sock.recv(count - len(found))
        assert piece, f"closed after {found.hex()}"
        found += piece
    return found


def refused(client, topic):
    """Answers to what is refused while the connection goes on."""
    client.send(
        wire.subscribe(V5, 1, [(f"{topic}/one too many", 0)]),
        wire.publish(V5, f"{topic}/large", bytes(11), qos=1, retain=True, packet_id=2),
        wire.publish(V5, f"{topic}/large", bytes(11), qos=2, retain=True, packet_id=3),
    )
    found = {packet.kind: packet for packet in (client.receive() for _ in range(3))}
    assert found[SUBACK].reasons == [0x97] and found[PUBACK].reason == 0x97 and found[PUBREC].reason == 0x97, found
    return {kind: packet.properties.get("reason_string", "") for kind, packet in found.items()}


@pytest.mark.v5
@pytest.mark.courser
def test_answers_fit_a_tiny_packet_size(brokers, raw):
    """With a Maximum Packet Size of 40 nothing longer comes, whatever there is to say about the reasons: each refusal comes without them.

    v5 [MQTT-3.1.2-24] v5 [MQTT-3.2.2-19] v5 [MQTT-3.2.2-20] v5 [MQTT-3.6.2-2] v5 [MQTT-3.6.2-3] v5 [MQTT-3.7.2-2] v5 [MQTT-3.7.2-3]
    v5 [MQTT-3.14.2-3] v5 [MQTT-3.14.2-4] v5 [MQTT-3.9.2-1] v5 [MQTT-3.9.2-2] v5 [MQTT-3.11.2-1] v5 [MQTT-3.11.2-2]
    """
    raw.broker = brokers.common(retained_payload="10", subscriptions=1)
    topic = raw.mark
    large = raw.connect("large")
    large.subscribe(topic)
    assert all(len(text) > 40 for text in refused(large, topic).values()), "there is much to say"
    large.disconnect()
    client = raw.open()
    client.connect(raw.client_id("tiny"), properties={"maximum_packet_size": 40})
    client.subscribe(topic, qos=2)
    assert set(refused(client, topic).values()) == {""}
    client.unsubscribe("no such filter at all, and a long one")
    raw.connect("pub").publish(topic, b"x", qos=2)
    packet = client.expect(PUBLISH)
    client.send(wire.ack(PUBREC, packet.packet_id))
    client.expect(PUBREL)
    client.send(wire.ack(PUBCOMP, packet.packet_id), wire.ack(PUBREL, 4711))
    client.expect(PUBCOMP, reason=0x92)
    client.send(wire.connect(V5, "a second one"))
    assert client.expect_closed(0x82) == 0x82


def test_too_long_client_id(raw):
    """A client id beyond the broker's limit: 0x85 in 5.0, 0x02 in 3.1.1, then the end.

    v3 [MQTT-3.1.3-9] v5 [MQTT-3.1.3-8] v3 [MQTT-3.2.2-4] v5 [MQTT-3.2.2-6]
    """
    client = raw.open()
    client.send(wire.connect(raw.version, "x" * 1025))
    assert client.expect_refused(0x85 if raw.v5 else 2) == (0x85 if raw.v5 else 2)


def test_longest_topic(raw):
    """Topics and filters of 65,535 bytes are taken, or refused by the broker's own limit; the neighbour notices nothing.

    v3 [MQTT-4.7.3-3] v5 [MQTT-4.7.3-3]
    """
    neighbour = raw.connect("neighbour")
    name = "x" * 65535
    client = raw.connect("c")
    client.send(wire.subscribe(raw.version, 1, [(name, 0)]))
    found = client.receive()
    assert found is None or found.kind == SUBACK or found.reason in (0x8F, 0x90, 0x97, 0x95)
    other = raw.connect("other")
    other.send(wire.publish(raw.version, name, b"x", qos=1, packet_id=1))
    found = other.receive()
    assert found is None or found.kind == PUBACK or found.reason in (0x90, 0x97, 0x95)
    neighbour.ping()


def test_session_outlives_its_expiry_while_connected(raw):
    """Expiry counts from the end of the connection only. The clock is a silent client cut off after 1.5 s.

    v3 [MQTT-4.1.0-2] v5 [MQTT-4.1.0-1] v5 [MQTT-3.1.2-23]
    """
    client = raw.connect("c", clean=True, properties={"session_expiry": 1} if raw.v5 else ())
    client.subscribe(raw.topic(), qos=1)
    raw.connect("clock", keep_alive=1).expect_closed(0x8D)
    raw.connect("pub").publish(raw.topic(), b"x", qos=1)
    client.message(payload=b"x")


@pytest.mark.v5
def test_connack_is_the_only_first_packet(raw):
    """Even with retained messages and a session waiting, CONNACK comes first, and once.

    v5 [MQTT-3.2.0-1] v5 [MQTT-3.2.0-2] v5 [MQTT-3.14.0-1]
    """
    client, _ = raw.resume("c")
    client.subscribe(raw.topic(), qos=1)
    client.disconnect()
    publisher = raw.connect("pub")
    for number in range(50):
        publisher.publish(raw.topic(), b"%d" % number, qos=1)
    client = raw.open()
    given = {"session_expiry": 10}
    client.send(wire.connect(V5, raw.client_id("c"), clean=False, properties=given), wire.PING)
    client.expect(CONNACK, reason=0, session_present=True)
    kinds = [client.receive().kind for _ in range(51)]
    assert sorted(kinds) == [PUBLISH] * 50 + [wire.PINGRESP]
