"""The digest of settings: `courser config check` says the same one as a server that was started with that file."""

import json
import re
import subprocess
import urllib.request

import pytest
from broker import Courser
from doors import running

pytestmark = pytest.mark.courser

FILE = """
[mqtt]
listen = ["127.0.0.1:0"]
receive_maximum = {receive}
[http]
listen = ["127.0.0.1:0"]
[log]
segment_bytes = "1MiB"
"""


class FromItsFile(Courser):
    """All of its settings are in a file: no flag changes any of them."""

    def command(self):
        return [str(self.binary()), "server", "--config", "courser.toml"]


def checked(folder):
    command = [str(Courser.binary()), "config", "check", "--config", "courser.toml"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=60).stdout
    return re.fullmatch(r"the settings are right; digest ([0-9a-f]{16})\n", said)[1]


def test_a_server_has_the_digest_that_was_checked(tmp_path):
    """Also after other settings were read; another order of lines and a remark are no other settings, another value is."""
    file = tmp_path / "courser.toml"
    file.write_text(FILE.format(receive=16))
    with running(FromItsFile, tmp_path) as broker:
        token = (tmp_path / "data" / "admin.token").read_text().strip()

        def in_force():
            request = urllib.request.Request(f"{broker.http}/api/v1/node", headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(request, timeout=20) as answer:
                return json.load(answer)["settings_digest"]

        first = checked(tmp_path)
        assert in_force() == first
        sections = FILE.format(receive=16).strip().split("\n[")
        file.write_text("# A remark.\n" + "\n[".join(["", *reversed(sections[1:])]) + "\n" + sections[0])
        assert checked(tmp_path) == first
        file.write_text(FILE.format(receive=32))
        second = checked(tmp_path)
        assert second != first and in_force() == first, "until it is read again"
        command = [str(Courser.binary()), "config", "reload", "--server", "data"]
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=60)
        assert in_force() == second
