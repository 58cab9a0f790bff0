"""Kills the broker again and again under load from real clients, and checks what it promised.

    COURSER_BIN=target/release/courser tests/e2e/run.sh crash --cycles 25

Publishers of QoS 1 and 2 and subscribers with sessions that outlive connections (paho, which keeps its half of every
exchange in memory) run all the time. Each cycle lets them work for a moment, ends the broker's process with SIGKILL (now
and then with SIGTERM or in the middle of such a stop, now and then again in the middle of its recovery) and starts it on the same folder and port. After
each round of cycles the publishers rest until everything is acknowledged, and then:

- I1: what was acknowledged has reached every subscriber, also the one that was away;
- I3: of one publisher at one QoS, messages came first in the order in which they were sent;
- I4: what was published at QoS 2 came to a subscriber of QoS 2 exactly once.

What else touches the log is at work all the while: checkpoints; the cleaner, since of each segment only what is for the absent subscriber
is needed; the scrub, which must find nothing; backups, one after the other, which kills end as well. The last one of a round is made of
the broker that has all, and is verified, pruned and restored: a broker on that must have what the absent subscriber waits for. How often
each has come to its end is printed.

Rounds are counted in a file, so that a run that was ended goes on where it was. A violation ends the run with code 1 and
keeps the folder; the seed of the kill times is printed.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import shutil
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import paho.mqtt.client as paho
from broker import Courser
from paho.mqtt.enums import MessageState

ROUND = 25
# What is printed, and the metric that says it.
COUNTED = {
    "checkpoints": "courser_checkpoints_total",
    "cleaned": "courser_log_segments_cleaned_total",
    "scrubbed": "courser_scrub_segments_total",
}
DAMAGES = "courser_scrub_damages_total"
UNDER_WAY = 40
PATIENCE = 60.0


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
        missing = [number for number in range(publisher.next) if number not in first]
        if missing:
            raise Violation(f"I1: {who}: acknowledged and lost: {missing[:20]} of {publisher.next}")
        if min(self.qos, publisher.qos) == 2 and len(came) != len(first):
            twice = [number for number, count in collections.Counter(came).items() if count > 1]
            raise Violation(f"I4: {who}: more than once: {twice[:20]}")


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
        for name, metric in COUNTED.items():
            self.counts[name] += int(counted[metric])

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
        for step in (["prune", "backups", "--keep", "1"], ["verify", "backups"]):
            done = self.courser("backup", *step)
            if done.returncode:
                raise Violation(f"backup {step}: {done.stdout}{done.stderr}")
        done = self.courser("restore", "backups", "--data", "restored")
        if done.returncode:
            raise Violation(f"restore: {done.stdout}{done.stderr}")


class Round:
    """Some cycles on one data folder, then the check."""

    def __init__(self, folder: Path, seed: int):
        self.random = random.Random(seed)
        # The absent session keeps all of a round: on a fast machine that is more than a session may by default.
        limits = {"queue_messages": 10_000_000, "queue_bytes": "4GiB"}
        # The end of a process takes nothing from what is only written: half of the sessions are relaxed.
        classes = ", ".join('{ filter = "%s", class = "relaxed" }' % name for name in ("sub2", "pub1", "pub2"))
        settings = {"checkpoint_bytes": "1MiB", "sys_interval": 0, "classes": classes}
        beside = {"scrub_period": "1s", "backup_folders": '"backups"'}
        (folder / "backups").mkdir(parents=True)
        self.broker = Courser(folder, {**settings, **limits, **beside})
        self.work = Work(self.broker)
        self.broker.keep_port = True
        self.broker.start()
        port = self.broker.port
        self.subscribers = [Subscriber(f"sub{qos}", qos).subscribe(port) for qos in (1, 2)]
        # A quarter of what is published: the rest of a segment is dead soon, and the cleaner moves this.
        self.absent = Subscriber("absent", 2, "crash/pub0/1").subscribe(port)
        self.absent.leave()
        self.publishers = [Publisher(port, f"pub{number}", 1 + number % 2) for number in range(4)]
        self.stopping = False
        self.thread = threading.Thread(target=self.publish)
        self.thread.start()

    def publish(self) -> None:
        while not self.stopping:
            for publisher in self.publishers:
                publisher.work()
            time.sleep(0.002)

    def cycle(self) -> None:
        # Now and then it lives long enough to have something to clean and to have read all of it.
        time.sleep(self.random.uniform(0.05, 0.6) if self.random.random() < 0.9 else self.random.uniform(1.5, 3))
        kind = signal.SIGTERM if self.random.random() < 0.1 else signal.SIGKILL
        self.broker.check_alive()
        self.work.look()
        if self.random.random() < 0.2:
            self.work.begin_backup()
            time.sleep(self.random.uniform(0, 0.2))
        if kind == signal.SIGTERM and self.random.random() < 0.5:
            # In the middle of the stop, which may be saving partitions.
            self.broker.process.send_signal(kind)
            time.sleep(self.random.uniform(0, 0.05))
            self.broker.stop(signal.SIGKILL)
            return self.broker.start()
        code = self.broker.stop(kind)
        assert code == (0 if kind == signal.SIGTERM else -signal.SIGKILL), f"the broker ended with {code}"
        if self.random.random() < 0.3:
            self.broker.spawn()
            time.sleep(self.random.uniform(0, 0.1))
            self.broker.stop(signal.SIGKILL)
        self.broker.start()

    def check(self) -> int:
        """Waits until all is acknowledged and delivered; the number of messages."""
        self.stopping = True
        self.thread.join()
        self.rest()
        self.work.last_backup()
        self.check_restored()
        self.absent.connect(self.broker.port)
        everybody = [*self.subscribers, self.absent]
        self.wait_for(everybody)
        # Nothing may come a second time behind the last one.
        time.sleep(0.3)
        for subscriber in everybody:
            subscriber.check(self.publishers)
        return sum(publisher.next for publisher in self.publishers)

    def rest(self) -> None:
        """All that was published is acknowledged."""
        deadline = time.monotonic() + PATIENCE
        while any(publisher.open for publisher in self.publishers):
            for publisher in self.publishers:
                publisher.look()
            if time.monotonic() > deadline:
                raise Violation(f"I13: not acknowledged: {[len(publisher.open) for publisher in self.publishers]}")
            time.sleep(0.01)

    def wait_for(self, everybody: list[Subscriber]) -> None:
        """What is missing may be on its way."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                for subscriber in everybody:
                    subscriber.check(self.publishers)
                return
            except Violation as violation:
                if not str(violation).startswith("I1") or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def check_restored(self) -> None:
        """A broker on what was restored gives the absent subscriber all that waits for it."""
        restored = Courser(self.broker.folder / "from-backup", {"data": str(self.broker.folder / "restored"), "sys_interval": 0})
        restored.start()
        again = Subscriber(self.absent.name, self.absent.qos, self.absent.topics)
        again.connect(restored.port)
        try:
            self.wait_for([again])
        finally:
            again.leave()
            restored.stop()

    def end(self) -> None:
        self.stopping = True
        self.thread.join()
        for client in [*(p.client for p in self.publishers), *(s.client for s in self.subscribers), self.absent.client]:
            client.disconnect()
            client.loop_stop()
        self.broker.stop()


