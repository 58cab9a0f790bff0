"""Attacks on the rights, settings and files of other brokers, by the names of their advisories, against a broker with accounts.

Each ends with the same proof: accounts, settings and files are what they were, and the first account is let in as before.
"""

import contextlib
import hashlib
import http.client
import itertools
import json
import os
import signal
import subprocess
import urllib.parse
from base64 import b64encode

import pytest
import wire
from broker import Courser, until
from doors import WithAccounts, running
from raw import RawClient
from wire import CONNACK, PUBACK, PUBLISH, SUBACK, V3, V5

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="accounts and tokens are kept in the data folder"),
]

NOT_AUTHORIZED = {V3: 5, V5: 0x87}


class Attacked:
    """The broker, and its operator."""

    def __init__(self, broker):
        self.broker, self.folder, self.data = broker, broker.folder, broker.folder / "data"
        (self.folder / "secret").write_text("a password\n")

    def run(self, *words, code=0):
        """What `courser` says, at the socket of the operator."""
        offline = words[0] in ("restore", "config") or words[:2] == ("backup", "verify") or words[:2] == ("backup", "prune")
        command = [str(Courser.binary()), *words, *([] if offline else ["--server", str(self.data)])]
        done = subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        assert code is None or done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def user(self, name, *rules):
        """One with a role of its own, and the password of all of them."""
        self.run("role", "add", name)
        for rule in rules:
            self.run("acl", "grant", name, *rule)
        self.run("user", "add", name, "--role", name, "--password-file", "secret")

    def connect(self, version, name, client_id, clean=True):
        """The answer to a CONNECT of this user, and the connection."""
        password = self.broker.password if name == "root" else "a password"
        client = RawClient(self.broker.address, version)
        kept = {"session_expiry": 600} if version == V5 and not clean else ()
        client.send(wire.connect(version, client_id, clean=clean, username=name, password=password.encode(), properties=kept))
        return client, client.expect(CONNACK)

    def ask(self, method, path, headers=None, body=None):
        """Status, headers and text of an answer of the API. The path goes out as it is."""
        host, port = self.broker.http.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def token(self):
        return {"Authorization": f"Bearer {(self.data / 'admin.token').read_text().strip()}"}

    def state(self):
        """What no attack may change: accounts, and the names of files in and around the data folder, without those that the log
        makes and removes."""
        moving = ("log", "checkpoints")
        files = {
            str(path.relative_to(self.folder.parent))
            for path in self.folder.parent.rglob("*")
            if not any(part in path.parts for part in moving)
        }
        return json.loads(self.run("access", "export")), files


    @contextlib.contextmanager
    def unharmed(self):
        """What is done within changes nothing, and keeps nobody out."""
        before = self.state()
        yield
        assert self.state() == before
        client, answer = self.connect(V5, "root", "after")
        assert answer.reason == 0
        client.close()


@pytest.fixture
def attacked(tmp_path):
    # What is not there at the start the kernel would keep it from, whatever it checks itself.
    folder = tmp_path / "around" / "broker"
    for name in ("backups", "away"):
        (folder / name).mkdir(parents=True)
    with running(WithAccounts, folder, backup_folders='"backups"') as broker:
        yield Attacked(broker)


def operations(attacked):
    """Method and path of everything that the API can do, with a name where one belongs."""
    paths = json.loads(attacked.ask("GET", "/api/v1/openapi.json")[2])["paths"]
    for path, methods in paths.items():
        for method in methods:
            if method in ("get", "post", "put", "patch", "delete"):
                filled = "/".join("root" if part.startswith("{") else part for part in path.split("/"))
                yield method.upper(), filled


