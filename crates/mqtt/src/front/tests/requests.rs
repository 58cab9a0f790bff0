//! What requests may take: parts that go home as earlier ones are answered, and what becomes of the rest.

use courser_contract::{QoS, RequestPart, ToFront};

use super::subscribe::{QOS0, granted, without};
use super::support::{Client, Hello, V5, V311};
use crate::codec::{Packet, Pingreq, ReasonCode};
use crate::front::{FrontConfig, RequestLoad};

/// Answers parts with what the client has asked for, oldest first, until nothing is asked. How many there were.
fn all_answered(client: &mut Client, results: impl Fn(RequestPart, usize) -> ToFront) -> usize {
    let mut parts = 0;
    loop {
        let asked = client.effects();
        if asked.is_empty() {
            return parts;
        }
        for line in asked {
            parts += 1;
            let (part, filters) = part_of(&line);
            client.told(results(part, filters));
        }
    }
}

/// The part of a line such as `volatile: subscribe 7 from 33 [a …] [b …]`, and how many filters it has.
fn part_of(line: &str) -> (RequestPart, usize) {
    let head = line.split('[').next().unwrap();
    let numbers: Vec<u32> = head.split(' ').filter_map(|it| it.parse().ok()).collect();
    let part = RequestPart {
        packet_id: numbers[0] as u16,
        first: numbers.get(1).copied().unwrap_or(0),
    };
    let filters = match line.contains("unsubscribe") {
        true => line.matches("u/").count(),
        false => line.matches('[').count(),
    };
    (part, filters)
}

fn granted_all(part: RequestPart, filters: usize) -> ToFront {
    ToFront::Subscribed {
        part,
        results: vec![granted(QoS::AtMostOnce); filters],
    }
}

#[test]
fn a_packet_has_1024_filters_at_most() {
    // docs/mqtt.md
    for (version, refused) in [(V311, "80"), (V5, "97")] {
        let mut client = Client::attached(version);
        let filters = vec![("a", QOS0); 1_025];
        client.subscribes(1, &[], &filters[..1_024]);
        assert_eq!(all_answered(&mut client, granted_all), 32);
        assert!(client.hears().remove(0).ends_with("00 00"));
        client.subscribes(2, &[], &filters);
        let parts = all_answered(&mut client, granted_all);
        assert_eq!(parts, 32, "the one above is not asked for");
        let heard = client.hears().remove(0);
        assert!(heard.ends_with(&format!("00 {refused}")), "{heard}");
    }
}

#[test]
fn what_is_open_is_bounded_by_filters_and_bytes() {
    for (filter, at_once) in [("a".to_owned(), 8), ("b".repeat(4_000), 13)] {
        let mut client = Client::attached(V5);
        let filters = vec![(filter.as_str(), QOS0); 1_000];
        client.subscribes(
            1,
            &[],
            &filters[..filters.len().min(800_000 / filter.len())],
        );
        let mut asked = client.effects();
        assert!(
            asked.len() <= at_once,
            "{} parts of {}",
            asked.len(),
            filter.len()
        );
        assert!(!client.front.wants_read(), "the next packet waits");
        client.publishes("x", 0, 0);
        client.subscribes(2, &[], &[("c", QOS0)]);
        while !asked.is_empty() {
            assert!(client.hears().is_empty());
            let (filters, bytes) = client.front.requests.as_ref().unwrap().open();
            assert!(
                filters < 256 + 32 && bytes < 64 * 1024 + 20 * 1024,
                "{filters} {bytes}"
            );
            let (part, filters) = part_of(&asked.remove(0));
            client.told(granted_all(part, filters));
            let next = client.effects();
            assert!(next.len() <= 1 || asked.is_empty(), "one for one");
            asked.extend(
                next.into_iter()
                    .filter(|line| line.contains("subscribe 1 ")),
            );
        }
        let heard = client.hears();
        assert!(heard[0].starts_with("SUBACK 1 00"), "{heard:?}");
        client.gives(&[]);
        assert!(client.front.wants_read(), "all has gone on");
    }
}

