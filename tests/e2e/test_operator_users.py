"""Operators who log in to the API by name and password: what `administration` of their roles lets them do, and what failing costs.

HTTP is Python's own.
"""

import base64
import json
import os
import subprocess
import urllib.error
import urllib.request

import pytest
from broker import until
from terminal import at_terminal

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="users are kept in the data folder"),
]

PASSWORD = "canary-of-an-operator"
USERS = {"root": "full", "anna": "read", "dev": "none"}


@pytest.fixture
def server(brokers):
    server = brokers.own(sys_interval=0)
    (server.folder / "secret").write_text(PASSWORD + "\n")
    for name, administration in USERS.items():
        courser(server, "role", "add", administration, "--administration", administration)
        courser(server, "user", "add", name, "--role", administration, "--password-file", "secret")
    return server


def courser(server, *arguments):
    command = [str(server.binary()), *arguments, "--server", "data"]
    subprocess.run(command, cwd=server.folder, check=True, capture_output=True, timeout=60)


def ask(server, name, path, method="GET", password=PASSWORD, headers=None, body=None):
    """Status, number of the error and headers of an answer."""
    both = base64.b64encode(f"{name}:{password}".encode()).decode()
    headers = {"Authorization": f"Basic {both}", "Content-Type": "application/json", **(headers or {})}
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(server.http + path, method=method, headers=headers, data=data)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return answer.status, None, answer.headers
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["error"]["code"], error.headers


def statuses(server, path, method="GET", body=None):
    """What each of the users hears."""
    return [ask(server, name, path, method, body=body)[0] for name in USERS]


def test_administration_decides(server):
    """Who has none hears 403 everywhere, who may look changes nothing and takes no hashes, who has all of it does all."""
    for path in ("/api/v1/node", "/api/v1/clients", "/api/v1/users", "/api/v1/users/dev", "/metrics/detailed?family=clients"):
        assert statuses(server, path) == [200, 200, 403], path
    assert statuses(server, "/api/v1/access") == [200, 403, 403], "hashes can be guessed"
    assert statuses(server, "/api/v1/clients/nobody", "DELETE") == [404, 403, 403]
    assert statuses(server, "/api/v1/config/reload", "POST") == [200, 403, 403]
    assert statuses(server, "/api/v1/users/dev", "PATCH", {"state": "enabled"}) == [200, 403, 403]
    assert statuses(server, "/api/v1/roles/none", "PATCH", {"administration": "full"}) == [200, 403, 200], "a role counts as soon as it is changed"
    assert ask(server, "anna", "/api/v1/clients/nobody", "DELETE")[1] == 1002
    document = json.loads(urllib.request.urlopen(server.http + "/api/v1/openapi.json", timeout=20).read())  # noqa: S310
    assert document["components"]["securitySchemes"]["user"]["scheme"] == "basic"


def test_what_is_taken_away_counts_at_the_next_request(server):
    """A role, the user, and its password, although the password was right a moment ago."""
    assert ask(server, "anna", "/api/v1/node")[0] == 200
    courser(server, "role", "set", "read", "--administration", "none", "--yes")
    assert ask(server, "anna", "/api/v1/node")[:2] == (403, 1002)
    assert ask(server, "dev", "/api/v1/node")[0] == 403
    courser(server, "user", "disable", "dev", "--yes")
    assert ask(server, "dev", "/api/v1/node")[:2] == (401, 1001)
    (server.folder / "secret").write_text("another one\n")
    courser(server, "user", "set-password", "root", "--password-file", "secret", "--yes")
    assert ask(server, "root", "/api/v1/node")[0] == 401
    assert ask(server, "root", "/api/v1/node", password="another one")[0] == 200


