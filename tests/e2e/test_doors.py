"""Every door with the clients that people have: TLS, WebSocket, both, client certificates, Unix sockets, IPv6, proxies, systemd."""

import contextlib
import itertools
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time

import doors
import pytest
import wire
from broker import Courser
from clients.base import Door, Options, Refused, Subscription
from clients.paho import Paho
from doors import LOOPBACK, Authority, WithAccounts, listener, places, running
from paho.mqtt import client as paho
from scenario import LIBRARIES, Library, library_names

pytestmark = pytest.mark.courser

# Below a record of TLS, above one, above what a turn reads.
SIZES = (0, 100, 20_000, 300_000)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def open_doors(authority, tmp_path_factory):
    """One broker with all doors: where each is, and what a client is told about it."""
    folder = tmp_path_factory.mktemp("doors")
    files = authority.issue("server", "server", doors.server_names())
    own = authority.issue("client", "client")
    unix = folder / "mqtt.sock"
    asked = f'{LOOPBACK}, client_certificates = "required", client_authorities = "{authority.certificate}"'
    items = [
        listener("tls", "mqtts", LOOPBACK, files),
        listener("tls12", "mqtts", f'{LOOPBACK}, tls_version_min = "1.2"', files),
        listener("mutual", "mqtts", asked, files),
        listener("ws", "ws"),
        listener("wss", "wss", LOOPBACK, files),
        listener("unix", "mqtt", f'unix = "{unix}"'),
    ]
    if has_ipv6():
        items.append(listener("tls6", "mqtts", 'address = "[::1]:0"', files))
        items.append(listener("plain6", "mqtt", 'address = "[::1]:0"'))
    told = {
        "tls": doors.tls(authority),
        "tls12": doors.tls(authority),
        "mutual": doors.tls(authority, own),
        "ws": Door(web="/mqtt"),
        "wss": doors.tls(authority, web="/mqtt"),
        "unix": Door(unix=str(unix)),
        "tls6": doors.tls(authority),
        "plain6": Door(),
    }
    with running(Courser, folder, listeners=", ".join(items)) as broker:
        yield broker, places(broker), told


WAYS = {
    "paho": ("tls", "tls12", "mutual", "ws", "wss", "unix", "tls6", "plain6"),
    "mqttjs": ("tls", "mutual", "ws", "wss", "tls6"),
    "hivemq": ("tls", "tls12", "mutual"),
    "gmqtt": ("tls", "mutual"),
    "mosquitto": ("tls", "mutual", "unix"),
}


def ways():
    return [pytest.param(library, door, id=f"{library}-{door}") for library in library_names() for door in WAYS[library]]


def client_of(library: Library, door: str, open_doors):
    """A connected client."""
    broker, where, told = open_doors
    if door not in where and not told[door].unix:
        pytest.skip("this machine has no IPv6")
    client = library.client()
    client.address = where.get(door, broker.address)
    client.connect(Options(client_id=library.client_id(door + str(len(library.made))), door=told[door]))
    return client


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("name,door", ways())
def test_messages_of_any_size(open_doors, name, door, version):
    """What a client sends through a door comes back through it, whole and in order, in each QoS; and reaches a plain client.

    v3 [MQTT-6.0.0-1] v3 [MQTT-6.0.0-2] v3 [MQTT-6.0.0-4] v5 [MQTT-6.0.0-1] v5 [MQTT-6.0.0-2] v5 [MQTT-6.0.0-4]
    """
    library = Library(open_doors[0], name, version)
    try:
        topic = library.topic()
        inside = client_of(library, door, open_doors)
        inside.subscribe([Subscription(topic, 2)])
        beside = Library(open_doors[0], "paho", version)
        library.made.append(beside.client())
        plain = library.made[-1]
        plain.connect(Options(client_id=library.client_id("plain")))
        plain.subscribe([Subscription(topic, 2)])
        sender = client_of(library, door, open_doors) if name == "mosquitto" else inside
        for qos in (0, 1, 2):
            # One line of text, for those that read lines.
            payloads = [(b"%d," % qos * size)[:size] for size in SIZES]
            sender.publish_many([(topic, payload) for payload in payloads], qos)
            for found in (inside.messages(len(SIZES)), plain.messages(len(SIZES))):
                assert [message.payload for message in found] == payloads
                assert {message.qos for message in found} == {qos}
        inside.disconnect()
    finally:
        for client in library.made:
            client.release()


