"""paho-mqtt 2.x."""

from __future__ import annotations

import queue
import socket
import threading

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from .base import WAIT_SECONDS, Client, Connack, Message, Options, Refused, Subscription

# ours -> paho's
NAMES = {
    "payload_format": "PayloadFormatIndicator",
    "message_expiry": "MessageExpiryInterval",
    "content_type": "ContentType",
    "response_topic": "ResponseTopic",
    "correlation_data": "CorrelationData",
    "subscription_id": "SubscriptionIdentifier",
    "session_expiry": "SessionExpiryInterval",
    "assigned_client_id": "AssignedClientIdentifier",
    "server_keep_alive": "ServerKeepAlive",
    "request_problem_info": "RequestProblemInformation",
    "will_delay": "WillDelayInterval",
    "request_response_info": "RequestResponseInformation",
    "response_info": "ResponseInformation",
    "reason_string": "ReasonString",
    "server_reference": "ServerReference",
    "receive_maximum": "ReceiveMaximum",
    "topic_alias_maximum": "TopicAliasMaximum",
    "topic_alias": "TopicAlias",
    "maximum_qos": "MaximumQoS",
    "retain_available": "RetainAvailable",
    "user_properties": "UserProperty",
    "maximum_packet_size": "MaximumPacketSize",
    "wildcard_available": "WildcardSubscriptionAvailable",
    "subscription_ids_available": "SubscriptionIdentifierAvailable",
    "shared_available": "SharedSubscriptionAvailable",
}


def to_paho(packet_type: int, values: dict | None) -> Properties | None:
    if not values:
        return None
    properties = Properties(packet_type)
    for name, value in values.items():
        for item in value if name == "user_properties" else [value]:
            setattr(properties, NAMES[name], item)
    return properties


def from_paho(properties: Properties | None) -> dict:
    found = {}
    for name, theirs in NAMES.items():
        if properties is not None and hasattr(properties, theirs):
            value = getattr(properties, theirs)
            if name == "subscription_id":
                name, value = "subscription_ids", list(value)
            found[name] = [tuple(pair) for pair in value] if name == "user_properties" else value
    return found


class Paho(Client):
    library = "paho"

    def __init__(self, address, version):
        super().__init__(address, version)
        self.events: queue.Queue = queue.Queue()
        self.acks: dict[int, queue.Queue] = {}
        self.lock = threading.Lock()
        self.closed = threading.Event()
        self.close_reason: int | None = None
        self.client: mqtt.Client | None = None

    def connect(self, options: Options) -> Connack:
        self.options = options
        v5 = self.version == 5
        client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=options.client_id,
            clean_session=None if v5 else options.clean_start,
            protocol=mqtt.MQTTv5 if v5 else mqtt.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=options.manual_acks,
            transport="websockets" if options.door.web else "unix" if options.door.unix else "tcp",
        )
        if options.door.tls:
            client.tls_set(options.door.authority, options.door.certificate, options.door.key)
        if options.door.web:
            client.ws_set_options(path=options.door.web)
        client.max_inflight_messages_set(0 if not v5 else 65535)
        client.on_connect = lambda c, u, flags, reason, properties: self.events.put((flags, reason, properties))
        client.on_connect_fail = lambda c, u: self.events.put(None)
        client.on_message = self._on_message
        client.on_publish = lambda c, u, mid, reason, properties: self._acked(mid, [reason.value])
        client.on_subscribe = lambda c, u, mid, reasons, properties: self._acked(mid, [r.value for r in reasons])
        client.on_unsubscribe = lambda c, u, mid, reasons, properties: self._acked(mid, [r.value for r in reasons])
        client.on_disconnect = self._on_disconnect
        if options.will:
            will = options.will
            properties = to_paho(PacketTypes.WILLMESSAGE, will.properties)
            client.will_set(will.topic, will.payload, will.qos, will.retain, properties)
        extra = {"clean_start": options.clean_start} if v5 else {}
        host, port = (options.door.unix, 1) if options.door.unix else self.address
        client.connect(
            host, port, keepalive=options.keep_alive, properties=to_paho(PacketTypes.CONNECT, options.properties), **extra
        )
        self.client = client
        client.loop_start()
        event = self.events.get(timeout=WAIT_SECONDS)
        if event is None:
            raise ConnectionError("paho could not connect")
        flags, reason, properties = event
        if reason.value:
            raise Refused(reason.value, from_paho(properties))
        return Connack(bool(flags.session_present), reason.value, from_paho(properties))

    def _on_message(self, client, userdata, message) -> None:
        found = Message(
            message.topic, bytes(message.payload), message.qos, bool(message.retain), bool(message.dup),
            from_paho(getattr(message, "properties", None)), (message.mid, message.qos),
        )  # fmt: skip
        self.inbox.put(found)

    def _on_disconnect(self, client, userdata, flags, reason, properties) -> None:
        if flags.is_disconnect_packet_from_server:
            self.close_reason, self.close_properties = reason.value, from_paho(properties)
        self.closed.set()

    def _slot(self, mid: int) -> queue.Queue:
        with self.lock:
            return self.acks.setdefault(mid, queue.Queue())

    def _acked(self, mid: int, codes: list[int]) -> None:
        self._slot(mid).put(codes)

    def _wait(self, mid: int) -> list[int]:
        codes = self._slot(mid).get(timeout=WAIT_SECONDS)
        with self.lock:
            self.acks.pop(mid, None)
        return codes

    def publish_many(self, messages, qos=0, retain=False, properties=None) -> list[int]:
        given = to_paho(PacketTypes.PUBLISH, properties)
        sent = [self.client.publish(topic, payload, qos, retain, given) for topic, payload in messages]
        assert all(info.rc == 0 for info in sent), [info.rc for info in sent]
        return [self._wait(info.mid)[0] for info in sent]

    def subscribe(self, subscriptions: list[Subscription], properties=None) -> list[int]:
        if self.version == 5:
            wanted = [
                (s.filter, SubscribeOptions(s.qos, s.no_local, s.retain_as_published, s.retain_handling)) for s in subscriptions
            ]
            result, mid = self.client.subscribe(wanted, properties=to_paho(PacketTypes.SUBSCRIBE, properties))
        else:
            result, mid = self.client.subscribe([(s.filter, s.qos) for s in subscriptions])
        assert result == 0, result
        return self._wait(mid)

    def unsubscribe(self, filters):
        result, mid = self.client.unsubscribe(filters)
        assert result == 0, result
        codes = self._wait(mid)
        return codes if self.version == 5 else []

    def ack(self, message: Message) -> None:
        self.client.ack(*message.handle)

    def disconnect(self, reason_code=0, properties=None) -> None:
        from paho.mqtt.reasoncodes import ReasonCode

        if self.version == 5:
            reason = ReasonCode(PacketTypes.DISCONNECT, identifier=reason_code)
            self.client.disconnect(reason, to_paho(PacketTypes.DISCONNECT, properties))
        else:
            self.client.disconnect()
        assert self.closed.wait(WAIT_SECONDS)
        self.client.loop_stop()

    def drop(self) -> None:
        self.client.socket().shutdown(socket.SHUT_RDWR)
        assert self.closed.wait(WAIT_SECONDS)
        self.client.loop_stop()

    def wait_closed(self, timeout=WAIT_SECONDS):
        assert self.closed.wait(timeout), "the broker did not close the connection"
        return self.close_reason

    def release(self) -> None:
        if self.client is None:
            return
        if not self.closed.is_set():
            self.client.disconnect()
            self.closed.wait(2)
        self.client.loop_stop()
