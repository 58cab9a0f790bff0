//! Topic aliases towards the client.

use courser_contract::QoS;

use super::support::{CLEAN, Client, Hello, V5, V311, aliased, attached, publish, to_front, view};
use crate::codec::{Packet, Property};
use crate::front::FrontConfig;
use crate::front::alias::{AliasLoad, AliasRoom, AliasesOut};
use crate::front::prepared::AliasUse;
use courser_contract::{Epoch, ToFront};
use std::collections::HashMap;
use std::num::NonZeroU32;

fn with_aliases(maximum: u16) -> Client {
    Client::attached_with(
        V5,
        |_| {},
        &Hello {
            properties: &[Property::TopicAliasMaximum(maximum)],
            ..Hello::default()
        },
    )
}

/// The client binds an alias.
fn bind(client: &mut Client, alias: u16, topic: &str) {
    let mut packet = publish("t", 0, 1);
    packet.topic = aliased(Some(topic), alias);
    client.says(&Packet::Publish(packet));
}

fn get(client: &mut Client, topic: &str) -> String {
    client.gets(
        view(topic, QoS::AtMostOnce, b"m"),
        &to_front(QoS::AtMostOnce),
    );
    client.hears().remove(0)
}

#[test]
fn a_topic_that_comes_again_gets_an_alias() {
    let mut client = with_aliases(2);
    assert_eq!(
        get(&mut client, "sensor/one"),
        "PUBLISH \"sensor/one\" q0 'm'"
    );
    assert_eq!(
        get(&mut client, "sensor/one"),
        "PUBLISH \"sensor/one\" alias=1 q0 'm'"
    );
    assert_eq!(
        get(&mut client, "sensor/one"),
        "PUBLISH \"\" alias=1 q0 'm'"
    );
    // An alias saves nothing on a short name.
    for _ in 0..3 {
        assert_eq!(get(&mut client, "t"), "PUBLISH \"t\" q0 'm'");
    }
}

#[test]
fn without_a_maximum_there_is_no_alias() {
    // v5 [MQTT-3.1.2-27]
    for mut client in [
        with_aliases(0),
        Client::attached(V5),
        Client::attached(V311),
    ] {
        for _ in 0..3 {
            assert_eq!(
                get(&mut client, "sensor/one"),
                "PUBLISH \"sensor/one\" q0 'm'"
            );
        }
    }
}

/// A client that resolves aliases as the standard says gets every topic right, and no alias above its maximum.
#[test]
fn aliases_stay_within_the_clients_maximum_and_mean_what_was_bound() {
    // v5 [MQTT-3.1.2-26], v5 [MQTT-3.3.2-11], v5 [MQTT-3.3.2-8]
    let mut client = with_aliases(3);
    let mut bound: HashMap<String, String> = HashMap::new();
    let mut saved = 0;
    for n in 0_usize..2_000 {
        // phases of few topics, which change
        let topic = format!("some/topic/{}", n / 100 * 2 + n * 7 % 5);
        let line = get(&mut client, &topic);
        let name = line.split('"').nth(1).unwrap();
        let alias = line
            .split("alias=")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        if let Some(alias) = alias {
            assert!((1..=3).contains(&alias.parse::<u16>().unwrap()), "{line}");
            if !name.is_empty() {
                bound.insert(alias.to_owned(), name.to_owned());
            }
            assert_eq!(bound[alias], topic);
        } else {
            assert_eq!(name, topic);
        }
        saved += usize::from(name.is_empty());
    }
    assert!(saved > 500, "only {saved} of 2000 by alias");
}

#[test]
fn aliases_end_with_the_connection() {
    // v5 [MQTT-3.3.2-7]
    let mut client = with_aliases(2);
    for _ in 0..3 {
        get(&mut client, "sensor/one");
    }
    let mut next = Client::new(V5, |_| {});
    next.connects(&Hello {
        properties: &[Property::TopicAliasMaximum(2)],
        ..Hello::default()
    });
    next.told(ToFront::Claimed { epoch: Epoch(8) });
    next.told(attached(CLEAN, 8, false));
    next.hears();
    assert_eq!(
        get(&mut next, "sensor/one"),
        "PUBLISH \"sensor/one\" q0 'm'"
    );
}

#[test]
fn topics_of_one_hash_are_told_apart() {
    let mut aliases = AliasesOut::new(2, &AliasLoad::default());
    let hash = 7 << 32;
    assert_eq!(aliases.choose(hash, "sensor/one"), AliasUse::None);
    assert_eq!(aliases.choose(hash, "sensor/one"), AliasUse::Bind(1));
    aliases.commit(1, hash, "sensor/one");
    assert_eq!(aliases.choose(hash, "sensor/one"), AliasUse::Use(1));
    assert_eq!(aliases.choose(hash, "sensor/two"), AliasUse::Bind(1));
    aliases.commit(1, hash, "sensor/two");
    assert_eq!(aliases.choose(hash, "sensor/two"), AliasUse::Use(1));
    assert_eq!(aliases.choose(hash, "sensor/one"), AliasUse::Bind(1));
}

