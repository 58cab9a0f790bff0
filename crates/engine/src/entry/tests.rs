use std::sync::Arc;

use bytes::Bytes;
use courser_contract::{AppendKey, AppendNumber, Origin, QoS, RecordView, ShardId, Tick};
use proptest::prelude::*;

use super::*;

fn target(stream: u64, identifiers: &[u32]) -> Target {
    Target {
        stream,
        qos: QoS::ExactlyOnce,
        retain: RetainMark::Keep,
        identifiers: (!identifiers.is_empty()).then(|| Arc::from(identifiers)),
    }
}

fn numbered(number: u64, floor: u64) -> AppendKey {
    AppendKey::Numbered {
        origin: Origin {
            node: 1,
            shard: ShardId(2),
            start: 3,
        },
        number: AppendNumber(number),
        floor: AppendNumber(floor),
    }
}

/// The facts of an entry from elsewhere.
fn facts(entry: &Bytes) -> Result<Vec<Fact<'_>>, EntryError> {
    let mut facts = Vec::new();
    let entry = Entry::open(entry, Trust::Foreign)?;
    entry.for_each(|fact| facts.push(fact.clone()))?;
    Ok(facts)
}

fn publishes(entry: &Bytes) -> Vec<PublishFact<'_>> {
    let publish = |fact| match fact {
        Fact::Publish(publish) => Some(publish),
        Fact::Outcome(_) | Fact::Rare(_) => None,
    };
    let facts = facts(entry).expect("it is whole");
    facts.into_iter().filter_map(publish).collect()
}

fn targets(fact: &PublishFact<'_>) -> Vec<Target> {
    match fact.targets {
        TargetsAt::Inline(count, at) => fact.inline(count, at).collect(),
        other => panic!("targets in place, not {other:?}"),
    }
}

fn sample() -> Bytes {
    let mut gather = Gather::default();
    let view = RecordView {
        topic: "a/b",
        properties: b"pp",
        payload: b"payload",
        qos: QoS::AtLeastOnce,
        retain: true,
        expires_at: None,
        publisher: None,
        author: None,
    };
    let key = numbered(4, 4);
    let targets = [target(1 << 24, &[]), target(2 << 24, &[5, 6, 7])];
    let inline = Targets::Inline(&targets);
    PublishFact::write(&mut gather, &key, true, inline, &view);
    PublishFact::write(&mut gather, &numbered(5, 4), false, Targets::Same, &view);
    let unanswered = AppendKey::Unanswered;
    PublishFact::write(&mut gather, &unanswered, false, Targets::Set(9), &view);
    let outcome = OutcomeFact {
        stream: 1 << 24,
        first: 1,
        last: 2,
        fate: Fate::Received,
        sent_limit: 3,
    };
    outcome.write(&mut gather, Haste::Lazy(Tick(0)));
    let mut scratch = Vec::new();
    for fact in [
        Rare::TermBegun {},
        Rare::SetDefined {
            set: 9,
            targets: targets.to_vec(),
        },
        Rare::Taken { key },
    ] {
        fact.write(&mut gather, Haste::Now, &mut scratch);
    }
    gather
        .take(WallMs(77), Term(5), 6)
        .expect("facts were written")
}

#[test]
fn facts_come_back_as_they_were_written() {
    let bytes = sample();
    Entry::check(&bytes).expect("it is whole");
    let entry = Entry::open(&bytes, Trust::Foreign).expect("it is whole");
    let head = entry.head();
    assert_eq!(
        (head.facts, head.wall, head.term, head.number),
        (7, WallMs(77), Term(5), 6)
    );
    let [first, second, third] = &publishes(&bytes)[..] else {
        panic!("three publishes");
    };
    assert!(first.keep_retained);
    assert_eq!(first.key, numbered(4, 4));
    assert_eq!(
        targets(first),
        [target(1 << 24, &[]), target(2 << 24, &[5, 6, 7])]
    );
    assert_eq!(first.record().view().payload, b"payload");
    assert_eq!(
        (second.targets, second.key),
        (TargetsAt::Same, numbered(5, 4))
    );
    assert!(!second.keep_retained);
    let set = (TargetsAt::Set(9), AppendKey::Unanswered);
    assert_eq!((third.targets, third.key), set);
}

#[test]
fn a_publish_refers_to_the_one_before_it_and_to_no_other() {
    let view = RecordView {
        topic: "t",
        properties: b"",
        payload: &[7; 127],
        qos: QoS::AtLeastOnce,
        retain: false,
        expires_at: None,
        publisher: None,
        author: None,
    };
    let record = view.encoded_len();
    let only = [target(1 << 24, &[])];
    let mut gather = Gather::default();
    let mut bytes = HEADER_BYTES;
    let keys = [
        (numbered(1, 1), 24),
        (numbered(2, 1), 0),
        (numbered(3, 2), 24),
        (numbered(5, 2), 24),
        (AppendKey::Unanswered, 0),
        (numbered(6, 2), 24),
    ];
    for (key, key_bytes) in keys {
        let targets = match bytes {
            HEADER_BYTES => Targets::Inline(&only),
            _ => Targets::Same,
        };
        let first = if bytes == HEADER_BYTES { 16 } else { 0 };
        PublishFact::write(&mut gather, &key, false, targets, &view);
        bytes += 8 + key_bytes + first + record;
    }
    let entry = gather.take(WallMs(0), Term(1), 1).expect("facts");
    assert_eq!(entry.len(), bytes);
    Entry::check(&entry).expect("it is whole");
    let read: Vec<_> = publishes(&entry).iter().map(|fact| fact.key).collect();
    assert_eq!(read, keys.map(|(key, _)| key));
    // The next entry knows nothing of this one.
    PublishFact::write(&mut gather, &numbered(7, 2), false, Targets::Same, &view);
    let entry = gather.take(WallMs(0), Term(1), 2).expect("a fact");
    facts(&entry).expect_err("there is no publish before it");
}

