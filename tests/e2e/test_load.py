"""Many connections and much traffic at once. Only correctness is checked."""

import asyncio
import socket
import struct

import gmqtt
import pytest
import wire
from wire import CONNACK, PUBACK, PUBLISH, PUBREC

CONNECTIONS = 5000


def read_exactly(sock, count):
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        assert piece, f"closed after {len(data)} of {count} bytes"
        data += piece
    return data


@pytest.mark.timeout(180)
def test_5000_connections(raw, brokers):
    """5,000 clients at once, each subscribed to its own topic; every one of them gets its message.

    v3 [MQTT-4.5.0-1] v5 [MQTT-4.5.0-1]
    """
    raw.broker = brokers.own()
    publisher = raw.connect("pub")
    suback = 5 if not raw.v5 else 6
    sockets = []
    try:
        for number in range(CONNECTIONS):
            sock = socket.create_connection(raw.broker.address, timeout=30)
            sockets.append(sock)
            sock.sendall(
                wire.connect(raw.version, f"many{number}")
                + wire.subscribe(raw.version, 1, [(raw.topic(f"n/{number}"), 0), (raw.topic("all"), 0)])
            )
        for sock in sockets:
            head = read_exactly(sock, 2)
            assert head[0] == 0x20
            assert read_exactly(sock, head[1])[1] == 0
            head = read_exactly(sock, 2)
            assert head[0] == 0x90 and head[1] == suback - 1
            assert read_exactly(sock, head[1])[-2:] == b"\0\0"
        for number in range(CONNECTIONS):
            publisher.send(wire.publish(raw.version, raw.topic(f"n/{number}"), struct.pack("!I", number)))
        publisher.ping()
        publisher.send(wire.publish(raw.version, raw.topic("all"), b"ALL!"))
        for number, sock in enumerate(sockets):
            for payload in (struct.pack("!I", number), b"ALL!"):
                head = read_exactly(sock, 2)
                assert head[0] == 0x30
                assert read_exactly(sock, head[1])[-4:] == payload
        publisher.ping()
    finally:
        for sock in sockets:
            sock.close()
        raw.broker.check_alive()
        raw.broker.stop()


async def talk_to_the_next(address):
    """Each of `CONNECTIONS` gmqtt clients says a word to the next one, and the first one to all. What each heard: the library says again what was not
    acknowledged within seconds."""
    heard = [set() for _ in range(CONNECTIONS)]
    clients, missing, subscribed, whole = [], [2 * CONNECTIONS], [0], asyncio.Event()
    all_subscribed = asyncio.Event()

    async def connect(number):
        def on_message(_client, _topic, payload, _qos, _properties):
            missing[0] -= payload not in heard[number]
            heard[number].add(payload)
            if missing[0] == 0:
                whole.set()
            return 0

        def on_subscribe(_client, _mid, codes, _properties):
            assert list(codes) == [1, 1]
            subscribed[0] += 1
            if subscribed[0] == CONNECTIONS:
                all_subscribed.set()

        client = gmqtt.Client(f"library{number}")
        client.on_message, client.on_subscribe = on_message, on_subscribe
        await client.connect(*address, keepalive=600)
        client.subscribe([gmqtt.Subscription(f"to/{number}", qos=1), gmqtt.Subscription("all", qos=1)])
        return client

    for start in range(0, CONNECTIONS, 250):
        clients += await asyncio.gather(*(connect(number) for number in range(start, start + 250)))
    await all_subscribed.wait()
    for number, client in enumerate(clients):
        client.publish(f"to/{(number + 1) % CONNECTIONS}", b"%d" % number, qos=1)
    clients[0].publish("all", b"all", qos=1)
    await whole.wait()
    await asyncio.gather(*(client.disconnect() for client in clients))
    return heard


