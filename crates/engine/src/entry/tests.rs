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
    };
    let key = AppendKey::Numbered {
        origin: Origin {
            node: 1,
            shard: ShardId(2),
            start: 3,
        },
        number: AppendNumber(4),
        floor: AppendNumber(4),
    };
    let targets = [target(1 << 24, &[]), target(2 << 24, &[5, 6, 7])];
    let inline = Targets::Inline(&targets);
    PublishFact::write(&mut gather, &key, true, &inline, &view);
    PublishFact::write(
        &mut gather,
        &AppendKey::Unanswered,
        false,
        &Targets::Set(9),
        &view,
    );
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
    let mut entry = Entry::open(&bytes, Trust::Foreign).expect("it is whole");
    let head = entry.head();
    assert_eq!(
        (head.facts, head.wall, head.term, head.number),
        (6, WallMs(77), Term(5), 6)
    );
    let Some(Fact::Publish(publish)) = entry.next_fact().expect("it is whole") else {
        panic!("a publish");
    };
    assert!(publish.keep_retained && publish.set.is_none());
    let targets: Vec<_> = publish.inline().collect();
    assert_eq!(targets, [target(1 << 24, &[]), target(2 << 24, &[5, 6, 7])]);
    assert_eq!(publish.record().view().payload, b"payload");
    let Some(Fact::Publish(publish)) = entry.next_fact().expect("it is whole") else {
        panic!("a publish");
    };
    assert_eq!((publish.set, publish.key), (Some(9), AppendKey::Unanswered));
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

proptest! {
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
