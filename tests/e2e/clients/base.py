"""What a scenario may ask of a client, whatever library does it.

Calls block until the library reports the result. What a library cannot do raises `Unsupported(feature)`; the feature must
then stand in `gaps.GAPS`, or the test fails. Properties have the names of `wire.PROPERTIES`; `user_properties` (a list of
pairs) and `subscription_ids` (a list) stand for those that may repeat.
"""

from __future__ import annotations

import queue
import time
from dataclasses import dataclass, field

WAIT_SECONDS = 15


class Unsupported(Exception):
    """The library has no way to do this."""

    def __init__(self, feature: str):
        super().__init__(feature)
        self.feature = feature


class Untold(dict):
    """Properties that the library has read and shows to nobody."""

    def __init__(self, feature: str):
        super().__init__()
        self.feature = feature

    def __bool__(self):
        return True

    def __getitem__(self, name):
        raise Unsupported(self.feature)


class Refused(Exception):
    """The broker answered CONNECT with a refusal."""

    def __init__(self, reason_code: int, properties: dict | None = None):
        super().__init__(f"refused with {reason_code:#x}")
        self.reason_code, self.properties = reason_code, properties or {}


@dataclass
class Will:
    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: dict = field(default_factory=dict)


@dataclass
class Door:
    """What is below MQTT. `web`: path of the WebSocket; `unix`: path of the socket; the others are PEM files."""

    tls: bool = False
    web: str | None = None
    unix: str | None = None
    authority: str | None = None
    certificate: str | None = None
    key: str | None = None


@dataclass
class Options:
    """CONNECT. `properties`: session_expiry, receive_maximum, maximum_packet_size, topic_alias_maximum,
    request_response_info, request_problem_info, user_properties."""

    client_id: str = ""
    clean_start: bool = True
    keep_alive: int = 60
    will: Will | None = None
    properties: dict = field(default_factory=dict)
    manual_acks: bool = False
    door: Door = field(default_factory=Door)
    scram: tuple[str, str] | None = None  # SCRAM-SHA-256 in 5.0 with this user and password: the HiveMQ client alone


@dataclass
class Connack:
    session_present: bool | None  # None: the library does not tell
    reason_code: int = 0
    properties: dict = field(default_factory=dict)

    def session_may_be(self, present: bool) -> bool:
        """Whether a session was there or not, as far as the library tells."""
        return self.session_present in (present, None)


@dataclass
class Message:
    topic: str
    payload: bytes
    qos: int
    retain: bool
    dup: bool | None = None  # None: the library does not tell
    properties: dict = field(default_factory=dict)
    handle: object = None  # for `ack`

    @property
    def user_properties(self) -> list[tuple[str, str]]:
        return self.properties.get("user_properties", [])


@dataclass
class Subscription:
    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0

    @property
    def plain(self) -> bool:
        """Has only what MQTT 3.1.1 has."""
        return not (self.no_local or self.retain_as_published or self.retain_handling)


class Client:
    """One connection (and the session behind it). `version` is 3 (for 3.1.1) or 5."""

    library = "?"
    # Whether it connects when it subscribes or publishes, and not before.
    connects_late = False

    def __init__(self, address: tuple[str, int], version: int):
        self.address, self.version = address, version
        self.inbox: queue.Queue[Message] = queue.Queue()
        self.options = Options()
        # Of the DISCONNECT with which the broker has ended the connection.
        self.close_properties: dict = {}

    def connect(self, options: Options) -> Connack:
        raise NotImplementedError

    def publish(self, topic: str, payload: bytes = b"", qos: int = 0, retain: bool = False, properties=None) -> int:
        """Publishes, waits for the end of the handshake, returns its reason code (0 in 3.1.1)."""
        return self.publish_many([(topic, payload)], qos, retain, properties)[0]

    def publish_many(self, messages, qos: int = 0, retain: bool = False, properties=None) -> list[int]:
        """Hands all `(topic, payload)` to the library at once, then waits for every acknowledgement."""
        raise NotImplementedError

    def subscribe(self, subscriptions: list[Subscription], properties: dict | None = None) -> list[int]:
        raise NotImplementedError

    def unsubscribe(self, filters: list[str]) -> list[int]:
        """Reason codes of UNSUBACK; empty in 3.1.1."""
        raise NotImplementedError

    def ack(self, message: Message) -> None:
        """Acknowledges a message of a client with `manual_acks`."""
        raise Unsupported("manual acknowledgement")

    def disconnect(self, reason_code: int = 0, properties: dict | None = None) -> None:
        raise NotImplementedError

    def drop(self) -> None:
        """Ends the connection without DISCONNECT."""
        raise NotImplementedError

    def wait_closed(self, timeout: float = WAIT_SECONDS) -> int | None:
        """Waits until the broker has ended the connection; the reason code of its DISCONNECT, None if it sent none."""
        raise NotImplementedError

    def release(self) -> None:
        """Frees what the library holds; called at the end of each test, whatever happened."""

    # -- the same for all

    def message(self, timeout: float = WAIT_SECONDS) -> Message:
        """The next message."""
        try:
            return self.inbox.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"{self.library} {self.options.client_id}: no message within {timeout} s") from None

    def messages(self, count: int, timeout: float = WAIT_SECONDS) -> list[Message]:
        """The next `count` messages."""
        deadline = time.monotonic() + timeout
        found = []
        while len(found) < count:
            try:
                found.append(self.inbox.get(timeout=max(0.01, deadline - time.monotonic())))
            except queue.Empty:
                raise TimeoutError(f"{self.library}: {len(found)} of {count} messages within {timeout} s") from None
        return found

    def messages_until(self, payload: bytes, timeout: float = WAIT_SECONDS) -> list[Message]:
        """All messages before the marker with this payload (the proof that nothing else came)."""
        deadline = time.monotonic() + timeout
        found = []
        while True:
            message = self.message(max(0.01, deadline - time.monotonic()))
            if message.payload == payload:
                return found
            found.append(message)