def test_an_address_that_guesses_waits(server):
    """After five failures nobody is compared from there, whoever is named, also who was right a moment ago, which would tell; the token does not wait."""
    assert ask(server, "anna", "/api/v1/node")[0] == 200
    heard = [ask(server, name, "/api/v1/node", password="a guess")[:2] for name in ("root", "nobody", "dev", "root", "nobody")]
    assert heard == [(401, 1001)] * 5, "an unknown user is told nothing else"
    assert ask(server, "root", "/api/v1/node")[:2] == (429, 1008)
    assert ask(server, "nobody", "/api/v1/node")[:2] == (429, 1008)
    assert ask(server, "anna", "/api/v1/node")[:2] == (429, 1008)
    token = (server.folder / "data" / "admin.token").read_text().strip()
    assert ask(server, "x", "/api/v1/node", headers={"Authorization": f"Bearer {token}"})[0] == 200
    until(lambda: ask(server, "anna", "/api/v1/node")[0] == 200, "the wait is over")


def test_no_page_uses_the_password_of_a_browser(server):
    """What a page sends is refused, and no browser is asked to keep a password."""
    status, code, headers = ask(server, "root", "/api/v1/config/reload", "POST", headers={"Origin": "https://evil.example"})
    assert (status, code) == (401, 1001)
    assert headers["WWW-Authenticate"].startswith("Bearer")
    assert ask(server, "root", "/api/v1/config/reload", "POST")[0] == 200


def command_of(server, *arguments, **variables):
    """A command that asks by HTTP, with no other settings of ours in its environment."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COURSER_")}
    return {
        "args": [str(server.binary()), *arguments, "--server", server.http],
        "cwd": server.folder,
        "env": {**plain, "XDG_CONFIG_HOME": str(server.folder), **variables},
    }


def test_commands_say_who_asks(server):
    """By flags, which go before variables; the password from a file or from standard input."""
    by_variables = {"COURSER_OPERATOR": "anna", "COURSER_OPERATOR_PASSWORD_FILE": "secret"}
    for words, given, code in (
        (["client", "list"], None, 0),
        (["user", "enable", "dev"], None, 4),
        (["user", "enable", "dev", "--operator", "root"], None, 0),
        (["user", "enable", "dev", "--operator", "root", "--operator-password-file", "-"], f"{PASSWORD}\n", 0),
        (["user", "enable", "dev", "--operator", "root", "--operator-password-file", "-"], "a guess\n", 4),
        (["user", "enable", "dev", "--token-file", "data/admin.token"], None, 0),
    ):
        done = subprocess.run(**command_of(server, *words, **by_variables), input=given, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, (words, done.stdout, done.stderr)


def test_a_password_is_asked_for_once_and_not_shown(server):
    """At a terminal; also by a command that asks the server several times."""
    command = command_of(server, "client", "kick", "--all", "--yes", "--operator", "root")
    code, screen = at_terminal(b"password of root: ", PASSWORD.encode() + b"\n", **command)
    assert code == 0, screen
    assert screen.count("password of root: ") == 1 and PASSWORD not in screen


def test_logins_are_counted(server):
    """Each request by what came of it, those of one whose password is remembered too; not those by the token."""

    def counted():
        return [server.metric(f'courser_operator_logins_total{{result="{result}"}}') for result in ("accepted", "wrong")]

    accepted, wrong = counted()
    for _ in range(3):
        assert ask(server, "root", "/api/v1/node")[0] == 200
    assert ask(server, "root", "/api/v1/node", password="x")[0] == 401
    assert counted() == [accepted + 3, wrong + 1]


def test_the_log_says_who_has_changed_something(server):
    """By name, and never with what it has proved itself by."""
    assert ask(server, "root", "/api/v1/users/dev", "PATCH", body={"state": "disabled"})[0] == 200
    assert ask(server, PASSWORD, "/api/v1/node", password="x")[0] == 401
    for event in (
        "event=user_changed by=user:root user=dev",
        "event=operator_refused address=127.0.0.1",
        "event=operator_logged_in address=127.0.0.1 user=root",
    ):
        # The log is written beside the answers.
        until(lambda event=event: event in server.log.read_text(), event)
    assert PASSWORD not in server.log.read_text(), "also where it stands in the place of the name"
