"""The letters of `courser pub` and `courser sub`, which are those of Mosquitto's tools.

Where a letter means the same to both, the same row runs with `mosquitto_pub` and `mosquitto_sub` as the reference, so that a script
written for them goes on working. What a letter puts into CONNECT is read by a socket of the test; all else goes through a broker.
No row waits for a subscription: messages are retained, or are there in a kept session before the tool comes.
"""

import queue
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from dataclasses import dataclass, field

import paho.mqtt.client as paho
import pytest
from broker import Courser
from paho.mqtt.enums import CallbackAPIVersion

pytestmark = pytest.mark.courser

WAIT_SECONDS = 20
BOTH = ["courser", "mosquitto"]


class Tools:
    """The two commands of a family, at a port."""

    def __init__(self, family, port, folder):
        binary = str(Courser.binary())
        commands = {
            "courser": ([binary, "pub"], [binary, "sub"]),
            "mosquitto": (["mosquitto_pub"], ["mosquitto_sub"]),
        }
        self.publish, self.subscribe = commands[family]
        self.place = ["-h", "127.0.0.1", "-p", str(port)]
        self.port, self.folder = port, folder

    def _run(self, command, flags, stdin):
        return subprocess.run(
            [*command, *flags], input=stdin, capture_output=True, cwd=self.folder, timeout=WAIT_SECONDS, check=False
        )

    def pub(self, *flags, stdin=b"", code=0):
        done = self._run(self.publish, [*self.place, *flags], stdin)
        assert done.returncode == code, done
        return done

    def sub(self, *flags, code=0):
        done = self._run(self.subscribe, [*self.place, *flags], b"")
        assert done.returncode == code, done
        return done.stdout

    def without_place(self, *flags):
        done = self._run(self.subscribe, flags, b"")
        assert done.returncode == 0, done
        return done.stdout

    def keep_session(self, name, *filters):
        """A session without a connection, which messages wait in."""
        self.sub("-i", name, "-c", "-q", "1", *(flag for topic in filters for flag in ("-t", topic)), "-E")


@pytest.fixture(params=BOTH)
def tools(request, brokers, tmp_path):
    return Tools(request.param, brokers.common().port, tmp_path)


@pytest.fixture
def ours(brokers, tmp_path):
    return Tools("courser", brokers.common().port, tmp_path)


@pytest.fixture
def topic(request):
    return "letters/" + re.sub(r"[^a-z0-9]+", "-", request.node.name)


@pytest.fixture
def arrivals(brokers, topic):
    """What comes below the topic of the test, at a client of a library."""
    found, subscribed = queue.Queue(), threading.Event()
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.on_message = lambda _client, _user, message: found.put(message)
    client.on_subscribe = lambda *_: subscribed.set()
    client.connect("127.0.0.1", brokers.common().port)
    client.subscribe(f"{topic}/#", qos=2)
    client.loop_start()
    assert subscribed.wait(WAIT_SECONDS)
    yield found
    client.disconnect()
    client.loop_stop()


def payloads(arrivals, count):
    return [arrivals.get(timeout=WAIT_SECONDS).payload for _ in range(count)]


# -- pub


