"""Accounts from an empty folder: `courser init`, a start, a login by paho; what is written has no password in it."""

import base64
import hashlib
import re
import shutil
import signal
import subprocess
import threading
import time

import paho.mqtt.client as paho
import pytest
from broker import Courser
from paho.mqtt.enums import CallbackAPIVersion

pytestmark = pytest.mark.courser


def init(folder):
    """What `init` printed, and the password in it."""
    done = subprocess.run(
        [Courser.binary(), "init", "--admin", "root"], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout, re.search(r"account root, password (\S+)", done.stdout).group(1)


def start(folder):
    """A server on a free port, and that port."""
    command = [Courser.binary(), "server", "--config", "courser.toml", "--mqtt", "127.0.0.1:0"]
    command += ["--set", "http.listen=[]", "--set", "log.segment_bytes=1MiB"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in server.stdout:
        lines.append(line)
        if line == "ready\n":
            break
    text = "".join(lines)
    return server, int(re.search(r"MQTT 3.1.1 and 5.0 on 127.0.0.1:(\d+)", text).group(1)), text


def stop(server):
    """What it wrote since it was ready. Not by `communicate`, which knows nothing of lines that came with that one."""
    server.send_signal(signal.SIGTERM)
    text = server.stdout.read()
    server.wait(30)
    return text


def login(port, version, user, password):
    """The reason that CONNACK gave, and the client."""
    connected = threading.Event()
    reasons = []

    def on_connect(_client, _data, _flags, reason, _properties):
        reasons.append(reason)
        connected.set()

    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="operator", protocol=version)
    if user:
        client.username_pw_set(user, password)
    client.on_connect = on_connect
    client.connect("127.0.0.1", port)
    client.loop_start()
    assert connected.wait(20), "no CONNACK"
    return reasons[0], client


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
def test_the_first_account_comes_in_and_nobody_else(tmp_path, version):
    printed, password = init(tmp_path)
    bootstrap = tmp_path / "data" / "bootstrap"
    assert bootstrap.stat().st_mode & 0o777 == 0o600
    assert password not in bootstrap.read_text()
    outputs = []
    # The second start has the account from the log.
    for _ in range(2):
        server, port, text = start(tmp_path)
        outputs.append(text)
        assert not bootstrap.exists(), "it was taken"
        refused, client = login(port, version, None, None)
        assert refused.is_failure
        client.loop_stop()
        refused, client = login(port, version, "root", password + "x")
        assert refused.is_failure
        client.loop_stop()
        reason, client = login(port, version, "root", password)
        assert not reason.is_failure, reason
        got = threading.Event()
        client.on_message = lambda *_: got.set()
        client.on_subscribe = lambda *_: client.publish("a/b", "hello", qos=1)
        client.subscribe("a/#", qos=1)
        assert got.wait(20), "no message"
        client.disconnect()
        client.loop_stop()
        outputs.append(stop(server))
        assert server.returncode == 0
    # I14: the password was shown once, by init, and is nowhere else.
    assert printed.count(password) == 1
    assert all(password not in text and "$argon2id$" not in text for text in outputs)
    for file in (tmp_path / "data").rglob("*"):
        if file.is_file():
            assert password.encode() not in file.read_bytes(), file


def test_an_account_that_is_there_gets_a_new_password_only_where_that_is_said(tmp_path):
    """`init` with a folder that was served: refused without `--yes`, and the next start changes the password and nothing else."""
    _, old = init(tmp_path)
    server, port, _ = start(tmp_path)
    for verb in (["role", "add", "other"], ["user", "set", "root", "--add-role", "other"]):
        done = subprocess.run([Courser.binary(), *verb, "--server", "data"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    stop(server)
    again = [Courser.binary(), "init", "again.toml", "--admin", "root"]
    refused = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert refused.returncode == 2 and "say --yes to replace the password of root, if data has that account" in refused.stderr, refused.stderr
    assert not (tmp_path / "again.toml").exists() and not (tmp_path / "data" / "bootstrap").exists()
    done = subprocess.run([*again, "--yes"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    new = re.search(r"account root, password (\S+)", done.stdout).group(1)
    server, port, text = start(tmp_path)
    for password, is_refused in ((old, True), (new, False)):
        reason, client = login(port, paho.MQTTv5, "root", password)
        client.loop_stop()
        assert reason.is_failure == is_refused, reason
    shown = subprocess.run([Courser.binary(), "user", "show", "root", "--server", "data"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "admin" in shown and "other" in shown, shown
    text += stop(server)
    line = next(line for line in text.splitlines() if "event=bootstrap_taken" in line)
    assert "user=root" in line and "password_replaced=true" in line, line
    assert new not in text


def test_a_start_without_accounts_says_that_nobody_can_log_in(tmp_path):
    """Until there is one, on standard output and in the log."""
    (tmp_path / "courser.toml").write_text('[mqtt]\nauthentication = "accounts"\n')
    for is_made in (False, True):
        if is_made:
            done = subprocess.run([Courser.binary(), "init", "first.toml", "--yes"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, done.stderr
        server, _, text = start(tmp_path)
        text += stop(server)
        said = "\nnobody can log in: there are no accounts, and these listeners ask for one: mqtt" in text
        logged = "event=no_accounts" in text
        assert (said, logged) == (not is_made, not is_made), text


def test_a_data_folder_that_others_may_write_into_is_told(tmp_path):
    """It is used, with a warning that says what to do."""
    init(tmp_path)
    for mode, is_told in ((0o777, True), (0o700, False)):
        (tmp_path / "data").chmod(mode)
        server, _, text = start(tmp_path)
        text += stop(server)
        assert any("event=data_folder_open" in line and "mode=777" in line for line in text.splitlines()) == is_told, text


def test_a_refused_login_is_named(tmp_path):
    """At the default level, and for who asks for the client id: who it was and why, and nothing of the password."""
    init(tmp_path)
    server, port, _ = start(tmp_path)
    reason, client = login(port, paho.MQTTv5, "root", "a-wrong-guess")
    client.loop_stop()
    assert reason.is_failure
    command = [Courser.binary(), "client", "show", "operator", "--server", "data"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60).stdout
    assert re.search(r"disconnected +127\.0\.0\.1:\d+ +0x86 +the server refused the client: the user name or the password is wrong", shown), shown
    text = stop(server)
    line = next(line for line in text.splitlines() if "event=login_refused" in line)
    for part in (" warn ", "client_id=operator ", "user=root ", "address=127.0.0.1:", "listener=mqtt ", 'reason="the user name or the password is wrong"'):
        assert part in line, line
    assert "a-wrong-guess" not in text + shown


def test_why_a_client_was_refused_is_told_apart(tmp_path):
    """One reason code stands for several causes: who asks for the client, and the log, hear which one it was."""
    _, password = init(tmp_path)
    server, port, _ = start(tmp_path)
    (tmp_path / "secret").write_text("of a device\n")

    def courser(*words):
        done = subprocess.run([Courser.binary(), *words, "--server", "data"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    courser("role", "add", "device")
    courser("acl", "grant", "device", "publish", "own/#")
    courser("user", "add", "dev", "--role", "device", "--password-file", "secret", "--quota", "connections=1")

    def connect(client_id, user, secret, will=None):
        """A client that has heard its CONNACK, and the reason in it."""
        heard = threading.Event()
        reasons = []
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
        client.username_pw_set(user, secret)
        if will:
            client.will_set(will)
        client.on_connect = lambda *arguments: (reasons.append(arguments[3].value), heard.set())
        client.connect("127.0.0.1", port)
        client.loop_start()
        assert heard.wait(20), "no CONNACK"
        if reasons[0]:
            client.loop_stop()
        return client, reasons[0]

    def settled(code, *arguments, **more):
        """The reason, once the one before has gone and is not counted any more."""
        deadline = time.monotonic() + 20
        while (reason := connect(*arguments, **more)[1]) == 0x97 != code and time.monotonic() < deadline:
            time.sleep(0.05)
        return reason

    inside = [connect("mine", "root", password), connect("first", "dev", "of a device")]
    assert [reason for _, reason in inside] == [0, 0]
    refused = {
        "mine": (0x97, "its user has as many connections as it may have", {}),
        "willful": (0x87, "its user may not publish to the topic of its will", {"will": "other/t"}),
        "unknown": (0x86, "no user has the name that it says", {"user": "nobody"}),
        "wrong": (0x86, "the user name or the password is wrong", {"secret": "a guess"}),
    }
    for client_id, (code, _, other) in refused.items():
        if client_id == "willful":
            inside[1][0].disconnect()
            inside[1][0].loop_stop()
        assert settled(code, client_id, **{"user": "dev", "secret": "of a device", **other}) == code, client_id
    refused["mine"] = (0x87, "its client id is that of another user", {})
    assert settled(0x87, "mine", "dev", "of a device") == 0x87
    for client_id, (code, why, _) in refused.items():
        shown = courser("client", "show", client_id)
        assert f"0x{code:02X}" in shown and f"the server refused the client: {why}" in shown, shown
    inside[0][0].disconnect()
    inside[0][0].loop_stop()
    text = stop(server)
    for client_id, (_, why, _) in refused.items():
        assert any(f"client_id={client_id} " in line and f'reason="{why}"' in line for line in text.splitlines()), (client_id, text)


def as_mosquitto_writes_it(password, rounds=101):
    """`mosquitto_passwd` since 2.0: PBKDF2 with SHA-512, by itself of so many rounds."""
    salt = bytes(range(12))
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, rounds)
    return f"$7${rounds}${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"


def made_by_mosquitto_passwd(folder, password):
    """What the program itself writes behind the name: of the version that is installed, whatever its rounds and its salt."""
    if not shutil.which("mosquitto_passwd"):
        pytest.skip("mosquitto_passwd is not installed")
    file = folder / "made"
    subprocess.run(["mosquitto_passwd", "-c", "-b", str(file), "anna", password], check=True, capture_output=True, timeout=60)
    name, written = file.read_text().strip().split(":", 1)
    assert name == "anna" and written.startswith("$7$"), written
    return written


# Of the tests of the reference implementation of argon2 (src/test.c): two passes over 64 MiB.
ARGON2ID = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
IMPORTED = {
    "mosquitto_passwd": ("geheim", lambda folder: made_by_mosquitto_passwd(folder, "geheim")),
    "mosquitto_passwd, by hand": ("geheim", lambda _: as_mosquitto_writes_it("geheim")),
    "argon2id": ("password", lambda _: ARGON2ID),
}


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
@pytest.mark.parametrize("made_by", IMPORTED)
def test_imported_accounts_log_in_with_their_passwords(tmp_path, made_by, version):
    """A file of users that `mosquitto_passwd` has written, one as it writes them, and one with a hash of argon2id: not of our making."""
    password, write = IMPORTED[made_by]
    written = write(tmp_path)
    init(tmp_path)
    (tmp_path / "passwords").write_text(f"anna:{written}\n")
    server, port, _ = start(tmp_path)
    try:
        for words in (["role", "add", "reader"], ["user", "import", "passwords", "--role", "reader"]):
            done = subprocess.run([Courser.binary(), *words, "--server", "data"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        # Twice: the second time it is known by the keyed cache.
        for _ in range(2):
            reason, client = login(port, version, "anna", password)
            assert not reason.is_failure, reason
            client.disconnect()
            client.loop_stop()
        reason, client = login(port, version, "anna", password.title())
        assert reason.is_failure
        client.loop_stop()
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
