"""Every verb that the program's own help names is run where secrets are, and writes none of them (test_canary.py has the server's side).

A verb that is new and has no row here fails: a row says how it is run, or `GIVES` why what it writes is a secret by its purpose.
"""

import base64
import itertools
import os
import re
import subprocess
from typing import NamedTuple

import pytest
import wire
from broker import Courser
from raw import RawClient
from test_canary import DRAWN, PASSWORD, PAYLOAD, WILL, WRONG, attempt, search

pytestmark = [
    pytest.mark.courser,
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="accounts are kept in the data folder"),
]

# Of the commands that print payloads, as what they are for.
OTHER = "payload-of-nobody"
# Where the log of partition 0 has what `init` has left: the account with the hash of its password.
FIRST_ACCOUNT = 3
GIVES = {
    "init": "prints the password of the first account, once",
    "access export": "hashes are what it is for",
    "retained show": "a payload is what it is asked for",
    "server": "its log is what test_canary.py searches",
}


class Row(NamedTuple):
    """How a verb is run: words behind it, and how it ends."""

    words: str = ""
    code: int = 0
    # What it writes has this in it: it has come to what it is to say.
    says: str = ""
    # As what those do who speak MQTT: with a login.
    speaks: bool = False
    # COURSER_URL.
    url: str = ""


