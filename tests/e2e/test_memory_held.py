"""What clients have the broker hold for them, whose count says little of what it takes: shared groups of sessions that are away, and of idle connections
topic aliases, wills, and records of TLS that do not end. None shuts anybody out."""

import re
import socket
import ssl
import time
import urllib.request

import groups
import pytest
import wire
from raw import RawClient
from test_memory import (
    GROUP,
    IN_A_ROW,
    KEPT,
    LARGE,
    LASTS,
    MIB,
    QUOTA,
    Client,
    Healthy,
    Server,
    end_by_closing,
    end_sessions,
    subscribed,
    until_refused,
)
from wire import CONNACK, V5

pytestmark = pytest.mark.courser

# As many shared groups as a session may have, and how many sessions have them where all of a quarter of a GiB is theirs at a KiB each.
GROUPS, SESSIONS_MOST = 256, 1_000
# Connections that would hold all of the memory with the topic aliases that each may bind.
IDLE, ALIASES, TOPIC_BYTES = 2_400, 32, 4_000


def share(server, healthy):
    """Sessions that stay, each with all the groups that it may have, of clients that go at once: their names."""
    names, refused = [], 0

    def step(number):
        nonlocal refused
        client = Client(server.port, f"g{number}", properties=KEPT)
        healthy.is_served()
        assert client.reason in (0, QUOTA), f"{client.reason:#x}"
        full = client.reason == QUOTA
        if not full:
            names.append(f"g{number}")
            full = QUOTA in subscribed(client, 1, [f"$share/{number}-{it}/q" for it in range(GROUPS)])
        client.close()
        refused = refused + 1 if full else 0
        return refused == IN_A_ROW

    until_refused(step, SESSIONS_MOST)
    # What connected members needed has had time to go.
    healthy.is_served(LASTS, 60)
    passing = Client(server.port, "comes and goes")
    assert passing.reason == 0, "who wants no session that stays comes in"
    assert subscribed(passing, 1, ["here"]) == [1]
    assert passing.publish("here", b"x") == 0
    passing.close()
    return names


def bound(alias):
    """A PUBLISH that binds an alias to a long name."""
    topic = f"t/{alias}/".ljust(TOPIC_BYTES, "x")
    return wire.packet(3, wire.text(topic) + wire.props([("topic_alias", alias)]))


def alias_maximum(server):
    """What one is told who comes now."""
    client = RawClient(("127.0.0.1", server.port), V5)
    client.send(wire.connect(V5, "coming"))
    connack = client.receive()
    client.close()
    assert connack.kind == CONNACK and connack.reason == 0, connack
    return connack.properties.get("topic_alias_maximum", 0)


def alias(server, healthy):
    """Connections that bind all the aliases that they may, and stay."""
    assert alias_maximum(server) == ALIASES
    clients = [Client(server.port, f"a{number}") for number in range(IDLE)]
    assert all(client.reason == 0 for client in clients)
    packets = b"".join(bound(alias) for alias in range(1, ALIASES + 1))
    for number, client in enumerate(clients):
        if number % 100 == 0:
            healthy.is_served()
        try:
            client.send(packets)
        except OSError:
            # It was sent away.
            continue
    healthy.is_served(LASTS, 60)
    assert alias_maximum(server) == 0, "who comes now is told of none"
    return clients


def end_aliases(server, clients):
    """All are gone: there is room again."""
    end_by_closing(server, clients)
    deadline = time.monotonic() + 15
    while alias_maximum(server) == 0:
        assert time.monotonic() < deadline, "the room that was freed is not used"
        time.sleep(0.1)


# Memory that idle connections would fill in some seconds, and how many come.
LITTLE, WILLS, RECORDS = 64 * MIB, 3_000, 1_800
# All that one record of TLS takes in.
RECORD_BYTES = 16 * 1024
MESSAGE = wire.packet(3, wire.text("begun") + bytes(RECORD_BYTES - 10))
assert len(MESSAGE) == RECORD_BYTES


def with_will(server, number, size):
    """The answer to a client whose session ends with its connection, and its socket."""
    client = RawClient(("127.0.0.1", server.port), V5)
    client.send(wire.connect(V5, f"w{number}", will=wire.Will("gone", bytes(size))))
    return client.receive().reason, client


