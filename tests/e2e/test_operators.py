"""What operators get: health, metrics and the API over HTTP, and the socket in the data folder.

Clients are paho's; HTTP is Python's own.
"""

import http.client
import json
import os
import shutil
import socket
import stat
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from prometheus_client.parser import text_string_to_metric_families

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="without a data folder there is no token"),
]


@pytest.fixture
def server(brokers):
    return brokers.own(sys_interval=0)


def get(server, path, token=None, method="GET"):
    """Status and body of an answer."""
    request = urllib.request.Request(server.http + path, method=method)  # noqa: S310
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def token_of(server):
    return (server.folder / "data" / "admin.token").read_text().strip()


def connect(server, client_id, properties=None, on_message=None):
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
    client.on_message = on_message
    client.connect("127.0.0.1", server.port, properties=properties, clean_start=properties is None)
    client.loop_start()
    while not client.is_connected():
        pass
    return client


def over_socket(server, path, method="GET"):
    """The same over `admin.sock`, without a token."""
    connection = http.client.HTTPConnection("localhost", timeout=20)
    connection.sock = socket.socket(socket.AF_UNIX)
    # A name short enough for a socket, however deep the folder is.
    folder = os.open(server.folder / "data", os.O_RDONLY)
    try:
        connection.sock.connect(f"/proc/self/fd/{folder}/admin.sock")
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        os.close(folder)
        connection.close()


