"""Settings are read again on SIGHUP: what is right is in force at once, what is wrong changes nothing, nobody is dropped."""

import signal
import subprocess
import time

import paho.mqtt.client as paho
import pytest
import wire
from broker import Courser
from doors import LOOPBACK, Authority, server_names
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from raw import RawClient
from wire import CONNACK, PUBACK, V5

pytestmark = pytest.mark.courser

CLIENTS = 100
MANY, RELOADS = 1000, 5
FILE = """
[mqtt]
listen = ["127.0.0.1:0"]
receive_maximum = {receive}
"""


def connect(port, client_id):
    """A paho client and the CONNACK properties that it got."""
    told = []

    def on_connect(_client, _data, _flags, _reason, properties: Properties):
        told.append(properties)

    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
    client.on_connect = on_connect
    client.connect("127.0.0.1", port)
    client.loop_start()
    deadline = time.monotonic() + 15
    while not told:
        assert time.monotonic() < deadline, "no CONNACK"
        time.sleep(0.01)
    return client, told[0]


class Server:
    def __init__(self, folder, *flags):
        self.log = folder / "server.log"
        command = [str(Courser.binary()), "server", "--config", str(folder / "courser.toml"), "--http", "127.0.0.1:0", *flags]
        with self.log.open("w") as output:
            self.process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        self.wait_for("ready\n")
        address = next(line for line in self.log.read_text().splitlines() if line.startswith("MQTT"))
        self.port = int(address.rsplit(":", 1)[1])

    def wait_for(self, text, times=1):
        deadline = time.monotonic() + 15
        while self.log.read_text().count(text) < times:
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.01)

    def reload(self):
        self.process.send_signal(signal.SIGHUP)


def test_hangup_reloads(tmp_path):
    file = tmp_path / "courser.toml"
    file.write_text(FILE.format(receive=16))
    server = Server(tmp_path, "--in-memory", "--shards", "2")
    clients = []
    try:
        clients = [connect(server.port, f"c{number}") for number in range(CLIENTS)]
        assert {told.ReceiveMaximum for _, told in clients} == {16}

        file.write_text(FILE.format(receive=32) + "[server]\npin_shards = true\n")
        server.reload()
        server.wait_for("settings reloaded: 1 applied")
        text = server.log.read_text()
        assert "applied: mqtt.receive_maximum: 16 -> 32 (new connections)" in text
        assert "needs a restart: server.pin_shards: false -> true (restart)" in text
        clients.append(connect(server.port, "new"))
        assert clients[-1][1].ReceiveMaximum == 32

        file.write_text(FILE.format(receive=0))
        server.reload()
        server.wait_for("settings not reloaded")
        assert "courser.toml:4:19: mqtt.receive_maximum: 0 is out of range" in server.log.read_text()
        clients.append(connect(server.port, "newer"))
        assert clients[-1][1].ReceiveMaximum == 32, "what was in force stays in force"

        file.unlink()
        server.reload()
        server.wait_for("settings not reloaded", times=2)
        assert all(client.is_connected() for client, _ in clients), "nobody is dropped"
        for client, _ in clients:
            assert client.publish("a/b", b"x", qos=1).rc == paho.MQTT_ERR_SUCCESS
    finally:
        for client, _ in clients:
            client.disconnect()
            client.loop_stop()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0


def test_a_certificate_that_is_wrong_changes_nothing(tmp_path):
    """The answer names its file, and settings that are right stay as they were too; another path needs a restart, and the answer says so."""
    authority = Authority(tmp_path / "certificates")
    files, others = (authority.issue(name, "server", server_names()) for name in ("server", "another"))
    config = tmp_path / "courser.toml"

    def write(receive, files):
        config.write_text(FILE.format(receive=receive) + f"[[listener]]\nname = \"tls\"\nprotocol = \"mqtts\"\n{LOOPBACK}\n"
                          f'certificate = "{files[0]}"\nkey = "{files[1]}"\n')  # fmt: skip

    write(16, files)
    key = files[1].read_bytes()
    server = Server(tmp_path, "--data", str(tmp_path / "data"))
    ask = [str(Courser.binary()), "config", "reload", "--server", str(tmp_path / "data")]

    def reload():
        return subprocess.run(ask, capture_output=True, text=True, timeout=30, check=False)

    try:
        write(32, files)
        files[1].write_bytes(others[1].read_bytes())
        refused = reload()
        assert refused.returncode == 1 and str(files[1]) in refused.stderr, refused
        client, told = come(server.port, "between")
        client.close()
        assert told == 16
        files[1].write_bytes(key)
        write(32, others)
        done = reload()
        assert done.returncode == 0, done
        assert f'needs a restart: listener["tls"].key: "{files[1]}" -> "{others[1]}" (restart)' in done.stdout, done.stdout
        client, told = come(server.port, "after")
        client.close()
        assert told == 32
    finally:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0


def come(port, client_id):
    """A client on a bare socket, and the Receive Maximum that it was told."""
    client = RawClient(("127.0.0.1", port), V5)
    client.send(wire.connect(V5, client_id))
    return client, client.expect(CONNACK, reason=0).properties["receive_maximum"]


@pytest.mark.timeout(180)
def test_a_thousand_clients_stay(tmp_path):
    """Five times the settings change while all of them publish, once to something wrong: each is answered, and none is dropped."""
    file = tmp_path / "courser.toml"
    file.write_text(FILE.format(receive=10))
    server = Server(tmp_path, "--in-memory", "--shards", "2")
    clients = []
    try:
        for number in range(MANY):
            client, receive = come(server.port, f"many{number}")
            clients.append(client)
            assert receive == 10
        for number in range(1, RELOADS + 1):
            wrong = number == 3
            file.write_text(FILE.format(receive=0 if wrong else 10 + number))
            for at, client in enumerate(clients):
                if at == MANY // 2:
                    server.reload()
                client.send(wire.publish(V5, f"reload/{at}", b"x" * 100, qos=1, packet_id=number))
            for client in clients:
                client.expect(PUBACK, packet_id=number)
            server.wait_for("settings not reloaded" if wrong else f"-> {10 + number} (new connections)")
            newcomer, receive = come(server.port, f"new{number}")
            newcomer.close()
            assert receive == (12 if wrong else 10 + number), "what was in force stays in force"
        for client in clients:
            client.send(wire.PING)
        for client in clients:
            client.expect(wire.PINGRESP)
    finally:
        for client in clients:
            client.close()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