@pytest.mark.timeout(120)
def test_wills_of_sessions_that_end_shut_nobody_out(tmp_path):
    """They have the room that sessions have: then who brings a large one is refused, and all others come in and are served."""
    server = Server(tmp_path, LITTLE)
    clients, refused = [], 0
    try:
        with Healthy(server.port) as healthy:
            for number in range(WILLS):
                reason, client = with_will(server, number, 15_500)
                assert reason in (0, QUOTA), f"{reason:#x}"
                refused += reason == QUOTA
                clients.append(client)
                if refused == IN_A_ROW:
                    break
            assert refused == IN_A_ROW
            healthy.is_served(LASTS, 60)
            reason, client = with_will(server, "small", 300)
            clients.append(client)
            assert reason == 0
            passing = Client(server.port, "comes and goes")
            assert passing.reason == 0
            print(f"{len(clients) - refused} wills; peak {server.peak / MIB:.0f} MiB")
            end_by_closing(server, [*clients, passing])
            deadline = time.monotonic() + 15
            while with_will(server, "large", 15_500)[0] == QUOTA:
                assert time.monotonic() < deadline, "the room that was freed is not used"
                time.sleep(0.1)
        assert healthy.refused == 0
    finally:
        code, log = server.stop()
    assert code == 0, log
    assert "memory_full" not in log, log


class Sealed:
    """A client over TLS that says when its bytes go."""

    def __init__(self, server, client_id):
        self.socket = socket.create_connection(("127.0.0.1", server.ports["mqtts"]), timeout=20)
        self.come, self.go = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.layer = server.tls.wrap_bio(self.come, self.go, server_hostname="localhost")
        self._run(self.layer.do_handshake)
        self._run(lambda: self.layer.write(wire.connect(V5, client_id, keep_alive=0)))
        self.reason = self._run(lambda: self.layer.read(64))[3]
        # What is not sent yet of a record that has begun.
        self.left = b""

    def _run(self, step):
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self.socket.sendall(self.go.read())
                data = self.socket.recv(65536)
                if not data:
                    raise EOFError from None
                self.come.write(data)
            finally:
                self.socket.sendall(self.go.read())

    def begin(self, sent=-1):
        """So much of a record that is a message, or all of it but its last byte; the one before it ends."""
        self.layer.write(MESSAGE)
        record = self.go.read()
        self.socket.sendall(self.left + record[:sent])
        self.left = record[sent:]

    def close(self):
        self.socket.close()


def closed_for_memory(server):
    """What /metrics says of it."""
    address = re.search(r"API, metrics and health on (http://[0-9.:]+)", server.log.read_text())[1]
    text = urllib.request.urlopen(f"{address}/metrics", timeout=10).read().decode()  # noqa: S310
    return int(re.search(r"^courser_closed_for_memory_total (\d+)", text, re.MULTILINE)[1])


@pytest.mark.timeout(120)
def test_records_of_tls_that_do_not_end_shut_nobody_out_for_long(tmp_path):
    """Those that hold as much are closed where other unfinished things are, and all recovers while the others stay."""
    server = Server(tmp_path, LITTLE, http='["127.0.0.1:0"]')
    clients, refused = [], 0
    try:
        with Healthy(server.port) as healthy:
            for number in range(RECORDS):
                try:
                    client = Sealed(server, f"r{number}")
                    refused += client.reason != 0
                    client.begin()
                    clients.append(client)
                except (OSError, EOFError):
                    refused += 1
                if refused >= 5 * IN_A_ROW:
                    break
            healthy.is_served(LASTS, 30)
            coming = Client(server.port, "coming")
            assert coming.reason == 0
            print(f"{len(clients)} came, {closed_for_memory(server)} closed; peak {server.peak / MIB:.0f} MiB")
            assert closed_for_memory(server) > 0
            end_by_closing(server, [*clients, coming])
    finally:
        code, log = server.stop()
    assert code == 0, log
    assert "memory_full" in log, log


# How each begins and ends, and what the log says of it.
HELD = {"share": (share, end_sessions, "sessions_full"), "alias": (alias, end_aliases, "aliases_full")}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", HELD)
def test_what_is_held_for_clients_shuts_nobody_out(tmp_path, name):
    """With 256 MiB in a control group of 512 MiB: the process lives, is resident with 1.15 times the number at most, refuses a healthy client nothing, and
    all recovers."""
    begin, end, said = HELD[name]
    try:
        with groups.memory_group(GROUP) as group:
            server = Server(tmp_path, LARGE, group)
            try:
                with Healthy(server.port) as healthy:
                    clients = begin(server, healthy)
                    print(f"{name}: {len(clients)}; peak {server.peak / MIB:.0f} of {LARGE // MIB} MiB")
                    end(server, clients)
                    healthy.is_served()
                assert healthy.refused == 0
            finally:
                code, log = server.stop()
    except groups.CannotMake as reason:
        pytest.skip(f"no control group can be made here: {reason}")
    assert code == 0, log
    assert said in log and "memory_full" not in log, log
    assert server.peak <= LARGE * 1.15, f"{server.peak >> 20} MiB: {log}"
