"""Mosquitto's command-line clients: `mosquitto_pub` for each publish, one `mosquitto_sub` for a subscription.

A client is a process here, so a connection does one thing: a subscriber cannot publish, and nothing is connected before
the first subscribe or publish (a client with a will subscribes to a topic of its own at once, for the will to be there).
"""

from __future__ import annotations

import json
import queue
import re
import signal
import subprocess
import threading
import uuid
from pathlib import Path

from broker import until

from .base import WAIT_SECONDS, Client, Connack, Message, Options, Subscription, Unsupported, Untold

# ours -> name after -D
NAMES = {
    "payload_format": "payload-format-indicator",
    "message_expiry": "message-expiry-interval",
    "content_type": "content-type",
    "response_topic": "response-topic",
    "correlation_data": "correlation-data",
    "subscription_id": "subscription-identifier",
    "session_expiry": "session-expiry-interval",
    "will_delay": "will-delay-interval",
    "receive_maximum": "receive-maximum",
    "topic_alias_maximum": "topic-alias-maximum",
    "topic_alias": "topic-alias",
    "maximum_packet_size": "maximum-packet-size",
    "request_problem_info": "request-problem-information",
    "request_response_info": "request-response-information",
    "user_properties": "user-property",
}
OURS = {theirs: ours for ours, theirs in NAMES.items()} | {"user-properties": "user_properties"}

MARK = "\x01MESSAGE "


class LazyConnack(Connack):
    """The tools do not show the CONNACK: a refusal is seen by what they do next, and properties are not."""

    def __init__(self):
        self.session_present = None

    @property
    def properties(self):
        raise Unsupported("details of CONNACK")


def property_flags(command: str, values: dict | None) -> list[str]:
    flags = []
    for name, value in (values or {}).items():
        if isinstance(value, bytes):
            try:
                value = value.decode("ascii")
                assert "\0" not in value
            except (UnicodeDecodeError, AssertionError):
                raise Unsupported("binary correlation data") from None
        for item in value if name == "user_properties" else [value]:
            pair = list(item) if name == "user_properties" else [str(item)]
            flags += ["-D", command, NAMES[name], *pair]
    return flags