def test_cve_2023_33246_37582_no_settings_without_a_login(attacked):
    """Everything that the API can do, asked for without the token: with none, with a wrong one, with the password of an administrator as one,
    with the login of a user who is no operator, as a call that a proxy has let through, and by other spellings of the path."""
    password = attacked.broker.password
    attacked.user("everywhere", ("all", "#"))
    basic = b64encode(b"everywhere:a password").decode()
    token = attacked.token()["Authorization"].removeprefix("Bearer ")
    callers = [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {password}"},
        {"Authorization": f"Bearer {token[:-1]}"},
        {"Authorization": f"Bearer {token}x"},
        {"Authorization": f"Basic {basic}"},
        {"Cookie": f"token={token[:-1]}", "X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1", "Forwarded": "for=127.0.0.1"},
        {"X-Original-URL": "/healthz", "X-Rewrite-URL": "/healthz", "X-HTTP-Method-Override": "GET", "Connection": "Authorization"},
    ]
    found = list(operations(attacked))
    assert len(found) > 25 and ("POST", "/api/v1/config/reload") in found, found
    with attacked.unharmed():
        for method, path in found:
            body = None if method in ("GET", "DELETE") else "{}"
            for headers in callers:
                status, _, said = attacked.ask(method, path, {"Content-Type": "application/json", **headers}, body)
                refused = (403, "1002") if "Basic" in headers.get("Authorization", "") else (401, "1001")
                assert status == refused[0] and refused[1] in said, (method, path, headers, status, said)
            for spelling in (f"/{path}", f"{path}/", f"{path};x", path.upper(), f"/healthz/..{path}", f"/api/..{path}", path.replace("api", "%61pi")):
                status, _, said = attacked.ask(method, spelling, None, body)
                assert status in (401, 404, 405), (method, spelling, status, said)
    assert "settings_reloaded" not in attacked.broker.output() and "reload_ordered" not in attacked.broker.output()
    # It was the token that was missing.
    status, _, said = attacked.ask("POST", "/api/v1/config/reload", attacked.token())
    assert status == 200, said
    until(lambda: "reload_ordered" in attacked.broker.output(), "the log says who has ordered it")


def with_name(manifest, old, new):
    """The manifest with another name in it, and the checksum that fits."""
    body = manifest[: manifest.rindex("end ")]
    assert old in body
    body = body.replace(old, new)
    return f"{body}end {hashlib.sha256(body.encode()).hexdigest()}\n"


OUTSIDE = ["../evil", "log/../../evil", "log/../node", "/tmp/evil", "./node", "log//0000000001.seg", "crash/../../evil", "..", "log\\evil"]


def test_cve_2022_26652_names_in_a_backup_that_lead_outside(attacked):
    """A backup whose manifest names files elsewhere, to be written or to be read, with the checksum that belongs to it: it is taken
    for damaged before a byte is written."""
    attacked.run("backup", "create", "backups")
    folder = attacked.folder / "backups" / "000001"
    manifest = (folder / "manifest").read_text()
    with attacked.unharmed():
        for name in OUTSIDE:
            for old, new in ((" node 000001/node ", f" {name} 000001/node "), (" 000001/node ", f" {name} "), (" 000001/node ", f" 000001/{name} ")):
                (folder / "manifest").write_text(with_name(manifest, old, new))
                for verb in (("restore", "backups", "--data", "restored"), ("backup", "verify", "backups"), ("backup", "prune", "backups", "--keep", "1", "--yes")):
                    said = attacked.run(*verb, code=1)
                    assert "000001/manifest" in said and "is none of a manifest" in said, (name, verb, said)
                assert not (attacked.folder / "restored").exists()
        (folder / "manifest").write_text(manifest)
    # It was the names: as it was made the backup is whole.
    attacked.run("restore", "backups", "--data", "restored")
    assert (attacked.folder / "restored" / "node").read_bytes() == (attacked.data / "node").read_bytes()


def test_cve_2022_26652_backups_go_where_the_settings_say(attacked):
    """Folders that begin as an allowed one does and lead out of it, by `..` or by a link; and any folder at all for who comes over HTTP."""
    away = attacked.folder / "away"
    (attacked.folder / "backups" / "link").symlink_to(away)
    with attacked.unharmed():
        for folder in ("backups/../away", "backups/../data/log", "backups/link", "backups/link/new", "../away", "/", "backups2"):
            said = attacked.run("backup", "create", folder, code=2)
            assert "by its whole path" in said or "is in none of the folders" in said, (folder, said)
        path = urllib.parse.quote(str(attacked.folder / "backups"))
        status, _, said = attacked.ask("POST", f"/api/v1/backup?folder={path}", attacked.token())
        assert status == 403, said
    assert not list(away.iterdir())
    attacked.run("backup", "create", "backups/new")
    assert (attacked.folder / "backups" / "new" / "000001" / "manifest").exists()


