"""Inputs that have stopped or filled other brokers, by the names of their advisories.

Each ends with the same proof: the broker is alive, its memory has not grown out of bounds, and a neighbour that was connected
all along publishes and receives.
"""

import contextlib
import random
import threading

import pytest
import wire
from broker import until
from wire import CONNACK, PUBLISH, V3, V5

MIB = 1 << 20
GROWTH = 64 * MIB


@pytest.fixture
def healthy(raw):
    """A neighbour connected before the attack; checked after it."""
    neighbour = raw.subscriber(raw.topic("neighbour"), name="neighbour", qos=1)
    before = raw.broker.rss_bytes()
    yield
    raw.broker.check_alive()
    neighbour.send(wire.publish(raw.version, raw.topic("neighbour"), b"alive", qos=1, packet_id=7))
    kinds = sorted(neighbour.receive().kind for _ in range(2))
    assert kinds == [PUBLISH, wire.PUBACK]
    raw.connect("newcomer").ping()
    grown = raw.broker.rss_bytes() - before
    assert grown < GROWTH, f"{grown >> 20} MiB more than before"


pytestmark = pytest.mark.usefixtures("healthy")


def attack(raw, *packets, connected=True, **options):
    """Sends the packets on a connection of their own and takes whatever comes."""
    client = raw.open()
    if connected:
        client.connect(options.pop("client_id", "attacker" + raw.mark), **options)
    with contextlib.suppress(OSError):
        client.send(*packets)
    return client


def test_cve_2017_7651_huge_connects(raw):
    """CONNECT headers that announce 256 MiB, on 300 connections, none finished."""
    clients = []
    for _ in range(300):
        client = raw.open()
        with contextlib.suppress(OSError):
            client.send(b"\x10\xff\xff\xff\x7f\0\x04MQTT", b"x" * 8000)
        clients.append(client)
    raw.connect("meanwhile").ping()
    for client in clients[:20]:
        assert client.expect_refused(0x95, 0x81) in (None, 0x95, 0x81)


def test_cve_2017_7650_wildcard_client_ids(raw):
    """Client ids and user names of # and +: they are names like any other, or refused; they match nothing."""
    watcher = raw.subscriber(raw.topic("#"))
    for name in ("#", "+", "a/#", "/", "$SYS", "../../x", "%c", "*", ".*"):
        client = raw.open()
        client.send(wire.connect(raw.version, name, username=name, password=b""))
        found = client.receive()
        assert found is None or found.kind == CONNACK
        if found is not None and found.reason == 0:
            client.publish(raw.topic("x"), name.encode())
            watcher.message(payload=name.encode())


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"a\0"])
def test_cve_2017_7653_ill_formed_topics(raw, bad):
    """A topic that is not UTF-8 ends its sender and reaches no subscriber."""
    watcher = raw.subscriber("#", raw.topic("end"))
    attack(raw, wire.publish(raw.version, b"bad/" + bad, b"poison")).expect_closed()
    raw.connect("pub").publish(raw.topic("end"), b"marker")
    while watcher.expect(PUBLISH).payload != b"marker":
        assert watcher.trace[-1].find("poison") < 0


@pytest.mark.parametrize("topic", ["$", "$x", "$x/y", "$SYS", "$SYS/broker/version", "$share", "$share/g/t", "$queue/a", "$/"])
def test_cve_2018_12543_dollar_topics(raw, topic):
    """A publish to a $-topic does not stop the broker."""
    for qos in (0, 1, 2):
        client = attack(raw, wire.publish(raw.version, topic, b"x", qos=qos, packet_id=1 if qos else None), wire.PING)
        client.receive()


@pytest.mark.v5
def test_cve_2019_11778_will_delay_beyond_session(raw):
    """A will delay longer than the session: the will comes at the session's end, once."""
    watcher = raw.subscriber(raw.topic("will"))
    for number in range(20):
        client = raw.connect(
            f"c{number}", properties={"session_expiry": 1},
            will=wire.Will(raw.topic("will"), b"%d" % number, properties={"will_delay": 0xFFFFFFFF}),
        )  # fmt: skip
        client.reset()
    assert sorted(int(watcher.message().payload) for _ in range(20)) == list(range(20))