@pytest.mark.parametrize(
    "flags, stdin, sent",
    [
        (["-m", "hi there"], b"", [b"hi there"]),
        (["-n"], b"", [b""]),
        (["-f", "file"], b"", [b"two\nlines\x00\xff\n"]),
        (["-s"], b"all of\nit", [b"all of\nit"]),
        (["-l"], b"one\ntwo\nthree", [b"one", b"two", b"three"]),
        (["-m", "again", "--repeat", "3", "--repeat-delay", "0.01"], b"", [b"again"] * 3),
    ],
    ids=["m", "n", "f", "s", "l", "repeat"],
)
def test_where_the_message_comes_from(tools, topic, arrivals, tmp_path, flags, stdin, sent):
    """-m, -n, -f, -s, -l and --repeat: each byte as it was given, each message once and in order."""
    (tmp_path / "file").write_bytes(b"two\nlines\x00\xff\n")
    tools.pub("-t", f"{topic}/x", "-q", "1", *flags, stdin=stdin)
    tools.pub("-t", f"{topic}/x", "-q", "1", "-m", "the end")
    assert payloads(arrivals, len(sent) + 1) == [*sent, b"the end"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_qos(tools, topic, arrivals, qos):
    """-q: the QoS of the publish."""
    tools.pub("-t", f"{topic}/x", "-m", "x", "-q", str(qos))
    assert arrivals.get(timeout=WAIT_SECONDS).qos == qos


def test_retain(tools, topic):
    """-r keeps the message for those who come later, -r -n takes it away."""
    tools.pub("-t", f"{topic}/x", "-m", "kept", "-q", "1", "-r")
    assert tools.sub("-t", f"{topic}/x", "-C", "1", "-W", "20") == b"kept\n"
    tools.pub("-t", f"{topic}/x", "-q", "1", "-r", "-n")
    assert tools.sub("-t", f"{topic}/x", "-C", "1", "-W", "1", code=27) == b""


def test_properties(ours, topic, arrivals):
    """Properties of MQTT 5 arrive as they were given, and -F prints them."""
    given = ["--content-type", "text/plain", "--response-topic", "r", "--correlation-data", "c-1", "--message-expiry", "900"]
    ours.pub("-t", f"{topic}/x", "-m", "x", "-q", "1", "-r", *given, "--user-property", "a=1", "--user-property", "a=2")
    found = arrivals.get(timeout=WAIT_SECONDS).properties
    assert (found.ContentType, found.ResponseTopic, found.CorrelationData) == ("text/plain", "r", b"c-1")
    assert found.UserProperty == [("a", "1"), ("a", "2")]
    line = ours.sub("-t", f"{topic}/x", "-F", "%C %R %D %P", "-C", "1", "-W", "20")
    assert line == b"text/plain r c-1 a:1 a:2\n"
    ours.pub("-t", f"{topic}/x", "-q", "1", "-r", "-n")


def test_properties_by_their_names(tools, topic, arrivals):
    """-D COMMAND PROPERTY VALUE: properties of the message, and of CONNECT and SUBSCRIBE."""
    given = [("content-type", "text/plain"), ("response-topic", "r"), ("message-expiry-interval", "900"), ("payload-format-indicator", "1")]
    flags = [word for name, value in given for word in ("-D", "publish", name, value)]
    flags += ["-D", "PUBLISH", "user-property", "a", "1", "-D", "publish", "user-property", "a", "2"]
    tools.pub("-V", "5", "-t", f"{topic}/x", "-m", "x", "-q", "1", "-r", *flags)
    found = arrivals.get(timeout=WAIT_SECONDS).properties
    assert (found.ContentType, found.ResponseTopic, found.PayloadFormatIndicator) == ("text/plain", "r", 1)
    assert found.UserProperty == [("a", "1"), ("a", "2")] and found.MessageExpiryInterval <= 900
    kept = ["-V", "5", "-i", topic.replace("/", "-"), "-D", "connect", "session-expiry-interval", "60"]
    line = tools.sub(*kept, "-t", f"{topic}/x", "-D", "subscribe", "subscription-identifier", "7", "-F", "%S %p", "-C", "1", "-W", "20")
    assert line == b"7 x\n"
    tools.pub("-t", f"{topic}/x", "-q", "1", "-r", "-n")


READING = """syntax = "proto3";
message Reading { string sensor = 1; double value = 2; }
"""


@pytest.mark.parametrize(
    "form, written, sent, printed",
    [
        ("hex", "00 ff 41", b"\x00\xff\x41", "00ff41"),
        ("base64", "AP9B", b"\x00\xff\x41", "AP9B"),
        ("json", '{"a": [1, 2.50]}', b'{"a": [1, 2.50]}', '{"a":[1,2.50]}'),
        ("proto:reading.proto", '{"sensor": "t1"}', b"\x0a\x02t1", '{"sensor":"t1"}'),
        ("text", "hi", b"hi", "hi"),
    ],
    ids=["hex", "base64", "json", "proto", "text"],
)
def test_payload_format(ours, topic, arrivals, tmp_path, form, written, sent, printed):
    """--payload-format: how a payload is written for pub, also line by line, and printed by sub."""
    (tmp_path / "reading.proto").write_text(READING)
    place = ["-t", f"{topic}/x", "-q", "1", "--payload-format", form]
    ours.pub(*place, "-m", written, "-r")
    ours.pub(*place, "-l", stdin=f"{written}\n{written}\n".encode())
    assert payloads(arrivals, 3) == [sent] * 3
    assert ours.sub(*place, "-C", "1", "-W", "20").decode() == f"{printed}\n"
    ours.pub("-t", f"{topic}/x", "-q", "1", "-r", "-n")


def test_payload_that_is_of_no_such_form(ours, topic, arrivals):
    """It is not sent, and code 2 says why; one that comes is printed as it is, and standard error says why."""
    place = ["-t", f"{topic}/x", "-q", "1"]
    assert b"no hexadecimal digit" in ours.pub(*place, "-m", "6x", "--payload-format", "hex", code=2).stderr
    assert b"half a byte" in ours.pub(*place, "-l", "--payload-format", "hex", stdin=b"68\n686\n", code=2).stderr
    ours.pub(*place, "-r", "-m", "text")
    assert payloads(arrivals, 2) == [b"h", b"text"]
    done = ours._run(ours.subscribe, [*ours.place, *place, "-C", "1", "-W", "20", "--payload-format", "json"], b"")
    assert (done.returncode, done.stdout) == (0, b"text\n")
    assert f"a payload on {topic}/x is not JSON".encode() in done.stderr
    ours.pub(*place, "-r", "-n")


def test_payload_size(ours, topic, arrivals):
    """--payload-size: a message of that many bytes."""
    ours.pub("-t", f"{topic}/x", "-q", "1", "--payload-size", "2KiB")
    assert len(arrivals.get(timeout=WAIT_SECONDS).payload) == 2048
    ours.pub("-t", f"{topic}/x", "--payload-size", "300MB", code=2)


# -- sub


@pytest.fixture
def kept(tools, topic):
    """Two retained messages below the topic of the test."""
    for name, message in (("a", "first"), ("b", "hello")):
        tools.pub("-t", f"{topic}/{name}", "-m", message, "-q", "1", "-r")
    yield
    for name in "ab":
        tools.pub("-t", f"{topic}/{name}", "-q", "1", "-r", "-n")


@pytest.mark.parametrize(
    "flags, line",
    [
        ([], "hello\n"),
        (["-v"], "{topic} hello\n"),
        (["-N"], "hello"),
        (["-F", "%t|%q|%r|%l|%x|%X|%p|%%"], "{topic}|1|1|5|68656c6c6f|68656C6C6F|hello|%\n"),
        (["-F", "@Y%p\\t."], "{year}hello\t.\n"),
        (["-F", "%p", "-N"], "hello"),
    ],
    ids=["plain", "v", "N", "F", "F-time", "F-N"],
)
def test_how_a_message_is_printed(tools, topic, kept, flags, line):
    """-v, -F and -N; -q is the highest QoS of deliveries."""
    years = {time.strftime("%Y")}
    found = tools.sub("-t", f"{topic}/b", "-q", "1", "-C", "1", "-W", "20", *flags).decode()
    years.add(time.strftime("%Y"))
    assert found in {line.format(topic=f"{topic}/b", year=year) for year in years}


def test_qos_of_deliveries(tools, topic, kept):
    """-q lowers what was published with a higher QoS."""
    assert tools.sub("-t", f"{topic}/b", "-q", "0", "-F", "%q", "-C", "1", "-W", "20") == b"0\n"


def test_count(tools, topic):
    """-C ends after so many messages with code 0, also when more are there; the session keeps the rest."""
    name = topic.replace("/", "-")
    tools.keep_session(name, f"{topic}/x")
    for number in range(3):
        tools.pub("-t", f"{topic}/x", "-q", "1", "-m", str(number))
    resumed = ["-i", name, "-c", "-q", "1", "-t", f"{topic}/x", "-W", "20"]
    assert tools.sub(*resumed, "-C", "1") == b"0\n"
    rest = tools.sub(*resumed, "-C", "2").split()
    # The next one may have been under way when the first was enough; then it was acknowledged, or it comes again.
    assert rest in ([b"1", b"2"], [b"0", b"1"])


def test_time_out(tools, topic):
    """-W: nothing came within the time, and the code says so."""
    began = time.monotonic()
    assert tools.sub("-t", topic, "-C", "1", "-W", "1", code=27) == b""
    assert time.monotonic() - began >= 1


def test_left_out(tools, topic, kept):
    """-R leaves out what is retained, -T what fits a filter."""
    assert tools.sub("-t", f"{topic}/#", "-R", "-W", "1", code=27) == b""
    found = tools.sub("-t", f"{topic}/#", "-T", f"{topic}/a", "-v", "-C", "1", "-W", "20")
    assert found == f"{topic}/b hello\n".encode()


def test_retained_is_removed(tools, topic, kept):
    """--remove-retained takes away what is retained and comes, but for what -T leaves out."""
    flags = ["-t", f"{topic}/#", "-q", "1", "-W", "1"]
    assert tools.sub(*flags, "--remove-retained", "-T", f"{topic}/a", code=27) == b"hello\n"
    assert tools.sub(*flags, code=27) == b"first\n"


def test_unsubscribe(tools, topic):
    """-U takes a subscription from the session that is resumed; -E ends once the others are answered."""
    name = topic.replace("/", "-")
    tools.keep_session(name, f"{topic}/a", f"{topic}/b")
    tools.sub("-i", name, "-c", "-q", "1", "-t", f"{topic}/b", "-U", f"{topic}/a", "-E")
    # What a session asks for is answered in order: behind this answer the first one has counted.
    tools.sub("-i", name, "-c", "-q", "1", "-t", f"{topic}/b", "-E")
    for last in "ab":
        tools.pub("-t", f"{topic}/{last}", "-q", "1", "-m", last)
    found = tools.sub("-i", name, "-c", "-q", "1", "-t", f"{topic}/b", "-C", "1", "-W", "20")
    assert found == b"b\n"


def test_several_filters(tools, topic, kept):
    """-t as often as wanted."""
    found = tools.sub("-t", f"{topic}/a", "-t", f"{topic}/b", "-C", "2", "-W", "20")
    assert sorted(found.split()) == [b"first", b"hello"]


def test_url(tools, topic, kept):
    """-L says host, port and topic in one."""
    assert tools.without_place("-L", f"mqtt://127.0.0.1:{tools.port}/{topic}/b", "-C", "1", "-W", "20") == b"hello\n"


def test_will(tools, topic, kept, arrivals):
    """--will-…: who is killed leaves the will, with its QoS, as a retained message."""
    assert sorted(payloads(arrivals, 2)) == [b"first", b"hello"]
    will = ["--will-topic", f"{topic}/will", "--will-payload", "gone", "--will-qos", "2", "--will-retain"]
    command = [*tools.subscribe, *tools.place, "-t", f"{topic}/b", *will]
    with subprocess.Popen(["stdbuf", "-oL", *command], stdout=subprocess.PIPE) as tool:
        assert tool.stdout.readline() == b"hello\n"
        tool.send_signal(signal.SIGKILL)
    found = arrivals.get(timeout=WAIT_SECONDS)
    assert (found.topic, found.payload, found.qos) == (f"{topic}/will", b"gone", 2)
    line = tools.sub("-t", f"{topic}/will", "-F", "%r %p", "-C", "1", "-W", "20")
    assert line == b"1 gone\n"
    tools.pub("-t", f"{topic}/will", "-q", "1", "-r", "-n")


# -- what CONNECT says


@dataclass
class Connect:
    """CONNECT, field by field."""

    level: int
    flags: int
    keep_alive: int
    properties: bytes
    texts: list[bytes] = field(default_factory=list)


def read_connect(stream):
    assert stream.read(1) == b"\x10"
    length = shift = 0
    while True:
        (byte,) = stream.read(1)
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    body = stream.read(length)
    assert body[:6] == b"\0\4MQTT"
    level, flags, keep_alive = struct.unpack(">BBH", body[6:10])
    body, properties = body[10:], b""
    if level == 5:
        properties, body = body[1 : 1 + body[0]], body[1 + body[0] :]
    found = Connect(level, flags, keep_alive, properties)
    while body:
        (size,) = struct.unpack(">H", body[:2])
        found.texts.append(body[2 : 2 + size])
        body = body[2 + size :]
    return found


ACCEPTED = {4: b"\x20\2\0\0", 5: b"\x20\3\0\0\0"}


class Listener:
    """Reads CONNECT after CONNECT; answers each with what `answers` has for its level."""

    def __init__(self, answers):
        self.answers, self.connects = answers, []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self):
        while True:
            connection, _ = self.server.accept()
            with connection, connection.makefile("rb") as stream:
                if not stream.peek(1):
                    return
                self.connects.append(read_connect(stream))
                answer = self.answers[self.connects[-1].level]
                connection.sendall(answer)
                if answer in ACCEPTED.values():
                    stream.read()

    def stop(self):
        # A connection that says nothing is the last one.
        socket.create_connection(("127.0.0.1", self.port)).close()
        self.thread.join(WAIT_SECONDS)
        self.server.close()


