"""Libraries of other languages: a driver process speaks JSON lines and runs the adapter's commands on many clients.

To the driver: `{"id", "client", "op", ...}`. From it: `{"id", "ok"}`, `{"id", "error"}`, `{"id", "unsupported"}` or
`{"id", "refused", "properties"}` for each request, and `{"event": "message" | "closed", "client", ...}`. Bytes are base64.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import subprocess
import threading
from dataclasses import asdict
from pathlib import Path

from .base import WAIT_SECONDS, Client, Connack, Message, Options, Refused, Subscription, Unsupported

BUILD = Path(os.environ.get("E2E_BUILD", Path(__file__).parents[3] / "target" / "e2e"))


def pack(data: bytes) -> str:
    return base64.b64encode(data).decode()


def to_driver(properties: dict | None) -> dict:
    return {name: pack(value) if isinstance(value, bytes) else value for name, value in (properties or {}).items()}


def from_driver(properties: dict | None) -> dict:
    found = dict(properties or {})
    if "correlation_data" in found:
        found["correlation_data"] = base64.b64decode(found["correlation_data"])
    if "user_properties" in found:
        found["user_properties"] = [tuple(pair) for pair in found["user_properties"]]
    return found


class Driver:
    """One driver process; its answers and events are handed out by a thread."""

    def __init__(self, command: list[str]):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ids = itertools.count(1)
        self.lock = threading.Lock()
        self.waiting: dict[int, queue.Queue] = {}
        self.clients: dict[str, DriverClient] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            found = json.loads(line)
            if "event" in found:
                client = self.clients.get(found["client"])
                if client:
                    client.handle(found)
            else:
                self.waiting[found["id"]].put(found)

    def call(self, timeout: float = WAIT_SECONDS, **request) -> dict:
        number = next(self.ids)
        answers = self.waiting[number] = queue.Queue()
        line = json.dumps({"id": number, **request}).encode() + b"\n"
        with self.lock:
            self.process.stdin.write(line)
            self.process.stdin.flush()
        try:
            found = answers.get(timeout=timeout)
        except queue.Empty:
            state = self.process.poll()
            raise TimeoutError(f"the driver did not answer {request['op']} (its exit code: {state})") from None
        finally:
            del self.waiting[number]
        if "unsupported" in found:
            raise Unsupported(found["unsupported"])
        if "refused" in found:
            raise Refused(found["refused"], from_driver(found.get("properties")))
        if "error" in found:
            raise AssertionError(f"{request['op']}: {found['error']}")
        return found["ok"] or {}


class DriverClient(Client):
    drivers: dict[str, Driver] = {}
    numbers = itertools.count(1)

    @classmethod
    def command(cls) -> list[str]:
        raise NotImplementedError

    def __init__(self, address, version):
        super().__init__(address, version)
        if self.library not in self.drivers:
            self.drivers[self.library] = Driver(self.command())
        self.driver = self.drivers[self.library]
        self.name = f"c{next(self.numbers)}"
        self.driver.clients[self.name] = self
        self.closed = threading.Event()
        self.close_reason: int | None = None
        self.connected = False

    def handle(self, event: dict) -> None:
        if event["event"] == "closed":
            self.close_reason = event.get("reason")
            self.close_properties = from_driver(event.get("properties"))
            self.closed.set()
            return
        message = Message(
            event["topic"], base64.b64decode(event["payload"]), event["qos"], event["retain"], event.get("dup"),
            from_driver(event.get("properties")), event.get("handle"),
        )  # fmt: skip
        self.inbox.put(message)

    def call(self, op: str, timeout: float = WAIT_SECONDS, **request) -> dict:
        return self.driver.call(timeout, client=self.name, op=op, **request)

    def connect(self, options: Options) -> Connack:
        self.options = options
        given = asdict(options)
        given["properties"] = to_driver(options.properties)
        if options.will:
            given["will"]["payload"] = pack(options.will.payload)
            given["will"]["properties"] = to_driver(options.will.properties)
        host, port = self.address
        found = self.call("connect", host=host, port=port, version=self.version, options=given)
        self.connected = True
        return Connack(found["session_present"], found["reason_code"], from_driver(found.get("properties")))

    def publish_many(self, messages, qos=0, retain=False, properties=None) -> list[int]:
        given = [[topic, pack(payload)] for topic, payload in messages]
        found = self.call("publish", 60, messages=given, qos=qos, retain=retain, properties=to_driver(properties))
        return found["codes"]

    def subscribe(self, subscriptions: list[Subscription], properties=None) -> list[int]:
        given = [asdict(item) for item in subscriptions]
        return self.call("subscribe", subscriptions=given, properties=to_driver(properties))["codes"]

    def unsubscribe(self, filters):
        return self.call("unsubscribe", filters=filters)["codes"]

    def ack(self, message: Message) -> None:
        self.call("ack", handle=message.handle)

    def disconnect(self, reason_code=0, properties=None) -> None:
        self.call("disconnect", reason_code=reason_code, properties=to_driver(properties))
        self.connected = False

    def drop(self) -> None:
        self.call("drop")
        self.connected = False

    def wait_closed(self, timeout=WAIT_SECONDS):
        assert self.closed.wait(timeout), "the broker did not close the connection"
        return self.close_reason

    def release(self) -> None:
        if self.connected and not self.closed.is_set():
            self.driver.call(5, client=self.name, op="drop")
        self.driver.clients.pop(self.name, None)


class MqttJs(DriverClient):
    library = "mqttjs"

    @classmethod
    def command(cls) -> list[str]:
        return ["node", str(BUILD / "mqttjs" / "driver.js")]


class HiveMq(DriverClient):
    library = "hivemq"

    @classmethod
    def command(cls) -> list[str]:
        folder = BUILD / "hivemq"
        return ["java", "-XX:+UseSerialGC", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}/classes:{folder}/lib/*", "Driver"]
