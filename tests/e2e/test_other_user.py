"""No root is needed: a user without any rights starts the server in an empty folder, and owns what is there afterwards."""

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from broker import Courser

pytestmark = pytest.mark.courser

# As `nobody` of most systems. Where the tests have no root they are that user already.
USER = 65534
# Neither that one nor root; it needs no name.
THIRD = 65533
PATIENCE = 60


def as_somebody():
    """How a process becomes one without rights."""
    return {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.fixture
def home():
    """An empty folder of that user, on a way that it may go; and a program that it may run."""
    # pytest's own folders are for the user of the tests alone.
    with tempfile.TemporaryDirectory(prefix="courser-") as folder:
        os.chmod(folder, 0o755)
        program = Path(folder) / "courser"
        shutil.copyfile(Courser.binary(), program)
        os.chmod(program, 0o755)
        empty = Path(folder) / "empty"
        empty.mkdir()
        if os.geteuid() == 0:
            os.chown(empty, USER, USER)
        yield program, empty


@contextlib.contextmanager
def serving(home):
    """A server of that user, which must end well: how its commands are run, and its log."""
    program, empty = home
    options = {"cwd": empty, "env": {"PATH": os.environ["PATH"], "HOME": str(empty)}, **as_somebody()}
    log = empty.parent / "server.log"
    with log.open("w") as output:
        command = [str(program), "server", "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        server = subprocess.Popen(command, stdout=output, stderr=output, **options)
    try:
        deadline = time.monotonic() + PATIENCE
        while "\nready\n" not in log.read_text():
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield options, log
    finally:
        server.terminate()
        assert server.wait(PATIENCE) == 0, log.read_text()


def test_a_server_without_root(home):
    """Started, used by its own user and by root, stopped; every file is the user's and nobody else's."""
    program, empty = home
    with serving(home) as (options, log):
        port = next(line for line in log.read_text().splitlines() if line.startswith("MQTT")).rsplit(":", 1)[1]

        def courser(*words, **others):
            done = subprocess.run([str(program), *words], capture_output=True, text=True, timeout=PATIENCE, check=False, **{**options, **others})
            assert done.returncode == 0, (words, done.stdout, done.stderr)
            return done.stdout

        courser("pub", "-p", port, "-q", "1", "-r", "t", "kept")
        assert courser("sub", "-p", port, "-C", "1", "-W", str(PATIENCE), "t") == "kept\n"
        assert "t" in courser("retained", "list")
        courser("user", "add", "fleet", "--no-password")
        if os.geteuid() == 0:
            assert "fleet" in courser("user", "list", user=0, group=0), "root may ask as well"
    own = USER if os.geteuid() == 0 else os.geteuid()
    found = [empty / "data", *(empty / "data").rglob("*")]
    assert len(found) > 4
    for path in found:
        status = path.lstat()
        assert status.st_uid == own and (path.is_symlink() or stat.S_IMODE(status.st_mode) & 0o077 == 0), path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has other users at hand")
def test_a_third_user_is_refused_at_the_socket(home):
    """Files keep others away; where somebody has opened them, the server asks who calls, and tells it no more than that."""
    program, empty = home
    with serving(home) as (options, _):

        def courser(user, *words):
            command = [str(program), *words, "--server", "data/admin.sock"]
            return subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE, check=False, **{**options, "user": user, "group": user}
            )

        kept_away = courser(THIRD, "user", "list")
        assert kept_away.returncode != 0 and kept_away.stdout == "", kept_away
        (empty / "data").chmod(0o755)
        (empty / "data" / "admin.sock").chmod(0o666)
        for words in (["user", "list"], ["user", "add", "mine", "--no-password"], ["client", "list"], ["access", "export"]):
            refused = courser(THIRD, *words)
            assert refused.returncode == 4 and refused.stdout == "", refused
            assert "1002" in refused.stderr and "the socket is for the user of the broker and for root" in refused.stderr, refused
        for user in (USER, 0):
            allowed = courser(user, "user", "list")
            assert allowed.returncode == 0 and "mine" not in allowed.stdout, allowed
