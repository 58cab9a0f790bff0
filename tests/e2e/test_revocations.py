"""A revoked client certificate: refused at the next handshake once the list is read, by a change of the file alone and by SIGHUP alone.

Connections that are there stay (docs/security.md); certificates of the server are replaced the same two ways. openssl makes the lists.
Where SIGHUP does it the files are behind links, so that the server sees no change by itself.
"""

import itertools
import os
import re
import signal
import socket
import ssl
import subprocess
import time

import doors
import pytest
import wire
from broker import Courser
from doors import LOOPBACK, Authority, listener, places, running
from wire import V5

pytestmark = pytest.mark.courser

LISTS = """[ca]
default_ca = all
[all]
database = {folder}/index.txt
crlnumber = {folder}/number
default_md = sha256
default_crl_days = 2
certificate = {folder}/ca.pem
private_key = {folder}/ca.key
"""
PATIENCE = 30
NUMBERS = itertools.count()


class Lists:
    """Revocation lists of an authority; each is put in the place of the last one at once."""

    def __init__(self, authority):
        self.folder, self.file = authority.folder, authority.folder / "revoked.pem"
        (self.folder / "index.txt").touch()
        (self.folder / "number").write_text("01\n")
        (self.folder / "lists.cnf").write_text(LISTS.format(folder=self.folder))
        self.publish()

    def _openssl(self, *arguments):
        subprocess.run(["openssl", "ca", "-config", "lists.cnf", *arguments], cwd=self.folder, check=True, capture_output=True)

    def publish(self):
        self._openssl("-gencrl", "-out", "new.pem")
        os.replace(self.folder / "new.pem", self.file)

    def revoke(self, name):
        self._openssl("-revoke", f"{name}.pem")


class Client:
    """Version 5 over TLS with a certificate of its own."""

    def __init__(self, place, authority, files):
        context = ssl.create_default_context(cafile=str(authority.certificate))
        context.load_cert_chain(*files)
        plain = socket.create_connection(place, timeout=PATIENCE)
        self.sock = context.wrap_socket(plain, server_hostname="localhost")
        self.serial = self.sock.getpeercert()["serialNumber"]
        # Another name each time, so that nobody takes the place of an earlier one.
        self.sock.sendall(wire.connect(V5, f"{files[0].stem}-{next(NUMBERS)}"))
        assert self.sock.recv(1) == b"\x20"
        assert self.sock.recv(1000)[2] == 0, "it is let in"

    def ping(self):
        self.sock.sendall(b"\xc0\0")
        return self.sock.recv(2) == b"\xd0\0"


def comes_in(place, authority, files):
    """Whether a handshake of this certificate is answered; with TLS 1.3 the refusal follows the client's part of it."""
    try:
        Client(place, authority, files).sock.close()
    except (ssl.SSLError, ConnectionError):
        return False
    return True


def until(what, text):
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, text
        time.sleep(0.05)


def told(broker, event):
    """How often the log says so."""
    return len(re.findall(rf"\bevent={event}\b", broker.output()))


def reload(broker):
    """SIGHUP, and all that comes of it."""
    before = told(broker, "settings_reloaded")
    broker.process.send_signal(signal.SIGHUP)
    until(lambda: told(broker, "settings_reloaded") > before, f"nothing is reloaded: {broker.tail()}")


def take_the_change(broker, by):
    """Files were changed. The signal itself has them read: it finds what nobody has read before it."""
    if by == "signal":
        same = told(broker, "certificates_same")
        reload(broker)
        assert (told(broker, "certificates_changed"), told(broker, "certificates_same")) == (1, same), broker.tail()


