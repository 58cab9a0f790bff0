"""Shared subscriptions, for both versions."""

import time

import pytest
from clients.base import WAIT_SECONDS, Subscription


def collect(members, count):
    """The next `count` messages of a group, by member. Fails when they do not come in time."""
    found = [[] for _ in members]
    deadline = time.monotonic() + WAIT_SECONDS
    while sum(map(len, found)) < count:
        assert time.monotonic() < deadline, f"{[len(part) for part in found]} of {count} messages"
        for part, member in zip(found, members, strict=True):
            if not member.inbox.empty():
                part.append(member.message())
        time.sleep(0.001)
    return found


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_distribution(mqtt, qos):
    """Each message goes to exactly one of three members, each gets its share in order; a plain subscriber gets all.

    v5 [MQTT-4.8.2-3] v5 [MQTT-4.8.2-1]
    """
    topic = mqtt.topic()
    members = [mqtt.subscriber(f"$share/g{mqtt.mark}/{topic}", qos=1, name=f"m{number}") for number in range(3)]
    plain = mqtt.subscriber(topic, qos=2, name="plain")
    mqtt.connect("pub").publish_many([(topic, b"%d" % number) for number in range(90)], qos)
    assert [message.payload for message in plain.messages(90)] == [b"%d" % number for number in range(90)]
    parts = collect(members, 90)
    for part in parts:
        numbers = [int(message.payload) for message in part]
        assert len(numbers) >= 10, f"{len(numbers)} of 90 messages for one of three members"
        assert numbers == sorted(numbers)
        assert all(message.qos == min(qos, 1) for message in part)
    assert sorted(int(message.payload) for part in parts for message in part) == list(range(90))


def test_two_groups_on_one_filter(mqtt):
    """Each group gets each message once."""
    topic = mqtt.topic()
    groups = [[mqtt.subscriber(f"$share/{g}{mqtt.mark}/{topic}", qos=1, name=f"{g}{n}") for n in range(2)] for g in "ab"]
    mqtt.connect("pub").publish_many([(topic, b"%d" % number) for number in range(40)], 1)
    for members in groups:
        parts = collect(members, 40)
        assert sorted(int(message.payload) for part in parts for message in part) == list(range(40))


def test_shared_and_plain_of_one_client(mqtt):
    """A client with a shared and a plain subscription gets a delivery for each."""
    topic = mqtt.topic()
    client = mqtt.connect("sub")
    client.subscribe([Subscription(topic, 1), Subscription(f"$share/g{mqtt.mark}/{topic}", 1)])
    mqtt.connect("pub").publish(topic, b"twice", 1)
    assert [message.payload for message in client.messages(2)] == [b"twice", b"twice"]


def test_no_retained_for_shared(mqtt):
    """Retained messages are not sent to a new shared subscription."""
    topic = mqtt.topic()
    publisher = mqtt.connect("pub")
    publisher.publish(topic, b"kept", 1, retain=True)
    member = mqtt.subscriber(f"$share/g{mqtt.mark}/{topic}", qos=1)
    publisher.publish(topic, b"marker", 1)
    assert member.messages_until(b"marker") == []
    publisher.publish(topic, b"", 1, retain=True)


def test_member_leaves(mqtt):
    """After a member's UNSUBACK or end all messages go to those who stay."""
    topic = mqtt.topic()
    shared = f"$share/g{mqtt.mark}/{topic}"
    stays = mqtt.subscriber(shared, qos=1, name="stays")
    leaves = mqtt.subscriber(shared, qos=1, name="leaves")
    dies = mqtt.subscriber(shared, qos=1, name="dies")
    leaves.unsubscribe([shared])
    dies.disconnect()
    # The broker may read the end later than a publish on another connection, but not later than it lets the same client in again.
    mqtt.connect("dies")
    publisher = mqtt.connect("pub")
    publisher.publish_many([(topic, b"%d" % number) for number in range(20)], 1)
    assert [int(message.payload) for message in stays.messages(20)] == list(range(20))
    assert leaves.inbox.empty()


def test_redelivery_to_another_member(mqtt):
    """QoS 1 messages that a member held without acknowledging go to another one when its session ends."""
    topic = mqtt.topic()
    shared = f"$share/g{mqtt.mark}/{topic}"
    holder = mqtt.connect("holder", manual_acks=True)
    holder.subscribe([Subscription(shared, 1)])
    mqtt.connect("pub").publish_many([(topic, b"%d" % number) for number in range(10)], 1)
    holder.messages(10)
    other = mqtt.subscriber(shared, qos=1, name="other")
    holder.drop()
    assert [int(message.payload) for message in other.messages(10)] == list(range(10))


