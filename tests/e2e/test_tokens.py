"""JSON Web Tokens: paho with tokens by RS256 and HS256, keys that change while the broker runs, and a connection that ends with its token.

Tokens are signed by openssl and by Python's hmac, not by what verifies them.
"""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import threading
import time

import paho.mqtt.client as paho
import pytest
from broker import Courser
from doors import running
from paho.mqtt.enums import CallbackAPIVersion

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="roles are made over the socket in the data folder"),
]

SECRET = "a secret that is long enough to be one"


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """Signs with an RSA key, and has a file with its key set."""

    def __init__(self, folder, name):
        self.key = folder / f"{name}.key"
        self.name = name
        self._openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(self.key))
        modulus = self._openssl("rsa", "-in", str(self.key), "-noout", "-modulus").decode().strip().removeprefix("Modulus=")
        self.jwk = {"kty": "RSA", "kid": name, "alg": "RS256", "use": "sig", "n": b64(bytes.fromhex(modulus)), "e": "AQAB"}

    @staticmethod
    def _openssl(*arguments, data=None):
        return subprocess.run(["openssl", *arguments], input=data, check=True, capture_output=True).stdout

    def token(self, **claims):
        head = {"alg": "RS256", "kid": self.name}
        return signed(head, claims, lambda text: self._openssl("dgst", "-sha256", "-sign", str(self.key), data=text))


def signed(head, claims, sign):
    claims = {"sub": "anna", "aud": "courser", "iss": "https://login.example", "groups": ["device"], "exp": time.time() + 600} | claims
    text = f"{b64(json.dumps(head).encode())}.{b64(json.dumps(claims).encode())}"
    return f"{text}.{b64(sign(text.encode()))}"


def by_secret(secret, **claims):
    return signed({"alg": "HS256"}, claims, lambda text: hmac.new(secret.encode(), text, hashlib.sha256).digest())


@pytest.fixture(scope="module")
def issuers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("issuers")
    return Issuer(folder, "first"), Issuer(folder, "second")


@pytest.fixture
def server(tmp_path, issuers):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [issuers[0].jwk]}))
    (tmp_path / "secret").write_text(SECRET)
    config = tmp_path / "courser.toml"
    config.write_text(f"""
[mqtt]
authentication = "tokens"
[tokens]
key_set = "{keys}"
secret_file = "{tmp_path / "secret"}"
audience = ["courser"]
issuers = ["https://login.example"]
leeway = "0s"
roles_claim = "groups"
""")
    with running(Courser, tmp_path, config=str(config)) as broker:
        operate(broker, "role", "add", "device")
        operate(broker, "acl", "grant", "device", "all", "d/%u/#")
        yield broker


def operate(broker, *arguments):
    command = [str(Courser.binary()), *arguments, "--server", str(broker.folder / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


class Client:
    """A paho client with a token for a password; `reason` is that of CONNACK, `ended` that of the end."""

    def __init__(self, broker, token, user="anna", version=paho.MQTTv5, client_id="c1"):
        self.connected, self.disconnected, self.got = threading.Event(), threading.Event(), threading.Event()
        self.reason = self.ended = self.message = None
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=version, reconnect_on_failure=False)
        self.paho.username_pw_set(user, token)
        self.paho.on_connect, self.paho.on_disconnect, self.paho.on_message = self._connect, self._disconnect, self._message
        self.paho.connect("127.0.0.1", broker.port)
        self.paho.loop_start()
        assert self.connected.wait(20), "no CONNACK"

    def _connect(self, _client, _data, _flags, reason, _properties):
        self.reason = reason
        self.connected.set()

    def _disconnect(self, _client, _data, _flags, reason, _properties):
        self.ended = reason
        self.disconnected.set()

    def _message(self, _client, _data, message):
        self.message = (message.topic, message.payload)
        self.got.set()

    def close(self):
        self.paho.disconnect()
        self.paho.loop_stop()


def code(broker, token, **how):
    client = Client(broker, token, **how)
    client.close()
    return client.reason.value


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
def test_who_has_a_token_comes_in_and_may_what_its_roles_say(server, issuers, version):
    for token in (issuers[0].token(), by_secret(SECRET)):
        client = Client(server, token, version=version)
        assert not client.reason.is_failure, client.reason
        client.paho.on_subscribe = lambda *_, client=client: client.paho.publish("d/anna/x", "hello", qos=1)
        client.paho.subscribe("d/anna/#", qos=1)
        assert client.got.wait(20)
        assert client.message == ("d/anna/x", b"hello")
        client.close()
    public = json.dumps(issuers[0].jwk)
    for token in (
        issuers[1].token(),
        by_secret(public),
        issuers[0].token(exp=time.time() - 1),
        issuers[0].token(iss="https://evil.example"),
    ):
        client = Client(server, token, version=version)
        assert client.reason.is_failure
        client.close()


def test_a_connection_ends_with_its_token(server, issuers):
    client = Client(server, issuers[0].token(exp=int(time.time()) + 3))
    assert not client.reason.is_failure, client.reason
    assert client.disconnected.wait(20)
    assert client.ended.value == 0xA0, client.ended
    client.close()


def test_keys_change_while_it_runs(server, issuers, tmp_path):
    first, second = issuers
    assert code(server, first.token()) == 0
    replaced = tmp_path / "keys.new"
    replaced.write_text(json.dumps({"keys": [second.jwk]}))
    replaced.rename(tmp_path / "keys.json")
    deadline = time.monotonic() + 20
    while "event=token_keys_changed" not in server.output():
        assert time.monotonic() < deadline, server.tail()
        time.sleep(0.05)
    assert code(server, second.token(), client_id="c2") == 0
    assert code(server, first.token(), client_id="c3") == 0x86
    assert SECRET not in server.output()
