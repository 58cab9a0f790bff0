"""`memory.max` is kept under floods: the process lives, clients that behave are served, and all recovers when a flood ends. What share of
their messages may be refused meanwhile is in docs/limits.md.

Each flood alone with a small budget, all of them one after the other with 256 MiB in a control group of 512 MiB, and four in the smallest groups.
"""

import contextlib
import functools
import pathlib
import re
import resource
import select
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import doors
import groups
import pytest
import wire
from broker import Courser
from web import BINARY, frame, upgraded

pytestmark = pytest.mark.courser

MIB = 1 << 20
SMALL, LARGE, GROUP = 96 * MIB, 256 * MIB, 512 * MIB
# What the process has besides what it allocates: its code and the stacks of its threads.
BESIDE = 16 << 20
QUOTA = 0x97
# Sessions for which messages are queued (each drops its oldest beyond 100,000, which refuses nobody), how many are published without waiting for an
# answer, and what names one of them takes at most, in bytes.
AWAY, AT_ONCE, NAME_BYTES = 256, 512, 25
# As many refusals say that there is no room, and not only for a moment.
IN_A_ROW = 10
# What a round trip may take while two cores are busy with a flood, in seconds.
PATIENCE = 3


class Server:
    """With so much memory; None: what it takes by itself."""

    def __init__(self, folder, max_bytes, group=None, http="", shards=2):
        self.log = folder / "server.log"
        command = [str(Courser.binary()), "server", "--mqtt", "127.0.0.1:0", "--data", str(folder / "data"), "--shards", str(shards)]
        command += ["--set", f"memory.max={(max_bytes or 0) >> 20}MiB", "--set", f"http.listen={http}", "--set", "session.queue_bytes_max=1GiB"]
        # So that few readers can hold much.
        command += ["--set", "mqtt.output_bytes_max=64MiB"]
        authority = doors.Authority(folder / "certificates")
        files = authority.issue("server", "server", doors.server_names())
        self.tls = ssl.create_default_context(cafile=str(authority.certificate))
        command += ["--set", f"listener=[{doors.listener('ws', 'ws')}, {doors.listener('wss', 'wss', files=files)}, {doors.listener('mqtts', 'mqtts', files=files)}]"]
        with self.log.open("w") as output:
            inside = functools.partial(groups.join, group) if group else None
            self.process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, preexec_fn=inside)
        deadline = time.monotonic() + 20
        while "ready\n" not in self.log.read_text():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)
        found = re.findall(r"^MQTT .* on 127.0.0.1:(\d+)(?: \((\w+)\))?$", self.log.read_text(), re.MULTILINE)
        self.ports = {name or "mqtt": int(port) for port, name in found}
        self.port = self.ports["mqtt"]
        self.max_bytes = max_bytes or int(re.search(r"^memory: at most (\d+) MiB", self.log.read_text(), re.MULTILINE)[1]) << 20
        # All that is resident, and of that what is no page of a file, such as the program itself is.
        self.peak = self.peak_own = 0
        self.done = threading.Event()
        self.poll = threading.Thread(target=self._poll)
        self.poll.start()

    def _poll(self):
        while not self.done.wait(0.02):
            with contextlib.suppress(OSError, IndexError):
                fields = open(f"/proc/{self.process.pid}/statm").read().split()
                resident, shared = int(fields[1]) * 4096, int(fields[2]) * 4096
                self.peak = max(self.peak, resident)
                self.peak_own = max(self.peak_own, resident - shared)

    def _threads(self):
        """What each thread of the process is at."""
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            yield (task / "comm").read_text().strip(), state, (task / "wchan").read_text()

    def stop(self):
        self.done.set()
        self.poll.join()
        self.process.send_signal(signal.SIGTERM)
        try:
            # What is saved at the end waits for the disk, which other tests use as well.
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            threads = list(self._threads())
            self.process.kill()
            pytest.fail(f"the server does not stop: {threads}\n{self.log.read_text()}")
        return code, self.log.read_text()


