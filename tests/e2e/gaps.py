"""What a library cannot do, and what Mosquitto does otherwise: one table each, every entry with its reason.

`GAPS`: an adapter raises `Unsupported(feature)`, the test is then counted as an expected failure with the reason from here.
An entry that no test ran into during a whole run is out of date, and fails the run.

`CANNOT`: (library, test) pairs in which the library itself behaves in another way; the test still runs and is expected to
fail, strictly: should it pass, the entry must go. `run=False` only where running would hang or kill the client.

`DEVIATIONS`: the same for `--broker mosquitto` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

# library -> feature -> reason
GAPS: dict[str, dict[str, str]] = {
    "gmqtt": {
        "an empty client id": "the library makes up an id of its own",
        "manual acknowledgement in 3.1.1": "acknowledges before the callback runs, except in 5.0",
        "properties of a CONNACK that refuses": "raises the reason code and drops the rest",
    },
    "mosquitto": {
        "details of CONNACK": "the tools print no properties of it",
        "manual acknowledgement": "the tools acknowledge by themselves",
        "a SUBSCRIBE at a chosen time": "mosquitto_sub subscribes once, when it starts",
        "messages without a SUBSCRIBE": "mosquitto_sub subscribes each time it is started, also where the session has subscriptions",
        "notice of a closed connection in 3.1.1": "mosquitto_sub connects again without a word",
        "an UNSUBSCRIBE at a chosen time": "mosquitto_sub -U unsubscribes when it starts",
        "several QoS or Retain As Published in one SUBSCRIBE": "one -q and one --retain-as-published for all filters",
        "No Local and Retain Handling": "2.0.11 has no options for them",
        "publishing and subscribing on one connection": "they are two tools",
        "a topic alias across messages": "mosquitto_pub with -D publish topic-alias sends the whole topic each time",
        "binary correlation data": "-D takes text",
        "reason and properties of DISCONNECT": "a signal is the only way to end mosquitto_sub, and takes none",
        "properties of a DISCONNECT": "the tools print no more than its reason code",
        "DISCONNECT 0x00 with a will": "on a signal mosquitto_sub sends 0x04 in 5.0",
    },
    "mqttjs": {
        "manual acknowledgement": "handles no further packet while an acknowledgement is held back",
        "the order of user properties of different names": "keeps user properties in an object by name",
    },
    "hivemq": {
        "a chosen topic alias": "the library gives aliases by itself",
        "a chosen subscription identifier": "the library uses identifiers for itself and hides them",
    },
}


@dataclass(frozen=True)
class Expected:
    """`test` is a pattern for the test's name with its parameters, such as `test_will_delay[paho-v5]`."""

    test: str
    reason: str
    run: bool = True
    strict: bool = True


CANNOT: list[Expected] = [
    # Not strict: a broker that gives no aliases, as Mosquitto, does not bring it out.
    Expected("test_topic_alias_to_client[paho-v5]", "paho asks for aliases and then hands over an empty topic", strict=False),
    Expected("test_topic_alias_to_client[mosquitto-v5]", "libmosquitto asks for aliases and then rejects them", strict=False),
    Expected(
        "test_long_and_unicode_client_id[gmqtt-*]",
        "gmqtt 0.8.0 counts letters of the client id, not bytes: its CONNECT is too short, and the broker waits for the rest",
    ),
]

