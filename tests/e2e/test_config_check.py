"""`courser config check` refuses what the server refuses to start with, at the same place of the file, and nothing else."""

import subprocess

import pytest
from broker import Courser
from doors import Authority, server_names

pytestmark = pytest.mark.courser


def courser(folder, *arguments):
    command = [str(Courser.binary()), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


SERVER = ["server", "--config", "courser.toml", "--data", "data", "--http", "127.0.0.1:0"]
CHECK = ["config", "check", "--config", "courser.toml"]


@pytest.fixture
def folder(tmp_path):
    """Certificates that are right, and files that are not."""
    authority = Authority(tmp_path / "tls")
    authority.issue("server", "server", server_names())
    authority.issue("other", "other", server_names())
    (tmp_path / "empty").write_text("")
    (tmp_path / "keys.json").write_text('{"keys": [{"kty": "none"}]}')
    (tmp_path / "open.token").write_text("0123456789abcdef\n")
    (tmp_path / "open.token").chmod(0o644)
    return tmp_path


MQTTS = """[[listener]]
name = "tls"
protocol = "mqtts"
address = "127.0.0.1:0"
certificate = "tls/server.pem"
key = "tls/server.key"
"""
AUTHORITIES = MQTTS + 'client_certificates = "required"\nclient_authorities = "tls/ca.pem"\n'
TOKENS = '[mqtt]\nauthentication = "tokens"\n[tokens]\naudience = ["us"]\n'

# The file, where its fault is, and what is said of it.
WRONG = {
    "public": ('[mqtt]\nlisten = ["0.0.0.0:0"]\n', "2:10", "can be reached from other machines, and nobody has to log in"),
    "public listener": (MQTTS.replace("127.0.0.1", "0.0.0.0"), "4:11", "its clients prove nothing"),
    "proxies": (MQTTS + 'proxies = ["10.0.0.1"]\n', "7:11", "its clients come through proxies"),
    "nothing to serve": ("mqtt.listen = []\n", "1:15", "there is nothing to serve"),
    "certificate missing": (MQTTS.replace("server.pem", "nowhere.pem"), "5:15", "cannot read tls/nowhere.pem: No such file"),
    "certificate is a folder": (MQTTS.replace("tls/server.pem", "tls"), "5:15", "cannot read tls: Is a directory"),
    "certificate empty": (MQTTS.replace("tls/server.pem", "empty"), "5:15", "empty: "),
    "key of another": (MQTTS.replace("server.key", "other.key"), "6:7", "tls/other.key: "),
    "authorities missing": (AUTHORITIES.replace("ca.pem", "no.pem"), "8:22", "cannot read tls/no.pem"),
    "revocations empty": (AUTHORITIES + 'client_revocations = "empty"\n', "9:22", "empty: "),
    "key set": (TOKENS + 'key_set = "keys.json"\n', "5:11", "keys.json: "),
    "secret missing": (TOKENS + 'secret_file = "nowhere"\n', "5:15", "cannot read nowhere"),
    "token of operators": ('[http]\ntoken_file = "open.token"\n', "2:14", "open.token can be read by others"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_the_server_refuses_is_found_before(folder, case):
    text, place, fault = WRONG[case]
    if "listen = " not in text:
        text = text.replace("[mqtt]\n", '[mqtt]\nlisten = ["127.0.0.1:0"]\n') if "[mqtt]" in text else 'mqtt.listen = ["127.0.0.1:0"]\n' + text
        line, column = place.split(":")
        place = f"{int(line) + 1}:{column}"
    (folder / "courser.toml").write_text(text)
    code, said = courser(folder, *CHECK)
    assert code == 2 and f"courser.toml:{place}: " in said and fault in said, (code, said)
    assert len(said.splitlines()) == 1, said
    code, server = courser(folder, *SERVER)
    assert code in (1, 2) and fault in server, (code, server)
    if case != "token of operators":
        assert f"courser.toml:{place}: " in server, server


def test_what_is_right_here_may_be_for_another_machine(folder):
    """All that is wrong is said at once; files of another machine are not looked at where that is wanted; and what is right is."""
    file = folder / "courser.toml"
    file.write_text(MQTTS.replace("tls/", "/nowhere/") + TOKENS + 'secret_file = "/nowhere/secret"\n')
    code, said = courser(folder, *CHECK)
    places = [line.split("courser.toml:")[1].split(": ")[0] for line in said.splitlines()]
    assert code == 2 and places == ["5:15", "6:7", "11:15"], said
    code, said = courser(folder, *CHECK, "--no-files")
    assert code == 0 and "no file was looked at; digest" in said, said
    file.write_text('[mqtt]\nlisten = ["0.0.0.0:0"]\n')
    assert courser(folder, *CHECK, "--no-files")[0] == 2, "who may be reached is no matter of files"
    assert courser(folder, *CHECK, "--insecure-anonymous")[0] == 0
    file.write_text(AUTHORITIES + '[http]\ntoken_file = "made.token"\n')
    code, said = courser(folder, *CHECK)
    assert code == 0 and "the settings are right; digest" in said, said
    assert not (folder / "made.token").exists(), "a check makes nothing"