S = "--server {data}"
# In this order, and what takes something away last. Those behind `version` are run when the server has ended.
ROWS = {
    "config check": [Row("--config {file}", says="digest"), Row("--config {wrong}", 2)],
    "config show": [
        Row("--config {file} --origin", says="response_information"), Row("--config {file} -o json"),
        Row("--origin " + S, says="response_information"), Row("-o json " + S),
    ],
    "config diff": [Row("--config {file}", says="response_information"), Row("-o json --config {file}"), Row(S), Row("-o json " + S)],
    "config schema": [Row(says="response_information")],
    "config reload": [Row(S), Row(S + " -o json")],
    "pub": [
        Row("-t other -m " + OTHER + " -d -q 1", speaks=True, says="connected"), Row(f"-u admin -P {WRONG} -p {{port}} -t t -m x -d", 4),
        # What is no URL may have a password in it all the same.
        Row(f"-L mqttx://admin:{WRONG}@h/t -m x", 2, says="unknown URL"), Row(f"-L mqtt://admin:{WRONG}@/t -m x", 2, says="no host"),
        Row(f"-L mqtt://admin:{WRONG}/more@127.0.0.1:1/t -m x", 2, says="no port"), Row(f"-L unix://admin:{WRONG}@h -m x", 2),
        Row("-t t -m x", 2, says="unknown URL", url=f"mqttx://admin:{WRONG}@h/t"),
    ],
    "sub": [Row("-t nothing/# -W 1 -d", 27, speaks=True), Row(f"-L mqtt://admin:{WRONG}@/t", 2), Row("-t t", 2, url=f"admin:{WRONG}@h/t")],
    "request": [Row("nothing question -W 1 -d", 27, speaks=True), Row(f"-L mqtt://admin:{WRONG}/x@h/t question", 2)],
    "probe": [Row("", speaks=True, says="receive"), Row("-o json", speaks=True)],
    "bench mqtt": [Row("-n 10 --prefix bench", speaks=True)],
    "bench connect": [Row("-n 5 --hold 0", speaks=True)],
    "bench retained": [Row("-n 5 --topics 5 --prefix bench", speaks=True)],
    "bench absent": [Row("-n 5 --topics 5 --prefix bench", speaks=True)],
    "listener list": [Row(S, says="127.0.0.1"), Row(S + " -o json"), Row(f"--server https://admin:{WRONG}@h:1", 2)],
    "client list": [Row(S, says="canary-client"), Row(S + " -o json")],
    "client show": [Row("canary-client " + S, says="admin"), Row("canary-client -o json " + S)],
    "client trace": [Row("canary-client -W 1 -C 1000 " + S, 27)],
    "session list": [Row(S, says="canary-kept"), Row(S + " -o json")],
    "session show": [Row("canary-kept " + S, says="canary-kept"), Row("canary-kept -o json " + S)],
    "subscription list": [Row(S, says="canary/#"), Row(S + " -o json")],
    "retained list": [Row(S, says="canary/kept"), Row(S + " -o json")],
    "role add": [Row("canary-role " + S), Row("other-role -o json " + S)],
    "acl grant": [Row("canary-role publish t " + S), Row("canary-role publish u " + S + " -o json")],
    "user add": [Row("fleet --role canary-role --scram --password-file {secret} " + S), Row("admin --scram --password-file {secret} " + S, 6)],
    "user set-password": [Row("fleet --yes --scram --password-file {secret} " + S), Row("fleet --dry-run --password-file {secret} -o json " + S)],
    "user import": [Row("{passwords} --role canary-role " + S)],
    "user list": [Row(S, says="fleet"), Row(S + " -o json")],
    "user show": [Row("fleet " + S, says="fleet"), Row("fleet -o json " + S), Row("imported -o json " + S)],
    "user set": [Row("fleet --quota queued_messages=3 --yes -o json " + S)],
    "user disable": [Row("fleet --yes -o json " + S)],
    "user enable": [Row("fleet -o json " + S)],
    "role list": [Row(S, says="canary-role"), Row(S + " -o json")],
    "role show": [Row("canary-role " + S, says="publish"), Row("canary-role -o json " + S)],
    "role set": [Row("canary-role --quota queued_messages=3 --yes -o json " + S)],
    "acl list": [Row(S, says="canary-role"), Row(S + " -o json")],
    "acl test": [Row("--user fleet --publish t " + S, says="canary-role"), Row("--user fleet --publish other -o json " + S, 1)],
    "acl revoke": [Row("canary-role publish u --yes -o json " + S)],
    "domain list": [Row(S, says="default"), Row(S + " -o json")],
    "domain show": [Row("default " + S), Row("default -o json " + S)],
    "domain set": [Row("default --quota queued_messages=1000 --yes -o json " + S)],
    "top": [Row("-n 1 " + S, says="memory"), Row("-n 1 -o json " + S)],
    "events": [Row("--no-follow " + S, says="canary-client"), Row("--no-follow -o json " + S)],
    "errors": [Row(), Row("-o json"), Row("0x87")],
    "diagnose": [Row("- --with-names " + S, says="canary-client")],
    "context add": [
        Row("here --server {data}"),
        Row(f"wrong --server http://admin:{WRONG}@h:1", 2), Row(f"wrong --mqtt mqtx://admin:{WRONG}@h", 2),
        Row(f"wrong --mqtt mqtt://admin:{WRONG}@h", 2), Row(f"wrong --mqtt mqtt://admin:12/{WRONG}@h", 2),
        Row("there --server {http} --token-file {data}/admin.token --mqtt mqtt://admin@localhost --password-file {secret}"),
    ],
    "context list": [Row(says="there")],
    "context use": [Row("there")],
    "context remove": [Row("there")],
    "completions": [Row("bash")],
    "tls new-ca": [Row("--folder {folder}/tls", says="ca.pem")],
    "tls new-cert": [Row("canary.example --folder {folder}/tls", says="canary.example")],
    "tls show": [Row("{folder}/tls/ca.pem", says="authority"), Row("{folder}/tls/canary.example.pem -o json")],
    "inspect damage": [Row(S), Row("-o json " + S)],
    "backup create": [Row("{backups} " + S), Row("{backups} -o json " + S)],
    "backup status": [Row(S), Row("-o json " + S)],
    "backup stop": [Row(S, 5)],
    "client redirect": [Row("canary-client --to other.example --yes " + S)],
    "client kick": [Row("canary-second --yes " + S)],
    "session delete": [Row("canary-kept --yes " + S)],
    "retained delete": [Row("canary/kept --yes " + S)],
    "user remove": [Row("fleet --yes -o json " + S)],
    "role remove": [Row("canary-role --yes -o json " + S, 6), Row("other-role --yes -o json " + S)],
    "access import": [Row("{accounts} --dry-run -o json " + S), Row("{accounts} --yes " + S)],
    "version": [Row(), Row("-o json")],
    "inspect segment": [Row("{segment}", says="entr")],
    "inspect checkpoint": [Row("{checkpoint}", says="checkpoint of partition")],
    "inspect entry": [Row("{data} 0 {entry}", says="users and roles")],
    "inspect folder": [Row("{data}")],
    "repair": [Row("{data}")],
    "backup verify": [Row("{backups}"), Row("{backups} -o json")],
    "backup prune": [Row("{backups} --keep 1 --yes")],
    "restore": [Row("{backups} --data {folder}/restored")],
}  # fmt: skip
OFFLINE = list(ROWS).index("version")


