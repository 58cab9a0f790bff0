"""QoS 1 and 2 packet by packet: ids, DUP, repeats, redelivery after a reconnect, windows."""

import pytest
import wire
from wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, UNSUBACK, V5


def test_puback_repeats_id(raw):
    """QoS 1: PUBACK with the id; the same id is at once free for a new message, DUP or not.

    v3 [MQTT-2.3.1-6] v3 [MQTT-4.3.2-2] v3 [MQTT-3.3.4-1] v5 [MQTT-2.2.1-5] v5 [MQTT-4.3.2-4] v5 [MQTT-4.3.2-5] v5 [MQTT-3.3.4-1]
    v3 [MQTT-3.3.1-3] v5 [MQTT-3.3.1-3]
    """
    watcher = raw.subscriber(raw.topic(), qos=1)
    client = raw.connect("pub")
    for number, dup in enumerate([False, True, False]):
        client.send(wire.publish(raw.version, raw.topic(), b"%d" % number, qos=1, packet_id=65535, dup=dup))
        client.expect(PUBACK, packet_id=65535, reason=0)
    for number in range(3):
        assert watcher.message(payload=b"%d" % number).dup is False


def test_acknowledgements_in_order(raw):
    """Pipelined publishes are acknowledged in their order, each QoS.

    v3 [MQTT-4.6.0-5] v5 [MQTT-4.6.0-5] v5 [MQTT-4.3.3-8] v5 [MQTT-4.3.3-11]
    """
    raw.subscriber(raw.topic(), qos=1)
    client = raw.connect("pub")
    ids = [500 - number for number in range(200)]
    client.send(*(wire.publish(raw.version, raw.topic(), b"x", qos=1, packet_id=packet_id) for packet_id in ids))
    for packet_id in ids:
        client.expect(PUBACK, packet_id=packet_id)
    ids = ids[:20]
    client.send(*(wire.publish(raw.version, raw.topic(), b"x", qos=2, packet_id=packet_id) for packet_id in ids))
    for packet_id in ids:
        client.expect(PUBREC, packet_id=packet_id)
    client.send(*(wire.ack(PUBREL, packet_id) for packet_id in ids))
    for packet_id in ids:
        client.expect(PUBCOMP, packet_id=packet_id)


def test_qos2_repeated_before_pubrel(raw):
    """QoS 2: a repeated PUBLISH is answered by PUBREC again and delivered once; after PUBCOMP the id is new.

    v3 [MQTT-4.3.3-2] v5 [MQTT-4.3.3-8] v5 [MQTT-4.3.3-10] v5 [MQTT-4.3.3-11] v5 [MQTT-4.3.3-12]
    """
    watcher = raw.subscriber(raw.topic(), qos=2)
    client = raw.connect("pub")
    packet = wire.publish(raw.version, raw.topic(), b"once", qos=2, packet_id=9)
    again = wire.publish(raw.version, raw.topic(), b"once", qos=2, packet_id=9, dup=True)
    client.send(packet)
    client.expect(PUBREC, packet_id=9, reason=0)
    client.send(again, again)
    client.expect(PUBREC, packet_id=9)
    client.expect(PUBREC, packet_id=9)
    client.send(wire.ack(PUBREL, 9))
    client.expect(PUBCOMP, packet_id=9, reason=0)
    client.publish(raw.topic(), b"marker", qos=2)
    watcher.message(payload=b"once")
    watcher.message(payload=b"marker")
    client.send(wire.publish(raw.version, raw.topic(), b"new", qos=2, packet_id=9))
    client.expect(PUBREC, packet_id=9)
    client.send(wire.ack(PUBREL, 9))
    client.expect(PUBCOMP, packet_id=9)
    watcher.message(payload=b"new")


