"""gmqtt (asyncio): one loop in a thread of its own serves all clients of a worker."""

from __future__ import annotations

import asyncio
import logging
import queue
import ssl
import threading

import gmqtt
from gmqtt.mqtt.constants import MQTTv50, MQTTv311
from gmqtt.mqtt.handler import MQTTConnectError

from .base import WAIT_SECONDS, Client, Connack, Door, Message, Options, Refused, Subscription, Unsupported, Untold

logging.getLogger("gmqtt").setLevel(logging.CRITICAL)

# ours -> gmqtt's
NAMES = {
    "payload_format": "payload_format_id",
    "message_expiry": "message_expiry_interval",
    "subscription_id": "subscription_identifier",
    "session_expiry": "session_expiry_interval",
    "assigned_client_id": "assigned_client_identifier",
    "will_delay": "will_delay_interval",
    "user_properties": "user_property",
    "maximum_qos": "max_qos",
    "wildcard_available": "wildcard_subscription_available",
    "subscription_ids_available": "sub_id_available",
    "shared_available": "shared_subscription_available",
}
OURS = {theirs: ours for ours, theirs in NAMES.items()}

_loop: asyncio.AbstractEventLoop | None = None


def loop() -> asyncio.AbstractEventLoop:
    global _loop
    if _loop is None:
        _loop = asyncio.new_event_loop()
        threading.Thread(target=_loop.run_forever, name="gmqtt", daemon=True).start()
    return _loop


def run(coroutine, timeout=WAIT_SECONDS):
    """Runs a coroutine in the loop's thread and waits for it."""
    return asyncio.run_coroutine_threadsafe(coroutine, loop()).result(timeout)


def to_gmqtt(values: dict | None) -> dict:
    return {NAMES.get(name, name): value for name, value in (values or {}).items()}


def from_gmqtt(values: dict) -> dict:
    found = {}
    for theirs, value in values.items():
        name = OURS.get(theirs, theirs)
        if name == "user_properties":
            found[name] = [tuple(pair) for pair in value]
        elif name == "subscription_id":
            found["subscription_ids"] = list(value)
        elif name not in ("dup", "retain"):
            found[name] = value[0] if isinstance(value, list) else value
    return found


def below(door: Door) -> ssl.SSLContext | bool:
    """TLS, or none."""
    if door.web or door.unix:
        raise Unsupported("this door")
    if not door.tls:
        return False
    made = ssl.create_default_context(cafile=door.authority)
    if door.certificate:
        made.load_cert_chain(door.certificate, door.key)
    return made