@pytest.mark.parametrize("levels", [200, 65_400])
def test_cve_2019_11779_deep_filters(raw, levels):
    """Filters and topics of tens of thousands of levels: refused or taken, never recursed into."""
    for name in ("/" * levels, "/".join("+" * (levels // 2)), "+/" * (levels // 2) + "#"):
        client = attack(raw, wire.subscribe(raw.version, 1, [(name, 0)]))
        found = client.receive()
        if found is not None and found.kind == wire.SUBACK and found.reasons[0] < 0x80:
            client.send(wire.unsubscribe(raw.version, 2, [name]))
            client.receive()
    attack(raw, wire.publish(raw.version, "/" * levels, b"x", retain=True), wire.PING).receive()
    attack(raw, wire.publish(raw.version, "/" * levels, b"", retain=True), wire.PING).receive()


def test_cve_2020_13849_long_keep_alive(raw):
    """A hundred connections with keep alive 65,535 that never speak again do not hinder others."""
    held = [raw.connect(f"held{number}", keep_alive=65535) for number in range(100)]
    raw.connect("other").ping()
    held[50].ping()


def test_cve_2021_28166_connack_from_client(raw):
    """CONNACK sent by a client, after login and before."""
    packet = b"\x20\x02\0\0" if raw.version == V3 else b"\x20\x03\0\0\0"
    attack(raw, packet).expect_closed(0x81, 0x82)
    assert attack(raw, packet, connected=False).receive() is None


def test_cve_2021_34432_empty_topic(raw):
    """PUBLISH without a topic."""
    for qos in (0, 1, 2):
        packet = wire.publish(raw.version, "", b"x", qos=qos, packet_id=1 if qos else None)
        attack(raw, packet).expect_closed(0x81, 0x82, 0x90)


# How /proc/net/tcp names the timer that asks a peer whether it is there, and when it does so at the latest, in hundredths of a second.
KEEP_ALIVE_TIMER, PEER_SILENCE = "02", 300 * 100


def timer(client):
    """The kernel's timer of the broker's side of a connection: which one, and when it goes off."""
    here, there = (f":{address[1]:04X}" for address in (client.sock.getsockname(), client.sock.getpeername()))
    for line in open("/proc/net/tcp").read().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(there) and fields[2].endswith(here):
            which, when = fields[5].split(":")
            return which, int(when, 16)
    raise AssertionError("the broker has no such connection")


@pytest.mark.courser
def test_cve_2020_13849_the_kernel_asks_who_never_speaks(raw):
    """Without a keep-alive nothing of MQTT ends a connection whose peer has vanished: the kernel asks it, from five minutes of silence on."""
    held = raw.connect("held", keep_alive=0)
    # Until CONNACK is acknowledged it is another timer's turn.
    until(lambda: timer(held)[0] == KEEP_ALIVE_TIMER, "it asks")
    assert timer(held)[1] <= PEER_SILENCE


@pytest.mark.v5
def test_mosquitto_2_0_12_many_user_properties(raw):
    """CONNECT with tens of thousands of user properties, on twenty connections at once."""
    pairs = wire.prop("user_property", ("k", "")) * 30_000
    clients = []
    for _ in range(20):
        client = raw.open()
        with contextlib.suppress(OSError):
            client.send(wire.connect(V5, "many", properties=pairs))
        clients.append(client)
    raw.connect("meanwhile").ping()
    for client in clients:
        client.receive()


@pytest.mark.v5
def test_mosquitto_2_0_12_many_user_properties_of_a_publish(raw):
    """PUBLISH with tens of thousands of user properties, on twenty connections at once: over quota, and nobody else notices."""
    pairs = wire.prop("user_property", ("k", "")) * 30_000
    reader = raw.subscriber(raw.topic("many"), name="reader", qos=1)
    clients = [raw.connect(f"many{number}") for number in range(20)]
    for client in clients:
        with contextlib.suppress(OSError):
            client.send(wire.publish(V5, raw.topic("many"), b"x", qos=1, packet_id=1, properties=pairs))
    raw.connect("meanwhile").ping()
    for client in clients:
        client.expect_closed(0x97)
    reader.ping()


@pytest.mark.parametrize("kind", [wire.PUBLISH, wire.SUBSCRIBE, wire.PINGREQ, wire.AUTH, 0])
def test_cve_2023_0809_large_first_packet(raw, kind):
    """A first packet that is not CONNECT and announces 200 MiB: closed at its first byte, nothing kept."""
    for _ in range(20):
        client = raw.open()
        with contextlib.suppress(OSError):
            client.send(bytes([kind << 4]) + b"\x80\x80\x80\x64", b"x" * 60_000)
        assert client.read_all() == b""


def is_taken(raw, client_id):
    """Whether a CONNECT is accepted; another one that the broker comes to later may displace it while it waits for its session."""
    client = raw.open()
    client.send(wire.connect(raw.version, client_id))
    found = client.receive()
    assert found.kind == CONNACK and found.reason in (0, 0x89 if raw.v5 else 3), found
    return found.reason == 0


def test_cve_2024_8376_random_sequences(raw):
    """Random sequences of CONNECT, DISCONNECT, SUBSCRIBE, UNSUBSCRIBE and PUBLISH, with reused ids and takeovers."""
    for seed in range(60):
        source = random.Random(seed)
        for _ in range(4):
            client = raw.open()
            packets = [wire.connect(raw.version, f"x{source.randrange(3)}{raw.mark}", clean=source.random() < 0.5)]
            for _ in range(30):
                topic = raw.topic(source.choice(["a", "b", "a/b", "+", "#", "$share"]))
                packets.append(
                    source.choice(
                        [
                            wire.connect(raw.version, "again") if source.random() < 0.05 else wire.PING,
                            wire.disconnect(raw.version) if source.random() < 0.1 else wire.PING,
                            wire.subscribe(raw.version, source.randrange(1, 4), [(topic, source.randrange(3))]),
                            wire.unsubscribe(raw.version, source.randrange(1, 4), [topic]),
                            wire.publish(raw.version, raw.topic("a"), b"x", qos=2, packet_id=source.randrange(1, 4)),
                            wire.publish(raw.version, raw.topic("a/b"), b"", qos=1, packet_id=1, retain=True),
                            wire.ack(wire.PUBREL, source.randrange(1, 4)),
                            wire.ack(wire.PUBREC, source.randrange(1, 4)),
                            wire.ack(wire.PUBCOMP, source.randrange(1, 4)),
                        ]
                    )
                )
            with contextlib.suppress(OSError):
                client.send(*packets)
            if source.random() < 0.5:
                client.close()
    for name in range(3):
        until(lambda name=name: is_taken(raw, f"x{name}{raw.mark}"), "the client id is to be had")


def test_emqx_cve_2021_33175_vernemq_33176_one_packet(raw):
    """One packet whose inner lengths lie: topic, will, filter and property lengths of 65,535 in short packets."""
    for body in (b"\xff\xff", b"\xff\xffa", b"\0\x01a" + b"\xff\xff\xff\x7f", b"\0\x01\xff\xff"):
        for kind, flags in ((PUBLISH, 0), (PUBLISH, 2), (wire.SUBSCRIBE, 2), (wire.UNSUBSCRIBE, 2)):
            attack(raw, wire.packet(kind, body, flags)).close()
        attack(raw, wire.packet(wire.CONNECT, body), connected=False).close()


def test_emqx_860_2494_slow_wildcard_subscriber(raw):
    """One subscriber to everything that never reads: what is kept for it is bounded."""
    slow = raw.subscriber(raw.topic("#"), name="slow")
    publisher = raw.connect("pub")
    for number in range(2000):
        publisher.send(wire.publish(raw.version, raw.topic(f"s/{number % 100}"), b"x" * 65_000))
        if number % 50 == 0:
            publisher.ping()
    publisher.ping()
    slow.close()


def test_emqx_cve_2026_8741_qos2_timing(raw):
    """QoS 2 publish, release and takeover of one persistent session, racing: each message comes once, however often it was sent.

    v3 [MQTT-4.3.3-2] v5 [MQTT-4.3.3-10]
    """
    numbers = range(1, 31)
    connect = wire.connect(raw.version, "race" + raw.mark, clean=False, properties={"session_expiry": 60} if raw.v5 else ())

    def race(*packets_of_each):
        """Each on a connection of its own, all at once; ends when each was taken into the session or refused."""
        clients = [raw.open() for _ in numbers]
        for client, packets in zip(clients, packets_of_each, strict=True):
            with contextlib.suppress(OSError):
                client.send(connect, *packets)
        for client in clients:
            client.receive()

    def calm():
        client = raw.open()
        client.send(connect)
        client.expect(CONNACK, reason=0, session_present=True)
        return client

    def again(number):
        return wire.publish(raw.version, raw.topic("q"), b"%d" % number, qos=2, packet_id=number, dup=True)

    watcher = raw.subscriber(raw.topic("q"), qos=0)
    race(*((wire.publish(raw.version, raw.topic("q"), b"%d" % n, qos=2, packet_id=n), again(n)) for n in numbers))
    # Not released so far, so that none of these is a new message.
    race(*((again(n), again(n)) for n in numbers))
    last = calm()
    for number in numbers:
        last.send(again(number))
        assert last.expect(wire.PUBREC, packet_id=number).reason < 0x80
    race(*((wire.ack(wire.PUBREL, number),) * 2 for number in numbers))
    last = calm()
    for number in numbers:
        last.send(wire.ack(wire.PUBREL, number))
        last.expect(wire.PUBCOMP, packet_id=number)
    raw.connect("pub").publish(raw.topic("q"), b"marker", qos=1)
    found = []
    while (message := watcher.message()).payload != b"marker":
        found.append(int(message.payload))
    assert sorted(found) == list(numbers)
    raw.open().connect("race" + raw.mark)


@pytest.mark.v5
def test_nanomq_cve_2026_21888_five_byte_property_length(raw):
    """Property lengths as variable byte integers of five bytes, in every packet that has properties."""
    bad = b"\x80\x80\x80\x80\x01"
    for kind, head, flags in (
        (PUBLISH, b"\0\x01a", 0), (wire.SUBSCRIBE, b"\0\x01", 2), (wire.UNSUBSCRIBE, b"\0\x01", 2), (wire.PUBACK, b"\0\x01\0", 0),
        (wire.DISCONNECT, b"\0", 0), (wire.AUTH, b"\x18", 0),
    ):  # fmt: skip
        attack(raw, wire.packet(kind, head + bad, flags)).expect_closed(0x81, 0x82)
    attack(raw, wire.packet(wire.CONNECT, b"\0\x04MQTT\x05\x02\0\x3c" + bad), connected=False).expect_refused(0x81, 0x82)


def test_nanomq_cve_2025_68699_share_without_filter(raw):
    """SUBSCRIBE to `$share/ab`, then publishes that might match it."""
    client = attack(raw, wire.subscribe(raw.version, 1, [("$share/ab", 0)]))
    client.receive()
    publisher = raw.connect("pub")
    for topic in ("ab", "/", "$share/ab"):
        publisher.send(wire.publish(raw.version, topic, b"x"))
        if topic != "$share/ab":
            publisher.ping()


def test_nanomq_cve_2026_22040_takeover_and_churn(raw):
    """Publishes, takeovers of one client id and changes of subscriptions, all at once from four threads."""
    errors = []

    def churn(seed):
        source = random.Random(seed)
        for _ in range(60):
            client = raw.open()
            try:
                client.connect("victim" + raw.mark, clean=source.random() < 0.5)
                for number in range(10):
                    client.send(
                        wire.subscribe(raw.version, 1, [(raw.topic("x"), 1)]),
                        wire.publish(raw.version, raw.topic("x"), b"%d" % number, qos=1, packet_id=2),
                        wire.unsubscribe(raw.version, 3, [raw.topic("x")]),
                    )
            except (OSError, AssertionError) as error:
                if isinstance(error, wire.WireError):
                    errors.append(error)
            client.close()

    threads = [threading.Thread(target=churn, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    raw.broker.check_alive()


def test_flashmq_cve_2024_42645_crafted_retained(raw):
    """Retained messages at the edges: empty ones never set, the largest, wildcards on none, set and cleared in turn."""
    client = raw.connect("attacker")
    for topic in ("/", "//", " ", "a/" * 60, "\ufeff", "é" * 500):
        for payload in (b"", b"x", b"", b"", b"x" * 100_000, b""):
            client.publish(raw.topic(topic), payload, qos=1, retain=True)
    watcher = raw.subscriber(raw.topic("#"), name="watcher")
    watcher.ping()


def test_moquette_cve_2026_95842_error_in_a_command(raw):
    """A client whose command fails does not stop those served by the same loop."""
    others = [raw.connect(f"o{number}") for number in range(8)]
    for _ in range(16):
        attack(raw, wire.publish(raw.version, "a/#", b"x")).expect_closed()
    for other in others:
        other.ping()


def test_moquette_cve_2026_95843_malformed_share(raw):
    """Malformed shared filters in SUBSCRIBE and UNSUBSCRIBE."""
    for name in ("$share", "$share/", "$share//", "$share/g", "$share/g/", "$share/+/a", "$share/#", "$share/g/#/x", "$SHARE/g/a"):
        attack(raw, wire.subscribe(raw.version, 1, [(name, 1)]), wire.PING).receive()
        attack(raw, wire.unsubscribe(raw.version, 1, [name]), wire.PING).receive()


@pytest.mark.timeout(120)
def test_moquette_cve_2026_95845_unbounded_queue(raw):
    """300 MB of QoS 1 for an absent session: kept within its limit, the publisher is served on."""
    client, _ = raw.resume("absent")
    client.subscribe(raw.topic("q"), qos=1)
    client.disconnect()
    publisher = raw.connect("pub")
    payload = b"x" * 100_000
    for start in range(0, 3000, 20):
        ids = range(1, 21)
        publisher.send(*(wire.publish(raw.version, raw.topic("q"), payload, qos=1, packet_id=number) for number in ids))
        for number in ids:
            publisher.expect(wire.PUBACK, packet_id=number)
    publisher.ping()
    again, present = raw.resume("absent", clean=True)
    assert not present


def test_moquette_cve_2026_95847_client_ids_as_keys(raw):
    """Client ids that look like paths, keys or separators are sessions of their own."""
    names = [raw.mark + tail for tail in ("", "/", "/..", "\u00a0", "_", ":", ";", "\x7f", "'", '"', "\n", "a" * 900)]
    clients = {}
    for name in names:
        client = raw.open()
        client.send(wire.connect(raw.version, name, clean=False, properties={"session_expiry": 9} if raw.v5 else ()))
        found = client.receive()
        if found is None or found.reason:
            continue  # refusing such an id is allowed; mixing it up is not
        client.subscribe(raw.topic("own"), qos=1)
        clients[name] = client
    assert len(clients) >= 6
    raw.connect("pub").publish(raw.topic("own"), b"x", qos=1)
    for client in clients.values():
        client.message(payload=b"x")


def test_nats_cve_2026_58213_control_characters(raw):
    """Control characters in filters and topics stay what they are."""
    for name in ("a\r\nPUB x 1\r\n", "\x01\x02", "\x7f", "a\tb"):
        client = raw.open()
        client.connect(raw.client_id("c"))
        client.send(wire.subscribe(raw.version, 1, [(raw.topic(name), 0)]))
        found = client.receive()
        if found is None or found.kind == wire.DISCONNECT:
            continue
        if found.reasons[0] < 0x80:
            client.send(wire.publish(raw.version, raw.topic(name), b"x"))
            packet = client.receive()
            assert packet is None or packet.kind == wire.DISCONNECT or packet.topic == raw.topic(name)


def test_rabbitmq_cve_2026_44838_regex_client_ids(raw):
    """Client ids with the characters of regular expressions name only their own session."""
    victim, _ = raw.resume("victim")
    victim.subscribe(raw.topic("v"), qos=1)
    for name in (".*", "victim.*", "(a+)+$", "[a-z]*", "\\", "^" + "(x+x+)+" * 30 + "y"):
        client = raw.open()
        client.send(wire.connect(raw.version, name))
        found = client.receive()
        assert found is None or not found.session_present
    victim.ping()


def test_sol_2026_puback_before_connect(raw):
    """40 02 00 01 as the first bytes."""
    for packet in (b"\x40\x02\0\x01", b"\x50\x02\0\x01", b"\x62\x02\0\x01", b"\x70\x02\0\x01"):
        assert attack(raw, packet, connected=False).receive() is None


def crafted(version):
    """Packets of every kind that a client sends, right but for one byte: each byte with one bit, with the highest bit or all bits changed."""
    more = {"user_property": ("k", "v"), "message_expiry": 1, "topic_alias": 1} if version == V5 else ()
    will = wire.Will("will", b"gone", qos=2, retain=True, properties={"will_delay": 1} if version == V5 else ())
    right = [
        wire.connect(version, "crafted", username="u", password=b"p", will=will, properties={"receive_maximum": 9} if version == V5 else ()),
        wire.publish(version, "a/b", b"payload", qos=2, packet_id=7, retain=True, properties=more),
        wire.subscribe(version, 8, [("a/#", 1), ("$share/g/+/b", 2)], {"subscription_id": 5} if version == V5 else ()),
        wire.unsubscribe(version, 9, ["a/#", "x"]),
        *(wire.ack(kind, 7) for kind in (wire.PUBACK, wire.PUBREC, wire.PUBREL, wire.PUBCOMP)),
        wire.disconnect(version, *([4, {"reason_string": "x"}] if version == V5 else [])),
        wire.PING,
    ]
    for packet in right:
        for at in range(len(packet)):
            for change in (1, 0x80, 0xFF):
                yield packet[:at] + bytes([packet[at] ^ change]) + packet[at + 1 :]


def test_nanomq_cve_2024_42646_42649_2023_34494_crafted_packets(raw):
    """Each packet with a byte changed, first as it is and then behind a CONNECT and before a right one: taken or refused, nothing else."""
    for packet in crafted(raw.version):
        for connected in (False, True):
            client = attack(raw, packet, wire.subscribe(raw.version, 1, [("a/#", 0)]), wire.PING, connected=connected)
            client.close()