def test_cve_2022_28357_names_of_accounts_that_lead_outside(attacked):
    """Users, roles, client ids and topics that are called as files elsewhere: they are made under these names or refused, and what
    is removed by them is no file."""
    names = ["../../evil", "..", "../data/node", "/etc/passwd", "..%2f..%2fevil", "evil\0.jwt", "a/../../evil", "log"]
    before = attacked.state()
    for name in names:
        if "\0" not in name:
            attacked.run("user", "add", name, "--no-password", code=None)
            attacked.run("role", "add", name, code=None)
            client, answer = attacked.connect(V5, "root", name, clean=False)
            if answer.reason == 0:
                client.send(wire.publish(V5, name.replace("#", ""), b"x", qos=1, packet_id=1, retain=True))
                client.expect(PUBACK)
            client.close()
        for path in ("users", "roles", "clients", "sessions", "retained"):
            for spelling in {urllib.parse.quote(name, safe=""), urllib.parse.quote(name)}:
                for method in ("GET", "DELETE"):
                    status, _, said = attacked.ask(method, f"/api/v1/{path}/{spelling}", attacked.token())
                    assert status < 500 and "root:x:" not in said, (method, path, spelling, status, said)
    for name in names[:-1]:
        status, _, said = attacked.ask("DELETE", "/api/v1/retained/" + urllib.parse.quote(name, safe=""), attacked.token())
        assert status in (200, 400, 404), (name, said)
    table, files = attacked.state()
    assert files == before[1], "no file came or went"
    for kind in ("users", "roles"):
        assert set(table[kind]) == set(before[0][kind]), "all that were made are removed again by their names"


def test_cve_2025_30215_no_topic_is_a_way_to_the_api(attacked):
    """A user who may publish and subscribe everywhere, and is no operator: topics that manage other brokers do nothing here, and the
    password opens nothing but MQTT."""
    attacked.user("everywhere", ("all", "#"), ("all", "$SYS/#"))
    topics = [
        "$CONTROL/dynamic-security/v1", "$JS.API.STREAM.DELETE.root", "$JS/API/ACCOUNT/PURGE/root", "$SYS/REQ/SERVER/RELOAD",
        "$SYS/REQ/ACCOUNT/root/CLAIMS/UPDATE", "$courser/users", "$courser/config/reload", "$SYS/broker/users", "api/v1/users", "$MQTT/sess/root",
    ]  # fmt: skip
    order = json.dumps({"commands": [{"command": "deleteClient", "username": "root"}], "name": "evil", "administration": "full"})
    with attacked.unharmed():
        client, answer = attacked.connect(V5, "everywhere", "attacker")
        assert answer.reason == 0
        replies = answer.properties.get("response_info", "replies")
        client.send(wire.subscribe(V5, 1, [("#", 1), (f"{replies}/#", 1)]))
        client.expect(SUBACK)
        for number, topic in enumerate(topics, 2):
            properties = {"response_topic": f"{replies}/x", "correlation_data": b"x"}
            client.send(wire.publish(V5, topic, order.encode(), qos=1, packet_id=number, properties=properties))
        client.send(wire.publish(V5, "marker", b"marker", qos=1, packet_id=100))
        while (found := client.receive()) and not (found.kind == PUBLISH and found.topic == "marker"):
            assert found.kind == PUBACK or found.payload == order.encode(), "nobody has answered"
            if found.kind == PUBLISH:
                client.answer(found)
        assert found is not None
        basic = b64encode(b"everywhere:a password").decode()
        for given, status in ((f"Basic {basic}", 403), ("Bearer a password", 401)):
            assert attacked.ask("GET", "/api/v1/users", {"Authorization": given})[0] == status
        client.close()


def test_cve_2026_33217_what_the_broker_says_of_itself(attacked):
    """Topics of the broker are nobody's to write, and no wildcard leads to them: not for a user whose only rule is `#`, and not by a will."""
    attacked.user("anything", ("all", "#"))
    with attacked.unharmed():
        client, answer = attacked.connect(V5, "anything", "attacker")
        assert answer.reason == 0
        for number, topic in enumerate(("$SYS/broker/version", "$SYS/broker/uptime", "$SYS/new"), 1):
            client.send(wire.publish(V5, topic, b"forged", qos=1, packet_id=number, retain=True))
            assert client.expect(PUBACK, packet_id=number).reason == NOT_AUTHORIZED[V5]
        for number, name in enumerate(("$SYS/#", "$SYS/broker/+", "$share/g/$SYS/#"), 10):
            client.send(wire.subscribe(V5, number, [(name, 1)]))
            assert client.expect(SUBACK).reasons == [NOT_AUTHORIZED[V5]]
        client.send(wire.subscribe(V5, 20, [("#", 1), ("+/broker/version", 1)]))
        client.expect(SUBACK)
        client.send(wire.publish(V5, "marker", b"x"))
        assert client.expect(PUBLISH).topic == "marker", "nothing of $SYS came by a wildcard"
        client.close()
        will = RawClient(attacked.broker.address, V5)
        will.send(wire.connect(V5, "will", username="anything", password=b"a password", will=wire.Will("$SYS/broker/version", b"forged", retain=True)))
        assert will.expect(CONNACK).reason == NOT_AUTHORIZED[V5]
        will.close()


