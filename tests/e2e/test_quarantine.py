"""M39, M50: an entry that makes the program panic sets its partition aside; health says why, and the operator ends it.

The panics themselves are planted: what two of them leave behind is the file DATA/crash.
"""

import json
import subprocess
import urllib.error
import urllib.request

import pytest
import wire
from broker import Courser, until
from raw import RawClient
from scenario import Raw
from wire import PUBACK, V5

pytestmark = pytest.mark.courser

# Reason codes of a PUBACK: nobody subscribes to the topic; one of its sessions cannot have it.
NOBODY, REFUSED = 0x10, 0x83
# Of a CONNACK: the session is of a partition that does not serve.
UNAVAILABLE = 0x88


def get(server, path):
    try:
        with urllib.request.urlopen(server.http + path, timeout=20) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def run(server, *arguments, code=0):
    command = [str(server.binary()), *arguments]
    done = subprocess.run(command, cwd=server.folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout


def publish(client: RawClient, topic: str, payload: bytes, packet_id: int) -> None:
    client.send(wire.publish(V5, topic, payload, qos=1, packet_id=packet_id))
    assert client.expect(PUBACK, packet_id=packet_id).reason == 0


def entry_with(server, topic: str) -> tuple[int, int]:
    """Partition and index of the last entry that has a message to this topic."""
    found = None
    for segment in sorted((server.folder / "data" / "log").glob("*.seg")):
        lines = run(server, "inspect", "segment", str(segment), "--records", "--json").splitlines()
        for line in map(json.loads, lines):
            if line["is"] == "record" and line["kind"] == "entry" and line["bytes"] and line["partition"]:
                place = (line["partition"], line["index"])
                facts = run(server, "inspect", "entry", "data", str(place[0]), str(place[1]), "--json").splitlines()
                if any(fact["is"] == "publish" and fact["topic"] == topic for fact in map(json.loads, facts)):
                    found = place
    assert found, f"no entry has a message to {topic}"
    return found


def metric(server, name: str) -> float:
    _, text = get(server, "/metrics")
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))


def with_absent(folder):
    """A broker, its clients, and a publisher of what a session waits for that is away."""
    server = Courser(folder).start()
    raw = Raw(server, V5)
    absent, _ = raw.resume("absent")
    absent.subscribe("q/#", qos=1)
    absent.close()
    return server, raw, raw.connect("publisher")


def connected_elsewhere(raw: Raw) -> RawClient:
    """A client whose id is of a partition that serves: one in sixteen is of the one that is set aside, and hears 0x88."""
    for number in range(20):
        client = raw.open()
        client.send(wire.connect(V5, raw.client_id(f"publisher{number}")))
        found = client.receive()
        if found.reason == 0:
            return client
        assert found.kind == wire.CONNACK and found.reason == UNAVAILABLE, found
    raise AssertionError("nobody is let in")


def start_without_one(server) -> None:
    """Starts it with a partition set aside: it never says that it is ready, and serves the others once these have recovered."""
    server.start()
    until(lambda: get(server, "/readyz?partial")[0] == 200, "the others do not serve")


def set_aside(server, topic: str) -> tuple[int, int]:
    """Two panics at the entry with the last message to a topic, and a start without its partition."""
    partition, index = entry_with(server, topic)
    (server.folder / "data" / "crash").write_text(f"apply {partition} {index}\n" * 2)
    start_without_one(server)
    return partition, index