def help_of(*words):
    command = [str(Courser.binary()), *words, "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def verbs(*words):
    """All verbs below this one that have none below them, as the help lists them."""
    listed = re.search(r"^Commands:\n((?: .*\n|\n(?= ))*)", help_of(*words), re.MULTILINE)
    if not listed:
        return {" ".join(words)}
    names = re.findall(r"^  (\w[\w-]*)", listed[1], re.MULTILINE)
    return set().union(*(verbs(*words, name) for name in names if name != "help"))


def test_every_verb_has_a_row():
    found = verbs()
    assert len(found) > 60, found
    assert not ROWS.keys() & GIVES.keys()
    assert found == ROWS.keys() | GIVES.keys()


class Place:
    """A server with secrets in it, and files for its commands."""

    def __init__(self, brokers, folder):
        self.folder = folder
        self.data = folder / "data"
        made = subprocess.run(
            [str(Courser.binary()), "init", "courser.toml", "--data", str(self.data)], cwd=folder, capture_output=True, text=True, check=True
        )
        self.password = re.search(r"password (\S+)", made.stdout).group(1)
        self.file = folder / "courser.toml"
        text = self.file.read_text().replace("[mqtt]\n", '[mqtt]\nresponse_information = "${ENV:CANARY_DRAWN}"\n', 1)
        self.file.write_text(f'{text}\n[log]\nlevel = "debug"\n[backup]\nfolders = ["{folder / "backups"}"]\n')
        (folder / "backups").mkdir()
        self.server = brokers.own(config=str(self.file), data=str(self.data), checkpoint_bytes="1MiB")
        # What commands read.
        (folder / "wrong.toml").write_text(self.file.read_text() + '[sys]\ninterval = "${ENV:CANARY_DRAWN}"\n')
        (folder / "password").write_text(self.password + "\n")
        (folder / "secret").write_text(PASSWORD + "\n")
        hashed = base64.b64encode(b"h" * 64).decode()
        (folder / "passwords").write_text(f"imported:$7$101${base64.b64encode(b's' * 12).decode()}${hashed}\n")
        self.hashed = hashed

    def checkpoints(self):
        """All that there are so far."""
        return sorted((self.data / "checkpoints").glob("*.ckp"))

    def names(self):
        return {
            "data": self.data, "folder": self.folder, "file": self.file, "wrong": self.folder / "wrong.toml", "secret": self.folder / "secret",
            "passwords": self.folder / "passwords", "accounts": self.folder / "accounts", "backups": self.folder / "backups",
            "port": self.server.port, "http": self.server.http, "segment": next(iter(sorted((self.data / "log").glob("*.seg"))), "none"),
            "checkpoint": next(iter(self.checkpoints()), "none"), "entry": FIRST_ACCOUNT,
        }  # fmt: skip

    def run(self, verb, row):
        """All that it writes."""
        words = [*verb.split(), *row.words.format(**self.names()).split()]
        if row.speaks:
            words += ["-p", str(self.server.port), "-u", "admin", "--password-file", "password"]
        variables = {"HOME": str(self.folder), **({"COURSER_URL": row.url} if row.url else {})}
        done = subprocess.run(
            [str(Courser.binary()), *words], cwd=self.folder, env={**os.environ, **variables},
            stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        said = (done.stdout + done.stderr).decode(errors="replace")
        assert done.returncode == row.code, (words, done.returncode, said)
        assert row.says.format(**self.names()) in said, (words, said)
        return said


def test_no_verb_writes_a_secret(brokers, tmp_path, monkeypatch):
    monkeypatch.setenv("CANARY_DRAWN", DRAWN)
    place = Place(brokers, tmp_path)
    clients = [attempt(place.server, name, "admin", place.password) for name in ("canary-client", "canary-second")]
    assert all(inside for _, inside in clients)
    kept = RawClient(place.server.address, wire.V5)
    kept.connect("canary-kept", clean=False, properties={"session_expiry": 600}, username="admin", password=place.password.encode())
    kept.subscribe("canary/#", qos=1)
    kept.close()
    for number in itertools.count():
        if place.checkpoints():
            break
        assert number < 1000, "no checkpoint is written"
        clients[0][0].publish("canary/kept", PAYLOAD * 2000, qos=1, retain=True).wait_for_publish(20)
    _, inside = attempt(place.server, "canary-wrong", "admin", WRONG)
    assert not inside
    accounts = subprocess.run(
        [str(Courser.binary()), "access", "export", "--server", str(place.data)], capture_output=True, check=True, timeout=60
    ).stdout
    (tmp_path / "accounts").write_bytes(accounts)
    token = (place.data / "admin.token").read_text().strip()
    written = []
    for number, (verb, rows) in enumerate(ROWS.items()):
        if number == OFFLINE:
            for client, _ in clients:
                client.loop_stop()
            assert place.server.stop() == 0, place.server.tail()
        written += [place.run(verb, row) for row in rows]
    written.append(place.server.log.read_text())
    search(written, [PASSWORD, WRONG, DRAWN, PAYLOAD, WILL, OTHER, place.password, token, place.hashed])
