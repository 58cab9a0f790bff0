"""The configuration file belongs to people: no command and no change while the server runs writes to it. What changes then is data."""

import os
import subprocess

import pytest
from doors import WithAccounts

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="users and roles are kept in the data folder"),
]


def seen(file):
    """All that a writer could not leave as it is."""
    found = file.stat()
    return file.read_bytes(), found.st_mtime_ns, found.st_ino, found.st_mode, found.st_size


def test_nothing_writes_to_the_configuration_file(tmp_path):
    """Users, roles, rules, limits and an import are changed, settings read again, `init` run again: bytes, time and file are the same."""
    broker = WithAccounts(tmp_path / "broker", {})

    def courser(*words, code=0):
        command = [str(broker.binary()), *words, "--server", "data"] if words[0] != "init" else [str(broker.binary()), *words]
        done = subprocess.run(command, cwd=broker.folder, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    broker.start()
    file = broker.folder / "courser.toml"
    before = seen(file)
    names = sorted(path.name for path in broker.folder.iterdir())
    try:
        courser("role", "add", "device")
        courser("acl", "grant", "device", "publish", "d/%c")
        (broker.folder / "secret").write_text("a password\n")
        courser("user", "add", "fleet", "--role", "device", "--password-file", "secret")
        courser("user", "set-password", "fleet", "--yes", "--password-file", "secret", "--scram")
        courser("user", "disable", "fleet", "--yes")
        courser("domain", "set", "default", "--quota", "queued_messages=10", "--yes")
        courser("access", "export", "export.json")
        courser("user", "remove", "fleet", "--yes")
        courser("access", "import", "export.json", "--yes")
        assert "0 applied" in courser("config", "reload")
        assert "is there already and is left as it is" in courser("init", code=6)
        assert "is there already and is left as it is" in courser("init", "--full", code=6)
        assert "is there already and is left as it is" in courser("init", "--no-accounts", code=6)
        assert seen(file) == before
        # A mistake in it is told and stays as well.
        file.write_text(file.read_text() + "\n[nothing]\nx = 1\n")
        wrong = seen(file)
        assert "courser.toml:" in courser("config", "reload", code=1)
        assert seen(file) == wrong
        file.write_bytes(before[0])
        kept = seen(file)
        assert broker.stop() == 0
        broker.start()
        assert "fleet" in courser("user", "list")
        assert seen(file) == kept
        beside = {path.name for path in broker.folder.iterdir()} - set(names)
        assert beside == {"secret", "export.json"}, "no second file beside it either"
    finally:
        broker.stop()
