"""A container with next to no memory, whose size decides where `memory.max` is not set: clients are served, or the start says why they would not be."""

import functools
import subprocess

import groups
import pytest
import wire
from broker import Courser
from doors import WithAccounts
from raw import RawClient
from wire import CONNACK, V5

pytestmark = [pytest.mark.courser, pytest.mark.timeout(120)]

MIB = 1 << 20
SHARDS = ["--shards", "2"]


@pytest.fixture
def group(request):
    try:
        with groups.memory_group(request.param) as made:
            yield made
    except groups.CannotMake as reason:
        pytest.skip(f"no control group can be made here: {reason}")


class Inside:
    """Commands of a broker join a control group."""

    group = None

    def command(self):
        return [*super().command(), *SHARDS]

    def spawn(self):
        with self.log.open("ab") as log:
            join = functools.partial(groups.join, self.group)
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, preexec_fn=join)


class Plain(Inside, Courser):
    pass


class Accounts(Inside, WithAccounts):
    pass


def served(broker, **login):
    client = RawClient(broker.address, V5)
    client.send(wire.connect(V5, "one", **login))
    assert client.expect(CONNACK).reason == 0
    client.subscribe("t", qos=1)
    client.publish("other", b"x" * 1000, qos=1, retain=True)
    client.ping()
    client.disconnect()


def serves(broker, group, memory, login):
    """In this control group, with that much memory."""
    broker.group = group
    broker.start()
    try:
        served(broker, **login())
        assert f"memory: at most {memory}" in broker.output()
        assert broker.stop() == 0, broker.tail()
    finally:
        broker.stop()


@pytest.mark.parametrize("group", [32 * MIB], indirect=True)
def test_32_mib_serve_clients(tmp_path, group):
    """60 % of them would serve nobody: it takes three quarters, and says so."""
    serves(Plain(tmp_path / "broker"), group, "24 MiB", dict)


@pytest.mark.parametrize("group", [64 * MIB], indirect=True)
def test_64_mib_serve_clients_that_log_in(tmp_path, group):
    """A comparison of a password needs room too."""
    broker = Accounts(tmp_path / "broker")
    # The password is made by the start.
    serves(broker, group, "48 MiB", lambda: {"username": "root", "password": broker.password.encode()})


@pytest.mark.parametrize("group", [28 * MIB], indirect=True)
def test_28_mib_are_too_little(tmp_path, group):
    """`server` and `config check` say so, with the size that is enough; a number in the settings is taken."""

    def run(*arguments):
        command = [str(Courser.binary()), *arguments]
        join = functools.partial(groups.join, group)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False, preexec_fn=join)
        return done.returncode, done.stdout + done.stderr

    for command in (["server", "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0"], ["config", "check"]):
        code, said = run(*command, *SHARDS)
        assert code == 2, said
        assert "memory.max: not set, and of the 28 MiB that the control group or the machine has it gets 21 MiB at most" in said
        assert "need 24 MiB or more, and every client would be refused: allow 32 MiB or more, or fewer shards" in said
    assert not (tmp_path / "data").exists(), "nothing was begun"
    code, said = run("config", "check", *SHARDS, "--set", "memory.max=24MiB")
    assert code == 0, said
    code, said = run("config", "check", *SHARDS, "--no-files")
    assert code == 0, said
