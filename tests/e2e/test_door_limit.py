"""Handshakes under way at doors have a bound for each address: who is beyond it is closed and counted, others and who was there are served."""

import contextlib
import os
import re
import resource
import socket
import ssl
import urllib.request

import doors
import pytest
import wire
from broker import Courser, until
from doors import LOOPBACK, Authority, listener, places, running
from raw import RawClient
from web import upgrade
from wire import CONNACK, V5

pytestmark = [pytest.mark.courser, pytest.mark.timeout(180)]

# Of one address on one thread of doors (docs/limits.md); there is one for four cores, and at most four.
PER_ADDRESS = 1_024
THREADS = min(max(len(os.sched_getaffinity(0)) // 4, 1), 4)
BEYOND = 60
FLOODER, OTHER = "127.0.0.2", "127.0.0.3"
# Both come through one proxy, which says who they are.
BEHIND = {FLOODER: b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 1883\r\n", OTHER: b"PROXY TCP4 192.0.2.8 127.0.0.1 4711 1883\r\n"}
PROXIED = 'proxies = ["127.0.0.0/8"], insecure_anonymous = true, address_connects_per_second = 0'
# What each sends of its handshake, so that it is under way.
BEGINS = {"mqtts": b"\x16\x03\x01\x02\x00\x01\x00", "ws": b"GET /mqtt HTTP/1.1\r\nHost: x\r\n"}


def reached(place, source, behind):
    """A connection of this address, or of the one that a proxy has for it."""
    sock = socket.create_connection(place, timeout=30, source_address=(OTHER if behind else source, 0))
    if behind:
        sock.sendall(BEHIND[source])
    return sock


def begun(place, protocol, behind):
    sock = reached(place, FLOODER, behind)
    # Ends by RST: no port of this address stays in use behind the test.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with contextlib.suppress(OSError):
        sock.send(BEGINS[protocol])
    return sock


def refused(broker):
    with urllib.request.urlopen(f"{broker.http}/metrics", timeout=20) as answer:
        found = re.findall(r'courser_doors_refused_total\{reason="(\w+)"\} ([0-9.]+)', answer.read().decode())
    return {reason: int(float(count)) for reason, count in found}


def is_closed(sock):
    sock.setblocking(False)
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def comes_in(place, protocol, authority, source, behind):
    """Whether a whole handshake and CONNECT from this address are taken."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with contextlib.ExitStack() as open_sockets:
        sock = open_sockets.enter_context(reached(place, source, behind))
        try:
            if protocol == "ws":
                answer = upgrade(sock)
                assert answer is None or answer.startswith(b"HTTP/1.1 101"), answer
                return answer is not None
            sock = open_sockets.enter_context(context.wrap_socket(sock, server_hostname="localhost"))
            sock.sendall(wire.connect(V5, "proper"))
            return sock.recv(4096)[:1] == b"\x20"
        except (ConnectionError, ssl.SSLError):
            return False


@pytest.mark.parametrize("behind", [False, True], ids=["direct", "behind a proxy"])
@pytest.mark.parametrize("protocol", BEGINS)
def test_handshakes_of_one_address_have_a_bound(tmp_path, protocol, behind):
    """As many as may be are held; each one beyond is closed and counted as over the limit, and nothing else is counted. Behind a proxy
    it is the address in the header that counts, before the handshakes begin."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    authority = Authority(tmp_path / "certificates")
    files = authority.issue("server", "server", doors.server_names()) if protocol == "mqtts" else None
    more = f", {PROXIED}" if behind else ""
    door = listener("door", protocol, f'{LOOPBACK}, handshake_timeout = "60s"{more}', files)
    with running(Courser, tmp_path / "broker", listeners=door) as broker:
        place = places(broker)["door"]
        there = RawClient(broker.address, V5)
        there.connect("there")
        attackers = []
        try:
            # Until so many were refused: by how many threads they are counted is the machine's matter.
            while len(attackers) < THREADS * PER_ADDRESS + BEYOND and refused(broker).get("over_limit", 0) < BEYOND:
                attackers += [begun(place, protocol, behind) for _ in range(20)]
            until(lambda: sum(map(is_closed, attackers)) >= BEYOND, "those beyond the limit are closed")
            until(lambda: sum(map(is_closed, attackers)) == refused(broker)["over_limit"], "each one that is closed is counted")
            held = len(attackers) - refused(broker)["over_limit"]
            assert PER_ADDRESS <= held <= THREADS * PER_ADDRESS, f"{held} of one address are under way"
            assert {reason for reason, count in refused(broker).items() if count} == {"over_limit"}, refused(broker)
            there.ping()
            assert comes_in(place, protocol, authority, OTHER, behind), "another address has handshakes of its own"
        finally:
            for sock in attackers:
                sock.close()
        until(lambda: comes_in(place, protocol, authority, FLOODER, behind), "places of handshakes that ended are free")
        there.ping()
        counted = refused(broker)["over_limit"]
    assert f"door_over_limit={counted} " in broker.output()


@pytest.mark.parametrize("whose", ["of the process", "of the listener"])
def test_who_finds_no_room_makes_no_handshake(tmp_path, whose):
    """Beyond `connections_max` a connection is closed as soon as it is accepted, as one of plain TCP is, and counted as over the limit."""
    beyond = 20
    authority = Authority(tmp_path / "certificates")
    files = authority.issue("server", "server", doors.server_names())
    settings = {"connections_max": 1} if whose == "of the process" else {}
    own = "" if settings else ", connections_max = 1"
    door = listener("door", "mqtts", f"{LOOPBACK}{own}", files)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with running(Courser, tmp_path / "broker", listeners=door, **settings) as broker:
        place = places(broker)["door"]
        with reached(place, OTHER, False) as plain, context.wrap_socket(plain, server_hostname="localhost") as first:
            first.sendall(wire.connect(V5, "first"))
            assert first.recv(4096)[:1] == b"\x20"
            for _ in range(beyond):
                with reached(place, OTHER, False) as sock, pytest.raises((ConnectionError, ssl.SSLError)):
                    context.wrap_socket(sock, server_hostname="localhost")
            assert refused(broker)["over_limit"] == beyond
            first.sendall(wire.PING)
            assert first.recv(4096)[:1] == b"\xd0"
        until(lambda: comes_in(place, "mqtts", authority, OTHER, False), "its place is free when the first has gone")
