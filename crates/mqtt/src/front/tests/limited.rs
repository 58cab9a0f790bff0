//! What a front and shared groups say to each other while the client has no room, and when it has again (M31).

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use courser_contract::{DeliverTo, GroupRef, PartitionId, QoS, Seq, Source, ToFront};

use super::support::{Client, Hello, V5, to_group, view};
use crate::codec::Property;

fn with_window(window: u16) -> Client {
    Client::attached_with(
        V5,
        |_| {},
        &Hello {
            properties: &[Property::ReceiveMaximum(NonZeroU16::new(window).unwrap())],
            ..Hello::default()
        },
    )
}

fn gets(client: &mut Client, group: u64, seq: u64, qos: QoS) {
    let group = GroupRef {
        partition: PartitionId(4),
        group,
    };
    let to = DeliverTo {
        source: Some((Source::Group(group), Seq(seq))),
        ..to_group(seq, qos)
    };
    client.gets_stored(view("s", qos, b"m"), &to);
}

/// How often the front wants to be woken in a time in which nothing happens.
fn wakes(client: &mut Client, ms: u64) -> usize {
    let mut wakes = 0;
    while client
        .front
        .poll_timeout()
        .is_some_and(|at| at <= client.now.tick.after_ms(ms))
    {
        wakes += 1;
        assert!(wakes < 1_000, "it is woken for ever");
        let at = client.front.poll_timeout().unwrap();
        client.passes(at.0.saturating_sub(client.now.tick.0));
    }
    wakes
}

#[test]
fn while_a_client_takes_nothing_nothing_is_said_m31() {
    let mut client = with_window(1);
    client.gets_run(0, 0);
    gets(&mut client, 77, 10, QoS::AtLeastOnce);
    client.told(ToFront::Name {
        group: GroupRef {
            partition: PartitionId(4),
            group: 78,
        },
        seq: Seq(3),
    });
    assert_eq!(wakes(&mut client, 100_000), 1, "to give it back");
    let returned = [
        "4: group 77 outcome 10..=10 Returned",
        "4: group 78 outcome 3..=3 Returned",
    ];
    assert_eq!(client.effects(), returned);
    client.passes(100_000);
    client.pubacks(1);
    let heard = ["volatile: outcome 0..=0 Done", "4: group 77 room Places(1)"];
    assert_eq!(client.effects(), heard, "one place is for one group");
    gets(&mut client, 77, 10, QoS::AtLeastOnce);
    assert_eq!(wakes(&mut client, 100_000), 0, "its place is taken");
    client.pubacks(32_768);
    let heard = [
        "4: group 78 room Places(1)",
        "4: group 77 outcome 10..=10 Done",
    ];
    let mut said = client.effects();
    said.sort_unstable_by_key(|line| !line.contains("78"));
    assert_eq!(said, heard, "the place is for the other one");
    // Which has nothing any more.
    assert_eq!(wakes(&mut client, 100_000), 1);
    let mut said = client.effects();
    said.sort_unstable();
    let heard = ["4: group 77 room Enough", "4: group 78 room Enough"];
    assert_eq!(said, heard);
    assert_eq!(wakes(&mut client, 100_000), 0);
}

#[test]
fn a_client_that_reads_again_has_room_m31() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        let mut client = with_window(1_000);
        let payload = [b'x'; 10_000];
        for seq in 0..10 {
            client.gets_stored(view("s", qos, &payload), &to_group(seq, qos));
        }
        client.effects();
        assert_eq!(wakes(&mut client, 100_000), 1);
        let said = client.effects();
        let is_returned = |line: &String| line.ends_with("9 Returned");
        assert!(said.iter().any(is_returned), "{said:?}");
        client.hears();
        client
            .front
            .handle_output_room(client.now, &mut client.shell);
        let said = client.effects();
        let room = match qos {
            QoS::AtMostOnce => "4: group 77 room Enough",
            _ => "4: group 77 room Places(993)",
        };
        assert!(said.iter().any(|line| line == room), "{said:?}");
        assert!(wakes(&mut client, 100_000) <= 1);
    }
}

/// QoS 0 that a group has stored takes no place in the window.
#[test]
fn a_full_window_keeps_no_qos_0_of_groups_back_m31() {
    let mut client = with_window(1);
    client.gets_run(0, 0);
    let payload = [b'x'; 40_000];
    for seq in 0..3 {
        let message = view("s", QoS::AtMostOnce, &payload);
        client.gets_stored(message, &to_group(seq, QoS::AtMostOnce));
    }
    wakes(&mut client, 1_000);
    client.effects();
    client.hears();
    client
        .front
        .handle_output_room(client.now, &mut client.shell);
    let said = client.effects();
    assert!(
        said.contains(&"4: group 77 room Enough".to_owned()),
        "{said:?}"
    );
}

