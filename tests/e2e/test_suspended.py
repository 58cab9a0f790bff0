"""A process that stood still, as on a machine that was suspended: what its clients sent meanwhile they sent in time."""

import signal
import time

import pytest
import wire
from broker import Courser
from doors import running
from raw import RawClient
from wire import CONNACK, PINGRESP, V3, V5

pytestmark = pytest.mark.courser

KEEP_ALIVE = 1
STILL_SECONDS = 4


@pytest.mark.parametrize("version", [V3, V5])
def test_who_spoke_while_the_process_stood_still_stays(tmp_path, version):
    """Its time is up twice over when the process goes on, and its PINGREQ lies in the socket: it is answered, and its will is not sent.

    v3 [MQTT-3.1.2-24] v5 [MQTT-3.1.2-22]
    """
    with running(Courser, tmp_path) as broker:
        client, silent = RawClient(broker.address, version), RawClient(broker.address, version)
        for each, name in ((client, "speaks"), (silent, "silent")):
            each.send(wire.connect(version, name, keep_alive=KEEP_ALIVE))
            each.expect(CONNACK, reason=0)
        # What came with them is done: nothing stands still in the middle of a turn.
        time.sleep(0.3)
        broker.process.send_signal(signal.SIGSTOP)
        try:
            client.send(wire.PING)
            time.sleep(STILL_SECONDS)
        finally:
            broker.process.send_signal(signal.SIGCONT)
        client.expect(PINGRESP)
        client.ping()
        silent.expect_closed(*([0x8D] if version == V5 else []))
