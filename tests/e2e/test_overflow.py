"""A session that has as many messages waiting as `session.queue_messages_max` allows: what `session.overflow` does with the next."""

import pytest
from broker import until
from clients.base import Subscription

pytestmark = pytest.mark.courser

ROOM, SENT = 10, 25
# More than one batch of the log, and many times the room.
BURST = 400


def absent_with(mqtt, wanted):
    """A session that is away and has subscribed."""
    client, _ = mqtt.resume("absent")
    assert client.subscribe([Subscription(wanted, 1)]) == [1]
    client.disconnect()


def broker_with(mqtt, brokers, overflow):
    """One that may be stopped, or one that other tests have as well."""
    make = brokers.own if mqtt.restarts else brokers.common
    return make(queue_messages=ROOM, overflow=overflow)


def what_waits(mqtt, topic, wanted=None):
    """The numbers that the session gets when it comes back, before what is published then. `wanted`: its filter, where it is not the topic."""
    client, connack = mqtt.resume("absent")
    assert connack.session_may_be(True)
    mqtt.has_connected(client, Subscription(wanted or topic, 1))
    publisher = mqtt.connect("later")
    numbers = [int(message.payload) for message in client.messages(ROOM)]
    # There is room when the broker has the acknowledgements.
    until(lambda: publisher.publish(topic, b"marker", 1) == 0 and not client.inbox.empty(), "there is room again")
    assert client.message().payload == b"marker"
    client.disconnect()
    return numbers


@pytest.mark.restart
@pytest.mark.parametrize("overflow, kept", [("drop_newest", range(ROOM)), ("drop_oldest", range(SENT - ROOM, SENT))])
def test_dropped(mqtt, brokers, overflow, kept):
    """All are acknowledged; the first ones or the last ones are there afterwards, in order."""
    mqtt.broker = broker_with(mqtt, brokers, overflow)
    topic = mqtt.topic()
    absent_with(mqtt, topic)
    publisher = mqtt.connect("pub")
    codes = [publisher.publish(topic, b"%d" % number, 1) for number in range(SENT)]
    assert set(codes) == {0}
    assert what_waits(mqtt, topic) == list(kept)


@pytest.mark.restart
@pytest.mark.parametrize("share", ["", "$share/g/"], ids=["session", "group"])
def test_burst(mqtt, brokers, share):
    """Messages that come faster than they are stored: all are acknowledged, and the last ones are there, as if they had come one by one."""
    mqtt.broker = broker_with(mqtt, brokers, "drop_oldest")
    topic = mqtt.topic()
    absent_with(mqtt, share + topic)
    publisher = mqtt.connect("pub")
    codes = publisher.publish_many([(topic, b"%d" % number) for number in range(BURST)], 1)
    assert set(codes) == {0}
    assert what_waits(mqtt, topic, share + topic) == list(range(BURST - ROOM, BURST))


@pytest.mark.restart
@pytest.mark.v5
def test_refused(mqtt, brokers):
    """What finds no room is refused with 0x97, nothing that was taken is lost, and there is room again when the session has come."""
    mqtt.broker = broker_with(mqtt, brokers, "refuse")
    topic = mqtt.topic()
    absent_with(mqtt, topic)
    publisher = mqtt.connect("pub")
    codes = [publisher.publish(topic, b"%d" % number, 1) for number in range(SENT)]
    assert codes == [0] * ROOM + [0x97] * (SENT - ROOM)
    assert what_waits(mqtt, topic) == list(range(ROOM))
