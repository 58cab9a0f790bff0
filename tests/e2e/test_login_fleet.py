"""A fleet behind one address translation comes back at once: every right password gets in, and nobody is told to come again."""

import subprocess

import pytest
import wire
from broker import Courser
from doors import WithAccounts, running
from raw import RawClient
from test_access import as_mosquitto_writes_it
from test_attacks import Healthy, login
from wire import CONNACK, V3, V5

pytestmark = pytest.mark.courser

FLEET = 60
# More than are compared in the five seconds that a login may take: each of so many rounds is a tenth of a second or more.
MANY, ROUNDS = 140, 200_000
BUSY = {V3: 3, V5: 0x89}
# Of those that are refused and come again.
ROUNDS_MAX = 100


def users_of_their_own(broker, count=FLEET, rounds=101):
    """Name and password of each."""
    names = [f"device-{number}" for number in range(count)]
    written = as_mosquitto_writes_it("geheim", rounds)
    (broker.folder / "passwords").write_text("".join(f"{name}:{written}\n" for name in names))
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


@pytest.mark.timeout(180)
@pytest.mark.parametrize("version", [V3, V5])
def test_who_is_not_compared_in_time_is_told_that_the_server_is_busy(tmp_path, version):
    """Many right passwords, each of its own address, at the settings that a server has by itself: nobody hears anything else, and who comes
    again gets in, since nothing is compared that nobody waits for any more. A client that is there is served all the while."""
    with running(WithAccounts, tmp_path) as broker:
        waiting = {f"127.0.1.{number + 1}": who for number, who in enumerate(users_of_their_own(broker, MANY, ROUNDS))}
        healthy = Healthy(broker.address, username="root", password=broker.password.encode())
        inside = []
        for _ in range(ROUNDS_MAX):
            came = {source: login(broker.address, version, *who, source, who[0]) for source, who in waiting.items()}
            for source, client in came.items():
                reason = client.expect(CONNACK).reason
                assert reason in (0, BUSY[version]), reason
                if reason == 0:
                    inside.append(client)
                    del waiting[source]
                else:
                    client.close()
            if not waiting:
                break
        healthy.check()
        assert not waiting, f"{len(waiting)} of {MANY} are still outside"
        for client in inside:
            client.close()
