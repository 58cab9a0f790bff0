"""Limits of the settings, for those of whom users, roles and the domain say nothing: with a client of others, and changed while it is there."""

import os
import subprocess
import time

import paho.mqtt.client as paho
import pytest
from broker import Courser
from doors import WithAccounts, running
from paho.mqtt.enums import CallbackAPIVersion

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="a reload is asked for by the socket in the data folder"),
]

MESSAGES = 60
# Seconds that they take at least: 20 are the burst, and what comes in one read is taken before it is paid for.
SLOW = 1.5


class Client:
    """A paho client, and what it was answered."""

    def __init__(self, port, client_id, password=None):
        self.answers = []
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
        self.client.on_connect = lambda _client, _data, _flags, reason, _properties: self.answers.append(reason.value)
        if password:
            self.client.username_pw_set("root", password)
        # Who is refused does not come again by itself.
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        deadline = time.monotonic() + 15
        while not self.answers:
            assert time.monotonic() < deadline, "no CONNACK"
            time.sleep(0.01)

    def takes(self, count=MESSAGES, payload=b"x"):
        """Seconds until so many publishes, each after the answer of the one before it, are acknowledged."""
        begun = time.monotonic()
        for _ in range(count):
            sent = self.client.publish("limit/x", payload, qos=1)
            sent.wait_for_publish(30)
            assert sent.is_published()
        return time.monotonic() - begun

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


def run(broker, *arguments):
    command = [str(Courser.binary()), *arguments, "--server", str(broker.folder / "data")]
    done = subprocess.run(command, cwd=broker.folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def is_slowed(broker, client, **what):
    """Whether the broker has let this client wait: then it takes as long as the rate says. A machine may take that long by itself."""
    before = broker.metric("courser_publishers_over_quota_total")
    took = client.takes(**what)
    slowed = broker.metric("courser_publishers_over_quota_total") > before
    assert took >= SLOW or not slowed, took
    return slowed


def test_rates_of_the_settings_slow_down_whom_nothing_else_limits(tmp_path):
    """Also a client that does not log in and is there when they change; the domain goes before them, in both directions."""
    config = tmp_path / "limits.toml"
    config.write_text("[limits]\nmessages_per_second = 20\n")
    with running(Courser, tmp_path / "broker", config=str(config)) as broker:
        client = Client(broker.port, "settings")
        assert is_slowed(broker, client)
        run(broker, "domain", "set", "default", "--quota", "messages_per_second=1000000")
        assert not is_slowed(broker, client), "the domain says more"
        run(broker, "domain", "set", "default", "--quota", "messages_per_second=none")
        assert is_slowed(broker, client)
        config.write_text("[limits]\n")
        assert "applied: limits.messages_per_second: 20 -> 0 (at once)" in run(broker, "config", "reload")
        assert not is_slowed(broker, client), "there is none any more"
        config.write_text('[limits]\nbytes_per_second = "20KiB"\n')
        assert 'applied: limits.bytes_per_second: "0B" -> "20KiB" (at once)' in run(broker, "config", "reload")
        assert is_slowed(broker, client, payload=b"x" * 1000)
        client.close()


def test_a_user_has_as_many_clients_as_the_settings_say(tmp_path):
    broker = WithAccounts(tmp_path / "broker", {})
    broker.folder.mkdir(parents=True, exist_ok=True)
    broker.command()
    config = broker.folder / "courser.toml"
    as_it_was = config.read_text()
    config.write_text(as_it_was + "\n[limits]\nconnections = 1\n")
    broker.start()
    clients = []
    try:

        def code(client_id):
            clients.append(Client(broker.port, client_id, broker.password))
            return clients[-1].answers[0]

        assert code("first") == 0
        refused = Client(broker.port, "second", broker.password)
        refused.close()
        assert refused.answers[0] == 0x97, "Quota exceeded"
        config.write_text(as_it_was + "\n[limits]\nconnections = 2\n")
        assert "applied: limits.connections: 1 -> 2 (at once)" in run(broker, "config", "reload")
        assert code("second") == 0
        assert all(client.client.is_connected() for client in clients)
    finally:
        for client in clients:
            client.close()
        assert broker.stop() == 0, broker.tail()
