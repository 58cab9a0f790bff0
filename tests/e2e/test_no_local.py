"""No Local goes by client id: nothing of the same client comes back, whatever session it had when it published."""

import pytest
from clients.base import Subscription, Will

pytestmark = pytest.mark.v5


def quiet(topic: str, qos: int = 2) -> Subscription:
    return Subscription(topic, qos, no_local=True)


def test_retained_by_an_earlier_session(mqtt):
    """What a client retained before a clean start is still its own; that of others is found.

    v5 [MQTT-3.8.3-3]
    """
    first, _ = mqtt.resume("own")
    for qos in range(3):
        first.publish(mqtt.topic(f"own/{qos}"), b"own", qos, retain=True)
    mqtt.connect("other").publish(mqtt.topic("other"), b"other", 1, retain=True)
    first.disconnect()
    again = mqtt.connect("own", clean_start=True)
    again.subscribe([quiet(mqtt.topic("#"))])
    again.publish(mqtt.topic("own/1"), b"own, now", 1)
    mqtt.connect("late").publish(mqtt.topic("late"), b"marker", 1)
    assert {message.payload for message in again.messages_until(b"marker")} <= {b"other"}
    watcher = mqtt.subscriber(mqtt.topic("#"), name="watcher")
    assert sorted(message.payload for message in watcher.messages(4)) == [b"other", b"own", b"own", b"own"]


@pytest.mark.restart
def test_will_of_the_same_client(mqtt):
    """The will of a client is its own message: its session does not queue it, and does not find it.

    v5 [MQTT-3.8.3-3]
    """
    topic = mqtt.topic("will")
    watcher = mqtt.subscriber(quiet(topic), name="watcher")
    client, _ = mqtt.resume("own", will=Will(topic, b"gone", 1, retain=True))
    client.subscribe([quiet(topic)])
    client.drop()
    assert watcher.message().payload == b"gone"
    again, connack = mqtt.resume("own")
    assert connack.session_may_be(True)
    again.subscribe([quiet(mqtt.topic("#"))])
    mqtt.connect("late").publish(topic, b"marker", 1)
    assert again.messages_until(b"marker") == []
