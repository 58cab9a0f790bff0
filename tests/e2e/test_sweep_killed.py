"""The sessions of a removed user are ended over many turns: a kill in the midst of it leaves nothing of them to the next user of that name."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import wire
from broker import Courser, until
from doors import WithAccounts
from raw import RawClient
from test_access_killed import killed, run
from wire import CONNACK, PINGRESP, PUBACK, PUBLISH, SUBACK, V5

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="accounts are kept in the data folder"),
]

# A turn of a shard ends 256 at most: with two shards six turns of each, and no first order to the disk has them all.
LEAVING, STAYING = 3_000, 10
# Connections at once, once each shard has seen the password.
GROUP, ALONE = 250, 20
# How long each turn of a shard takes while the user is removed: the log has some sessions' ends then, and the next come seconds
# later. To look at it takes a process for each segment and entry.
TURN_SECONDS = 4
PATIENCE = 120
OLD, NEW = "the password of the first", "the password of the second"


@contextlib.contextmanager
def slow_turns(broker, folder):
    """The shards of the running process sleep long before each turn; until it has ended."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    tasks = Path(f"/proc/{broker.process.pid}/task").iterdir()
    shards = [task.name for task in tasks if (task / "comm").read_text().startswith("shard-")]
    slow = f"inject=epoll_wait,epoll_pwait:delay_exit={TURN_SECONDS}000000"
    which = [word for shard in shards for word in ("-p", shard)]
    command = ["strace", *which, "-o", str(folder / "strace"), "-e", "trace=epoll_wait,epoll_pwait", "-e", slow]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for _ in shards:
            said = tracer.stderr.readline()
            if "attached" not in said:
                pytest.skip(f"strace may not look at other processes: {said}")
        yield tracer
    finally:
        tracer.kill()
        tracer.communicate(timeout=PATIENCE)


def in_groups(names):
    """The first ones alone: their password is compared, and each shard knows then that that of the others is right."""
    return [*([name] for name in names[:ALONE]), *(names[at : at + GROUP] for at in range(ALONE, len(names), GROUP))]


def connect(broker, name, user, password, expiry):
    """Sends CONNECT of a session that is taken up where there is one."""
    client = RawClient(broker.address, V5)
    client.patience = PATIENCE
    properties = {"session_expiry": expiry} if expiry else ()
    client.send(wire.connect(V5, name, clean=False, username=user, password=password.encode(), properties=properties))
    return client


def leave_sessions(broker, names, user, password):
    """Sessions without a connection, each with a subscription."""
    for group in in_groups(names):
        clients = [connect(broker, name, user, password, 3_600) for name in group]
        for client in clients:
            client.send(wire.subscribe(V5, 1, [("news", 1)]))
        for client in clients:
            client.expect(CONNACK, reason=0)
            client.expect(SUBACK)
            client.send(wire.disconnect(V5))
        for client in clients:
            assert client.receive() is None
            client.close()


def last_entries(broker):
    """By partition: the index of the last entry in the log, read beside the server."""
    last = {}
    for segment in (broker.folder / "data" / "log").glob("*.seg"):
        command = [str(Courser.binary()), "inspect", "segment", str(segment), "--json"]
        # One that is being made is none yet.
        shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False).stdout
        for line in map(json.loads, shown.splitlines()):
            if line["is"] == "partition":
                last[line["partition"]] = max(line["last"], last.get(line["partition"], 0))
    return last


def ended_since(broker, before):
    """One by one what has ended a session by the log since it had these last entries."""
    for partition, last in last_entries(broker).items():
        for index in range(before.get(partition, 0) + 1, last + 1):
            command = [str(Courser.binary()), "inspect", "entry", "data", str(partition), str(index), "--json"]
            shown = subprocess.run(command, cwd=broker.folder, capture_output=True, text=True, timeout=PATIENCE, check=False).stdout
            yield from (line for line in map(json.loads, shown.splitlines()) if line.get("says", "").startswith("SessionEnded"))


def sessions(broker):
    """Those without a connection."""
    return broker.metric('courser_mqtt_sessions{state="disconnected"}')


def kill_within_the_sweep(broker, folder):
    """Removes the user and kills the server once some of its sessions have ended, and before all have."""
    before = last_entries(broker)
    with slow_turns(broker, folder) as tracer:
        command = [str(Courser.binary()), "user", "remove", "leaving", "--yes", "--server", "data"]
        removing = subprocess.Popen(command, cwd=broker.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + PATIENCE
            while not any(ended_since(broker, before)):
                assert time.monotonic() < deadline, f"no session has ended: {broker.tail()}"
            # Threads that are held end with the tracer that holds them, which would wait for the time to pass.
            broker.process.kill()
        finally:
            tracer.kill()
            removing.communicate(timeout=PATIENCE)
    assert broker.stop(signal.SIGKILL) == -signal.SIGKILL
    ended = len(list(ended_since(broker, before)))
    assert 0 < ended < LEAVING, f"the kill came within the sweep: {ended} of {LEAVING} have ended"


@pytest.mark.timeout(300)
def test_i11_a_kill_within_a_sweep_leaves_nothing_to_the_next_of_that_name(tmp_path):
    """Thousands of sessions of a user that is removed, each with a message that waits; a new user of its name comes as soon as it may."""
    broker = WithAccounts(tmp_path / "broker", {})
    broker.keep_port = True
    broker.start()
    leaving, staying = ([f"{kind}-{number}" for number in range(count)] for kind, count in (("leaving", LEAVING), ("staying", STAYING)))
    try:
        for file, password in (("old", OLD), ("new", NEW)):
            (broker.folder / file).write_text(password + "\n")
        run(broker, "role", "add", "reader")
        run(broker, "acl", "grant", "reader", "subscribe", "#")
        for user in ("leaving", "staying"):
            run(broker, "user", "add", user, "--role", "reader", "--password-file", "old")
        leave_sessions(broker, staying, "staying", OLD)
        leave_sessions(broker, leaving, "leaving", OLD)
        publisher = connect(broker, "publisher", "root", broker.password, 0)
        publisher.expect(CONNACK, reason=0)
        publisher.send(wire.publish(V5, "news", b"for those who were there", qos=1, packet_id=1))
        assert publisher.expect(PUBACK).reason == 0
        publisher.close()
        until(lambda: sessions(broker) == LEAVING + STAYING, "all sessions wait")

        kill_within_the_sweep(broker, tmp_path)
        broker.start()

        run(broker, "user", "add", "leaving", "--role", "reader", "--password-file", "new")
        until(lambda: sessions(broker) == STAYING, f"the sweep ends: {sessions(broker)} sessions")
        for group in in_groups(leaving):
            clients = [connect(broker, name, "leaving", NEW, 0) for name in group]
            for client, name in zip(clients, group, strict=True):
                assert not client.expect(CONNACK, reason=0).session_present, name
                client.send(wire.PING)
            for client in clients:
                # A message that waited would come first.
                client.expect(PINGRESP)
                client.close()
        for name in staying:
            client = connect(broker, name, "staying", OLD, 3_600)
            assert client.expect(CONNACK, reason=0).session_present, name
            client.expect(PUBLISH, payload=b"for those who were there")
            client.close()

        killed(broker)
        assert sessions(broker) == STAYING, "what has ended stays so"
        assert broker.stop() == 0, broker.tail()
    finally:
        broker.stop()
