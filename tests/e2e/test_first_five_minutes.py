"""The first five minutes, step by step: an empty folder, the binary, and nothing else.

`courser server`, `courser sub 'test/#' &`, `courser pub test/a hi`.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from broker import Courser
from doors import running

pytestmark = pytest.mark.courser

DEFAULT_PORT = 1883


def port_is_free(port):
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True


def first_line(stream):
    return stream.readline().strip()


def test_the_two_commands(tmp_path, network):
    """Exactly the commands of the README, with no flag at all: the message arrives, the data folder is where it should be."""
    if not network and not port_is_free(DEFAULT_PORT):
        pytest.skip("port 1883 is taken by something else on this machine")
    courser = [*network, str(Courser.binary())]
    environment = {**os.environ, "HOME": str(tmp_path)}
    options = {"cwd": tmp_path, "env": environment, "text": True}
    log = tmp_path / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen([*courser, "server"], stdout=output, stderr=output, **options)
    subscriber = None
    try:
        started = time.monotonic()
        while "ready\n" not in log.read_text():
            assert server.poll() is None and time.monotonic() - started < 10, log.read_text()
            time.sleep(0.01)
        for host in ("127.0.0.1", "::1"):
            reach = f"import socket; socket.create_connection(({host!r}, {DEFAULT_PORT}), timeout=10)"
            subprocess.run([*network, sys.executable, "-c", reach], check=True, timeout=20)
        printed = tmp_path / "printed"
        with printed.open("w") as output:
            subscriber = subprocess.Popen([*courser, "sub", "test/#"], stdout=output, **options)
        # The subscriber says nothing until a message comes: publish a probe until it does, then the real one.
        deadline = time.monotonic() + 15
        while "probe" not in printed.read_text():
            assert time.monotonic() < deadline, "the subscriber got nothing"
            subprocess.run([*courser, "pub", "test/probe", "probe"], check=True, timeout=10, **options)
        done = subprocess.run([*courser, "pub", "test/a", "hi"], capture_output=True, timeout=10, check=False, **options)
        assert done.returncode == 0, done.stderr
        while "hi" not in printed.read_text():
            assert time.monotonic() < deadline, printed.read_text()
            time.sleep(0.02)
        text = log.read_text()
        assert "127.0.0.1:1883" in text and "[::1]:1883" in text
        assert "data: data\n" in text and (tmp_path / "data").is_dir()
        assert re.search(r"^courser \d+\.\d+\.\d+, ", text, re.MULTILINE) and "\nloopback only: anyone on this machine may connect\n" in text
        load = subprocess.run([*courser, "bench"], capture_output=True, timeout=60, check=False, **options)
        assert load.returncode == 0, load.stdout + load.stderr
        figures = [line.split() for line in load.stdout.splitlines()]
        assert figures.count(["lost", "0"]) == 2, "first as fast as it goes, then at a rate: " + load.stdout
        assert {"received_per_second", "delivery_p99_us"} <= {figure[0] for figure in figures if figure}
    finally:
        if subscriber is not None:
            subscriber.terminate()
            subscriber.wait(10)
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0


def test_a_first_start_has_nothing_to_wait_for(tmp_path):
    """In a new folder there is nothing to read or to apply, and it is ready right after it has said so (within a second: `bench/ready.py`).
    And what it says of itself: its version, and whom it lets in."""
    with running(Courser, tmp_path) as broker:
        said = broker.output()
    assert re.search(r"^courser \d+\.\d+\.\d+, \d+ shards$", said, re.MULTILINE), said
    assert "\nloopback only: anyone on this machine may connect\n" in said
    found = re.search(r"^recovered: .*; all in \d+ ms$", said, re.MULTILINE)[0]
    for nothing in ("0 segments", "0 batches", "0 entries to apply"):
        assert f" {nothing}" in found, found


def test_in_memory(tmp_path):
    """`--in-memory` says that nothing survives, and writes no file."""
    command = [str(Courser.binary()), "server", "--in-memory", "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        said = []
        while "ready" not in said:
            said.append(first_line(server.stdout))
            assert said[-1], said
        assert "data: in memory, nothing survives a stop" in said
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
        assert list(tmp_path.iterdir()) == []
    finally:
        server.kill()
        server.wait(10)


def test_public_address_is_refused(tmp_path):
    """An address that is not loopback is refused without `--insecure-anonymous`, and the message names the flag."""
    command = [str(Courser.binary()), "server", "--mqtt", "0.0.0.0:0", "--data", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode != 0
    assert "--insecure-anonymous" in done.stderr + done.stdout


def test_no_server(tmp_path):
    """Without a server the commands say what to do, and end with 3."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(Courser.binary()), "pub", "-p", str(port), "test/a", "hi"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 3, done.stderr
    assert "is the server running" in done.stderr


def test_with_mosquittos_tools(brokers, tmp_path):
    """`courser pub` reaches `mosquitto_sub`, `mosquitto_pub` reaches `courser sub`: the same letters."""
    server = brokers.common()
    binary = str(Courser.binary())
    options = {"cwd": tmp_path, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    flags = ["-h", "127.0.0.1", "-p", str(server.port), "-q", "1", "-t", "both/ways"]
    for receive, publish in (("mosquitto_sub", [binary, "pub"]), (None, ["mosquitto_pub"])):
        receiver = subprocess.Popen(
            [*([receive] if receive else [binary, "sub"]), *flags, "-C", "1", "-W", "20"], **options
        )
        deadline = time.monotonic() + 15
        while receiver.poll() is None:
            assert time.monotonic() < deadline, "no message"
            subprocess.run([*publish, *flags, "-m", "hello"], check=True, timeout=10, cwd=tmp_path)
        assert receiver.stdout.read().strip() == "hello"
        assert receiver.returncode == 0
