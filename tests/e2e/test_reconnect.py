"""`courser sub`, and `courser pub -l`, go on when the broker goes away: they connect again, say so on standard error, and take up the session if there is one."""

import contextlib
import os
import signal
import socket
import subprocess

import pytest
import wire
from broker import Courser, until
from raw import RawClient
from wire import CONNACK, CONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, SUBSCRIBE, V5

pytestmark = pytest.mark.courser

PATIENCE = 60
IN_MEMORY = bool(os.environ.get("COURSER_IN_MEMORY"))
kept = pytest.mark.skipif(IN_MEMORY, reason="a session outlives the broker's process in its data folder")


class Command:
    """A running command; what it prints and says goes to files."""

    def __init__(self, folder, port, *arguments):
        self.out, self.err = folder / "out", folder / "err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            command = [str(Courser.binary()), *arguments, "-p", str(port)]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err, text=True)

    def until_said(self, text, times=1):
        until(lambda: self.err.read_text().count(text) >= times, f"{text!r} is said", PATIENCE)

    def until_printed(self, text):
        until(lambda: text in self.out.read_text(), f"{text!r} is printed", PATIENCE)

    def ended(self):
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def running(folder, port, *arguments):
    command = Command(folder, port, *arguments)
    try:
        yield command
    finally:
        command.process.kill()
        command.process.communicate()


@pytest.fixture
def broker(tmp_path):
    """One that listens where it did when it is started again."""
    found = Courser(tmp_path / "broker", {})
    found.keep_port = True
    found.start()
    yield found
    assert found.stop() == 0, found.tail()


def publish(broker, topic, payload, qos="1"):
    command = [str(Courser.binary()), "pub", "-p", str(broker.port), "-q", qos, topic, payload]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_subscriber_subscribes_again_when_the_broker_is_back(broker, tmp_path, how):
    """Without a session: what comes afterwards is printed, and counts for -C with what came before."""
    with running(tmp_path, broker.port, "sub", "-d", "-q", "1", "t/#", "-C", "2") as sub:
        sub.until_said("subscribed to")
        publish(broker, "t/1", "before")
        sub.until_printed("before")
        broker.stop(how)
        sub.until_said("Connection refused")
        broker.start()
        sub.until_said("connected again, in a new session")
        sub.until_said("subscribed to", times=2)
        publish(broker, "t/2", "afterwards")
        assert sub.ended() == 0
        assert sub.out.read_text() == "before\nafterwards\n"


@kept
@pytest.mark.parametrize("flags", [["-i", "one", "-c"], ["-i", "one", "-x", "1h"], ["-x", "1h"], ["-i", "one", "-c", "-V", "311"]])
def test_a_subscriber_takes_up_its_session(broker, tmp_path, flags):
    """With one, whoever named it: what was published meanwhile comes, and nothing twice."""
    with running(tmp_path, broker.port, "sub", "-d", *flags, "-q", "2", "t/#", "-C", "3") as sub:
        sub.until_said("subscribed to")
        # Of QoS 0: an acknowledgement may be under way when the connection is lost.
        publish(broker, "t/1", "before", "0")
        sub.until_printed("before")
        # It does not come back before something waits for it.
        sub.process.send_signal(signal.SIGSTOP)
        broker.stop()
        broker.start()
        publish(broker, "t/2", "meanwhile", "2")
        sub.process.send_signal(signal.SIGCONT)
        sub.until_printed("meanwhile")
        assert "connected again, with the session as it was" in sub.err.read_text()
        publish(broker, "t/3", "afterwards")
        assert sub.ended() == 0
        assert sub.out.read_text() == "before\nmeanwhile\nafterwards\n"
        assert sub.err.read_text().count("subscribed to") == 1


def test_a_subscriber_may_end_with_its_connection(broker, tmp_path):
    """--no-reconnect: code 3, as when there was no broker."""
    with running(tmp_path, broker.port, "sub", "-d", "t", "--no-reconnect", "-V", "311") as sub:
        sub.until_said("subscribed to")
        broker.stop()
        assert sub.ended() == 3
        assert sub.err.read_text().endswith("courser: the broker closed the connection\n")


def test_a_subscriber_waits_no_longer_than_it_was_to(broker, tmp_path):
    """-W ends it while there is no broker, and a signal does; --quiet says nothing."""
    with running(tmp_path, broker.port, "sub", "-d", "t", "-W", "3") as sub:
        sub.until_said("subscribed to")
        broker.stop()
        assert sub.ended() == 27
    broker.start()
    publisher = RawClient(broker.address, V5)
    publisher.connect("publisher")
    publisher.publish("t", b"retained", qos=1, retain=True)
    publisher.close()
    with running(tmp_path, broker.port, "sub", "t", "--quiet") as sub:
        sub.until_printed("retained")
        broker.stop()
        sub.process.send_signal(signal.SIGINT)
        assert sub.ended() == 130
        assert sub.err.read_text() == ""