@pytest.fixture
def listener(request):
    found = Listener(getattr(request, "param", ACCEPTED))
    yield found
    found.stop()


USER, PASSWORD, WILL, CLEAN = 0x80, 0x40, 0x04, 0x02


@pytest.mark.parametrize("family", BOTH)
@pytest.mark.parametrize(
    "flags, level, bits, keep_alive, texts",
    [
        (["-V", "mqttv5", "-i", "me"], 5, CLEAN, 60, [b"me"]),
        (["-V", "mqttv311", "-i", "me", "-k", "17"], 4, CLEAN, 17, [b"me"]),
        (["-V", "mqttv311", "-i", "me", "-c"], 4, 0, 60, [b"me"]),
        (["-V", "mqttv311", "-i", "me", "-u", "u", "-P", "p"], 4, USER | PASSWORD | CLEAN, 60, [b"me", b"u", b"p"]),
        (
            ["-V", "mqttv311", "-i", "me", "--will-topic", "w", "--will-payload", "x", "--will-qos", "1", "--will-retain"],
            4,
            0x20 | 0x08 | WILL | CLEAN,
            60,
            [b"me", b"w", b"x"],
        ),
    ],
    ids=["V5-i", "V311-k", "c", "u-P", "will"],
)
def test_connect(listener, tmp_path, family, flags, level, bits, keep_alive, texts):
    """-V, -i, -k, -c, -u, -P and --will-… as CONNECT has them."""
    Tools(family, listener.port, tmp_path).pub("-t", "t", "-m", "x", *flags)
    (found,) = listener.connects
    assert (found.level, found.flags, found.keep_alive, found.texts) == (level, bits, keep_alive, texts)


