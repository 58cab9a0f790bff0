"""What waits has shares of `memory.max`: once one is used up, it is said who is refused, who is not, and that nobody's session is lost.

The rows of docs/limits.md about messages that wait, retained messages and closed connections; each bound is met to the message.
"""

import contextlib
import itertools
import socket
import time

import pytest
import wire
from raw import RawClient
from test_memory import AWAY, QUOTA, SMALL, Client, Healthy, Server, fill_a_third, queue
from wire import PUBACK, PUBCOMP, PUBREC, V3, V5

pytestmark = [pytest.mark.courser, pytest.mark.timeout(180)]

# What may wait for one session while memory is short.
CROWD_MESSAGES, CROWD_BYTES = 64, 64 * 1024
LARGE = b"x" * 20_000
PATIENCE = 60
# One alone, or a few, may not hold so much that they are closed for it.
READERS = SMALL >> 22
# So many new topics are refused in a row when there is no room anywhere.
IN_A_ROW = 500
# A retained message that nobody gets now is taken, too.
TAKEN = (0, 0x10)


@contextlib.contextmanager
def serving(tmp_path):
    """A server whose process must end well."""
    server = Server(tmp_path, SMALL)
    stopped = None
    try:
        yield server
    finally:
        stopped = server.stop()
    code, log = stopped
    assert code == 0, log


def come(server, version, client_id, *, kept=False):
    client = RawClient(("127.0.0.1", server.port), version)
    client.patience = PATIENCE
    lasting = {"session_expiry": 600} if kept and version == V5 else {}
    client.send(wire.connect(version, client_id, clean=not kept, properties=lasting))
    return client, client.expect(wire.CONNACK, reason=0).session_present


def taken(publisher, topic, payload, most):
    """How many QoS 1 publishes in a row were taken, and what the first other one was answered."""
    for number in range(most):
        publisher.send(wire.publish(V5, topic, payload, qos=1, packet_id=9))
        reason = publisher.expect(PUBACK, packet_id=9).reason
        if reason:
            return number, reason
    return most, 0