@pytest.mark.parametrize("version", [V3, V5])
def test_cve_2026_6564_a_session_of_somebody_else(attacked, version):
    """A user who may do everything, with the client id of another one: neither displaces the other one, nor takes up what waits for it,
    nor deletes its session; while it is there and while it is away."""
    for name in ("anna", "berta"):
        attacked.user(name, ("all", "#"))
    anna, _ = attacked.connect(version, "anna", "car", clean=False)
    anna.send(wire.subscribe(version, 1, [("orders", 1)]))
    anna.expect(SUBACK)

    def attack():
        for clean in (False, True):
            thief, answer = attacked.connect(version, "berta", "car", clean)
            assert answer.reason == NOT_AUTHORIZED[version] and not answer.session_present, answer
            assert thief.receive() is None, "nothing of the session"

    attack()
    anna.ping()
    anna.close()
    until(lambda: "car" not in attacked.run("client", "list"), "it is away")
    publisher, _ = attacked.connect(V5, "root", "publisher")
    publisher.send(wire.publish(V5, "orders", b"for anna", qos=1, packet_id=1))
    assert publisher.expect(PUBACK).reason == 0
    attack()
    publisher.close()
    anna, answer = attacked.connect(version, "anna", "car", clean=False)
    assert answer.reason == 0 and answer.session_present
    assert anna.expect(PUBLISH).payload == b"for anna"
    anna.close()


METHODS = ["ldap", "plugin:evil.so", "org.evil.Authenticator", "/tmp/evil.so", "None", "accounts ", ""]


def test_cve_2026_95848_a_method_of_authentication_that_cannot_be_loaded(attacked):
    """A method that is not there, in the settings or in CONNECT: no start, no change by reading the settings again, no login. Nobody
    comes in without a password meanwhile."""

    def nobody_comes_in():
        for properties in ((), {"authentication_method": "ldap"}):
            client = RawClient(attacked.broker.address, V5)
            client.send(wire.connect(V5, "nobody", properties=properties))
            assert client.receive().reason in (0x87, 0x8C)
            client.close()

    config = attacked.folder / "courser.toml"
    right = config.read_text()
    assert 'authentication = "accounts"' in right
    for method in METHODS:
        wrong = right.replace('authentication = "accounts"', f'authentication = "{method}"')
        (attacked.folder / "wrong.toml").write_text(wrong)
        command = [str(Courser.binary()), "server", "--in-memory", "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0", "--config", "wrong.toml"]
        done = subprocess.run(command, cwd=attacked.folder, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 2 and "mqtt.authentication" in done.stderr and "MQTT 3.1.1" not in done.stdout, (method, done.stdout, done.stderr)
    (attacked.folder / "wrong.toml").unlink()
    with attacked.unharmed():
        config.write_text(wrong)
        said = attacked.run("config", "reload", "--server", str(attacked.data), code=None)
        assert "mqtt.authentication" in said, said
        nobody_comes_in()
        attacked.broker.process.send_signal(signal.SIGHUP)
        until(lambda: attacked.broker.output().count("settings_not_reloaded") >= 2, attacked.broker.output())
        nobody_comes_in()
        config.write_text(right)
        for method in METHODS:
            client = RawClient(attacked.broker.address, V5)
            properties = {"authentication_method": method, "authentication_data": b"root"}
            client.send(wire.connect(V5, "by", username="root", password=attacked.broker.password.encode(), properties=properties))
            assert client.expect(CONNACK).reason in (0x8C, 0x87), method
            client.close()


SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}"


def test_cve_2017_4965_2019_11291_2021_32718_scripts_as_names(attacked):
    """A script as client id, user, topic and payload: what is served as a page has nothing of it, and what has it is no page."""
    attacked.run("user", "add", SCRIPT, "--no-password", code=None)
    client, answer = attacked.connect(V5, "root", SCRIPT, clean=False)
    assert answer.reason == 0
    client.send(wire.subscribe(V5, 1, [(f"{SCRIPT}/#", 0)]), wire.publish(V5, SCRIPT, SCRIPT.encode(), retain=True), wire.PING)
    while client.receive().kind != wire.PINGRESP:
        pass
    name, shown = urllib.parse.quote(SCRIPT, safe=""), 0
    paths = [path for method, path in operations(attacked) if method == "GET" and "events" not in path and "trace" not in path]
    for path in [*paths, f"/api/v1/clients/{name}", f"/api/v1/sessions/{name}", f"/api/v1/retained/{name}", f"/{name}", "/api", "/metrics", "/healthz"]:
        status, headers, said = attacked.ask("GET", path, attacked.token())
        kind = headers["Content-Type"].split(";")[0]
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Content-Security-Policy"].startswith("default-src 'none'"), path
        if kind == "application/json":
            shown += "script" in said
        else:
            assert "alert" not in said and kind in ("text/html", "text/plain", "application/openmetrics-text"), (path, kind, said)
    assert shown >= 4, "it was looked for where it is shown"
    client.close()


