"""A fleet behind one address translation comes back at once: every right password gets in, and nobody is told to come again."""

import subprocess

import pytest
import wire
from broker import Courser
from doors import WithAccounts, running
from raw import RawClient
from test_access import as_mosquitto_writes_it
from wire import CONNACK, V3, V5

pytestmark = pytest.mark.courser

FLEET = 60


def users_of_their_own(broker):
    """Name and password of each."""
    names = [f"device-{number}" for number in range(FLEET)]
    (broker.folder / "passwords").write_text("".join(f"{name}:{as_mosquitto_writes_it('geheim')}\n" for name in names))
    for words in (["role", "add", "device"], ["user", "import", "passwords", "--role", "device"]):
        command = [Courser.binary(), *words, "--server", "data"]
        subprocess.run(command, cwd=broker.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)
    return [(name, b"geheim") for name in names]


@pytest.mark.parametrize("version", [V3, V5])
@pytest.mark.parametrize("users", ["one of all", "each its own"])
def test_a_fleet_behind_one_address_gets_in(tmp_path, version, users):
    """Far more at once than passwords of one address are compared at once."""
    # On a busy machine the last of those that wait have their turn late.
    with running(WithAccounts, tmp_path, connect_timeout="60s") as broker:
        fleet = [("root", broker.password.encode())] * FLEET if users == "one of all" else users_of_their_own(broker)
        clients = [RawClient(broker.address, version) for _ in fleet]
        for number, (client, (name, password)) in enumerate(zip(clients, fleet, strict=True)):
            client.send(wire.connect(version, f"c{number}", username=name, password=password))
        for client in clients:
            client.patience = 60
            client.expect(CONNACK, reason=0)
        assert broker.metric("courser_auth_queued_total") > 0, "nobody has waited"
        assert broker.metric('courser_auth_attempts_total{result="refused"}') == 0
        for client in clients:
            client.close()
