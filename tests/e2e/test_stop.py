"""Stopping the broker."""

import signal

import pytest
import wire


@pytest.mark.courser
def test_sigterm(brokers, raw):
    """SIGTERM: DISCONNECT 0x8B to 5.0 clients, a plain close to 3.1.1 clients, exit code 0."""
    raw.broker = brokers.own()
    client = raw.connect("c")
    idle = raw.open()
    raw.broker.process.send_signal(signal.SIGTERM)
    assert client.expect_closed(0x8B) == (0x8B if raw.v5 else None)
    assert idle.read_all() == b""
    assert raw.broker.process.wait(20) == 0


@pytest.mark.courser
def test_sigint_is_the_same(brokers, raw):
    """Control-C on a terminal."""
    raw.broker = brokers.own()
    client = raw.connect("c")
    raw.broker.process.send_signal(signal.SIGINT)
    client.expect_closed(0x8B)
    assert raw.broker.process.wait(20) in (0, 130)


@pytest.mark.courser
def test_kill_and_start_again(brokers, raw):
    """After SIGKILL the same folder serves again."""
    raw.broker = brokers.own()
    raw.connect("c").ping()
    raw.broker.stop(signal.SIGKILL)
    raw.broker.start()
    client = raw.connect("c")
    client.send(wire.PING)
    client.expect(wire.PINGRESP)
    assert raw.broker.stop() == 0