DEVIATIONS: list[Expected] = [
    Expected("test_bad_filter[*-$share//a]", "Mosquitto 2.0.11 takes it for a plain topic filter"),
    Expected("test_bad_filter[*-$share/]", "Mosquitto 2.0.11 takes it for a plain topic filter"),
    Expected("test_bad_filter[*-$share/g/]", "Mosquitto 2.0.11 takes it for a plain topic filter"),
    Expected("test_bad_filter[*-$share/g]", "Mosquitto 2.0.11 takes it for a plain topic filter"),
    Expected("test_bad_properties[v5-authentication data without method]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_bad_will_properties[v5-payload format 2]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_bad_will_properties[v5-wildcard in response topic]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection[*-PINGREQ flags]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection[*-PINGREQ with a body]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection[*-PINGRESP from a client]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection[*-PUBACK flags]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection[*-PUBCOMP flags]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection[*-PUBLISH DUP with QoS 0]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection[*-PUBREC flags]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection[*-SUBACK from a client]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection[*-UNSUBACK from a client]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection_5_0[v5-No Local on a shared subscription]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection_5_0[v5-PUBACK with an unknown reason]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection_5_0[v5-PUBREL with a reason of PUBREC]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection_5_0[v5-payload format 2]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection_5_0[v5-subscription identifier from a client]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_ends_connection_5_0[v5-topic alias 0]", "Mosquitto 2.0.11 says 0x81"),
    Expected("test_ends_connection_5_0[v5-wildcard in response topic]", "Mosquitto 2.0.11 lets it pass"),
    Expected("test_reason_is_told[v5]", "Mosquitto 2.0.11 closes after a second CONNECT without DISCONNECT"),
    Expected("test_unknown_packet_ids_do_no_harm[v5]", "Mosquitto answers 0x00"),
    Expected("test_takeover[*-v5]", "Mosquitto 2.0.11 closes the older connection without DISCONNECT 0x8E"),
    Expected("test_overlapping_subscriptions[*]", "Mosquitto sends a copy for each subscription (5.0), or that of the first match"),
    Expected("test_subscription_identifiers[*]", "Mosquitto sends a copy for each subscription, each with one identifier"),
    Expected("test_shared_and_plain_of_one_client[*-v3]", "Mosquitto drops the second copy for a 3.1.1 client as a duplicate"),
    Expected("test_no_retained_for_shared[*]", "Mosquitto 2.0.11 sends retained messages to shared subscriptions"),
    Expected("test_will_delay_cut_by_clean_start[*]", "Mosquitto 2.0.11 loses the delayed will at a clean start"),
    Expected("test_receive_maximum_is_kept[v5-3-*]", "Mosquitto sends as many as the window at each acknowledgement"),
    Expected("test_receive_maximum_is_kept[v5-10-*]", "Mosquitto sends as many as the window at each acknowledgement"),
    Expected("test_receive_maximum_after_resume[v5]", "Mosquitto sends again all that was under way, whatever the new window"),
    Expected("test_qos2_repeated_before_pubrel[*]", "Mosquitto ends the connection at the second repeat"),
    Expected("test_partial_connect_is_cut[*]", "Mosquitto waits as long as the default keep alive"),
    Expected("test_keep_alive[*]", "Mosquitto looks at keep alive every few seconds only", strict=False),
    Expected("test_takeover_tells_the_old_one[*]", "Mosquitto 2.0.11 sends neither 0x8E nor the will where the session goes on"),
    Expected("test_packet_limit_of_broker[*]", "Mosquitto does not deliver a packet of just its maximum"),
    Expected("test_packet_limit_of_client[*]", "Mosquitto sends one byte more than the client's maximum"),
    Expected("test_aliases_to_client[v5-2]", "Mosquitto 2.0.11 gives no aliases"),
    Expected("test_identifier_and_shared_options_on_wire[*]", "Mosquitto sends a copy for each subscription"),
    Expected("test_pipelined[mosquitto-v5-2]", "Mosquitto exceeds its own tools' Receive Maximum of 20", strict=False),
    Expected("test_distribution[mosquitto-v5-2]", "Mosquitto exceeds its own tools' Receive Maximum of 20", strict=False),
    Expected("test_offline_queue[mosquitto-v5]", "Mosquitto exceeds its own tools' Receive Maximum of 20", strict=False),
    Expected("test_emqx_860_2494_slow_wildcard_subscriber[*]", "Mosquitto runs without limits here, and keeps it all", strict=False),
    Expected("test_moquette_cve_2026_95845_unbounded_queue[*]", "Mosquitto runs without limits here, and keeps it all", strict=False),
    Expected("test_too_long_client_id[*]", "Mosquitto takes client ids of any length"),
    Expected("test_receive_maximum_of_client[*]", "Mosquitto sends five more at each acknowledgement"),
    Expected("test_redelivery_to_another_member[*]", "Mosquitto drops what a member held when its session ends"),
]


def expected(name: str, broker: str) -> Expected | None:
    """The entry for a test, if any."""
    table = CANNOT + (DEVIATIONS if broker == "mosquitto" else [])
    return next((entry for entry in table if fnmatchcase(name, entry.test.replace("[", "[[]"))), None)