class Client:
    """Version 5, blocking, no more than these tests need."""

    def __init__(self, port, client_id, clean=True, properties=()):
        self.socket = self.open(port)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        body = wire.text("MQTT") + bytes([5, 2 if clean else 0]) + struct.pack(">H", 600)
        body += wire.props(properties) + wire.text(client_id)
        self.send(wire.packet(1, body))
        self.reason = self.receive()[1][1]

    def open(self, port):
        return socket.create_connection(("127.0.0.1", port), timeout=20)

    def send(self, data):
        self.socket.sendall(data)

    def begin(self, data, _length):
        """Sends what is followed by so many bytes more, which never come."""
        self.send(data)

    def more(self):
        """What has come."""
        return self.socket.recv(65536)

    def receive(self):
        """First byte and body."""
        while True:
            length, shift, at = 0, 0, 1
            while at < len(self.buffer):
                length |= (self.buffer[at] & 0x7F) << shift
                shift += 7
                at += 1
                if self.buffer[at - 1] < 0x80:
                    break
            else:
                at = 0
            if at and len(self.buffer) >= at + length:
                found = self.buffer[0], self.buffer[at : at + length]
                self.buffer = self.buffer[at + length :]
                return found
            data = self.more()
            if not data:
                raise ConnectionError("closed")
            self.buffer += data

    def subscribe(self, topic, qos=1):
        self.send(wire.packet(8, b"\0\1\0" + wire.text(topic) + bytes([qos]), 2))
        while True:
            first, body = self.receive()
            if first == 0x90:
                return body[-1]

    def publish(self, topic, payload, retain=False, properties=()):
        """QoS 1; the reason code of the answer."""
        self.send(wire.packet(3, wire.text(topic) + b"\0\1" + wire.props(properties) + payload, 2 | retain))
        while True:
            first, body = self.receive()
            if first == 0x40:
                return body[2] if len(body) > 2 else 0
            if first == 0xE0:
                raise ConnectionError(f"sent away with {body[:1].hex()}")

    def reasons(self, count):
        """The reason codes of so many PUBACKs."""
        reasons = []
        while len(reasons) < count:
            first, body = self.receive()
            if first == 0x40:
                reasons.append(body[2] if len(body) > 2 else 0)
        return reasons

    def close(self):
        self.socket.close()


class WebClient(Client):
    """The same by WebSocket, and by TLS below it where there is a context. It takes in no frame that has not come in one piece."""

    context = None

    def open(self, port):
        return upgraded(("127.0.0.1", port), context=self.context, timeout=20)[0]

    def send(self, data):
        self.socket.sendall(frame(BINARY, data))

    def begin(self, data, length):
        self.socket.sendall(frame(BINARY, data, announced=len(data) + length))

    def more(self):
        data = super().more()
        return data[2:] if data[:1] == b"\x82" else b""


def web_client(server, door):
    """What clients of this door are made with."""
    kind = type("OfDoor", (WebClient,), {"context": server.tls if door == "wss" else None})
    return functools.partial(kind, server.ports[door])


class Healthy:
    """One that publishes to itself all the while, a message in some milliseconds, and reads all of it."""

    def __init__(self, port):
        self.client = Client(port, "healthy")
        assert self.client.reason == 0 and self.client.subscribe("healthy/topic") == 1
        self.served = self.refused = 0
        self.failure = None
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, failure, *_):
        self.done.set()
        self.thread.join()
        self.client.close()
        assert failure or self.failure is None, self.failure

    def _run(self):
        try:
            while not self.done.wait(0.005):
                self._round_trip()
        except Exception as error:  # it is the test's business
            self.failure = error

    def _round_trip(self):
        self.client.send(wire.packet(3, wire.text("healthy/topic") + b"\0\1\0hello", 2))
        reason, got = None, False
        while reason is None or (reason == 0 and not got):
            first, body = self.client.receive()
            if first == 0x40:
                reason = body[2] if len(body) > 2 else 0
            elif first >> 4 == 3:
                got = True
                at = 2 + len("healthy/topic")
                self.client.send(wire.packet(4, body[at : at + 2]))
        assert reason in (0, QUOTA), f"{reason:#x}"
        self.refused += reason == QUOTA
        self.served += reason == 0

    def is_served(self, times=1, seconds=15):
        """Refused for a moment is well; never served is not."""
        enough, deadline = self.served + times, time.monotonic() + seconds
        while self.served < enough:
            assert self.failure is None, self.failure
            assert time.monotonic() < deadline, f"{enough - self.served} of {times} messages of a healthy client are not served"
            time.sleep(0.01)


