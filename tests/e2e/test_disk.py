"""What the broker does when its disk fails, is slow or is full: real system calls that fail, a real small file system."""

import concurrent.futures
import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
import wire
from broker import Courser
from raw import RawClient
from scenario import Raw
from small_disk import BYTES, NoSmallDisk, SmallDisk
from wire import CONNACK, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, V3, V5

pytestmark = pytest.mark.courser

WRITES = "pwrite64,pwritev,pwritev2"
SENDS = "sendto,sendmsg,writev,write"
# First byte of a PUBACK, as strace writes it.
PUBACK_SENT = '"@'
DISK_FAILED = 74

# After what time a full disk that has room again takes publishes; that of crash_full.py.
AGAIN_SECONDS = 5
# Of a subscription that takes room each time that it is made.
LONG_FILTER = "x" * 4000
# How long a publisher of 3.1.1 that was refused is connected.
REFUSED_SECONDS = 30
# What is written and saved meanwhile before a disk that takes nothing counts as one that stays full: some segments of which nothing is needed afterwards.
STAYS_FULL = {"courser_log_written_bytes_total": 3 << 20, "courser_checkpoints_total": 3}
# How often a disk is filled and drained; more by hand.
FILL_CYCLES = int(os.environ.get("E2E_FILL_CYCLES", "5"))


