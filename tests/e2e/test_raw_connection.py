"""The connection itself: framing, keep alive, takeover, limits of packets, topic aliases."""

import socket
import time

import pytest
import wire
from wire import CONNACK, DISCONNECT, PINGRESP, PUBACK, PUBLISH, PUBREC, SUBACK, UNSUBACK, V5


def test_one_byte_writes(raw):
    """A whole session sent byte by byte: every packet is put together again.

    v3 [MQTT-7.1.1-1] v5 [MQTT-4.2.0-1]
    """
    watcher = raw.subscriber(raw.topic())
    client = raw.open()
    sent = wire.connect(raw.version, raw.client_id())
    sent += wire.subscribe(raw.version, 1, [(raw.topic("own"), 1)])
    sent += wire.publish(raw.version, raw.topic(), b"x" * 200, qos=1, packet_id=2)
    sent += wire.PING
    for byte in sent:
        client.send(bytes([byte]))
    client.expect(CONNACK, reason=0)
    found = [client.receive() for _ in range(3)]  # nothing orders these among each other
    assert sorted(packet.kind for packet in found) == [PUBACK, wire.SUBACK, PINGRESP]
    watcher.message(payload=b"x" * 200)


def test_many_packets_in_one_write(raw):
    """CONNECT and all that follows in one segment."""
    watcher = raw.subscriber(raw.topic())
    client = raw.open()
    client.send(
        wire.connect(raw.version, raw.client_id()),
        *(wire.publish(raw.version, raw.topic(), b"%d" % number) for number in range(300)),
        wire.PING,
    )
    client.expect(CONNACK, reason=0)
    client.expect(PINGRESP)
    for number in range(300):
        watcher.message(payload=b"%d" % number)


def test_ping(raw):
    """PINGREQ gets PINGRESP.

    v3 [MQTT-3.12.4-1] v5 [MQTT-3.12.4-1]
    """
    client = raw.connect()
    for _ in range(3):
        client.ping()


@pytest.mark.parametrize("part", [0, 1, 2, 10])
def test_partial_connect_is_cut(raw, part):
    """A socket that does not finish its CONNECT within five seconds is closed."""
    client = raw.open()
    started = time.monotonic()
    client.send(wire.connect(raw.version, raw.client_id())[:part])
    assert client.read_all() == b""
    assert time.monotonic() - started > 3


def test_keep_alive(raw):
    """A client silent for one and a half times its keep alive is cut off, and its will is published.

    v3 [MQTT-3.1.2-24] v5 [MQTT-3.1.2-22] v3 [MQTT-3.1.2-8]
    """
    topic = raw.topic("will")
    watcher = raw.subscriber(topic)
    client = raw.connect("silent", keep_alive=1, will=wire.Will(topic, b"gone"))
    started = time.monotonic()
    client.expect_closed(0x8D)
    assert time.monotonic() - started >= 1.4
    watcher.message(payload=b"gone")


def test_keep_alive_counts_any_packet(raw):
    """A client that sends PUBLISH is not silent, though it never pings; one with keep alive 0 may be silent.

    The silent client with keep alive 1 shows when the time is over.
    """
    forever = raw.connect("forever", keep_alive=0)
    busy = raw.connect("busy", keep_alive=1)
    silent = raw.connect("silent", keep_alive=1)
    silent.sock.settimeout(0.1)
    closed = 0
    while closed < 2:  # two lives of a silent client
        busy.send(wire.publish(raw.version, raw.topic(), b"x"))
        try:
            if not silent.sock.recv(100):
                closed += 1
                silent = raw.connect("silent", keep_alive=1)
                silent.sock.settimeout(0.1)
        except TimeoutError:
            pass
    busy.ping()
    forever.ping()


@pytest.mark.parametrize("seed", range(10))
def test_garbage(raw, seed):
    """Random bytes, before and after CONNECT, harm nobody."""
    import random

    source = random.Random(seed)
    neighbour = raw.connect("neighbour")
    for _ in range(20):
        client = raw.open()
        if source.random() < 0.5:
            client.connect(raw.client_id("g"))
        try:
            client.send(source.randbytes(source.randrange(1, 400)))
            client.sock.shutdown(socket.SHUT_WR)
            client.read_all()
        except (BrokenPipeError, ConnectionResetError, OSError):
            pass
    neighbour.ping()


def test_takeover_tells_the_old_one(raw):
    """The older connection gets DISCONNECT 0x8E (5.0) and is closed; its will is published; the session goes on.

    v3 [MQTT-3.1.4-2] v5 [MQTT-3.1.4-3]
    """
    watcher = raw.subscriber(raw.topic("will"), name="watcher")
    old, _ = raw.resume("same", will=wire.Will(raw.topic("will"), b"gone"))
    old.subscribe(raw.topic(), qos=1)
    new, present = raw.resume("same")
    assert present
    assert old.expect_closed(0x8E) == (0x8E if raw.v5 else None)
    watcher.message(payload=b"gone")
    raw.connect("pub").publish(raw.topic(), b"x", qos=1)
    new.message(payload=b"x")


