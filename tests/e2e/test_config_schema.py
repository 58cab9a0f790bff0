"""An editor that goes by `courser config schema` takes the files that the server takes, and refuses what a schema can refuse of the others."""

import json
import os
import re
import subprocess
import tomllib

import pytest
from broker import Courser
from jsonschema import Draft202012Validator

pytestmark = pytest.mark.courser

DRAWN = {"YES": "true", "NUMBER": "10", "SIZE": "1MiB", "TIME": "5s", "WORD": "drop_oldest", "LIST": "127.0.0.1:1,127.0.0.1:2"}


def courser(folder, *arguments):
    command = [str(Courser.binary()), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False, env=os.environ | DRAWN)


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    done = courser(tmp_path_factory.mktemp("schema"), "config", "schema")
    found = json.loads(done.stdout)
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def faults(schema, text):
    return [f"{fault.json_path}: {fault.message}" for fault in schema.iter_errors(tomllib.loads(text))]


def test_the_files_that_init_writes_are_valid(tmp_path, schema):
    """The short one, and the full one with all that it has as comments."""
    for name, flags in (("short.toml", []), ("full.toml", ["--full"])):
        done = courser(tmp_path, "init", name, "--data", name.removesuffix(".toml"), *flags)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / name).read_text()
        assert faults(schema, text) == []
        assert tomllib.loads(text)
    # Items of lists have others among them, and more than one could be.
    text = text.split("\n# [[")[0]
    shown = re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE)
    assert len(tomllib.loads(shown)["mqtt"]) > 10
    assert faults(schema, shown) == []


LISTENER = '[[listener]]\nname = "a"\naddress = "127.0.0.1:0"\n'
TAKEN = [
    "server.pin_shards = false",
    'server.pin_shards = "${ENV:YES}"',
    "mqtt.receive_maximum = 10",
    'mqtt.receive_maximum = "${ENV:NUMBER}"',
    "mqtt.packet_bytes_max = 65536",
    'mqtt.packet_bytes_max = "1MiB"',
    'mqtt.packet_bytes_max = "${ENV:SIZE}"',
    'mqtt.connect_timeout = "1m30s"',
    'mqtt.connect_timeout = "${ENV:TIME}"',
    'session.overflow = "drop_oldest"',
    'session.overflow = "${ENV:WORD}"',
    "mqtt.listen = []\n" + LISTENER,
    'mqtt.listen = ["127.0.0.1:1", "127.0.0.1:2"]',
    'mqtt.listen = "127.0.0.1:1"',
    'mqtt.listen = "${ENV:LIST}"',
    LISTENER,
    LISTENER + "insecure_anonymous = true",
    LISTENER + 'insecure_anonymous = "${ENV:YES}"',
    LISTENER + "packet_bytes_max = 65536",
]
REFUSED = [
    "server.pin_shards = 1",
    'server.pin_shards = "true"',
    "server.pin_shards = []",
    "mqtt.receive_maximum = 0",
    "mqtt.receive_maximum = 65536",
    'mqtt.receive_maximum = "10"',
    "mqtt.receive_maximum = 1.5",
    "mqtt.receive_maximum = true",
    "mqtt.packet_bytes_max = -1",
    "mqtt.packet_bytes_max = 268435456",
    'mqtt.packet_bytes_max = "1 XB"',
    "mqtt.connect_timeout = 5",
    'mqtt.connect_timeout = "soon"',
    'session.overflow = "sometimes"',
    "session.overflow = 1",
    "mqtt.listen = 1883",
    "mqtt.listen = [1883]",
    "mqtt.nothing = 1",
    "nothing.at = 1",
    "nothing = 1",
    '[[listener]]\naddress = "127.0.0.1:0"',
    LISTENER + 'protocol = "http"',
    LISTENER + "nothing = 1",
    LISTENER + "insecure_anonymous = 1",
    LISTENER + "packet_bytes_max = 0",
]


@pytest.mark.parametrize("text", TAKEN + REFUSED)
def test_schema_and_check_say_the_same(tmp_path, schema, text):
    (tmp_path / "courser.toml").write_text(text + "\n")
    done = courser(tmp_path, "config", "check", "--config", "courser.toml")
    assert (done.returncode == 0) == (text in TAKEN), done.stdout + done.stderr
    assert (faults(schema, text) == []) == (text in TAKEN), faults(schema, text)
