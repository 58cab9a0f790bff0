"""The kernel keeps the server from files that it does not need (Landlock), and from none of those that it does."""

import json
import os
import socket
import ssl
import subprocess
import time

import doors
import pytest
import wire
from broker import Courser
from doors import LOOPBACK, Authority, listener, places, running
from wire import CONNACK, V5

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="what is kept is what it opens"),
]


def run(broker, *arguments, code=0):
    command = [str(Courser.binary()), *arguments, "--server", str(broker.folder / "data")]
    done = subprocess.run(command, cwd=broker.folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def replace(path, text):
    """As editors and tools that renew certificates do it: another file of the same name."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


def is_confined(broker):
    if "event=not_confined" in broker.output():
        pytest.skip("this kernel has no Landlock")
    assert "event=confined" in broker.output()


def serial(place, context):
    with socket.create_connection(place, timeout=30) as plain, context.wrap_socket(plain, server_hostname="localhost") as found:
        found.sendall(wire.connect(V5, "serial"))
        assert found.recv(1)[0] >> 4 == CONNACK
        return found.getpeercert()["serialNumber"]


def test_what_the_server_needs_it_may_open(tmp_path):
    """Certificates and settings replaced by name, a socket, a token, the log, a backup, and a start on what is there."""
    folder = tmp_path / "broker"
    for name in ("etc/more", "run", "backups"):
        (folder / name).mkdir(parents=True)
    authority = Authority(tmp_path / "certificates")
    files = authority.issue("server", "server", doors.server_names())
    context = ssl.create_default_context(cafile=str(authority.certificate))
    items = [listener("tls", "mqtts", LOOPBACK, files), listener("local", "mqtt", f'unix = "{folder}/run/mqtt.sock"')]
    settings = folder / "etc/courser.toml"
    settings.write_text(f'include = ["more"]\n[http]\ntoken_file = "{folder}/run/token"\n[backup]\nfolders = ["{folder}/backups"]\n')
    (folder / "etc/text").write_text("first")
    more = folder / "etc/more/one.toml"
    more.write_text('mqtt.response_information = "${FILE:../text}"\n')
    with running(Courser, folder, config=str(settings), listeners=",".join(items)) as broker:
        is_confined(broker)
        place = places(broker)["tls"]
        first = serial(place, context)
        authority.issue("server", "server", doors.server_names())
        deadline = time.monotonic() + 30
        while serial(place, context) == first:
            assert time.monotonic() < deadline, broker.tail()
            time.sleep(0.1)
        replace(folder / "etc/text", "second")
        replace(more, 'mqtt.response_information = "${FILE:../text}"\nmqtt.receive_maximum = 77\n')
        said = run(broker, "config", "reload")
        assert "mqtt.receive_maximum: 1024 -> 77" in said and "2 applied" in said, said
        with socket.socket(socket.AF_UNIX) as local:
            local.connect(str(folder / "run/mqtt.sock"))
            local.sendall(wire.connect(V5, "local"))
            assert local.recv(1)[0] >> 4 == CONNACK
        assert (folder / "run/token").stat().st_mode & 0o777 == 0o600
        port = str(broker.port)
        publish = [str(Courser.binary()), "pub", "-p", port, "-t", "kept", "-m", "x", "-q", "1", "--retain"]
        subprocess.run(publish, check=True, timeout=60)
        assert json.loads(run(broker, "backup", "create", "backups/one", "-o", "json"))["state"] == "done"
        assert run(broker, "inspect", "damage") == "nothing that is needed is damaged\n"
        with socket.create_connection(("127.0.0.1", int(broker.http.rsplit(":", 1)[1])), timeout=30) as http:
            http.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            text = b"".join(iter(lambda: http.recv(1 << 16), b"")).decode()
        resident = [line for line in text.splitlines() if line.startswith('courser_memory_bytes{use="resident"}')]
        assert resident and float(resident[0].split()[1]) > 1e6, "what /proc says"
    assert not (folder / "run/mqtt.sock").exists(), "it is removed at the end"
    with running(Courser, folder, config=str(settings), listeners=",".join(items)) as broker:
        assert "kept" in run(broker, "retained", "list")


def test_what_it_does_not_need_it_may_not(tmp_path):
    """Whoever is in the process gets no further than its settings: nothing is written or read elsewhere, readable as it may be."""
    folder, outside = tmp_path / "broker", tmp_path / "outside"
    for path in (folder / "etc", folder / "backups", outside):
        path.mkdir(parents=True)
    (outside / "more.toml").write_text("mqtt.receive_maximum = 77\n")
    settings = folder / "etc/courser.toml"
    text = f'[backup]\nfolders = ["{folder}/backups", "{folder}/missing"]\n'
    settings.write_text(text)
    with running(Courser, folder, config=str(settings)) as broker:
        is_confined(broker)
        assert "event=backup_folder_missing" in broker.output()
        refused = run(broker, "backup", "create", str(outside / "backup"), code=2)
        assert "is in none of the folders that backup.folders names" in refused, refused
        (folder / "backups/link").symlink_to(outside)
        run(broker, "backup", "create", "backups/link", code=2)
        replace(settings, f'include = ["{outside}/more.toml"]\n{text}')
        refused = run(broker, "config", "reload", code=1)
        assert "Permission denied" in refused, refused
    assert [path.name for path in outside.iterdir()] == ["more.toml"]
    # What a reload will name may be said before.
    replace(settings, f'sandbox.read = ["{outside}"]\n{text}')
    with running(Courser, folder, config=str(settings)) as broker:
        replace(settings, f'include = ["{outside}/more.toml"]\nsandbox.read = ["{outside}"]\n{text}')
        assert "mqtt.receive_maximum: 1024 -> 77" in run(broker, "config", "reload")
    # Without it there is nothing that keeps the process from it.
    replace(settings, f'sandbox.landlock = "off"\n{text}')
    with running(Courser, folder, config=str(settings)) as broker:
        assert "event=not_confined" in broker.output()
        replace(settings, f'include = ["{outside}/more.toml"]\nsandbox.landlock = "off"\n{text}')
        assert "mqtt.receive_maximum: 1024 -> 77" in run(broker, "config", "reload")
