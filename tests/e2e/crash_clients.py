"""Clients of the crash supervisor, and what they were promised: each checks what came to it against what was acknowledged."""

from __future__ import annotations

import collections
import re
import subprocess
import threading
import time
import urllib.request

import paho.mqtt.client as paho
import wire
from broker import Courser
from paho.mqtt.enums import MessageState
from raw import RawClient
from wire import CONNACK, PUBACK, V5

# What is printed, and the metric that says it.
COUNTED = {
    "checkpoints": "courser_checkpoints_total",
    "cleaned": "courser_log_segments_cleaned_total",
    "scrubbed": "courser_scrub_segments_total",
    "recalled": "courser_recalled_messages_total",
}
DAMAGES = "courser_scrub_damages_total"
LOST = "courser_recalled_lost_total"
UNDER_WAY = 40
PATIENCE = 60.0


def memory_of_round(is_tight: bool) -> dict[str, object]:
    """In a tight round what waits is only in the log, in the others in memory until a kill."""
    return {"hot_bytes": "64KiB"} if is_tight else {}


class Violation(AssertionError):
    """A promise that was not kept."""


class Publisher:
    """Publishes numbers to its own topic, at most `UNDER_WAY` at once, and knows which were acknowledged."""

    def __init__(self, port: int, name: str, qos: int):
        self.topic, self.qos = f"crash/{name}/{qos}", qos
        self.next = 0
        # Packet ids in the order of the publishes, and those of them that are done.
        self.open: collections.deque[int] = collections.deque()
        self.done: set[int] = set()
        # Numbers that the broker did not want.
        self.refused: set[int] = set()
        self.client = make(name)
        self.client.on_publish = lambda _client, _data, packet_id, *_: self.done.add(packet_id)
        self.client.connect_async("127.0.0.1", port, keepalive=20)
        self.client.loop_start()

    def work(self) -> None:
        """Sends what there is room for. Acknowledgements come in the order of the publishes."""
        self.look()
        while len(self.open) < UNDER_WAY:
            payload = b"%d " % self.next + b"x" * (self.next * 37 % 4_000)
            # Without a connection it is sent with the next one.
            self.open.append(self.client.publish(self.topic, payload, self.qos).mid)
            self.next += 1

    def look(self) -> None:
        while self.open and self.open[0] in self.done:
            self.done.discard(self.open.popleft())


class Subscriber:
    """Receives what a filter matches; what came, by topic, in order."""

    def __init__(self, name: str, qos: int, topics: str = "crash/#"):
        self.name, self.qos, self.topics = name, qos, topics
        self.came: dict[str, list[int]] = collections.defaultdict(list)
        self.lock = threading.Lock()
        self.subscribed = threading.Event()
        self.client = make(name)
        self.client.on_message = self.on_message
        self.client.on_subscribe = lambda *_: self.subscribed.set()

    def subscribe(self, port: int) -> "Subscriber":
        self.connect(port)
        deadline = time.monotonic() + PATIENCE
        while not self.client.is_connected():
            assert time.monotonic() < deadline, f"{self.name} cannot connect"
            time.sleep(0.01)
        self.client.subscribe(self.topics, self.qos)
        assert self.subscribed.wait(PATIENCE), "no SUBACK"
        return self

    def connect(self, port: int) -> None:
        self.client.connect_async("127.0.0.1", port, keepalive=20)
        self.client.loop_start()

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def on_message(self, _client, _data, message) -> None:
        with self.lock:
            self.came[message.topic].append(int(message.payload.split()[0]))

    def taken(self) -> int:
        with self.lock:
            return sum(len(came) for came in self.came.values())

    def check(self, publishers: list[Publisher]) -> None:
        with self.lock:
            for publisher in publishers:
                if self.topics in ("crash/#", publisher.topic):
                    self.check_topic(publisher, self.came[publisher.topic])

    def check_topic(self, publisher: Publisher, came: list[int]) -> None:
        who = f"{self.name}, {publisher.topic}"
        first: set[int] = set()
        highest = -1
        for number in came:
            if number not in first:
                if number < highest:
                    raise Violation(f"I3: {who}: {number} came first after {highest}")
                highest = number
                first.add(number)
        missing = [number for number in range(publisher.next) if number not in first and number not in publisher.refused]
        if missing:
            raise Violation(f"I1: {who}: acknowledged and lost: {missing[:20]} of {publisher.next}")
        if min(self.qos, publisher.qos) == 2 and len(came) != len(first):
            twice = [number for number, count in collections.Counter(came).items() if count > 1]
            raise Violation(f"I4: {who}: more than once: {twice[:20]}")


