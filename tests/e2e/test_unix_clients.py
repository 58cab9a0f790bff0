"""`courser pub`, `sub`, `request`, `probe` and `bench` come in at a Unix socket: named by --unix, by a URL, by a context or by the variable."""

import json
import os
import subprocess

import pytest
from broker import Courser
from doors import listener, running

pytestmark = pytest.mark.courser

PATIENCE = 120


@pytest.fixture
def at(tmp_path):
    """Runs a command in the folder of a broker that has the sockets `mqtt.sock` and `web.sock`."""
    folder = tmp_path / "broker"
    doors = [listener(name, protocol, f'unix = "{folder}/{name}.sock"') for name, protocol in (("mqtt", "mqtt"), ("web", "ws"))]
    # The name of the door over TCP is taken.
    doors[0] = doors[0].replace('name = "mqtt"', 'name = "local"')
    with running(Courser, folder, listeners=", ".join(doors)):

        def run(*arguments, code=0, **variables):
            command = [str(Courser.binary()), *arguments]
            environment = {**os.environ, **variables}
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
            assert done.returncode == code, (arguments, done.stdout, done.stderr)
            return done.stderr if code else done.stdout

        run.folder = folder
        yield run


def test_a_message_by_a_unix_socket(at):
    """Each way to name it leads there."""
    at("pub", "--unix", "mqtt.sock", "-q", "1", "-r", "t", "kept")
    url = f"unix://{at.folder}/mqtt.sock"
    once = ["t", "-C", "1", "-W", "60"]
    at("context", "add", "local", "--mqtt", url)
    at("context", "add", "elsewhere", "--mqtt", "mqtt://127.0.0.1:1", "--replace")
    for place in (["--unix", "mqtt.sock"], ["--unix", "web.sock", "--ws"], ["-L", url], ["--context", "local"]):
        assert at("sub", *place, *once) == "kept\n", place
    assert at("sub", *once, COURSER_URL=url) == "kept\n"
    assert "5.0" in at("probe", "--unix", "mqtt.sock")


def test_load_by_a_unix_socket(at):
    """Messages and many connections at once, which may be more than a socket's queue has room for."""
    run = ["--unix", "mqtt.sock", "-o", "json", "--quiet"]
    found = json.loads(at("bench", "mqtt", *run, "-n", "2000"))
    assert found["received"] == 2000
    found = json.loads(at("bench", "connect", *run, "-n", "500", "--concurrency", "500", "--hold", "0"))
    assert found["connected"] == 500


def test_a_socket_that_is_none(at):
    """Code 3, with the path and what to look at; wrong places are wrong usage."""
    assert "cannot connect to unix:none.sock: No such file" in at("pub", "--unix", "none.sock", "t", "x", code=3)
    assert "is the server running, with a [[listener]] of this socket?" in at("sub", "--unix", "none.sock", "t", code=3)
    assert "cannot connect to unix:none.sock" in at("bench", "connect", "--unix", "none.sock", "-n", "1", code=3)
    assert "write unix:///path" in at("pub", "-L", "unix://mqtt.sock", "t", "x", code=2)
    assert "cannot be used with" in at("pub", "--unix", "mqtt.sock", "-p", "1883", "t", "x", code=2)
