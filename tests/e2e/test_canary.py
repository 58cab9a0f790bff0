"""Secrets are nowhere: everything that a server and its commands write is searched for what was put in.

Passwords of users and of clients, the token of the API, tokens of clients and the secret that signs them, proofs and keys of SCRAM, private
keys, a value drawn by `${…}` and payloads are canaries. Clients are paho's; the exchange of SCRAM is written out.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import paho.mqtt.client as paho
import pytest
import wire
from doors import Authority, listener, server_names
from paho.mqtt.enums import CallbackAPIVersion
from raw import RawClient
from test_tokens import by_secret

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="accounts are kept in the data folder"),
]

PASSWORD = "canary-password-5Zk1"
WRONG = "canary-wrong-password-Q8s2"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnktand0In0.c2lnbmF0dXJlLWNhbmFyeQ"
DRAWN = "canary-drawn-value-T7w4"
PAYLOAD = "canary-payload-M3x9"
WILL = "canary-will-W6e3"
SIGNER = "canary-signing-secret-which-is-long-enough-V2n7"
KEY_BYTES = b"canary-private-key-material-0123456789abcdef"


def courser(server, *arguments):
    """Everything that a command writes, whatever comes of it."""
    command = [str(server.binary()), *arguments]
    done = subprocess.run(command, cwd=server.folder, capture_output=True, timeout=60, check=False)
    return (done.stdout + done.stderr).decode(errors="replace")


def get(server, path, token=None):
    request = urllib.request.Request(server.http + path)  # noqa: S310
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return str(error.headers) + error.read().decode()


# Every verb that asks a server for something and shows it. `access export` is left out: hashes are what it is for.
LISTINGS = (
    ["client", "list"], ["client", "show", "canary-client"], ["session", "list"], ["session", "show", "canary-client"], ["subscription", "list"],
    ["retained", "list"], ["user", "list"], ["user", "show", "admin"], ["user", "show", "fleet"], ["role", "list"], ["role", "show", "canary-role"],
    ["acl", "list"], ["acl", "test", "--user", "fleet", "--publish", "t"], ["domain", "list"], ["domain", "show", "default"],
    ["events", "--no-follow"], ["top", "-n", "1"], ["inspect", "damage"], ["backup", "status"], ["config", "reload"],
)  # fmt: skip
# What is there, by how a route that names one thing begins.
NAMED = {"clients": "canary-client", "sessions": "canary-client", "users": "admin", "roles": "canary-role", "domains": "default"}
# A payload is what this one is asked for, and hashes that one.
GIVES = {"/api/v1/retained/{topic}", "/api/v1/access"}


def routes(server):
    """Every route that can be read, as the server itself lists them, and those beside the API; with what they take."""
    found = json.loads(get(server, "/api/v1/openapi.json"))["paths"]
    paths = [path for path, methods in found.items() if "get" in methods and path not in GIVES]
    assert len(paths) >= 12, paths
    for path in paths:
        yield re.sub(r"{\w+}", lambda _: NAMED[path.split("/")[3]], path) + ("?after=0" if path.endswith("/events") else "")
    yield from (f"/metrics/detailed?family={family}" for family in ("clients", "sessions", "listeners"))
    yield from ("/metrics", "/healthz", "/readyz", "/api", "/api/v1/openapi.json", "/nothing")


def attempt(server, client_id, user, password, version=paho.MQTTv5, port=None, authority=None):
    """Whether the client gets in; then it publishes, keeps a message and a will."""
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=version, reconnect_on_failure=False)
    client.username_pw_set(user, password)
    if authority:
        client.tls_set(str(authority.certificate), tls_version=ssl.PROTOCOL_TLS_CLIENT)
    client.will_set("canary/will", WILL, qos=1, retain=True)
    codes = []
    client.on_connect = lambda *arguments: codes.append(arguments[3].is_failure)
    client.connect("127.0.0.1", port or server.port)
    client.loop_start()
    deadline = time.monotonic() + 20
    while not codes:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    if not codes[0]:
        client.publish("canary/kept", PAYLOAD, qos=1, retain=True).wait_for_publish(20)
        client.subscribe("canary/#", qos=1)
    return client, not codes[0]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_secret_is_ever_written(brokers, tmp_path, monkeypatch, log_format):
    """Logs at their loudest, metrics, every page of the API, every command and every error."""
    monkeypatch.setenv("CANARY_DRAWN", DRAWN)
    key = tmp_path / "key.pem"
    key.write_text(f"-----BEGIN PRIVATE KEY-----\n{base64.b64encode(KEY_BYTES).decode()}\n-----END PRIVATE KEY-----\n")
    folder = tmp_path / "data"
    binary = str(brokers.kind.binary())
    made = subprocess.run(
        [binary, "init", "courser.toml", "--data", str(folder)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    password = re.search(r"password (\S+)", made.stdout).group(1)
    file = tmp_path / "courser.toml"
    file.write_text(file.read_text() + '\n[log]\nlevel = "debug"\n')
    file.write_text(file.read_text().replace("[mqtt]\n", '[mqtt]\nresponse_information = "${ENV:CANARY_DRAWN}"\n', 1))
    server = brokers.own(config=str(file), log_format=log_format, data=str(folder))
    token = (folder / "admin.token").read_text().strip()
    good, inside = attempt(server, "canary-client", "admin", password)
    assert inside
    bad = [attempt(server, f"bad-{number}", user, word, version) for number, (user, word, version) in enumerate([
        ("admin", WRONG, paho.MQTTv5), ("nobody", PASSWORD, paho.MQTTv311), ("admin", JWT, paho.MQTTv5),
    ])]
    assert not any(inside for _, inside in bad)

    written = []
    at = ["--server", str(folder)]
    # A reload that fails says what is wrong: not the value.
    text = file.read_text()
    listener = f'\n[[listener]]\nname = "tls"\nprotocol = "mqtts"\naddress = ["127.0.0.1:0"]\ncertificate = "{key}"\nkey = "{key}"\n'
    for wrong in ('\n[sys]\ninterval = "${ENV:CANARY_DRAWN}"\n', f'\n[http]\ntoken_file = {json.dumps(JWT)}\nx = 1\n'):
        file.write_text(text + wrong)
        written += [courser(server, "config", "check", "--config", str(file)), courser(server, "config", "reload", *at)]
    file.write_text(text + listener)
    written.append(courser(server, "server", "--config", str(file), "--data", str(tmp_path / "other"), "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"))
    file.write_text(text)
    written.append(courser(server, "config", "reload", *at))
    for flags in (["--origin"], ["-o", "json"]):
        written.append(courser(server, "config", "show", "--config", str(file), *flags))
    written.append(courser(server, "config", "diff", "--config", str(file)))
    made = (["role", "add", "canary-role"], ["acl", "grant", "canary-role", "publish", "t"], ["domain", "set", "default", "--quota", "queued_messages=1000", "--yes"])
    written += [courser(server, *verb, *at) for verb in made]
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD + "\n")
    scram = ["--password-file", str(secret), "--scram"]
    for verb in (["user", "add", "fleet", "--role", "canary-role", *scram], ["user", "set-password", "fleet", "--yes", *scram], ["user", "add", "admin", *scram]):
        written.append(courser(server, *verb, *at))
    for verb in LISTINGS:
        for form in ("table", "json"):
            written.append(courser(server, *verb, "-o", form, *at))
    written.append(courser(server, "client", "show", "canary-client", *at))
    written.append(courser(server, "client", "trace", "canary-client", "-W", "1", *at))
    written.append(courser(server, "diagnose", "-", "--with-names", *at))
    token_file = tmp_path / "wrong.token"
    token_file.write_text(JWT)
    written.append(courser(server, "client", "list", "--server", server.http, "--token-file", str(token_file)))
    written.append(courser(server, "context", "add", "here", "--server", server.http, "--token-file", str(token_file)))
    written.append(courser(server, "context", "list"))
    assert "here" in (tmp_path / "config/courser/contexts.json").read_text(), "the contexts of whoever runs this are left alone"
    for flags in (["-u", "admin", "-P", WRONG], ["-L", f"mqtt://admin:{WRONG}@127.0.0.1:{server.port}/t"]):
        written.append(courser(server, "pub", "-p", str(server.port), *flags, "-t", "t", "-m", "x", "-d"))
    for path in routes(server):
        written += [get(server, path, token), get(server, path), get(server, path, JWT)]
    good.disconnect()
    for client in (good, *(client for client, _ in bad)):
        client.loop_stop()
    server.stop()
    written.append(server.log.read_text())
    assert "canary-client" in "".join(written), "what is searched is what was written"

    stored = [token, password, base64.b64encode(password.encode()).decode()]
    search(written, [PASSWORD, WRONG, JWT, JWT.split(".")[1], DRAWN, PAYLOAD, WILL, *stored, KEY_BYTES.decode(), base64.b64encode(KEY_BYTES).decode()])


def search(written, secrets):
    """None of them, and no hash of a password, is in what was written."""
    for secret in secrets:
        for forms in (secret, secret.encode().hex()):
            for text in written:
                assert forms not in text, f"{secret[:16]}… in {text[:2000]}"
    # The pages of the API say what a hash looks like.
    hashes = re.compile(r"\$argon2id\$v=19\$m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]|\$7\$\d+\$[A-Za-z0-9+/]")
    assert not hashes.search("".join(written)), "no hash either"


def scram(port, client_id, user, password):
    """CONNECT with SCRAM-SHA-256 (RFC 5802): the packet that answers the proof, and what nobody else may see of it."""
    client = RawClient(("127.0.0.1", port), wire.V5)
    bare = f"n={user},r=canarynonce"
    method = ("authentication_method", "SCRAM-SHA-256")
    client.send(wire.connect(wire.V5, client_id, properties=[method, ("authentication_data", f"n,,{bare}".encode())]))
    first = client.expect(wire.AUTH, reason=0x18).properties["authentication_data"].decode()
    nonce, salt, rounds = (part.partition("=")[2] for part in first.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), int(rounds))
    key = hmac.digest(salted, b"Client Key", "sha256")
    last = f"c=biws,r={nonce}"
    signature = hmac.digest(hashlib.sha256(key).digest(), f"{bare},{first},{last}".encode(), "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    data = [method, ("authentication_data", f"{last},p={proof}".encode())]
    client.send(wire.packet(wire.AUTH, bytes([0x18]) + wire.props(data)))
    answer = client.receive()
    client.close()
    stored = hashlib.sha256(key).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    found = [base64.b64encode(part).decode() for part in (salted, key, stored, server_key)]
    return answer, [proof, nonce, salt, *found]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_secret_of_tokens_scram_or_tls_is_ever_written(brokers, tmp_path, log_format):
    """The same with doors of every kind of login: a token that is right, ones that are not, a challenge answered well and badly, over TLS."""
    folder = tmp_path / "data"
    (tmp_path / "signer").write_text(SIGNER)
    authority = Authority(tmp_path / "authority")
    files = authority.issue("server", "server", server_names())
    local = 'address = "127.0.0.1:0"'
    file = tmp_path / "courser.toml"
    settings = f"""
