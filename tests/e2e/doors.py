"""Listeners of all kinds for the tests of doors, and the certificates that they need, made by openssl."""

from __future__ import annotations

import contextlib
import itertools
import re
import subprocess
from pathlib import Path

from broker import Courser
from clients.base import Door

LOOPBACK = 'address = "127.0.0.1:0"'
# Sections of their own: the file that a system has for openssl differs from one to the next.
OPENSSL = """[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical,CA:TRUE
subjectKeyIdentifier = hash
[leaf]
basicConstraints = CA:FALSE
subjectAltName = {names}
"""


class Authority:
    """Signs certificates, all of P-256 and valid for two days."""

    def __init__(self, folder: Path, name: str = "ca"):
        self.folder, self.name = folder, name
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / f"{name}.cnf"
        self.config.write_text(OPENSSL.format(names="DNS:none"))
        self.certificate = folder / f"{name}.pem"
        self._key(name)
        self._openssl(
            "req", "-x509", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}", "-days", "2", "-out", f"{name}.pem",
            "-config", str(self.config), "-extensions", "ca",
        )  # fmt: skip

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def _key(self, name: str) -> Path:
        self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key")
        return self.folder / f"{name}.key"

    def issue(self, name: str, common_name: str, names: str = "DNS:none") -> tuple[Path, Path]:
        """A certificate and its key, as files `NAME.pem` and `NAME.key`; files of that name are replaced."""
        self._key(name)
        extensions = self.folder / f"{name}.cnf"
        extensions.write_text(OPENSSL.format(names=names))
        subject = ["-subj", f"/CN={common_name}", "-config", str(extensions)]
        self._openssl("req", "-new", "-key", f"{name}.key", *subject, "-out", f"{name}.csr")
        self._openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.pem", "-CAkey", f"{self.name}.key", "-CAcreateserial",
            "-days", "2", "-extfile", str(extensions), "-extensions", "leaf", "-out", f"{name}.pem",
        )  # fmt: skip
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"


def by_links(folder: Path, *files: Path) -> tuple[Path, ...]:
    """The same files by links in a folder of their own, in which nothing changes. The server watches the folders of its files, so of a change
    behind the links it learns at a reload, or when it looks anyway each minute."""
    folder.mkdir()
    for file in files:
        (folder / file.name).symlink_to(file)
    return tuple(folder / file.name for file in files)


def server_names() -> str:
    return "DNS:localhost,IP:127.0.0.1,IP:::1"


def listener(name: str, protocol: str, more: str = LOOPBACK, files: tuple[Path, Path] | None = None) -> str:
    """An item of the setting `listener`."""
    tls = f'certificate = "{files[0]}", key = "{files[1]}", ' if files else ""
    return f'{{ name = "{name}", protocol = "{protocol}", {tls}{more} }}'


def places(broker: Courser) -> dict[str, tuple[str, int]]:
    """Where its listeners with TCP listen, by name: the system has chosen the ports. Those of `mqtt.listen` have no name:
    `#0`, `#1` and so on."""
    found = re.findall(r"^MQTT 3\.1\.1 and 5\.0.* on (\S+):(\d+)(?: \((\S+)\))?$", broker.output(), re.MULTILINE)
    plain = itertools.count()
    return {name or f"#{next(plain)}": (host.strip("[]"), int(port)) for host, port, name in found}


class WithAccounts(Courser):
    """A broker whose clients log in; the first account is `root`, and its password is in `password`."""

    password = ""

    def command(self) -> list[str]:
        config = self.folder / "courser.toml"
        if not config.exists():
            done = subprocess.run(
                [str(self.binary()), "init", "--admin", "root"],
                cwd=self.folder, capture_output=True, text=True, check=True, timeout=60,
            )  # fmt: skip
            self.password = re.search(r"account root, password (\S+)", done.stdout).group(1)
        return [*super().command(), "--config", str(config)]


@contextlib.contextmanager
def running(kind: type[Courser], folder: Path, **settings):
    """A broker of this test alone, which must end well."""
    broker = kind(folder, settings).start()
    try:
        yield broker
        broker.check_alive()
        assert broker.stop() == 0, broker.tail()
    finally:
        broker.stop()


def tls(authority: Authority, files: tuple[Path, Path] | None = None, web: str | None = None) -> Door:
    """What a client is told."""
    certificate, key = files or (None, None)
    return Door(tls=True, web=web, authority=str(authority.certificate), certificate=certificate and str(certificate), key=key and str(key))
