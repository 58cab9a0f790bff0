"""From a first start to a broker that other machines may reach: refused without accounts, served with the one that `courser init` makes."""

import contextlib
import re
import signal
import subprocess

import pytest
from broker import Courser
from namespace import CannotMake, own_network

pytestmark = pytest.mark.courser

# An address that is not loopback; it is given to the only interface of the network, so that it is reached from inside.
PUBLIC = "192.0.2.1"
USAGE, NOT_ALLOWED = 2, 4


@pytest.fixture
def inside():
    """How a command begins that runs where nobody else is."""
    with contextlib.ExitStack() as network:
        try:
            prefix = network.enter_context(own_network())
        except CannotMake as reason:
            pytest.skip(f"no network of its own can be made here: {reason}")
        subprocess.run([*prefix, "ip", "address", "add", f"{PUBLIC}/32", "dev", "lo"], check=True, timeout=20)
        yield prefix


def run(folder, *command):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_a_public_address_serves_who_has_an_account(tmp_path, inside):
    courser = str(Courser.binary())
    server = [*inside, courser, "server", "--mqtt", "0.0.0.0:1883", "--http", "127.0.0.1:0"]
    refused = run(tmp_path, *server)
    assert refused.returncode == USAGE, refused.stdout + refused.stderr
    assert "can be reached from other machines, and nobody has to log in" in refused.stderr and "courser init" in refused.stderr
    assert not list(tmp_path.iterdir()), "a start that is refused leaves nothing"
    made = run(tmp_path, courser, "init")
    assert made.returncode == 0, made.stderr
    password = re.search(r"account admin, password (\S+)", made.stdout)[1]
    (tmp_path / "password").write_text(f"{password}\n")
    (tmp_path / "password").chmod(0o600)
    publish = [*inside, courser, "pub", "-h", PUBLIC, "-q", "1", "-t", "hello", "-m", "there"]
    with subprocess.Popen([*server, "--config", "courser.toml"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as broker:
        try:
            said = []
            for line in broker.stdout:
                said.append(line)
                if line == "ready\n":
                    break
            assert any("0.0.0.0:1883" in line for line in said), said
            clear = [line for line in said if "can be reached from other machines without TLS" in line]
            assert len(clear) == 1 and "reads passwords" in clear[0] and "mqtts" in clear[0], said
            anonymous = run(tmp_path, *publish)
            assert anonymous.returncode == NOT_ALLOWED, anonymous.stdout + anonymous.stderr
            wrong = run(tmp_path, *publish, "-u", "admin", "-P", "not the password")
            assert wrong.returncode == NOT_ALLOWED, wrong.stdout + wrong.stderr
            admin = run(tmp_path, *publish, "-u", "admin", "--password-file", "password")
            assert admin.returncode == 0, admin.stdout + admin.stderr
        finally:
            broker.send_signal(signal.SIGTERM)
        broker.communicate(timeout=30)
        assert broker.returncode == 0
