"""`--watch`: a listing again and again; what comes and goes in the broker comes and goes in it, and nothing has to be asked again."""

import json
import os
import pty
import signal
import subprocess

import pytest
import wire
from broker import Courser
from doors import running
from raw import RawClient
from wire import CONNACK, PUBACK, V5

pytestmark = [
    pytest.mark.courser,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="without a data folder there is no socket"),
]


@pytest.fixture
def broker(tmp_path):
    with running(Courser, tmp_path / "broker", sys_interval=0) as found:
        yield found


def command(broker, *words):
    return [str(Courser.binary()), *words, "--server", str(broker.folder / "data")]


class Watching:
    """A listing that goes on, and what it says."""

    def __init__(self, broker, *words):
        self.process = subprocess.Popen(
            command(broker, *words, "--watch", "1", "-o", "jsonl"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self.text = ""

    def listing(self):
        """The next one."""
        while True:
            try:
                found, end = json.JSONDecoder().raw_decode(self.text.lstrip())
            except json.JSONDecodeError:
                line = self.process.stdout.readline()
                assert line, f"it has ended: {self.process.wait(20)}"
                self.text += line
                continue
            self.text = self.text.lstrip()[end:]
            return found["items"]

    def until(self, has):
        """Reads on, through listings that say the same, until one does."""
        while not has(self.listing()):
            pass

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.stdout.close()
        return self.process.wait(20)


def connect(broker, client_id, **options):
    client = RawClient(broker.address, V5)
    client.send(wire.connect(V5, client_id, **options))
    client.expect(CONNACK, reason=0)
    return client


def car(broker):
    """A client with a kept session and a subscription: how it begins, and how it ends."""
    client = connect(broker, "car-7", clean=False, properties={"session_expiry": 600})
    client.subscribe("orders/#", qos=1)

    def ends():
        client.close()
        done = subprocess.run(command(broker, "session", "delete", "car-7", "--yes"), capture_output=True, text=True, timeout=60, check=False)
        # A connection that was closed a moment ago is still going.
        return done.returncode == 0 or ends()

    return ends


def retained(broker):
    client = connect(broker, "writer")
    client.publish("kept/a", b"x", qos=1, retain=True)

    def ends():
        client.send(wire.publish(V5, "kept/a", b"", qos=1, packet_id=9, retain=True))
        client.expect(PUBACK, packet_id=9)
        client.close()

    return ends


# By noun: what makes a row, and the field by which the row is known.
LISTS = {
    "client": (car, "client_id", "car-7"),
    "session": (car, "client_id", "car-7"),
    "subscription": (car, "filter", "orders/#"),
    "retained": (retained, "topic", "kept/a"),
}


@pytest.mark.parametrize("noun", LISTS)
def test_what_comes_and_goes_is_seen(broker, noun):
    begin, field, value = LISTS[noun]
    watching = Watching(broker, noun, "list")

    def is_listed(rows):
        return any(row[field] == value for row in rows)

    assert not is_listed(watching.listing()), "it is not there yet"
    end = begin(broker)
    watching.until(is_listed)
    assert is_listed(watching.listing()), "it stays"
    end()
    watching.until(lambda rows: not is_listed(rows))
    assert watching.end() == 130


def test_filters_hold_every_time(broker):
    """What a filter leaves out never comes, however long it is watched."""
    watching = Watching(broker, "client", "list", "--filter", "client_id=car-*")
    assert watching.listing() == []
    others = [connect(broker, f"bus-{number}") for number in range(3)]
    wanted = connect(broker, "car-1")
    watching.until(lambda rows: rows)
    for _ in range(3):
        assert [row["client_id"] for row in watching.listing()] == ["car-1"]
    for client in (*others, wanted):
        client.close()
    watching.until(lambda rows: not rows)
    assert watching.end() == 130


def test_at_a_terminal_each_listing_replaces_the_last(broker):
    """The screen is cleared before each table, and the table behind a change has it."""
    master, slave = pty.openpty()
    process = subprocess.Popen(command(broker, "client", "list", "--watch", "1"), stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""

    def screens():
        """Those that are whole: another one has begun behind them."""
        nonlocal shown
        shown += os.read(master, 65536)
        return [screen.decode() for screen in shown.split(b"\x1b[H\x1b[2J")[1:-1]]

    while len(screens()) < 2:
        pass
    assert not any("car-1" in screen for screen in screens())
    client = connect(broker, "car-1")
    while "car-1" not in (screens() or [""])[-1]:
        pass
    last = screens()[-1]
    assert last.count("CLIENT_ID") == last.count("car-1") == 1
    client.close()
    while "car-1" in screens()[-1]:
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    os.close(master)
