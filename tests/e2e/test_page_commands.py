"""Every command of the pages is run, block by block, each block in a folder of its own, against a server of the page.

What is a name on a page (a host, a folder, a port) is filled in. A command that goes on, or that asks at a terminal, gets the flag that
ends it or answers. A command that no test can run is in `CANNOT` with the reason. `start.md` has a test of its own, `test_start_page.py`.
"""

import contextlib
import itertools
import os
import re
import shlex
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

import doors
import paho.mqtt.client as paho
import pytest
from broker import Courser
from doors import Authority, listener, places
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

pytestmark = [
    pytest.mark.courser,
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="the pages speak of data folders"),
]

ROOT = Path(__file__).parents[2]
PAGES = {str(page.relative_to(ROOT)): page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]}
del PAGES["docs/start.md"]
# Commands that speak MQTT, and are told the port.
SPEAKS = ("pub", "sub", "request", "bench", "probe")
CARS = ("car-7", "car-8")
PATIENCE = 60

# By how it begins: why no test runs it.
CANNOT = {
    "cargo ": "builds the program: CI does",
    "bench/": "load for minutes on a quiet machine; it is run by hand before figures are written down",
}


class Way(NamedTuple):
    """How a command of a page is run."""

    # Flags that end it, or that answer what it would ask.
    more: tuple[str, ...] = ()
    # How it ends.
    code: int = 0
    # What of it is said otherwise, besides names.
    instead: tuple[str, str] = ("", "")


YES = Way(("--yes",))
# By page, and the command as the page has it. What is not here is run as it stands and ends with 0.
WAYS = {
    "README.md": {
        "sub test/#": Way(("-C", "1")),
        "bench": Way(("mqtt", "-n", "1000")),
        "user add fleet --role device": Way(("--no-password",)),
    },
    "docs/operating.md": {
        "client trace car-7": Way(("-W", "1")),
        "client kick car-7": YES,
        "client redirect car-7 --to b.example:1883": YES,
        "client redirect car-7 car-8 --to b.example:1883": YES,
        "client redirect --filter client_id=car-* --to b.example --to c.example:1884 --permanent": YES,
        "session delete car-7": YES,
        "events -o jsonl": Way(("--no-follow",)),
        # One answers.
        "request service/clock now -W 2 -C 3": Way(code=27),
        # So many packets do not come.
        "client trace car-7 -C 20 -W 60": Way(code=27, instead=("60", "1")),
    },
    "docs/security.md": {
        "sub -L mqtts://broker.example/test/# --cafile authority.pem": Way(("-C", "1")),
        "domain set default --quota queued_messages=1000 --quota messages_per_second=50": YES,
        "bench connect -L mqtts://broker.example --rate 300": Way(("-n", "30", "--hold", "0")),
    },
}


