"""Wills of connections that end with the broker's process, which nobody could publish."""

import signal

import pytest
import wire
from broker import Courser
from raw import RawClient
from wire import CONNACK, PUBLISH, SUBACK, V3, V5, Will

pytestmark = pytest.mark.courser

# More than there are partitions: sessions of all of them are at both ends.
CLIENTS = 20
EXPIRY = {"session_expiry": 100}


def connected(broker: Courser, name: str, version: int = V5, will: Will | None = None) -> RawClient:
    client = RawClient(("127.0.0.1", broker.port), version)
    properties = EXPIRY if version == V5 else ()
    client.send(wire.connect(version, name, clean=False, properties=properties, will=will))
    client.expect(CONNACK)
    return client


def test_m26_wills_of_connections_that_are_lost_with_the_process_come_to_all(tmp_path):
    """Without a delay, of 3.1.1, and with one; to kept sessions of every partition.

    v3 [MQTT-3.1.2-8] v5 [MQTT-3.1.2-8]
    """
    broker = Courser(tmp_path, {"sys_interval": 0})
    broker.keep_port = True
    broker.start()
    watchers = [f"watcher-{number}" for number in range(CLIENTS)]
    for name in watchers:
        watcher = connected(broker, name)
        watcher.send(wire.subscribe(V5, 1, [("w/#", 1)]))
        watcher.expect(SUBACK)
        watcher.send(wire.disconnect(V5))
    kinds = [(V5, ()), (V3, ()), (V5, {"will_delay": 1})]
    clients = []
    for number in range(CLIENTS):
        version, properties = kinds[number % len(kinds)]
        will = Will(f"w/{number}", b"%d" % number, qos=1, properties=properties)
        clients.append(connected(broker, f"dying-{number}", version, will))
    broker.stop(signal.SIGKILL)
    broker.start()
    # Who comes back before its will has gone takes no will back whose delay was over.
    back = connected(broker, "dying-0")
    try:
        for name in watchers:
            watcher = connected(broker, name)
            came = sorted(int(bytes(watcher.expect(PUBLISH).payload)) for _ in range(CLIENTS))
            assert came == list(range(CLIENTS)), name
            watcher.close()
    finally:
        back.close()
        for client in clients:
            client.close()
        broker.stop()
