"""Messages for absent sessions, more than may be in memory: stored, then taken by all of them at once.

By hand, also behind a cleaner: python tests/e2e/cold.py --messages 2000000 --group 256 --memory 256 --hot 32 --cleaned; or by a broker that
was killed and started again in between: --restart; or by the members of a shared group, of which one goes half way: --members 8
"""

import argparse
import collections
import contextlib
import functools
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import groups
import wire
from broker import Courser, free_port

MIB = 1 << 20
PAYLOAD_BYTES = 128
# Publishes without an answer; the broker's Receive Maximum may be lower.
WINDOW = 512
# Messages whose acknowledgement a member may have on its way when it goes: those that the broker has under way to it (`mqtt.outbound_window_max`).
UNACKNOWLEDGED = 1_024


class Server:
    """A broker in a control group of its own."""

    def __init__(self, folder: Path, group, memory: int, hot: int, settings: dict[str, str] | None = None):
        self.folder, self.group, self.http = folder, group, free_port()
        command = [str(Courser.binary()), "server", "--mqtt", "127.0.0.1:0", "--data", str(folder / "data"), "--shards", "2"]
        values = {
            "memory.max": f"{memory}MiB",
            "session.hot_bytes": f"{hot}MiB",
            "log.checkpoint_bytes": "4MiB",
            # All of them may wait for one session.
            "session.queue_messages_max": "10000000",
            "session.queue_bytes_max": "1TiB",
            "http.listen": f"127.0.0.1:{self.http}",
            **(settings or {}),
        }
        for name, value in values.items():
            command += ["--set", f"{name}={value}"]
        self.command, self.starts = command, 0
        self.start()

    def start(self, seconds: float = 120) -> None:
        """Starts it, again with what it has stored, in the same group."""
        self.starts += 1
        self.log = self.folder / f"server-{self.starts}.log"
        with self.log.open("w") as output:
            inside = functools.partial(groups.join, self.group) if self.group else None
            self.process = subprocess.Popen(self.command, cwd=self.folder, stdout=output, stderr=output, preexec_fn=inside)
        deadline = time.monotonic() + seconds
        while "ready\n" not in self.log.read_text():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)
        address = next(line for line in self.log.read_text().splitlines() if line.startswith("MQTT"))
        self.port = int(address.rsplit(":", 1)[1])

    def metrics(self) -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found = re.findall(r"^(courser_\w+)(?:\{[^}]*\})? ([0-9.e+-]+)$", text, re.MULTILINE)
        sums: dict[str, float] = {}
        for name, value in found:
            sums[name] = sums.get(name, 0) + float(value)
        return sums

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def peak_bytes(self) -> int:
        """The most memory that this process has had until now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        assert found, status
        return int(found[1]) * 1024

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


class Session:
    """A client that takes its messages in order: version 5, a session that stays."""

    def __init__(self, port: int, number: int):
        self.topic = f"cold/{number:05d}"
        self.port, self.number = port, number
        self.socket = None
        self.buffer = b""
        self.taken = 0

    def name(self) -> str:
        return f"cold-{self.number:05d}"

    def filter(self) -> str:
        return self.topic

    def connect(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.socket.sendall(wire.connect(5, self.name(), clean=False, keep_alive=0, properties=[("session_expiry", 3600)]))

    def subscribe(self) -> None:
        self.connect()
        self.socket.sendall(wire.subscribe(5, 1, [(self.filter(), 1)]))
        seen = b""
        while b"\x90" not in seen:
            data = self.socket.recv(4096)
            assert data, "the session was refused"
            seen += data
        self.socket.sendall(wire.disconnect(5))
        self.socket.close()
        self.socket = None

    def take(self) -> int:
        """What the socket has: each message is the next one. Returns how many there were."""
        data = self.socket.recv(1 << 18)
        assert data, f"{self.topic}: closed after {self.taken} messages"
        self.buffer += data
        buffer, at, acks, before = self.buffer, 0, [], self.taken
        while len(buffer) - at >= 4:
            first, low, high = buffer[at], buffer[at + 1], buffer[at + 2]
            head, length = (2, low) if low < 128 else (3, (low & 127) | high << 7)
            assert low < 128 or high < 128, "no packet here is that long"
            end = at + head + length
            if end > len(buffer):
                break
            if first >> 4 == 3:
                topic_bytes = buffer[at + head] << 8 | buffer[at + head + 1]
                place = at + head + 2 + topic_bytes
                payload = place + 3 + buffer[place + 2]
                self.see(buffer[at + head + 2 : place], int.from_bytes(buffer[payload : payload + 8], "big"))
                self.taken += 1
                acks.append(b"\x40\x02" + buffer[place : place + 2])
            elif first >> 4 == 2:
                assert buffer[at + head + 1] == 0, f"{self.topic}: refused with {buffer[at + head + 1]:#x}"
            else:
                raise AssertionError(f"{self.topic}: packet {first:#x}")
            at = end
        self.buffer = buffer[at:]
        if acks:
            self.socket.sendall(b"".join(acks))
        return self.taken - before

    def see(self, topic: bytes, found: int) -> None:
        """A message came with this number within its topic."""
        assert found == self.taken, f"{topic}: message {found} instead of {self.taken}"


class Member(Session):
    """A member of the shared group that gets the messages of all topics."""

    def __init__(self, port: int, number: int, topics: int):
        super().__init__(port, number)
        # The last message of each topic.
        self.last = [-1] * topics
        self.seen: list[tuple[int, int]] = []
        # The newest ones: they may not be acknowledged when it goes.
        self.recent: collections.deque[tuple[int, int]] = collections.deque(maxlen=UNACKNOWLEDGED)

    def name(self) -> str:
        return f"member-{self.number:05d}"

    def filter(self) -> str:
        return "$share/cold/cold/#"

    def see(self, topic: bytes, found: int) -> None:
        at = int(topic[-5:])
        assert found != self.last[at], f"{topic}: message {found} twice"
        # What another member has given back is older than all that is new.
        self.last[at] = max(found, self.last[at])
        self.seen.append((at, found))
        self.recent.append((at, found))


def store(port: int, numbers: range, messages: int) -> None:
    """Messages in turn for these sessions, each with its number within its session."""
    sessions = len(numbers)
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall(wire.connect(5, "cold-publisher", keep_alive=0))
    assert client.recv(4096)[3] == 0
    heads = [wire.text(f"cold/{number:05d}") for number in numbers]
    rest = bytes(PAYLOAD_BYTES - 8)
    sent = acked = 0
    pending = b""
    while acked < messages:
        room = min(WINDOW - (sent - acked), messages - sent)
        if room >= WINDOW // 2 or room == messages - sent > 0:
            parts = []
            for number in range(sent, sent + room):
                packet_id = number % 60_000 + 1
                body = heads[number % sessions] + struct.pack(">HB", packet_id, 0) + struct.pack(">Q", number // sessions) + rest
                parts.append(wire.packet(3, body, 2))
            client.sendall(b"".join(parts))
            sent += room
        pending += client.recv(1 << 16)
        at = 0
        while len(pending) - at >= 2 and len(pending) - at >= 2 + pending[at + 1]:
            first, length = pending[at], pending[at + 1]
            assert first == 0x40 and (length == 2 or pending[at + 4] == 0), pending[at : at + 8].hex()
            acked += 1
            at += 2 + length
        pending = pending[at:]
    client.close()


def drain(sessions: list[Session], messages: int, seconds: float) -> None:
    """All of them come at once and take what is theirs, in order."""
    deadline = time.monotonic() + seconds
    poll = select.epoll()
    by_descriptor = {}
    for session in sessions:
        session.connect()
        by_descriptor[session.socket.fileno()] = session
        poll.register(session.socket, select.EPOLLIN)
    left = messages
    while left:
        assert time.monotonic() < deadline, f"{left} of {messages} are missing"
        for descriptor, _ in poll.poll(1):
            left -= by_descriptor[descriptor].take()
    for session in sessions:
        session.socket.close()


def drain_group(members: list[Member], messages: int, seconds: float) -> None:
    """All of them come at once. When half has been taken the first goes as it is: what it had comes to the others. Whatever was not acknowledged
    then may have come to it as well, and nothing else comes twice."""
    deadline = time.monotonic() + seconds
    poll = select.epoll()
    by_descriptor = {}
    for member in members:
        member.connect()
        by_descriptor[member.socket.fileno()] = member
        poll.register(member.socket, select.EPOLLIN)
    gone: set[tuple[int, int]] = set()
    seen: set[tuple[int, int]] = set()
    repeats = 0
    while len(seen) < messages:
        assert time.monotonic() < deadline, f"{messages - len(seen)} of {messages} are missing"
        for descriptor, _ in poll.poll(1):
            member = by_descriptor.get(descriptor)
            if member is None:
                continue
            member.take()
            for message in member.seen:
                assert message not in seen or message in gone, f"message {message} came twice"
                repeats += message in seen
                gone.discard(message)
                seen.add(message)
            member.seen.clear()
        first = members[0]
        if len(members) > 1 and first.socket is not None and len(seen) >= messages // 2 and first.taken:
            # It takes what has come and does not say so.
            first.socket.settimeout(0)
            with contextlib.suppress(BlockingIOError):
                first.buffer += first.socket.recv(1 << 18)
            del by_descriptor[first.socket.fileno()]
            poll.unregister(first.socket)
            # Acknowledgements that the broker had not read are as if they had not been sent.
            gone = set(first.recent)
            first.socket.close()
            first.socket = None
    assert repeats <= UNACKNOWLEDGED, repeats
    for member in members:
        if member.socket is not None:
            assert member.taken > 0, f"{member.name()} has taken nothing"
            member.socket.close()


def await_cleaner(server: Server, number: int, messages: int, seconds: float) -> float:
    """Another session is sent and takes messages, so that there are checkpoints, until the cleaner has nothing more to move; how many
    messages it has moved. It looks again only when the log has grown by some segments, or an eighth."""
    busy, moved, since = Session(server.port, number), 0.0, 0.0
    busy.subscribe()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        busy.taken = 0
        store(server.port, range(number, number + 1), messages)
        drain([busy], messages, seconds)
        found = server.metrics()
        written = found["courser_log_written_bytes_total"] - found["courser_log_kept_bytes_total"]
        if found["courser_log_kept_records_total"] != moved or not moved:
            moved, since = found["courser_log_kept_records_total"], written
        elif written - since > found["courser_log_segments_bytes"] / 6:
            break
        time.sleep(2)
    return moved


def run(
    server: Server,
    sessions: int,
    messages: int,
    seconds: float = 120,
    cleaned: bool = False,
    restart: bool = False,
    members: int = 0,
) -> dict[str, float]:
    """Stores and takes; what it took. `cleaned`: two of three sessions take theirs first, and the cleaner moves what the others have.
    `restart`: the broker is killed and starts again before they are taken. `members`: it is not a session for each topic that takes them, but
    so many members of one group."""
    assert not (cleaned and members), "what a cleaner moves is of several sessions"
    clients = [Session(server.port, number) for number in range(sessions)]
    if members:
        clients = [Member(server.port, number, sessions) for number in range(members)]
    for client in clients:
        client.subscribe()
    begun = time.monotonic()
    store(server.port, range(sessions), messages)
    stored, moved = time.monotonic(), 0.0
    if cleaned:
        first = [client for client in clients if client.number % 3]
        drain(first, sum(len(range(client.number, messages, sessions)) for client in first), seconds)
        clients = [client for client in clients if client.number % 3 == 0]
        moved = await_cleaner(server, sessions, 50_000, seconds)
    peaks = {"peak_bytes_stored": server.peak_bytes()}
    if restart:
        server.kill()
        begun_again = time.monotonic()
        server.start()
        peaks |= {"start_seconds": time.monotonic() - begun_again, "peak_bytes_started": server.peak_bytes()}
        for client in clients:
            client.port = server.port
    cpu, before, begun_taking = server.cpu_seconds(), server.metrics(), time.monotonic()
    if members:
        drain_group(clients, messages, seconds)
    else:
        drain(clients, sum(len(range(client.number, messages, sessions)) for client in clients), seconds)
    taken, after = time.monotonic(), server.metrics()
    counted = {name: after.get(name, 0) - before.get(name, 0) for name in after if "_recall" in name}
    return {
        "stored_seconds": stored - begun,
        "moved_by_cleaner": moved,
        "taken_seconds": taken - begun_taking,
        "cpu_seconds": server.cpu_seconds() - cpu,
        "cold_messages": before.get("courser_cold_messages", 0),
        **peaks,
        "peak_bytes": server.peak_bytes(),
        **counted,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--group", type=int, default=64, help="MiB of the control group; 0: none")
    parser.add_argument("--memory", type=int, default=64, help="memory.max in MiB")
    parser.add_argument("--hot", type=int, default=4, help="session.hot_bytes in MiB")
    parser.add_argument("--seconds", type=float, default=600, help="most that taking them may take")
    parser.add_argument("--cleaned", action="store_true", help="behind a cleaner")
    parser.add_argument("--segment", type=int, default=8, help="MiB of a segment behind a cleaner, which does eight of them at a time")
    parser.add_argument("--restart", action="store_true", help="by a broker that was killed and started again")
    parser.add_argument("--members", type=int, default=0, help="of a shared group that takes the messages of all sessions' topics")
    parser.add_argument("--strategy", default="round_robin", help="by which its members take turns")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        group = stack.enter_context(groups.memory_group(options.group * MIB)) if options.group else None
        settings = {"log.segment_bytes": f"{options.segment}MiB", "log.checkpoint_bytes": "1MiB"} if options.cleaned else {}
        settings["mqtt.shared_strategy"] = options.strategy
        server = Server(Path(folder), group, options.memory, options.hot, settings)
        try:
            found = run(server, options.sessions, options.messages, options.seconds, options.cleaned, options.restart, options.members)
            for name, value in found.items():
                print(f"{name:40} {value:16,.2f}")
        finally:
            code = server.stop()
            print(f"exit {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
