"""The page of the first five minutes: each of its commands is run, and prints what the page says."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from broker import Courser
from test_first_five_minutes import port_is_free

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="the page keeps things in a data folder"),
]

PAGE = Path(__file__).parents[2] / "docs" / "start.md"
PORTS = (1883, 1884, 18080, 18084)


def commands(text):
    """Commands of the page with what they print and how they end."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append({"command": line[2:], "lines": [], "code": 0})
            elif line.startswith("? "):
                found[-1]["code"] = int(line[2:])
            else:
                found[-1]["lines"].append(line)
    return found


def pattern(lines):
    """What the lines of the page stand for."""
    parts = []
    for line in lines:
        if line == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*".join(re.escape(part) for part in line.split("[..]")) + r"\n")
    return re.compile("".join(parts))


def test_the_page_is_read_as_it_is_meant():
    assert pattern(["a [..] c", "...", "z"]).fullmatch("a b c\nx\ny\nz\n")
    assert not pattern(["a", "z"]).fullmatch("a\nx\nz\n")
    found = commands(PAGE.read_text())
    assert len(found) > 12 and sum(step["command"].endswith("&") for step in found) == 2


def test_every_command_of_the_page(tmp_path, network):
    """In an empty folder, in the order of the page."""
    taken = [] if network else [port for port in PORTS if not port_is_free(port)]
    if taken:
        pytest.skip(f"ports {taken} are taken by something else on this machine")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "courser").symlink_to(Courser.binary())
    folder = tmp_path / "empty"
    folder.mkdir()
    environment = {**os.environ, "HOME": str(folder), "PATH": f"{programs}:{os.environ['PATH']}"}
    options = {"cwd": folder, "env": environment, "text": True}
    shell = [*network, "sh", "-c"]
    servers = []
    try:
        for number, step in enumerate(commands(PAGE.read_text())):
            command, expected = step["command"], pattern(step["lines"])
            if command.endswith("&"):
                # The page shows what the server says; the log, which may warn of a slow disk, goes to the other stream.
                log = tmp_path / f"server-{number}.log"
                with log.open("w") as output, log.with_suffix(".err").open("w") as errors:
                    server = subprocess.Popen([*shell, "exec " + command.rstrip("& ")], stdout=output, stderr=errors, **options)
                servers.append(server)
                deadline = time.monotonic() + 30
                while "\nready\n" not in log.read_text():
                    assert server.poll() is None and time.monotonic() < deadline, log.read_text() + log.with_suffix(".err").read_text()
                    time.sleep(0.02)
                assert expected.fullmatch(log.read_text()), f"{command}\n{log.read_text()}"
                continue
            done = subprocess.run([*shell, command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False, **options)
            assert done.returncode == step["code"], f"{command}\n{done.stdout}"
            assert expected.fullmatch(done.stdout), f"{command}\n{done.stdout}"
    finally:
        for server in servers:
            server.terminate()
            server.wait(20)
