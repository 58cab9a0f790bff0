"""A byte that changes on the disk under a running broker: the scrub finds it and says whom it concerns; a checkpoint is written again."""

import json
import re
import signal
import subprocess

import pytest
from broker import until
from scenario import Raw
from wire import PUBLISH, V5

pytestmark = pytest.mark.courser

BLOCK = 4096
SIZE, MESSAGES = 64 << 10, 60


def rot(path, mark: bytes) -> None:
    """Changes one bit in the middle of the payload that begins with the mark."""
    with path.open("r+b") as file:
        at = file.read().find(mark, BLOCK) + SIZE // 2
        assert at > SIZE // 2, f"{mark} is not in {path}"
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x01]))


def inspect(server, *what: str) -> str:
    """What it says of damage, of which there is some."""
    command = [str(server.binary()), "inspect", *what]
    done = subprocess.run(command, cwd=server.folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done
    return done.stdout


def wait_for_a_pass(server) -> None:
    """Waits until all was read that is sealed now."""
    passes = server.metric("courser_scrub_passes_total")
    until(lambda: server.metric("courser_scrub_passes_total") >= passes + 2, "all is read")


def test_damage_under_a_running_broker(brokers):
    """It is logged, counted once, and told by `courser inspect` with the session that needs it, before and after the stop."""
    server = brokers.own(scrub_period="1s", sys_interval=0)
    raw = Raw(server, V5)
    absent, _ = raw.resume("absent")
    absent.subscribe("kept", qos=1)
    absent.close()
    publisher = raw.connect("pub")
    for number in range(MESSAGES):
        publisher.publish("kept", b"message-%04d" % number + b"x" * SIZE, qos=1)
    wait_for_a_pass(server)
    assert server.metric("courser_scrub_damages_total") == 0

    rot(server.folder / "data" / "log" / "0000000001.seg", b"message-0003")
    until(lambda: "event=stream_needs_damaged" in server.output(), "it is found")
    wait_for_a_pass(server)
    (damaged,) = re.findall("event=segment_damaged segment=([0-9]+) offset=([0-9]+) .* messages=1", server.output())
    (needs,) = re.findall("event=stream_needs_damaged .*", server.output())
    assert raw.client_id("absent") in needs
    assert server.metric("courser_scrub_damages_total") == 1, "once, however often it is read"
    assert server.metric("courser_scrub_damaged_places") == 1
    (place,) = json.loads(inspect(server, "damage", "--server", "data", "-o", "json"))["rotten"]
    assert (place["segment"], place["offset"], place["messages"]) == (*map(int, damaged), 1)
    assert raw.client_id("absent") in place["streams"][0]
    raw.release()
    assert server.stop() == 0

    after = inspect(server, "folder", "data")
    assert "DAMAGE in segment {} at byte {}".format(*damaged) in after
    assert raw.client_id("absent") in after


def flip(path) -> None:
    """Changes one bit in the middle of a file."""
    with path.open("r+b") as file:
        at = path.stat().st_size // 2
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x01]))


def test_m42_a_checkpoint_that_is_damaged_under_a_running_broker_is_told_and_written_again(brokers):
    """Also where nothing has come to its partition since, and where its manifest is. A start after kill -9 has everything."""
    server = brokers.own(scrub_period="1s", sys_interval=0)
    server.keep_port = True
    raw = Raw(server, V5)
    absent, _ = raw.resume("absent")
    absent.subscribe("kept", qos=1)
    absent.close()
    publisher = raw.connect("pub")
    for number in range(MESSAGES):
        publisher.publish("kept", b"message-%04d" % number + b"x" * SIZE, qos=1)
    raw.release()
    # Which saves the partition.
    assert server.stop() == 0
    server.start()
    folder = server.folder / "data" / "checkpoints"
    saved = max(folder.glob("*.ckp"), key=lambda path: path.stat().st_size)
    partition = saved.name.split("-")[0]
    for times, pattern in enumerate([f"{partition}-*.ckp", f"{partition}-*.ckp", f"{partition}.manifest"], 1):
        (damaged,) = folder.glob(pattern)
        flip(damaged)
        until(lambda times=times: server.output().count("event=checkpoint_renewed") == times, "it is written again")
        told = re.findall("event=file_damaged file=checkpoints/([^ ]+)", server.output())
        assert len(told) == times and told[-1] == damaged.name
        assert server.metric("courser_scrub_damages_total") == times
        assert server.metric("courser_scrub_damaged_places") == 0
    server.stop(signal.SIGKILL)

    server.start()
    assert "set_aside" not in server.output()
    client, present = raw.resume("absent")
    assert present and delivers(client, range(MESSAGES))
    raw.release()
    assert server.stop() == 0