@pytest.mark.courser
def test_least_outstanding(mqtt, brokers):
    """The member that has the fewest messages without acknowledgement gets the next one: who holds one gets no second while the other acknowledges."""
    mqtt.broker = brokers.common(shared_strategy="least_outstanding")
    topic, beside = mqtt.topic("work"), mqtt.topic("beside")
    holds, works = (mqtt.connect(name, manual_acks=True) for name in ("holds", "works"))
    for member in (holds, works):
        member.subscribe([Subscription(f"$share/g{mqtt.mark}/{topic}", 1)])
    # The worker publishes itself: what it has acknowledged before is known to the group when its next message comes.
    for number in range(2):
        works.publish(topic, b"%d" % number, 1)
    held, first = holds.message(), works.message()
    assert {held.payload, first.payload} == {b"0", b"1"}
    works.ack(first)
    for number in range(2, 12):
        works.publish(beside, b"", 1)
        works.publish(topic, b"%d" % number, 1)
        message = works.message()
        assert message.payload == b"%d" % number
        works.ack(message)
    assert holds.inbox.empty()


@pytest.mark.courser
def test_sticky(mqtt, brokers):
    """One member gets everything for as long as it is there and has room; then another one does."""
    mqtt.broker = brokers.common(shared_strategy="sticky")
    topic = mqtt.topic()
    members = {name: mqtt.subscriber(f"$share/g{mqtt.mark}/{topic}", qos=1, name=name) for name in "abc"}
    publisher = mqtt.connect("pub")

    def who_gets_ten():
        found = set()
        for number in range(10):
            publisher.publish(topic, b"%d" % number, 1)
            parts = collect(list(members.values()), 1)
            found |= {name for name, part in zip(members, parts, strict=True) if part}
        return found

    (first,) = who_gets_ten()
    members.pop(first).disconnect()
    (second,) = who_gets_ten()
    assert second != first


@pytest.mark.courser
def test_hash_topic(mqtt, brokers):
    """All messages of a topic go to one member, topics to all of them; when one leaves, only its own topics move."""
    mqtt.broker = brokers.common(shared_strategy="hash_topic")
    topics = [mqtt.topic(f"{number}") for number in range(60)]
    members = {name: mqtt.subscriber(f"$share/g{mqtt.mark}/{mqtt.topic('+')}", qos=1, name=name) for name in "abc"}
    publisher = mqtt.connect("pub")

    def owners():
        publisher.publish_many([(topic, b"%d" % number) for number in range(3) for topic in topics], 1)
        parts = collect(list(members.values()), 3 * len(topics))
        found = {}
        for name, part in zip(members, parts, strict=True):
            for message in part:
                found.setdefault(message.topic, []).append((name, message.payload))
        for of_topic in found.values():
            name = of_topic[0][0]
            assert of_topic == [(name, b"%d" % number) for number in range(3)]
        return {topic: of_topic[0][0] for topic, of_topic in found.items()}

    before = owners()
    assert set(before.values()) == set(members), "each has some"
    members.pop("b").disconnect()
    after = owners()
    assert set(after.values()) == set(members)
    assert all(after[topic] == owner for topic, owner in before.items() if owner in members)


def test_wildcard_filter_in_share(mqtt):
    """The filter behind the share name may have wildcards."""
    member = mqtt.subscriber(f"$share/g{mqtt.mark}/{mqtt.topic('w/+/z')}", qos=1)
    publisher = mqtt.connect("pub")
    publisher.publish(mqtt.topic("w/1/y"), b"no", 1)
    publisher.publish(mqtt.topic("w/1/z"), b"yes", 1)
    assert member.message().payload == b"yes"


@pytest.mark.v5
def test_identifier_of_shared_subscription(mqtt):
    """A shared delivery carries the identifier of the member's own subscription."""
    topic = mqtt.topic()
    client = mqtt.connect("sub")
    client.subscribe([Subscription(f"$share/g{mqtt.mark}/{topic}", 1)], {"subscription_id": 9})
    mqtt.connect("pub").publish(topic, b"x", 1)
    assert client.message().properties["subscription_ids"] == [9]