@pytest.mark.restart
@pytest.mark.kill
@pytest.mark.parametrize("stage", ["before PUBREC is seen", "before PUBREL", "before PUBCOMP is seen"])
def test_qos2_exactly_once_across_reconnect(raw, stage):
    """QoS 2 into the broker, the connection cut at each stage: the message is delivered once.

    v3 [MQTT-4.3.3-2] v3 [MQTT-4.4.0-1] v5 [MQTT-4.3.3-10] v5 [MQTT-4.4.0-1]
    """
    watcher, _ = raw.resume("watcher")
    watcher.subscribe(raw.topic(), qos=2)
    client, _ = raw.resume("pub")
    packet = {"qos": 2, "packet_id": 3}
    client.send(wire.publish(raw.version, raw.topic(), b"once", **packet))
    client.expect(PUBREC, packet_id=3)
    if stage == "before PUBCOMP is seen":
        client.send(wire.ack(PUBREL, 3))
        client.expect(PUBCOMP, packet_id=3)
    client.reset()
    client, present = raw.resume("pub")
    assert present
    if stage == "before PUBREC is seen":
        client.send(wire.publish(raw.version, raw.topic(), b"once", dup=True, **packet))
        client.expect(PUBREC, packet_id=3)
    client.send(wire.ack(PUBREL, 3))
    assert client.expect(PUBCOMP, packet_id=3).reason in (0, 0x92)
    client.publish(raw.topic(), b"marker", qos=2)
    watcher, present = raw.resume("watcher")
    assert present
    watcher.message(payload=b"once")
    watcher.message(payload=b"marker")


@pytest.mark.restart
@pytest.mark.kill
def test_qos2_of_a_client_that_lost_its_state(raw):
    """A client that lost its state before PUBREL uses the packet id for what nobody subscribes to, then for its first message again: a new one.

    v5 [MQTT-4.3.3-12]
    """
    watcher, _ = raw.resume("watcher")
    watcher.subscribe(raw.topic(), qos=2)
    client, _ = raw.resume("pub")
    client.send(wire.publish(raw.version, raw.topic(), b"ON", qos=2, packet_id=1))
    client.expect(PUBREC, packet_id=1, reason=0)
    client.reset()
    client, present = raw.resume("pub")
    assert present
    for topic in (raw.topic("nobody"), raw.topic()):
        client.send(wire.publish(raw.version, topic, b"ON", qos=2, packet_id=1))
        client.expect(PUBREC, packet_id=1)
        client.send(wire.ack(PUBREL, 1))
        client.expect(PUBCOMP, packet_id=1, reason=0)
    client.publish(raw.topic(), b"marker", qos=2)
    watcher, present = raw.resume("watcher")
    assert present
    for payload in (b"ON", b"ON", b"marker"):
        watcher.message(payload=payload)


def take(client, count):
    """The next `count` PUBLISH packets, unanswered."""
    return [client.expect(PUBLISH) for _ in range(count)]


@pytest.mark.restart
@pytest.mark.kill
def test_redelivery_of_qos1(raw):
    """Unacknowledged PUBLISH packets are sent again after the reconnect: same ids, same order, DUP; the acknowledged are not.

    v3 [MQTT-4.4.0-1] v3 [MQTT-2.3.1-4] v3 [MQTT-3.3.1-1] v3 [MQTT-4.3.2-1] v3 [MQTT-4.6.0-6]
    v5 [MQTT-4.4.0-1] v5 [MQTT-2.2.1-4] v5 [MQTT-3.3.1-1] v5 [MQTT-4.3.2-1] v5 [MQTT-4.3.2-2] v5 [MQTT-4.3.2-3]
    """
    client, _ = raw.resume("sub")
    client.subscribe(raw.topic(), qos=1)
    publisher = raw.connect("pub")
    for number in range(10):
        publisher.publish(raw.topic(), b"%d" % number, qos=1)
    first = take(client, 10)
    assert len({packet.packet_id for packet in first}) == 10
    assert not any(packet.dup for packet in first)
    for packet in (first[0], first[1], first[2]):
        client.send(wire.ack(PUBACK, packet.packet_id))
    raw.settle(client)
    client.close()
    client, present = raw.resume("sub")
    assert present
    second = take(client, 7)
    assert [(p.packet_id, p.payload) for p in second] == [(p.packet_id, p.payload) for p in first[3:]]
    assert all(packet.dup for packet in second)
    for packet in second:
        client.send(wire.ack(PUBACK, packet.packet_id))
    raw.connect("pub").publish(raw.topic(), b"new", qos=1)
    new = client.message(payload=b"new")
    # After a kill nobody knows how much was sent: a little more counts as sent than there was.
    assert raw.restarts == "kill" or not new.dup
    raw.settle(client)
    client.close()
    client, _ = raw.resume("sub")
    client.ping()