def session_over_tls(place, authority, latest):
    """The version of TLS in which a client that speaks none later than this gets a session."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.maximum_version = latest
    with socket.create_connection(place, timeout=20) as plain, context.wrap_socket(plain, server_hostname="localhost") as client:
        client.sendall(wire.connect(wire.V3, "late"))
        assert client.recv(4) == b"\x20\x02\x00\x00"
        return client.version()


def test_tls_1_2_only_where_a_listener_says_so(open_doors, authority):
    """Whoever speaks 1.3 gets that everywhere. Whoever does not is let in where the listener's least version is 1.2, and told no elsewhere."""
    _, where, _ = open_doors
    for door in ("tls", "tls12"):
        assert session_over_tls(where[door], authority, ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    assert session_over_tls(where["tls12"], authority, ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    for door in ("tls", "wss"):
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            session_over_tls(where[door], authority, ssl.TLSVersion.TLSv1_2)


@pytest.mark.parametrize("door", ["tls", "ws", "wss", "unix"])
def test_retained_messages_wait_for_a_reader_that_pauses(open_doors, door):
    """All of many MiB come at QoS 0 to one that reads nothing for a while, also where layers below MQTT hold the last of them back.

    v3 [MQTT-3.3.1-6] v5 [MQTT-3.3.1-9]
    """
    library = Library(open_doors[0], "paho", 5)
    try:
        topics = [library.topic(f"paused/{number}") for number in range(2_000)]
        publisher = library.connect("pub")
        # paho does not wait when the broker's Receive Maximum is reached.
        parts = [topics[some : some + 500] for some in range(0, len(topics), 500)]
        for part in parts:
            publisher.publish_many([(topic, bytes(6_000)) for topic in part], 1, retain=True)
        reader = client_of(library, door, open_doors)
        acknowledged = reader.client.on_subscribe

        def pauses(*arguments):
            acknowledged(*arguments)
            time.sleep(2)

        reader.client.on_subscribe = pauses
        reader.subscribe([Subscription(library.topic("paused/#"), 0)])
        assert sorted(message.topic for message in reader.messages(len(topics), 60)) == sorted(topics)
        for part in parts:
            publisher.publish_many([(topic, b"") for topic in part], 1, retain=True)
    finally:
        for client in library.made:
            client.release()


def test_a_certificate_of_somebody_else_stays_out(open_doors, authority, tmp_path):
    """A client shows a certificate of an authority that the listener does not know, or none: no connection, and none for its user."""
    other = Authority(tmp_path, "other")
    broker, where, told = open_doors
    for files in (other.issue("client", "client"), None):
        library = Library(broker, "paho", 5)
        client = library.client()
        client.address = where["mutual"]
        with pytest.raises(Exception):  # which one depends on when the refusal arrives
            client.connect(Options(client_id="stranger", door=doors.tls(authority, files)))
        client.release()
    mine = Library(broker, "paho", 5).client()
    mine.address = where["mutual"]
    mine.connect(Options(client_id="known", door=told["mutual"]))
    mine.disconnect()


# Common names, and whether they are the account "root".
NAMES = {"root": True, "Root": False, "root2": False, "roo": False, " root": False, "*": False}


@pytest.fixture(scope="module")
def mutual(authority, tmp_path_factory):
    """A broker with the account `root` and a door at which certificates say who is there."""
    folder = tmp_path_factory.mktemp("mutual")
    files = authority.issue("mutual", "mutual", doors.server_names())
    more = (
        f'{LOOPBACK}, client_certificates = "required", client_authorities = "{authority.certificate}", '
        'identity = "common_name", authentication = "accounts"'
    )
    with running(WithAccounts, folder, listeners=listener("mutual", "mqtts", more, files)) as broker:
        yield broker, places(broker)["mutual"]


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("name", [name for name in ("hivemq", "paho") if name in LIBRARIES])
def test_a_certificate_is_its_account_and_no_other(mutual, authority, name, version):
    """The common name is the account's name, exactly and as a whole; it needs no password, and lends itself to no other user name."""
    if name not in library_names():
        pytest.skip("not among E2E_LIBRARIES")
    broker, place = mutual
    for number, (common_name, is_root) in enumerate(NAMES.items()):
        files = authority.issue(f"name{number}", common_name)
        library = Library(broker, name, version)
        client = library.client()
        client.address = place
        options = Options(client_id=library.client_id(), door=doors.tls(authority, files))
        try:
            if is_root:
                assert client.connect(options).reason_code == 0
                client.subscribe([Subscription("a/b", 1)])
                client.publish("a/b", b"mine", 1)
                assert client.message().payload == b"mine"
                client.disconnect()
            else:
                with pytest.raises(Refused) as refused:
                    client.connect(options)
                assert refused.value.reason_code in (5, 0x87), common_name
        finally:
            client.release()


class ThroughProxy(paho.Client):
    """Says first what a proxy would say."""

    header = b""

    def _create_socket(self):
        made = super()._create_socket()
        made.sendall(self.header)
        return made


SOURCE = "192.0.2.7"
HEADERS = {
    "v1": f"PROXY TCP4 {SOURCE} 127.0.0.1 4711 1883\r\n".encode(),
    "v2": b"\r\n\r\n\0\r\nQUIT\n\x21\x11"
    + struct.pack(">H4s4sHH", 12 + 7, socket.inet_aton(SOURCE), socket.inet_aton("127.0.0.1"), 4711, 1883)
    # A field that nobody asked for: it is passed over.
    + b"\x02\x00\x04host",
}


class ForAnyone(Courser):
    """Without accounts, wherever its clients are."""

    def command(self):
        return [*super().command(), "--insecure-anonymous"]


@pytest.mark.parametrize("header", HEADERS)
def test_the_address_behind_a_proxy_is_the_client_s(tmp_path, header):
    """The header is read where its proxy is named, and the address in it is the client's; who sends none is not served."""
    with running(ForAnyone, tmp_path, listeners=listener("behind", "mqtt", f'{LOOPBACK}, proxies = ["127.0.0.1"]')) as broker:
        host, port = places(broker)["behind"]
        got = []
        client = ThroughProxy(paho.CallbackAPIVersion.VERSION2, client_id="proxied", protocol=paho.MQTTv5)
        client.header = HEADERS[header]
        client.on_message = lambda _client, _data, message: got.append(message.payload)
        client.on_connect = lambda *_: client.subscribe("a", 1)
        client.on_subscribe = lambda *_: client.publish("a", b"x", 1)
        client.connect(host, port)
        client.loop_start()
        deadline = time.monotonic() + 15
        while not got:
            assert time.monotonic() < deadline, "no message"
            time.sleep(0.01)
        command = [str(Courser.binary()), "client", "show", "proxied", "-o", "json", "--server", str(tmp_path / "data" / "admin.sock")]
        shown = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout)
        assert shown["client"]["address"] == f"{SOURCE}:4711"
        with socket.create_connection((host, port), timeout=10) as plain:
            plain.sendall(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01p")
            assert plain.recv(4) == b""
        client.disconnect()
        client.loop_stop()


ORIGIN = "https://app.example.org"


def over_web_from(place, origin):
    """Whether a client is let in whose page is from there; none: it is no page."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="page", protocol=paho.MQTTv5, transport="websockets")

    def headers(usual):
        kept = {name: value for name, value in usual.items() if name != "Origin"}
        return {**kept, "Origin": origin} if origin else kept

    client.ws_set_options(path="/mqtt", headers=headers)
    came = []
    client.on_connect = lambda *_: came.append(True)
    try:
        client.connect(*place)
    except paho.WebsocketConnectionError:
        return False
    deadline = time.monotonic() + 15
    while not came:
        assert client.loop(0.1) == paho.MQTT_ERR_SUCCESS and time.monotonic() < deadline, "neither let in nor refused"
    client.disconnect()
    return True


def test_pages_of_other_origins_stay_out(tmp_path):
    """Origins that are named and programs, which have none, are let in; with none named pages of this machine are, or, where that is said, all."""
    items = [
        listener("some", "ws", f'{LOOPBACK}, origins = ["{ORIGIN}"]'),
        listener("here", "ws"),
        listener("all", "ws", f"{LOOPBACK}, insecure_anonymous = true"),
    ]
    with running(Courser, tmp_path, listeners=", ".join(items)) as broker:
        found = places(broker)
        for origin in (ORIGIN, None):
            assert over_web_from(found["some"], origin)
        others = ("https://app.example.org.evil.example", "http://app.example.org", "https://APP.example.org:444", "null")
        for origin in others:
            assert not over_web_from(found["some"], origin), origin
            assert not over_web_from(found["here"], origin), origin
        for origin in ("http://localhost:3000", "https://127.0.0.1", None):
            assert over_web_from(found["here"], origin), origin
        for origin in (ORIGIN, None, *others):
            assert over_web_from(found["all"], origin), origin
        refused = broker.metric('courser_doors_refused_total{reason="websocket"}')
        assert refused == 2 * len(others)


# Becomes the server with the sockets that it was given, as systemd does: descriptors from 3 on, for this very process.
ACTIVATE = """
import os, sys
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_sockets_of_systemd(tmp_path):
    """Sockets that were opened before the process serve TCP and a Unix path; READY=1 is said when they do, STOPPING=1 at the end."""
    unix = tmp_path / "activated.sock"
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(tmp_path / "notify"))
    notify.settimeout(20)
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as local:
        tcp.bind(("127.0.0.1", 0))
        local.bind(str(unix))
        for listening in (tcp, local):
            listening.listen()
        # Who connects before the server is there waits for it.
        early = socket.create_connection(tcp.getsockname(), timeout=20)
        command = [sys.executable, "-c", ACTIVATE, str(Courser.binary()), "server", "--in-memory", "--http", "127.0.0.1:0"]
        command += ["--set", "mqtt.listen=[]", "--set", 'listener=[{ name = "given", activation = "mqtt" }]']
        environment = {**os.environ, "LISTEN_FDS": "2", "LISTEN_FDNAMES": "mqtt:mqtt", "NOTIFY_SOCKET": str(tmp_path / "notify")}

        def lay_out():
            low, high = os.dup(tcp.fileno()), os.dup(local.fileno())
            os.dup2(low, 3)
            os.dup2(high, 4)

        with (tmp_path / "log").open("w") as log:
            server = subprocess.Popen(
                command, cwd=tmp_path, env=environment, stdout=log, stderr=log, preexec_fn=lay_out, close_fds=False
            )
        try:
            assert "READY=1" in notify.recv(4096).decode(), (tmp_path / "log").read_text()
            early.sendall(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x3c\x00\x05early")
            assert early.recv(4) == b"\x20\x02\x00\x00"
            for place, door in ((tcp.getsockname(), Door()), (("", 0), Door(unix=str(unix)))):
                client = Paho(place, 5)
                client.connect(Options(client_id="activated", door=door))
                client.subscribe([Subscription("a", 1)])
                client.publish("a", b"x", 1)
                assert client.message().payload == b"x"
                client.disconnect()
                client.release()
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(20) == 0, (tmp_path / "log").read_text()
        assert "STOPPING=1" in notify.recv(4096).decode()
    notify.close()


# The same with a socket that nobody could come in by.
ACTIVATE_DEAF = """
import os, socket, sys
deaf = socket.socket(socket.AF_UNIX) if sys.argv[1] else socket.socket()
deaf.bind(sys.argv[1] or ("127.0.0.1", 0))
os.dup2(os.dup(deaf.fileno()), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="mqtt")
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize("unix", [False, True])
def test_a_socket_of_systemd_that_does_not_listen_stops_the_start(tmp_path, unix):
    """Clients could not come in by it, and nothing else would say so."""
    path = str(tmp_path / "deaf.sock") if unix else ""
    command = [sys.executable, "-c", ACTIVATE_DEAF, path, str(Courser.binary()), "server", "--in-memory", "--set", "http.listen=[]"]
    command += ["--set", "mqtt.listen=[]", "--set", 'listener=[{ name = "given", activation = "mqtt" }]']
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert 'listener "given"' in done.stderr and 'the socket "mqtt" that was given is bound, but does not listen' in done.stderr, done.stderr


def in_a_network_of_its_own() -> list[str]:
    """What a command begins with that may listen everywhere, because nobody else is there."""
    apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network of its own can be made here")
    return apart


# The same with a socket that others could reach.
ACTIVATE_PUBLIC = """
import os, socket, sys
public = socket.socket()
public.bind(("0.0.0.0", 0))
public.listen()
os.dup2(os.dup(public.fileno()), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="mqtt")
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_public_socket_of_systemd_needs_accounts(tmp_path):
    """Its address is in no setting, so it is the socket that is asked."""
    command = [*in_a_network_of_its_own(), sys.executable, "-c", ACTIVATE_PUBLIC, str(Courser.binary()), "server", "--in-memory", "--set", "http.listen=[]"]
    command += ["--set", "mqtt.listen=[]", "--set", 'listener=[{ name = "given", activation = "mqtt" }]']
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    said = 'listener "given": 0.0.0.0:'
    assert said in done.stderr and "can be reached from other machines, and its clients prove nothing" in done.stderr
    with subprocess.Popen([*command, "--insecure-anonymous"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        try:
            assert any(line == b"ready\n" for line in server.stdout), "it serves when that is asked for"
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0


def test_loopback_only_is_said_where_it_is_so(tmp_path):
    """A server whose operators' address is open to other machines names it at its start."""
    place = tmp_path / "mqtt.sock"
    own = ["server", "--in-memory", "--set", "mqtt.listen=[]", "--set", f'listener=[{{ name = "here", unix = "{place}" }}]']
    open_http = [*in_a_network_of_its_own(), str(Courser.binary()), *own, "--http", "0.0.0.0:0"]
    for command, expected in (
        ([str(Courser.binary()), *own, "--http", "127.0.0.1:0"], "loopback only: anyone on this machine may connect"),
        (open_http, f"anonymous on loopback: anyone on this machine may connect to {place}; other machines reach http://0.0.0.0:"),
    ):
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            try:
                said = list(itertools.takewhile(lambda line: line != "ready\n", server.stdout))
            finally:
                server.send_signal(signal.SIGTERM)
            assert server.wait(20) == 0
        assert [line for line in said if line.startswith(expected)], said


def read_to_the_end(client):
    """Until the other side has closed; what it did not read makes that a reset."""
    with contextlib.suppress(ConnectionResetError):
        while client.recv(4096):
            pass


def test_a_refused_handshake_is_told(authority, tmp_path):
    """At the default level: which listener, which address and why, and in a flood how many were left out."""
    files = authority.issue("server", "server", doors.server_names())
    items = [
        listener("tls", "mqtts", LOOPBACK, files),
        listener("web", "ws", f'{LOOPBACK}, origins = ["https://a.example"]'),
        listener("behind", "mqtt", f'{LOOPBACK}, proxies = ["127.0.0.1"], insecure_anonymous = true'),
    ]
    upgrade = "GET /mqtt HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    upgrade += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\nOrigin: https://b.example\r\n\r\n"
    sent = {"tls": b"no handshake of TLS", "web": upgrade.encode(), "behind": b"no header of a proxy"}
    why = {"tls": "TLS: ", "web": "WebSocket: the request comes from an origin", "behind": "the connection does not begin with a PROXY header"}
    own = {}
    with running(Courser, tmp_path, listeners=", ".join(items)) as broker:
        at = places(broker)
        for name in [*sent, *["tls"] * 20]:
            with socket.create_connection(at[name], timeout=20) as client:
                own.setdefault(name, client.getsockname()[1])
                client.sendall(sent[name])
                read_to_the_end(client)
        time.sleep(1.1)
        with socket.create_connection(at["tls"], timeout=20) as client:
            client.sendall(sent["tls"])
            read_to_the_end(client)
        deadline = time.monotonic() + 20
        while broker.output().count("event=handshake_failed") < 7 and time.monotonic() < deadline:
            time.sleep(0.05)
        lines = [line for line in broker.output().splitlines() if "event=handshake_failed" in line]
    for name, reason in why.items():
        line = next(line for line in lines if f"listener={name} " in line)
        assert " warn " in line and f"address=127.0.0.1:{own[name]} " in line and reason in line and "left_out=0" in line, line
    of_tls = [line for line in lines if "listener=tls " in line]
    left_out = [int(line.split("left_out=")[1].split()[0]) for line in of_tls]
    assert len(of_tls) < 15 and sum(left_out) + len(of_tls) == 22, of_tls


def test_a_listener_behind_a_proxy_needs_accounts_on_loopback_too(tmp_path):
    """The clients are those of the proxy, wherever that listens: the start is refused, and the message says what to do."""
    command = [str(Courser.binary()), "server", "--in-memory", "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    behind = listener("behind", "mqtt", f'{LOOPBACK}, proxies = ["127.0.0.1"]')
    command += ["--set", f"listener=[{behind}]"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    for said in ('listener "behind"', "proxies", "give it authentication", "courser init", "--insecure-anonymous"):
        assert said in done.stderr
