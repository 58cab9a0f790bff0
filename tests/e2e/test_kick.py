"""`courser client kick --filter`: exactly those whose field fits are closed, by whichever field, and everybody else stays."""

import json
import os
import subprocess

import pytest
import wire
from scenario import Raw
from wire import V3, V5

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="without a data folder there is no socket"),
]

# Client ids and the version that each speaks.
CLIENTS = {"red-1": V5, "red-2": V3, "red": V5, "tired-1": V5, "blue-1": V3, "blue-2": V5}


def kick(broker, *words):
    """Client ids that the command says it has kicked."""
    command = [str(broker.binary()), "client", "kick", *words, "-o", "jsonl", "--server", "data"]
    done = subprocess.run(command, cwd=broker.folder, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "conditions, expected",
    [
        (["client_id=red-*"], {"red-1", "red-2"}),
        (["client_id=*red*", "version=5.0"], {"red-1", "red", "tired-1"}),
        (["version!=5.0"], {"red-2", "blue-1"}),
        (["client_id=nobody*"], set()),
        (["listener=nowhere"], set()),
    ],
)
def test_exactly_those_that_fit(brokers, conditions, expected):
    broker = brokers.own(sys_interval=0)
    raws, clients = [], {}
    for name, version in CLIENTS.items():
        raws.append(Raw(broker, version))
        clients[name] = raws[-1].open()
        clients[name].connect(name)
    flags = [word for condition in conditions for word in ("--filter", condition)]
    would = kick(broker, *flags, "--dry-run")
    assert {row["what"] for row in would} == expected
    assert all(row["done"].startswith("would ") for row in would)
    for client in clients.values():
        client.ping()
    done = kick(broker, *flags, "--yes")
    assert sorted(row["what"] for row in done) == sorted(expected), "each once"
    for name, client in clients.items():
        if name not in expected:
            client.ping()
            continue
        if CLIENTS[name] == V5:
            client.expect(wire.DISCONNECT, reason=0x98)
        assert client.receive() is None, name
    for found in raws:
        found.release()


def test_one_that_was_closed_is_not_listed(brokers):
    """Its socket stays until it has read that it was closed, or for two seconds; by then nothing can be done with it."""
    broker = brokers.own(sys_interval=0)
    raw = Raw(broker, V5)
    client = raw.open()
    client.connect("still-there")
    assert [row["done"] for row in kick(broker, "still-there", "--yes")] == ["kicked"]
    listed = [str(broker.binary()), "client", "list", "-o", "jsonl", "--server", "data"]
    done = subprocess.run(listed, cwd=broker.folder, capture_output=True, text=True, timeout=60, check=True)
    assert "still-there" not in done.stdout
    client.expect(wire.DISCONNECT, reason=0x98)
    raw.release()