def blocks(text):
    """Lines of commands of each block."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        lines = [line for line in block.splitlines() if line.strip()]
        if language == "":
            # Also what is no command stands in these.
            lines = [line for line in lines if line.startswith("courser ")]
        if language in ("", "sh", "console") and lines:
            yield [line.removeprefix("$ ") for line in lines]


def words_of(line):
    # As for a shell a comment begins behind a space: `test/#` is a word.
    return shlex.split(re.sub(r"\s#.*", "", line))


def reason_of(line):
    return next((why for begins, why in CANNOT.items() if line.startswith(begins)), None)


class Page:
    """The server of a page, what its commands need of it, and how they are run."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.used = set()
        self.authority = Authority(folder / "certificates", "authority")
        self.server_files = self.authority.issue("server", "server", doors.server_names())
        self.client_files = self.authority.issue("client", "client")
        (folder / "backups").mkdir()
        items = [
            listener("tls", "mqtts", files=self.server_files),
            listener("wss", "wss", files=self.server_files),
            listener(
                "mutual", "mqtts", files=self.server_files,
                more=f'{doors.LOOPBACK}, client_certificates = "required", client_authorities = "{self.authority.certificate}", identity = "fingerprint"',
            ),
        ]  # fmt: skip
        self.broker = Courser(folder / "broker", {"listeners": ", ".join(items), "backup_folders": f'"{folder}/backups"'}).start()
        self.data, self.port, self.http = self.broker.folder / "data", self.broker.port, self.broker.http
        self.cars = {}
        self.own = []
        self.answering = self.answers()
        self.prepare()

    def prepare(self):
        """What the pages take for granted."""
        self.run(["pub", "-p", str(self.port), "-q", "1", "-r", "test/a", "hi"], self.folder)
        if self.name != "docs/security.md":
            self.run(["role", "add", "device"], self.folder)
            self.run(["acl", "grant", "device", "publish", "cars/%c/#"], self.folder)

    def answers(self):
        """Somebody who answers questions."""
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="clock", protocol=paho.MQTTv5)
        ready = []

        def on_message(_client, _data, message):
            properties = Properties(PacketTypes.PUBLISH)
            properties.CorrelationData = message.properties.CorrelationData
            client.publish(message.properties.ResponseTopic, b"noon", qos=1, properties=properties)

        client.on_message = on_message
        client.on_subscribe = lambda *arguments: ready.append(True)
        # Also when it comes again: some commands send everybody away.
        client.on_connect = lambda *arguments: client.subscribe("service/#", qos=1)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        self.until(lambda: ready, "somebody answers questions")
        return client

    def until(self, what, text):
        deadline = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < deadline, text
            time.sleep(0.02)

    def environment(self):
        return {
            **os.environ,
            "HOME": str(self.folder),
            "COURSER_SERVER": str(self.data),
            # "Authorities are those that this system trusts."
            "SSL_CERT_FILE": str(self.authority.certificate),
        }

    def run(self, words, folder, code=0):
        command = [str(Courser.binary()), *words]
        deadline = time.monotonic() + PATIENCE
        while True:
            done = subprocess.run(
                command, cwd=folder, env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
            )
            # A connection that was closed a moment ago is still going: who follows the page tries again.
            if done.returncode == code or "coming or going" not in done.stderr or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        assert done.returncode == code, (self.name, words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def connected(self):
        return self.run(["client", "list", "--filter", "client_id=car-*", "-o", "jsonl"], self.folder)

    def drive(self):
        """The cars are connected, also those that a command has sent away."""

        def are_there():
            for name in CARS:
                if name not in self.cars or self.cars[name].poll() is not None:
                    command = [str(Courser.binary()), "sub", "-p", str(self.port), "-i", name, "-c", "-q", "1", "orders/#"]
                    self.cars[name] = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return all(name in self.connected() for name in CARS)

        self.until(are_there, "the cars are connected")

    def park(self):
        """The cars are not connected; their sessions stay."""
        for car in self.cars.values():
            car.terminate()
            car.wait(PATIENCE)
        self.until(lambda: not self.connected(), "the cars are gone")

    def filled(self, words):
        """With what stands for the names of the page."""
        found = places(self.broker)
        by_scheme = {"mqtts": found["tls"][1], "wss": found["wss"][1]}
        text = "\n".join(words)
        for scheme, port in by_scheme.items():
            text = text.replace(f"{scheme}://broker.example", f"{scheme}://localhost:{port}")
        text = text.replace("broker.example:1883", f"127.0.0.1:{self.port}")
        text = text.replace("broker.example", f"localhost\n-p\n{found['mutual'][1]}")
        for name, path in (("authority.pem", self.authority.certificate), ("client.pem", self.client_files[0]), ("client.key", self.client_files[1])):
            text = text.replace(name, str(path))
        text = text.replace("/backups", f"{self.folder}/backups").replace("/new/data", f"{self.folder}/new/data")
        text = text.replace("0.0.0.0:1883", "127.0.0.1:0").replace("http://127.0.0.1:18080", self.http)
        # The folder in which the server of a page runs is another one.
        text = text.replace("--server\ndata", f"--server\n{self.data}")
        return text.split("\n")

    def serve(self, words, folder):
        """A server that a page starts is the one that the rest of its block speaks to."""
        settings = {} if "--mqtt" in words else {"--mqtt": "127.0.0.1:0"}
        more = [item for pair in {**settings, "--http": "127.0.0.1:0", "--set": "log.segment_bytes=1MiB"}.items() for item in pair]
        log = folder / "server.log"
        with log.open("w") as output:
            command = [str(Courser.binary()), *words, *more]
            self.own.append(subprocess.Popen(command, cwd=folder, env=self.environment(), stdout=output, stderr=output))
        self.until(lambda: "\nready\n" in log.read_text() or self.own[-1].poll() is not None, log.read_text())
        said = log.read_text()
        assert "\nready\n" in said, said
        self.data = folder / "data"
        self.port = int(re.search(r"^MQTT 3\.1\.1 and 5\.0 on 127\.0\.0\.1:(\d+)", said, re.MULTILINE).group(1))
        self.http = re.search(r"API, metrics and health on (http://[0-9.:]+)", said).group(1)

    def end_own(self):
        """The servers of a block."""
        while self.own:
            server = self.own.pop()
            server.terminate()
            assert server.wait(PATIENCE) == 0
        self.data, self.port, self.http = self.broker.folder / "data", self.broker.port, self.broker.http

    def block(self, lines, number):
        folder = self.folder / f"block-{number}"
        folder.mkdir()
        (folder / "FILE").write_text("a password\n")
        # The settings that somebody has, where a block does not make its own.
        if not any(line.startswith("courser init") for line in lines):
            (folder / "courser.toml").write_text("[limits]\nconnections = 100\n")
        # Those who wait for messages get them when somebody sends some.
        waiting = []
        for line in lines:
            if reason_of(line):
                self.used.add(next(begins for begins in CANNOT if line.startswith(begins)))
                continue
            waiting += self.line(line, folder)
        for process in waiting:
            assert process.wait(PATIENCE) == 0, lines
        self.end_own()

    def line(self, line, folder):
        words = words_of(line)
        stays = words[-1] == "&"
        words = words[: -1 if stays else None]
        if words[0] == "curl":
            # What it is to fetch is fetched, also where there is no curl: a page says an address and no more.
            (address,) = self.filled(words)[1:]
            with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                assert b"courser_build_info" in answer.read()
            return []
        assert words[0] == "courser", f"{self.name}: {line}: say how it is run, or in CANNOT why it cannot be"
        # A server that stays until the next one of its block, as a person would stop it.
        if words[1] == "server":
            self.end_own()
            self.serve(self.filled(words[1:]), folder)
            return []
        key = " ".join(words[1:])
        way = WAYS.get(self.name, {}).get(key, Way())
        self.used.add(key)
        return self.courser(words, way, folder, stays)

    def courser(self, words, way, folder, stays):
        """A command of ours, in the background where the page says so."""
        instead = [way.instead[1] if word == way.instead[0] else word for word in words[1:]]
        command = [*self.filled(instead), *way.more]
        if words[1] in SPEAKS and not {"-p", "-L"} & set(command) and not any(f":{self.port}" in word for word in command):
            command += ["-p", str(self.port)]
        if words[1] in ("client", "session"):
            self.drive()
        if words[1:3] == ["session", "delete"]:
            self.park()
        if words[1] == "request":
            subscriptions = ["subscription", "list", "-o", "jsonl"]
            self.until(lambda: "service/#" in self.run(subscriptions, self.folder), "somebody answers questions")
        if stays:
            told = folder / "told"
            with told.open("w") as output:
                process = subprocess.Popen([str(Courser.binary()), *command, "-d"], cwd=folder, stdout=subprocess.DEVNULL, stderr=output)
            self.until(lambda: "subscribed" in told.read_text(), told)
            return [process]
        self.run(command, folder, way.code)
        return []

    def end(self):
        for process in [*self.cars.values(), *self.own]:
            process.kill()
            process.wait(PATIENCE)
        self.answering.loop_stop()
        return self.broker.stop()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if list(blocks(page.read_text()))])