def test_m50_health_says_which_entry_and_the_operator_ends_it(tmp_path):
    """Two panics at one entry: 503 with the partition and the entry, which `inspect` shows; retried it is back; skipped it is counted."""
    server, raw, publisher = with_absent(tmp_path / "broker")
    publish(publisher, "q/1", b"sound", 1)
    publish(publisher, "q/bad", b"secret payload", 2)
    assert server.stop() == 0

    partition, index = entry_with(server, "q/bad")
    shown = run(server, "inspect", "entry", "data", str(partition), str(index))
    assert shown.startswith(f"entry {index} of partition {partition}, term ")
    assert 'publish to "q/bad", QoS 1, 14 bytes' in shown and "secret" not in shown
    run(server, "inspect", "entry", "data", str(partition), "999999", code=5)

    (server.folder / "data" / "crash").write_text(f"apply {partition} {index}\n" * 2)
    start_without_one(server)
    status, text = get(server, "/readyz")
    assert status == 503
    assert f"partition {partition}: the program has panicked twice when it applied entry {index}\n" in text
    assert get(server, "/readyz?partial")[0] == 200, "who wants the others may have them"
    assert get(server, "/healthz")[0] == 200
    assert metric(server, "courser_ready") == 0 and metric(server, "courser_partitions_set_aside") == 1
    damage = json.loads(run(server, "inspect", "damage", "--server", "data", "-o", "json", code=1))
    aside = damage["set_aside"][0]
    assert (aside["partition"], aside["applied"], aside["queued_messages"]) == (partition, index - 1, 1)
    assert aside["ends_by"] == f"skip {partition} {index}" and aside["refuses"] == "matching publishes"
    told = run(server, "inspect", "damage", "--server", "data", code=1)
    assert "partitions that are set aside:" in told and "panicked twice" in told
    assert server.stop() == 0

    run(server, "repair", "data", "--retry", str(partition))
    server.start()
    assert get(server, "/readyz")[0] == 200
    assert metric(server, "courser_log_entries_skipped_total") == 0
    absent, present = raw.resume("absent")
    assert present
    assert [absent.expect(wire.PUBLISH).payload for _ in range(2)] == [b"sound", b"secret payload"]
    absent.close()
    assert server.stop() == 0

    set_aside(server, "q/bad")
    assert server.stop() == 0
    run(server, "repair", "data", "--skip", str(partition))
    server.start()
    assert get(server, "/readyz") == (200, "ready\n")
    assert metric(server, "courser_log_entries_skipped_total") == 1
    assert "nothing that is needed is damaged" in run(server, "inspect", "damage", "--server", "data")
    absent, present = raw.resume("absent")
    assert present and absent.expect(wire.PUBLISH).payload == b"sound"
    absent.ping()
    assert server.stop() == 0


def test_m50_of_a_partition_that_panicked_the_filters_are_released_and_taken_back(tmp_path):
    """Publishes for its sessions are refused until the operator releases its filters; they are not kept for it then. Retried, it refuses nothing and
    has what it had; no figure says any more that something is set aside."""
    server, raw, publisher = with_absent(tmp_path / "broker")
    publish(publisher, "q/bad", b"one", 1)
    assert server.stop() == 0
    partition, index = entry_with(server, "q/bad")
    (server.folder / "data" / "crash").write_text(f"apply {partition} {index}\n" * 2)

    def reason(topic: str) -> int:
        publisher = connected_elsewhere(raw)
        publisher.send(wire.publish(V5, topic, b"two", qos=1, packet_id=2))
        found = publisher.expect(PUBACK, packet_id=2).reason
        publisher.close()
        return found

    def refuses() -> str:
        damage = json.loads(run(server, "inspect", "damage", "--server", "data", "-o", "json", code=1))
        return damage["set_aside"][0]["refuses"]

    start_without_one(server)
    assert refuses() == "matching publishes"
    assert reason("q/2") == REFUSED and reason("other") == NOBODY
    assert server.stop() == 0

    run(server, "repair", "data", "--release", str(partition))
    start_without_one(server)
    assert refuses() == "no publishes" and metric(server, "courser_partitions_set_aside") == 1
    assert get(server, "/readyz")[0] == 503, "it does not serve"
    assert reason("q/2") == NOBODY, "nobody has it, and nobody is told otherwise"
    assert server.stop() == 0

    run(server, "repair", "data", "--retry", str(partition))
    server.start()
    assert get(server, "/readyz") == (200, "ready\n")
    assert metric(server, "courser_partitions_set_aside") == 0 and metric(server, "courser_log_entries_skipped_total") == 0
    assert "nothing that is needed is damaged" in run(server, "inspect", "damage", "--server", "data")
    assert reason("q/2") == 0, "its session is there"
    absent, present = raw.resume("absent")
    assert present
    assert [absent.expect(wire.PUBLISH).payload for _ in range(2)] == [b"one", b"two"]
    assert server.stop() == 0


