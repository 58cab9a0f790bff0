"""Inputs and settings that have opened or stopped other brokers at their doors, by the names of their advisories."""

import contextlib
import resource
import signal
import socket
import ssl
import stat
import struct
import subprocess
import time
import urllib.error
import urllib.request

import doors
import pytest
import wire
from broker import Courser
from doors import LOOPBACK, Authority, WithAccounts, listener, places, running
from raw import RawClient
from web import frame, upgrade, upgraded
from wire import CONNACK, V5

pytestmark = pytest.mark.courser

MIB = 1 << 20
@pytest.fixture(scope="module")
def web(tmp_path_factory):
    """A broker with a WebSocket door; it must be alive in the end, and not have grown."""
    with running(Courser, tmp_path_factory.mktemp("web"), listeners=listener("ws", "ws"), connect_timeout="2s") as broker:
        before = broker.rss_bytes()
        yield broker, places(broker)["ws"]
        RawClient(broker.address, V5).connect("after")
        assert broker.rss_bytes() - before < 64 * MIB


def rest(sock):
    """All that still comes."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while piece := sock.recv(65536):
            found += piece
    sock.close()
    return found


def test_cve_2026_27571_deflate_bomb(web):
    """Compression is offered and not agreed on; a compressed frame is a fault (1002), whatever it would have become."""
    sock, head = upgraded(web[1], b"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n")
    assert b"101" in head.split(b"\r\n")[0] and b"extensions" not in head.lower()
    sock.sendall(frame(2, b"\xec\xc1\x01\x01\x00\x00\x00\x80" * 100, first=0xC0))
    assert rest(sock) == b"\x88\x02\x03\xea"


# As long as a CONNECT may be, so that its bytes are waited for.
LONG = wire.connect(V5, "long", username="u", password=b"x" * 16_000)
BAD_FRAMES = {
    "2^63 - 1 bytes": frame(2, b"x", announced=(1 << 63) - 1),
    "2^64 - 1 bytes": frame(2, b"x", announced=(1 << 64) - 1),
    "not masked": frame(2, b"x", masked=False),
    "reserved opcode": frame(3, b"x"),
    "goes on with nothing": frame(0, b"x"),
    "two beginnings": frame(2, b"x", first=0) + frame(2, b"x"),
    "long ping": frame(9, b"x" * 126),
    "ping in parts": frame(9, b"x", first=0),
    "close of one byte": frame(8, b"x"),
    "text": frame(1, b"x"),
    "parts beyond the limit": frame(2, LONG[:9000], first=0) + frame(0, b"x" * 9000),
}


@pytest.mark.parametrize("bad", BAD_FRAMES)
def test_cve_2026_27889_bad_frames(web, bad):
    """Frames that RFC 6455 does not allow end their connection with a code, and no other."""
    other, _ = upgraded(web[1])
    for _ in range(20):
        sock, _ = upgraded(web[1])
        sock.sendall(BAD_FRAMES[bad])
        said = rest(sock)
        assert said[:1] == b"\x88" and 1002 <= struct.unpack(">H", said[2:4])[0] <= 1009, said
    other.sendall(frame(2, wire.connect(V5, "beside")))
    assert other.recv(4096)[:1] == b"\x82"
    other.close()


def test_cve_2026_25627_announced_more_than_sent(web):
    """A frame that announces 4,096 bytes and has three: nothing is read beyond them, and the time for CONNECT ends it."""
    socks = [upgraded(web[1])[0] for _ in range(50)]
    for sock in socks:
        sock.sendall(frame(2, b"\x10\x0c\x00", announced=4096))
    began = time.monotonic()
    for sock in socks:
        rest(sock)
    assert time.monotonic() - began > 0.5


def ping_flood(sock, mib=96):
    """Sends pings of the largest size and reads nothing, for as long as the broker takes them. How many MiB it took."""
    pings = frame(9, b"p" * 125) * 1000
    sock.settimeout(2)
    taken = 0
    with contextlib.suppress(TimeoutError, ConnectionError):
        while taken < mib * MIB:
            sock.sendall(pings)
            taken += len(pings)
    return taken // MIB


@pytest.mark.parametrize("when", ["before CONNECT", "after CONNECT"])
@pytest.mark.parametrize("protocol", ["ws", "wss"])
def test_pings_without_reading(tmp_path, protocol, when):
    """A client that sends pings and reads no answer is answered the newest of them (RFC 6455 5.5.3): memory does not grow."""
    authority = Authority(tmp_path / "certificates")
    files = authority.issue("server", "server", doors.server_names()) if protocol == "wss" else None
    with running(Courser, tmp_path / "broker", listeners=listener("web", protocol, LOOPBACK, files), connect_timeout="60s") as broker:
        sock = socket.socket()
        # What the kernel holds of the answers is not in question.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(10)
        sock.connect(places(broker)["web"])
        if files:
            context = ssl.create_default_context(cafile=str(authority.certificate))
            sock = context.wrap_socket(sock, server_hostname="localhost")
        assert b"101" in upgrade(sock)
        if when == "after CONNECT":
            sock.sendall(frame(2, wire.connect(V5, "pings")))
            assert sock.recv(4096)[:1] == b"\x82"
        before = broker.rss_bytes()
        taken = ping_flood(sock)
        grown = (broker.rss_bytes() - before) // MIB
        assert grown < 32, f"{grown} MiB for {taken} MiB of pings"
        RawClient(broker.address, V5).connect("beside")
        sock.close()


def test_cve_2017_7652_no_descriptors_and_a_reload(tmp_path):
    """All descriptors are used up and SIGHUP comes: whatever cannot be read then, nobody comes in without a password."""
    with running(WithAccounts, tmp_path) as broker:
        resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (broker.descriptors() + 40,) * 2)
        held = []
        for _ in range(200):
            with contextlib.suppress(OSError):
                held.append(socket.create_connection(broker.address, timeout=1))
        broker.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while "reload" not in broker.output():
            assert time.monotonic() < deadline, broker.tail()
            time.sleep(0.05)
        for sock in held:
            sock.close()
        reasons = set()
        deadline = time.monotonic() + 20
        # It rests a moment from accepting.
        while time.monotonic() < deadline and not reasons:
            with contextlib.suppress(OSError, AssertionError):
                client = RawClient(broker.address, V5)
                client.send(wire.connect(V5, "nobody"))
                reasons.add(client.receive().reason)
        assert reasons == {0x87}
        client = RawClient(broker.address, V5)
        client.send(wire.connect(V5, "root", username="root", password=broker.password.encode()))
        client.expect(CONNACK, reason=0)


def refused_start(folder, *flags):
    done = subprocess.run(
        [str(Courser.binary()), "server", "--in-memory", "--http", "127.0.0.1:0", *flags],
        cwd=folder, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.returncode != 0
    return done.stderr


def test_mosquitto_2_0_12_options_without_a_listener(tmp_path):
    """A listener with options and no place to listen stops the start: nothing is opened instead of it."""
    said = refused_start(tmp_path, "--set", 'listener=[{ name = "half", authentication = "accounts" }]')
    assert "half" in said and "address" in said, said


def test_cve_2018_20145_each_listener_asks_for_itself(tmp_path):
    """A listener that lets anyone in on loopback opens none of the others; a public one without authentication stops the start."""
    items = listener("open", "mqtt", f'{LOOPBACK}, authentication = "none"')
    with running(WithAccounts, tmp_path, listeners=items) as broker:
        for place, reason in ((broker.address, 0x87), (places(broker)["open"], 0)):
            client = RawClient(place, V5)
            client.send(wire.connect(V5, "nobody"))
            client.expect(CONNACK, reason=reason)
    said = refused_start(tmp_path, "--set", 'listener=[{ name = "wide", address = "0.0.0.0:0" }]')
    assert "wide" in said and "--insecure-anonymous" in said, said


def test_cve_2017_9868_files_are_the_user_s_own(tmp_path):
    """Nobody else may read or write what the broker keeps: files 0600, folders 0700, the socket of operators among them."""
    with running(WithAccounts, tmp_path) as broker:
        client = RawClient(broker.address, V5)
        client.send(wire.connect(V5, "kept", username="root", password=broker.password.encode(), properties={"session_expiry": 60}))
        client.expect(CONNACK, reason=0)
        client.send(wire.publish(V5, "a", b"x", qos=1, packet_id=1, retain=True))
        client.receive()
        data = tmp_path / "data"
        found = [data, *data.rglob("*")]
        assert len(found) > 5
        for path in found:
            mode = stat.S_IMODE(path.lstat().st_mode)
            assert mode & 0o077 == 0, f"{path}: {mode:o}"


def test_nanomq_no_default_credentials(tmp_path):
    """Names and passwords that other products come with open nothing, neither MQTT nor the API."""
    with running(WithAccounts, tmp_path) as broker:
        for name, password in (("admin", "public"), ("admin", "admin"), ("root", ""), ("guest", "guest")):
            client = RawClient(broker.address, V5)
            client.send(wire.connect(V5, "d", username=name, password=password.encode()))
            # 0x9F and 429: too many guesses have come from here.
            assert client.receive().reason in (0x86, 0x87, 0x9F)
            for header in ("Basic YWRtaW46cHVibGlj", "Bearer admin", "Bearer "):
                request = urllib.request.Request(f"{broker.http}/api/v1/clients", headers={"Authorization": header})
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(request, timeout=10)
                assert refused.value.code in (401, 403, 429)


def test_cve_2026_33216_33247_monitoring_shows_no_secrets(tmp_path):
    """The password of a client that is there stands in no metric, listing, event, log or command line."""
    with running(WithAccounts, tmp_path) as broker:
        client = RawClient(broker.address, V5)
        client.send(wire.connect(V5, "shown", username="root", password=broker.password.encode()))
        client.expect(CONNACK, reason=0)
        server = ["--server", str(tmp_path / "data" / "admin.sock")]
        said = [open(f"/proc/{broker.process.pid}/cmdline").read()]
        for verb in (["client", "show", "shown"], ["client", "list"], ["session", "list"], ["top", "-n", "1"]):
            done = subprocess.run([str(Courser.binary()), *verb, *server], capture_output=True, text=True, timeout=30)
            said.append(done.stdout + done.stderr)
        said.append(urllib.request.urlopen(f"{broker.http}/metrics", timeout=10).read().decode())
        said.append(broker.output())
        assert "shown" in said[1]
        assert not any(broker.password in text or "$argon2id$" in text for text in said)


def test_tls_garbage_and_half_handshakes(tmp_path):
    """Anything but TLS at a TLS door, and handshakes broken off everywhere: refused without growing; who speaks TLS comes in."""
    authority = Authority(tmp_path / "certificates")
    files = authority.issue("server", "server", doors.server_names())
    with running(Courser, tmp_path / "broker", listeners=listener("tls", "mqtts", LOOPBACK, files)) as broker:
        place = places(broker)["tls"]
        before = broker.rss_bytes()
        context = ssl.create_default_context(cafile=str(authority.certificate))
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        hello = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            hello.do_handshake()
        hello = outgoing.read()
        for data in [b"\x10\x0c\0\4MQTT", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff", b"\0" * 20_000, hello + hello] + [
            hello[:end] for end in range(0, len(hello), 7)
        ]:
            with socket.create_connection(place, timeout=10) as sock, contextlib.suppress(OSError):
                sock.sendall(data)
        with socket.create_connection(place, timeout=10) as plain, context.wrap_socket(plain, server_hostname="localhost") as sock:
            sock.sendall(wire.connect(V5, "proper"))
            assert sock.recv(4096)[:1] == b"\x20"
        assert broker.rss_bytes() - before < 32 * MIB