@pytest.mark.parametrize("taken_over", [False, True])
def test_who_is_told_to_go_does_not_come_back(broker, tmp_path, taken_over):
    """An operator has ended the connection, or somebody else has the client id: code 1."""
    with running(tmp_path, broker.port, "sub", "-d", "-i", "one", "t") as sub:
        sub.until_said("subscribed to")
        if taken_over:
            other = RawClient(broker.address, V5)
            other.connect("one")
        else:
            kick = [str(Courser.binary()), "client", "kick", "one", "--yes", "--server", str(broker.folder / "data")]
            subprocess.run(kick, check=True, capture_output=True, timeout=PATIENCE)
        assert sub.ended() == 1
        assert "connecting again" not in sub.err.read_text()


@kept
@pytest.mark.parametrize("flags", [["-q", "1"], ["-q", "1", "-V", "311"], ["-q", "2", "-i", "pub", "-c"]])
def test_lines_are_sent_when_the_broker_is_back(broker, tmp_path, flags):
    """pub -l: lines go on, whichever connection takes them; those that come while there is none wait. A kept session collects them."""
    watcher = RawClient(broker.address, V5)
    watcher.connect("watcher", clean=False, properties={"session_expiry": 600})
    watcher.subscribe("lines", qos=2)
    with running(tmp_path, broker.port, "pub", "-d", "-l", "-t", "lines", *flags) as pub:

        def line(text):
            pub.process.stdin.write(f"{text}\n")
            pub.process.stdin.flush()

        line("one")
        pub.until_said("sent 3 bytes")
        watcher.message(payload=b"one")
        watcher.close()
        broker.stop()
        # Noticed without a line.
        pub.until_said("Connection refused")
        line("two")
        broker.start()
        pub.until_said("connected again")
        line("three")
        pub.process.stdin.close()
        assert pub.ended() == 0, pub.err.read_text()
    watcher = RawClient(broker.address, V5)
    watcher.send(wire.connect(V5, "watcher", clean=False))
    assert watcher.expect(CONNACK).session_present
    for text in (b"two", b"three"):
        watcher.message(payload=text)
    watcher.disconnect()


def test_lines_of_qos_0_go_on_as_well(broker, tmp_path):
    """The loss of the connection is seen while there is nothing to send."""
    with running(tmp_path, broker.port, "pub", "-d", "-l", "-t", "lines", "-q", "0") as pub:
        pub.until_said("connected, MQTT")
        broker.stop()
        pub.until_said("Connection refused")
        broker.start()
        pub.until_said("connected again")
        watcher = RawClient(broker.address, V5)
        watcher.connect("watcher")
        watcher.subscribe("lines")
        pub.process.stdin.write("line\n")
        pub.process.stdin.close()
        watcher.message(payload=b"line")
        assert pub.ended() == 0


# -- what is sent again, with a broker that loses connections where the test wants it


class Losing:
    """A broker that the test plays, for one client at a time."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE)
        self.port = self.listener.getsockname()[1]
        self.client = None

    def accept(self, present):
        """The next connection, which is let in and is the client's from now on; its CONNECT."""
        self.client, _ = self.listener.accept()
        self.client.settimeout(PATIENCE)
        self.stream = self.client.makefile("rb")
        connect = self.expect(CONNECT)
        self.client.sendall(wire.packet(CONNACK, bytes([present, 0]) + wire.props()))
        return connect

    def send(self, *packets):
        self.client.sendall(b"".join(packets))

    def lose(self):
        """The connection is gone."""
        # The other side may have closed it.
        with contextlib.suppress(OSError):
            self.client.shutdown(socket.SHUT_RDWR)
        self.client.close()

    def expect(self, kind):
        """The next packet, which is of this kind: its flags and its body."""
        (first,) = self.stream.read(1)
        length = shift = 0
        while True:
            (byte,) = self.stream.read(1)
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        body = self.stream.read(length)
        assert first >> 4 == kind, f"expected {wire.NAMES[kind]}, got {wire.NAMES[first >> 4]}"
        return first & 0x0F, body

    def close(self):
        if self.client:
            self.lose()
        self.listener.close()


@pytest.fixture
def losing():
    found = Losing()
    yield found
    found.close()


def acknowledged(kind, packet_id):
    return wire.packet(kind, wire.two(packet_id), 2 if kind == PUBREL else 0)


def delivery(packet_id, payload, dup=False):
    return wire.publish(V5, "t", payload, qos=2, packet_id=packet_id, dup=dup)


