"""What clients that come see of `memory.max`, in both versions: refused near it, closed as soon as accepted nearer still, let in again.

Packets of clients that are there already, which do not end, take the memory up, each too short for that its client is closed for it before half a minute is over.
"""

import time

import pytest
import wire
from raw import RawClient
from test_memory import QUOTA, SMALL, Server
from test_memory_publishers import SERVED, UNFINISHED, unfinished
from wire import CONNACK, PUBACK, V3

pytestmark = pytest.mark.courser

# As many as hold more than the budget, by what they have sent: where memory is short, a packet that has not ended holds no more than that.
HOLDERS = SMALL * 13 // 16 // UNFINISHED
# How many go on at once: all has to be done before the first of them is closed, who may take less long the longer memory is full; and as soon as it is
# read each takes a buffer of 64 KiB, which is a sixth of what is between refusing and closing.
TOGETHER = 32
TOPIC = "t"
UNAVAILABLE = 3
# A refused publish of 3.1.1 ends its connection within 30 s (docs/limits.md), and a busy machine is slow.
PATIENCE = 60
CLOSED = "closed without an answer"
# A shard that is short of memory looks again within this time: what it says twice so far apart is not of one packet that has just come.
LOOK_AGAIN_SECONDS = 0.06
NOBODY_GETS_IT = 0x10


def client_of(server, version, client_id, **options):
    client = RawClient(("127.0.0.1", server.port), version)
    client.patience = PATIENCE
    client.connect(client_id, **options)
    return client


def coming(server, version):
    """What one hears who comes now."""
    client = RawClient(("127.0.0.1", server.port), version)
    try:
        client.send(wire.connect(version, "coming"))
        found = client.receive(PATIENCE)
    except (ConnectionResetError, BrokenPipeError):
        return CLOSED
    finally:
        client.close()
    if found is None:
        return CLOSED
    assert found.kind == CONNACK, found
    return found.reason


def all_hear(server, version, what, heard):
    """Whether some who come one after the other hear this; what was heard is noted."""
    for _ in range(3):
        answer = coming(server, version)
        heard.add(answer)
        if answer != what:
            return False
        time.sleep(LOOK_AGAIN_SECONDS)
    return True


def heard_while_growing(server, version, holders, until):
    """Takes memory by the holders that are left until all who come hear this; all that was heard."""
    heard = set()
    while holders:
        for _ in range(min(TOGETHER, len(holders))):
            holders.pop().send(unfinished())
        # It is read, and the shards have looked.
        time.sleep(LOOK_AGAIN_SECONDS)
        if all_hear(server, version, until, heard):
            return heard
    pytest.fail(f"all of the budget was taken, and who came heard {heard}, never {until}")


@pytest.mark.timeout(240)
def test_who_comes_is_refused_then_closed_then_let_in(tmp_path, raw):
    """3.1.1 hears 3 and 5.0 hears 0x97; of 3.1.1 a refused QoS 1 publish ends the connection, and is taken once when it is sent again."""
    version = raw.version
    no_room = UNAVAILABLE if version == V3 else QUOTA
    server = Server(tmp_path, SMALL)
    everyone = []
    try:
        reader = client_of(server, version, "reader")
        reader.subscribe(TOPIC, qos=1)
        kept = {"clean": False, "properties": () if version == V3 else {"session_expiry": 600}}
        publisher = client_of(server, version, "publisher", **kept)
        publisher.publish(TOPIC, b"before", qos=1)
        reader.message(payload=b"before")
        everyone = [client_of(server, version, f"holder{number}") for number in range(HOLDERS)]
        holders = list(everyone)
        # So many do not make memory short yet, some at a time.
        for number in range(HOLDERS // 3):
            holders.pop().send(unfinished())
            if number % TOGETHER == 0:
                time.sleep(LOOK_AGAIN_SECONDS / 2)

        assert heard_while_growing(server, version, holders, no_room) <= {SERVED, no_room}
        # What nobody gets takes no memory.
        publisher.send(wire.publish(version, "nobody", b"x", qos=1, packet_id=76))
        publisher.expect(PUBACK, packet_id=76, reason=0 if version == V3 else NOBODY_GETS_IT)
        publisher.send(wire.publish(version, TOPIC, b"refused", qos=1, packet_id=77))
        if version != V3:
            publisher.expect(PUBACK, packet_id=77, reason=QUOTA)

        heard = heard_while_growing(server, version, holders, CLOSED)
        assert heard <= {no_room, CLOSED}, heard
        # Who is there is served.
        reader.ping()
        if version == V3:
            assert publisher.receive() is None, "it is neither acknowledged nor kept open"

        for holder in everyone:
            holder.close()
        deadline = time.monotonic() + PATIENCE
        while (answer := coming(server, version)) != SERVED:
            assert answer in (no_room, CLOSED) and time.monotonic() < deadline, answer
            time.sleep(0.05)
        publisher.close()
        publisher = client_of(server, version, "publisher", **kept)
        publisher.send(wire.publish(version, TOPIC, b"refused", qos=1, packet_id=77, dup=True))
        publisher.expect(PUBACK, packet_id=77)
        reader.message(payload=b"refused")
        publisher.publish(TOPIC, b"after", qos=1)
        reader.message(payload=b"after")
    finally:
        for holder in everyone:
            holder.close()
        code, log = server.stop()
    assert code == 0, log
