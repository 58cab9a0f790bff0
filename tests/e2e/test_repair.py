"""`courser repair` on the folder of a broker that was served: in use, whole, damaged, and after the loss was accepted."""

import json
import subprocess

import pytest
import wire
from broker import Courser
from scenario import Raw
from wire import PUBACK, PUBLISH, V5

pytestmark = pytest.mark.courser

BLOCK = 4096
DONE, REFUSED, USAGE, NOT_FOUND, CONFLICT = 0, 1, 2, 5, 6
MESSAGES = 20


def repair(found: Courser, *orders: str) -> subprocess.CompletedProcess:
    command = [str(found.binary()), "repair", str(found.folder / "data"), *orders]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def ask(found: Courser, *arguments: str) -> subprocess.CompletedProcess:
    command = [str(found.binary()), *arguments, "--server", str(found.folder / "data")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def damage(found: Courser, payload: bytes) -> None:
    """Changes a byte of the entry that holds this payload."""
    for path in sorted((found.folder / "data" / "log").glob("*.seg")):
        log = bytearray(path.read_bytes())
        at = log.find(payload, BLOCK)
        if at >= 0:
            log[at] ^= 0x20
            path.write_bytes(log)
            return
    raise AssertionError(f"{payload} is not in the log")


def absent_with_messages(found: Courser) -> None:
    raw = Raw(found, V5)
    # The same name in every process of the test.
    client = raw.open()
    client.connect("absent", clean=True, properties={"session_expiry": 3600})
    client.subscribe("kept", qos=1)
    client.close()
    publisher = raw.connect("pub")
    for number in range(1, MESSAGES + 1):
        publisher.send(wire.publish(V5, "kept", b"message-%04d" % number, qos=1, packet_id=number))
        assert publisher.expect(PUBACK, packet_id=number).reason == 0
    raw.release()


def test_a_folder_is_examined_and_repaired_only_when_nobody_serves_it(tmp_path):
    """In use: exit code 6 and nothing is done. Served in order: nothing is damaged, and there is nothing to accept."""
    found = Courser(tmp_path / "broker", {}).start()
    absent_with_messages(found)
    for orders in ([], ["--accept-loss"]):
        refused = repair(found, *orders)
        assert refused.returncode == CONFLICT, refused.stderr
    assert found.stop() == 0
    whole = repair(found)
    assert whole.returncode == DONE, whole.stderr
    assert "nothing that is needed is damaged" in whole.stdout
    skipped = repair(found, "--skip", "1")
    assert skipped.returncode == USAGE, "no entry of partition 1 has made the program panic"
    assert "partition 1" in skipped.stderr


def test_what_cannot_be_repaired_is_refused(tmp_path):
    """No data folder: exit code 2, whatever is ordered. One order at a time, and of a partition's loss only with the word for it."""
    found = Courser(tmp_path / "broker", {})
    (found.folder / "data").mkdir(parents=True)
    for orders in ([], ["--accept-loss"], ["--accept-loss", "--partition", "3"], ["--json"]):
        refused = repair(found, *orders)
        assert refused.returncode == USAGE
        assert "is no data folder: there is no file `node` in it" in refused.stderr
    assert not list((found.folder / "data").iterdir()), "nothing is made"
    for orders in (["--retry", "1", "--skip", "2"], ["--partition", "3"], ["--skip", "x"]):
        refused = repair(found, *orders)
        assert refused.returncode == USAGE and "error:" in refused.stderr, orders


def test_damage_is_said_and_accepted_on_the_command_line(tmp_path):
    """A byte of a stored message changes on the disk: exit code 1 and the sessions concerned; with --accept-loss the next start serves."""
    # No checkpoint at the stop: what is needed is in the log.
    found = Courser(tmp_path / "broker", {}).start()
    absent_with_messages(found)
    found.stop(9)
    damage(found, b"message-0003")
    told = repair(found)
    assert told.returncode == REFUSED, told.stdout + told.stderr
    assert "--accept-loss" in told.stdout
    lines = [json.loads(line) for line in repair(found, "--json").stdout.splitlines()]
    assert lines[0]["is"] == "log" and any(line["is"] in ("set_aside", "stopped") for line in lines[1:])
    accepted = repair(found, "--accept-loss")
    assert accepted.returncode == DONE, accepted.stderr
    assert "ordered for the next start" in accepted.stdout
    found.start()
    raw = Raw(found, V5)
    client = raw.open()
    assert client.connect("absent", clean=False, properties={"session_expiry": 3600}).session_present
    delivered = client.expect(PUBLISH)
    client.answer(delivered)
    assert delivered.payload == b"message-0001"
    raw.release()
    assert found.stop() == 0


def test_a_retained_message_that_is_lost_is_told_as_lost(tmp_path):
    """A byte of a retained message changes below the checkpoint: nobody gets it, `retained show` and `list` name it and end with 1, until it is accepted."""
    found = Courser(tmp_path / "broker", {"checkpoint_bytes": "1MiB"}).start()
    raw = Raw(found, V5)
    publisher = raw.connect("pub")
    for number, payload in enumerate([b"whole-0001", b"broken-0002"], 1):
        publisher.send(wire.publish(V5, f"r/{number}", payload, qos=1, packet_id=number, retain=True))
        assert publisher.expect(PUBACK, packet_id=number).reason == 0
    # Enough for checkpoints of all partitions, and for entries behind these.
    for number in range(100, 300):
        publisher.send(wire.publish(V5, f"o/{number}", bytes(20_000), qos=1, packet_id=number, retain=True))
        assert publisher.expect(PUBACK, packet_id=number).reason == 0
    raw.release()
    assert found.stop() == 0
    damage(found, b"broken-0002")
    found.start()
    shown = ask(found, "retained", "show", "r/2")
    assert shown.returncode == REFUSED and "error 1301" in shown.stderr, shown
    listed = ask(found, "retained", "list", "r/#", "-o", "json")
    assert listed.returncode == REFUSED and "DAMAGED: the retained message of r/2 is lost" in listed.stderr, listed
    rows = {row["topic"]: row.get("damaged", False) for row in json.loads(listed.stdout)["items"]}
    assert rows == {"r/1": False, "r/2": True}
    raw = Raw(found, V5)
    reader = raw.connect("reader")
    reader.subscribe("r/#", qos=1)
    delivered = reader.expect(PUBLISH)
    reader.answer(delivered)
    assert delivered.payload == b"whole-0001"
    # Nothing else came before the answer.
    reader.ping()
    raw.release()
    assert found.stop() == 0
    accepted = repair(found, "--accept-loss")
    assert accepted.returncode == DONE, accepted.stderr
    found.start()
    assert ask(found, "retained", "show", "r/2").returncode == NOT_FOUND
    listed = ask(found, "retained", "list", "r/#")
    assert listed.returncode == DONE and "r/2" not in listed.stdout, listed
    assert found.stop() == 0
