"""Stopping the broker."""

import signal
import time

import pytest
import wire
from raw import RawClient


@pytest.mark.courser
def test_sigterm(brokers, raw):
    """SIGTERM: DISCONNECT 0x8B to 5.0 clients, a plain close to 3.1.1 clients, exit code 0."""
    raw.broker = brokers.own()
    client = raw.connect("c")
    idle = raw.open()
    raw.broker.process.send_signal(signal.SIGTERM)
    assert client.expect_closed(0x8B) == (0x8B if raw.v5 else None)
    assert idle.read_all() == b""
    assert raw.broker.process.wait(20) == 0


@pytest.mark.courser
def test_sigint_is_the_same(brokers, raw):
    """Control-C on a terminal."""
    raw.broker = brokers.own()
    client = raw.connect("c")
    raw.broker.process.send_signal(signal.SIGINT)
    client.expect_closed(0x8B)
    assert raw.broker.process.wait(20) in (0, 130)


@pytest.mark.courser
def test_kill_and_start_again(brokers, raw):
    """After SIGKILL the same folder serves again."""
    raw.broker = brokers.own()
    raw.connect("c").ping()
    raw.broker.stop(signal.SIGKILL)
    raw.broker.start()
    client = raw.connect("c")
    client.send(wire.PING)
    client.expect(wire.PINGRESP)
    assert raw.broker.stop() == 0


@pytest.mark.courser
def test_p2_killed_while_a_stop_saves_partitions(brokers, raw):
    """SIGTERM, and SIGKILL at some moment of the stop: everything is there afterwards. The last stop is left to its end."""
    broker = raw.broker = brokers.own()
    topic = raw.topic()
    absent, _ = raw.resume("absent")
    absent.subscribe(topic, qos=1)
    absent.close()
    payload = b"x" * 4000
    sent = 0
    for delay in (0, 0.002, 0.005, 0.01, 0.02, 0.04, None):
        publisher = raw.connect("pub")
        for _ in range(50):
            publisher.send(wire.publish(raw.version, topic, b"%d " % sent + payload, qos=1, packet_id=sent + 1))
            publisher.expect(wire.PUBACK, packet_id=sent + 1)
            sent += 1
        if delay is None:
            assert broker.stop() == 0
        else:
            broker.process.send_signal(signal.SIGTERM)
            time.sleep(delay)
            broker.stop(signal.SIGKILL)
        broker.start()
    absent, present = raw.resume("absent")
    assert present
    for number in range(sent):
        absent.answer(absent.expect(wire.PUBLISH, payload=b"%d " % number + payload))
    assert broker.stop() == 0


@pytest.mark.courser
@pytest.mark.v5
def test_wills_at_sigterm(brokers, raw):
    """SIGTERM: the wills of sessions that end, and those of 3.1.1, go out before subscribers hear DISCONNECT 0x8B; one with a delay, of a session that is kept, after the start.

    v5 [MQTT-3.1.2-8] v3 [MQTT-3.1.2-8] v5 [MQTT-3.1.3-9]
    """
    broker = raw.broker = brokers.own()
    wills = raw.topic("wills")
    watcher, _ = raw.resume("watcher")
    watcher.subscribe(f"{wills}/#", qos=1)

    def leaves(name, version, **options):
        client = RawClient(broker.address, version)
        delay = options.pop("delay", None)
        properties = {"will_delay": delay} if delay else ()
        will = wire.Will(f"{wills}/{name}", name.encode(), qos=1, properties=properties)
        client.connect(raw.client_id(name), will=will, **options)
        return client

    kept = {"clean": False, "properties": {"session_expiry": 100}}
    clients = [
        leaves("v5", wire.V5),
        leaves("v3-clean", wire.V3),
        leaves("v3-kept", wire.V3, clean=False),
        leaves("delayed", wire.V5, delay=1, **kept),
    ]
    broker.process.send_signal(signal.SIGTERM)
    at_stop = set()
    while (packet := watcher.receive()) is not None and packet.kind == wire.PUBLISH:
        at_stop.add(packet.payload)
        watcher.send(wire.ack(wire.PUBACK, packet.packet_id))
    assert packet.kind == wire.DISCONNECT and packet.reason == 0x8B, str(packet)
    assert watcher.receive() is None
    assert at_stop == {b"v5", b"v3-clean", b"v3-kept"}
    for client in clients:
        client.expect_closed(0x8B)
    assert broker.process.wait(20) == 0
    broker.start()
    watcher, present = raw.resume("watcher")
    assert present
    # What was delivered at the stop may come again: its acknowledgement may have come too late.
    while (found := watcher.message()).payload != b"delayed":
        assert found.dup and found.payload in at_stop
    assert broker.stop() == 0
