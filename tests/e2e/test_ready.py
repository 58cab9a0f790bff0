"""`/readyz` from the first moment of a start to the last one of a stop: 503 and why, 200, 503 and why, nothing. And that a start says how long it took.
"""

import http.client
import re
import signal
import socket
import subprocess
import time

import pytest
import wire
from broker import Courser
from doors import running
from wire import V5

pytestmark = pytest.mark.courser

RECOVERING = "recovering: "
DRAINING = "draining: the server is being stopped\n"
READY = (200, "ready\n")
PATIENCE = 60


class Watch:
    """Asks over one connection, as fast as there are answers."""

    def __init__(self, address):
        host, port = address.removeprefix("http://").rsplit(":", 1)
        self.connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)

    def ready(self):
        self.connection.request("GET", "/readyz")
        answer = self.connection.getresponse()
        return answer.status, answer.read().decode()


def began(broker):
    """Starts it, and does not wait until it serves: where it answers operators."""
    broker.said = broker.log.stat().st_size if broker.log.exists() else 0
    broker.spawn()
    deadline = time.monotonic() + PATIENCE
    while "API, metrics and health on" not in broker.output():
        assert broker.process.poll() is None and time.monotonic() < deadline, broker.tail()
        time.sleep(0.001)
    return Watch(broker.http)


def during_a_start(broker):
    """All different answers in their order, up to the first 200."""
    watch, answers = began(broker), []
    deadline = time.monotonic() + PATIENCE
    while READY not in answers:
        answer = watch.ready()
        if answer not in answers[-1:]:
            answers.append(answer)
        assert time.monotonic() < deadline, answers
    return answers


def fill(broker, count):
    """Messages that a start has to read: for a client that is away."""
    client = socket.create_connection(broker.address, timeout=PATIENCE)
    client.sendall(wire.connect(V5, "absent", clean=False, properties={"session_expiry": 3600}))
    assert client.recv(1000)[0] == 0x20
    client.sendall(wire.subscribe(V5, 1, [("kept/#", 1)]))
    assert client.recv(1000)[0] == 0x90
    client.close()
    bench = ["bench", "mqtt", "-p", str(broker.port), "--subscribers", "0", "--closed", "-n", str(count), "-s", "300", "--prefix", "kept", "--quiet"]
    subprocess.run([str(broker.binary()), *bench], check=True, capture_output=True, timeout=300)


@pytest.mark.timeout(300)
def test_while_it_starts(tmp_path):
    """Not ready while it reads the log, and why; then ready for good. A start that was too fast to be seen gets more to read."""
    broker = Courser(tmp_path / "broker", {}).start()
    count = 20_000
    try:
        while True:
            fill(broker, count)
            # As after a crash, so that the log is read and not a checkpoint of the end.
            assert broker.stop(signal.SIGKILL) == -signal.SIGKILL
            answers = during_a_start(broker)
            assert answers[-1] == READY
            assert all(code == 503 and why.startswith(RECOVERING) for code, why in answers[:-1]), answers
            if len(answers) > 1:
                break
            count *= 2
            assert count < 1_000_000, "no start was seen"
        watch = Watch(broker.http)
        assert {watch.ready() for _ in range(100)} == {READY}
    finally:
        broker.stop()


@pytest.mark.timeout(120)
def test_while_it_is_stopped(tmp_path):
    """A client that does not read holds up the end, at most for the five seconds that it may: who asks is told 503, then nobody answers."""
    broker = Courser(tmp_path / "broker", {}).start()
    watch = Watch(broker.http)
    assert watch.ready() == READY
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stalled.connect(broker.address)
    stalled.sendall(wire.connect(V5, "stalled") + wire.subscribe(V5, 1, [("flood", 0)]))
    publisher = socket.create_connection(broker.address, timeout=PATIENCE)
    publisher.sendall(wire.connect(V5, "publisher"))
    payload = b"x" * 60_000
    for number in range(1, 200):
        publisher.sendall(wire.publish(V5, "flood", payload, qos=1, packet_id=number))
    broker.process.send_signal(signal.SIGTERM)
    answers = set()
    try:
        while True:
            answers.add(watch.ready())
    except (OSError, http.client.HTTPException):
        # It has ended.
        pass
    assert broker.process.wait(PATIENCE) == 0
    assert answers <= {READY, (503, DRAINING)} and (503, DRAINING) in answers, answers
    with pytest.raises(OSError):
        Watch(broker.http).ready()
    stalled.close()


def test_a_start_says_how_long_it_took(tmp_path):
    """How long it may be with much in the folder is for `bench/disk.py --only recovery`; with nothing, for `bench/ready.py`."""
    with running(Courser, tmp_path / "broker") as broker:
        assert re.search(r"^recovered: .*; all in \d+ ms$", broker.output(), re.MULTILINE), broker.output()