class Retainer:
    """Has messages retained to which nobody subscribes: they go when they are too old, whatever happens to the process."""

    def __init__(self, broker: Courser):
        self.broker = broker
        self.retained = 0

    def retain(self) -> None:
        """One more, acknowledged."""
        client = RawClient(self.broker.address, V5)
        client.send(wire.connect(V5, "retainer"))
        if client.expect(CONNACK).reason == 0:
            topic = f"retained/{self.retained}"
            client.send(wire.publish(V5, topic, b"kept", qos=1, packet_id=1, retain=True))
            if client.expect(PUBACK, packet_id=1).reason >= 0x80:
                raise Violation(f"{topic} is refused")
            self.retained += 1
        client.close()

    def wait_until_gone(self) -> int:
        """How many there were."""
        deadline = time.monotonic() + PATIENCE
        while left := self.broker.metric("courser_retained_messages"):
            if time.monotonic() > deadline:
                raise Violation(f"M20: {left:.0f} of {self.retained} retained messages stay although they are too old")
            time.sleep(0.05)
        return self.retained


class Client(paho.Client):
    """paho, but for one fault: when a connection cannot be made twice in a row, it forgets that it has a PUBREC and publishes
    the message anew, without DUP. To the broker, which may have forgotten the exchange by then, that is another message."""

    def _messages_reconnect_reset_out(self) -> None:
        released = MessageState.MQTT_MS_RESEND_PUBREL
        owed = [message for message in self._out_messages.values() if message.state == released]
        super()._messages_reconnect_reset_out()
        for message in owed:
            message.state = released


def make(name: str) -> paho.Client:
    client = Client(paho.CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
    client.reconnect_delay_set(0.05, 0.2)
    client.max_inflight_messages_set(UNDER_WAY)
    return client


class Work:
    """What the broker does beside its clients: how often it came to an end, in all its lives."""

    def __init__(self, broker: Courser):
        self.broker = broker
        self.counts: collections.Counter[str] = collections.Counter()
        # How long publishes were refused after a full disk had been drained.
        self.longest = 0.0

    def courser(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.broker.binary()), *arguments]
        return subprocess.run(command, cwd=self.broker.folder, capture_output=True, text=True, timeout=300, check=False)

    def look(self) -> None:
        """Adds what this life has counted, which ends with it."""
        with urllib.request.urlopen(f"{self.broker.http}/metrics", timeout=PATIENCE) as answer:
            text = answer.read().decode()
        counted = {name: float(value) for name, value in re.findall(r"^(courser_\w+) (\S+)$", text, re.MULTILINE)}
        if counted[DAMAGES]:
            raise Violation("I5: the scrub has found damage that nobody has made")
        if counted[LOST]:
            raise Violation("I1: what is only in the log could not be read back")
        for name, metric in COUNTED.items():
            self.counts[name] += int(counted[metric])

    def says_of(self, names: list[str]) -> str:
        """What the broker knows of clients, for whoever looks for a violation."""
        asked = [self.courser(*what, "show", name, "--server", "data") for name in names for what in (["client"], ["session"])]
        return "\n".join(found.stdout + found.stderr for found in asked)

    def begin_backup(self) -> None:
        """It goes on until it is done or the process ends."""
        self.courser("backup", "create", "backups", "--server", "data", "--no-wait")

    def last_backup(self) -> None:
        """One of all that there is, which is whole; and of earlier ones what it needs."""
        while True:
            made = self.courser("backup", "create", "backups", "--server", "data")
            # One that was begun before may still be made.
            if made.returncode != 6:
                break
            time.sleep(0.1)
        if made.returncode:
            raise Violation(f"a backup: {made.stdout}{made.stderr}")
        self.counts["backups"] += int(made.stdout.split()[1])
        for step in (["prune", "backups", "--keep", "1", "--yes"], ["verify", "backups"]):
            done = self.courser("backup", *step)
            if done.returncode:
                raise Violation(f"backup {step}: {done.stdout}{done.stderr}")
        done = self.courser("restore", "backups", "--data", "restored")
        if done.returncode:
            raise Violation(f"restore: {done.stdout}{done.stderr}")


def wait_for(everybody: list[Subscriber], publishers: list) -> None:
    """What is missing may be on its way, as long as something comes: these clients are slow beside other work of the machine."""
    taken, deadline = -1, 0.0
    while True:
        try:
            for subscriber in everybody:
                subscriber.check(publishers)
            return
        except Violation as violation:
            before, taken = taken, sum(subscriber.taken() for subscriber in everybody)
            if taken > before:
                deadline = time.monotonic() + PATIENCE
            if not str(violation).startswith("I1") or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
