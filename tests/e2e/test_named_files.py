"""Files that settings name and that are not what they should be: a pipe, a secret that others can read, lists and certificates that do not count.

None of them may hold the broker, and each is told where an operator looks (docs/security.md).
"""

import os
import signal
import subprocess

import doors
import pytest
from broker import Courser
from doors import LOOPBACK, Authority, listener, running
from test_revocations import Lists, comes_in, reload, told, until

pytestmark = pytest.mark.courser

TOKENS = """[[listener]]
name = "tokens"
address = ["127.0.0.1:0"]
authentication = "tokens"
[tokens]
secret_file = "{folder}/secret"
audience = ["here"]
"""


def config(folder, text=TOKENS):
    file = folder / "settings.toml"
    file.write_text(text.format(folder=folder))
    return file


def secret(folder, text="s" * 40):
    path = folder / "secret"
    path.write_text(text)
    path.chmod(0o600)
    return path


def check(file):
    return subprocess.run([str(Courser.binary()), "config", "check", "--config", str(file)], capture_output=True, text=True, timeout=20)


@pytest.mark.parametrize("seen_by", ["change", "signal"])
def test_a_pipe_in_the_place_of_a_secret_holds_nobody(tmp_path, seen_by):
    """Whoever looks first, the thread that watches the files or a reload: the pipe is refused, and the next reload and the stop are carried out."""
    file = secret(tmp_path)
    with running(Courser, tmp_path / "broker", config=str(config(tmp_path))) as broker:
        kept = tmp_path / "kept"
        file.rename(kept)
        os.mkfifo(file)
        if seen_by == "signal":
            broker.process.send_signal(signal.SIGHUP)
            until(lambda: told(broker, "settings_not_reloaded"), f"the pipe is not refused: {broker.tail()}")
        else:
            until(lambda: told(broker, "token_keys_refused"), f"the pipe is not refused: {broker.tail()}")
        assert "it is no regular file" in broker.output()
        kept.rename(file)
        reload(broker)


def test_a_pipe_in_the_place_of_the_settings(tmp_path):
    """It is refused where it is named, and where a file includes it."""
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    for file in (pipe, config(tmp_path, 'include = ["pipe.toml"]\n')):
        done = check(file)
        assert (done.returncode, "it is no regular file" in done.stderr) == (2, True), done


def test_what_others_can_read_is_told(tmp_path):
    """By `config check`, by a start and by a reload; the same of an end of line, which counts."""
    file = secret(tmp_path, "s" * 40 + "\n")
    settings = config(tmp_path)
    assert "part of the secret" in check(settings).stderr
    file.chmod(0o644)
    assert "(mode 644)" in check(settings).stderr
    with running(Courser, tmp_path / "broker", config=str(settings)) as broker:
        assert told(broker, "setting_doubtful") == 2, broker.tail()
        secret(tmp_path)
        reload(broker)
        assert told(broker, "setting_doubtful") == 2, broker.tail()
        file.chmod(0o666)
        reload(broker)
        assert told(broker, "setting_doubtful") == 3, broker.tail()


def test_a_forged_list_changes_nothing(tmp_path):
    """Of a list that its authority has not signed nobody could come in: the one before it counts on."""
    authority, stranger = Authority(tmp_path / "certificates"), Authority(tmp_path / "stranger")
    lists, forged = Lists(authority), Lists(stranger)
    server = authority.issue("server", "server", doors.server_names())
    client = authority.issue("client", "client")
    more = (
        f'{LOOPBACK}, client_certificates = "required", identity = "common_name", '
        f'client_authorities = "{authority.certificate}", client_revocations = "{lists.file}"'
    )
    with running(Courser, tmp_path / "broker", listeners=listener("mutual", "mqtts", more, server)) as broker:
        place = doors.places(broker)["mutual"]
        assert comes_in(place, authority, client)
        os.replace(forged.file, lists.file)
        until(lambda: told(broker, "certificates_refused"), f"the list is taken: {broker.tail()}")
        assert "not signed by the authority that it names" in broker.output()
        assert comes_in(place, authority, client)


def test_a_certificate_that_is_over_is_told(tmp_path):
    """By `config check` and when the files change; the broker starts with it, since an operator may have no other one."""
    authority = Authority(tmp_path / "certificates")
    certificate, key = authority.issue("server", "server", doors.server_names())
    text = f'[[listener]]\nname = "tls"\nprotocol = "mqtts"\naddress = ["127.0.0.1:0"]\ncertificate = "{certificate}"\nkey = "{key}"\n'
    assert "counted until" not in check(config(tmp_path, text)).stderr
    with running(Courser, tmp_path / "broker", config=str(config(tmp_path, text))) as broker:
        names = ["-in", "server.csr", "-signkey", "server.key", "-extfile", "server.cnf", "-extensions", "leaf", "-days", "-1", "-out", "old.pem"]
        subprocess.run(["openssl", "x509", "-req", *names], cwd=authority.folder, check=True, capture_output=True)
        os.replace(authority.folder / "old.pem", certificate)
        until(lambda: told(broker, "certificates_doubtful"), f"nobody is told: {broker.tail()}")
    done = check(config(tmp_path, text))
    assert (done.returncode, "counted until" in done.stderr) == (0, True), done


def test_settings_that_are_there_and_not_read_are_told(tmp_path):
    """`courser init` writes courser.toml; a start in its folder that does not name it says so."""
    folder = tmp_path / "broker"
    folder.mkdir()
    (folder / "courser.toml").write_text("")
    with running(Courser, folder) as broker:
        assert told(broker, "config_not_read") == 1, broker.tail()
        assert "courser server --config courser.toml" in broker.output()
