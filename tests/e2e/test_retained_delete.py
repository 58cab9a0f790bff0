"""`courser retained delete --match`: many at once, in pieces, while clients are served; what the broker itself keeps stays and counts for nothing."""

import json
import subprocess

import pytest
from broker import Courser, until
from doors import running
from raw import RawClient
from wire import V5

pytestmark = pytest.mark.courser

# More than the server takes away in one answer, of two kinds.
MANY, OTHERS = 12_000, 50


def courser(broker, *words, code=0):
    done = subprocess.run(
        [Courser.binary(), "retained", *words, "--server", "data"], cwd=broker.folder, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout


def retain(client, topics):
    """Publishes a message for each, some hundreds at a time."""
    for first in range(0, len(topics), 500):
        some = topics[first : first + 500]
        for topic in some:
            client.publish(topic, b"x", qos=0, retain=True)
        client.ping()


def test_many_are_deleted_by_a_filter(tmp_path):
    with running(Courser, tmp_path, sys_interval=1) as broker:
        until(lambda: courser(broker, "list", "$SYS/#", "-o", "jsonl"), "the broker has values of its own")
        assert broker.metric("courser_retained_messages") == 0
        client = RawClient(broker.address, V5)
        client.connect("writer")
        retain(client, [f"many/{number % 7}/{number}" for number in range(MANY)])
        retain(client, [f"others/{number}" for number in range(OTHERS)])
        until(lambda: broker.metric("courser_retained_messages") == MANY + OTHERS, "all are kept")
        assert courser(broker, "delete", "--match", "many/#", "--dry-run") == f"would take away {MANY} retained messages that match many/#\n"
        courser(broker, "delete", "--match", "many/#", code=2)
        courser(broker, "delete", "--match", "$SYS/#", "--yes", code=2)
        assert broker.metric("courser_retained_messages") == MANY + OTHERS
        done = json.loads(courser(broker, "delete", "--match", "many/#", "--yes", "-o", "jsonl"))
        assert done["count"] == MANY
        assert broker.metric("courser_retained_messages") == OTHERS
        assert courser(broker, "list", "many/#", "-o", "jsonl") == ""
        done = json.loads(courser(broker, "delete", "--match", "#", "--yes", "-o", "jsonl"))
        assert done["count"] == OTHERS
        assert broker.metric("courser_retained_messages") == 0
        assert courser(broker, "list", "$SYS/#", "-o", "jsonl"), "the broker's own stay"
        client.ping()
        client.disconnect()