class MosquittoCli(Client):
    library = "mosquitto"
    connects_late = True

    def __init__(self, address, version):
        super().__init__(address, version)
        self.process: subprocess.Popen | None = None
        self.subscribed: queue.Queue = queue.Queue()
        self.closed = threading.Event()
        self.close_reason: int | None = None
        self.close_properties = Untold("properties of a DISCONNECT")
        self.own_topic = ""
        self.lines: list[str] = []

    # -- command lines

    def common(self) -> list[str]:
        options = self.options
        door = options.door
        if door.web:
            raise Unsupported("WebSocket")
        flags = ["--unix", door.unix] if door.unix else ["-h", self.address[0], "-p", str(self.address[1])]
        for flag, file in (("--cafile", door.authority), ("--cert", door.certificate), ("--key", door.key)):
            flags += [flag, file] if file else []
        flags += ["-V", "5" if self.version == 5 else "311"]
        flags += ["-i", options.client_id] if options.client_id else []
        flags += ["-k", str(options.keep_alive), "-d"]
        properties = dict(options.properties)
        if self.version == 5:
            expiry = properties.pop("session_expiry", None)
            flags += [] if expiry is None else ["-x", str(expiry)]
        return flags + property_flags("connect", properties)

    def will(self) -> list[str]:
        will = self.options.will
        if not will:
            return []
        flags = ["--will-topic", will.topic, "--will-qos", str(will.qos)] + (["--will-retain"] if will.retain else [])
        flags += ["--will-payload", will.payload.decode()] if will.payload else []
        return flags + property_flags("will", will.properties)

    def connect(self, options: Options) -> Connack:
        self.options = options
        if options.manual_acks:
            raise Unsupported("manual acknowledgement")
        if options.will:
            self.own_topic = f"own/{uuid.uuid4().hex}"
            self._start([Subscription(self.own_topic, 0)], None)
        return LazyConnack()

    # -- subscribing

    def _start(self, subscriptions: list[Subscription], properties: dict | None) -> list[int]:
        flags = ["--nodelay", "-q", str(subscriptions[0].qos), "-F", MARK + "%x %j"]
        flags += [] if self.options.clean_start else ["-c"]
        for subscription in subscriptions:
            flags += ["-t", subscription.filter]
        flags += ["--retain-as-published"] if subscriptions[0].retain_as_published else []
        flags += self.will() + property_flags("subscribe", properties)
        self.process = subprocess.Popen(
            ["stdbuf", "-oL", "mosquitto_sub", *self.common(), *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()
        codes = self.subscribed.get(timeout=WAIT_SECONDS)
        assert codes is not None, "mosquitto_sub ended:\n" + "\n".join(self.lines[-10:])
        return codes

    def _read(self) -> None:
        dup = False
        for raw in self.process.stdout:
            line = raw.decode("utf-8", "surrogateescape").rstrip("\n")
            if line.startswith(MARK):
                self._message(line[len(MARK) :], dup)
                continue
            self.lines.append(line)
            if found := re.search(r"received PUBLISH \(d(\d)", line):
                dup = found[1] == "1"
            elif found := re.match(r"Subscribed \(mid: \d+\): (.*)", line):
                self.subscribed.put([int(code) for code in found[1].split(",")])
            elif found := re.search(r"[Rr]eceived DISCONNECT \((\d+)\)", line):
                self.close_reason = int(found[1])
                self.process.kill()  # else it would connect again
        self.closed.set()
        self.subscribed.put(None)

    def _message(self, line: str, dup: bool) -> None:
        payload, _, text = line.partition(" ")
        pairs = json.loads(text, strict=False, object_pairs_hook=list)
        found = dict(pairs)
        properties = {}
        for theirs, value in found.get("properties", []):
            name = OURS.get(theirs, theirs)
            if name == "user_properties":
                value = [tuple(pair) for pair in value]
            elif name == "subscription_id":
                name, value = "subscription_ids", [value] if isinstance(value, int) else list(value)
            elif name == "correlation_data":
                value = value.encode("utf-8", "surrogateescape")
            properties[name] = value
        message = Message(found["topic"], bytes.fromhex(payload), found["qos"], bool(found["retain"]), dup, properties)
        self.inbox.put(message)

    def subscribe(self, subscriptions, properties=None) -> list[int]:
        if self.process is not None:
            raise Unsupported("a SUBSCRIBE at a chosen time")
        if any(item.no_local or item.retain_handling for item in subscriptions):
            raise Unsupported("No Local and Retain Handling")
        if len({(item.qos, item.retain_as_published) for item in subscriptions}) > 1:
            raise Unsupported("several QoS or Retain As Published in one SUBSCRIBE")
        return self._start(subscriptions, properties)

    def unsubscribe(self, filters):
        raise Unsupported("an UNSUBSCRIBE at a chosen time")

    def message(self, *arguments) -> Message:
        self._must_have_subscribed()
        return super().message(*arguments)

    def messages(self, *arguments) -> list[Message]:
        self._must_have_subscribed()
        return super().messages(*arguments)

    def _must_have_subscribed(self) -> None:
        if self.process is None:
            raise Unsupported("messages without a SUBSCRIBE")

    # -- publishing

    def publish_many(self, messages, qos=0, retain=False, properties=None) -> list[int]:
        if self.process is not None:
            raise Unsupported("publishing and subscribing on one connection")
        if "topic_alias" in (properties or {}):
            raise Unsupported("a topic alias across messages")
        flags = ["-q", str(qos)] + (["-r"] if retain else []) + property_flags("publish", properties)
        topics = {topic for topic, _ in messages}
        as_lines = len(messages) > 1 and len(topics) == 1 and all(payload and b"\n" not in payload for _, payload in messages)
        if as_lines:
            text = b"".join(payload + b"\n" for _, payload in messages)
            return self._publish([*flags, "-t", messages[0][0], "-l"], text, qos, len(messages))
        return [self._publish([*flags, "-t", topic, "-s"], payload, qos, 1)[0] for topic, payload in messages]

    def _publish(self, flags: list[str], payload: bytes, qos: int, count: int) -> list[int]:
        if not payload:
            flags = [*flags[:-1], "-n"]
        done = subprocess.run(
            ["mosquitto_pub", *self.common(), *flags, *self.will()], input=payload, capture_output=True, timeout=60, check=False
        )
        text = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
        assert done.returncode == 0, text[-2000:]
        if qos == 0 or self.version == 3:
            return [0] * count
        last = "PUBACK" if qos == 1 else "PUBCOMP"
        codes = [int(code) for code in re.findall(rf"received {last} \(Mid: \d+, RC:(\d+)\)", text)]
        assert len(codes) == count, text[-2000:]
        return codes

    # -- ending

    def disconnect(self, reason_code=0, properties=None) -> None:
        # On a signal mosquitto_sub sends 0x04 in 5.0, which is 0x00 where there is no will.
        if properties or reason_code not in (0, 4) or (self.version == 3 and reason_code):
            raise Unsupported("reason and properties of DISCONNECT")
        if self.version == 5 and self.options.will and reason_code == 0:
            raise Unsupported("DISCONNECT 0x00 with a will")
        if self.process is not None:
            until(self._sleeps, "mosquitto_sub waits for packets", WAIT_SECONDS)
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(WAIT_SECONDS)
            assert self.closed.wait(WAIT_SECONDS)

    def _sleeps(self) -> bool:
        """Whether the process waits in the kernel, or is gone. Its signal handler takes locks of the library: one that interrupts the
        handling of a packet, which holds them, hangs for ever."""
        if self.process.poll() is not None:
            return True
        state = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "S"

    def drop(self) -> None:
        if self.process is None:
            raise Unsupported("a connection before the first packet")
        self.process.kill()
        self.process.wait(WAIT_SECONDS)

    def wait_closed(self, timeout=WAIT_SECONDS):
        if self.process is None:
            raise Unsupported("a connection before the first packet")
        if self.version == 3:
            raise Unsupported("notice of a closed connection in 3.1.1")
        assert self.closed.wait(timeout), "the broker did not close the connection"
        return self.close_reason

    def release(self) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
