"""Clients that an operator sends to another server while they are connected.

A client of 5.0 hears DISCONNECT 0x9C or 0x9D with a Server Reference (v5 section 4.11), a client of 3.1.1 is only closed.
"""

import http.client
import json
import os
import queue
import socket

import paho.mqtt.client as paho
import pytest
import wire
from clients.base import Refused, Will
from paho.mqtt.enums import CallbackAPIVersion

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="without a data folder there is no socket"),
]

WAIT_SECONDS = 10


def redirect(server, client_id, **body):
    """Status and body of the answer to the order."""
    connection = http.client.HTTPConnection("localhost", timeout=20)
    connection.sock = socket.socket(socket.AF_UNIX)
    folder = os.open(server.folder / "data", os.O_RDONLY)
    try:
        connection.sock.connect(f"/proc/self/fd/{folder}/admin.sock")
        connection.request("POST", f"/api/v1/clients/{client_id}/redirect", json.dumps(body))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        os.close(folder)
        connection.close()


@pytest.mark.parametrize("permanent, reason", [(False, 0x9C), (True, 0x9D)])
def test_connected_clients(brokers, raw, permanent, reason):
    """5.0 is told where to and closed; 3.1.1 is closed without a byte more. The will is sent: the client has not said good-bye."""
    raw.broker = broker = brokers.own(sys_interval=0)
    watcher = raw.open()
    watcher.connect(raw.client_id("watcher"))
    watcher.subscribe(("wills", 0))
    client = raw.open()
    client.connect(raw.client_id("sent"), will=wire.Will("wills", b"gone"))
    status, done = redirect(broker, raw.client_id("sent"), to="b.example:1883 c.example", permanent=permanent)
    assert (status, done) == (200, {"done": "redirected", "what": raw.client_id("sent")})
    if raw.v5:
        found = client.expect(wire.DISCONNECT, reason=reason)
        assert found.properties["server_reference"] == "b.example:1883 c.example"
    assert client.receive() is None
    assert watcher.expect(wire.PUBLISH).payload == b"gone"
    assert redirect(broker, raw.client_id("sent"), to="b.example")[0] == 404


PLACES = "[2001:db8::1]:1883 c.example"


@pytest.mark.v5
@pytest.mark.parametrize("permanent, reason", [(False, 0x9C), (True, 0x9D)])
def test_libraries_are_told_the_server(brokers, mqtt, permanent, reason):
    """DISCONNECT with the reason and the Server Reference, as each library shows it (v5 section 4.11)."""
    mqtt.broker = broker = brokers.own(sys_interval=0)
    client = mqtt.connect("fleet", will=Will("wills", b"gone"))
    assert redirect(broker, mqtt.client_id("fleet"), to=PLACES, permanent=permanent)[0] == 200
    assert client.wait_closed() == reason
    assert client.close_properties["server_reference"] == PLACES


@pytest.mark.v5
@pytest.mark.parametrize("permanent, reason", [("false", 0x9C), ("true", 0x9D)])
def test_libraries_are_told_the_server_in_connack(brokers, mqtt, permanent, reason):
    """CONNACK with the same, from a broker that sends all its clients elsewhere (v5 section 4.11)."""
    mqtt.broker = brokers.common(redirect_to=PLACES, redirect_permanently=permanent)
    try:
        connack = mqtt.open("fleet")[1]
        code, properties = connack.reason_code, connack.properties
    except Refused as refused:
        code, properties = refused.reason_code, refused.properties
    assert code == reason
    assert properties["server_reference"] == PLACES


def test_paho_comes_back_with_its_session(brokers):
    """A library that reconnects by itself finds its session where it was: it is only told where to go."""
    broker = brokers.own(sys_interval=0)
    ends, presents = queue.Queue(), queue.Queue()
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="fleet", protocol=paho.MQTTv5)
    client.on_connect = lambda _client, _user, flags, _reason, _properties: presents.put(flags.session_present)
    client.on_disconnect = lambda _client, _user, _flags, reason, properties: ends.put((reason, properties))
    lasting = paho.Properties(paho.PacketTypes.CONNECT)
    lasting.SessionExpiryInterval = 60
    client.connect("127.0.0.1", broker.port, clean_start=False, properties=lasting)
    client.loop_start()
    assert presents.get(timeout=WAIT_SECONDS) is False
    assert redirect(broker, "fleet", to="[2001:db8::1]:1883")[0] == 200
    reason, properties = ends.get(timeout=WAIT_SECONDS)
    assert reason.value == 0x9C
    assert properties.ServerReference == "[2001:db8::1]:1883"
    assert properties.ReasonString == "for now the server that is named here takes the place of this one"
    # Nothing is closed to it here: the library comes again by itself, to the server that it knows.
    assert presents.get(timeout=WAIT_SECONDS) is True
    client.disconnect()
    client.loop_stop()


def test_what_is_no_place_is_refused(brokers, raw):
    """An order that no client could follow is a mistake of the operator: nobody is closed."""
    raw.broker = broker = brokers.own(sys_interval=0)
    client = raw.open()
    client.connect(raw.client_id("stays"))
    for body in ({"to": ""}, {"to": "b:0"}, {"to": "b  c"}, {"to": "x" * 1025}, {}, {"to": "b", "for": "ever"}):
        status, answer = redirect(broker, raw.client_id("stays"), **body)
        assert (status, answer["error"]["code"]) == (400, 1000), body
    client.ping()
