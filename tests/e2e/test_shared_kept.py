"""Shared groups of sessions that outlive their connection, packet by packet."""

import pytest
import wire
from broker import until
from wire import PUBCOMP, PUBLISH, PUBREC, PUBREL, UNSUBACK


def share(raw) -> str:
    return f"$share/g{raw.mark}/{raw.topic('#')}"


@pytest.mark.restart
@pytest.mark.kill
def test_backlog_of_an_absent_member_goes_to_a_late_one(raw):
    """What waits in a group whose only member is away goes to the next one that joins, once; nothing is left for the first."""
    first, _ = raw.resume("first")
    first.subscribe(share(raw), qos=1)
    first.disconnect()
    publisher = raw.connect("pub")
    sent = [b"%d" % number for number in range(20)]
    for payload in sent:
        publisher.publish(raw.topic(), payload, qos=1)
    raw.restart()
    late, _ = raw.resume("late")
    late.send(wire.subscribe(raw.version, 100, [(share(raw), 1)]))
    found, answered = [], False
    while len(found) < len(sent) or not answered:
        packet = late.receive()
        answered |= packet.kind == wire.SUBACK
        if packet.kind == PUBLISH:
            found.append(packet.payload)
            late.answer(packet)
    assert found == sent
    late.ping()
    if raw.restarts == "kill":
        # What a member has acknowledged waits up to 20 ms for company until it is written (docs/durability.md).
        until(lambda: raw.broker.metric("courser_queued_messages") == 0, "nothing waits any more")
    first, present = raw.resume("first")
    assert present
    first.ping()


@pytest.mark.restart
@pytest.mark.kill
def test_unsubscribe_with_a_qos_1_delivery_open(raw):
    """The last member leaves its group between PUBLISH and PUBACK, and loses its connection: the message comes again, and once it is acknowledged
    not any more.

    v5 [MQTT-3.10.4-3] v3 [MQTT-3.10.4-3] v5 [MQTT-4.4.0-1] v3 [MQTT-4.4.0-1]
    """
    client, _ = raw.resume("sub")
    client.subscribe(share(raw), qos=1)
    publisher = raw.connect("pub")
    publisher.publish(raw.topic(), b"kept", qos=1)
    client.expect(PUBLISH, payload=b"kept", qos=1)
    assert client.unsubscribe(share(raw)).kind == UNSUBACK
    client.close()
    client, present = raw.resume("sub")
    assert present
    client.message(payload=b"kept", qos=1)
    client.ping()
    if raw.restarts == "kill":
        # An acknowledgement waits up to 20 ms for company until it is written (docs/durability.md).
        until(lambda: raw.broker.metric("courser_queued_messages") == 0, "nothing waits any more")
    client.close()
    client, present = raw.resume("sub")
    assert present
    client.ping()


@pytest.mark.restart
def test_unsubscribe_with_a_qos_2_delivery_open(raw):
    """A member leaves its group between PUBLISH and PUBREC: the exchange goes on to its end, also over a reconnect, and the message comes once.

    v5 [MQTT-4.3.3-7] v5 [MQTT-4.4.0-1] v5 [MQTT-4.8.2-4] v3 [MQTT-4.4.0-1] v3 [MQTT-3.10.4-3]
    """
    client, _ = raw.resume("sub")
    client.subscribe(share(raw), qos=2)
    publisher = raw.connect("pub")
    publisher.publish(raw.topic(), b"once", qos=2)
    found = client.expect(PUBLISH, payload=b"once", qos=2)
    assert client.unsubscribe(share(raw)).kind == UNSUBACK
    client.send(wire.ack(PUBREC, found.packet_id))
    client.expect(PUBREL, packet_id=found.packet_id)
    client.close()
    client, present = raw.resume("sub")
    assert present
    client.expect(PUBREL, packet_id=found.packet_id)
    client.send(wire.ack(PUBCOMP, found.packet_id))
    client.subscribe(share(raw), qos=1)
    if raw.restarts:
        publisher = raw.connect("pub")
    publisher.publish(raw.topic(), b"next", qos=2)
    client.message(payload=b"next", qos=1)
    client.ping()