def test_every_command_of_a_page_does_what_it_is_there_for(tmp_path, name):
    page = Page(name, tmp_path)
    with contextlib.ExitStack() as ends:
        ends.callback(page.end)
        for number, lines in enumerate(blocks(PAGES[name].read_text())):
            page.block(lines, number)
        assert set(WAYS.get(name, {})) <= page.used, "a way that no command of the page takes"


def test_each_reason_is_for_a_command_of_a_page():
    lines = [line for page in PAGES.values() for lines in blocks(page.read_text()) for line in lines]
    assert len(lines) > 50
    for begins in CANNOT:
        assert any(line.startswith(begins) for line in lines), f"no page has a command that begins with {begins!r}"
    assert set(WAYS) <= set(PAGES)


# What stands for a number within a sentence; other names are words as good as any.
NUMBERS = {"N": "1", "P": "1", "NUMBER": "1", "PARTITION": "1", "INDEX": "1", "DURATION": "1s", "SIZE": "1KiB", "PORT": "1883"}
# Whatever command, or whatever it is given.
ANY = ("COMMAND", "VERB", "…", "...")


def within_sentences(text):
    """The words of each command that a sentence names, all ways of one with alternatives."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for said in re.findall(r"(?<!`)`courser\s([^`]+)`", text):
        # In a table a bar is escaped.
        words = [word.split("|") for word in shlex.split(said.replace("\\|", "|"))]
        for ways in itertools.product(*words):
            yield [NUMBERS.get(word, word) for word in ways if word not in ANY]


def is_command(words):
    """Whether `courser` knows these verbs and flags: it is asked for the help of the command, which it gives when all before that is right."""
    ask = [] if words[:1] == ["help"] else ["--help"]
    done = subprocess.run(
        [str(Courser.binary()), *words, *ask], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    # A flag that a sentence names without its value is one all the same.
    bare = re.search(r"a value is required for '(--?[\w-]+)", done.stderr)
    if bare and bare[1] in words:
        at = words.index(bare[1]) + 1
        return is_command([*words[:at], "1", *words[at:]])
    return done.returncode == 0


def test_a_command_that_is_not_there_is_seen():
    for wrong in ("no-such", "inspect no-such", "bench --no-such", "inspect damage one two three", "session list --limit many"):
        assert not is_command(wrong.split()), wrong
    for right in ("", "help", "inspect damage", "session list --filter", "context add NAME --server --token-file", "pub -p 1883 topic"):
        assert is_command(right.split()), right
    text = "`courser a|b …` and `courser c\nd` but\n```sh\ncourser e\n```\n| `courser f\\|g N` |\n"
    assert [" ".join(words) for words in within_sentences(text)] == ["a", "b", "c d", "f 1", "g 1"]


def test_commands_within_sentences_are_commands():
    pages = {**PAGES, "docs/start.md": ROOT / "docs/start.md", "CHANGELOG.md": ROOT / "CHANGELOG.md"}
    found = {(name, tuple(words)) for name, page in pages.items() for words in within_sentences(page.read_text())}
    assert len(found) > 60
    wrong = sorted(f"{name}: courser {' '.join(words)}" for name, words in found if not is_command(list(words)))
    assert not wrong, wrong
