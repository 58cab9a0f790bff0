"""Commands of the pages: all of them are in the form that the program takes, and those about access are run."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from broker import Courser
from doors import WithAccounts

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="accounts are kept in the data folder"),
]

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ACCESS = {"role", "acl", "user", "domain"}


def commands(page):
    """Arguments of every `courser` in a block of commands, in order."""
    block = None
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            block = line[3:] if block is None else None
        line = line.removeprefix("$ ")
        # What a server says of itself begins with its name, too.
        if block in ("", "sh", "console") and line.startswith("courser ") and not line.startswith("courser [..]"):
            words = shlex.split(line, comments=True)
            yield [word for word in words[1:] if word != "&"]


def toml_blocks(page):
    """Every piece of a configuration file, in order."""
    return re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def run(folder, *arguments):
    command = [str(Courser.binary()), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_every_command_of_every_page_is_one(tmp_path):
    """Asked for its help behind all else that a page says: what is no command, flag or value of one is refused before that."""
    assert run(tmp_path, "role", "add", "x", "--no-such-flag", "--help")[0] == 2
    assert run(tmp_path, "role", "set", "x", "--quota", "no value", "--help")[0] == 2
    found = [(page.name, command) for page in PAGES for command in commands(page)]
    assert len(found) > 50
    for page, command in found:
        code, said = run(tmp_path, *command, "--help")
        assert code == 0, (page, command, said)


def test_every_configuration_of_every_page_is_right(tmp_path):
    file = tmp_path / "page.toml"
    file.write_text("[mqtt]\nno_such_setting = 1\n")
    assert run(tmp_path, "config", "check", "--config", str(file))[0] == 2
    found = [(page.name, block) for page in PAGES for block in toml_blocks(page)]
    assert len(found) >= 4
    for page, block in found:
        file.write_text(block)
        code, said = run(tmp_path, "config", "check", "--no-files", "--config", str(file))
        assert code == 0, (page, block, said)


def test_the_page_about_access_does_what_it_says(tmp_path):
    broker = WithAccounts(tmp_path / "broker", {})
    broker.folder.mkdir(parents=True, exist_ok=True)
    broker.start()
    try:
        (broker.folder / "FILE").write_text("a password\n")
        page = [words for words in commands(ROOT / "docs/security.md") if words[0] in ACCESS]
        assert {words[0] for words in page} == ACCESS
        said = {}
        for words in page:
            # It asks at a terminal, since what waits may be dropped.
            sure = ["--yes"] if words[:2] == ["domain", "set"] else []
            code, said[" ".join(words[:2])] = run(broker.folder, *words, *sure, "--server", str(broker.folder / "data"))
            assert code == 0, (words, said)
        assert "allowed by rule 1 of role device" in said["acl test"], said
    finally:
        assert broker.stop() == 0, broker.tail()
