"""SCRAM-SHA-256 by AUTH of MQTT 5.0 with the exchange of a client library: HiveMQ's, whose driver leaves the cryptography to the JDK."""

import subprocess

import pytest
from broker import Courser
from clients.base import Options, Refused, Subscription
from clients.driver import HiveMq
from doors import WithAccounts, running
from scenario import library_names

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif("hivemq" not in library_names(), reason="E2E_LIBRARIES leaves it out"),
]

USER, PASSWORD = "fleet", "pencil"
NOT_WHO_IT_SAYS = (0x86, 0x87)


@pytest.fixture
def broker(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\n")
    secret.chmod(0o600)
    with running(WithAccounts, tmp_path) as broker:
        for verb in (
            ["role", "add", "device"],
            ["acl", "grant", "device", "all", "#"],
            ["user", "add", USER, "--role", "device", "--password-file", str(secret), "--scram"],
        ):
            command = [str(Courser.binary()), *verb, "--server", str(broker.folder / "data")]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        yield broker


def test_hivemq_logs_in_by_scram_and_again(broker):
    """A login, another proof on the same connection, each with a proof of the server's, and messages before and behind it."""
    client = HiveMq(broker.address, 5)
    try:
        client.connect(Options(client_id="one", scram=(USER, PASSWORD)))
        client.subscribe([Subscription("a", 1)])
        for exchanges in (2, 3):
            client.publish("a", b"x", 1)
            assert client.message().payload == b"x"
            assert client.call("reauth")["proven"] == exchanges
        client.publish("a", b"y", 1)
        assert client.message().payload == b"y"
        client.disconnect()
    finally:
        client.release()


def test_hivemq_with_a_wrong_password_is_refused_by_scram(broker):
    client = HiveMq(broker.address, 5)
    try:
        with pytest.raises(Refused) as refused:
            client.connect(Options(client_id="one", scram=(USER, "pen")))
        assert refused.value.reason_code in NOT_WHO_IT_SAYS
    finally:
        client.release()