/// A group as its leader sees it, with one member.
#[derive(Default)]
struct Leader {
    waiting: BTreeSet<u64>,
    outstanding: BTreeSet<u64>,
    places: Option<u64>,
    given: usize,
    done: usize,
}

const CREDIT: usize = 64;

impl Leader {
    fn give(&mut self, client: &mut Client, group: u64) {
        while self.outstanding.len() < CREDIT
            && self.places != Some(0)
            && let Some(seq) = self.waiting.pop_first()
        {
            self.outstanding.insert(seq);
            self.places = self.places.map(|places| places - 1);
            self.given += 1;
            gets(client, group, seq, QoS::AtLeastOnce);
        }
    }

    fn hear(&mut self, line: &str) {
        if let Some((_, room)) = line.split_once(" room ") {
            let more = room
                .trim_matches(|c: char| !c.is_ascii_digit())
                .parse::<u64>();
            self.places = match more {
                Err(_) => None,
                Ok(0) => Some(0),
                Ok(more) => Some(self.places.unwrap_or(0) + more),
            };
            return;
        }
        let (_, outcome) = line.split_once(" outcome ").expect("nothing else is said");
        let (range, kind) = outcome.split_once(' ').unwrap();
        let (first, last) = range.split_once("..=").unwrap();
        for seq in first.parse::<u64>().unwrap()..=last.parse().unwrap() {
            assert!(self.outstanding.remove(&seq));
            match kind {
                "Done" => self.done += 1,
                "Returned" => {
                    self.waiting.insert(seq);
                    self.places = Some(0);
                }
                other => panic!("{other}"),
            }
        }
    }
}

/// The groups give and hear until nobody says anything.
fn settle(client: &mut Client, leaders: &mut BTreeMap<u64, Leader>) {
    loop {
        for (&group, leader) in leaders.iter_mut() {
            leader.give(client, group);
        }
        let said = client.effects();
        if said.is_empty() {
            return;
        }
        for line in said {
            let rest = line.strip_prefix("4: group ").expect("a group's");
            let group: u64 = rest.split(' ').next().unwrap().parse().unwrap();
            leaders.get_mut(&group).unwrap().hear(&line);
        }
    }
}

/// The client acknowledges at its pace: one message each time, in order.
#[test]
fn groups_share_a_slow_member_by_turns_and_nothing_is_carried_to_and_fro_m31() {
    for (every_ms, window) in [(1, 10), (20, 10), (200, 10), (200, 1), (60, 40)] {
        let mut client = with_window(window);
        let mut leaders: BTreeMap<u64, Leader> =
            (70..78).map(|group| (group, Leader::default())).collect();
        // One has less than the others, and then nothing.
        for (&group, leader) in &mut leaders {
            let messages = if group == 70 { 3 } else { 100 };
            leader.waiting = (0..messages).collect();
        }
        let mut acked = 0;
        let mut untouched = 0;
        let mut before: Vec<usize> = Vec::new();
        let mut waiting = std::collections::VecDeque::new();
        while acked < 703 {
            settle(&mut client, &mut leaders);
            for line in client.hears() {
                let id = line.split("id=").nth(1).unwrap();
                waiting.push_back(id.split(' ').next().unwrap().parse::<u16>().unwrap());
            }
            assert!(waiting.len() <= usize::from(window));
            match waiting.pop_front() {
                Some(id) => {
                    client.pubacks(id);
                    acked += 1;
                    untouched = 0;
                }
                None => untouched += 1,
            }
            assert!(untouched < 200, "it waits for ever");
            settle(&mut client, &mut leaders);
            let end = client.now.tick.after_ms(every_ms);
            while client.now.tick < end {
                let due = client.front.poll_timeout().unwrap_or(end).min(end);
                client.passes(due.0.saturating_sub(client.now.tick.0).max(1));
                settle(&mut client, &mut leaders);
            }
            // The first was sent before there was anything to share.
            if acked == 150 {
                before = leaders.values().map(|leader| leader.done).collect();
            }
            if acked == 350 {
                for (leader, before) in leaders.values().zip(&before) {
                    let is_over = leader.waiting.is_empty();
                    let turns = leader.done - before;
                    assert!(is_over || turns >= 14, "{turns} of 200, {every_ms} ms");
                }
            }
        }
        let given: usize = leaders.values().map(|leader| leader.given).sum();
        let case = format!("{given} given, each {every_ms} ms, window {window}");
        assert!(given < 3 * 703 + 8 * CREDIT, "{case}");
        assert!(
            leaders.values().all(|leader| leader.waiting.is_empty()),
            "{case}"
        );
    }
}