def retain_as(attacked, version, name, topics, payload):
    """Messages of a user, retained by every QoS, with a session that is kept and with one that is not, and a will."""
    *published, left = topics
    for qos, clean in itertools.product((0, 1, 2), (True, False)):
        client, answer = attacked.connect(version, name, f"{name}-{qos}-{clean}", clean)
        assert answer.reason == 0
        client.publish(published.pop(), payload, qos=qos, retain=True)
        client.disconnect()
    assert not published
    client = RawClient(attacked.broker.address, version)
    will = wire.Will(left, payload, qos=1, retain=True)
    client.connect(f"{name}-will", username=name, password=b"a password", will=will)
    client.close()
    until(lambda: payload.decode() in attacked.run("retained", "show", left, code=None), "the will is there")


def found(attacked, filter_, count):
    """What a new subscriber finds retained, by topic: so many, and nothing more."""
    client, answer = attacked.connect(V5, "root", "reader")
    assert answer.reason == 0
    before = withheld(attacked)
    client.subscribe(filter_, qos=1)
    messages = [client.message(retain=True) for _ in range(count)]
    if count < len(TOPICS) + 1:
        until(lambda: withheld(attacked) - before == len(TOPICS) + 1 - count, "what is withheld is counted")
    client.ping()
    client.disconnect()
    return {message.topic: message.payload.decode() for message in messages}


def withheld(attacked):
    return attacked.broker.metric('courser_messages_dropped_total{reason="author_denied"}')


TOPICS = [f"s/{number}" for number in range(7)]
OF_ANNA = dict.fromkeys(TOPICS, "anna")
OF_BEN = {"s/ben": "ben"}


@pytest.fixture
def with_retained(attacked, request):
    """Seven messages of `anna`, on every way by which a message is retained, and one of `ben`."""
    version = request.param
    for name in ("anna", "ben"):
        attacked.user(name, ("publish", "s/#"))
    retain_as(attacked, version, "anna", TOPICS, b"anna")
    ben, _ = attacked.connect(version, "ben", "ben")
    ben.publish("s/ben", b"ben", qos=1, retain=True)
    ben.disconnect()
    assert found(attacked, "s/#", 8) == OF_ANNA | OF_BEN
    return attacked


def again(broker, how):
    broker.stop(how)
    broker.start()


@pytest.mark.parametrize("with_retained", [V3, V5], indirect=True)
def test_cve_2018_12546_retained_by_one_who_may_not_publish_it_any_more(with_retained):
    """The right is revoked by an operator: new subscribers get nothing of what its user has retained, by whatever way; after a restart and
    after a crash neither. Once it is given back all of it is there."""
    attacked = with_retained
    attacked.run("acl", "revoke", "anna", "publish", "s/#", "--yes")
    assert found(attacked, "s/#", 1) == OF_BEN
    again(attacked.broker, signal.SIGTERM)
    assert found(attacked, "s/#", 1) == OF_BEN
    again(attacked.broker, signal.SIGKILL)
    assert found(attacked, "s/#", 1) == OF_BEN
    attacked.run("user", "disable", "ben", "--yes", code=None)
    attacked.run("acl", "grant", "anna", "publish", "s/#")
    assert found(attacked, "s/#", 7) == OF_ANNA, "who is disabled may publish nothing"
    attacked.run("user", "enable", "ben")
    assert found(attacked, "s/#", 8) == OF_ANNA | OF_BEN


@pytest.mark.parametrize("with_retained", [V5], indirect=True)
def test_cve_2018_12546_retained_by_one_who_is_removed_and_made_again(with_retained):
    """A user is removed: nobody new gets what it has retained. Nor does anybody once another user has its name and all its rights; what
    that one retains is its own."""
    attacked = with_retained
    attacked.run("user", "remove", "anna", "--yes")
    assert found(attacked, "s/#", 1) == OF_BEN
    attacked.run("user", "add", "anna", "--role", "anna", "--password-file", "secret")
    assert found(attacked, "s/#", 1) == OF_BEN
    again(attacked.broker, signal.SIGKILL)
    assert found(attacked, "s/#", 1) == OF_BEN
    retain_as(attacked, V5, "anna", TOPICS, b"the other one")
    assert found(attacked, "s/#", 8) == dict.fromkeys(TOPICS, "the other one") | OF_BEN
