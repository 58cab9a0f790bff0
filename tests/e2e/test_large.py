"""Messages that are larger than a batch of the log, a ring's credit and a socket's buffers (M45)."""

import hashlib
import os
import signal
import socket
import ssl
import time

import doors
import pytest
import wire
from broker import Courser
from doors import LOOPBACK, Authority, listener, places, running
from raw import RawClient
from web import BINARY, frame, upgraded
from wire import PINGRESP, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, V5

pytestmark = pytest.mark.courser

MIB = 1 << 20


@pytest.fixture
def large(brokers, raw, monkeypatch):
    """A broker that takes packets of 80 MiB, with two shards; the clients are patient."""
    monkeypatch.setattr(RawClient, "patience", 60)
    monkeypatch.setenv("COURSER_SHARDS", "2")
    raw.broker = brokers.own(packet_bytes="80MiB", queue_bytes="1GiB", segment_bytes="16MiB")
    return raw


def payload_of(mib: int, name: str) -> bytes:
    """Different in every block, so that pieces that are swapped or repeated are seen."""
    block = bytearray(os.urandom(MIB))
    whole = bytearray()
    for number in range(mib):
        block[:16] = hashlib.sha256(f"{name} {number}".encode()).digest()[:16]
        whole += block
    return bytes(whole)


def publish(client, topic: str, payload: bytes, qos: int, packet_id: int) -> None:
    client.sock.settimeout(60)
    client.send(wire.publish(client.version, topic, payload, qos=qos, packet_id=packet_id if qos else None))
    if qos == 1:
        client.expect(PUBACK, packet_id=packet_id)
    elif qos == 2:
        client.expect(PUBREC, packet_id=packet_id)
        client.send(wire.ack(PUBREL, packet_id))
        client.expect(PUBCOMP, packet_id=packet_id)


def take(client, topic: str, payload: bytes, qos: int) -> None:
    found = client.expect(PUBLISH)
    assert (found.topic, found.qos) == (topic, qos)
    # Not compared by the assertion itself: it would print both.
    same = found.payload == payload
    assert same, f"{len(found.payload)} bytes instead of {len(payload)}, or others"
    client.answer(found)


def test_a_message_of_64_mib_comes_as_it_was(large):
    """QoS 0, 1 and 2, to a clean session, to one that stays connected and to one that is away while the broker is killed.

    QoS 0 goes to one of them only: a second copy may find the way to its shard full, and is dropped then.
    """
    raw, broker = large, large.broker
    stored = raw.topic("stored/#")
    absent, _ = raw.resume("absent")
    absent.subscribe(stored, qos=2)
    absent.close()
    kept, _ = raw.resume("kept")
    kept.subscribe(stored, qos=2)
    clean = raw.subscriber(raw.topic("#"), name="clean", qos=2)
    publisher = raw.connect("pub")
    sent = {}
    for qos, name, subscribers in ((0, "live", [clean]), (1, "stored/1", [kept, clean]), (2, "stored/2", [kept, clean])):
        topic = raw.topic(name)
        payload = sent[qos] = payload_of(64, f"qos {qos}")
        publish(publisher, topic, payload, qos, qos + 1)
        for subscriber in subscribers:
            take(subscriber, topic, payload, qos)
    broker.check_alive()
    broker.stop(signal.SIGKILL)
    broker.start()
    absent, present = raw.resume("absent")
    assert present
    for qos in (1, 2):
        take(absent, raw.topic(f"stored/{qos}"), sent[qos], qos)
    absent.ping()
    raw.release()
    assert broker.stop() == 0


def test_m15_what_is_behind_a_large_message_waits_for_it_and_others_pass(large):
    """M15: a large message has its place in the order from its last byte on.

    What its own publisher sends behind it comes after it, to a clean session and to a kept one; what others publish meanwhile passes.
    """
    raw = large
    topic = raw.topic("one")
    kept, _ = raw.resume("kept")
    kept.subscribe(topic, qos=1)
    clean = raw.subscriber(topic, name="clean", qos=1)
    slow, quick = raw.connect("slow"), raw.connect("quick")
    payload = payload_of(40, "large")
    packet = wire.publish(slow.version, topic, payload, qos=1, packet_id=1)
    slow.sock.settimeout(60)
    slow.send(packet[:-1])
    publish(quick, topic, b"passes", 1, 1)
    for subscriber in (clean, kept):
        take(subscriber, topic, b"passes", 1)
    slow.send(packet[-1:], *(wire.publish(slow.version, topic, b"behind", qos=1, packet_id=packet_id) for packet_id in (2, 3)))
    for packet_id in (1, 2, 3):
        slow.expect(PUBACK, packet_id=packet_id)
    for subscriber in (clean, kept):
        take(subscriber, topic, payload, 1)
        for _ in range(2):
            take(subscriber, topic, b"behind", 1)


def test_who_sends_while_much_waits_for_it_is_heard(large):
    """The broker reads nothing of a client whose output is over twice its bound, and goes on when that is written."""
    raw = large
    subscriber = raw.subscriber(raw.topic(), qos=1)
    payload = payload_of(32, "waits")
    publish(raw.connect("pub"), raw.topic(), payload, 1, 1)
    subscriber.sock.recv(1, socket.MSG_PEEK)
    # The message has begun, and the broker still has most of it.
    subscriber.send(wire.PING)
    time.sleep(0.5)
    take(subscriber, raw.topic(), payload, 1)
    subscriber.expect(PINGRESP)
    raw.release()
    assert raw.broker.stop() == 0


def test_c2_memory_follows_what_came(large):
    """Twenty packets of 80 MiB are announced and one byte of each payload is sent: nobody pays for what did not come."""
    raw, broker = large, large.broker
    raw.connect("first").ping()
    before = broker.rss_bytes()
    announced = wire.publish(raw.version, raw.topic(), bytes(79 * MIB), qos=0)[:64]
    for number in range(20):
        raw.connect(f"c{number}").send(announced)
    raw.connect("last").ping()
    assert broker.rss_bytes() - before < 16 * MIB
    raw.release()
    assert broker.stop() == 0


@pytest.mark.parametrize("protocol", ["ws", "wss"])
def test_c2_memory_follows_what_came_by_websocket(tmp_path, protocol):
    """The same in frames: 80 MiB are announced by the head of the frame, and again by the packet in it."""
    authority = Authority(tmp_path / "certificates")
    files = authority.issue("server", "server", doors.server_names()) if protocol == "wss" else None
    context = ssl.create_default_context(cafile=str(authority.certificate)) if files else None
    settings = {"listeners": listener("web", protocol, LOOPBACK, files), "packet_bytes": "80MiB"}
    announced = wire.publish(V5, "announced", bytes(79 * MIB), qos=0)
    begun = [frame(BINARY, announced[:64], announced=len(announced)), frame(BINARY, b"", announced=80 * MIB)]
    with running(Courser, tmp_path / "broker", **settings) as broker:
        place = places(broker)["web"]
        RawClient(broker.address, V5).connect("first")
        before = broker.heap_bytes()
        socks = []
        for number in range(20):
            sock, _ = upgraded(place, context=context)
            socks.append(sock)
            sock.sendall(frame(BINARY, wire.connect(V5, f"c{number}")))
            assert sock.recv(4096)[:1] == b"\x82"
            sock.sendall(begun[number % 2])
        RawClient(broker.address, V5).connect("last")
        assert broker.heap_bytes() - before < 16 * MIB
        for sock in socks:
            sock.close()
