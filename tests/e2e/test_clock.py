"""M6: the time that messages expire by never goes back, not over a restart of the process on a machine whose clock was set back."""

import shutil
import signal
import subprocess
import time

import pytest
import wire
from broker import Courser
from raw import RawClient
from scenario import Raw
from wire import PUBACK, PUBLISH, V5

pytestmark = pytest.mark.courser

AHEAD_SECONDS = 3600
EXPIRY_SECONDS = 600

# The time of the day, so many seconds ahead; all other clocks as they are.
SHIM = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    const char *ahead = getenv("CLOCK_AHEAD_SECONDS");
    if (result == 0 && clock == CLOCK_REALTIME && ahead)
        now->tv_sec += atol(ahead);
    return result;
}
"""


def ahead(folder) -> list[str]:
    """What runs a command with its clock ahead."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler, which makes the clock that is ahead")
    source, library = folder / "ahead.c", folder / "ahead.so"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
    wrapper = ["env", f"LD_PRELOAD={library}", f"CLOCK_AHEAD_SECONDS={AHEAD_SECONDS}"]
    shown = subprocess.run([*wrapper, "date", "+%s"], capture_output=True, text=True, check=True).stdout
    assert int(shown) >= time.time() + AHEAD_SECONDS - 60, "the clock is ahead"
    return wrapper


def publish(client: RawClient, topic: str, payload: bytes, packet_id: int) -> None:
    properties = {"message_expiry": EXPIRY_SECONDS}
    client.send(wire.publish(V5, topic, payload, qos=1, packet_id=packet_id, properties=properties))
    assert client.expect(PUBACK, packet_id=packet_id).reason == 0


def test_m6_time_does_not_go_back_over_a_restart(tmp_path):
    """A message that was stored before the clock was set back by an hour has no hour more; one that is stored after it has its own time.

    v5 [MQTT-3.3.2-6]
    """
    found = Courser(tmp_path / "broker", {})
    found.wrapper = ahead(tmp_path)
    found.start()
    raw = Raw(found, V5)
    absent, _ = raw.resume("absent")
    absent.subscribe(raw.topic(), qos=1)
    absent.close()
    publish(raw.connect("pub"), raw.topic(), b"before", 1)
    found.stop(signal.SIGKILL)

    found.wrapper = []
    found.start()
    publish(raw.connect("pub"), raw.topic(), b"after", 1)
    absent, present = raw.resume("absent")
    assert present
    for payload in (b"before", b"after"):
        message = absent.expect(PUBLISH, payload=payload)
        absent.answer(message)
        left = message.properties["message_expiry"]
        assert EXPIRY_SECONDS - 60 <= left <= EXPIRY_SECONDS, f"{payload}: {left} s left"
    raw.release()
    assert found.stop() == 0
