"""Backups by the commands, of a server that goes on: made, added to, checked, restored, refused."""

import json
import subprocess

import pytest
import wire
from broker import Courser
from raw import RawClient
from scenario import Raw
from wire import PUBACK, V5

pytestmark = pytest.mark.courser


def run(server, *arguments, code=0):
    command = [str(server.binary()), *arguments]
    done = subprocess.run(command, cwd=server.folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def publish(client: RawClient, payload: bytes, packet_id: int) -> None:
    client.send(wire.publish(V5, "b/x", payload, qos=1, packet_id=packet_id))
    assert client.expect(PUBACK, packet_id=packet_id).reason == 0


def test_a_backup_is_made_checked_and_restored(tmp_path):
    """What was acknowledged before a backup is in it; a second one adds what is new; another data folder begins with it."""
    (tmp_path / "broker/backups").mkdir(parents=True)
    server = Courser(tmp_path / "broker", {"backup_folders": '"backups"'}).start()
    raw = Raw(server, V5)
    absent, _ = raw.resume("absent")
    absent.subscribe("b/#", qos=1)
    absent.close()
    publisher = raw.connect("publisher")
    publish(publisher, b"one", 1)
    said = run(server, "backup", "create", "backups", "--server", "data")
    assert said.startswith("backup 1 in ") and " bytes copied, 0 bytes " in said, said
    publish(publisher, b"two", 2)
    made = json.loads(run(server, "backup", "create", "backups", "--rate", "1GiB", "--server", "data", "-o", "json"))
    assert (made["state"], made["number"], made["error"]) == ("done", 2, None)
    publish(publisher, b"three", 3)
    assert json.loads(run(server, "backup", "status", "--server", "data", "-o", "json")) == made
    run(server, "backup", "stop", "--server", "data", code=5)
    # Over HTTP nobody makes the server write somewhere, whatever the token.
    token = str(server.folder / "data" / "admin.token")
    run(server, "backup", "create", "backups", "--server", server.http, "--token-file", token, code=4)
    assert "backup.folders" in run(server, "backup", "create", "elsewhere", "--server", "data", code=2)
    assert "outside of the data folder" in run(server, "backup", "create", "data/backups", "--server", "data", code=2)
    server.stop()

    assert run(server, "backup", "verify", "backups").rstrip().endswith("partitions: whole")
    run(server, "backup", "verify", "backups", "--backup", "9", code=5)
    run(server, "restore", "backups", "--backup", "1", "--data", "first")
    assert "is not empty" in run(server, "restore", "backups", "--data", "data", code=1)
    run(server, "restore", "backups", "--data", "again/data")
    restored = Courser(tmp_path / "broker" / "again").start()
    again = Raw(restored, V5)
    again.mark = raw.mark
    absent, present = again.resume("absent")
    assert present
    assert [absent.expect(wire.PUBLISH).payload for _ in range(2)] == [b"one", b"two"]
    restored.stop()

    # The first one goes; the second has what it needs of it.
    said = run(server, "backup", "prune", "backups", "--keep", "1", "--dry-run")
    assert said.startswith("1 backups, ") and "would be removed" in said, said
    pruned = json.loads(run(server, "backup", "prune", "backups", "--keep", "1", "--yes", "-o", "json"))
    assert (pruned["kept"], pruned["removed"], pruned["dry_run"]) == ([2], [1], False)
    run(server, "backup", "verify", "backups", "--backup", "1", code=5)
    assert run(server, "backup", "verify", "backups").rstrip().endswith("partitions: whole")
    run(server, "backup", "prune", "elsewhere", "--keep", "1", "--yes", code=5)

    # Damage is found by the name of its file.
    segment = sorted((server.folder / "backups").glob("0*/log/*.seg"))[-1]
    bytes_ = bytearray(segment.read_bytes())
    bytes_[5000] ^= 1
    segment.write_bytes(bytes_)
    for command in (["backup", "verify", "backups"], ["restore", "backups", "--data", "never"]):
        said = run(server, *command, code=1)
        assert f"{segment.relative_to(server.folder)} is damaged" in said, said
    assert not (server.folder / "never").exists()
    (server.folder / "backups" / "000002" / "manifest").unlink()
    said = run(server, "restore", "backups", "--data", "never", code=1)
    assert "backup 2 in backups was not finished" in said, said


def test_a_restore_tells_the_damage_that_its_backup_has_copied(tmp_path):
    """It is restored, with exit code 1 and the name of the last backup from before the damage; `prune` calls only that one whole."""
    (tmp_path / "broker/backups").mkdir(parents=True)
    server = Courser(tmp_path / "broker", {"backup_folders": '"backups"'}).start()
    run(server, "backup", "create", "backups", "--server", "data")
    node = server.folder / "data" / "node"
    was = node.read_bytes()
    node.write_bytes(bytes([was[0] ^ 1]) + was[1:])
    damage = "node: it is not what was written"
    assert damage in run(server, "backup", "create", "backups", "--server", "data", code=1)
    node.write_bytes(was)
    server.stop()
    for command, done in ((["backup", "verify"], ""), (["restore", "--data", "copy"], "restored into copy, ")):
        said = run(server, *command, "backups", code=1)
        assert damage in said and "--backup 1\n" in said and f"partitions: {done}damaged, 1 problem\n" in said, said
    assert (server.folder / "copy" / "node").read_bytes() != was
    run(server, "restore", "backups", "--backup", "1", "--data", "good")
    assert (server.folder / "good" / "node").read_bytes() == was
    said = run(server, "backup", "prune", "backups", "--keep", "1", "--yes")
    assert said.endswith("left, and whole: 1; left, and DAMAGED: 2\n"), said
