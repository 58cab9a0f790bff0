"""The brokers of a comparison: how each is installed, started on a free port of loopback, and stopped by its pid."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PEERS = TARGET / "bench-peers"
READY_SECONDS = 60.0
OPEN_FILES = 65_536


@dataclasses.dataclass(frozen=True)
class Kind:
    """A broker that can be started. `command`, `prepare` and `client` may use {binary}, {port}, {folder} and {aux}, another free port."""

    name: str
    binary: str
    command: str
    # Written into the folder before the start: file name and text, with {port} and {folder} filled in.
    files: tuple[tuple[str, str], ...] = ()
    # Run in the folder before the start, once the files are there.
    prepare: str = ""
    # What the generator is told instead of host and port.
    client: str = ""
    # How to get the binary; empty: it is ours or the user's.
    install: str = ""
    # Whether it takes part without being named.
    usual: bool = True
    # Seconds after it answers until there is load.
    rest: float = 0.3


MOSQUITTO = """listener {port} 127.0.0.1
allow_anonymous true
set_tcp_nodelay true
max_inflight_messages 0
max_queued_messages 0
"""

NATS = """listen: 127.0.0.1:{aux}
server_name: bench
jetstream {{ store_dir: "{folder}/js" }}
mqtt {{ listen: "127.0.0.1:{port}", max_ack_pending: 20000 }}
"""

RUMQTTD = """id = 0
[router]
id = 0
max_connections = 20010
max_outgoing_packet_count = 200
max_segment_size = 104857600
max_segment_count = 10
[v4.1]
name = "v4"
listen = "127.0.0.1:{port}"
next_connection_delay_ms = 0
[v4.1.connections]
connection_timeout_ms = 60000
max_payload_size = 1048576
max_inflight_count = 200
dynamic_filters = true
"""

FLASHMQ = """log_file {folder}/flashmq.log
allow_anonymous true
max_qos_msg_pending_per_client 65535
max_qos_bytes_pending_per_client 1073741824
listen {{
  protocol mqtt
  inet_protocol ip4
  inet4_bind_address 127.0.0.1
  port {port}
}}
"""

# Not the system's file, whose certificates are all authorities.
OPENSSL = """[req]
distinguished_name = name
[name]
[leaf]
basicConstraints = CA:FALSE
subjectAltName = DNS:localhost
"""

CERTIFICATE = ("openssl req -x509 -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost "
               "-config openssl.cnf -extensions leaf -keyout key.pem -out certificate.pem")

LISTENER = ('listener=[{{ name = "tls", protocol = "mqtts", address = "127.0.0.1:{aux}", '
            'certificate = "{folder}/certificate.pem", key = "{folder}/key.pem" }}]')

# In the last line of the log of ours: the longest turn of a shard, and how long a write and sync of a batch took.
LAST_WORDS = re.compile(r"\b(longest_turn_us|log_commit_p50_us|log_commit_p99_us)=(\d+)")

METRICS = " --set " + shlex.quote('http.listen="127.0.0.1:{http}"')

KINDS = {
    kind.name: kind
    for kind in (
        # In memory, as the others are in these workloads; `courser-disk` syncs what durable sessions get before it acknowledges.
        Kind("courser", str(TARGET / "release" / "courser"), "{binary} server --mqtt 127.0.0.1:{port} --in-memory" + METRICS),
        Kind("courser-1", str(TARGET / "release" / "courser"),
             "{binary} server --mqtt 127.0.0.1:{port} --in-memory --shards 1"),
        Kind("courser-disk", str(TARGET / "release" / "courser"),
             "{binary} server --mqtt 127.0.0.1:{port} --data {folder}/data", usual=False),
        # The same with TLS between it and the generator (P-256, AES-GCM of the processor).
        Kind("courser-tls", str(TARGET / "release" / "courser"),
             "{binary} server --mqtt 127.0.0.1:{port} --in-memory --set " + shlex.quote(LISTENER) + METRICS,
             (("openssl.cnf", OPENSSL),), prepare=CERTIFICATE,
             client="-h localhost -p {aux} --cafile {folder}/certificate.pem", usual=False),
        Kind("mosquitto", "mosquitto", "{binary} -c {folder}/mosquitto.conf",
             (("mosquitto.conf", MOSQUITTO),), install="apt-get install -y mosquitto"),
        Kind("mosquitto-kept", "mosquitto", "{binary} -c {folder}/mosquitto.conf",
             (("mosquitto.conf", MOSQUITTO + "persistence true\npersistence_location {folder}/\n"),),
             install="apt-get install -y mosquitto", usual=False),
        Kind("rumqttd", str(PEERS / "bin" / "rumqttd"), "{binary} -q -c {folder}/rumqttd.toml",
             (("rumqttd.toml", RUMQTTD),), install=f"cargo install rumqttd --root {PEERS}"),
        Kind("nats-server", str(PEERS / "bin" / "nats-server"), "{binary} -c {folder}/nats.conf",
             (("nats.conf", NATS),),
             install=f"env GOBIN={PEERS / 'bin'} go install github.com/nats-io/nats-server/v2@latest"),
        # No distribution has it in its usual packages: it takes part where somebody has built it.
        Kind("flashmq", "flashmq", "{binary} --config-file {folder}/flashmq.conf", (("flashmq.conf", FLASHMQ),)),
    )
}


@dataclasses.dataclass(frozen=True)
class Running:
    """A broker that somebody else has started and will stop; it takes the place of a `Broker`, and is the same in all runs."""

    name: str
    host: str
    port: int
    pid: int
    last_words = {}

    @property
    def client(self) -> list[str]:
        return ["-h", self.host, "-p", str(self.port)]

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def running(text: str) -> Running:
    """A broker named on the command line as NAME=HOST:PORT:PID; the process is one of this machine."""
    name, _, place = text.partition("=")
    try:
        host, port, pid = place.rsplit(":", 2)
        return Running(name, host.strip("[]"), int(port), int(pid))
    except ValueError:
        raise SystemExit(f"write NAME=HOST:PORT:PID, not {text!r}") from None


def custom(text: str) -> Kind:
    """A broker named on the command line as NAME=COMMAND, where COMMAND may use {port} and {folder}."""
    name, _, command = text.partition("=")
    if not command:
        raise SystemExit(f"write NAME=COMMAND, not {text!r}")
    # A relay that answers may still be writing its file.
    return Kind(name, shlex.split(command)[0], command, rest=3.0)


def find_binary(kind: Kind) -> str | None:
    return shutil.which(kind.binary, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def install(kind: Kind) -> None:
    """Installs a peer that is missing; needs the package registries."""
    if find_binary(kind) is None and kind.install:
        subprocess.run(shlex.split(kind.install), check=True, stdin=subprocess.DEVNULL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Broker:
    """A running broker. Use as a context manager."""

    host = "127.0.0.1"

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.port = free_port()
        # Commands are split at spaces.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"bench-{kind.name.replace(' ', '-')}-"))
        self.process: subprocess.Popen[bytes] | None = None
        self.values = {"port": self.port, "aux": free_port(), "http": free_port(), "folder": self.folder, "binary": find_binary(kind) or kind.binary}
        # Figures that ours says when it stops.
        self.last_words: dict[str, float] = {}

    def turns(self) -> dict[str, float]:
        """The longest turn of a shard of ours so far, in µs of its thread's CPU, and how many of how many took more than a millisecond."""
        text = metrics(self.values["http"])
        upto = {le: float(count) for le, count in re.findall(r'^courser_shard_turn_seconds_bucket{le="([^"]+)"} (\S+)$', text, re.MULTILINE)}
        return {"longest_turn_us": longest(text, "shard_longest_turn_seconds"), "turns": upto["+Inf"], "turns_over_1ms": upto["+Inf"] - upto["0.001"]}

    @property
    def client(self) -> list[str]:
        """How the generator reaches it."""
        return shlex.split(self.kind.client.format(**self.values)) or ["-h", self.host, "-p", str(self.port)]

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker is running"
        return self.process.pid

    def __enter__(self) -> "Broker":
        self.start()
        time.sleep(self.kind.rest)
        return self

    def start(self) -> None:
        """Starts it in its folder and waits until it takes a connection."""
        for name, text in self.kind.files:
            (self.folder / name).write_text(text.format(**self.values))
        if self.kind.prepare:
            subprocess.run(shlex.split(self.kind.prepare), cwd=self.folder, check=True, capture_output=True)
        command = shlex.split(self.kind.command.format(**self.values))
        log = (self.folder / "log").open("wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        cwd=self.folder, preexec_fn=raise_open_files)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self.process and self.process.poll() is not None:
                break
            if self._answers():
                return
            time.sleep(0.01)
        log = (self.folder / "log").read_text(errors="replace")[-2000:]
        self.__exit__(None, None, None)
        raise RuntimeError(f"{self.kind.name} did not start:\n{log}")

    def _answers(self) -> bool:
        """Whether a CONNECT is accepted: a broker that listens may still be reading its log. With a keep-alive, since some refuse 0."""
        connect = b"\x10\x11\x00\x04MQTT\x04\x02\x00\x3c\x00\x05ready"
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as probe:
                probe.sendall(connect)
                return probe.recv(4) == b"\x20\x02\x00\x00"
        except OSError:
            return False

    def __exit__(self, *_: object) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if (self.folder / "log").exists():
            said = (self.folder / "log").read_text(errors="replace")
            self.last_words = {name: int(value) for name, value in LAST_WORDS.findall(said)}
        shutil.rmtree(self.folder, ignore_errors=True)


def metrics(port: int) -> str:
    """What a broker of ours says at `/metrics`."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def longest(text: str, name: str) -> float:
    """The greatest of what our shards say under a name of the metrics, in µs."""
    return max(float(it) for it in re.findall(rf"^courser_{name}{{[^}}]*}} ([0-9.e+-]+)$", text, re.MULTILINE)) * 1e6


def raise_open_files() -> None:
    """Storms need a descriptor for each connection, in the broker and in the generator."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
