"""Retained messages that are replayed while they are written anew, to readers with small windows."""

import threading
import time

import pytest
import wire
from wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK

TOPICS = 1000
REWRITTEN = range(0, TOPICS, 10)


def retain(raw, client, numbers, payload: bytes) -> None:
    """One retained message for each topic, 200 under way at once."""
    numbers = list(numbers)
    for at in range(0, len(numbers), 200):
        part = numbers[at : at + 200]
        client.send(
            *(
                wire.publish(raw.version, raw.topic(f"{number}"), payload, qos=1, packet_id=number + 1, retain=True)
                for number in part
            )
        )
        for _ in part:
            assert client.expect(PUBACK).reason < 0x80


class Writer:
    """Writes some topics anew as fast as it can, each time with a higher number."""

    def __init__(self, raw):
        self.raw, self.version, self.going = raw, 0, True
        self.client = raw.connect("writer")
        self.failed = None
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        try:
            while self.going:
                self.version += 1
                retain(self.raw, self.client, REWRITTEN, b"%d" % self.version)
        except BaseException as error:
            self.failed = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.going = False
        self.thread.join()
        assert self.failed is None, self.failed


@pytest.mark.v5
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("window", [1, 50])
def test_no_version_goes_backwards(raw, qos, window):
    """A reader gets every topic, and after a version of one never an older; a later reader gets the last ones. M34.

    v5 [MQTT-3.3.1-9] v5 [MQTT-3.3.4-9]
    """
    retain(raw, raw.connect("first"), range(TOPICS), b"0")
    reader = raw.connect("reader", properties={"receive_maximum": window})
    seen: dict[str, int] = {}
    with Writer(raw) as writer:
        reader.send(wire.subscribe(raw.version, 1, [(raw.topic("#"), qos)]))
        deadline = time.monotonic() + 60
        while len(seen) < TOPICS:
            assert time.monotonic() < deadline, f"{len(seen)} of {TOPICS} topics"
            packet = reader.receive()
            if packet.kind == PUBLISH:
                version = int(packet.payload)
                assert version >= seen.get(packet.topic, 0), f"{packet.topic}: {version} after {seen[packet.topic]}"
                seen[packet.topic] = version
                reader.send(wire.ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))
            elif packet.kind == PUBREL:
                reader.send(wire.ack(PUBCOMP, packet.packet_id))
            else:
                assert packet.kind == SUBACK, str(packet)
    late = raw.subscriber(raw.topic("#"), name="late")
    for _ in range(TOPICS):
        packet = late.expect(PUBLISH)
        number = int(packet.topic.rpartition("/")[2])
        assert int(packet.payload) == (writer.version if number in REWRITTEN else 0), str(packet)
    late.ping()


@pytest.mark.v5
def test_replay_does_not_starve_behind_live_messages(raw):
    """A reader with a small window, and live messages of the filter faster than it takes them: what is retained comes all the same. M34.

    v5 [MQTT-3.3.1-9]
    """
    retain(raw, raw.connect("first"), range(TOPICS), b"0")
    reader = raw.connect("reader", properties={"receive_maximum": 50})
    publisher = raw.connect("pub")
    live = raw.topic("live")
    going, taken = True, 0

    def flood() -> None:
        sent = 0
        while going:
            # A little faster than they are taken, so that more and more wait.
            if sent > 500 + taken * 5 // 4:
                time.sleep(0.001)
                continue
            publisher.send(*(wire.publish(raw.version, live, b"live", qos=1, packet_id=at) for at in range(1, 101)))
            for _ in range(100):
                publisher.expect(PUBACK)
            sent += 100

    # Live messages wait already.
    reader.subscribe(live, qos=1)
    thread = threading.Thread(target=flood)
    thread.start()
    try:
        found = count = 0
        asked = False
        deadline = time.monotonic() + 60
        while found < TOPICS:
            assert time.monotonic() < deadline, f"{found} of {TOPICS} retained messages, {count} live ones"
            packet = reader.receive()
            if packet.kind != PUBLISH:
                continue
            taken += 1
            found += packet.retain
            count += not packet.retain
            reader.send(wire.ack(PUBACK, packet.packet_id))
            if count >= 500 and not asked:
                asked = True
                reader.send(wire.subscribe(raw.version, 100, [(raw.topic("#"), 1)]))
    finally:
        going = False
        thread.join()
