"""Floods of those who have not logged in: half-open connections, guessed passwords, passwords to be hashed. Who has logged in is served."""

import base64
import collections
import contextlib
import http.client
import os
import resource
import socket
import threading
import time

import doors
import pytest
import wire
from broker import Courser, until
from doors import LOOPBACK, Authority, WithAccounts, listener, places, running
from raw import RawClient
from turns import only_short_turns
from web import UPGRADE
from wire import CONNACK, PUBACK, PUBLISH, V3, V5

pytestmark = pytest.mark.courser

# Of 20,000 descriptors; where the system allows fewer, as large a part of those.
SOCKETS, DESCRIPTORS = 15_000, 20_000
# Longer than it takes to open them all, so that all are there at once.
CONNECT_SECONDS, DRIBBLE_SECONDS = 30, 8
# Who is not answered for so long has been forgotten: no figure of how fast a broker is, on whatever machine this runs.
PATIENCE = 20
# One proxy may speak for all of them.
PROXIED = f'{LOOPBACK}, proxies = ["127.0.0.0/8"], insecure_anonymous = true'
# What is begun at each listener and never ended; a quarter of all at doors, whose threads take 4,096 handshakes each, 1,024 of an address.
WHOLE = {
    "mqtt": wire.connect(V5, "loris" * 100),
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "ws": UPGRADE,
    "proxied": b"PROXY TCP6 2001:0db8:0000:0000:0000:0000:0000:0001 2001:0db8::2 4711 1883\r\n",
}
LISTENERS = ["mqtt"] * 9 + ["tls", "ws", "proxied"]
BEGUN = [0, 1, 2, 40]
SOURCES = [f"127.0.0.{last}" for last in range(2, 10)]
BAD_USER, BUSY, TOO_OFTEN = 0x86, 0x89, 0x9F
V3_REFUSED = (4, 5)


class Healthy:
    """Publishes to itself all the while; `worst` is the longest round trip in seconds."""

    def __init__(self, address, client_id="healthy", **login):
        self.client = RawClient(address, V5)
        self.client.send(wire.connect(V5, client_id, **login))
        self.client.expect(CONNACK, reason=0)
        self.client.send(wire.subscribe(V5, 1, [("healthy", 1)]))
        self.client.expect(wire.SUBACK)
        self.worst = self.trips = 0
        self.failure = None
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            while not self.done.wait(0.02):
                began = time.monotonic()
                self.client.send(wire.publish(V5, "healthy", b"x", qos=1, packet_id=1))
                for _ in range(2):
                    found = self.client.receive()
                    assert found is not None and found.kind in (PUBLISH, PUBACK), found
                    if found.kind == PUBLISH:
                        self.client.send(wire.ack(PUBACK, found.packet_id))
                self.worst = max(self.worst, time.monotonic() - began)
                self.trips += 1
        except Exception as error:  # it is the test's business
            self.failure = error

    def check(self):
        """Ends, and says how it was."""
        self.done.set()
        self.thread.join()
        assert self.failure is None, self.failure
        assert self.trips > 0 and self.worst < PATIENCE, f"{self.trips} round trips, the longest {self.worst:.2f} s"
        self.client.close()


def sockets(broker):
    """How many the broker has."""
    found = 0
    with os.scandir(f"/proc/{broker.process.pid}/fd") as descriptors:
        for descriptor in descriptors:
            with contextlib.suppress(FileNotFoundError):
                found += os.readlink(descriptor.path).startswith("socket:")
    return found


def login(address, version, name, password, source="127.0.0.1", client_id="x"):
    """A connection from `source` that has sent CONNECT."""
    client = RawClient.__new__(RawClient)
    client.version, client.buffer, client.kept, client.trace, client.connacks, client.next_id = version, bytearray(), [], [], 0, 0
    client.sock = socket.create_connection(address, timeout=30, source_address=(source, 0))
    client.patience = 30
    client.send(wire.connect(version, client_id, username=name, password=password))
    return client


def answer(client):
    """The reason of CONNACK."""
    found = client.receive()
    assert found is not None and found.kind == CONNACK, found
    client.close()
    return found.reason


class Loris:
    """A connection that says what it says byte by byte."""

    def __init__(self, number, places):
        group, kind = divmod(number, len(LISTENERS))
        self.name = LISTENERS[kind]
        self.sock = socket.create_connection(places[self.name], timeout=30, source_address=(SOURCES[group % len(SOURCES)], 0))
        # Ends by RST: no port of these addresses stays in use behind the test.
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.said = 0
        self.say(BEGUN[group % len(BEGUN)])

    def say(self, count):
        with contextlib.suppress(OSError):
            self.sock.send(WHOLE[self.name][self.said : self.said + count])
        self.said += count

    def ends(self, deadline):
        self.sock.settimeout(max(0.01, deadline - time.monotonic()))
        # Version 5 may be told why.
        with contextlib.suppress(ConnectionError):
            while self.sock.recv(4096):
                pass


