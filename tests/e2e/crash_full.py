"""Cycles on a disk that is filled and drained: the broker is killed while it fills, when it is full, or while it is drained.

Publishers are bare sockets of MQTT 5.0 with one message under way, since no library says well enough what was refused. So what is promised is
sharp: a number that was answered with success has reached everybody, whatever happened meanwhile; one that was refused (0x97) may have come or
not; nothing comes out of order.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path
from typing import Callable

import wire
from broker import Courser
from crash_clients import PATIENCE, Subscriber, Violation, Work, memory_of_round, wait_for
from raw import RawClient
from small_disk import SmallDisk
from wire import PUBACK, PUBCOMP, PUBREC, PUBREL, V5

PAYLOAD_MAX = 8_000
SESSION_SECONDS = 3_600
REFUSED = 0x97
# A publisher that was refused tries again after this.
PAUSE = 0.05
# So soon after the last consumer has what it waited for, publishes are taken again.
AGAIN_SECONDS = 5.0
# When the broker is killed.
MOMENTS = ("filling", "full", "draining")


class Lost(Exception):
    """The connection is gone: the exchange goes on with the next one."""


class Steady:
    """Publishes numbers to its own topic, one at a time, over as many connections as it takes."""

    def __init__(self, port: int, name: str, qos: int):
        self.port, self.name, self.qos, self.topic = port, name, qos, f"crash/{name}/{qos}"
        # The number that comes next; every lower one is answered.
        self.next = 0
        self.refused: set[int] = set()
        self.accepted_at = 0.0
        self.violation: Violation | None = None
        self.stopping = False
        self.known = False
        self.client: RawClient | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def stop(self) -> None:
        """Once the message that is under way is answered."""
        self.stopping = True
        self.thread.join()

    def _run(self) -> None:
        try:
            while not self.stopping:
                self._publish()
        except Violation as violation:
            self.violation = violation
        except AssertionError as error:
            self.violation = Violation(f"{self.name}: {error}")
        if self.client:
            self.client.close()

    def _publish(self) -> None:
        """One number, until it is answered."""
        packet_id, sent, is_received = self.next % 60_000 + 1, False, False
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                client = self.client or self._connect()
                if not is_received:
                    payload = b"%d " % self.next + b"x" * (self.next * 37 % PAYLOAD_MAX)
                    client.send(wire.publish(V5, self.topic, payload, qos=self.qos, packet_id=packet_id, dup=sent))
                    sent = True
                    if self._answer(PUBREC if self.qos == 2 else PUBACK, packet_id) == REFUSED:
                        return self._settled(is_refused=True)
                if self.qos == 2:
                    is_received = True
                    client.send(wire.ack(PUBREL, packet_id))
                    self._answer(PUBCOMP, packet_id)
                return self._settled(is_refused=False)
            except (Lost, OSError):
                self._forget()
            if time.monotonic() > deadline:
                raise Violation(f"I13: {self.name}: {self.next} is not answered")
            time.sleep(0.02)

    def _settled(self, *, is_refused: bool) -> None:
        if is_refused:
            self.refused.add(self.next)
        else:
            self.accepted_at = time.monotonic()
        self.next += 1
        if is_refused:
            time.sleep(PAUSE)

    def _connect(self) -> RawClient:
        client = RawClient(("127.0.0.1", self.port), V5)
        client.patience = PATIENCE
        client.send(wire.connect(V5, self.name, clean=False, properties={"session_expiry": SESSION_SECONDS}))
        found = client.receive()
        if found is None or found.reason:
            client.close()
            raise Lost
        if self.known and not found.session_present:
            raise Violation(f"I1: the session of {self.name} is lost")
        self.known, self.client = True, client
        return client

    def _forget(self) -> None:
        if self.client:
            self.client.close()
        self.client = None

    def _answer(self, kind: int, packet_id: int) -> int:
        """Its reason; a PUBCOMP may say that the exchange had ended already."""
        found = self.client.receive()
        if found is None or found.kind == wire.DISCONNECT:
            raise Lost
        if found.kind != kind or found.packet_id != packet_id:
            raise Violation(f"{self.name}: {found} where {wire.NAMES[kind]} {packet_id} was due")
        if kind != PUBCOMP and found.reason not in (0, 0x10, REFUSED):
            raise Violation(f"{self.name}: {self.next} got reason {found.reason:#x}")
        return found.reason


class FullRound:
    """Some cycles on one small disk, then the check."""

    def __init__(self, folder: Path, seed: int, is_tight: bool):
        self.random = random.Random(seed)
        self.disk = SmallDisk(folder)
        settings = {"data": str(self.disk.mount / "data"), "checkpoint_bytes": "1MiB", "sys_interval": 0}
        # As in the other rounds, half of the sessions are relaxed.
        classes = ", ".join('{ filter = "%s", class = "relaxed" }' % name for name in ("sub2", "pub1", "pub2"))
        self.broker = Courser(folder, {**settings, **memory_of_round(is_tight), "classes": classes, "scrub_period": "1s"})
        self.work = Work(self.broker)
        self.broker.keep_port = True
        self.broker.start()
        port = self.broker.port
        self.live = [Subscriber(f"sub{qos}", qos).subscribe(port) for qos in (1, 2)]
        self.absent = Subscriber("absent", 2).subscribe(port)
        self.publishers = [Steady(port, f"pub{number}", 1 + number % 2) for number in range(4)]

    def cycle(self) -> None:
        """Nobody takes what the absent session keeps until the disk is full; then all of it is taken. Somewhere in between, a kill."""
        self.absent.leave()
        moment = self.random.choice(MOMENTS)
        self.fill(is_killed=moment == "filling")
        if moment == "full":
            self.kill()
        self.drain(is_killed=moment == "draining")
        self.look_again()
        self.work.counts["full disks"] += 1

    def fill(self, *, is_killed: bool) -> None:
        before = [len(publisher.refused) for publisher in self.publishers]
        if is_killed:
            time.sleep(self.random.uniform(0, 1))
            self.kill()
        self.wait("the disk does not fill up", lambda: all(
            len(publisher.refused) > count for publisher, count in zip(self.publishers, before)))

    def drain(self, *, is_killed: bool) -> None:
        ends = [publisher.next for publisher in self.publishers]
        enough = self.taken() + self.random.randrange(1, 500)
        self.absent.connect(self.broker.port)
        if is_killed:
            self.wait("the absent subscriber gets nothing", lambda: self.taken() >= enough or self.has_all(ends))
            self.kill()
        self.wait("the absent subscriber does not get all", lambda: self.has_all(ends))

    def look_again(self) -> None:
        """Publishes are taken again, from everybody."""
        drained = time.monotonic()
        self.wait("no room has come back", lambda: all(it.accepted_at > drained for it in self.publishers), AGAIN_SECONDS)
        longest = max(publisher.accepted_at for publisher in self.publishers) - drained
        self.work.longest = max(self.work.longest, longest)

    def taken(self) -> int:
        return sum(len(set(self.absent.came[publisher.topic])) for publisher in self.publishers)

    def has_all(self, ends: list[int]) -> bool:
        for publisher, end in zip(self.publishers, ends):
            due = set(range(end)) - publisher.refused
            if not due <= set(self.absent.came[publisher.topic]):
                return False
        return True

    def wait(self, text: str, is_done: Callable[[], bool], seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while not is_done():
            self.broker.check_alive()
            for publisher in self.publishers:
                if publisher.violation:
                    raise publisher.violation
            if time.monotonic() > deadline:
                raise Violation(f"M47: {text} within {seconds:.0f} s")
            time.sleep(0.02)

    def kill(self) -> None:
        self.broker.check_alive()
        self.work.look()
        assert self.broker.stop(signal.SIGKILL) == -signal.SIGKILL
        self.broker.start()

    def check(self) -> int:
        """Waits until all is delivered; the number of messages."""
        for publisher in self.publishers:
            publisher.stop()
            if publisher.violation:
                raise publisher.violation
        everybody = [*self.live, self.absent]
        wait_for(everybody, self.publishers)
        # Nothing may come a second time behind the last one.
        time.sleep(0.3)
        self.work.look()
        for subscriber in everybody:
            subscriber.check(self.publishers)
        return sum(publisher.next - len(publisher.refused) for publisher in self.publishers)

    def end(self) -> None:
        for publisher in self.publishers:
            publisher.stop()
        for subscriber in [*self.live, self.absent]:
            subscriber.leave()
        self.broker.stop()
        self.disk.leave()