#[test]
fn an_unsubscribe_goes_home_bit_by_bit_too_and_is_answered_once() {
    let mut client = Client::attached(V5);
    let names: Vec<_> = (0..2_000).map(|it| format!("u/{it}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    client.unsubscribes(9, &names);
    assert_eq!(client.front.requests.as_ref().unwrap().open().0, 256);
    assert!(client.front.has_unsent_requests());
    assert!(client.front.request_bytes() > 10_000);
    let parts = all_answered(&mut client, |part, filters| ToFront::Unsubscribed {
        part,
        existed: (0..filters).map(|at| part.first == 0 && at == 0).collect(),
    });
    assert_eq!(parts, 63);
    let rest = ["11"; 1_999].join(" ");
    assert_eq!(client.hears(), [format!("UNSUBACK 9 00 {rest}")]);
    assert!(client.front.requests.is_none());
    assert_eq!(client.front.request_bytes(), 0);
}

#[test]
fn an_unsubscribe_of_more_than_a_session_may_have_ends_the_connection() {
    for version in [V311, V5] {
        let mut client = without(|config| config.unsubscribe_filters_max = 40, version);
        client.unsubscribes(1, &["u/"; 40]);
        assert_eq!(client.effects().len(), 2);
        client.unsubscribes(2, &["u/"; 41]);
        let heard = client.hears();
        match version {
            V311 => assert!(heard.is_empty()),
            V5 => assert!(heard[0].starts_with("DISCONNECT 0x97"), "{heard:?}"),
        }
        let effects = client.effects();
        assert!(
            !effects.iter().any(|it| it.contains("unsubscribe")),
            "{effects:?}"
        );
        assert!(!client.front.wants_read());
    }
}

#[test]
fn fronts_of_a_shard_that_asks_for_much_take_turns() {
    let load = RequestLoad::default();
    let of_shard = |config: &mut FrontConfig| config.request_load = load.clone();
    let mut clients: Vec<_> = (0..9).map(|_| without(of_shard, V5)).collect();
    let parts: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            client.subscribes(1, &[], &vec![("a", QOS0); 1_000]);
            client.effects().len()
        })
        .collect();
    assert_eq!(
        parts,
        [8, 8, 8, 8, 8, 8, 8, 8, 1],
        "a part goes in any case"
    );
    assert_eq!(load.filters(), 8 * 256 + 32);
    clients.truncate(1);
    assert_eq!(load.filters(), 256, "those who are gone ask for nothing");
    for first in (0..256).step_by(32) {
        let part = RequestPart {
            packet_id: 1,
            first,
        };
        clients[0].told(granted_all(part, 32));
    }
    let parts = all_answered(&mut clients[0], granted_all);
    assert_eq!(parts, 24, "of 32, 8 went home before");
    assert_eq!(load.filters(), 0);
}

#[test]
fn what_is_left_of_a_request_goes_on_without_an_answer_after_five_seconds() {
    let hello = Hello {
        keep_alive_seconds: 1,
        ..Hello::default()
    };
    let mut client = Client::attached_with(V5, |_| {}, &hello);
    client.subscribes(1, &[], &[("a", QOS0); 1_000]);
    assert_eq!(client.effects().len(), 8);
    client.passes(4_999);
    assert!(client.effects().is_empty(), "neither asked nor cut");
    client.passes(1);
    assert_eq!(client.effects().len(), 1);
    client.passes(5_000);
    assert_eq!(client.effects().len(), 1);
}

#[test]
fn what_is_left_of_a_request_is_void_when_another_connection_takes_over() {
    let mut client = Client::attached(V5);
    client.subscribes(1, &[], &[("a", QOS0); 1_000]);
    client.publishes("a", 0, 0);
    client.effects();
    client.front.handle_last_read();
    assert!(client.front.wants_read());
    client.gives(&[]);
    let effects = client.effects();
    assert_eq!(effects.len(), 1, "published: {effects:?}");
    client.told(granted_all(RequestPart::whole(1), 32));
    assert!(client.effects().is_empty() && client.hears().is_empty());
}

#[test]
fn what_comes_behind_a_long_request_goes_on_when_that_has_gone_home() {
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        client.subscribes(1, &[], &[("a", QOS0); 1_000]);
        client.says(&Packet::Pingreq(Pingreq));
        client.unsubscribes(2, &["u/1"]);
        client.disconnects(ReasonCode::NORMAL_DISCONNECTION, &[]);
        let mut asked = client.effects();
        while client.front.has_unsent_requests() {
            assert!(client.hears().is_empty());
            let (part, filters) = part_of(&asked.remove(0));
            client.told(granted_all(part, filters));
            asked.extend(client.effects());
        }
        assert_eq!(client.hears(), ["PINGRESP"], "{version:?}");
        assert_eq!(asked.last().unwrap(), "close Disconnect");
        let went = |line: &String| line.contains("unsubscribe 2");
        assert!(asked.iter().any(went), "{asked:?}");
        assert!(client.front.requests.is_none());
    }
}