@pytest.mark.restart
@pytest.mark.kill
def test_redelivery_of_qos2(raw):
    """Before PUBREC the PUBLISH is repeated, after it only the PUBREL, after PUBCOMP nothing.

    v3 [MQTT-4.3.3-1] v3 [MQTT-4.4.0-1] v5 [MQTT-4.3.3-1] v5 [MQTT-4.3.3-2] v5 [MQTT-4.3.3-3] v5 [MQTT-4.3.3-4] v5 [MQTT-4.3.3-5]
    v5 [MQTT-4.3.3-6] v5 [MQTT-4.4.0-1]
    """
    client, _ = raw.resume("sub")
    client.subscribe(raw.topic(), qos=2)
    publisher = raw.connect("pub")
    for number in range(3):
        publisher.publish(raw.topic(), b"%d" % number, qos=2)
    none, half, done = take(client, 3)
    client.send(wire.ack(PUBREC, half.packet_id))
    client.expect(PUBREL, packet_id=half.packet_id)
    client.send(wire.ack(PUBREC, done.packet_id))
    client.expect(PUBREL, packet_id=done.packet_id)
    client.send(wire.ack(PUBCOMP, done.packet_id))
    raw.settle(client)
    client.reset()
    client, _ = raw.resume("sub")
    found = {packet.kind: packet for packet in (client.receive(), client.receive())}
    assert set(found) == {PUBLISH, PUBREL}
    again = found[PUBLISH]
    assert (again.packet_id, again.payload, again.dup) == (none.packet_id, b"0", True)
    assert found[PUBREL].packet_id == half.packet_id
    client.send(wire.ack(PUBCOMP, half.packet_id))
    client.answer(again)
    raw.connect("pub").publish(raw.topic(), b"marker", qos=2)
    client.message(payload=b"marker")
    client.ping()


def test_pubrec_repeated_by_client(raw):
    """A repeated PUBREC gets its PUBREL again and no PUBLISH.

    v5 [MQTT-4.3.3-4] v3 [MQTT-4.3.3-1]
    """
    client = raw.subscriber(raw.topic(), qos=2)
    raw.connect("pub").publish(raw.topic(), b"x", qos=2)
    packet = client.expect(PUBLISH)
    for _ in range(3):
        client.send(wire.ack(PUBREC, packet.packet_id))
        client.expect(PUBREL, packet_id=packet.packet_id)
    client.send(wire.ack(PUBCOMP, packet.packet_id))
    client.ping()


@pytest.mark.v5
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.restart
def test_refusal_by_client_settles(raw, qos):
    """PUBACK or PUBREC of 0x80 and more: the message is done, no PUBREL, no redelivery.

    v5 [MQTT-4.4.0-2]
    """
    client, _ = raw.resume("sub")
    client.subscribe(raw.topic(), qos=qos)
    raw.connect("pub").publish(raw.topic(), b"x", qos=qos)
    packet = client.expect(PUBLISH)
    client.send(wire.ack(PUBACK if qos == 1 else PUBREC, packet.packet_id, 0x80))
    client.ping()
    client.close()
    client, present = raw.resume("sub")
    assert present
    client.ping()


@pytest.mark.v5
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("window", [1, 3, 10])
def test_receive_maximum_is_kept(raw, qos, window):
    """Never more than Receive Maximum messages wait for the client; PINGRESP and PUBREL pass nevertheless.

    v5 [MQTT-3.3.4-9] v5 [MQTT-3.3.4-10] v5 [MQTT-4.9.0-1] v5 [MQTT-4.9.0-2] v5 [MQTT-4.9.0-3]
    """
    count = 4 * window + 1
    client = raw.connect("sub", properties={"receive_maximum": window})
    client.subscribe(raw.topic(), qos=qos)
    publisher = raw.connect("pub")
    for number in range(count):
        publisher.publish(raw.topic(), b"%d" % number, qos=qos)
    waiting = take(client, window)
    client.ping()
    seen = [packet.payload for packet in waiting]
    while waiting:
        packet = waiting.pop(0)
        if qos == 1:
            client.send(wire.ack(PUBACK, packet.packet_id))
        else:
            client.send(wire.ack(PUBREC, packet.packet_id))
            client.expect(PUBREL, packet_id=packet.packet_id)
            client.ping()  # the place is free only after PUBCOMP
            client.send(wire.ack(PUBCOMP, packet.packet_id))
        if len(seen) < count:
            waiting.append(client.expect(PUBLISH))
            seen.append(waiting[-1].payload)
        client.ping()
    assert seen == [b"%d" % number for number in range(count)]