def test_while_a_third_waits_those_who_take_their_messages_get_them(tmp_path, raw):
    """A receiver of either version; what publishers are told shows in 5.0 only."""
    version = raw.version
    with serving(tmp_path) as server:
        with Healthy(server.port) as healthy:
            queuer, waiting = queue(server, healthy)
        assert fill_a_third(waiting), waiting
        publisher, _ = come(server, V5, "publisher")

        # Who takes what comes, kept or not, gets as much as there is.
        for name in ("kept", "passing"):
            reader, _ = come(server, version, name, kept=name == "kept")
            reader.subscribe(name, qos=1)
            for number in range(3 * CROWD_MESSAGES):
                publisher.publish(name, b"%d" % number, qos=1)
                reader.message(payload=b"%d" % number)

        # Who does not, and whose session is kept: its publisher is refused, by count and by bytes.
        silent, _ = come(server, version, "silent", kept=True)
        silent.subscribe("silent", qos=1)
        assert taken(publisher, "silent", b"x", 2 * CROWD_MESSAGES) == (CROWD_MESSAGES, QUOTA)
        heavy, _ = come(server, version, "heavy", kept=True)
        heavy.subscribe("heavy", qos=1)
        assert taken(publisher, "heavy", LARGE, 9) == (CROWD_BYTES // len(LARGE) + 1, QUOTA)
        away, _ = come(server, version, "away", kept=True)
        away.subscribe("away", qos=1)
        away.close()
        until_refused(publisher, "away")
        # What it has taken makes room for as much, and for no more.
        for _ in range(CROWD_MESSAGES):
            silent.message()
        again, deadline = 0, time.monotonic() + PATIENCE
        while again < CROWD_MESSAGES:
            again += taken(publisher, "silent", b"x", 2 * CROWD_MESSAGES)[0]
            assert time.monotonic() < deadline, f"room for {again}"
        assert again == CROWD_MESSAGES

        # Whose session ends with its connection: it loses what is too much, and the publisher is not refused. Its shard may hear a moment later
        # that the other one's has taken the rest.
        deadline = time.monotonic() + PATIENCE
        for number in itertools.count():
            passing, _ = come(server, version, f"loses{number}")
            passing.subscribe("loses", qos=1)
            assert taken(publisher, "loses", b"x", 2 * CROWD_MESSAGES) == (2 * CROWD_MESSAGES, 0)
            for _ in range(CROWD_MESSAGES):
                passing.message(payload=b"x")
            passing.ping()
            publisher.publish("loses", b"later", qos=1)
            more = 0
            while passing.message(qos=1).payload == b"x":
                more += 1
            if more == 0:
                break
            assert time.monotonic() < deadline, f"{more} too many"
            passing.close()
        queuer.close()


def until_refused(publisher, topic):
    """Of one who is gone; that the server has read so takes a moment."""
    deadline = time.monotonic() + PATIENCE
    while True:
        publisher.send(wire.publish(V5, topic, b"x", qos=1, packet_id=9))
        if publisher.expect(PUBACK, packet_id=9).reason == QUOTA:
            return
        assert time.monotonic() < deadline, "publishes for one who is away are taken"


def test_while_a_third_waits_qos_2_of_kept_sessions_is_refused(tmp_path, raw):
    """3.1.1 cannot be told: the connection ends. Once there is room, it is taken."""
    version = raw.version
    with serving(tmp_path) as server:
        with Healthy(server.port) as healthy:
            queuer, _ = queue(server, healthy)
        reader, _ = come(server, V5, "reader")
        reader.subscribe("t", qos=2)
        passing, _ = come(server, version, "passing")
        passing.publish("t", b"passing", qos=2)
        reader.message(payload=b"passing")
        kept, _ = come(server, version, "kept", kept=True)
        # The shard of this session may hear a moment later that the other one's has taken the rest.
        deadline = time.monotonic() + PATIENCE
        while takes_qos_2(kept):
            reader.message(payload=b"kept")
            assert time.monotonic() < deadline, "it is not refused"
        # What waited goes with the session that it waited for.
        for number in range(AWAY):
            Client(server.port, f"absent{number}").close()
        deadline = time.monotonic() + PATIENCE
        while not takes_qos_2(kept):
            assert time.monotonic() < deadline, "the room that was freed is not used"
            kept.close()
            kept, present = come(server, version, "kept", kept=True)
            assert present
        reader.message(payload=b"kept")
        passing.publish("t", b"marker", qos=2)
        reader.message(payload=b"marker")
        queuer.close()


def takes_qos_2(client):
    """Whether a publish is taken; if it is, its exchange is brought to its end. Of 3.1.1 one that is not ends the connection."""
    client.send(wire.publish(client.version, "t", b"kept", qos=2, packet_id=7))
    found = client.receive()
    if found is None and client.version == V3:
        return False
    assert found.kind == PUBREC and found.reason in (0, QUOTA), found
    if found.reason == QUOTA:
        assert client.version == V5, "3.1.1 has no such answer"
        return False
    client.send(wire.ack(wire.PUBREL, 7))
    client.expect(PUBCOMP, packet_id=7, reason=0)
    return True


def test_a_sixth_may_be_retained(tmp_path):
    """Beyond it a new one is refused, one that replaces another and is no larger is taken, and what is cleared makes room."""
    size = 16_384
    with serving(tmp_path) as server:
        client = Client(server.port, "retainer")

        def retain(topic, length=size):
            return client.publish(f"retained/{topic}", b"r" * length, retain=True)

        # Each partition that keeps some has its share: on and on, until none has room.
        taken, refused = [], 0
        for number in itertools.count():
            if retain(number) == QUOTA:
                refused += 1
            else:
                taken.append(number)
                refused = 0
            if refused == IN_A_ROW:
                break
        assert 0.9 < len(taken) * size / (SMALL / 6) <= 1, f"{len(taken) * size / SMALL:.3f} of memory.max"
        first, second, third = taken[:3]
        assert retain(first) in TAKEN and retain(first, size - 1) in TAKEN, "one in place of another"
        assert retain(second, 4 * size) == QUOTA, "a larger one in place of another"
        assert retain(third, 0) in TAKEN, "it is cleared"
        assert retain(third) in TAKEN, "there is room for one"
        assert retain("new") == QUOTA
        client.close()


def test_who_is_closed_for_memory_keeps_its_session(tmp_path, raw):
    """Readers that do not read are closed, the messages of QoS 1 that wait for them are there when they come back."""
    version = raw.version
    names = [f"reader{number}" for number in range(READERS)]
    with serving(tmp_path) as server:
        for name in names:
            client, _ = come(server, version, name, kept=True)
            client.subscribe(f"{name}/kept", qos=1)
            client.subscribe(f"{name}/flood", qos=0)
            client.close()
        publisher, _ = come(server, V5, "publisher")
        for name in names:
            publisher.publish(f"{name}/kept", name.encode(), qos=1)
        stalled = {name: come_and_stall(server, version, name) for name in names}
        deadline = time.monotonic() + PATIENCE
        for number in itertools.count():
            publisher.send(wire.publish(V5, f"{names[number % READERS]}/flood", b"f" * 60_000))
            if number % 50:
                continue
            # While memory is short it is read every 20 ms.
            publisher.ping()
            if closed := [name for name, sock in stalled.items() if is_closed(sock)]:
                break
            assert time.monotonic() < deadline, "readers that do not read hold all there is"
        for sock in stalled.values():
            sock.close()
        for name in closed:
            client, present = comes_back(server, version, name)
            assert present, name
            client.message(topic=f"{name}/kept", payload=name.encode())
            client.close()


def come_and_stall(server, version, name):
    """A connection of a kept session that reads nothing at all, through a small window."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", server.port))
    lasting = {"session_expiry": 600} if version == V5 else {}
    sock.sendall(wire.connect(version, name, clean=False, properties=lasting))
    return sock


def is_closed(sock):
    """Whether the other side has gone: what it would not read is still there, so writing says so."""
    try:
        sock.send(wire.PING)
    except OSError:
        return True
    return False


def comes_back(server, version, name):
    """Once there is room for connections again."""
    deadline = time.monotonic() + PATIENCE
    while True:
        client = RawClient(("127.0.0.1", server.port), version)
        lasting = {"session_expiry": 600} if version == V5 else {}
        with contextlib.suppress(OSError):
            client.send(wire.connect(version, name, clean=False, properties=lasting))
            found = client.receive(PATIENCE)
            if found is not None and found.reason == 0:
                return client, found.session_present
        client.close()
        assert time.monotonic() < deadline, "it is not let in again"
        time.sleep(0.05)
