"""Verbs that take something away or write over it ask the person at the terminal; where there is none they want `--yes`."""

import os
import subprocess

import pytest
from broker import Courser
from doors import running
from terminal import at_terminal

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="without a data folder there is no socket"),
]


class Operator:
    """Calls `courser` beside a broker that has a user, a role with two rules, and two backups."""

    def __init__(self, broker):
        self.folder = broker.folder
        (self.folder / "secret").write_text("a password\n")
        for verb in (
            ["role", "add", "device"],
            ["acl", "grant", "device", "publish", "a"],
            ["user", "add", "fleet", "--role", "device", "--password-file", "secret"],
            ["backup", "create", "backups"],
            ["backup", "create", "backups"],
        ):
            assert self.ask(verb)[0] == 0, verb

    def command(self, verb):
        server = [] if verb[:2] in (["backup", "prune"], ["backup", "verify"]) else ["--server", str(self.folder / "data")]
        return [str(Courser.binary()), *verb, *server]

    def ask(self, verb):
        """Where nobody can be asked: the code, and what is said."""
        done = subprocess.run(self.command(verb), cwd=self.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def answer(self, verb, answer):
        """At a terminal, where a question is waited for: the code, and what stands there in the end."""
        return at_terminal(b"[y/N] ", answer, args=self.command(verb), cwd=self.folder)

    def state(self):
        """What the verbs would change."""
        verbs = (["acl", "list", "-o", "json"], ["access", "export"], ["backup", "verify", "backups", "--backup", "1"])
        return [self.ask(verb) for verb in verbs]


VERBS = {
    "revoke": (["acl", "revoke", "device", "publish", "a"], 'take "allow publish a" from role device? [y/N]'),
    "set-password": (["user", "set-password", "fleet", "--password-file", "secret"], "replace the password of fleet? [y/N]"),
    "prune": (["backup", "prune", "backups", "--keep", "1"], "remove backups in backups but the last 1? [y/N]"),
    "remove": (["user", "remove", "fleet"], "remove the user fleet? [y/N]"),
    "remove-role": (["user", "set", "fleet", "--remove-role", "device"], "take device from user fleet? [y/N]"),
    "administration": (["role", "set", "device", "--administration", "read"], "set administration of role device to read? [y/N]"),
    "domain-quota": (
        ["domain", "set", "default", "--quota", "queued_messages=1"],
        "set queued_messages to 1 for domain default and drop what waits beyond that? [y/N]",
    ),
    "user-quota": (
        ["user", "set", "fleet", "--quota", "queued_bytes=1"],
        "set queued_bytes to 1 for user fleet and drop what waits beyond that? [y/N]",
    ),
    "role-quota": (
        ["role", "set", "device", "--quota", "queued_seconds=1"],
        "set queued_seconds to 1 for role device and drop what waits beyond that? [y/N]",
    ),
    "deny": (["acl", "grant", "device", "all", "#", "--deny"], 'give "deny all #" to role device? [y/N]'),
}


@pytest.mark.parametrize("name", VERBS)
def test_what_takes_something_away_asks(tmp_path, name):
    """No, nothing, and nobody there leave all as it is, with code 2; yes does it, and so does `--yes` where nobody is there."""
    verb, question = VERBS[name]
    with running(Courser, tmp_path, backup_folders=f'"{tmp_path}"') as broker:
        operator = Operator(broker)
        before = operator.state()
        code, said = operator.ask(verb)
        assert code == 2 and "say --yes to" in said, said
        for answer in (b"n\n", b"\n", b"yesterday\n", b"\x04"):
            code, screen = operator.answer(verb, answer)
            assert code == 2 and question in screen and "nothing was done" in screen, (answer, screen)
        assert operator.state() == before, "nothing was done"
        code, screen = operator.answer(verb, b"y\n")
        assert code == 0 and question in screen, screen
        after = operator.state()
        assert after != before


def test_yes_is_not_asked_again(tmp_path):
    """`--yes` asks nothing, at a terminal and elsewhere."""
    with running(Courser, tmp_path, backup_folders=f'"{tmp_path}"') as broker:
        operator = Operator(broker)
        code, screen = operator.answer(["user", "set-password", "fleet", "--password-file", "secret", "--yes"], b"n\n")
        assert code == 0 and "[y/N]" not in screen, screen
        code, said = operator.ask(["acl", "revoke", "device", "publish", "a", "--yes"])
        assert code == 0, said