@pytest.mark.timeout(180)
def test_slow_loris(tmp_path):
    """15,000 connections that say nothing, begin a CONNECT, a TLS handshake, an upgrade to WebSocket or a PROXY header, or say a byte now and
    then: each ends with its time limit, a client that was there is served all along, and a new one is let in."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = SOCKETS if hard >= DESCRIPTORS else hard * 3 // 4
    files = Authority(tmp_path).issue("server", "server", doors.server_names())
    limit = f'handshake_timeout = "{CONNECT_SECONDS}s"'
    items = [
        listener("tls", "mqtts", f"{LOOPBACK}, {limit}", files),
        listener("ws", "ws", f"{LOOPBACK}, {limit}"),
        listener("proxied", "mqtt", f"{PROXIED}, {limit}"),
    ]
    settings = {"listeners": ", ".join(items), "connect_timeout": f"{CONNECT_SECONDS}s"}
    with running(Courser, tmp_path / "broker", **settings) as broker:
        at = {"mqtt": broker.address, **places(broker)}
        healthy = Healthy(broker.address)
        before = sockets(broker)
        attackers = []
        try:
            with only_short_turns(broker):
                for number in range(count):
                    attackers.append(Loris(number, at))
                until(lambda: sockets(broker) - before == count, f"all {count} are there at once")
                opened = time.monotonic()
                held = collections.Counter(attacker.name for attacker in attackers)
                print(f"{count} connections at once: {dict(held)}")
                newcomer = RawClient(broker.address, V5)
                newcomer.send(wire.connect(V5, "newcomer"))
                newcomer.expect(CONNACK, reason=0)
                newcomer.close()
                # A byte a second is nothing whole either.
                for _ in range(DRIBBLE_SECONDS):
                    for attacker in attackers[::41]:
                        attacker.say(1)
                    time.sleep(1)
                deadline = opened + CONNECT_SECONDS + 2 * PATIENCE
                for attacker in attackers:
                    attacker.ends(deadline)
                # It reads that the other side has gone, too.
                deadline += PATIENCE
                while sockets(broker) > before:
                    assert time.monotonic() < deadline, f"{sockets(broker)} sockets, {before} before"
                    time.sleep(0.05)
        finally:
            for attacker in attackers:
                attacker.sock.close()
            healthy.check()


NOISY, NOISE = 100, bytes(256 * 1024)


def test_who_goes_on_sending_behind_a_fault(tmp_path):
    """A hundred connections whose first packet is no CONNECT, and that go on sending as fast as it is taken: they end, no turn of a shard takes
    long, and a client that was there is served all along."""
    with running(Courser, tmp_path) as broker:
        healthy = Healthy(broker.address)
        left = [socket.create_connection(broker.address, timeout=30) for _ in range(NOISY)]
        for attacker in left:
            attacker.setblocking(False)
        try:
            with only_short_turns(broker):
                deadline = time.monotonic() + PATIENCE
                while left:
                    assert time.monotonic() < deadline, f"{len(left)} connections go on"
                    left = [attacker for attacker in left if goes_on(attacker)]
        finally:
            healthy.check()


def goes_on(attacker):
    """Sends more, if that is taken; false: it is over."""
    try:
        attacker.send(NOISE)
    except BlockingIOError:
        pass
    except OSError:
        attacker.close()
        return False
    return True


IDLE, KEEP_ALIVE_MAX = 100, 2
KEEP_ALIVE_TIMEOUT = 0x8D


def test_cve_2020_13849_the_server_s_keep_alive_ends_who_never_speaks(tmp_path):
    """A hundred 5.0 clients ask for a keep alive of 65,535 s and never speak again: they are told 2 s, and ended. 3.1.1 has no way to be told."""
    with running(Courser, tmp_path, keep_alive_max=KEEP_ALIVE_MAX) as broker:
        idle = [RawClient(broker.address, V5) for _ in range(IDLE)]
        for number, client in enumerate(idle):
            told = client.connect(f"idle{number}", keep_alive=65_535)
            assert told.properties["server_keep_alive"] == KEEP_ALIVE_MAX
        old = RawClient(broker.address, V3)
        old.connect("old", keep_alive=65_535)
        for client in idle:
            assert client.expect_closed(KEEP_ALIVE_TIMEOUT) == KEEP_ALIVE_TIMEOUT
        old.ping()


@pytest.mark.parametrize("version", [V3, V5])
def test_brute_force(tmp_path, version):
    """Whoever guesses passwords waits soon, without a hash being made, and does not get in with the right one either; others do."""
    with running(WithAccounts, tmp_path) as broker:
        password = broker.password.encode()
        reasons = []
        began = time.monotonic()
        with only_short_turns(broker):
            for number in range(60):
                reasons.append(answer(login(broker.address, version, "root", b"guess%d" % number, "127.0.0.2")))
        took = time.monotonic() - began
        bad, often = (V3_REFUSED, (3,)) if version == V3 else ((BAD_USER,), (TOO_OFTEN,))
        looked_at = sum(reason in bad for reason in reasons)
        assert all(reason in (*bad, *often) for reason in reasons), reasons
        # Five are free; behind them the wait doubles from one second on.
        assert 5 <= looked_at <= 5 + took.__ceil__() + 1, reasons
        assert reasons[-1] in often
        assert answer(login(broker.address, version, "root", password, "127.0.0.2")) in often
        assert answer(login(broker.address, version, "root", password, "127.0.0.1")) == 0


def operator(broker, password, source):
    """The status of a request to the API with this password."""
    host, port = broker.http.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30, source_address=(source, 0))
    token = base64.b64encode(b"root:" + password).decode()
    connection.request("GET", "/api/v1/clients", headers={"Authorization": f"Basic {token}"})
    status = connection.getresponse().status
    connection.close()
    return status


def test_brute_force_of_somebody_who_is_there(tmp_path):
    """The victim has just logged in, over MQTT and over HTTP, so that its password is remembered: who guesses and has to wait does not
    hear from that which of many passwords is right."""
    with running(WithAccounts, tmp_path) as broker:
        password = broker.password.encode()
        victim, guesser = "127.0.0.1", "127.0.0.2"
        assert answer(login(broker.address, V5, "root", password, victim)) == 0
        assert operator(broker, password, victim) == 200
        # The last of these wrong ones has a wait of 8 seconds behind it.
        wrong = 0
        while wrong < 8:
            reason = answer(login(broker.address, V5, "root", b"guess%d" % wrong, guesser))
            assert reason in (BAD_USER, TOO_OFTEN), reason
            wrong += reason == BAD_USER
            time.sleep(0.05)
        reasons = {answer(login(broker.address, V5, "root", guess, guesser)) for guess in [b"wrong", password] * 10}
        assert reasons == {TOO_OFTEN}, reasons
        statuses = [operator(broker, password, guesser) for _ in range(5)]
        assert statuses == [429] * 5
        assert answer(login(broker.address, V5, "root", password, victim)) == 0
        assert operator(broker, password, victim) == 200


# On a busy machine the last of those that wait have their turn late: all that may wait are compared only in a long time.
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("settings", "compared"), [({}, 1), ({"connect_timeout": "60s"}, 100)], ids=["default", "long"])
def test_hash_flood(tmp_path, settings, compared):
    """Hundreds of passwords from many addresses, of users that there are and are not: as many as may wait are compared, the others
    are told so; a client that is there is served, another one of an address whose last login was right gets in, and memory does not grow
    with the flood."""
    with running(WithAccounts, tmp_path, **settings) as broker:
        password = broker.password.encode()
        healthy = Healthy(broker.address, username="root", password=password)
        resident = broker.rss_bytes()
        broker.forget_rss_peak()
        try:
            with only_short_turns(broker):
                flood = []
                for number in range(600):
                    source = f"127.0.{1 + number // 200}.{1 + number % 200}"
                    user = "root" if number % 2 else f"nobody{number}"
                    flood.append(login(broker.address, V5, user, b"wrong", source, f"f{number}"))
                regular = login(broker.address, V5, "root", password, client_id="regular")
                assert answer(regular) == 0, "strangers keep it out"
                reasons = [answer(client) for client in flood]
            peak = broker.rss_peak_bytes()
            assert set(reasons) <= {BAD_USER, BUSY, TOO_OFTEN}, set(reasons)
            assert reasons.count(BUSY) > 0, "no bound was met"
            assert reasons.count(BAD_USER) >= compared, "those that wait are compared"
            assert peak - resident < 160 << 20, f"{(peak - resident) >> 20} MiB more"
        finally:
            healthy.check()
        assert answer(login(broker.address, V5, "root", password)) == 0