@pytest.mark.v5
@pytest.mark.restart
def test_receive_maximum_after_resume(raw):
    """A session taken up with a smaller window drains in order within it.

    v5 [MQTT-3.3.4-9]
    """
    client, _ = raw.resume("sub")
    client.subscribe(raw.topic(), qos=1)
    publisher = raw.connect("pub")
    for number in range(8):
        publisher.publish(raw.topic(), b"%d" % number, qos=1)
    take(client, 8)
    client.close()
    client, _ = raw.resume("sub", {"receive_maximum": 2})
    seen = []
    waiting = take(client, 2)
    client.ping()
    while waiting:
        seen.append(waiting[0].payload)
        client.send(wire.ack(PUBACK, waiting.pop(0).packet_id))
        if len(seen) + len(waiting) < 8:
            waiting.append(client.expect(PUBLISH))
        client.ping()
    assert seen == [b"%d" % number for number in range(8)]


@pytest.mark.v5
def test_receive_maximum_of_broker(raw):
    """More unfinished QoS 2 publishes than the broker's Receive Maximum: DISCONNECT 0x93."""
    client = raw.open()
    limit = client.connect("pub" + raw.mark).properties.get("receive_maximum", 65535)
    packets = [wire.publish(V5, raw.topic(), b"", qos=2, packet_id=number + 1) for number in range(min(limit + 1, 65535))]
    if limit == 65535:
        pytest.skip("the broker's window is as large as the packet ids")
    client.send(*packets)
    for number in range(limit):
        client.expect(PUBREC, packet_id=number + 1)
    assert client.expect_closed(0x93) == 0x93


@pytest.mark.v5
@pytest.mark.restart
@pytest.mark.kill
@pytest.mark.parametrize("stage", ["before PUBREC", "before PUBCOMP"])
def test_expiry_does_not_stop_qos2(raw, stage):
    """A message that was sent before it expired finishes its handshake after that, on its connection and on the next one.

    v5 [MQTT-4.3.3-7] v5 [MQTT-4.3.3-13]
    """
    watcher = raw.subscriber(raw.topic("will"), name="watcher")
    client, _ = raw.resume("sub")
    client.subscribe(raw.topic(), qos=2)
    publisher = raw.connect("pub")
    for payload in (b"at once", b"later"):
        publisher.publish(raw.topic(), payload, qos=2, properties={"message_expiry": 2})
    at_once, later = take(client, 2)
    if stage == "before PUBCOMP":
        client.send(wire.ack(PUBREC, later.packet_id))
        client.expect(PUBREL, packet_id=later.packet_id)
    clock = raw.connect(
        "clock", properties={"session_expiry": 60}, will=wire.Will(raw.topic("will"), b"3 s", properties={"will_delay": 3})
    )
    clock.reset()
    watcher.message(payload=b"3 s")
    client.send(wire.ack(PUBREC, at_once.packet_id))
    client.expect(PUBREL, packet_id=at_once.packet_id)
    client.send(wire.ack(PUBCOMP, at_once.packet_id))
    raw.settle(client)
    client.close()
    client, present = raw.resume("sub")
    assert present
    if stage == "before PUBREC":
        client.expect(PUBLISH, packet_id=later.packet_id, payload=b"later", dup=True)
        client.send(wire.ack(PUBREC, later.packet_id))
    client.expect(PUBREL, packet_id=later.packet_id)
    client.send(wire.ack(PUBCOMP, later.packet_id))
    raw.settle(client)
    client.close()
    client, _ = raw.resume("sub")
    client.ping()


@pytest.mark.parametrize("kept", [False, True])
def test_requests_without_waiting_for_answers(raw, kept):
    """SUBSCRIBE and UNSUBSCRIBE of one filter in one write: the second finds the first, whatever it takes to store that.

    v3 [MQTT-3.10.4-1] v3 [MQTT-3.10.4-2] v5 [MQTT-3.10.4-1] v5 [MQTT-3.10.4-2]
    """
    client = raw.resume("sub")[0] if kept else raw.connect("sub")
    gone, stays = raw.topic("gone"), raw.topic("stays")
    client.send(
        wire.subscribe(raw.version, 1, [(gone, 1), (stays, 1)])
        + wire.unsubscribe(raw.version, 2, [gone])
        + wire.subscribe(raw.version, 3, [(gone, 1)])
        + wire.unsubscribe(raw.version, 4, [gone])
    )
    for packet_id in (1, 3):
        client.expect(SUBACK, packet_id=packet_id)
        client.expect(UNSUBACK, packet_id=packet_id + 1)
    publisher = raw.connect("pub")
    publisher.publish(gone, b"gone", qos=1)
    publisher.publish(stays, b"stays", qos=1)
    client.message(payload=b"stays")