def test_a_damaged_file_beside_the_log_is_told(brokers):
    """What identifies the folder: the server goes on, and `courser inspect damage` says what to do before the next start."""
    server = brokers.own(scrub_period="1s", sys_interval=0)
    flip(server.folder / "data" / "node")
    until(lambda: "event=file_damaged file=node" in server.output(), "it is found")
    assert server.metric("courser_scrub_damaged_places") == 1
    (file,) = json.loads(inspect(server, "damage", "--server", "data", "-o", "json"))["rotten_files"]
    assert file["file"] == "node" and "backup" in file["ends_by"]
    assert "node" in inspect(server, "damage", "--server", "data")


def delivers(client, numbers) -> bool:
    """Whether these messages come, each of which is acknowledged, and nothing behind them."""
    for number in numbers:
        packet = client.expect(PUBLISH)
        assert packet.payload.startswith(b"message-%04d" % number), packet
        client.answer(packet)
    with pytest.raises(TimeoutError):
        client.receive(timeout=1)
    return True


def test_m44_a_stream_stops_at_a_damaged_record_until_its_loss_is_accepted(brokers):
    """A message that is only in the log is damaged there: its session gets nothing from it on, which the log and a metric say, also after a start;
    others go on. Once the loss is accepted, the session goes on behind it."""
    server = brokers.own(scrub_period="0s", hot_bytes="16KiB", sys_interval=0)
    server.keep_port = True
    raw = Raw(server, V5)
    for name, topic in (("stops", "kept"), ("goes-on", "other")):
        client, _ = raw.resume(name)
        client.subscribe(topic, qos=1)
        client.close()
    publisher = raw.connect("pub")
    for number in range(MESSAGES):
        publisher.publish("kept", b"message-%04d" % number + b"x" * SIZE, qos=1)
        publisher.publish("other", b"message-%04d" % number, qos=1)
    until(lambda: server.metric("courser_cold_messages") > MESSAGES, "it leaves memory")
    assert server.metric("courser_streams_stopped_places") == 0

    rot(server.folder / "data" / "log" / "0000000001.seg", b"message-0003")
    client, present = raw.resume("stops")
    assert present and delivers(client, range(3))
    until(lambda: "event=stream_stopped" in server.output(), "it is told")
    (stopped,) = re.findall("event=stream_stopped .*", server.output())
    assert raw.client_id("stops") in stopped
    assert server.metric("courser_recalled_lost_total") == 1
    assert server.metric("courser_streams_stopped_places") == 1
    until(lambda: "event=segment_damaged" in server.output(), "its segment is looked at, although there is no scrub")
    client, present = raw.resume("goes-on")
    assert present and delivers(client, range(MESSAGES))
    (told,) = json.loads(inspect(server, "damage", "--server", "data", "-o", "json"))["stopped"]
    assert raw.client_id("stops") in told["stream"] and told["records"] == 1
    raw.release()
    assert server.stop() == 0

    server.start()
    assert server.metric("courser_streams_stopped_places") == 1
    client, present = raw.resume("stops")
    assert present and delivers(client, [])
    raw.release()
    assert server.stop() == 0
    command = [str(server.binary()), "repair", "data", "--accept-loss"]
    subprocess.run(command, cwd=server.folder, capture_output=True, timeout=60, check=True)
    server.start()
    assert server.metric("courser_streams_stopped_places") == 0
    assert server.metric('courser_messages_dropped_total{reason="damaged"}') == 1
    client, present = raw.resume("stops")
    assert present and delivers(client, range(4, MESSAGES))
    raw.release()
    assert server.stop() == 0
