"""Users and their passwords stay within `memory.max`: what would not is refused when it comes, and where it is there already nobody pays for it."""

import json
import re
import subprocess
import urllib.request
from pathlib import Path

import pytest
import wire
from broker import Courser
from doors import WithAccounts, running
from raw import RawClient
from wire import V5

pytestmark = [pytest.mark.courser, pytest.mark.timeout(180)]

MIB = 1 << 20
DEAR = "$argon2id$v=19$m=262144,t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA"
BAD_USER_NAME_OR_PASSWORD = 0x86
DEAR_HASH = 1411
NO_ROOM = 1410
BODY_TOO_LARGE = 1009


class Little(WithAccounts):
    memory = "64MiB"

    def command(self):
        return [*super().command(), "--shards", "2", "--set", f"memory.max={self.memory}"]


class Much(Little):
    memory = "4GiB"


def run(broker, *arguments):
    command = [str(Courser.binary()), *arguments, "--server", str(broker.folder / "data"), "--timeout", "60"]
    return subprocess.run(command, cwd=broker.folder, capture_output=True, text=True, timeout=120, check=False)


def log_in(broker, name, password):
    client = RawClient(broker.address, V5)
    client.patience = 30
    client.send(wire.connect(V5, f"of-{name}", username=name, password=password))
    reason = client.expect(wire.CONNACK).reason
    client.close()
    return reason


def peak(broker):
    """The most that was resident."""
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) << 10


def ready(broker):
    with urllib.request.urlopen(f"{broker.http}/readyz", timeout=20) as answer:  # noqa: S310
        return answer.read()


def import_dear(broker):
    (broker.folder / "passwords").write_text(f"dear:{DEAR}\n")
    return run(broker, "user", "import", "passwords")


def test_a_hash_that_takes_more_than_a_login_may_is_refused_where_it_comes_in(tmp_path):
    with running(Little, tmp_path / "broker") as broker:
        done = import_dear(broker)
        assert done.returncode != 0 and f"error {DEAR_HASH}" in done.stderr, done
        for part in ("user dear", "256 MiB", "19 MiB at most", "set-password"):
            assert part in done.stderr, done.stderr
        # Ours fit with the least memory.
        assert log_in(broker, "root", broker.password.encode()) == 0
        assert log_in(broker, "dear", b"wrong") == BAD_USER_NAME_OR_PASSWORD
        assert peak(broker) < 80 * MIB


def test_a_hash_that_is_there_already_lets_nobody_take_the_memory_of_the_process(tmp_path):
    """A start with less memory than the one that has taken it."""
    with running(Much, tmp_path / "broker") as broker:
        assert import_dear(broker).returncode == 0
        password = broker.password
    with running(Little, tmp_path / "broker") as broker:
        for _ in range(3):
            assert log_in(broker, "dear", b"wrong") == BAD_USER_NAME_OR_PASSWORD
        assert peak(broker) < 80 * MIB
        assert broker.metric("courser_auth_dear_hash_total") == 3
        assert "takes more memory than a login may" in broker.output()
        assert log_in(broker, "root", password.encode()) == 0
        # It can be changed.
        (broker.folder / "new").write_text("a new password\n")
        done = run(broker, "user", "set-password", "dear", "--password-file", "new", "--yes")
        assert done.returncode == 0, done
        assert log_in(broker, "dear", b"a new password") == 0


def test_more_users_than_there_is_memory_for_are_refused_and_the_others_served(tmp_path):
    with running(Little, tmp_path / "broker") as broker:
        table = json.loads(run(broker, "access", "export").stdout)
        root = table["users"]["root"]
        for count, taken in ((100_000, False), (1_000, True)):
            many = {**table, "users": {"root": root, **{f"user-{number:06}": root for number in range(count)}}}
            (broker.folder / "many.json").write_text(json.dumps(many))
            done = run(broker, "access", "import", "many.json", "--yes")
            assert (done.returncode == 0) == taken, (count, done)
            if not taken:
                assert f"error {NO_ROOM}" in done.stderr, done.stderr
                assert re.search(r"would take \d+ KiB of memory, and may take \d+ KiB", done.stderr), done.stderr
        assert log_in(broker, "user-000999", broker.password.encode()) == 0
        assert ready(broker) == b"ready\n"


def test_a_body_that_is_too_large_says_how_large_it_may_be(tmp_path):
    with running(Much, tmp_path / "broker") as broker:
        done = run(broker, "user", "set-password", "root", "--password-file", "/dev/zero", "--yes")
        assert done.returncode != 0 and "256 KiB" in done.stderr, done
        assert f"error {BODY_TOO_LARGE}" in done.stderr, done.stderr


def test_an_import_of_users_that_are_there_makes_nobody_or_the_others(tmp_path):
    with running(Little, tmp_path / "broker") as broker:
        ours = DEAR.replace("m=262144", "m=1024")

        def lines(*names):
            (broker.folder / "passwords").write_text("".join(f"{name}:{ours}\n" for name in names))

        def there():
            return set(json.loads(run(broker, "access", "export").stdout)["users"])

        lines("anna", "root", "ben")
        done = run(broker, "user", "import", "passwords")
        assert done.returncode == 6 and "root: there already; nobody was made" in done.stderr, done
        assert there() == {"root"}
        done = run(broker, "user", "import", "passwords", "--skip-existing")
        assert done.returncode == 0, done
        assert there() == {"root", "anna", "ben"}
        assert run(broker, "user", "import", "passwords", "--skip-existing").returncode == 0