@pytest.mark.restart
def test_unsubscribe_finishes_what_was_begun(raw):
    """Messages that were sent before UNSUBSCRIBE finish their handshakes; nothing new comes.

    v3 [MQTT-3.10.4-3] v3 [MQTT-3.10.4-2] v5 [MQTT-3.10.4-3] v5 [MQTT-3.10.4-2]
    """
    client, _ = raw.resume("sub")
    client.subscribe(raw.topic(), qos=2)
    publisher = raw.connect("pub")
    publisher.publish(raw.topic(), b"begun", qos=2)
    packet = client.expect(PUBLISH)
    client.unsubscribe(raw.topic())
    publisher.publish(raw.topic(), b"must not come", qos=2)
    client.ping()
    client.close()
    client, _ = raw.resume("sub")
    again = client.expect(PUBLISH, payload=b"begun", packet_id=packet.packet_id)
    client.answer(again)
    client.ping()


def test_deliveries_have_unused_ids(raw):
    """A thousand deliveries under way have a thousand ids, none of them 0; QoS 0 deliveries have none.

    v3 [MQTT-2.3.1-4] v3 [MQTT-2.3.1-5] v5 [MQTT-2.2.1-4] v5 [MQTT-2.2.1-2] v3 [MQTT-4.3.1-1] v5 [MQTT-4.3.1-1] v5 [MQTT-3.3.1-2]
    """
    client = raw.subscriber(raw.topic(), qos=1)
    publisher = raw.connect("pub")
    for start in range(0, 500, 20):
        ids = range(start + 1, start + 21)
        publisher.send(*(wire.publish(raw.version, raw.topic(), b"x", qos=1, packet_id=packet_id) for packet_id in ids))
        for packet_id in ids:
            publisher.expect(PUBACK, packet_id=packet_id)
    found = take(client, 500)
    assert len({packet.packet_id for packet in found}) == 500
    publisher.publish(raw.topic(), b"zero")
    assert client.expect(PUBLISH).packet_id is None


@pytest.mark.v5
def test_shared_refusal_is_not_passed_on(raw):
    """A member's PUBACK of 0x80 and more ends the message: no other member gets it.

    v5 [MQTT-4.8.2-6]
    """
    shared = f"$share/g{raw.mark}/{raw.topic()}"
    members = [raw.subscriber(shared, qos=1, name=f"m{number}") for number in range(2)]
    publisher = raw.connect("pub")
    for number in range(4):
        publisher.publish(raw.topic(), b"%d" % number, qos=1)
    seen = []
    for member in members:
        for packet in take(member, 2):
            seen.append(packet.payload)
            member.send(wire.ack(PUBACK, packet.packet_id, 0x83))
    assert sorted(seen) == [b"0", b"1", b"2", b"3"]
    for member in members:
        member.ping()
        member.ping()


@pytest.mark.restart
def test_shared_qos2_stays_with_its_member(raw):
    """QoS 2 begun with a member is finished with it after its reconnect, and goes to no other.

    v5 [MQTT-4.8.2-4]
    """
    shared = f"$share/g{raw.mark}/{raw.topic()}"
    holder, _ = raw.resume("holder")
    holder.subscribe(shared, qos=2)
    publisher = raw.connect("pub")
    publisher.publish(raw.topic(), b"x", qos=2)
    packet = holder.expect(PUBLISH)
    other = raw.subscriber(shared, qos=2, name="other")
    holder.close()
    other.ping()
    holder, _ = raw.resume("holder")
    again = holder.expect(PUBLISH, payload=b"x", packet_id=packet.packet_id)
    assert again.dup
    # With a restart the session of the other one went with its connection.
    third = raw.subscriber(shared, qos=2, name="third")
    holder.answer(again)
    third.ping()
    if not raw.restarts:
        other.ping()


@pytest.mark.v5
def test_shared_qos2_ends_with_its_session(raw):
    """When that member's session ends, the message is discarded.

    v5 [MQTT-4.8.2-5]
    """
    shared = f"$share/g{raw.mark}/{raw.topic()}"
    holder, _ = raw.resume("holder")
    holder.subscribe(shared, qos=2)
    raw.connect("pub").publish(raw.topic(), b"x", qos=2)
    holder.expect(PUBLISH)
    other = raw.subscriber(shared, qos=2, name="other")
    holder.disconnect(0, {"session_expiry": 0})
    raw.connect("pub").publish(raw.topic(), b"marker", qos=2)
    other.message(payload=b"marker")
