"""Messages that have waited, or were retained, for longer than they may: they go while nobody is connected, whoever set the limit, also
after the process was killed, and each is counted."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request

import pytest
import wire
from broker import Courser
from doors import running
from scenario import Raw
from wire import PUBACK, PUBLISH, V5

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="it is about what a data folder keeps"),
]

PATIENCE = 60


def run(broker, *arguments):
    command = [str(Courser.binary()), *arguments, "--server", str(broker.folder / "data")]
    done = subprocess.run(command, cwd=broker.folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def too_old(broker) -> int:
    with urllib.request.urlopen(f"{broker.http}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    return int(re.search(r'courser_messages_dropped_total\{reason="too_old"\} (\d+)', text).group(1))


def until(is_so) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def wait_for_too_old(broker, count: int) -> None:
    """It is counted when it is decided, and gone when that is on the disk."""
    until(lambda: too_old(broker) >= count)
    assert too_old(broker) == count


def waiting(broker, client_id: str) -> int:
    rows = json.loads(run(broker, "session", "list", "--filter", f"client_id={client_id}", "-o", "json"))
    return rows["items"][0]["queued_messages"]


def store(raw, topic: str, payload: bytes, *, retain: bool = False) -> None:
    publisher = raw.connect("publisher")
    publisher.send(wire.publish(V5, topic, payload, qos=1, packet_id=1, retain=retain))
    assert publisher.expect(PUBACK, packet_id=1).reason in (0, 0x10)
    publisher.close()


def test_a_limit_of_the_domain_holds_for_who_is_away_and_after_a_kill(tmp_path):
    """Stored before the limit is set and before the process is killed; the session goes on with what comes later."""
    broker = Courser(tmp_path / "broker").start()
    raw = Raw(broker, V5)
    client, _ = raw.resume("absent")
    client.subscribe("w", qos=1)
    client.close()
    store(raw, "w", b"old")
    assert waiting(broker, raw.client_id("absent")) == 1
    broker.stop(signal.SIGKILL)
    broker.start()
    run(broker, "domain", "set", "default", "--quota", "queued_seconds=1", "--yes")
    wait_for_too_old(broker, 1)
    until(lambda: waiting(broker, raw.client_id("absent")) == 0)
    run(broker, "domain", "set", "default", "--quota", "queued_seconds=none")
    again = Raw(broker, V5)
    again.mark = raw.mark
    store(again, "w", b"new")
    client, present = again.resume("absent")
    assert present
    assert client.expect(PUBLISH).payload == b"new"
    client.close()
    assert broker.stop() == 0, broker.tail()


def test_the_settings_limit_sessions_and_retained_messages(tmp_path):
    with running(Courser, tmp_path / "broker", queue_age=1, retained_age=1) as broker:
        raw = Raw(broker, V5)
        client, _ = raw.resume("absent")
        client.subscribe("w", qos=1)
        client.close()
        store(raw, "w", b"old")
        store(raw, "kept", b"old", retain=True)
        wait_for_too_old(broker, 2)
        until(lambda: waiting(broker, raw.client_id("absent")) == 0)
        until(lambda: json.loads(run(broker, "retained", "list", "-o", "json"))["items"] == [])


def test_the_age_of_queues_counts_for_sessions_that_come_late(tmp_path):
    """It is the only limit of age, and nobody had a session when it began to count."""
    with running(Courser, tmp_path / "broker", queue_age=1) as broker:
        # Rounds of all partitions find nobody: they are a second apart.
        time.sleep(3)
        raw = Raw(broker, V5)
        client, _ = raw.resume("absent")
        client.subscribe("w", qos=1)
        client.close()
        store(raw, "w", b"old")
        wait_for_too_old(broker, 1)
        until(lambda: waiting(broker, raw.client_id("absent")) == 0)