#[test]
fn an_entry_cut_anywhere_is_an_error() {
    let bytes = sample();
    for end in 0..bytes.len() {
        assert!(Entry::check(&bytes.slice(..end)).is_err(), "cut at {end}");
    }
}

#[test]
fn entries_share_one_buffer_and_lazy_facts_wait_m18() {
    let mut gather = Gather::default();
    let outcome = OutcomeFact {
        stream: 1,
        first: 0,
        last: 0,
        fate: Fate::Done,
        sent_limit: 0,
    };
    outcome.write(&mut gather, Haste::Lazy(Tick(100)));
    assert!(!gather.is_due());
    assert_eq!(gather.deadline(), Some(Tick(120)));
    gather.handle_timeout(Tick(119));
    assert!(!gather.is_due());
    gather.handle_timeout(Tick(120));
    assert!(gather.is_due());
    gather
        .take(WallMs(0), Term(1), 1)
        .expect("a fact was written");
    for _ in 0..511 {
        outcome.write(&mut gather, Haste::Lazy(Tick(200)));
    }
    assert!(!gather.is_due());
    outcome.write(&mut gather, Haste::Lazy(Tick(200)));
    assert!(gather.is_due());
}

/// What later entries count on, and nothing else; under its head.
#[test]
fn of_a_skipped_entry_sets_and_terms_are_left() {
    let left = left_of_skipped(&sample()).expect("it has a head");
    Entry::check(&left).expect("it is whole");
    let entry = Entry::open(&left, Trust::Foreign).expect("it is whole");
    let head = entry.head();
    assert_eq!(
        (head.facts, head.wall, head.term, head.number),
        (2, WallMs(77), Term(5), 6)
    );
    let facts = facts(&left).expect("it is whole");
    assert!(matches!(
        facts[..],
        [
            Fact::Rare(Rare::TermBegun {}),
            Fact::Rare(Rare::SetDefined { set: 9, .. })
        ]
    ));
}

#[test]
fn of_a_skipped_entry_that_cannot_be_read_to_its_end_is_left_what_can() {
    let bytes = sample();
    for end in 0..bytes.len() {
        match left_of_skipped(&bytes.slice(..end)) {
            None => assert!(end < HEADER_BYTES, "cut at {end}"),
            Some(left) => Entry::check(&left).expect("what is left is an entry"),
        }
    }
    // A length that no fact has.
    let mut changed = bytes.to_vec();
    changed[292] = 59;
    let left = left_of_skipped(&changed.into()).expect("it has a head");
    Entry::check(&left).expect("what is left is an entry");
    let short = short_entry();
    assert!(lone::engine_of(&short).is_some(), "it has the short form");
    let left = left_of_skipped(&short).expect("it has a head");
    assert_eq!(facts(&left).expect("an entry").len(), 0, "one message");
    let head = |entry| Entry::open(entry, Trust::Foreign).expect("a head").head();
    assert_eq!(head(&left).term, head(&short).term);
}

/// One message for a set.
fn short_entry() -> Bytes {
    let view = RecordView {
        topic: "t",
        properties: b"",
        payload: b"payload",
        qos: QoS::AtLeastOnce,
        retain: false,
        expires_at: None,
        publisher: None,
        author: None,
    };
    let key = AppendKey::Numbered {
        origin: Origin {
            node: 0,
            shard: ShardId(0),
            start: 1,
        },
        number: AppendNumber(3),
        floor: AppendNumber(2),
    };
    let mut gather = Gather::default();
    PublishFact::write(&mut gather, &key, false, Targets::Set(2), &view);
    gather.take(WallMs(9), Term(4), 1).expect("a fact")
}

proptest! {
    #[test]
    fn what_is_left_of_changed_bytes_is_an_entry(at in 0..400usize, with in any::<u8>()) {
        let mut bytes = sample().to_vec();
        let at = at % bytes.len();
        bytes[at] = with;
        if let Some(left) = left_of_skipped(&bytes.into()) {
            prop_assert!(Entry::check(&left).is_ok());
        }
    }

    /// Whatever a disk hands over: an error or an entry, never a panic.
    #[test]
    fn changed_bytes_never_panic(at in 0..400usize, with in any::<u8>(), more in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut bytes = sample().to_vec();
        let at = at % bytes.len();
        bytes[at] = with;
        bytes.extend(more);
        let _ = Entry::check(&bytes.into());
    }
}