def until_refused(step, most):
    """Calls `step(number)` until it says that it was refused."""
    for number in range(most):
        if step(number):
            return number
    pytest.fail(f"nothing was refused in {most} steps")


def flood_retained(server, healthy):
    client = Client(server.port, "retainer")
    payload = b"r" * 16384

    def step(number):
        if number % 500 == 0:
            healthy.is_served()
        return client.publish(f"retained/{number}", payload, retain=True) == QUOTA

    until_refused(step, server.max_bytes // len(payload))
    return [client]


def end_retained(server, clients):
    for number in range(server.max_bytes // 16384):
        if clients[0].publish(f"retained/{number}", b"", retain=True) != 0 and number > 100:
            break
    clients[0].close()


def queue(server, healthy):
    """Messages for those who are away until they are refused: their client, and how many wait. A quarter of the memory may hold messages, of the others
    only their names are there (test_cold.py): so it takes many."""
    for number in range(AWAY):
        absent = Client(server.port, f"absent{number}", clean=False, properties=[("session_expiry", 3600)])
        assert absent.subscribe(f"queued/{number}") == 1
        absent.close()
    client = Client(server.port, "queuer")
    messages = [wire.text(f"queued/{number % AWAY}") + struct.pack(">H", number + 1) + b"\0" + b"q" * 128 for number in range(AT_ONCE)]
    messages = b"".join(wire.packet(3, message, 2) for message in messages)
    refused = 0

    def step(number):
        nonlocal refused
        if number % 50 == 0:
            healthy.is_served()
        client.send(messages)
        if QUOTA not in client.reasons(AT_ONCE):
            refused = 0
            return False
        # What has just come leaves memory a moment later, and makes room.
        refused += 1
        time.sleep(0.1)
        return refused == IN_A_ROW

    return client, until_refused(step, server.max_bytes // (AT_ONCE * 8)) * AT_ONCE


def fill_a_third(waiting):
    """Whether what names so many messages can take what a third of the memory is more than a quarter, which may hold messages."""
    return waiting * NAME_BYTES > SMALL / 3 - SMALL / 4


def flood_queued(server, healthy):
    return [queue(server, healthy)[0]]


def end_queued(server, clients):
    """Those who were away come back with a clean start: what waited goes."""
    for number in range(AWAY):
        back = Client(server.port, f"absent{number}")
        assert back.reason == 0, "who takes messages away is let in"
        back.close()
    deadline = time.monotonic() + 15
    while clients[0].publish("queued/again", b"x" * 16384) == QUOTA:
        assert time.monotonic() < deadline, "the room that was freed is not used"
        time.sleep(0.1)
    clients[0].close()


def flood_stalled(server, healthy):
    """Readers that do not read, each with messages of its own."""
    readers = []
    for number in range(server.max_bytes >> 22):
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", server.port))
        body = wire.text("MQTT") + b"\5\2\2\x58" + wire.props() + wire.text(f"stalled{number}")
        reader.sendall(wire.packet(1, body) + wire.packet(8, b"\0\1\0" + wire.text(f"stalled/{number}") + b"\0", 2))
        readers.append(reader)
    time.sleep(0.5)
    publisher = socket.create_connection(("127.0.0.1", server.port))
    payload = b"s" * 60000
    end = time.monotonic() + 8
    number = sent = 0
    publisher.setblocking(False)
    waiting = b""
    while time.monotonic() < end:
        if not waiting:
            if sent == 0:
                waiting = wire.packet(1, wire.text("MQTT") + b"\5\2\2\x58" + wire.props() + wire.text("flooder"))
            else:
                number = (number + 1) % len(readers)
                waiting = wire.packet(3, wire.text(f"stalled/{number}") + b"\0" + payload)
            sent += 1
        select.select([], [publisher], [], 0.1)
        with contextlib.suppress(BlockingIOError):
            waiting = waiting[publisher.send(waiting) :]
        if sent % 200 == 0 and not waiting:
            healthy.is_served()
    return [publisher, *readers]


def flood_connections(server, healthy, connect=None):
    """Connections until one is refused, and unfinished packets on all of them."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200
    whole = wire.packet(3, wire.text("begun") + b"\0" + b"b" * 900_000)
    begun = whole[:800_000]
    connect = connect or functools.partial(Client, server.port)
    clients = []

    def step(number):
        if number % 100 == 0:
            healthy.is_served()
        try:
            client = connect(f"c{number}")
            clients.append(client)
            if client.reason:
                assert client.reason == QUOTA
                return True
            client.socket.settimeout(0.5)
            client.begin(begun, len(whole) - len(begun))
        except (OSError, IndexError):
            # Closed as soon as it was accepted, or not read any more.
            pass
        return False

    until_refused(step, min(most, server.max_bytes >> 16))
    return clients


def flood_frames(door, server, healthy):
    """The same by WebSocket: the frames, which are announced whole, do not end either."""
    return flood_connections(server, healthy, web_client(server, door))


def flood_handshakes(server, healthy):
    """TLS handshakes from four addresses, each with nearly as many bytes as a handshake may bring, of which none ends."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200
    length = 16_000
    begun = b"\x16\x03\x01" + struct.pack(">H", length + 4) + b"\x01" + length.to_bytes(3, "big") + b"\x03\x03" + b"x" * (length - 200)
    clients = []
    for number in range(min(4_000, limit)):
        if number % 200 == 0:
            healthy.is_served()
        client = socket.create_connection(("127.0.0.1", server.ports["wss"]), timeout=20, source_address=(f"127.0.0.{2 + number % 4}", 0))
        # Ends by RST: no port of this address stays in use behind the test.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        with contextlib.suppress(OSError):
            client.sendall(begun)
        clients.append(client)
    return clients


KEPT = [("session_expiry", 604_800)]


def subscribed(client, packet_id, filters):
    """What the answer says of each."""
    body = struct.pack(">H", packet_id) + b"\0" + b"".join(wire.text(it) + b"\1" for it in filters)
    client.send(wire.packet(8, body, 2))
    while True:
        first, body = client.receive()
        if first == 0x90:
            return list(body[3 + body[2] :])


def flood_requests(packet, server, healthy):
    """Requests that nobody waits for the answers of, on many connections; who comes meanwhile is let in at once."""
    done = threading.Event()

    def send(client):
        with contextlib.suppress(OSError):
            for number in range(1, 20_000):
                client.send(packet(number))
                client.socket.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    # Some of the answers, so that it is not closed for not reading.
                    client.socket.recv(1 << 20)
                client.socket.settimeout(20)
                if done.is_set():
                    return

    clients = [Client(server.port, f"r{number}") for number in range(120)]
    threads = [threading.Thread(target=send, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    longest, end = 0, time.monotonic() + 8
    while time.monotonic() < end:
        begun = time.monotonic()
        new = Client(server.port, "new")
        assert new.reason == 0, f"{new.reason:#x}"
        longest = max(longest, time.monotonic() - begun)
        new.close()
        time.sleep(0.05)
    print(f"longest CONNECT {longest:.2f} s")
    assert longest < PATIENCE, f"a client has waited {longest:.1f} s for its CONNACK"
    healthy.is_served()
    return [done, *clients]


def end_requests(_server, clients):
    clients[0].set()
    end_by_closing(_server, clients[1:])


def unsubscribe_packet(number):
    """Below what a connection may hold while memory is full, and five thousand filters."""
    return wire.packet(10, struct.pack(">H", number) + b"\0" + b"\0\1a" * 5_000, 2)


def subscribe_packet(number):
    filters = (wire.text(f"$share/g/{at:04}") + b"\0" for at in range(1_000))
    return wire.packet(8, struct.pack(">H", number) + b"\0" + b"".join(filters), 2)


def flood_filters(server, healthy):
    """Subscriptions of long filters by clients that are there, in small packets, until there is no room for them."""
    clients = []

    def step(number):
        client = Client(server.port, f"f{number}")
        clients.append(client)
        assert client.reason == 0
        healthy.is_served()
        for at in range(0, 240, 3):
            if QUOTA in subscribed(client, 1 + at, [f"{number}/{it:03}".ljust(4_000, "x") for it in range(at, at + 3)]):
                return True
        return False

    until_refused(step, server.max_bytes >> 20)
    return clients


def flood_sessions(server, healthy):
    """Sessions that stay with what they have subscribed to, until there is no room for them: who has one comes in, and who wants none."""
    names = []

    def step(number):
        client = Client(server.port, f"s{number}", properties=KEPT)
        healthy.is_served()
        if client.reason == 0:
            names.append(f"s{number}")
            packets = [subscribed(client, 1 + at, [f"{it:05}/".ljust(200, "x") for it in range(at, at + 500)]) for at in range(0, 4_000, 500)]
            refused = QUOTA in packets[-1]
        else:
            assert client.reason == QUOTA
            refused = True
        client.send(wire.packet(14, b""))
        client.close()
        return refused and no_more_come()

    def no_more_come():
        """Also once what was searched for the last ones has ended, and the shards have looked (LOOK_MS)."""
        time.sleep(0.2)
        other = Client(server.port, "other", properties=KEPT)
        other.close()
        if other.reason == 0:
            Client(server.port, "other").close()
        return other.reason == QUOTA

    until_refused(step, server.max_bytes >> 19)
    other = Client(server.port, "other", properties=KEPT)
    assert other.reason == QUOTA, "there is no room for one more"
    passing = Client(server.port, "comes and goes")
    assert passing.reason == 0
    assert subscribed(passing, 1, ["here"]) == [1], "who ends with the connection subscribes"
    passing.close()
    again = Client(server.port, names[0], clean=False, properties=KEPT)
    assert again.reason == 0, "who has one comes in"
    again.close()
    return names


def end_sessions(server, names):
    """Their clients end them; there is room again."""
    for name in names:
        client = Client(server.port, name)
        assert client.reason == 0
        client.close()
    deadline = time.monotonic() + 15
    while Client(server.port, "other", properties=KEPT).reason == QUOTA:
        assert time.monotonic() < deadline, "the room that was freed is not used"
        time.sleep(0.1)


def end_by_closing(_server, clients):
    for client in clients:
        client.close()


# How each begins and ends, and what the broker says at its own end.
FLOODS = {
    "retained": (flood_retained, end_retained, "publishes_received="),
    "queued": (flood_queued, end_queued, "publishes_received="),
    "stalled": (flood_stalled, end_by_closing, "closed_for_memory="),
    "connections": (flood_connections, end_by_closing, "closed_with_0x97="),
    "handshakes": (flood_handshakes, end_by_closing, "door_over_limit="),
    "ws": (functools.partial(flood_frames, "ws"), end_by_closing, "closed_with_0x97="),
    "wss": (functools.partial(flood_frames, "wss"), end_by_closing, "closed_with_0x97="),
    "unsubscribe": (functools.partial(flood_requests, unsubscribe_packet), end_requests, "publishes_received="),
    "subscribe": (functools.partial(flood_requests, subscribe_packet), end_requests, "publishes_received="),
    "filters": (flood_filters, end_by_closing, "publishes_received="),
    "sessions": (flood_sessions, end_sessions, "publishes_received="),
}


# The share of a healthy client's messages that may be refused while one lasts (docs/limits.md), and for how many messages it does.
REFUSED_OF = {"retained": 0, "queued": 0, "stalled": 1 / 20, "connections": 1 / 20, "handshakes": 0, "ws": 1 / 20, "wss": 1 / 20}
REFUSED_OF |= dict.fromkeys(("unsubscribe", "subscribe", "filters", "sessions"), 0)
LASTS = 200

# Who holds most when the memory is full, as the log names it; the others end at shares of their own.
LARGEST = {"stalled": "output", "connections": "receive", "ws": "receive", "wss": "receive"}


def flood(server, healthy, name):
    """Begins and ends one flood; who behaves is served all the while, and a new client afterwards."""
    begin, end, _ = FLOODS[name]
    served, refused = healthy.served, healthy.refused
    clients = begin(server, healthy)
    # It lasts.
    healthy.is_served(LASTS, 60)
    served, refused = healthy.served - served, healthy.refused - refused
    print(f"{name}: {served} messages served, {refused} refused")
    assert refused <= REFUSED_OF[name] * (served + refused), f"{refused} of {served + refused} were refused"
    end(server, clients)
    deadline = time.monotonic() + 20
    while True:
        try:
            after = Client(server.port, "after")
            if after.reason == 0 and after.publish("after", b"x") in (0, 0x10):
                break
        except (ConnectionError, IndexError):
            pass
        assert time.monotonic() < deadline, "a new client is not served after the flood"
        time.sleep(0.1)
    after.close()
    healthy.is_served()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", FLOODS)
def test_memory_is_kept(tmp_path, name):
    server = Server(tmp_path, SMALL)
    try:
        with Healthy(server.port) as healthy:
            flood(server, healthy, name)
    finally:
        code, log = server.stop()
    assert code == 0 and FLOODS[name][2] in log, log
    assert server.peak <= SMALL * 1.15 + BESIDE, f"{server.peak >> 20} MiB: {log}"
    if name in LARGEST:
        assert f"largest={LARGEST[name]} " in log, log


def test_retained_messages_leave_those_that_wait_their_third(tmp_path):
    server = Server(tmp_path, SMALL)
    try:
        with Healthy(server.port) as healthy:
            retainers = flood_retained(server, healthy)
            queuer, waiting = queue(server, healthy)
        assert fill_a_third(waiting), waiting
        for client in (*retainers, queuer):
            client.close()
    finally:
        code, log = server.stop()
    assert code == 0, log


@pytest.mark.timeout(300)
def test_memory_is_kept_in_a_control_group(tmp_path):
    """All floods in turn; what the process has resident is never more than 1.15 times the number, the kernel does not end it."""
    try:
        with groups.memory_group(GROUP) as group:
            server = Server(tmp_path, LARGE, group)
            try:
                with Healthy(server.port) as healthy:
                    for name in FLOODS:
                        flood(server, healthy, name)
            finally:
                code, log = server.stop()
    except groups.CannotMake as reason:
        pytest.skip(f"no control group can be made here: {reason}")
    assert code == 0 and all(said in log for _, _, said in FLOODS.values()), log
    assert server.peak <= LARGE * 1.15, f"{server.peak >> 20} MiB: {log}"
    print(f"peak {server.peak / LARGE:.2f} of {LARGE >> 20} MiB; healthy served {healthy.served} times")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mib", [32, 64])
def test_memory_is_kept_in_the_smallest_control_groups(tmp_path, mib):
    """The smallest one in which a server starts, and a usual one, without `memory.max`: the kernel ends nothing, and what is kept fills no memory, so that
    who behaves is served all the while."""
    try:
        with groups.memory_group(mib * MIB) as group:
            server = Server(tmp_path, None, group)
            try:
                with Healthy(server.port) as healthy:
                    for name in ("connections", "retained", "queued", "stalled"):
                        flood(server, healthy, name)
            finally:
                code, log = server.stop()
    except groups.CannotMake as reason:
        pytest.skip(f"no control group can be made here: {reason}")
    assert code == 0, log