def test_takeover_of_unacknowledged(raw):
    """Messages under way on the old connection come again on the new one, with DUP and the same ids.

    v3 [MQTT-4.4.0-1] v5 [MQTT-4.4.0-1]
    """
    old, _ = raw.resume("same")
    old.subscribe(raw.topic(), qos=1)
    publisher = raw.connect("pub")
    for number in range(5):
        publisher.publish(raw.topic(), b"%d" % number, qos=1)
    first = [old.expect(PUBLISH) for _ in range(5)]
    new, _ = raw.resume("same")
    second = [new.expect(PUBLISH) for _ in range(5)]
    assert [(p.packet_id, p.payload, p.dup) for p in second] == [(p.packet_id, p.payload, True) for p in first]


def test_disconnect_closes(raw):
    """After DISCONNECT the broker closes without a word and handles nothing that follows.

    v3 [MQTT-3.14.4-3] v5 [MQTT-3.14.4-3] v5 [MQTT-3.14.4-1]
    """
    watcher = raw.subscriber(raw.topic())
    client = raw.connect("c", will=wire.Will(raw.topic(), b"must not come"))
    client.send(wire.disconnect(raw.version), wire.publish(raw.version, raw.topic(), b"nor this"))
    assert client.receive() is None
    raw.connect("pub").publish(raw.topic(), b"marker")
    watcher.message(payload=b"marker")


# ---- MQTT 5: limits and aliases ---------------------------------------------------------------------------------------


@pytest.mark.v5
def test_packet_limit_of_broker(raw):
    """A packet of exactly the broker's maximum passes; one byte more: DISCONNECT 0x95."""
    topic = raw.topic()
    watcher = raw.subscriber(topic)
    client = raw.open()
    limit = client.connect(raw.client_id("pub")).properties["maximum_packet_size"]
    around = len(wire.publish(V5, topic, b"")) + 3  # the remaining length grows to four bytes
    short = wire.publish(V5, topic, b"x" * (limit - around))
    whole = wire.publish(V5, topic, b"x" * (limit - around + limit - len(short)))
    assert len(whole) == limit
    client.send(whole)
    client.ping()
    assert len(watcher.message().payload) >= limit - 200
    try:
        client.send(wire.publish(V5, topic, b"x" * (limit - around + limit - len(short) + 1)))
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert client.expect_closed(0x95) in (0x95, None)
    raw.connect("pub2").publish(topic, b"marker")
    watcher.message(payload=b"marker")


def test_too_large_is_refused_by_its_head(raw):
    """A fixed header that announces 256 MiB ends the connection before the bytes come."""
    client = raw.connect()
    client.send(b"\x30\xff\xff\xff\x7f")
    assert client.expect_closed(0x95) == (0x95 if raw.v5 else None)


@pytest.mark.v5
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_packet_limit_of_client(raw, qos):
    """At the client's maximum to the byte a message is sent; above it is skipped, and the window is not used up.

    v5 [MQTT-3.1.2-24] v5 [MQTT-3.1.2-25]
    """
    topic = raw.topic()
    limit = 300
    client = raw.connect("sub", properties={"maximum_packet_size": limit, "receive_maximum": 1})
    client.subscribe(topic, qos=qos)
    publisher = raw.connect("pub")
    around = len(wire.publish(V5, topic, b"x" * 200, qos=qos, packet_id=1 if qos else None)) - 200
    for size in (limit - around + 1, limit - around, limit - around + 1, 1):
        publisher.publish(topic, b"y" * size, qos=qos)
    found = client.message()
    assert found.size == limit
    assert len(client.message().payload) == 1