def strace(tmp_path, *arguments: str) -> list[str]:
    """A command that runs another one with system calls that fail or wait."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    # -D: the broker itself is the child that is waited for.
    return ["strace", "-D", "-f", "-qq", "-o", str(tmp_path / "strace"), *arguments]


_made: list[Courser] = []


def broker(folder, wrapper=(), **settings) -> Courser:
    found = Courser(folder, settings)
    found.wrapper = list(wrapper)
    _made.append(found)
    return found


def end_brokers() -> None:
    """Those of a test that failed before it stopped them."""
    while _made:
        _made.pop().stop(signal.SIGKILL)


@pytest.fixture(autouse=True)
def no_broker_is_left():
    yield
    end_brokers()


def publish(client: RawClient, topic: str, payload: bytes, packet_id: int) -> int:
    """Reason code of its PUBACK."""
    client.send(wire.publish(V5, topic, payload, qos=1, packet_id=packet_id))
    return client.expect(PUBACK, packet_id=packet_id).reason


def packets_sent_after_a_failure(trace: str, packet_type: str) -> list[str]:
    """Calls that sent a packet with this first byte, as strace writes it, after the first call that was made to fail."""
    lines = iter(trace.splitlines())
    assert any("(INJECTED)" in line for line in lines), "nothing failed"
    return [line for line in lines if packet_type in line]


def unsynced_acknowledgements(trace: str) -> list[str]:
    """Calls that sent a PUBACK although the writer had finished no sync since the one before: with one message under way each has a sync of its own."""
    found, is_synced = [], False
    for line in trace.splitlines():
        if PUBACK_SENT in line:
            found += [] if is_synced else [line]
            is_synced = False
        elif "<log-writer>" in line and "fdatasync" in line and line.endswith("= 0"):
            is_synced = True
    return found


def numbered(number: int) -> bytes:
    """A payload of 6,000 bytes: segments of 1 MiB are full soon."""
    return b"%06d" % number * 1000


# Each sync of a start over a folder that is there, before it has read the log.
@pytest.mark.parametrize("number", [1, 2])
def test_d5_a_start_of_which_a_sync_of_the_folder_fails_ends_with_74(tmp_path, number):
    """A sync that fails is final, also that of `node` and of the data folder: a supervisor must not try again."""
    found = broker(tmp_path / "broker").start()
    found.stop()
    found.wrapper = strace(tmp_path, "-e", "trace=fsync", "-e", f"inject=fsync:error=EIO:when={number}")
    found.spawn()
    assert found.process.wait(20) == DISK_FAILED
    assert "a sync of the data folder failed" in found.output()
    found.wrapper = []
    found.start()


# By the call that fails, and how often a thread has made it before: recovery and elections are over by then.
@pytest.mark.parametrize(("call", "before"), [("fdatasync", 59), (WRITES, 59), ("fsync", 11)])
def test_d5_d6_a_failed_write_or_sync_ends_the_process(tmp_path, call, before):
    """Nothing is acknowledged after a failed write or sync; exit code 74; what was acknowledged is there afterwards."""
    wrapper = strace(
        tmp_path, "-Y", "-e", f"trace={call},fdatasync,{SENDS}", "-e", f"inject={call}:error=EIO:when={before + 1}+", "-s", "4"
    )
    # `fsync` is of folders, each time that another segment is made: they are small here.
    found = broker(tmp_path / "broker", wrapper).start()
    raw = Raw(found, V5)
    absent, _ = raw.resume("absent")
    absent.subscribe(raw.topic(), qos=1)
    absent.close()
    publisher = raw.connect("pub")
    acknowledged = 0
    try:
        for number in range(2000):
            if publish(publisher, raw.topic(), numbered(number), number + 1) == 0:
                acknowledged += 1
    except (AssertionError, OSError):
        pass
    assert found.process.wait(20) == DISK_FAILED
    assert "nothing that was acknowledged is lost" in found.output()
    assert 0 < acknowledged < 2000
    trace = (tmp_path / "strace").read_text()
    sent = packets_sent_after_a_failure(trace, PUBACK_SENT)
    # Who makes segments is another thread: what the writer syncs before it hears of the failure is synced, and acknowledged.
    assert sent == [] or call == "fsync"
    assert unsynced_acknowledgements(trace) == []
    assert trace.count(PUBACK_SENT) >= acknowledged, "the trace shows what is sent"
    found.wrapper = []
    found.start()
    absent, present = raw.resume("absent")
    assert present
    for number in range(acknowledged):
        absent.answer(absent.expect(PUBLISH, payload=numbered(number)))
    raw.release()
    assert found.stop() == 0


@pytest.mark.parametrize("version", [V3, V5])
def test_m39_a_session_that_is_not_recovered_is_unavailable(tmp_path, version):
    """CONNECT in the middle of a long start: CONNACK 0x88 (3.1.1: 3), and the session afterwards.

    v5 [MQTT-3.2.2-8]
    """
    wrapper = strace(tmp_path, "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=4000000:when=1")
    found = broker(tmp_path / "broker", wrapper)
    found.is_ready = lambda: " on 127.0.0.1:" in found.output()
    found.start()
    raw = Raw(found, version)
    client = raw.open()
    client.send(wire.connect(version, raw.client_id()))
    assert client.expect(CONNACK).reason == (0x88 if version == V5 else 3)
    # Who asks meanwhile is told why, who looks at it once a second how far it is.
    assert readiness(found) == (503, "recovering: the log is being read\n")
    deadline = time.monotonic() + 20
    while "\nready\n" not in found.output():
        assert time.monotonic() < deadline, found.tail()
        time.sleep(0.02)
    assert readiness(found) == (200, "ready\n")
    told = re.findall(r"^reading the log(?:, \d+ of \d+ segments)?, (\d+) s$", found.output(), re.MULTILINE)
    seconds = [int(text) for text in told]
    assert len(seconds) >= 2 and seconds == sorted(seconds), found.tail()
    assert seconds[-1] >= 2, "the seconds of this start"
    raw.connect("c").ping()
    raw.release()
    assert found.stop() == 0


def readiness(found: Courser) -> tuple[int, str]:
    """What `/readyz` says."""
    try:
        with urllib.request.urlopen(f"{found.http}/readyz", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


@pytest.fixture
def small_disk(tmp_path, request):
    """Where a file system of 20 MiB is, or of as many bytes as the test asks for."""
    try:
        disk = SmallDisk(tmp_path, getattr(request, "param", BYTES))
    except NoSmallDisk as error:
        pytest.skip(str(error))
    yield disk.mount
    # A file system in use stays where it is.
    end_brokers()
    disk.leave()


def fill(publisher: RawClient, topic: str, payload: bytes) -> int:
    """Publishes until the disk is full; gives how many were taken."""
    accepted = 0
    while (reason := publish(publisher, topic, b"%06d" % accepted + payload, accepted % 60000 + 1)) == 0:
        accepted += 1
        assert accepted < 20_000, "the disk is full by now"
    assert reason == 0x97
    return accepted


def fill_up(raw: Raw, publisher: RawClient, payload: bytes) -> int:
    """The same until it stays full, whatever else is written: checkpoints and the cleaner give room back for as long as there is some that nobody needs.

    How long that takes depends on how much the machine has to do. With two segments above the reserve everything is taken again, also by right.
    """
    passing, _ = raw.resume("passing")
    assert passing.subscribe(LONG_FILTER, qos=1).reasons == [1]

    def so_far() -> list[float]:
        return [raw.broker.metric(name) for name in STAYS_FULL]

    accepted, taken_at = fill(publisher, raw.topic(), payload), so_far()
    while any(now - then < least for now, then, least in zip(so_far(), taken_at, STAYS_FULL.values(), strict=True)):
        for _ in range(20):
            assert passing.subscribe(LONG_FILTER, qos=1).reasons == [1]
            if publish(publisher, raw.topic(), b"%06d" % accepted + payload, accepted % 60000 + 1) == 0:
                accepted, taken_at = accepted + 1, so_far()
    passing.close()
    return accepted


def drain(consumer: RawClient, count: int) -> None:
    """Takes what was stored, all of it and in order."""
    for number in range(count):
        packet = consumer.expect(PUBLISH)
        assert packet.payload.startswith(b"%06d" % number)
        consumer.answer(packet)
    consumer.ping()


def seconds_until_accepted(publisher: RawClient, topic: str) -> float:
    """How long publishes are still refused when nothing waits any more: not for long, since partitions are saved each second on a full disk."""
    begun = time.monotonic()
    packet_id = 60_001
    while publish(publisher, topic, b"again", packet_id) != 0:
        assert time.monotonic() - begun < AGAIN_SECONDS, "no room came back"
        packet_id += 1
        time.sleep(0.05)
    return time.monotonic() - begun


def test_d8_a_full_disk_refuses_and_recovers(small_disk):
    """A disk that fills up: publishes are refused with 0x97, the rest goes on, and room comes back when sessions are drained.

    The rest, that is deliveries of what is not kept, subscriptions and sessions that are not, sessions that are there, and the end of a QoS 2
    exchange that had begun. New sessions and subscriptions that are kept are refused as well.

    v5 [MQTT-3.4.2-1]
    """
    found = broker(small_disk / "broker", checkpoint_bytes="1MiB").start()
    raw = Raw(found, V5)
    absent, _ = raw.resume("absent")
    absent.subscribe(raw.topic(), qos=1)
    absent.close()
    live = raw.subscriber(raw.topic("live"), name="live")
    publisher = raw.connect("pub")
    under_way, _ = raw.resume("under way")
    under_way.send(wire.publish(V5, raw.topic(), b"exactly once", qos=2, packet_id=1))
    assert under_way.expect(PUBREC, packet_id=1).reason == 0
    old = RawClient(found.address, V3)
    old.connect(raw.client_id("old"), clean=False)
    accepted = fill_up(raw, publisher, b"x" * 16_000)
    assert accepted > 500
    # What is not kept goes on.
    publisher.send(wire.publish(V5, raw.topic("live"), b"still here"))
    live.expect(PUBLISH, payload=b"still here")
    # So do subscriptions and sessions that are not kept either, and what the reserve pays for: the end of an exchange.
    assert live.subscribe(raw.topic("later"), qos=1).reasons == [1]
    new = raw.subscriber(raw.topic("later"), name="new", qos=1)
    under_way.send(wire.ack(PUBREL, 1))
    assert under_way.expect(PUBCOMP, packet_id=1).reason == 0
    publisher.send(wire.publish(V5, raw.topic("later"), b"subscribed"))
    for subscriber in (live, new):
        subscriber.expect(PUBLISH, payload=b"subscribed")
    # Nothing new is kept.
    for version, connect, subscribe in ((V5, 0x97, 0x97), (V3, 3, 0x80)):
        refused = RawClient(found.address, version)
        properties = {"session_expiry": 3600} if version == V5 else ()
        refused.send(wire.connect(version, raw.client_id("later"), clean=False, properties=properties))
        assert refused.expect_refused(connect) == connect
        kept = under_way if version == V5 else old
        assert kept.subscribe(raw.topic("later"), qos=1).reasons == [subscribe]
    assert publish(publisher, raw.topic(), b"x" * 4000, 60_000) == 0x97, "it was full all the time"
    # So do sessions and acknowledgements; killing it changes nothing.
    found.stop(signal.SIGKILL)
    found.start()
    absent, present = raw.resume("absent")
    assert present
    absent.answer(absent.expect(PUBLISH, payload=b"exactly once"))
    drain(absent, accepted)
    # What was acknowledged on the full disk is there: the hold is gone.
    under_way, present = raw.resume("under way")
    assert present
    under_way.send(wire.ack(PUBREL, 1))
    assert under_way.expect(PUBCOMP, packet_id=1).reason == 0x92
    publisher = raw.connect("pub")
    seconds_until_accepted(publisher, raw.topic())
    absent.answer(absent.expect(PUBLISH, payload=b"again"))
    new, present = raw.resume("later")
    assert not present
    assert new.subscribe(raw.topic("later"), qos=1).reasons == [1]
    assert publish(publisher, raw.topic("later"), b"kept", 1) == 0
    new.answer(new.expect(PUBLISH, payload=b"kept"))
    raw.release()
    assert found.stop() == 0


def test_m47_nobody_uses_the_reserve_of_a_full_disk_up(small_disk):
    """Clients that come, again and again, with large wills and long filters: who has messages gets them, also after a kill.

    Each round wants to write more than the reserve.
    """
    found = broker(small_disk / "broker", checkpoint_bytes="1MiB").start()
    raw = Raw(found, V5)
    absent, _ = raw.resume("absent")
    absent.subscribe(raw.topic(), qos=1)
    absent.close()
    heir, _ = raw.resume("heir")
    heir.subscribe(raw.topic("will"), qos=1)
    heir.close()
    known, _ = raw.resume("known")
    assert known.subscribe(LONG_FILTER, qos=1).reasons == [1]
    known.close()
    accepted = fill_up(raw, raw.connect("pub"), b"x" * 16_000)
    will = wire.Will(raw.topic("will"), b"x" * 12_000, qos=1)

    def comes(name: str, **options) -> int:
        client = raw.open()
        client.send(wire.connect(V5, raw.client_id(name), properties={"session_expiry": 3600}, **options))
        reason = client.expect(CONNACK).reason
        client.close()
        return reason

    for number in range(500):
        assert comes(f"new {number}", clean=False, will=will) == 0x97
        assert comes(f"new {number}", clean=False) == 0x97
        assert comes("known", clean=False, will=will) == 0x97
        assert comes("known", clean=False) == 0
    # Small wills are taken, as many as are nothing beside the reserve; then not even these.
    small = wire.Will(raw.topic("will"), b"x" * 100, qos=1)
    came = 0
    while comes("known", clean=False, will=small) == 0:
        came += 1
    assert 10 < came < 40
    known, _ = raw.resume("known")
    for number in range(500):
        assert known.subscribe(f"{number}{LONG_FILTER}", qos=1).reasons == [0x97]
        assert known.subscribe(LONG_FILTER, qos=1).reasons == [1]
    assert readiness(found) == (200, "ready\n")
    found.stop(signal.SIGKILL)
    found.start()
    absent, present = raw.resume("absent")
    assert present
    drain(absent, accepted)
    heir, present = raw.resume("heir")
    assert present
    for _ in range(came):
        heir.answer(heir.expect(PUBLISH, payload=small.payload))
    heir.ping()
    seconds_until_accepted(raw.connect("pub"), raw.topic())
    raw.release()
    assert found.stop() == 0


def burst(publishers: list[RawClient], topics: list[str], size: int) -> list[int]:
    """Each publisher sends one message, numbered by its place, all at once; gives the reason codes of their PUBACKs."""
    gate = threading.Barrier(len(publishers))

    def send(place: int) -> int:
        payload = b"%06d" % place + bytes(size)
        gate.wait()
        return publish(publishers[place], topics[place % len(topics)], payload, 1)

    with concurrent.futures.ThreadPoolExecutor(len(publishers)) as senders:
        return list(senders.map(send, range(len(publishers))))


@pytest.mark.parametrize("small_disk", [100 << 20], indirect=True, ids=["100MiB"])
def test_m4_m47_a_burst_is_taken_as_far_as_there_is_room_for_it(small_disk):
    """90 clients send 1,000 KiB each at the same moment to a disk that has 66 MiB: what was let in before anybody knew that the disk is short
    has room above the reserve. So all are answered, a start killed again and again comes up, and once all is drained publishes are taken again.
    """
    found = broker(small_disk / "broker", segment_bytes="4MiB").start()
    raw = Raw(found, V5)
    names = [f"absent {number}" for number in range(24)]
    topics = [raw.topic(str(number)) for number in range(len(names))]
    for name, topic in zip(names, topics, strict=True):
        absent, _ = raw.resume(name)
        absent.subscribe(topic, qos=1)
        absent.close()
    publishers = [raw.connect(f"pub {number}") for number in range(90)]
    reasons = burst(publishers, topics, 1000 << 10)
    assert set(reasons) == {0, 0x97}
    assert readiness(found) == (200, "ready\n")
    # The reserve pays for what is there: sessions come back, also behind each kill.
    for _ in range(8):
        found.stop(signal.SIGKILL)
        found.start()
    for at, name in enumerate(names):
        absent, present = raw.resume(name)
        assert present
        missing = {place for place, reason in enumerate(reasons) if place % len(names) == at and reason == 0}
        while missing:
            packet = absent.expect(PUBLISH)
            missing.remove(int(packet.payload[:6]))
            absent.answer(packet)
        absent.ping()
    seconds_until_accepted(raw.connect("pub"), topics[0])
    raw.release()
    assert found.stop() == 0


def test_m49_a_full_disk_closes_a_publisher_of_3_1_1_after_30_s(small_disk):
    """MQTT 3.1.1 has no PUBACK that refuses: nothing that a connection publishes is stored or acknowledged from the first refusal on, also once there
    is room again; what it takes goes on, and it is closed after 30 s. Sent again on the next connection the message is taken.

    v3 [MQTT-4.3.2-2]
    """
    found = broker(small_disk / "broker", checkpoint_bytes="1MiB").start()
    raw = Raw(found, V5)
    absent, _ = raw.resume("absent")
    absent.subscribe(raw.topic(), qos=1)
    absent.close()
    filler = raw.connect("filler")
    old = RawClient(found.address, V3)
    old.connect(raw.client_id("old"), clean=False)
    old.subscribe(raw.topic("own"), qos=0)
    accepted = fill(filler, raw.topic(), b"x" * 4000)
    begun = time.monotonic()
    old.send(wire.publish(V3, raw.topic(), b"refused", qos=1, packet_id=1))
    old.ping()
    # Its deliveries go on.
    filler.send(wire.publish(V5, raw.topic("own"), b"still here"))
    old.expect(PUBLISH, payload=b"still here")
    absent, present = raw.resume("absent")
    assert present
    drain(absent, accepted)
    seconds_until_accepted(filler, raw.topic())
    absent.answer(absent.expect(PUBLISH, payload=b"again"))
    # With room again, what comes behind a message that was refused must not pass it.
    old.send(wire.publish(V3, raw.topic(), b"behind it", qos=1, packet_id=2))
    old.ping()
    assert time.monotonic() - begun < REFUSED_SECONDS - 5, "the rest comes before the connection is closed"
    old.expect_closed(timeout=REFUSED_SECONDS + 10)
    assert REFUSED_SECONDS - 1 < time.monotonic() - begun < REFUSED_SECONDS + 5
    absent.ping()
    old = RawClient(found.address, V3)
    assert old.connect(raw.client_id("old"), clean=False).session_present
    old.send(wire.publish(V3, raw.topic(), b"refused", qos=1, packet_id=1, dup=True))
    old.expect(PUBACK, packet_id=1)
    absent.answer(absent.expect(PUBLISH, payload=b"refused"))
    old.close()
    raw.release()
    assert found.stop() == 0


def free(folder) -> int:
    """Bytes that files may have."""
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize


def until_free(folder, least: int, pass_on) -> None:
    """What was drained is given back as the log goes on."""
    deadline = time.monotonic() + 20
    while free(folder) < least:
        assert time.monotonic() < deadline, f"{free(folder)} bytes are free"
        pass_on()


def take_files(folder, left: int) -> None:
    """Makes empty files until the file system can have no more than `left` others."""
    folder.mkdir()
    for number in range(100_000):
        if os.statvfs(folder).f_favail <= left:
            return
        (folder / str(number)).touch()
    pytest.skip("this file system has no number of files")


def test_m47_a_disk_whose_files_are_used_up_refuses_and_recovers(small_disk):
    """No file can be made although megabytes are free: publishes are refused with 0x97 and nobody has to wait; with files to be had it goes on.

    v5 [MQTT-3.4.2-1]
    """
    found = broker(small_disk / "broker", checkpoint_bytes="1MiB").start()
    raw = Raw(found, V5)
    absent, _ = raw.resume("absent")
    absent.subscribe(raw.topic(), qos=1)
    publisher = raw.connect("pub")
    # First it is full of bytes, so that every partition is saved and has its files. Then what is left is enough for some segments and for
    # checkpoints, then there is nothing.

    def pass_one_on():
        if publish(publisher, raw.topic(), b"x" * 8000, 1) == 0:
            absent.answer(absent.expect(PUBLISH))

    for left in (None, 130, 0):
        fillers = small_disk / f"fillers-{left}"
        if left is not None:
            until_free(small_disk, 6 << 20, pass_one_on)
        absent.close()
        if left is not None:
            take_files(fillers, left)
        accepted = fill(publisher, raw.topic(), b"x" * 8000)
        assert left is None or free(small_disk) > 4 << 20, "it is not full of bytes"
        with urllib.request.urlopen(f"{found.http}/readyz", timeout=20) as answer:
            assert answer.status == 200, "it refuses, and serves"
        absent, present = raw.resume("absent")
        assert present
        drain(absent, accepted)
        if left == 0:
            shutil.rmtree(fillers)
        seconds_until_accepted(publisher, raw.topic())
        absent.answer(absent.expect(PUBLISH, payload=b"again"))
        shutil.rmtree(fillers, ignore_errors=True)
    raw.release()
    assert found.stop() == 0


def test_an_init_without_room_can_be_tried_again(small_disk):
    """What `init` could not write whole is not there, so that the next try makes it."""
    data, filler = small_disk / "data", small_disk / "filler"
    data.mkdir()
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(4096))
    command = [str(Courser.binary()), "init", "--data", str(data)]
    refused = subprocess.run(command, cwd=small_disk.parent, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode != 0 and "No space left" in refused.stderr
    assert list(data.iterdir()) == []
    filler.unlink()
    made = subprocess.run(command, cwd=small_disk.parent, capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    assert (data / "bootstrap").stat().st_size > 0


@pytest.mark.timeout(60 + 10 * FILL_CYCLES)
def test_d8_a_disk_that_is_filled_and_drained_again_and_again(small_disk):
    """M47: the same process through many full disks."""
    found = broker(small_disk / "broker", checkpoint_bytes="1MiB").start()
    raw = Raw(found, V5)
    topic, payload = raw.topic(), b"x" * 8000
    publisher = raw.connect("pub")
    longest, in_all = 0.0, 0
    absent, _ = raw.resume("absent")
    absent.subscribe(topic, qos=1)
    for _ in range(FILL_CYCLES):
        absent.close()
        accepted = fill(publisher, topic, payload)
        absent, present = raw.resume("absent")
        assert present
        drain(absent, accepted)
        longest = max(longest, seconds_until_accepted(publisher, topic))
        absent.answer(absent.expect(PUBLISH, payload=b"again"))
        in_all += accepted
    print(f"{in_all} messages of {len(payload)} bytes, accepting again after {longest:.2f} s at most")
    raw.release()
    assert found.stop() == 0


@pytest.mark.parametrize("bytes_max, exit_code", [((1 << 20) - 1, 2), (1 << 20, None)], ids=["smaller", "as large"])
def test_files_that_cannot_be_as_large_as_a_segment_are_told_at_the_start(tmp_path, bytes_max, exit_code):
    # The system ended the process with a signal when the first segment was made.
    server = broker(tmp_path, ["prlimit", f"--fsize={bytes_max}"], segment_bytes="1MiB")
    if exit_code is None:
        server.start()
        with contextlib.closing(RawClient(server.address, V5)) as client:
            client.send(wire.connect(V5, "one"))
            assert client.expect(CONNACK).reason == 0
            assert publish(client, "a", bytes(1000), 1) == 16
        assert server.stop() == 0
    else:
        server.spawn()
        assert server.process.wait(20) == exit_code
        assert "log.segment_bytes: this process may write files of at most 1048575B (ulimit -f, LimitFSIZE=), and a segment has 1MiB" in server.output()


def test_d14_a_folder_in_use_is_refused(tmp_path):
    """A second broker on the same folder says who has it, and ends with 6."""
    found = broker(tmp_path / "broker").start()
    command = [str(Courser.binary()), "server", "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", str(found.folder / "data")]
    second = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert second.returncode == 6
    assert f"in use by process {found.process.pid}" in second.stderr
    assert found.stop() == 0


def test_d14_a_folder_in_use_is_refused_when_its_lock_was_removed(tmp_path):
    """The folder itself is locked as well: a second broker ends with 6, and changes nothing."""
    found = broker(tmp_path / "broker").start()
    (found.folder / "data" / "LOCK").unlink()
    command = [str(Courser.binary()), "server", "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", str(found.folder / "data")]
    for _ in range(2):
        second = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert second.returncode == 6
        assert "is in use by" in second.stderr
    raw = Raw(found, V5)
    absent, _ = raw.resume("absent")
    absent.subscribe(raw.topic(), qos=1)
    assert publish(raw.connect("pub"), raw.topic(), b"x", 1) == 0
    absent.expect(PUBLISH, payload=b"x")
    raw.release()
    assert found.stop() == 0


def test_d8_a_disk_that_others_have_filled_keeps_nobody_from_starting(small_disk):
    """Not one block is free: the broker starts, delivers what it has, and takes publishes once there is room."""
    found = broker(small_disk / "broker", checkpoint_bytes="1MiB").start()
    raw = Raw(found, V5)
    absent, _ = raw.resume("absent")
    absent.subscribe(raw.topic(), qos=1)
    absent.close()
    publisher = raw.connect("pub")
    for number in range(100):
        assert publish(publisher, raw.topic(), numbered(number), number + 1) == 0
    found.stop(signal.SIGKILL)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as others:
        for size in (65536, 4096, 1024, 1):
            try:
                while True:
                    others.write(bytes(size))
            except OSError:
                pass
    found.start()
    absent, present = raw.resume("absent")
    assert present
    for number in range(100):
        absent.answer(absent.expect(PUBLISH, payload=numbered(number)))
    filler.unlink()
    seconds_until_accepted(raw.connect("pub"), raw.topic())
    raw.release()
    assert found.stop() == 0
