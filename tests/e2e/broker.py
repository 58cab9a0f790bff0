"""The broker under test: started on a free port of 127.0.0.1, stopped by its process id, its log kept.

`Courser` is what the suite is for; `Mosquitto` runs the same scenarios against a broker that is known good, so that a
scenario which is wrong is found there first (see `gaps.DEVIATIONS` for what Mosquitto itself does otherwise).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

READY_SECONDS = 20


class BrokerDied(AssertionError):
    """The broker's process ended although nobody stopped it."""


def until(condition, what: str, seconds: float = 30) -> None:
    """Waits until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def free_port() -> int:
    """A port that was free a moment ago on 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Broker:
    """One broker process. `settings` are the suite's own names (see `Courser.SETTINGS`), the subclass translates them."""

    name = "?"

    def __init__(self, folder: Path, settings: dict[str, object] | None = None):
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.settings = settings or {}
        self.log = folder / "broker.log"
        self.process: subprocess.Popen | None = None
        self.port = 0
        # Whether a later start listens where the first one did.
        self.keep_port = False
        # Where the output of the current start begins in the log.
        self.said = 0
        # What the command is run by, such as strace with its arguments.
        self.wrapper: list[str] = []

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.port)

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> "Broker":
        """Starts the process and waits until it accepts a connection. A port that someone else took meanwhile is replaced."""
        for attempt in range(3):
            if not (self.keep_port and self.port):
                self.port = free_port()
            self.said = self.log.stat().st_size if self.log.exists() else 0
            self.spawn()
            if self._wait_ready():
                return self
            # It may only have been slow, and would keep its folder from the next one.
            self.stop(signal.SIGKILL)
        raise BrokerDied(f"{self.name} did not start:\n{self.tail()}")

    def spawn(self) -> None:
        """Starts the process and does not wait for it."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def _wait_ready(self) -> bool:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return False
            if self.is_ready():
                return True
            time.sleep(0.01)
        return False

    def is_ready(self) -> bool:
        """Whether it accepts a connection."""
        try:
            socket.create_connection(self.address, timeout=1).close()
        except OSError:
            return False
        return True

    def output(self) -> str:
        """What this start has written so far."""
        with self.log.open("rb") as log:
            log.seek(self.said)
            return log.read().decode(errors="replace")

    def stop(self, signal_number: int = signal.SIGTERM, timeout: float = 20) -> int:
        """Ends the process and returns its exit code (negative: the signal that killed it)."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise BrokerDied(f"{self.name} did not stop within {timeout} s:\n{self.tail()}") from None
        return self.process.returncode

    def check_alive(self) -> None:
        if self.process.poll() is not None:
            raise BrokerDied(f"{self.name} ended with code {self.process.returncode}:\n{self.tail()}")

    def rss_bytes(self) -> int:
        """Resident memory of the process."""
        return self._status_bytes("VmRSS")

    def forget_rss_peak(self) -> None:
        """`rss_peak_bytes` counts from now on."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def rss_peak_bytes(self) -> int:
        """The most memory of the process that was resident, as the kernel saw it."""
        return self._status_bytes("VmHWM")

    def _status_bytes(self, name) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise BrokerDied(f"{self.name} has no memory any more")

    def descriptors(self) -> int:
        """Open file descriptors of the process."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def tail(self, lines: int = 60) -> str:
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Courser(Broker):
    """`courser server`, the binary named by COURSER_BIN."""

    name = "courser"

    # The suite's name of a limit -> the server's own setting.
    SETTINGS = {
        "keep_alive_max": "mqtt.keep_alive_max_seconds={}",
        "sys_interval": "sys.interval={}s",
        "segment_bytes": "log.segment_bytes={}",
        "reserve_bytes": "log.reserve_bytes={}",
        "checkpoint_bytes": "log.checkpoint_bytes={}",
        "response_information": "mqtt.response_information={}",
        "redirect_to": "mqtt.redirect_to={}",
        "redirect_permanently": "mqtt.redirect_permanently={}",
        "qos": "mqtt.qos_max={}",
        "wildcard_subscriptions": "mqtt.wildcard_subscriptions_available={}",
        "subscription_identifiers": "mqtt.subscription_identifiers_available={}",
        "shared_subscriptions": "mqtt.shared_subscriptions_available={}",
        "connect_bytes": "mqtt.connect_bytes_max={}",
        "connections_max": "listeners.connections_max={}",
        "retained_payload": "retained.payload_bytes_max={}",
        "subscriptions": "mqtt.subscriptions_max={}",
        "queue_messages": "session.queue_messages_max={}",
        "queue_bytes": "session.queue_bytes_max={}",
        "packet_bytes": "mqtt.packet_bytes_max={}",
        "output_bytes": "mqtt.output_bytes_max={}",
        "retained_messages": "retained.messages_max={}",
        "message_rate": "limits.messages_per_second={}",
        "classes": "class=[{}]",
        "listeners": "listener=[{}]",
        "connect_timeout": "mqtt.connect_timeout={}",
        "log_format": "log.format={}",
        "log_level": "log.level={}",
        "backup_folders": "backup.folders=[{}]",
        "scrub_period": "scrub.period={}",
        "hot_bytes": "session.hot_bytes={}",
        "queue_age": "session.queue_age_max={}s",
        "retained_age": "retained.age_max={}s",
        "shared_strategy": "mqtt.shared_strategy={}",
        "overflow": "session.overflow={}",
        "pin_shards": "server.pin_shards={}",
        "shards": "server.shards={}",
    }
    # Small segments: hundreds of brokers of a run make their files ahead of need.
    ALWAYS = {"segment_bytes": "1MiB"}

    @staticmethod
    def binary() -> Path:
        given = os.environ.get("COURSER_BIN")
        if not given:
            raise SystemExit("COURSER_BIN must name the courser binary (or use --broker mosquitto)")
        return Path(given).resolve()

    def command(self) -> list[str]:
        settings = dict(self.settings)
        data = settings.pop("data", str(self.folder / "data"))
        command = [str(self.binary()), "server", "--mqtt", f"127.0.0.1:{self.port}", "--data", data, "--http", "127.0.0.1:0"]
        if "config" in settings:
            command += ["--config", settings.pop("config")]
        shards = os.environ.get("COURSER_SHARDS")
        if shards:
            command += ["--shards", shards]
        if os.environ.get("COURSER_IN_MEMORY"):
            command.append("--in-memory")
        for key, value in {**self.ALWAYS, **settings}.items():
            command += ["--set", self.SETTINGS[key].format(value)]
        return self.wrapper + command

    @property
    def http(self) -> str:
        """Where it serves operators: the system has chosen the port."""
        return re.search(r"API, metrics and health on (http://[0-9.:]+)", self.output()).group(1)

    def metric(self, sample: str) -> float:
        """What `/metrics` says of a sample, named with its labels; 0 when it is left out."""
        with urllib.request.urlopen(f"{self.http}/metrics", timeout=20) as answer:  # noqa: S310
            found = re.search(rf"^{re.escape(sample)} ([0-9.e+]+)$", answer.read().decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def heap_bytes(self) -> float:
        """What the process has allocated and not freed."""
        return self.metric('courser_memory_bytes{use="allocated"}')

    def is_ready(self) -> bool:
        """Whether it has recovered and takes sessions: it says so."""
        output = self.output()
        return "\nready\n" in output or '"event":"ready"' in output


class Mosquitto(Broker):
    """The Mosquitto of the distribution, its limits opened as far as the scenarios need."""

    name = "mosquitto"

    def command(self) -> list[str]:
        binary = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
        lines = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous true",
            "user root",
            "persistence false",
            "max_queued_messages 0",
            "max_inflight_messages 0",
            f"max_packet_size {1 << 20}",
            f"sys_interval {self.settings.get('sys_interval', 1)}",
        ]
        if "keep_alive_max" in self.settings:
            lines.append(f"max_keepalive {self.settings['keep_alive_max']}")
        config = self.folder / "mosquitto.conf"
        config.write_text("\n".join(lines) + "\n")
        return [binary, "-c", str(config), "-v"]


BROKERS = {broker.name: broker for broker in (Courser, Mosquitto)}