@pytest.mark.v5
@pytest.mark.parametrize("allowed", [0, 2])
def test_aliases_to_client(raw, allowed):
    """Aliases to a client stay within its maximum, are declared before use, and 0 means none. Each that it allows is used: of three long topics
    that come several times in a row the first ones are soon sent without their names.

    v5 [MQTT-3.1.2-26] v5 [MQTT-3.1.2-27] v5 [MQTT-3.3.2-8] v5 [MQTT-3.3.2-11] v5 [MQTT-3.3.2-7]
    """
    base = raw.topic("a/rather/long/topic/name/so/that/an/alias/saves/bytes/")
    publisher = raw.connect("pub")
    for _ in range(2):  # a second connection starts without aliases
        properties = {"topic_alias_maximum": allowed} if allowed else {}
        client = raw.connect("sub", properties=properties)
        client.subscribe(base + "#")
        known, used = {}, set()
        for number in range(12):
            publisher.publish(base + str(number // 4), b"%d" % number)
        for number in range(12):
            found = client.expect(PUBLISH, payload=b"%d" % number)
            alias = found.properties.get("topic_alias")
            assert alias is None or 1 <= alias <= allowed
            if alias and found.topic:
                known[alias] = found.topic
            elif alias:
                used.add(alias)
            assert (found.topic or known[alias]) == base + str(number // 4)
        assert used == set(known) and len(known) == allowed
        client.disconnect()


@pytest.mark.v5
def test_aliases_die_with_the_connection(raw):
    """An alias given on an earlier connection is unknown on the next, session or not.

    v5 [MQTT-3.3.2-7]
    """
    client, _ = raw.resume("pub")
    client.send(wire.publish(V5, raw.topic(), b"x", properties={"topic_alias": 1}))
    client.ping()
    client.close()
    client, _ = raw.resume("pub")
    client.send(wire.publish(V5, "", b"x", properties={"topic_alias": 1}))
    client.expect_closed(0x82, 0x94)


@pytest.mark.v5
def test_every_alias_up_to_the_maximum(raw):
    """All aliases from 1 to the broker's maximum are taken.

    v5 [MQTT-3.3.2-12]
    """
    watcher = raw.subscriber(raw.topic("#"))
    client = raw.open()
    limit = client.connect(raw.client_id("pub")).properties["topic_alias_maximum"]
    for alias in range(1, limit + 1):
        client.send(wire.publish(V5, raw.topic(str(alias)), b"", properties={"topic_alias": alias}))
    for alias in range(limit, 0, -1):
        client.send(wire.publish(V5, "", b"%d" % alias, properties={"topic_alias": alias}))
    for _ in range(limit):
        watcher.expect(PUBLISH, payload=b"")
    for alias in range(limit, 0, -1):
        watcher.expect(PUBLISH, topic=raw.topic(str(alias)), payload=b"%d" % alias)


def refusals(raw, client):
    """Sends what is refused without the end of the connection, or nearly so, and gives all four answers."""
    client.subscribe(raw.topic())
    client.send(
        wire.subscribe(V5, 1, [(raw.topic("one too many"), 0)]),
        wire.unsubscribe(V5, 2, [raw.topic("none")]),
        wire.publish(V5, raw.topic("large"), bytes(11), qos=1, retain=True, packet_id=3),
        wire.publish(V5, raw.topic("large"), bytes(11), qos=2, retain=True, packet_id=4),
    )
    found = {packet.kind: packet for packet in (client.receive() for _ in range(4))}
    assert {kind: (packet.packet_id, packet.reason, packet.reasons) for kind, packet in found.items()} == {
        SUBACK: (1, 0, [0x97]),
        UNSUBACK: (2, 0, [0x11]),
        PUBACK: (3, 0x97, []),
        PUBREC: (4, 0x97, []),
    }
    client.ping()
    return found


@pytest.mark.v5
@pytest.mark.courser
def test_no_problem_information(brokers, raw):
    """Request Problem Information 0: no Reason String and User Property on refusals, which have one for others; Response Information only if
    asked for.

    v5 [MQTT-3.1.2-28] v5 [MQTT-3.1.2-29] v5 [MQTT-2.2.2-1] v5 [MQTT-3.9.2-1] v5 [MQTT-3.9.2-2] v5 [MQTT-3.11.2-1] v5 [MQTT-3.11.2-2]
    v5 [MQTT-3.4.2-2] v5 [MQTT-3.4.2-3] v5 [MQTT-3.5.2-2] v5 [MQTT-3.5.2-3] v5 [MQTT-3.2.2-19] v5 [MQTT-3.2.2-20]
    """
    raw.broker = brokers.common(retained_payload="10", subscriptions=1)
    client = raw.open()
    found = client.connect(raw.client_id("c"), properties={"request_problem_info": 0, "request_response_info": 0})
    assert "response_info" not in found.properties
    for packet in refusals(raw, client).values():
        assert not {"reason_string", "user_property"} & set(packet.properties), packet
    told = refusals(raw, raw.connect("told"))
    assert {kind for kind, packet in told.items() if "reason_string" in packet.properties} == {SUBACK, PUBACK, PUBREC}


@pytest.mark.v5
def test_identifier_and_shared_options_on_wire(raw):
    """A delivery of overlapping subscriptions: one packet, all identifiers, the highest QoS.

    v5 [MQTT-3.3.4-2] v5 [MQTT-3.3.4-3] v5 [MQTT-3.3.4-4]
    """
    client = raw.connect("sub")
    client.subscribe(raw.topic("a/b"), qos=0, properties={"subscription_id": 3})
    client.subscribe(raw.topic("a/+"), qos=2, properties={"subscription_id": 2})
    client.subscribe(raw.topic("#"), qos=1, properties={"subscription_id": 3})
    raw.connect("pub").publish(raw.topic("a/b"), b"x", qos=2)
    found = client.message(qos=2)
    assert sorted(found.properties["subscription_id"]) in ([2, 3], [2, 3, 3])
    client.ping()
