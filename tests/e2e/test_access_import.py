"""An import of users and roles may have 32 MiB (docs/limits.md): what has less is taken whole, what has more changes nothing. Whatever comes between, there
is one table or the other."""

import json
import os
import signal
import subprocess
import time

import pytest
import wire
from broker import Courser
from doors import WithAccounts, running
from raw import RawClient
from wire import V5

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="accounts are kept in the data folder"),
]

MOST_BYTES = 32 << 20
USERS = 100_000
TOO_LARGE = 1009


def run(broker, *arguments):
    command = [str(Courser.binary()), *arguments, "--server", str(broker.folder / "data"), "--timeout", "120"]
    return subprocess.run(command, cwd=broker.folder, capture_output=True, text=True, timeout=180, check=False)


def export(broker):
    done = run(broker, "access", "export")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def logs_in(broker, name):
    """Everybody has the password of the first account."""
    client = RawClient(broker.address, V5)
    client.patience = 60
    client.send(wire.connect(V5, "who", username=name, password=broker.password.encode()))
    found = client.expect(wire.CONNACK)
    client.close()
    return found.reason == 0


def with_users(table, count):
    """The same and so many more users, whose names are of one length."""
    return {**table, "users": {**table["users"], **{f"user{number:06}": table["users"]["root"] for number in range(count)}}}


def length(table):
    """As the command sends it."""
    return len(json.dumps(table, separators=(",", ":")))


@pytest.mark.timeout(240)
def test_as_many_users_as_fit_and_one_more(tmp_path):
    with running(WithAccounts, tmp_path / "broker") as broker:
        before = export(broker)
        none, one = length(before), length(with_users(before, 1))
        most = (MOST_BYTES - none) // (one - none)
        assert most > USERS, "some 100,000"
        large = with_users(before, most)
        (broker.folder / "most").write_text(json.dumps(large))
        (broker.folder / "more").write_text(json.dumps(with_users(before, most + 1)))

        done = run(broker, "access", "import", "more", "--yes")
        assert done.returncode != 0 and f"error {TOO_LARGE}" in done.stderr and "32 MiB" in done.stderr, (done.returncode, done.stdout, done.stderr)
        assert export(broker) == before, "nothing of it was taken"

        done = run(broker, "access", "import", "most", "--yes")
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert export(broker) == large
        assert logs_in(broker, f"user{most - 1:06}")
    # It is kept, and so is one more change to it.
    with running(WithAccounts, tmp_path / "broker") as again:
        again.password = broker.password
        assert run(again, "user", "add", "another", "--no-password").returncode == 0
        assert export(again)["users"].keys() == large["users"].keys() | {"another"}
        assert logs_in(again, f"user{most // 2:06}")


@pytest.mark.timeout(240)
def test_a_kill_in_the_middle_leaves_one_table_or_the_other(tmp_path):
    """Kills spread over the time that an import takes, from its first byte until behind its answer."""
    kills = 8
    with running(WithAccounts, tmp_path / "broker") as broker:
        small = export(broker)
        large = with_users(small, 20_000)
        for name, table in (("small", small), ("large", large)):
            (broker.folder / name).write_text(json.dumps(table))
        began = time.monotonic()
        assert run(broker, "access", "import", "large", "--yes").returncode == 0
        takes = time.monotonic() - began
        there, taken = large, 0
        for kill in range(kills):
            name, wanted = ("small", small) if there == large else ("large", large)
            command = [str(Courser.binary()), "access", "import", name, "--yes", "--server", "data"]
            asked = subprocess.Popen(command, cwd=broker.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(takes * 1.2 * kill / (kills - 1))
            assert broker.stop(signal.SIGKILL) == -signal.SIGKILL
            answered = asked.wait(60) == 0
            broker.start()
            found = export(broker)
            assert found == wanted or (found == there and not answered), (kill, answered, len(found["users"]))
            taken += found == wanted
            there = found
        assert taken, "some came to their end"
        assert logs_in(broker, "root")
