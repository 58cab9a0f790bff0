"""Many TLS handshakes at once beside traffic: whoever was there loses nothing, whoever comes is let in, or refused as docs/limits.md says."""

import contextlib
import json
import os
import re
import resource
import socket
import ssl
import subprocess
import threading
import urllib.request

import doors
import pytest
import wire
from broker import Courser, until
from doors import LOOPBACK, Authority, listener, places, running
from raw import RawClient
from turns import only_short_turns
from wire import PUBACK, V5

pytestmark = [
    pytest.mark.courser,
    pytest.mark.timeout(240),
    pytest.mark.skipif(bool(os.environ.get("COURSER_IN_MEMORY")), reason="without a data folder there is no socket"),
]

ADDRESSES = [f"127.0.0.{last}" for last in range(2, 6)]
# Handshakes of one address that may be under way on one thread of doors (docs/limits.md).
PER_ADDRESS = 1_024
PATIENCE = 60
NO_TIME_LIMIT = "60s"


class Storming:
    """A client that has begun its handshake, and ends it when it is told to."""

    def __init__(self, place, source, context, client_id):
        self.client_id = client_id
        self.plain = socket.create_connection(place, timeout=PATIENCE, source_address=(source, 0))
        # Ends by RST: no port of this address stays in use behind the test.
        self.plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        with contextlib.suppress(ConnectionError):
            self._flush()

    def _flush(self):
        self.plain.sendall(self.outgoing.read())

    def _step(self, what):
        """Until that is done, by what comes."""
        while True:
            try:
                found = what()
            except ssl.SSLWantReadError:
                self._flush()
                data = self.plain.recv(65536)
                if not data:
                    raise ConnectionResetError("closed") from None
                self.incoming.write(data)
            else:
                self._flush()
                return found

    def comes_in(self):
        """The reason of CONNACK; none where the connection was closed before."""
        try:
            self._step(self.tls.do_handshake)
            self.tls.write(wire.connect(V5, self.client_id))
            return self._step(lambda: self.tls.read(4096))[3]
        except (ConnectionError, ssl.SSLError):
            return None


class Traffic:
    """Two clients, of which one sends the other numbers at QoS 1, the next as soon as the last one has come."""

    def __init__(self, name, connect):
        self.topic = f"numbers/{name}"
        self.publisher, self.subscriber = connect(f"publisher-{name}"), connect(f"subscriber-{name}")
        self.subscriber.subscribe(self.topic, qos=1)
        self.sent = 0
        self.failure = None
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            while not self.done.is_set():
                number = self.sent + 1
                self.publisher.send(wire.publish(V5, self.topic, b"%d" % number, qos=1, packet_id=1))
                assert self.publisher.expect(PUBACK, packet_id=1).reason == 0
                assert self.subscriber.message().payload == b"%d" % number, "each comes once, in order"
                self.sent = number
        except Exception as error:  # it is the test's business
            self.failure = error

    def goes_on(self):
        """Numbers come that were sent from now on."""
        sent = self.sent
        until(lambda: self.failure or self.sent > sent + 1, "numbers go on", PATIENCE)
        assert self.failure is None, self.failure

    def end(self):
        self.done.set()
        self.thread.join()
        assert self.failure is None, self.failure
        for client in (self.publisher, self.subscriber):
            client.ping()
            client.disconnect()


def refused(broker):
    with urllib.request.urlopen(f"{broker.http}/metrics", timeout=PATIENCE) as answer:
        found = re.findall(r'courser_doors_refused_total\{reason="(\w+)"\} ([0-9.]+)', answer.read().decode())
    return {reason: int(float(count)) for reason, count in found if float(count)}


def clients(broker):
    """Those that have a connection."""
    command = [str(Courser.binary()), "client", "list", "--limit", "10000", "-o", "jsonl", "--server", str(broker.folder / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def patient(place, wrap=lambda sock: sock):
    """How clients that were there before come in."""

    def connect(client_id):
        client = RawClient(place, V5)
        client.patience = PATIENCE
        client.sock = wrap(client.sock)
        client.connect(client_id)
        return client

    return connect


@pytest.mark.parametrize(("each", "addresses"), [(300, ADDRESSES), (PER_ADDRESS + 200, ADDRESSES[:1])], ids=["within the limits", "beyond the limit of one address"])
def test_a_storm_of_handshakes_beside_traffic(tmp_path, each, addresses):
    """All begin before any ends. Traffic goes on, by TLS and without, at each step; each newcomer gets a session, but for those beyond
    what one address may have under way, who are closed and counted as just that."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    authority = Authority(tmp_path / "certificates")
    files = authority.issue("server", "server", doors.server_names())
    context = ssl.create_default_context(cafile=str(authority.certificate))
    # The storm is ended by its clients: the longest time that a handshake may have.
    door = listener("tls", "mqtts", f'{LOOPBACK}, handshake_timeout = "{NO_TIME_LIMIT}"', files)
    with running(Courser, tmp_path / "broker", listeners=door, connect_timeout=NO_TIME_LIMIT) as broker:
        tls = places(broker)["tls"]
        traffic = [Traffic("plain", patient(broker.address))]
        by_tls = patient(tls, lambda sock: context.wrap_socket(sock, server_hostname="localhost"))
        traffic.append(Traffic("tls", by_tls))
        storm = []
        try:
            with only_short_turns(broker):
                for number in range(each):
                    for source in addresses:
                        storm.append(Storming(tls, source, context, f"{source}-{number}"))
                for pair in traffic:
                    pair.goes_on()
                answers = [client.comes_in() for client in storm]
                for pair in traffic:
                    pair.goes_on()
            assert set(answers) <= {0, None}, set(answers)
            closed = answers.count(None)
            until(lambda: refused(broker).get("over_limit", 0) == closed, "each one that is closed is counted as over the limit")
            assert set(refused(broker)) <= {"over_limit"}, refused(broker)
            # Fewer than a thread takes, or by how many of them its handshakes are taken is the machine's matter.
            assert closed <= max(0, each - PER_ADDRESS) * len(addresses), closed
            listed = {row["client_id"] for row in clients(broker)}
            came = {client.client_id for client, answer in zip(storm, answers, strict=True) if answer == 0}
            assert came <= listed and len(came) == len(storm) - closed, "who came in is there"
        finally:
            for client in storm:
                client.plain.close()
            for pair in traffic:
                pair.end()
