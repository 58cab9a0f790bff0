"""Changes of users, roles, rules and limits are kept when the server is killed right behind the answer; what was removed stays removed."""

import copy
import json
import os
import signal
import subprocess

import pytest
import wire
from broker import Courser
from doors import WithAccounts
from raw import RawClient
from wire import V5

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="accounts are kept in the data folder"),
]

FIRST, SECOND = "the first password", "the second password"
BAD_USER = 0x86
RULES = [
    {"effect": "allow", "action": "publish", "topic": "cars/%c/#"},
    {"effect": "deny", "action": "subscribe", "topic": "secret/#"},
]


def role(table, name):
    return table["roles"].setdefault(name, {"rules": [], "administration": "none", "limits": {}})


def user(table, name):
    return table["users"].setdefault(name, {"state": "enabled", "roles": [], "limits": {}})


# Each command, and what it does to what an export says. The hash of a password is looked at by logins.
CHANGES = (
    ("role add device", lambda table: role(table, "device")),
    ("role add passing", lambda table: role(table, "passing")),
    ("acl grant device publish cars/%c/#", lambda table: role(table, "device")["rules"].append(RULES[0])),
    ("acl grant device subscribe secret/# --deny --yes", lambda table: role(table, "device")["rules"].append(RULES[1])),
    ("user add anna --role device --role passing --password-file first", lambda table: user(table, "anna")["roles"].extend(["device", "passing"])),
    ("user add ben --no-password --quota queued_messages=7", lambda table: user(table, "ben")["limits"].update(queued_messages=7)),
    ("user set ben --add-role device --quota queued_messages=none --yes", lambda table: user(table, "ben").update(limits={}, roles=["device"])),
    ("user disable ben --yes", lambda table: user(table, "ben").update(state="disabled")),
    ("user enable ben", lambda table: user(table, "ben").update(state="enabled")),
    ("role set device --quota messages_per_second=90 --administration read --yes", lambda table: role(table, "device").update(limits={"messages_per_second": 90}, administration="read")),
    ("domain set default --quota queued_messages=9 --yes", lambda table: table["domains"].update(default={"limits": {"queued_messages": 9}})),
    ("acl revoke device publish cars/%c/# --yes", lambda table: role(table, "device")["rules"].remove(RULES[0])),
    ("user set anna --remove-role passing --yes", lambda table: user(table, "anna")["roles"].remove("passing")),
    ("role remove passing --yes", lambda table: table["roles"].pop("passing")),
    ("user set-password anna --password-file second --yes", lambda table: None),
    ("user remove ben --yes", lambda table: table["users"].pop("ben")),
    ("domain set default --quota queued_messages=none", lambda table: table["domains"].clear()),
)  # fmt: skip


def run(broker, *arguments):
    command = [str(Courser.binary()), *arguments, "--server", str(broker.folder / "data")]
    done = subprocess.run(command, cwd=broker.folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def said(table):
    """An export without hashes; the order of roles of a user says nothing."""
    table = copy.deepcopy(table)
    for found in table["users"].values():
        found.pop("password", None)
        found["roles"] = sorted(found.get("roles", ()))
    table.setdefault("domains", {})
    return table


def logs_in(broker, name, password):
    client = RawClient(broker.address, V5)
    client.send(wire.connect(V5, "who", username=name, password=password.encode()))
    reason = client.expect(wire.CONNACK).reason
    client.close()
    assert reason in (0, BAD_USER), hex(reason)
    return reason == 0


def killed(broker):
    """Started again after a kill: whoever may log in is asked anew."""
    assert broker.stop(signal.SIGKILL) == -signal.SIGKILL
    broker.start()


@pytest.mark.timeout(180)
def test_a_change_outlives_a_kill_right_behind_its_answer(tmp_path):
    """All of them in a row, a kill behind each: there is always what was answered, and nothing else."""
    broker = WithAccounts(tmp_path / "broker", {}).start()
    try:
        for file, password in (("first", FIRST), ("second", SECOND)):
            (broker.folder / file).write_text(password + "\n")
        expected = said(json.loads(run(broker, "access", "export")))
        for command, change in CHANGES:
            run(broker, *command.split())
            killed(broker)
            change(expected)
            assert said(json.loads(run(broker, "access", "export"))) == said(expected), command
            if "anna" in command:
                now = SECOND if "second" in command else FIRST
                other = FIRST if now == SECOND else SECOND
                assert logs_in(broker, "anna", now) and not logs_in(broker, "anna", other), command
        assert not logs_in(broker, "ben", FIRST)
        assert logs_in(broker, "root", broker.password), "nobody has changed that one"
        assert broker.stop() == 0, broker.tail()
    finally:
        broker.stop()


def test_changes_in_a_row_outlive_one_kill(tmp_path):
    """One kill behind the last answer of many."""
    broker = WithAccounts(tmp_path / "broker", {}).start()
    try:
        for number in range(12):
            run(broker, "user", "add", f"user{number}", "--no-password")
        for number in range(0, 12, 2):
            run(broker, "user", "remove", f"user{number}", "--yes")
        killed(broker)
        users = json.loads(run(broker, "access", "export"))["users"]
        assert set(users) == {"root", *(f"user{number}" for number in range(1, 12, 2))}
        assert broker.stop() == 0, broker.tail()
    finally:
        broker.stop()
