"""Floods of those who have not logged in: half-open connections, guessed passwords, passwords to be hashed. Who has logged in is served."""

import base64
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
from wire import CONNACK, PUBACK, PUBLISH, V3, V5

pytestmark = pytest.mark.courser

# Of 20,000 descriptors; where the system allows fewer, as large a part of those.
SOCKETS, DESCRIPTORS = 15_000, 20_000
# Longer than it takes to open them all, so that all are there at once.
CONNECT_SECONDS, DRIBBLE_SECONDS = 30, 8
# Who is not answered for so long has been forgotten: no figure of how fast a broker is, on whatever machine this runs.
PATIENCE = 20
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


@pytest.mark.timeout(180)
def test_slow_loris(tmp_path):
    """15,000 connections that say nothing, begin a CONNECT or a TLS handshake, or say a byte now and then: each ends with its time
    limit, a client that was there is served all along, and a new one is let in."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = SOCKETS if hard >= DESCRIPTORS else hard * 3 // 4
    files = Authority(tmp_path).issue("server", "server", doors.server_names())
    more = f'{LOOPBACK}, handshake_timeout = "{CONNECT_SECONDS}s"'
    settings = {"listeners": listener("tls", "mqtts", more, files), "connect_timeout": f"{CONNECT_SECONDS}s"}
    whole = wire.connect(V5, "loris" * 100)
    beginnings = [b"", whole[:1], whole[:40], whole[:2]]
    with running(Courser, tmp_path / "broker", **settings) as broker:
        tls = places(broker)["tls"]
        healthy = Healthy(broker.address)
        before = sockets(broker)
        attackers = []
        try:
            for number in range(count):
                # Fewer than a door takes from one address.
                at_door = number % 20 == 0
                sock = socket.create_connection(tls if at_door else broker.address, timeout=30)
                attackers.append(sock)
                with contextlib.suppress(OSError):
                    sock.send(b"\x16\x03\x01\x02\x00"[: 1 + number % 5] if at_door else beginnings[number % 4])
            until(lambda: sockets(broker) - before == count, f"all {count} are there at once")
            opened = time.monotonic()
            newcomer = RawClient(broker.address, V5)
            newcomer.send(wire.connect(V5, "newcomer"))
            newcomer.expect(CONNACK, reason=0)
            newcomer.close()
            # A byte a second is no CONNECT either.
            dribbling = attackers[2::40]
            for position in range(40, 40 + DRIBBLE_SECONDS):
                for sock in dribbling:
                    with contextlib.suppress(OSError):
                        sock.send(whole[position : position + 1])
                time.sleep(1)
            deadline = opened + CONNECT_SECONDS + 2 * PATIENCE
            for sock in attackers:
                sock.settimeout(max(0.01, deadline - time.monotonic()))
                # Version 5 may be told why.
                with contextlib.suppress(ConnectionError):
                    while sock.recv(4096):
                        pass
            # It reads that the other side has gone, too.
            deadline += PATIENCE
            while sockets(broker) > before:
                assert time.monotonic() < deadline, f"{sockets(broker)} sockets, {before} before"
                time.sleep(0.05)
        finally:
            for sock in attackers:
                sock.close()
            healthy.check()


@pytest.mark.parametrize("version", [V3, V5])
def test_brute_force(tmp_path, version):
    """Whoever guesses passwords waits soon, without a hash being made, and does not get in with the right one either; others do."""
    with running(WithAccounts, tmp_path) as broker:
        password = broker.password.encode()
        reasons = []
        began = time.monotonic()
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


@pytest.mark.timeout(120)
def test_hash_flood(tmp_path):
    """Hundreds of passwords from many addresses, of users that there are and are not: as many as may wait are compared, the others
    are told so; a client that is there is served, and memory does not grow with the flood."""
    # On a busy machine the last of those that wait have their turn late.
    with running(WithAccounts, tmp_path, connect_timeout="60s") as broker:
        password = broker.password.encode()
        healthy = Healthy(broker.address, username="root", password=password)
        resident = broker.rss_bytes()
        broker.forget_rss_peak()
        try:
            flood = []
            for number in range(600):
                source = f"127.0.{1 + number // 200}.{1 + number % 200}"
                user = "root" if number % 2 else f"nobody{number}"
                flood.append(login(broker.address, V5, user, b"wrong", source, f"f{number}"))
            reasons = [answer(client) for client in flood]
            peak = broker.rss_peak_bytes()
            assert set(reasons) <= {BAD_USER, BUSY, TOO_OFTEN}, set(reasons)
            assert reasons.count(BUSY) > 0, "no bound was met"
            assert reasons.count(BAD_USER) >= 100, "those that wait are compared"
            assert peak - resident < 160 << 20, f"{(peak - resident) >> 20} MiB more"
        finally:
            healthy.check()
        assert answer(login(broker.address, V5, "root", password)) == 0
