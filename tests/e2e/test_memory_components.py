"""Who asks for memory and who holds it, as `/metrics` and `courser top` say it."""

import json
import re
import subprocess
import urllib.request

import pytest
import wire
from broker import until
from doors import WithAccounts, running
from raw import RawClient
from wire import V5

pytestmark = pytest.mark.courser


def allocated(server):
    """Bytes asked for since the start, by component."""
    with urllib.request.urlopen(f"{server.http}/metrics", timeout=20) as answer:  # noqa: S310
        found = re.findall(r'courser_memory_allocated_bytes_total\{component="(\w+)"\} ([0-9.]+)', answer.read().decode())
    return {component: float(number) for component, number in found}


def held(server):
    """Bytes that are not freed, by component, and in all."""
    with urllib.request.urlopen(f"{server.http}/metrics", timeout=20) as answer:  # noqa: S310
        text = answer.read().decode()
    found = re.findall(r'courser_memory_held_bytes\{component="(\w+)"\} ([0-9.]+)', text)
    return {component: float(number) for component, number in found}, float(re.search(r'memory_bytes\{use="allocated"\} ([0-9.]+)', text)[1])


def test_who_holds_memory(brokers, raw):
    """What waits is held by partitions until it is gone; all parts together are what is allocated."""
    raw.broker = broker = brokers.own(sys_interval=0)
    before, _ = held(broker)
    session, _ = raw.resume("kept")
    session.subscribe(raw.topic("t"), qos=1)
    session.reset()
    publisher = raw.connect("pub")
    size, count = 50_000, 300
    for _ in range(count):
        publisher.publish(raw.topic("t"), b"x" * size, qos=1)
    during, allocated = held(broker)
    assert sum(during.values()) == allocated
    grown = during["partitions"] - before["partitions"]
    # Each is in the log as well, on its way; the estimate is within three standard deviations.
    assert 0.8 * size * count < grown < 1.4 * size * count, (before, during)
    assert max(during, key=during.get) == "partitions", during
    command = [str(broker.binary()), "top", "-n", "1", "-o", "jsonl", "--server", broker.http]
    command += ["--token-file", str(broker.folder / "data" / "admin.token")]
    top = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert top["memory_largest"] == "partitions"
    assert 0 < top["memory_held_bytes"] < top["memory_limit_bytes"]
    raw.connect("kept")
    publisher.publish(raw.topic("t"), b"x", qos=1)
    after, allocated = held(broker)
    assert sum(after.values()) == allocated
    assert after["partitions"] - before["partitions"] < 0.2 * size * count, (before, after)


def test_memory_of_hashes_is_given_back(tmp_path):
    """A login needs 19 MiB for its hash. Soon after it nothing holds them: a small process is not short of memory because somebody came in."""
    with running(WithAccounts, tmp_path) as broker:
        before, _ = held(broker)
        client = RawClient(broker.address, V5)
        client.send(wire.connect(V5, "in", username="root", password=broker.password.encode()))
        client.expect(wire.CONNACK, reason=0)
        assert allocated(broker)["access"] >= 19 << 20
        until(lambda: held(broker)[0]["access"] < before["access"] + (4 << 20), "the memory of the hash is given back")
        client.close()


def test_components(brokers, raw):
    """Messages that wait are counted where they are kept, their entries for the log, this question for control."""
    raw.broker = broker = brokers.own(sys_interval=0)
    before = allocated(broker)
    session, _ = raw.resume("kept")
    session.subscribe(raw.topic("t"), qos=1)
    publisher = raw.connect("pub")
    for _ in range(100):
        publisher.publish(raw.topic("t"), b"x" * 10_000, qos=1)
    after = allocated(broker)
    grown = {component: after[component] - before[component] for component in after}
    assert sum(grown.values()) > 100 * 10_000, grown
    for component in ("connections", "partitions", "log", "control"):
        assert grown[component] > 0, grown
    assert grown["access"] == 0, grown
