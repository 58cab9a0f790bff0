"""What a client is denied, refused or has sent wrongly is seen by who runs the broker: in the log, of the client, in events and in its trace."""

import json
import os
import socket
import subprocess
import time

import pytest
import wire
from broker import Courser, until
from doors import WithAccounts, listener, running
from raw import RawClient
from wire import CONNACK, SUBACK, V3, V5

pytestmark = [
    pytest.mark.courser,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="without a data folder there is no socket"),
]

SECRET = "of-a-device"


def courser(broker, *words):
    command = [str(Courser.binary()), *words, "--server", str(broker.folder / "data")]
    done = subprocess.run(command, cwd=broker.folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture
def broker(tmp_path):
    """Its user `dev` may publish and subscribe to `own/#`."""
    with running(WithAccounts, tmp_path / "broker", sys_interval=0) as found:
        (found.folder / "secret").write_text(f"{SECRET}\n")
        courser(found, "role", "add", "device")
        courser(found, "acl", "grant", "device", "publish", "own/#")
        courser(found, "acl", "grant", "device", "subscribe", "own/#")
        courser(found, "user", "add", "dev", "--role", "device", "--password-file", "secret")
        yield found


def connect(broker, version, client_id, password=SECRET, reason=0, **options):
    client = RawClient(broker.address, version)
    client.send(wire.connect(version, client_id, username="dev", password=password.encode(), **options))
    client.expect(CONNACK, reason=reason)
    return client


def denials(broker):
    return [line for line in broker.output().splitlines() if "event=denied" in line]


def shown(broker, client_id):
    return json.loads(courser(broker, "client", "show", client_id, "-o", "json"))


@pytest.mark.parametrize("version", [V3, V5])
def test_what_a_client_is_denied_is_named(broker, version):
    """A SUBSCRIBE and a publish of QoS 0, of which 3.1.1 hears at most a code, and of the publish no version hears anything."""
    client = connect(broker, version, "sensor")
    client.send(wire.subscribe(version, 1, [("secret/#", 0)]))
    client.expect(SUBACK, packet_id=1)
    until(lambda: denials(broker), "no line")
    client.send(wire.publish(version, 'other/"x" y', b"payload"))
    until(lambda: len(denials(broker)) == 2, "no second line")
    subscribed, published = denials(broker)
    for line in (subscribed, published):
        for part in (" warn ", "client_id=sensor ", "user=dev ", "address=127.0.0.1:", "listener=mqtt ", "left_out=0"):
            assert part in line, line
        assert "payload" not in line
    assert 'action=subscribe topic="secret/#"' in subscribed, subscribed
    assert 'action=publish topic="other/\\"x\\" y"' in published, published
    found = shown(broker, "sensor")
    assert [event["event"] for event in found["events"]] == ["connected", "denied"]
    last = found["events"][-1]
    assert (last["action"], last["topic"]) == ("publish", 'other/"x" y')
    assert last["address"].startswith("127.0.0.1:")
    assert last["cause"] == 'it may not publish to "other/\\"x\\" y"'
    told = [event for event in json.loads(courser(broker, "events", "--no-follow", "-o", "json"))["items"] if event["event"] == "denied"]
    assert [event["topic"] for event in told] == ["secret/#", 'other/"x" y']
    assert "it may not publish to" in courser(broker, "client", "show", "sensor")
    client.close()
    # Also once it has gone.
    until(lambda: shown(broker, "sensor")["client"] is None, "it is still there")
    assert [event["event"] for event in shown(broker, "sensor")["events"]] == ["connected", "denied", "disconnected"]


@pytest.mark.parametrize("version", [V3, V5])
@pytest.mark.parametrize("retain", [False, True])
def test_who_writes_to_the_topics_of_the_broker_itself_is_named(tmp_path, version, retain):
    """At QoS 0, which hears nothing of it, also where nobody logs in. It is no fault: the client stays."""
    with running(Courser, tmp_path / "broker") as broker:
        client = RawClient(broker.address, version)
        client.send(wire.connect(version, "forger"))
        client.expect(CONNACK, reason=0)
        client.send(wire.publish(version, "$SYS/broker/forged", b"payload", retain=retain))
        client.ping()
        until(lambda: denials(broker), "no line")
        (line,) = denials(broker)
        for part in (" warn ", "client_id=forger ", "action=publish topic=\"$SYS/broker/forged\" "):
            assert part in line, line
        last = shown(broker, "forger")["events"][-1]
        assert (last["event"], last["action"], last["topic"]) == ("denied", "publish", "$SYS/broker/forged")
        client.close()


def test_a_client_that_is_denied_all_the_time_does_not_fill_the_log(broker):
    """The same is written once a minute, of others four lines a second, and the next line says how many were not."""
    client = connect(broker, V5, "busy")
    begun = time.monotonic()
    for _ in range(2000):
        client.send(wire.publish(V5, "other/same", b"x"))
    for number in range(200):
        client.send(wire.publish(V5, f"other/{number}", b"x"))
    client.send(wire.publish(V5, "own/last", b"x", qos=1, packet_id=9))
    client.expect(wire.PUBACK, packet_id=9)
    most = 4 * (time.monotonic() - begun + 2)
    lines = denials(broker)
    assert 4 <= len(lines) <= most, (len(lines), most)
    assert sum("topic=other/same " in line for line in lines) == 1
    last = shown(broker, "busy")["events"][-1]
    assert last["topic"] == "other/199", "the last one is kept, written or not"
    time.sleep(1.1)
    client.send(wire.publish(V5, "other/end", b"x"))
    until(lambda: "topic=other/end " in denials(broker)[-1], "no line")
    left_out = [int(line.split("left_out=")[1].split()[0]) for line in denials(broker)]
    assert sum(left_out) + len(left_out) == 2201
    client.close()


def test_of_a_client_that_is_there_its_first_connection_and_its_user_are_shown(broker):
    """Of a session that ends with its connection as well."""
    client = connect(broker, V5, "first")
    found = shown(broker, "first")
    assert [event["event"] for event in found["events"]] == ["connected"]
    assert found["events"][0]["address"] == found["client"]["address"]
    assert found["session"]["user"] == found["client"]["user"] == "dev"
    rows = json.loads(courser(broker, "session", "list", "-o", "json"))["items"]
    assert [row["user"] for row in rows if row["client_id"] == "first"] == ["dev"]
    client.close()


@pytest.mark.parametrize("version", [V3, V5])
def test_a_trace_begins_with_connect_also_of_who_is_refused(broker, version):
    """Why does it not come in: a guess, then the password, then what it may not."""
    at = ["--server", str(broker.folder / "data")]
    command = [str(Courser.binary()), "client", "trace", "sensor", "-W", "60", "-C", "11", "-o", "jsonl", *at]
    trace = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    until(lambda: "event=trace_began" in broker.output(), "it does not begin")
    connect(broker, version, "another", password="wrong-guess", reason=4 if version == V3 else 0x86).close()
    connect(broker, version, "sensor", password="wrong-guess", reason=4 if version == V3 else 0x86).close()
    client = connect(broker, version, "sensor")
    client.send(wire.publish(version, "other/a", b"payload"))
    client.send(wire.packet(wire.PINGREQ, b""))
    text = trace.communicate(timeout=90)[0]
    lines = [json.loads(line) for line in text.splitlines()]
    words = [(line["direction"], line["what"]) for line in lines]
    assert words[0][1].startswith("comes from 127.0.0.1:") and words[0][1].endswith('listener "mqtt"')
    assert words[1][0] == "received" and words[1][1].startswith('CONNECT client "sensor"') and "logs in" in words[1][1]
    # What two shards saw in the same millisecond may come in either order.
    rest = words[2:]
    assert ("connection", "closed: the server refused the client: the user name or the password is wrong") in rest
    sent = [what for direction, what in rest if direction == "sent" and what.startswith("CONNACK")]
    assert len(sent) == 2 and any("0x86" in what for what in sent) and any("0x00" in what for what in sent), rest
    assert sum(what.startswith("comes from 127.0.0.1:") for _, what in rest) == 1
    assert sum(what.startswith('CONNECT client "sensor"') for _, what in rest) == 1
    assert ("connection", "connected") in rest
    assert ("connection", 'it may not publish to "other/a"') in rest
    assert any(what.startswith('PUBLISH "other/a"') for _, what in rest)
    assert "wrong-guess" not in text and SECRET not in text and "payload" not in text and "another" not in text
    client.close()


BEGINNINGS = {
    "PROXY header": (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "0x50", "a PROXY header: the listener has no proxies"),
    "its first letters": (b"PR", "0x50", "a PROXY header: the listener has no proxies"),
    "PROXY header 2": (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", "0x0D", "a PROXY header of version 2: the listener has no proxies"),
    "HTTP": (b"GET /mqtt HTTP/1.1\r\nHost: a\r\n\r\n", "0x47", "HTTP or WebSocket: the listener is for MQTT alone"),
    "TLS": (b"\x16\x03\x01\x02\0", "0x16", "TLS: the listener has none, or it is within its own"),
    "PUBLISH": (b"\x30", "0x30", "neither CONNECT nor anything else that is known here"),
}


@pytest.mark.parametrize("door", ["plain", "unix"])
def test_what_begins_with_anything_but_connect_is_refused_at_once_and_named(tmp_path, door):
    """The first byte is enough: nobody waits for the rest of a packet that was never begun."""
    folder = tmp_path / "broker"
    unix = folder / "mqtt.sock"
    with running(Courser, folder, listeners=listener("local", "mqtt", f'unix = "{unix}"')) as broker:
        for data, first, what in BEGINNINGS.values():
            time.sleep(0.3)
            begun = time.monotonic()
            if door == "unix":
                client = socket.socket(socket.AF_UNIX)
                client.connect(str(unix))
            else:
                client = socket.create_connection(broker.address, timeout=30)
            with client:
                client.settimeout(30)
                client.sendall(data)
                assert client.recv(100) == b""
            assert time.monotonic() - begun < 3, f"{data}: mqtt.connect_timeout is 5 s"
            until(lambda: any(f"first_byte={first} " in line and what in line for line in strangers(broker)), f"{data}: no line")  # noqa: B023
        for line in strangers(broker):
            assert " warn " in line and f"listener={'local' if door == 'unix' else 'mqtt'} " in line, line
            assert ("address=127.0.0.1:" in line) == (door == "plain"), line
        for _ in range(100):
            with socket.create_connection(broker.address, timeout=30) as client:
                client.sendall(b"GET / HTTP/1.1\r\n")
                client.recv(100)
        assert len(strangers(broker)) < 100
        ok = RawClient(broker.address, V5)
        ok.send(wire.connect(V5, "c"))
        ok.expect(CONNACK, reason=0)
        ok.close()


def strangers(broker):
    return [line for line in broker.output().splitlines() if "event=no_connect" in line]
