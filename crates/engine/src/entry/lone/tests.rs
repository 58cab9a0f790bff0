use courser_contract::{QoS, RecordView};

use super::*;
use crate::entry::{Entry, Fact, Gather, PublishFact, Targets, TargetsAt, Trust, later_version};

const HEAD: Head = Head {
    facts: 1,
    wall: WallMs((1 << WALL_BITS) - 1),
    term: Term(0xFFFF),
    number: u32::MAX as u64,
};
const SET: u32 = 0xFFFF;

/// The largest numbers that there is room for.
const ORIGIN: Origin = Origin {
    node: 0,
    shard: ShardId((1 << SHARD_BITS) - 1),
    start: (1 << START_BITS) - 1,
};
const NUMBER: u64 = u32::MAX as u64;
const BELOW: u64 = (1 << (u64::BITS - BELOW_SHIFT)) - 1;

const fn key(origin: Origin, number: u64, below: u64) -> Key {
    AppendKey::Numbered {
        origin,
        number: AppendNumber(number),
        floor: AppendNumber(number - below),
    }
}

fn view(payload: &[u8]) -> RecordView<'_> {
    RecordView {
        topic: "a/b",
        properties: b"",
        payload,
        qos: QoS::AtLeastOnce,
        retain: false,
        expires_at: None,
        publisher: None,
        author: None,
    }
}

/// An entry of one publish.
fn entry(head: Head, key: &Key, keep_retained: bool, targets: Targets<'_>) -> Bytes {
    let mut gather = Gather::default();
    PublishFact::write(&mut gather, key, keep_retained, targets, &view(b"payload"));
    let entry = gather.take(head.wall, head.term, head.number);
    entry.expect("a fact was written")
}

/// Head, key and set that are read, whatever the form.
fn read(entry: &Bytes) -> (Head, Key, u32) {
    Entry::check(entry).expect("it is whole");
    for trust in [Trust::Own, Trust::Foreign] {
        let opened = Entry::open(entry, trust).expect("its head is whole");
        let head = opened.head();
        let mut facts = Vec::new();
        let read = opened.for_each(|fact| facts.push(fact.clone()));
        read.expect("it is whole");
        let [Fact::Publish(publish)] = &facts[..] else {
            panic!("one publish, not {facts:?}");
        };
        assert_eq!(publish.record().view(), view(b"payload"));
        assert!(
            publish.record_at.is_multiple_of(8),
            "an address is in eighths"
        );
        if let (TargetsAt::Set(set), Trust::Foreign) = (publish.targets, trust) {
            return (head, publish.key, set);
        }
    }
    panic!("a set");
}

#[test]
fn a_message_for_a_set_is_short() {
    let key = key(ORIGIN, NUMBER, BELOW);
    let short = entry(HEAD, &key, false, Targets::Set(SET));
    assert_eq!(short.len(), LONE_BYTES + view(b"payload").encoded_len());
    assert_eq!(read(&short), (HEAD, key, SET));
    assert_eq!(later_version(&short), None);
}

#[test]
fn what_does_not_fit_has_the_long_form() {
    let usual = key(ORIGIN, NUMBER, BELOW);
    let other_shard = Origin {
        shard: ShardId(1 << SHARD_BITS),
        ..ORIGIN
    };
    let later_start = Origin {
        start: 1 << START_BITS,
        ..ORIGIN
    };
    let other_node = Origin { node: 1, ..ORIGIN };
    let head = |change: fn(&mut Head)| {
        let mut head = HEAD;
        change(&mut head);
        head
    };
    for (head, key, set) in [
        (HEAD, usual, SET + 1),
        (HEAD, key(other_shard, NUMBER, BELOW), SET),
        (HEAD, key(later_start, NUMBER, BELOW), SET),
        (HEAD, key(other_node, NUMBER, BELOW), SET),
        (HEAD, key(ORIGIN, NUMBER + 1, 0), SET),
        (HEAD, key(ORIGIN, NUMBER, BELOW + 1), SET),
        (head(|head| head.wall.0 += 1), usual, SET),
        (head(|head| head.term.0 += 1), usual, SET),
        (head(|head| head.number += 1), usual, SET),
    ] {
        let long = entry(head, &key, false, Targets::Set(set));
        assert_eq!(long.len(), LONG_BYTES + view(b"payload").encoded_len());
        assert_eq!(read(&long), (head, key, set));
    }
}

#[test]
fn what_says_more_has_the_long_form() {
    let usual = key(ORIGIN, NUMBER, BELOW);
    let short = entry(HEAD, &usual, false, Targets::Set(SET)).len();
    let unanswered = AppendKey::Unanswered;
    let in_place = Targets::Inline(&[]);
    for (key, keep_retained, targets) in [
        (&usual, true, Targets::Set(SET)),
        (&unanswered, false, Targets::Set(SET)),
        (&usual, false, in_place),
    ] {
        let long = entry(HEAD, key, keep_retained, targets);
        assert!(long.len() > short && long[0] == 1, "{key:?}");
    }
    let mut gather = Gather::default();
    for _ in 0..2 {
        let targets = Targets::Set(SET);
        PublishFact::write(&mut gather, &usual, false, targets, &view(b"payload"));
    }
    let two = gather.take(HEAD.wall, HEAD.term, HEAD.number);
    assert_eq!(two.expect("facts were written")[0], 1, "two facts");
}

#[test]
fn an_entry_that_is_cut_or_longer_is_none() {
    let whole = entry(HEAD, &key(ORIGIN, NUMBER, BELOW), false, Targets::Set(SET));
    for end in 0..whole.len() {
        assert!(Entry::check(&whole.slice(..end)).is_err(), "cut at {end}");
    }
    let longer = [&whole[..], &[0; 8]].concat();
    assert!(Entry::check(&longer.into()).is_err());
    let mut newer = whole.to_vec();
    newer[1] += 1;
    assert_eq!(later_version(&newer), Some((2, ENGINE_VERSION + 1)));
    assert!(Entry::check(&newer.into()).is_err());
    let mut below = whole.to_vec();
    below[16..20].fill(0);
    assert!(Entry::check(&below.into()).is_err(), "a floor below 0");
}
