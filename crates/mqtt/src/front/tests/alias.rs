//! Topic aliases towards the client.

use courser_contract::QoS;

use super::support::{CLEAN, Client, Hello, V5, V311, attached, to_front, view};
use crate::codec::Property;
use crate::front::alias::AliasesOut;
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
    let mut aliases = AliasesOut::new(2);
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
