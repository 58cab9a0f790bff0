"""Who asks for memory, as `/metrics` says it."""

import re
import urllib.request

import pytest

pytestmark = pytest.mark.courser


def allocated(server):
    """Bytes asked for since the start, by component."""
    with urllib.request.urlopen(f"{server.http}/metrics", timeout=20) as answer:  # noqa: S310
        found = re.findall(r'courser_memory_allocated_bytes_total\{component="(\w+)"\} ([0-9.]+)', answer.read().decode())
    return {component: float(number) for component, number in found}


def test_components(brokers, raw):
    """Messages that wait are counted where they are taken and kept, their entries for the log, this question for control."""
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