def samples(text):
    """Numbers of OpenMetrics text, by name and labels."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(number) for name, _, number in (line.rpartition(" ") for line in lines)}


def in_the_older_format(text):
    """As promtool reads it: a family has the name of its samples, there is no type for info, there are neither units nor an end mark."""
    lines = []
    for line in text.splitlines():
        words = line.split(" ")
        if line == "# EOF" or words[1] == "UNIT":
            continue
        if words[0] == "#":
            kind = next(other.split(" ")[3] for other in text.splitlines() if other.startswith(f"# TYPE {words[2]} "))
            words[2] += {"counter": "_total", "info": "_info"}.get(kind, "")
            if words[1] == "TYPE" and kind == "info":
                words[3] = "gauge"
        lines.append(" ".join(words) + "\n")
    return "".join(lines)


def test_health(server):
    """A broker that serves is alive and ready, for anyone."""
    assert get(server, "/healthz") == (200, "ok\n")
    assert get(server, "/readyz") == (200, "ready\n")


def test_silent_connections_do_not_keep_a_probe_waiting(server):
    """With all places taken the oldest silent connection goes at once, not after the time that its request may take: the others are still there."""
    places = 64
    host, port = server.http.removeprefix("http://").split(":")

    def silent():
        return socket.create_connection((host, int(port)), timeout=20)

    def is_open(connection):
        connection.setblocking(False)
        try:
            return connection.recv(1) != b""
        except BlockingIOError:
            return True
        except ConnectionError:
            return False

    waiting = [silent() for _ in range(places - 1)]
    # A part of a head is no request.
    waiting[0].sendall(b"GET /healthz HTTP/1.1\r\n")
    # The last one is answered when all have their places; it goes on asking, so that each time the others are idle for longer.
    asking = http.client.HTTPConnection(host, int(port), timeout=20)
    for gone in range(1, 4):
        asking.request("GET", "/healthz")
        assert asking.getresponse().read() == b"ok\n"
        assert get(server, "/healthz") == (200, "ok\n")
        # What the last probe left is free by now or was not yet: then another one has gone for it.
        still = [is_open(connection) for connection in waiting]
        assert still.index(True) <= gone and still.count(True) >= places - 1 - gone
    assert not is_open(waiting[0])
    for connection in waiting:
        connection.close()


def test_api_wants_the_token(server):
    """Without the token, or with another one, nobody learns anything; what is refused has a stable number."""
    for token in (None, "0" * 64, token_of(server)[:-1]):
        for path in ("/api/v1/node", "/api/v1/clients", "/api/v1/clients/x"):
            status, body = get(server, path, token)
            assert status == 401
            assert json.loads(body)["error"]["code"] == 1001
    assert get(server, "/api/v1/node", token_of(server))[0] == 200
    assert get(server, "/api/v1/nothing", token_of(server))[0] == 404
    assert get(server, "/api/v1/node", token_of(server), "POST")[0] == 405
    paths = json.loads(get(server, "/api/v1/openapi.json")[1])["paths"]
    assert {"/api/v1/clients", "/api/v1/sessions/{client_id}", "/api/v1/retained/{topic}"} <= set(paths)


def test_nothing_within_the_page_of_the_api_may_run_or_look(server):
    """What somebody gets into the page can neither run nor look like something else: the browser is told so."""
    with urllib.request.urlopen(server.http + "/api", timeout=20) as answer:  # noqa: S310
        assert answer.headers["Content-Security-Policy"] == "default-src 'none'; style-src 'self'"
        page = answer.read().decode()
    assert not any(word in page for word in ("<style", "style=", "<script", "onload="))
    assert 'href="/api/page.css"' in page
    assert get(server, "/api/page.css")[0] == 200



def test_files_are_for_the_owner_only(server):
    """Token and socket can be used by the user of the broker; the token is in no output."""
    for name in ("admin.token", "admin.sock"):
        mode = (server.folder / "data" / name).stat().st_mode
        assert stat.S_IMODE(mode) == 0o600, name
    assert over_socket(server, "/api/v1/node")[0] == 200
    assert token_of(server) not in server.log.read_text()


def test_metrics_count(server):
    """Messages that went through are in `/metrics`, without a token, and never a client id or a topic."""
    client = connect(server, "very-special-client")
    client.subscribe("very/special/#", qos=1)
    for _ in range(20):
        client.publish("very/special/topic", b"x" * 100, qos=1).wait_for_publish(20)
    status, text = get(server, "/metrics")
    assert status == 200 and text.endswith("# EOF\n")
    assert "special" not in text
    found = samples(text)
    assert found['courser_messages_received_total{protocol="mqtt",qos="1"}'] == 20
    assert found['courser_messages_received_total{protocol="mqtt",qos="0"}'] == 0
    assert found['courser_messages_received_payload_bytes_total{protocol="mqtt"}'] == 2000
    assert found['courser_mqtt_sessions{state="connected"}'] == 1
    assert found["courser_mqtt_connections"] == 1
    assert found['courser_subscriptions{kind="plain"}'] == 1
    assert found["courser_ready"] == 1
    client.disconnect()


def durations(text, name):
    """Buckets by upper bound (each with those below it), count and sum of a histogram."""
    found = samples(text)
    buckets = {float(key.split('"')[1]): number for key, number in found.items() if key.startswith(f"{name}_bucket{{")}
    return buckets, found[f"{name}_count"], found[f"{name}_sum"]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("kept", [False, True])
def test_how_long_publishes_take(brokers, qos, kept):
    """Each publish and each delivery is in the histograms once, with a time between nothing and what the test took; what waited is not."""
    server = brokers.own(sys_interval=0)
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 60 if kept else 0
    began = time.monotonic()
    got = []
    on_message = lambda *arguments: got.append(arguments[2].topic)  # noqa: E731
    subscriber = connect(server, "subscriber", properties, on_message)
    subscriber.subscribe("t/#", qos=qos)
    publisher = connect(server, "publisher")
    while "t/ready" not in got:
        publisher.publish("t/ready", b"x", qos=qos)
        time.sleep(0.01)
    publisher.publish("t/probes are over", b"x", qos=1).wait_for_publish(20)
    counted = samples(get(server, "/metrics")[1])
    probes = int(sum(number for name, number in counted.items() if name.startswith("courser_messages_received_total{")))
    for number in range(50):
        publisher.publish(f"t/{number}", b"x", qos=qos).wait_for_publish(20)
    while "t/49" not in got:
        assert time.monotonic() < began + 60
    if kept:
        # What waits for a client that is away is not told: when it comes says nothing of the broker.
        subscriber.disconnect()
        subscriber.loop_stop()
        publisher.publish("t/waits", b"x", qos=1).wait_for_publish(20)
        probes += 1
        subscriber = connect(server, "subscriber", properties, on_message)
        while qos > 0 and "t/waits" not in got:
            assert time.monotonic() < began + 60
    took = time.monotonic() - began
    text = get(server, "/metrics")[1]
    buckets, count, total = durations(text, "courser_publish_to_deliver_seconds")
    assert sorted(buckets) == list(buckets) and list(buckets.values()) == sorted(buckets.values())
    assert buckets[float("inf")] == count
    assert 0 < total < took * count
    delivered = samples(text)['courser_messages_delivered_total{protocol="mqtt"}']
    waited = 1 if kept and qos > 0 else 0
    assert 50 <= count <= delivered - waited
    _, count, total = durations(text, "courser_publish_to_ack_seconds")
    assert total < took * max(count, 1)
    if qos > 0:
        assert 50 <= count <= probes + 50
    for client in (publisher, subscriber):
        client.disconnect()
        client.loop_stop()


def test_metrics_of_the_process(server):
    """Memory by use and below its limit, logins, and how busy each shard is."""
    found = samples(get(server, "/metrics")[1])
    assert 0 < found['courser_memory_bytes{use="allocated"}'] < found["courser_memory_limit_bytes"]
    assert found['courser_memory_bytes{use="resident"}'] > 1 << 20
    assert found['courser_auth_attempts_total{result="refused"}'] == 0
    busy = [number for name, number in found.items() if name.startswith("courser_shard_busy_ratio")]
    assert busy and all(0 <= number <= 1 for number in busy)


def test_every_turn_is_in_the_histogram_but_the_first_of_each_shard(server):
    text = get(server, "/metrics")[1]
    turns = [number for name, number in samples(text).items() if name.startswith("courser_shard_turns_total")]
    _, count, total = durations(text, "courser_shard_turn_seconds")
    assert count == sum(turns) - len(turns) > 0
    assert total > 0


def test_files_of_the_data_folder(server):
    """Nothing in the data folder can be read by others."""
    client = connect(server, "writer")
    client.publish("kept", b"x", qos=1, retain=True).wait_for_publish(20)
    client.disconnect()
    client.loop_stop()
    data = server.folder / "data"
    looked_at = 0
    for path in [data, *data.rglob("*")]:
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
        except FileNotFoundError:
            # A segment that is ready has another name.
            continue
        if not path.is_symlink():
            assert mode & 0o077 == 0, f"{path}: {mode:o}"
            looked_at += 1
    assert looked_at > 4


def test_metrics_are_good_openmetrics(server):
    """Prometheus' own Python client reads every sample."""
    status, text = get(server, "/metrics")
    assert status == 200
    older = in_the_older_format(text)
    families = list(text_string_to_metric_families(older))
    read = Counter(sample.name for family in families for sample in family.samples)
    assert read == Counter(name.partition("{")[0] for name in samples(text))
    assert all(family.documentation and family.type != "unknown" for family in families)