@pytest.mark.parametrize("family", BOTH)
def test_session_expiry(listener, tmp_path, family):
    """-x is the Session Expiry Interval of MQTT 5."""
    Tools(family, listener.port, tmp_path).pub("-t", "t", "-m", "x", "-V", "mqttv5", "-i", "me", "-c", "-x", "300")
    (found,) = listener.connects
    assert struct.pack(">BI", 0x11, 300) in found.properties


@pytest.mark.parametrize("family", BOTH)
def test_prefix_of_the_client_id(listener, tmp_path, family):
    """-I: the client id begins so, and goes on with the number of the process; -A is the address that it comes from."""
    Tools(family, listener.port, tmp_path).pub("-t", "t", "-m", "x", "-V", "mqttv311", "-I", "pre-", "-A", "127.0.0.1")
    (found,) = listener.connects
    assert re.fullmatch(rb"pre-\d+", found.texts[0]), found


def test_password_of_standard_input(listener, tmp_path):
    """-P - reads it where no list of processes shows it."""
    tools = Tools("courser", listener.port, tmp_path)
    tools.pub("-t", "t", "-m", "x", "-V", "5", "-i", "me", "-u", "u", "-P", "-", stdin=b"secret\n")
    assert listener.connects[0].texts == [b"me", b"u", b"secret"]


@pytest.mark.parametrize(
    "listener",
    [{**ACCEPTED, 5: b"\x20\2\0\1"}, {**ACCEPTED, 5: b"\x20\3\0\x84\0"}, {**ACCEPTED, 5: b""}],
    ids=["311-code-1", "5-reason-0x84", "closed"],
    indirect=True,
)
def test_fall_back(listener, tmp_path):
    """A broker without 5.0 is spoken to in 3.1.1, unless -V says 5.0 and nothing else."""
    tools = Tools("courser", listener.port, tmp_path)
    tools.pub("-t", "t", "-m", "x", "-i", "me")
    assert [found.level for found in listener.connects] == [5, 4]
    done = subprocess.run(
        [*tools.publish, *tools.place, "-t", "t", "-m", "x", "-V", "5"], capture_output=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode in (1, 3), done
    assert [found.level for found in listener.connects] == [5, 4, 5]