#[test]
fn our_own_bound_holds_too() {
    let mut client = Client::attached_with(
        V5,
        |config| config.topic_alias_out_max = 1,
        &Hello {
            properties: &[Property::TopicAliasMaximum(100)],
            ..Hello::default()
        },
    );
    for n in 0..50 {
        for _ in 0..3 {
            let line = get(&mut client, &format!("sensor/{}", n % 3));
            assert!(!line.contains("alias=2"), "{line}");
        }
    }
}

#[test]
fn an_alias_is_not_bound_by_a_packet_that_it_makes_too_large() {
    let mut client = Client::attached_with(
        V5,
        |_| {},
        &Hello {
            properties: &[
                Property::TopicAliasMaximum(2),
                Property::MaximumPacketSize(NonZeroU32::new(60).unwrap()),
            ],
            ..Hello::default()
        },
    );
    // 2 fixed header, 12 topic, 1 properties
    let payload = [b'x'; 45];
    for _ in 0..3 {
        client.gets(
            view("sensor/one", QoS::AtMostOnce, &payload),
            &to_front(QoS::AtMostOnce),
        );
        assert_eq!(client.hears(), ["PUBLISH \"sensor/one\" q0 45 bytes"]);
    }
    assert_eq!(
        get(&mut client, "sensor/one"),
        "PUBLISH \"sensor/one\" alias=1 q0 'm'"
    );
}

#[test]
fn what_aliases_take_is_counted_both_ways_and_goes_with_the_connection() {
    let load = AliasLoad::default();
    let of_shard = |config: &mut FrontConfig| config.alias_load = load.clone();
    let hello = Hello {
        properties: &[Property::TopicAliasMaximum(2)],
        ..Hello::default()
    };
    let mut client = Client::attached_with(V5, of_shard, &hello);
    assert_eq!(load.bytes(), 0);
    bind(&mut client, 2, &"t".repeat(1_000));
    assert_eq!(load.bytes(), 1_000 + 2 * 16);
    bind(&mut client, 2, &"u".repeat(10));
    bind(&mut client, 1, &"v".repeat(20));
    assert_eq!(load.bytes(), 10 + 20 + 2 * 16);
    let topic = "w".repeat(500);
    for _ in 0..3 {
        get(&mut client, &topic);
    }
    let towards = load.bytes() - (10 + 20 + 2 * 16);
    assert!((500..1_000).contains(&towards), "{towards}");
    drop(client);
    assert_eq!(load.bytes(), 0);
}

#[test]
fn where_room_is_scarce_who_connects_gets_no_aliases_and_none_is_bound_towards_a_client() {
    let load = AliasLoad::default();
    let of_shard = |config: &mut FrontConfig| config.alias_load = load.clone();
    let hello = Hello {
        properties: &[Property::TopicAliasMaximum(2)],
        ..Hello::default()
    };
    let mut before = Client::attached_with(V5, of_shard, &hello);
    for _ in 0..2 {
        get(&mut before, "sensor/one");
    }
    load.set_room(AliasRoom::Scarce);
    assert_eq!(
        get(&mut before, "sensor/one"),
        "PUBLISH \"\" alias=1 q0 'm'",
        "what is bound stays so"
    );
    for _ in 0..3 {
        let got = get(&mut before, "sensor/two");
        assert_eq!(got, "PUBLISH \"sensor/two\" q0 'm'");
    }
    // It was told that it may.
    bind(&mut before, 1, &"t".repeat(2_000));
    assert_eq!(before.hears(), [""; 0]);
    // v5 [MQTT-3.2.2-18]
    let mut client = Client::attached_with(V5, of_shard, &hello);
    bind(&mut client, 1, "t");
    assert!(client.hears()[0].starts_with("DISCONNECT 0x94"));
    assert_eq!(load.take_closed(), 0);
}

#[test]
fn where_there_is_no_room_who_binds_more_than_a_kib_is_closed() {
    let load = AliasLoad::default();
    let of_shard = |config: &mut FrontConfig| config.alias_load = load.clone();
    let mut client = Client::attached_with(V5, of_shard, &Hello::default());
    let mut other = Client::attached_with(V5, of_shard, &Hello::default());
    bind(&mut client, 1, &"t".repeat(2_000));
    load.set_room(AliasRoom::None);
    // As large as what was bound, or smaller.
    bind(&mut client, 1, &"u".repeat(2_000));
    bind(&mut client, 1, &"u".repeat(1_500));
    bind(&mut other, 1, &"v".repeat(1_000));
    assert_eq!((client.hears().len(), other.hears().len()), (0, 0));
    assert_eq!(load.take_closed(), 0);
    bind(&mut client, 1, &"w".repeat(1_501));
    bind(&mut other, 2, &"w".repeat(100));
    for client in [&mut client, &mut other] {
        assert!(client.hears()[0].starts_with("DISCONNECT 0x97"));
    }
    assert_eq!(load.take_closed(), 2);
    assert_eq!(load.take_closed(), 0);
}
