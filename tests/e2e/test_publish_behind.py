"""PUBLISH behind a SUBSCRIBE or UNSUBSCRIBE in one write: what was sent first counts first."""

import pytest
import wire
from wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, UNSUBACK

ROUNDS = 5


def connect(raw, kept: bool, name: str):
    return raw.resume(name)[0] if kept else raw.connect(name)


def messages_before(client, last: bytes) -> list:
    """All messages up to the one with this payload, in whatever order acknowledgements come; all exchanges go on to their end."""
    found = []
    while True:
        packet = client.receive()
        assert packet is not None, f"closed; got {[str(it) for it in found]}"
        if packet.kind == PUBLISH:
            found.append(packet)
            if packet.qos:
                client.send(wire.ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))
            if packet.payload == last:
                return found[:-1]
        elif packet.kind == PUBREC:
            client.send(wire.ack(PUBREL, packet.packet_id))
        elif packet.kind == PUBREL:
            client.send(wire.ack(PUBCOMP, packet.packet_id))
        else:
            assert packet.kind in (PUBACK, PUBCOMP, SUBACK, UNSUBACK), str(packet)


def publish(raw, topic: str, payload: bytes, qos: int, packet_id: int) -> bytes:
    return wire.publish(raw.version, topic, payload, qos=qos, packet_id=packet_id if qos else None)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("kept", [False, True], ids=["clean", "kept"])
def test_behind_a_subscribe_it_comes_back(raw, kept, qos):
    """A client that subscribes and publishes in one write gets its own message.

    v3 [MQTT-3.3.5-1] v5 [MQTT-3.3.4-1]
    """
    for number in range(ROUNDS):
        client = connect(raw, kept, f"c{number}")
        topic = raw.topic(f"own/{number}")
        client.send(wire.subscribe(raw.version, 1, [(topic, qos)]), publish(raw, topic, b"own", qos, 2))
        # The answer comes first: nothing passes the SUBSCRIBE.
        client.expect(SUBACK, packet_id=1)
        assert messages_before(client, b"own") == []
        client.close()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("kept", [False, True], ids=["clean", "kept"])
def test_behind_an_unsubscribe_it_does_not_come(raw, kept, qos):
    """What a client publishes behind its UNSUBSCRIBE does not come back.

    v3 [MQTT-3.10.4-2] v5 [MQTT-3.10.4-2]
    """
    for number in range(ROUNDS):
        client = connect(raw, kept, f"c{number}")
        topic, marker = raw.topic(f"gone/{number}"), raw.topic(f"marker/{number}")
        client.subscribe(topic, marker, qos=qos)
        client.send(
            wire.unsubscribe(raw.version, 10, [topic]),
            publish(raw, topic, b"gone", qos, 11),
            publish(raw, marker, b"marker", qos, 12),
        )
        client.expect(UNSUBACK, packet_id=10)
        assert messages_before(client, b"marker") == []
        client.close()


@pytest.mark.parametrize("kept", [False, True], ids=["clean", "kept"])
def test_a_request_gets_its_answer(raw, kept):
    """The topic of the answer and the request in one write, with a responder that answers at once."""
    responder = raw.connect("responder")
    responder.subscribe(raw.topic("request"))
    for number in range(20):
        client = connect(raw, kept, f"c{number}")
        answers = raw.topic(f"answer/{number}")
        client.send(
            wire.subscribe(raw.version, 1, [(answers, 1)]),
            wire.publish(raw.version, raw.topic("request"), answers.encode()),
        )
        asked = responder.expect(PUBLISH)
        responder.send(wire.publish(raw.version, asked.payload.decode(), b"answer"))
        client.expect(SUBACK, packet_id=1)
        client.expect(PUBLISH, payload=b"answer")
        client.close()


def test_acknowledgements_behind_it_get_through(raw):
    """What a client acknowledges behind a PUBLISH that waits is not lost, and more comes."""
    topic = raw.topic()
    window = {"properties": {"receive_maximum": 1}} if raw.v5 else {}
    client = raw.connect("c", **window)
    client.subscribe(topic, qos=1)
    publisher = raw.connect("pub")
    publisher.publish(topic, b"first", qos=1)
    publisher.publish(topic, b"second", qos=1)
    first = client.expect(PUBLISH, payload=b"first")
    if not raw.v5:
        client.expect(PUBLISH, payload=b"second")
    client.send(
        wire.subscribe(raw.version, 100, [(raw.topic("other"), 0)]),
        wire.publish(raw.version, raw.topic("other"), b"own"),
        wire.ack(PUBACK, first.packet_id),
    )
    client.expect(SUBACK, packet_id=100)
    found = {client.expect(PUBLISH).payload for _ in range(1 + raw.v5)}
    assert found == ({b"own", b"second"} if raw.v5 else {b"own"})


def test_what_waits_is_published_though_the_client_id_is_taken_over(raw):
    """A script that connects, subscribes and publishes under one client id again and again loses nothing by being fast."""
    watcher = raw.subscriber(raw.topic("all"), name="watcher")
    for number in range(20):
        client = raw.open()
        client.send(
            wire.connect(raw.version, raw.client_id("script")),
            wire.subscribe(raw.version, 1, [(raw.topic("own"), 0)]),
            wire.publish(raw.version, raw.topic("all"), b"%d" % number),
        )
        client.expect(wire.CONNACK, reason=0)
    found = {watcher.expect(PUBLISH).payload for _ in range(20)}
    assert found == {b"%d" % number for number in range(20)}


@pytest.mark.courser
def test_a_packet_has_1024_filters(raw):
    """The filters above are refused, the others are subscribed to. docs/mqtt.md, Limits."""
    client = raw.connect()
    for count in (1024, 1025):
        codes = client.subscribe(*(raw.topic(f"{number}") for number in range(count))).reasons
        assert list(codes[:1024]) == [0] * 1024
        assert list(codes[1024:]) == [0x97 if raw.v5 else 0x80] * (count - 1024)
