"""What the fixtures hand to a scenario: unique names, clients of one library and version, and raw sockets."""

from __future__ import annotations

import importlib
import os
import signal
import uuid

from broker import Broker
from clients.base import Client, Connack, Options, Subscription, Will
from raw import RawClient
from wire import V3, V5

LIBRARIES = {
    "paho": ("clients.paho", "Paho"),
    "gmqtt": ("clients.gmqtt_", "Gmqtt"),
    "mosquitto": ("clients.mosquitto_cli", "MosquittoCli"),
    "mqttjs": ("clients.driver", "MqttJs"),
    "hivemq": ("clients.driver", "HiveMq"),
}

SESSION_SECONDS = 3600


def library_names() -> list[str]:
    """All libraries, or those that E2E_LIBRARIES names (for work on one adapter)."""
    chosen = os.environ.get("E2E_LIBRARIES")
    return chosen.split(",") if chosen else list(LIBRARIES)


class Names:
    """Topics and client ids that no other test uses, so that one broker serves them all at once."""

    # Whether the broker is ended and started again each time before a session is taken up again, and how: "restart" or "kill".
    restarts = ""

    def __init__(self):
        self.mark = uuid.uuid4().hex[:12]
        self.taken_up: set[str] = set()

    def before_resume(self, name: str) -> None:
        """What the markers `restart` and `kill` add to a scenario: nothing that a client was told may depend on the process."""
        if name in self.taken_up:
            self.restart()
        self.taken_up.add(name)

    def restart(self) -> None:
        """The same where a scenario takes no session up. All connections end; without the markers nothing happens."""
        if self.restarts:
            self.broker.check_alive()
            if self.restarts == "kill":
                assert self.broker.stop(signal.SIGKILL) == -signal.SIGKILL
            else:
                assert self.broker.stop() == 0
            self.broker.start()

    def topic(self, tail: str = "a") -> str:
        return f"t{self.mark}/{tail}"

    def client_id(self, name: str = "c") -> str:
        return f"{name}{self.mark}"


class Library(Names):
    """Clients of one library in one MQTT version. Every client made here is released at the end of the test."""

    def __init__(self, broker: Broker, library: str, version: int):
        super().__init__()
        self.broker, self.library, self.version = broker, library, version
        module, name = LIBRARIES[library]
        self.kind = getattr(importlib.import_module(module), name)
        self.made: list[Client] = []

    @property
    def v5(self) -> bool:
        return self.version == 5

    def client(self) -> Client:
        client = self.kind(self.broker.address, self.version)
        self.made.append(client)
        return client

    def open(self, name: str, **options) -> tuple[Client, Connack]:
        """A connected client with its CONNACK. `name` becomes the client id (unique for this test); see `Options`."""
        client = self.client()
        options.setdefault("client_id", self.client_id(name))
        return client, client.connect(Options(**options))

    def connect(self, name: str = "c", **options) -> Client:
        return self.open(name, **options)[0]

    def resume(self, name: str, **options) -> tuple[Client, Connack]:
        """Connects with a session that outlives the connection; takes up the old one if there is one."""
        self.before_resume(name)
        options.setdefault("clean_start", False)
        if self.v5:
            options["properties"] = {"session_expiry": SESSION_SECONDS, **options.get("properties", {})}
        return self.open(name, **options)

    def has_connected(self, client: Client, *subscriptions: Subscription) -> None:
        """One that has taken a session up is connected from here on; where that takes a SUBSCRIBE, to what it has subscribed to already."""
        if client.connects_late:
            client.subscribe(list(subscriptions))

    def subscriber(self, *filters: str | Subscription, qos: int = 2, name: str = "sub", properties=None, **options) -> Client:
        """A client that has subscribed."""
        client = self.connect(name, **options)
        wanted = [item if isinstance(item, Subscription) else Subscription(item, qos) for item in filters]
        codes = client.subscribe(wanted, properties)
        assert codes == [item.qos for item in wanted], codes
        return client

    def raw(self) -> RawClient:
        return RawClient(self.broker.address, V5 if self.v5 else V3)


class Raw(Names):
    """Raw sockets in one MQTT version."""

    def __init__(self, broker: Broker, version: int):
        super().__init__()
        self.broker, self.version = broker, version
        self.made: list[RawClient] = []

    @property
    def v5(self) -> bool:
        return self.version == V5

    def open(self) -> RawClient:
        """A socket on which nothing was sent yet."""
        client = RawClient(self.broker.address, self.version)
        self.made.append(client)
        return client

    def connect(self, name: str = "c", **options) -> RawClient:
        """A connected client (clean start unless told otherwise)."""
        client = self.open()
        client.connect(self.client_id(name), **options)
        return client

    def resume(self, name: str, properties=None, **options) -> tuple[RawClient, bool]:
        """A client whose session outlives the connection, and whether one was there."""
        self.before_resume(name)
        client = self.open()
        given = {"session_expiry": SESSION_SECONDS, **(properties or {})} if self.v5 else ()
        found = client.connect(self.client_id(name), clean=options.pop("clean", False), properties=given, **options)
        return client, found.session_present

    def subscriber(self, *filters, name: str = "sub", qos: int = 0, options: int | None = None, properties=(), **connect):
        client = self.connect(name, **connect)
        codes = client.subscribe(*filters, qos=qos, options=options, properties=properties).reasons
        assert all(code < 3 for code in codes), codes
        return client

    def settle(self, client: RawClient) -> None:
        """What this client has acknowledged is written when this returns. That waits up to 20 ms for company, but no longer than until
        the next entry of its session (docs/durability.md): one that is answered after it has been written."""
        client.subscribe(self.topic("settled"))

    def release(self) -> None:
        for client in self.made:
            client.close()


__all__ = ["LIBRARIES", "Library", "Names", "Raw", "Subscription", "Will", "library_names"]