def test_m39_what_was_released_for_one_fault_is_refused_for_the_next_one(tmp_path):
    """Released, retried and served; then another entry sets the same partition aside, which nobody has released: its publishes are refused, and
    none is lost. Put back by hand, the order does nothing either, nor does one of an earlier build, which names no fault."""
    server, raw, publisher = with_absent(tmp_path / "broker")
    publish(publisher, "q/bad", b"one", 1)
    assert server.stop() == 0
    partition, first = set_aside(server, "q/bad")
    assert server.stop() == 0
    run(server, "repair", "data", "--release", str(partition))
    orders = server.folder / "data" / "repair"
    released = orders.read_bytes()
    assert f"release {partition} apply {first}\n" in released.decode()
    told = run(server, "repair", "data", code=1)
    assert f"obeyed by each start while partition {partition} is set aside for this: release {partition} apply {first}\n" in told
    start_without_one(server)
    assert server.stop() == 0

    run(server, "repair", "data", "--retry", str(partition))
    assert "release" not in orders.read_text(), "it ends with what it was for"
    server.start()
    publisher = connected_elsewhere(raw)
    publish(publisher, "q/worse", b"two", 1)
    publisher.close()
    assert server.stop() == 0

    after_retry = orders.read_bytes()
    nameless = b"courser repair 1\nrelease %d\n" % partition
    nameless += b"end %08x\n" % crc32c(nameless)
    for found in (after_retry, released, nameless):
        orders.write_bytes(found)
        assert set_aside(server, "q/worse") != (partition, first)
        damage = json.loads(run(server, "inspect", "damage", "--server", "data", "-o", "json", code=1))
        assert damage["set_aside"][0]["refuses"] == "matching publishes", found
        publisher = connected_elsewhere(raw)
        publisher.send(wire.publish(V5, "q/3", b"three", qos=1, packet_id=2))
        assert publisher.expect(PUBACK, packet_id=2).reason == REFUSED, found
        publisher.close()
        assert server.stop() == 0


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def test_m50_a_skipped_entry_is_not_retried_once_something_was_decided_without_it(tmp_path):
    """Skipped and served, and the session has got more: to apply the entry below that would give positions of its stream to others. Exit code 6, and
    nothing changes: the session has what came, without the entry."""
    server, raw, publisher = with_absent(tmp_path / "broker")
    publish(publisher, "q/bad", b"one", 1)
    assert server.stop() == 0
    partition, index = set_aside(server, "q/bad")
    assert server.stop() == 0
    skipped = run(server, "repair", "data", "--skip", str(partition))
    assert f"ordered for the next start: skip {partition} {index}\n" in skipped
    run(server, "repair", "data", "--retry", str(partition))
    assert f"skip {partition}" not in run(server, "repair", "data"), "no start has served without it"

    (server.folder / "data" / "crash").write_text(f"apply {partition} {index}\n" * 2)
    run(server, "repair", "data", "--skip", str(partition))
    server.start()
    publisher = connected_elsewhere(raw)
    publish(publisher, "q/2", b"two", 1)
    publisher.close()
    assert server.stop() == 0
    command = [str(server.binary()), "repair", "data", "--retry", str(partition)]
    refused = subprocess.run(command, cwd=server.folder, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 6, refused
    assert f"partition {partition} has served without entry {index}: " in refused.stderr
    told = run(server, "repair", "data")
    assert f"obeyed, and by each start from now on: skip {partition} {index}\n" in told and "next start" not in told
    lines = map(json.loads, run(server, "repair", "data", "--json").splitlines())
    assert {"is": "order", "order": f"skip {partition} {index}", "standing": "obeyed"} in lines

    server.start()
    absent, present = raw.resume("absent")
    assert present and absent.expect(wire.PUBLISH).payload == b"two"
    assert server.stop() == 0