@pytest.mark.parametrize("by", ["file", "signal"])
def test_who_is_revoked_does_not_come_in_again(tmp_path, by):
    """Two clients; one is revoked. Its connection stays, its next handshake is refused, the other one comes and goes."""
    authority = Authority(tmp_path / "certificates")
    lists = Lists(authority)
    certificate, key = authority.issue("server", "server", doors.server_names())
    good, bad = (authority.issue(name, name) for name in ("good", "bad"))
    files = (certificate, key, authority.certificate, lists.file)
    certificate, key, authorities, revocations = doors.by_links(tmp_path / "links", *files) if by == "signal" else files
    more = f'{LOOPBACK}, client_certificates = "required", identity = "common_name", client_authorities = "{authorities}", client_revocations = "{revocations}"'
    with running(Courser, tmp_path / "broker", listeners=listener("mutual", "mqtts", more, (certificate, key))) as broker:
        place = places(broker)["mutual"]
        stays = Client(place, authority, bad)
        assert comes_in(place, authority, good) and comes_in(place, authority, bad)
        lists.revoke("bad")
        lists.publish()
        take_the_change(broker, by)
        until(lambda: not comes_in(place, authority, bad), f"who is revoked comes in: {broker.tail()}")
        assert comes_in(place, authority, good), "nobody else is refused"
        assert stays.ping(), "the connection that is there stays"
        # A list that is none changes nothing: a reload is refused as a whole, since the next start could not use it.
        lists.file.write_text("no list\n")
        said = "new connections get the old certificates"
        if by == "signal":
            broker.process.send_signal(signal.SIGHUP)
            said = "settings not reloaded: what was in force stays in force"
        until(lambda: said in broker.output(), broker.tail())
        assert comes_in(place, authority, good) and not comes_in(place, authority, bad)
        assert stays.ping()


@pytest.mark.parametrize("by", ["file", "signal"])
def test_new_certificates_of_the_server(tmp_path, by):
    """New connections get the new certificate, whether only its files change or SIGHUP says so; a connection goes on with the old one."""
    authority = Authority(tmp_path / "certificates")
    names = doors.server_names()
    server, client = authority.issue("server", "server", names), authority.issue("client", "client")
    files = doors.by_links(tmp_path / "links", *server) if by == "signal" else server
    with running(Courser, tmp_path / "broker", listeners=listener("tls", "mqtts", LOOPBACK, files)) as broker:
        place = places(broker)["tls"]
        stays = Client(place, authority, client)
        authority.issue("server", "server", names)
        take_the_change(broker, by)
        until(lambda: Client(place, authority, client).serial != stays.serial, f"the old certificate is shown: {broker.tail()}")
        assert stays.ping()


def test_a_signal_without_a_change(tmp_path):
    """SIGHUP reads the files of each listener also when they are as they were, and says so."""
    server = Authority(tmp_path / "certificates").issue("server", "server", doors.server_names())
    items = [listener(name, "mqtts", LOOPBACK, server) for name in ("one", "two")]
    with running(Courser, tmp_path / "broker", listeners=", ".join(items)) as broker:
        assert told(broker, "certificates_same") == 0
        reload(broker)
        assert (told(broker, "certificates_same"), told(broker, "certificates_changed")) == (2, 0), broker.tail()


def test_the_latest_of_two_lists_of_an_authority_counts(tmp_path):
    """A new list is written behind the old one in the same file: who is revoked there stays out. A list that goes back is told."""
    authority = Authority(tmp_path / "certificates")
    lists = Lists(authority)
    files = authority.issue("server", "server", doors.server_names())
    bad = authority.issue("bad", "bad")
    more = (
        f'{LOOPBACK}, client_certificates = "required", identity = "common_name", '
        f'client_authorities = "{authority.certificate}", client_revocations = "{lists.file}"'
    )
    old = lists.file.read_bytes()
    lists.revoke("bad")
    lists.publish()
    new = lists.file.read_bytes()
    lists.file.write_bytes(old + new)
    with running(Courser, tmp_path / "broker", listeners=listener("mutual", "mqtts", more, files)) as broker:
        place = places(broker)["mutual"]
        assert not comes_in(place, authority, bad), "the later list counts"
        assert told(broker, "certificates_doubtful") == 0, broker.tail()
        lists.file.write_bytes(old)
        until(lambda: told(broker, "certificates_doubtful") == 1, f"nothing is told: {broker.tail()}")