def test_metrics_please_the_tool_of_prometheus(server):
    """It finds nothing wrong."""
    tool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if not tool:
        pytest.skip("there is no promtool: name one in PROMTOOL")
    older = in_the_older_format(get(server, "/metrics")[1])
    done = subprocess.run([tool, "check", "metrics"], input=older, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_a_parameter_is_said_once(server):
    """Whichever of two counted, the other would be left out without a word; filters may be said as often as wanted."""
    status, page = over_socket(server, "/api/v1/clients?limit=1&filter=client_id=a*&limit=2")
    assert status == 400 and 'the parameter \\"limit\\" is said twice' in json.dumps(page), page
    assert over_socket(server, "/api/v1/clients?limit=1&filter=client_id=a*&filter=client_id=b*")[0] == 200


def test_names_of_clients_move_nothing(server):
    """Escape sequences and line ends in a client id come back as data, and are escaped on the way to a person."""
    name = "evil\x1b[2J\u202e"
    client = connect(server, name)
    status, page = over_socket(server, "/api/v1/clients")
    assert status == 200
    assert [row["client_id"] for row in page["items"]] == [name]
    command = [str(server.binary()), "client", "list", "--server", "data"]
    done = subprocess.run(command, cwd=server.folder, capture_output=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout and "\u202e".encode() not in done.stdout
    assert b"evil\\u{1b}[2J\\u{202e}" in done.stdout
    client.disconnect()


def test_why_it_was_disconnected(server):
    """A client that another one has displaced: the API says so, with the reason code, long after."""
    first = connect(server, "twin")
    ends = []
    first.on_disconnect = lambda *arguments: ends.append(arguments[3].value)
    second = paho.Client(CallbackAPIVersion.VERSION2, client_id="twin", protocol=paho.MQTTv5)
    second.connect("127.0.0.1", server.port)
    second.loop_start()
    while not ends:
        pass
    first.loop_stop()
    assert ends[0] == 0x8E
    _, detail = over_socket(server, "/api/v1/clients/twin")
    causes = [(event["event"], event["reason_code"]) for event in detail["events"]]
    assert ("disconnected", 0x8E) in causes
    assert any("same client id" in (event["cause"] or "") for event in detail["events"])
    second.disconnect()
    second.loop_stop()


def test_kick(server):
    """A client that is kicked hears 0x98."""
    client = connect(server, "victim")
    ends = []
    client.on_disconnect = lambda *arguments: ends.append(arguments[3].value)
    assert over_socket(server, "/api/v1/clients/victim", "DELETE")[0] == 200
    while not ends:
        pass
    client.loop_stop()
    assert ends[0] == 0x98


def test_pages_have_every_row_once(server):
    """A listing of many sessions, page by page while others come and go, has each that stays exactly once."""
    clients = [connect(server, f"many-{number:03}") for number in range(40)]
    seen, cursor = [], ""
    while True:
        query = "limit=7&filter=client_id%3Dmany-*" + (f"&cursor={cursor}" if cursor else "")
        status, page = over_socket(server, f"/api/v1/sessions?{query}")
        assert status == 200, page
        seen += [row["client_id"] for row in page["items"]]
        connect(server, f"other-{len(seen)}").disconnect()
        cursor = page.get("next")
        if not cursor:
            break
    assert sorted(seen) == [f"many-{number:03}" for number in range(40)]
    for client in clients:
        client.disconnect()
        client.loop_stop()


def test_second_broker_on_the_machine(server, tmp_path):
    """An address that was asked for and is taken ends the start, with who has it and the flag that changes it."""
    free, taken, mqtt = "127.0.0.1:0", server.http.removeprefix("http://"), f"127.0.0.1:{server.port}"
    for addresses, flag in (((free, taken), "--http"), ((mqtt, free), "--mqtt")):
        command = [str(server.binary()), "server", "--mqtt", addresses[0], "--data", str(tmp_path / "d"), "--http", addresses[1]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 6, done.stdout + done.stderr
        who = f" is in use by process {server.process.pid} (courser): stop that one, or listen elsewhere with {flag} ADDRESS:PORT"
        assert who in done.stderr, done.stderr


def test_a_token_that_is_replaced_counts_no_more(server):
    """A reload has the new token count at once, and so does the file alone after a moment; guesses are counted and told."""
    file = server.folder / "data" / "admin.token"

    def replace(token):
        new = file.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_text(token)
        new.rename(file)

    old, new = token_of(server), "0123456789abcdef-new"
    assert get(server, "/api/v1/node", old)[0] == 200
    replace(new)
    assert get(server, "/api/v1/config/reload", old, "POST")[0] in (200, 401), "it may have been seen already"
    subprocess.run([str(server.binary()), "config", "reload", "--server", server.folder / "data"], check=True, capture_output=True)
    assert get(server, "/api/v1/node", old)[0] == 401
    assert get(server, "/api/v1/node", new)[0] == 200
    assert server.metric('courser_operator_logins_total{result="wrong_token"}') >= 1
    assert "event=operator_refused" in server.output()
    replace(old)
    deadline = time.monotonic() + 20
    while get(server, "/api/v1/node", new)[0] != 401:
        assert time.monotonic() < deadline, "the old token counts"
        time.sleep(0.1)
    assert get(server, "/api/v1/node", old)[0] == 200
