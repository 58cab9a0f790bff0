"""What a server says about what happens to it: one line an event with a stable key, in text and in JSON, whatever clients call themselves.

Clients are paho's.
"""

import json
import os
import re
import subprocess
import time

import paho.mqtt.client as paho
import pytest
from broker import Courser
from paho.mqtt.enums import CallbackAPIVersion

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="operators are asked over the socket in the data folder"),
]

# A cleared screen, a new title, a forged line, text from right to left, eight-bit controls.
EVIL = "evil\x1b[2J\x1b]0;owned\x07\r\nevent=forged\u202e\u009b31m\u2028"
LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (error|warn|info|debug) event=[a-z_]+( [a-z_]+=(\"(\\.|[^\"\\])*\"|\S+))*$")


def connect(server, client_id):
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
    client.connect("127.0.0.1", server.port)
    client.loop_start()
    wait_for(client.is_connected)
    return client


def wait_for(condition, what=""):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def courser(server, *arguments, code=0):
    command = [str(server.binary()), *arguments, "--server", "data"]
    done = subprocess.run(command, cwd=server.folder, capture_output=True, timeout=30, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout.decode()


def lines_of(server):
    """What is in the log beside the greeting."""
    return [line for line in server.output().split("\n") if "event=" in line or line.startswith("{")]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_names_write_no_lines_of_their_own(brokers, log_format):
    """A client that calls itself escape sequences and line ends is one line with its name escaped, at its coming and at its going."""
    server = brokers.own(log_format=log_format, log_level="debug")
    client = connect(server, EVIL)
    client.publish(EVIL, b"x", qos=1)
    client.disconnect()
    client.loop_stop()
    wait_for(lambda: "client_disconnected" in server.output(), server.output)
    found = lines_of(server)
    text = server.output()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]", text), "nothing that moves a cursor"
    named = [line for line in found if "owned" in line]
    assert len(named) >= 2
    for line in found:
        if log_format == "json":
            event = json.loads(line)
            assert {"time", "level", "event"} <= set(event)
            assert event["event"] != "forged"
            if "owned" in line:
                assert event["client_id"] == EVIL, "nothing of the name is lost"
        else:
            assert LINE.match(line), line
    server.stop()
    if log_format == "json":
        lines = [json.loads(line) for line in server.output().splitlines() if line]
        events = {line["event"]: line for line in lines}
        assert events["started"]["shards"] >= 1 and events["memory"]["max_bytes"] > 0
        assert events["listening"]["address"].startswith("127.0.0.1:") and events["listening"]["listener"] == "mqtt"
        assert events["stopped"]["sockets"] >= 1, "figures are numbers of their own, not words of the message"
        assert {"started", "listening", "data", "ready", "stopped"} <= set(events), "the greeting is events too"


def test_level_changes_while_it_runs(tmp_path, brokers):
    """`log.level` and `log.format` are in force at once after a reload, and the server says which settings it has."""
    file = tmp_path / "courser.toml"
    file.write_text("")
    server = brokers.own(config=str(file))
    connect(server, "silent").disconnect()
    digest = json.loads(courser(server, "top", "-n", "1", "-o", "jsonl"))["settings_digest"]
    file.write_text('log = { level = "debug", format = "json" }')
    answer = json.loads(courser(server, "config", "reload", "-o", "json"))
    assert sorted(change["key"] for change in answer["applied"]) == ["log.format", "log.level"]
    assert answer["digest"] != digest
    assert json.loads(courser(server, "top", "-n", "1", "-o", "jsonl"))["settings_digest"] == answer["digest"]
    connect(server, "loud").disconnect()
    wait_for(lambda: '"loud"' in server.output(), server.output)
    file.write_text('log = { level = "error" }')
    courser(server, "config", "reload")
    connect(server, "quiet").disconnect()
    courser(server, "client", "show", "quiet")
    text = server.output()
    assert "silent" not in text and "quiet" not in text
    line = next(json.loads(line) for line in text.splitlines() if '"loud"' in line)
    assert line["event"] == "client_connected" and line["level"] == "debug"


def test_trace_of_one_client(brokers):
    """Each packet of one client, none of another one, and neither payload nor what it calls itself as it is."""
    server = brokers.own()
    other = connect(server, "other")
    command = [str(server.binary()), "client", "trace", EVIL, "--server", "data", "-W", "20", "-C", "9"]
    trace = subprocess.Popen(command, cwd=server.folder, stdout=subprocess.PIPE)
    wait_for(lambda: "trace_began" in server.output(), server.output)
    client = connect(server, EVIL)
    got = []
    client.on_message = lambda *arguments: got.append(arguments[2])
    client.subscribe("t/#", qos=1)
    # What the client does not get: one packet more, and the trace would end before the last one that is wanted.
    other.publish("elsewhere", b"canary", qos=0).wait_for_publish(20)
    client.publish("t/a", b"canary", qos=1).wait_for_publish(20)
    wait_for(lambda: any(message.topic == "t/a" for message in got))
    client.disconnect()
    client.loop_stop()
    out, _ = trace.communicate(timeout=30)
    text = out.decode()
    assert trace.returncode == 0, text
    for words in ("-- connected", "-> CONNACK", "<- SUBSCRIBE", '"t/#" QoS 1', "-> SUBACK", "<- PUBLISH \"t/a\", QoS 1", "-> PUBACK", "-> PUBLISH \"t/a\""):
        assert words in text, text
    assert "canary" not in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]", text)
    other.disconnect()
    other.loop_stop()


def test_what_a_start_and_a_reload_say_are_values(tmp_path):
    """With `log.format = "json"`: numbers of what was recovered, who may connect, what is in force, and which setting is wrong."""
    folder = tmp_path / "broker"
    folder.mkdir()
    config = folder / "courser.toml"
    config.write_text("[sys]\ninterval = \"5s\"\n")
    server = Courser(folder, {"config": str(config), "log_format": "json"}).start()
    try:
        client = connect(server, "one")
        client.publish("kept", b"x", qos=1, retain=True).wait_for_publish(20)
        client.disconnect()
        client.loop_stop()
        assert server.stop() == 0
        server.start()
        events = {line["event"]: line for line in map(json.loads, lines_of(server))}
        recovered = events["recovered"]
        counters = ["segments", "batches", "entries", "bytes", "segments_not_read", "cut_bytes", "damaged_places", "entries_to_apply", "read_ms", "took_ms"]
        assert all(type(recovered[name]) is int for name in counters), recovered
        assert recovered["segments"] > 0 and recovered["damaged_places"] == 0
        assert events["access"]["public"] == [] and f"127.0.0.1:{server.port}" in events["access"]["anonymous"]
        config.write_text("[sys]\nintervall = \"5s\"\n")
        courser(server, "config", "reload", code=1)
        wait_for(lambda: "setting_wrong" in server.output())
        wrong = next(line for line in map(json.loads, lines_of(server)) if line["event"] == "setting_wrong")
        assert (wrong["key"], wrong["file"], wrong["line"], wrong["column"]) == ("sys.intervall", str(config), 2, 1)
        assert server.stop() == 0
    finally:
        server.stop()