listener = [
{listener("tokens", "mqtts", f'{local}, authentication = "tokens"', files)},
{listener("accounts", "mqtt", f'{local}, authentication = "accounts"')},
]
[log]
level = "debug"
[tokens]
secret_file = "{tmp_path / "signer"}"
audience = ["courser"]
issuers = ["https://login.example"]
roles_claim = "groups"
"""
    file.write_text(settings)
    server = brokers.own(config=str(file), log_format=log_format, data=str(folder))
    ports = {name: int(port) for port, name in re.findall(r" on 127\.0\.0\.1:(\d+) \((\w+)\)", server.output())}
    at = ["--server", str(folder)]
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD + "\n")
    written = [courser(server, *verb, *at) for verb in (
        ["role", "add", "device"], ["acl", "grant", "device", "all", "#"], ["role", "add", "canary-role"],
        ["user", "add", "fleet", "--role", "device", "--password-file", str(secret), "--scram"],
        ["client", "trace", "canary-scram", "-W", "0"],
    )]  # fmt: skip

    good = by_secret(SIGNER, groups=["device"])
    bad = [by_secret(WRONG), by_secret(SIGNER, exp=time.time() - 600), by_secret(SIGNER, aud="other")]
    tokens = {"port": ports["tokens"], "authority": authority}
    clients = [attempt(server, "canary-client", "anna", good, **tokens)]
    clients += [attempt(server, f"bad-{number}", "anna", token, **tokens) for number, token in enumerate(bad)]
    assert [inside for _, inside in clients] == [True, False, False, False]
    trace = subprocess.Popen(
        [str(server.binary()), "client", "trace", "canary-scram", "-W", "5", *at], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    passed, proofs = scram(ports["accounts"], "canary-scram", "fleet", PASSWORD)
    assert (passed.kind, passed.reason) == (wire.CONNACK, 0), passed
    refused, more = scram(ports["accounts"], "canary-scram", "fleet", WRONG)
    assert (refused.kind, refused.reason) == (wire.CONNACK, 0x87), refused
    token = (folder / "admin.token").read_text().strip()

    # Certificates and keys are read again, and once they cannot be.
    key = files[1].read_text()
    files[1].write_text(key.replace("PRIVATE", "PUBLIC"))
    written += [courser(server, "config", "check", "--config", str(file)), courser(server, "config", "reload", *at)]
    files[1].write_text(key)
    file.write_text(settings.replace("groups", SIGNER[:3]) + "\nx = 1\n")
    written.append(courser(server, "config", "reload", *at))
    file.write_text(settings)
    written.append(courser(server, "config", "reload", *at))
    written += [courser(server, "config", "show", "--config", str(file), *flags) for flags in (["--origin"], ["-o", "json"])]
    written += [courser(server, *verb, "-o", form, *at) for verb in LISTINGS for form in ("table", "json")]
    written.append(courser(server, "diagnose", "-", "--with-names", *at))
    for given in (["-u", "anna", "-P", bad[0]], ["-u", "anna", "-P", good]):
        written.append(courser(server, "pub", "-p", str(ports["accounts"]), *given, "-t", "t", "-m", "x", "-d"))
    for path in routes(server):
        written.append(get(server, path, token))
    written.append(trace.communicate(timeout=60)[0].decode())
    for client, _ in clients:
        client.disconnect()
        client.loop_stop()
    server.stop()
    written.append(server.log.read_text())
    assert "canary-client" in "".join(written), "what is searched is what was written"
    assert "canary-scram" in written[-2] + written[-1], "also of the exchange"

    key_text = "".join(key.splitlines()[1:-1])
    signed = [part for whole in (good, *bad) for part in whole.split(".")[1:]]
    search(written, [SIGNER, PASSWORD, WRONG, PAYLOAD, WILL, token, key_text, key.splitlines()[1], *signed, *proofs, *more])