def run(arguments: argparse.Namespace) -> int:
    begun = time.monotonic()
    build = Path(os.environ.get("E2E_BUILD", "target/e2e")) / "crash"
    build.mkdir(parents=True, exist_ok=True)
    state_file = build / "state.json"
    state = {"cycles": 0, "messages": 0}
    if arguments.resume and state_file.exists():
        state = json.loads(state_file.read_text())
    while state["cycles"] < arguments.cycles:
        seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 32)
        folder = build / f"round-{os.getpid()}-{state['cycles']}"
        cycles = min(ROUND, arguments.cycles - state["cycles"])
        found = Round(folder, seed)
        try:
            for _ in range(cycles):
                found.cycle()
            messages = found.check()
        except AssertionError as error:
            print(f"seed {seed}, folder {folder}: {error}\n{found.broker.tail()}", flush=True)
            print(f"1 failed, {state['cycles']} passed in {time.monotonic() - begun:.1f}s", flush=True)
            found.end()
            return 1
        found.end()
        shutil.rmtree(folder)
        work = dict.fromkeys([*COUNTED, "backups"], 0)
        for name in work:
            work[name] = state.get("work", {}).get(name, 0) + found.work.counts[name]
        state = {"cycles": state["cycles"] + cycles, "messages": state["messages"] + messages, "work": work}
        state_file.write_text(json.dumps(state))
        did = ", ".join(f"{count} {name}" for name, count in sorted(work.items()))
        print(f"{state['cycles']} of {arguments.cycles} cycles, {state['messages']} messages, {did}, seed {seed}", flush=True)
    print(f"{state['cycles']} passed in {time.monotonic() - begun:.1f}s", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=25, help="kills, those of earlier runs included with --resume")
    parser.add_argument("--resume", action="store_true", help="go on counting where the last run ended")
    parser.add_argument("--seed", type=int, help="of the moments of the kills")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