class Gmqtt(Client):
    library = "gmqtt"

    def __init__(self, address, version):
        super().__init__(address, version)
        self.client: gmqtt.Client | None = None
        self.acks: dict[int, queue.Queue] = {}
        self.lock = threading.Lock()
        self.closed = threading.Event()
        self.close_reason: int | None = None
        self.connack: tuple = ()

    def connect(self, options: Options) -> Connack:
        self.options = options
        if not options.client_id:
            raise Unsupported("an empty client id")
        if options.manual_acks and self.version == 3:
            raise Unsupported("manual acknowledgement in 3.1.1")
        run(self._connect(options), 6)
        present, code, properties = self.connack
        return Connack(bool(present), code, properties)

    async def _connect(self, options: Options) -> None:
        will = None
        if options.will:
            given = options.will
            will = gmqtt.Message(given.topic, given.payload, given.qos, given.retain, **to_gmqtt(given.properties))
        client = gmqtt.Client(
            options.client_id,
            clean_session=options.clean_start,
            optimistic_acknowledgement=not options.manual_acks,
            will_message=will,
            **to_gmqtt(options.properties),
        )
        # -1 would mean for ever, and 0 still allows one attempt.
        client.set_config({"reconnect_retries": -2})
        client.on_connect = self._on_connect
        client.on_message = self._on_held_message if options.manual_acks else self._on_message
        client.on_subscribe = lambda c, mid, codes, properties: self._acked(mid, list(codes))
        client.on_unsubscribe = lambda c, mid, codes: self._acked(mid, list(codes))
        client.on_disconnect = self._on_disconnect
        self._watch_acknowledgements(client._package_handler)
        self.client = client
        version = MQTTv50 if self.version == 5 else MQTTv311
        try:
            await client.connect(*self.address, ssl=below(options.door), keepalive=options.keep_alive, version=version)
        except MQTTConnectError as error:
            raise Refused(error._code, Untold("properties of a CONNACK that refuses")) from None

    def _watch_acknowledgements(self, handler) -> None:
        """gmqtt tells nobody when a publish is done, so its handlers of PUBACK, PUBREC and PUBCOMP are listened to."""

        def listen(name: str, final) -> None:
            own = getattr(handler, name)

            def heard(cmd, packet):
                own(cmd, packet)
                code = packet[2] if len(packet) > 2 else 0
                if final(code):
                    self._acked(int.from_bytes(packet[:2], "big"), [code])

            setattr(handler, name, heard)

        listen("_handle_puback_packet", lambda code: True)
        listen("_handle_pubrec_packet", lambda code: code >= 0x80)
        listen("_handle_pubcomp_packet", lambda code: True)

    def _on_connect(self, client, flags, code, properties) -> None:
        self.connack = (flags, code, from_gmqtt(client._package_handler._connack_properties))

    def _message(self, topic, payload, qos, properties) -> Message:
        kept = from_gmqtt(properties)
        return Message(topic, bytes(payload), qos, bool(properties["retain"]), bool(properties["dup"]), kept)

    def _on_message(self, client, topic, payload, qos, properties) -> int:
        self.inbox.put(self._message(topic, payload, qos, properties))
        return 0

    async def _on_held_message(self, client, topic, payload, qos, properties) -> int:
        message = self._message(topic, payload, qos, properties)
        message.handle = asyncio.Event()
        self.inbox.put(message)
        await message.handle.wait()
        return 0

    def _on_disconnect(self, client, packet, exc=None) -> None:
        # gmqtt hands over an empty packet when the socket was closed without one.
        data = bytes(packet) if isinstance(packet, (bytes, bytearray)) else b""
        if not self.closed.is_set():
            self.close_reason = data[0] if data and self.version == 5 else None
            if len(data) > 1 and self.version == 5:
                # It hands the packet over as it came, and reads properties for others.
                self.close_properties = from_gmqtt(client._package_handler._parse_properties(data[1:])[0])
            self.closed.set()

    def _slot(self, mid: int) -> queue.Queue:
        with self.lock:
            return self.acks.setdefault(mid, queue.Queue())

    def _acked(self, mid: int, codes: list[int]) -> None:
        self._slot(mid).put(codes)

    def _wait(self, mid: int) -> list[int]:
        return self._slot(mid).get(timeout=WAIT_SECONDS)

    def publish_many(self, messages, qos=0, retain=False, properties=None) -> list[int]:
        async def publish():
            mids = []
            for topic, payload in messages:
                message = gmqtt.Message(topic, payload, qos, retain, **to_gmqtt(properties))
                mid, package = self.client._connection.publish(message)
                if qos:
                    self.client._persistent_storage.push_message(mid, package)
                mids.append(mid)
            return mids

        mids = run(publish())
        return [self._wait(mid)[0] if qos else 0 for mid in mids]

    def subscribe(self, subscriptions: list[Subscription], properties=None) -> list[int]:
        wanted = [
            gmqtt.Subscription(s.filter, s.qos, s.no_local, s.retain_as_published, s.retain_handling) for s in subscriptions
        ]

        async def subscribe():
            return self.client.subscribe(wanted, **to_gmqtt(properties))

        return self._wait(run(subscribe()))

    def unsubscribe(self, filters):
        async def unsubscribe():
            return self.client.unsubscribe(filters)

        codes = self._wait(run(unsubscribe()))
        return codes if self.version == 5 else []

    def ack(self, message: Message) -> None:
        loop().call_soon_threadsafe(message.handle.set)

    def disconnect(self, reason_code=0, properties=None) -> None:
        self.closed.set()
        run(self.client.disconnect(reason_code, **to_gmqtt(properties)))

    def drop(self) -> None:
        async def drop():
            self.client._is_active = False
            self.client._connection._transport.abort()

        self.closed.set()
        run(drop())

    def wait_closed(self, timeout=WAIT_SECONDS):
        assert self.closed.wait(timeout), "the broker did not close the connection"
        return self.close_reason

    def release(self) -> None:
        if self.client is None or self.client._connection is None:
            return
        if not self.closed.is_set():
            try:
                run(self.client.disconnect(), 3)
            except Exception:  # the connection may be gone already
                pass