@pytest.mark.courser
@pytest.mark.timeout(180)
def test_5000_clients_of_a_library(brokers):
    """5,000 clients of a library at once: each gets what another one of them says to it, and what one says to all."""
    broker = brokers.own()
    heard = asyncio.run(talk_to_the_next(broker.address))
    for number, payloads in enumerate(heard):
        assert payloads == {b"%d" % ((number - 1) % CONNECTIONS), b"all"}
    broker.check_alive()
    assert broker.stop() == 0


@pytest.mark.timeout(180)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_order_under_load(raw, qos):
    """Eight publishers send 1,000 messages each on two topics, all at once; four subscribers get each publisher's topic in order.

    v3 [MQTT-4.6.0-5] v3 [MQTT-4.6.0-6] v5 [MQTT-4.6.0-5] v5 [MQTT-4.6.0-6]
    """
    publishers, count, window = 8, 1000 if qos < 2 else 300, 20
    subscribers = [raw.subscriber(raw.topic("load/#"), name=f"s{number}", qos=qos) for number in range(4)]
    sources = [raw.connect(f"p{number}") for number in range(publishers)]
    received = [[] for _ in subscribers]

    def send_window(start):
        for at, source in enumerate(sources):
            packets = []
            for number in range(start, start + window):
                packet_id = number % 60000 + 1 if qos else None
                topic = raw.topic(f"load/{at}/{number % 2}")
                packets.append(wire.publish(raw.version, topic, struct.pack("!HI", at, number), qos=qos, packet_id=packet_id))
            source.send(*packets)

    def finish_window(start):
        for source in sources:
            for number in range(start, start + window):
                if qos == 1:
                    source.expect(PUBACK, packet_id=number % 60000 + 1)
                if qos == 2:
                    source.expect(PUBREC, packet_id=number % 60000 + 1)
                    source.send(wire.ack(wire.PUBREL, number % 60000 + 1))
            if qos == 2:
                for number in range(start, start + window):
                    source.expect(wire.PUBCOMP, packet_id=number % 60000 + 1)

    def take_window():
        for client, found in zip(subscribers, received, strict=True):
            for _ in range(window * publishers):
                found.append(client.message())

    for start in range(0, count, window):
        send_window(start)
        finish_window(start)
        take_window()
    for found in received:
        last = {}
        assert len(found) == count * publishers
        for packet in found:
            at, number = struct.unpack("!HI", packet.payload)
            assert packet.topic == raw.topic(f"load/{at}/{number % 2}")
            assert number > last.get((at, packet.topic), -1), f"{packet} after {last[at, packet.topic]}"
            last[at, packet.topic] = number


@pytest.mark.timeout(120)
def test_slow_subscriber_harms_nobody(raw):
    """A subscriber that never reads while 64 MiB are published for it: a neighbour on the same topic gets everything."""
    topic = raw.topic()
    slow = raw.subscriber(topic, name="slow")
    fast = raw.subscriber(topic, name="fast")
    publisher = raw.connect("pub")
    payload = b"x" * 65536
    for number in range(1024):
        publisher.send(wire.publish(raw.version, topic, struct.pack("!I", number) + payload))
        assert struct.unpack("!I", fast.expect(PUBLISH).payload[:4])[0] == number
    publisher.ping()
    fast.ping()
    assert raw.broker.rss_bytes() < 512 << 20
    slow.close()


@pytest.mark.timeout(120)
def test_connect_storm(raw):
    """2,000 connects, each followed by QoS 1 and DISCONNECT; the acknowledgements all come."""
    watcher = raw.subscriber(raw.topic(), qos=0)
    for start in range(0, 2000, 100):
        clients = [raw.open() for _ in range(100)]
        for number, client in enumerate(clients):
            client.send(
                wire.connect(raw.version, f"s{raw.mark}{start + number}"),
                wire.publish(raw.version, raw.topic(), b"x", qos=1, packet_id=1),
            )
        for client in clients:
            client.expect(CONNACK, reason=0)
            client.expect(PUBACK, packet_id=1)
            client.disconnect()
        raw.made = [client for client in raw.made if client not in clients]
    for _ in range(2000):
        watcher.message(payload=b"x")
