"""Certificates are replaced under a thousand clients that go on publishing: nobody is dropped, and new connections get new ones."""

import shutil
import signal
import socket
import ssl
import threading
import time
from pathlib import Path

import doors
import pytest
import wire
from broker import Courser
from clients.base import Options, Subscription
from clients.paho import Paho
from doors import LOOPBACK, Authority, listener, places, running
from wire import V5

pytestmark = pytest.mark.courser

CLIENTS = 1000
REPLACED = 5


class Client:
    """Version 5 in TLS; publishes and takes the acknowledgement, nothing else."""

    def __init__(self, place, context, name):
        plain = socket.create_connection(place, timeout=30)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = context.wrap_socket(plain, server_hostname="localhost")
        self.serial = self.sock.getpeercert()["serialNumber"]
        self.sock.sendall(wire.connect(V5, name))
        assert self._packet()[0] == 0x20
        self.name, self.acknowledged = name, 0

    def _packet(self):
        head = self._exactly(2)
        return head[:1] + self._exactly(head[1])

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            piece = self.sock.recv(count - len(data))
            assert piece, f"dropped after {self.acknowledged if hasattr(self, 'acknowledged') else 'no'} messages"
            data += piece
        return data

    def publish(self):
        self.sock.sendall(wire.publish(V5, f"reload/{self.name}", b"x" * 100, qos=1, packet_id=1))
        assert self._packet()[0] == 0x40
        self.acknowledged += 1

    def close(self):
        self.sock.close()


def serial(place, context):
    """Of the certificate that a new connection gets."""
    with socket.create_connection(place, timeout=30) as plain, context.wrap_socket(plain, server_hostname="localhost") as found:
        return found.getpeercert()["serialNumber"]


@pytest.mark.timeout(180)
def test_a_thousand_clients_stay(tmp_path):
    """Five times the files are replaced and SIGHUP is sent, once with a key that does not fit, while all clients publish.

    The files are behind links: nobody but who sends the signal tells the server of their change.
    """
    authority = Authority(tmp_path / "certificates")
    names = doors.server_names()
    files = authority.issue("server", "server", names)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    links = doors.by_links(tmp_path / "links", *files)
    items = [listener("tls", "mqtts", LOOPBACK, links), listener("wss", "wss", LOOPBACK, links)]
    failures, clients, done = [], [], threading.Event()

    def publish(mine):
        while not done.is_set():
            for client in mine:
                try:
                    client.publish()
                except (AssertionError, OSError) as error:
                    failures.append(f"{client.name}: {error}")
                    return

    with running(Courser, tmp_path / "broker", listeners=", ".join(items)) as broker:
        place = places(broker)["tls"]
        library = Paho(place, 5)
        library.connect(Options(client_id="library", door=doors.tls(authority)))
        library.subscribe([Subscription("reload/c0", 0)])
        try:
            clients = [Client(place, context, f"c{number}") for number in range(CLIENTS)]
            serials = {client.serial for client in clients}
            assert len(serials) == 1
            threads = [threading.Thread(target=publish, args=(clients[start::2],)) for start in range(2)]
            for thread in threads:
                thread.start()
            for number in range(REPLACED):
                if number == 2:
                    # Half of a pair: said, and nothing changes.
                    key = files[1].read_bytes()
                    files[1].write_bytes((authority.folder / "ca.key").read_bytes())
                    broker.process.send_signal(signal.SIGHUP)
                    deadline = time.monotonic() + 20
                    while "server.key" not in broker.output():
                        assert time.monotonic() < deadline, broker.tail()
                        time.sleep(0.05)
                    assert serial(place, context) in serials
                    files[1].write_bytes(key)
                authority.issue("server", "server", names)
                broker.process.send_signal(signal.SIGHUP)
                deadline = time.monotonic() + 20
                while (found := serial(place, context)) in serials:
                    assert time.monotonic() < deadline, f"new connections get old certificates: {broker.tail()}"
                    time.sleep(0.05)
                serials.add(found)
            last = [client.acknowledged for client in clients]
            deadline = time.monotonic() + 60
            while any(client.acknowledged == before for client, before in zip(clients, last, strict=True)) and not failures:
                assert time.monotonic() < deadline, "clients are not served after the last reload"
                time.sleep(0.05)
        finally:
            done.set()
            for thread in threads:
                thread.join()
            for client in clients:
                client.close()
        assert not failures, failures[:5]
        assert len(serials) == REPLACED + 1
        assert library.client.is_connected() and library.message().payload == b"x" * 100
        library.disconnect()
        library.release()


def moved(live, files, folder):
    """`mv live old; mkdir live; cp …`"""
    live.rename(folder / "old")
    live.mkdir()
    for file in files:
        shutil.copy(file, live)


def exchanged(live, files, folder):
    """As Kubernetes does it: a new folder, and the link to the old one replaced by one to it."""
    new = folder / f"..{len(list(folder.iterdir()))}"
    new.mkdir()
    for file in files:
        shutil.copy(file, new)
    (folder / "..new").symlink_to(new.name)
    (folder / "..new").rename(live)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("place", ["inside", "outside"])
@pytest.mark.parametrize("how", ["moved", "linked", "files linked"])
def test_the_folder_of_the_files_is_replaced(tmp_path, place, how):
    """Within seconds new connections get the new certificate, also where the kernel keeps the server to its folders, and by a reload as well.

    Inside: below the folder of the configuration, which is opened whole. Outside: anywhere else.
    """
    authority = Authority(tmp_path / "authority")
    names = doors.server_names()
    files = authority.issue("server", "server", names)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    broker_folder = tmp_path / "broker"
    folder = (broker_folder if place == "inside" else tmp_path / "elsewhere") / "tls"
    folder.mkdir(parents=True)
    live = folder / ("..data" if how == "files linked" else "live")
    if how == "moved":
        live.mkdir()
    else:
        (folder / "..1").mkdir()
        live.symlink_to("..1")
    for file in files:
        shutil.copy(file, live)
    shown = [live / file.name for file in files]
    if how == "files linked":
        shown = [folder / file.name for file in files]
        for file in shown:
            file.symlink_to(Path(live.name) / file.name)
    (broker_folder).mkdir(exist_ok=True)
    config = broker_folder / "courser.toml"
    config.write_text("")
    with running(Courser, broker_folder, config=str(config), listeners=listener("tls", "mqtts", LOOPBACK, shown)) as broker:
        where = places(broker)["tls"]
        first = serial(where, context)
        authority.issue("server", "server", names)
        (moved if how == "moved" else exchanged)(live, files, folder)
        deadline = time.monotonic() + 20
        while (second := serial(where, context)) == first:
            assert time.monotonic() < deadline, broker.tail()
            time.sleep(0.1)
        # The folder that has the name now is watched, and read at a reload.
        authority.issue("server", "server", names)
        if how == "files linked":
            exchanged(live, files, folder)
        else:
            for file in files:
                shutil.copy(file, live)
        deadline = time.monotonic() + 20
        while serial(where, context) == second:
            assert time.monotonic() < deadline, broker.tail()
            time.sleep(0.1)
        assert "event=certificates_refused" not in broker.output() or how == "moved", "nothing was half there"
        broker.process.send_signal(signal.SIGHUP)
        broker_says(broker, "event=settings_reloaded")


def broker_says(broker, word):
    deadline = time.monotonic() + 20
    while word not in broker.output():
        assert "event=settings_not_reloaded" not in broker.output() and time.monotonic() < deadline, broker.tail()
        time.sleep(0.05)