def test_a_message_of_qos_2_is_printed_once_over_two_connections(losing, tmp_path):
    """The connection is lost behind PUBREC, and the message comes again: it is acknowledged, and not printed; the next one is.

    v5 [MQTT-4.3.3-8] v5 [MQTT-4.3.3-10]
    """
    with running(tmp_path, losing.port, "sub", "-i", "one", "-c", "-q", "2", "t", "-C", "2") as sub:
        losing.accept(present=False)
        _, body = losing.expect(SUBSCRIBE)
        losing.send(wire.packet(SUBACK, body[:2] + wire.props() + b"\2"), delivery(5, b"first"))
        assert losing.expect(PUBREC)[1][:2] == wire.two(5)
        losing.lose()
        _, connect = losing.accept(present=True)
        assert connect[7] & 0x02 == 0, "Clean Start is 0"
        losing.send(delivery(5, b"first", dup=True))
        assert losing.expect(PUBREC)[1][:2] == wire.two(5)
        losing.send(acknowledged(PUBREL, 5), delivery(5, b"second"))
        assert losing.expect(PUBCOMP)[1][:2] == wire.two(5)
        assert losing.expect(PUBREC)[1][:2] == wire.two(5)
        assert sub.ended() == 0
        assert sub.out.read_text() == "first\nsecond\n"


def test_what_came_right_before_the_end_is_printed(losing, tmp_path):
    """Messages and DISCONNECT in one piece."""
    with running(tmp_path, losing.port, "sub", "t") as sub:
        losing.accept(present=False)
        _, body = losing.expect(SUBSCRIBE)
        messages = [wire.publish(V5, "t", text) for text in (b"one", b"two")]
        losing.send(wire.packet(SUBACK, body[:2] + wire.props() + b"\0"), *messages, wire.packet(wire.DISCONNECT, b"\x8b\0"))
        losing.accept(present=False)
        losing.expect(SUBSCRIBE)
        assert sub.out.read_text() == "one\ntwo\n"


@pytest.mark.parametrize("received", [False, True])
def test_a_line_of_qos_2_keeps_its_packet_id(losing, tmp_path, received):
    """Lost behind PUBLISH: it is sent again, marked as such; lost behind PUBREC: PUBREL goes out, and no PUBLISH.

    v5 [MQTT-4.4.0-1]
    """
    with running(tmp_path, losing.port, "pub", "-i", "one", "-c", "-q", "2", "-t", "t", "-l") as pub:
        losing.accept(present=False)
        pub.process.stdin.write("line\n")
        pub.process.stdin.close()
        flags, first = losing.expect(PUBLISH)
        assert flags & 8 == 0
        packet_id = int.from_bytes(first[3:5], "big")
        if received:
            losing.send(acknowledged(PUBREC, packet_id))
            losing.expect(PUBREL)
        losing.lose()
        losing.accept(present=True)
        if not received:
            flags, again = losing.expect(PUBLISH)
            assert (flags & 8, again) == (8, first)
            losing.send(acknowledged(PUBREC, packet_id))
        _, body = losing.expect(PUBREL)
        assert body[:2] == wire.two(packet_id)
        losing.send(acknowledged(PUBCOMP, packet_id))
        assert pub.ended() == 0, pub.err.read_text()


@pytest.mark.parametrize("qos", [1, 2])
def test_a_line_in_a_new_session(losing, tmp_path, qos):
    """The broker has kept nothing: one of QoS 1 is a new message; one of QoS 2 would be a second one, and code 3 says that nobody knows."""
    with running(tmp_path, losing.port, "pub", "-q", str(qos), "-t", "t", "-l") as pub:
        losing.accept(present=False)
        pub.process.stdin.write("line\n")
        pub.process.stdin.close()
        losing.expect(PUBLISH)
        losing.lose()
        losing.accept(present=False)
        if qos == 1:
            flags, body = losing.expect(PUBLISH)
            assert flags & 8 == 0
            losing.send(acknowledged(PUBACK, int.from_bytes(body[3:5], "big")))
            assert pub.ended() == 0
        else:
            assert pub.ended() == 3
            assert "it is not known whether it has taken the last message" in pub.err.read_text()


def test_a_broker_that_says_nothing_any_more_is_gone(losing, tmp_path):
    """Its connection is there, and no PINGRESP comes."""
    with running(tmp_path, losing.port, "sub", "-k", "1", "t") as sub:
        losing.accept(present=False)
        _, body = losing.expect(SUBSCRIBE)
        losing.send(wire.packet(SUBACK, body[:2] + wire.props() + b"\0"))
        losing.expect(wire.PINGREQ)
        silent = losing.client
        losing.accept(present=False)
        silent.close()
        assert "no answer from 127.0.0.1" in sub.err.read_text()
