"""`courser request` and `courser probe` against this broker and against Mosquitto.

The one who answers a request is paho's.
"""

import json
import subprocess
import time

import paho.mqtt.client as paho
import pytest
from broker import Courser, Mosquitto
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

pytestmark = pytest.mark.courser


@pytest.fixture(params=["courser", "mosquitto"])
def server(request, brokers, tmp_path):
    if request.param == "courser":
        yield brokers.common(sys_interval=1)
        return
    try:
        found = Mosquitto(tmp_path / "mosquitto").start()
    except FileNotFoundError:
        pytest.skip("there is no mosquitto: apt-get install mosquitto")
    yield found
    found.stop()


def courser(*arguments, code=0):
    command = [str(Courser.binary()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def answering(server):
    """A client that answers what it is asked, in capitals, after an answer to another question."""
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="answers", protocol=paho.MQTTv5)
    ready = []
    client.on_subscribe = lambda *arguments: ready.append(True)

    def on_message(_client, _data, message):
        for data, payload in ((b"another question", b"wrong"), (message.properties.CorrelationData, message.payload.upper())):
            properties = Properties(PacketTypes.PUBLISH)
            properties.CorrelationData = data
            client.publish(message.properties.ResponseTopic, payload, qos=1, properties=properties)

    client.on_message = on_message
    client.connect("127.0.0.1", server.port)
    client.loop_start()
    client.subscribe("service/#", qos=1)
    deadline = time.monotonic() + 20
    while not ready:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return client


def test_request(server):
    """The answer to this question is printed, not one to another question; without an answer the command ends with 27."""
    client = answering(server)
    at = ["-p", str(server.port)]
    assert courser("request", *at, "service/shout", "hello")[0] == "HELLO\n"
    assert courser("request", *at, "-L", f"mqtt://127.0.0.1:{server.port}/service/x", "-m", "a b", "-F", "%p|%q")[0] == "A B|1\n"
    assert courser("request", *at, "-q", "0", "--response-topic", "mine/answers", "service/x", "c", "-F", "%t %p")[0] == "mine/answers C\n"
    client.disconnect()
    client.loop_stop()
    out, error = courser("request", *at, "-W", "0.5", "service/shout", "hello", code=27)
    assert out == "" and "no answer" in error
    courser("request", *at, "-V", "311", "service/shout", "hello", code=2)
    courser("request", "-p", "1", "service/shout", "hello", code=3)


def test_probe(server):
    """What the broker tells and what it does agree, and are what is known of it."""
    rows = [json.loads(line) for line in courser("probe", f"127.0.0.1:{server.port}", "-o", "jsonl")[0].splitlines()]
    found = {row["what"]: row["found"] for row in rows}
    for what in ("mqtt_3.1.1", "mqtt_5.0", "qos_0", "qos_1", "qos_2", "wildcards", "retained", "shared", "identifiers", "large_message", "will", "kept_session", "sys_version"):
        assert found[what].startswith("yes"), f"{what}: {found[what]}"
    for what in ("retain_available", "wildcard_subscriptions", "subscription_identifiers", "shared_subscriptions"):
        assert found[what] == "yes"
    assert found["maximum_qos"] == "2"
    if server.name == "courser":
        assert found["receive_maximum"] == "1024 publishes"
        assert found["topic_alias_maximum"] == "32 aliases"
        assert "courser" in found["sys_version"]
    else:
        assert "mosquitto" in found["sys_version"]
    assert {row["known"] for row in rows} == {"told", "tried"}
    table = courser("probe", "-p", str(server.port))[0]
    assert table.startswith("WHAT") and "mqtt_5.0" in table
    courser("probe", "127.0.0.1:1", code=3)


@pytest.mark.courser
def test_probe_of_a_server_that_has_not_all(brokers):
    """What is switched off is told, and each trial of it ends with no."""
    server = brokers.own(qos=1, wildcard_subscriptions="false", subscription_identifiers="false", shared_subscriptions="false")
    rows = [json.loads(line) for line in courser("probe", f"127.0.0.1:{server.port}", "-o", "jsonl")[0].splitlines()]
    found = {row["what"]: row["found"] for row in rows}
    assert found["maximum_qos"] == "1"
    for what in ("wildcard_subscriptions", "subscription_identifiers", "shared_subscriptions"):
        assert found[what] == "no"
    for what in ("qos_2", "wildcards", "shared", "identifiers"):
        assert found[what].startswith("no"), f"{what}: {found[what]}"
    for what in ("mqtt_3.1.1", "mqtt_5.0", "qos_0", "qos_1", "retained", "kept_session"):
        assert found[what].startswith("yes"), f"{what}: {found[what]}"


def test_probe_leaves_nothing(brokers):
    """No session and no retained message of the probe is left."""
    server = brokers.own()
    courser("probe", "-p", str(server.port))
    for noun in ("session", "retained", "client"):
        done = subprocess.run(
            [str(server.binary()), noun, "list", "-o", "jsonl", "--server", "data"], cwd=server.folder, capture_output=True, text=True, timeout=30, check=True
        )
        assert "probe" not in done.stdout
