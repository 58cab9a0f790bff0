//! No step and no fact writes much, however large what it touches is.

use super::*;
use crate::session::Subscribed;

/// Bytes that a step writes at most, where names are short: a chunk of 256 references.
const STEP_MAX: u64 = 2_048;
/// The same of a fact that changes one thing: the head of what it belongs to, and that.
const FACT_MAX: u64 = 256;

/// A thousand sessions for which 300 messages wait.
fn thousand(life: &mut Life) -> Vec<u64> {
    let numbers = (0..1_000).map(|place| session(1 + u64::from(place), place));
    let streams: Vec<u64> = numbers.collect();
    streams.iter().for_each(|&number| life.open(number));
    (0..300).for_each(|_| life.publish(&streams, &[]));
    life.commit();
    streams
}

#[test]
fn m42_a_message_for_a_thousand_streams_writes_nothing() {
    let mut life = Life::new();
    let streams = thousand(&mut life);
    life.begin();
    for _ in 0..3 {
        life.publish(&streams, &[7]);
        assert_eq!(life.commit(), 0);
    }
    assert!(life.finish() <= STEP_MAX);
}

/// Each takes one of the messages that wait for it, of which there are some chunks.
#[test]
fn m42_an_outcome_writes_what_it_ends() {
    let mut life = Life::new();
    let number = session(1, 0);
    life.open(number);
    for _ in 0..2_000 {
        life.publish(&[number], &[]);
    }
    life.commit();
    life.begin();
    for seq in (0..2_000).step_by(100) {
        life.outcome(number, (seq, seq), Fate::Received);
        assert!(life.commit() <= FACT_MAX);
        life.outcome(number, (seq, seq), Fate::Done);
        assert!(life.commit() <= FACT_MAX);
    }
    assert!(life.finish() <= STEP_MAX);
}

/// A group with a thousand members, to whom all of its messages are owed in turn.
fn group_of_thousand(messages: u64) -> (Life, u64) {
    let mut life = Life::new();
    let number = group(1, 0);
    life.make_group(number);
    for member in 0..1_000 {
        life.join(number, member);
    }
    for seq in 0..messages {
        life.publish(&[number], &[]);
        life.assign(number, seq, seq % 1_000);
        if seq % 3 == 0 {
            let (seq, attempts) = (Seq(seq), 2);
            life.of_group(number, GroupFact::Attempts { seq, attempts });
        }
        if seq % 100 == 0 {
            life.commit();
        }
    }
    life.commit();
    (life, number)
}

#[test]
fn m42_a_large_group_is_written_in_small_parts() {
    let (mut life, number) = group_of_thousand(20_000);
    life.begin();
    let seq = Seq(7_000);
    life.of_group(number, GroupFact::Received { seq });
    assert!(life.commit() <= FACT_MAX);
    life.of_group(number, GroupFact::Attempts { seq, attempts: 9 });
    assert!(life.commit() <= FACT_MAX);
    life.of_group(number, GroupFact::Unassigned { seq });
    assert!(life.commit() <= FACT_MAX);
    life.join(number, 17);
    assert!(life.commit() <= FACT_MAX);
    life.join(number, 5_000);
    assert!(life.commit() <= FACT_MAX);
    life.outcome(number, (9_000, 9_000), Fate::Done);
    assert!(life.commit() <= FACT_MAX);
    life.publish(&[number], &[]);
    assert_eq!(life.commit(), 0);
    assert!(life.finish() <= STEP_MAX);
}

#[test]
fn m42_who_leaves_a_large_group_takes_along_what_is_owed_to_it_and_no_more() {
    let (mut life, number) = group_of_thousand(20_000);
    life.begin();
    life.rare(Rare::GroupLeft {
        group: number,
        member: home(3),
        ended: true,
    });
    // One message in each twenty thousand: twenty of them, in as many chunks.
    assert!(life.commit() <= 21 * FACT_MAX);
    assert!(life.finish() <= STEP_MAX);
}

#[test]
fn m42_a_group_that_ends_is_written_in_small_parts() {
    let (mut life, number) = group_of_thousand(20_000);
    life.begin();
    (0..400).for_each(|_| _ = life.step(1));
    life.rare(Rare::GroupEnded { group: number });
    assert!(life.commit() <= FACT_MAX);
    assert!(life.finish() <= STEP_MAX);
}

/// A session with as many holds as there are packet ids, and 10,000 subscriptions.
fn laden() -> (Life, u64) {
    let mut life = Life::new();
    let number = session(1, 0);
    life.open(number);
    for packet_id in 1..=u16::MAX {
        life.rare(Rare::Held {
            session: SessionUid(number),
            packet_id,
            hash: packet_id.into(),
        });
    }
    for n in 0..10_000 {
        life.subscribe(number, &format!("filter/{n}"), 1 + n);
    }
    life.commit();
    (life, number)
}

#[test]
fn m42_a_session_with_many_holds_and_subscriptions_is_written_in_small_parts() {
    let (mut life, number) = laden();
    let session = SessionUid(number);
    life.begin();
    for packet_id in [9, 60_000] {
        life.rare(Rare::Released { session, packet_id });
        assert!(life.commit() <= FACT_MAX);
        let hash = 1;
        life.rare(Rare::Held {
            session,
            packet_id,
            hash,
        });
        assert!(life.commit() <= FACT_MAX);
    }
    life.subscribe(number, "filter/500", 20_000);
    assert!(life.commit() <= FACT_MAX);
    life.rare(Rare::Unsubscribed {
        session,
        filter: "filter/600".into(),
        share: None,
    });
    assert!(life.commit() <= FACT_MAX);
    life.rare(Rare::ScanEnded { session, scan: 700 });
    assert!(life.commit() <= FACT_MAX);
    assert!(life.finish() <= STEP_MAX);
}

#[test]
fn m42_a_session_that_ends_is_written_in_small_parts() {
    let (mut life, number) = laden();
    for _ in 0..200 {
        for _ in 0..100 {
            life.publish(&[number], &[]);
        }
        life.commit();
    }
    life.begin();
    (0..100).for_each(|_| _ = life.step(1));
    let before = life.partition.checkpoint_bytes();
    life.rare(Rare::SessionEnded {
        session: SessionUid(number),
    });
    assert!(life.commit() <= FACT_MAX);
    let kept = life.partition.checkpoint_bytes() - before;
    assert!(kept > 16 * 20_000, "what is kept counts: {kept} bytes");
    assert!(life.finish() <= STEP_MAX);
}

/// All that it had was freed in one step, once it was written: 10,000 subscriptions, their scans and 65,535 holds are some 32,000 blocks.
#[test]
fn m42_what_is_gone_is_freed_in_small_parts() {
    let (mut life, number) = laden();
    let group = group(2, 0);
    life.make_group(group);
    for seq in 0..20_000 {
        life.publish(&[group], &[]);
        let (seq, attempts) = (Seq(seq), 2);
        life.of_group(group, GroupFact::Attempts { seq, attempts });
    }
    life.commit();
    life.begin();
    life.rare(Rare::GroupEnded { group });
    life.rare(Rare::SessionEnded {
        session: SessionUid(number),
    });
    life.commit();
    let saving = life.partition.state.saving.as_ref();
    assert_eq!(saving.map(|it| it.gone.len()), Some(2));
    assert!(life.finish() <= STEP_MAX);
}

/// Sixteen topics were one unit, whatever their length: a piece grew, and was copied, in one turn.
#[test]
fn m42_retained_messages_of_long_topics_are_written_in_small_parts() {
    const TOPIC_BYTES: usize = 4_096;
    let mut life = Life::new();
    let level = "l".repeat(TOPIC_BYTES - 8);
    for n in 0..100 {
        let topic = format!("{n:07}/{level}");
        let kept = Message {
            topic: &topic,
            is_kept: true,
            ..Message::default()
        };
        life.message_to(&[], &[], kept);
        life.commit();
    }
    life.begin();
    assert!(life.finish() <= STEP_MAX + TOPIC_BYTES as u64);
}

/// What a session has subscribed to and holds was left out: sessions without messages that ended during a slow checkpoint took memory and counted nothing.
#[test]
fn m42_what_is_gone_counts_with_its_subscriptions_and_holds() {
    let mut life = Life::new();
    let (number, other) = (session(1, 0), session(1, 1));
    life.open(number);
    life.open(other);
    for n in 0..1_000 {
        life.subscribe(number, &format!("filter/{n}"), 0);
    }
    let session = SessionUid(number);
    for packet_id in 1..=1_000 {
        life.rare(Rare::Held {
            session,
            packet_id,
            hash: 1,
        });
    }
    life.commit();
    life.begin();
    let before = life.partition.checkpoint_bytes();
    life.rare(Rare::SessionEnded { session });
    life.commit();
    let kept = life.partition.checkpoint_bytes() - before;
    let least = 1_000 * (size_of::<Subscribed>() + "filter/1".len() + size_of::<(u16, u64)>());
    assert!(kept >= least, "{kept} bytes of {least}");
    let has_gone = |life: &Life| {
        let saving = life.partition.state.saving.as_ref();
        saving.is_some_and(|it| !it.gone.is_empty())
    };
    while has_gone(&life) {
        life.step(1);
    }
    let saving = life.partition.state.saving.as_ref();
    let left = saving.expect("the other one is left").gone_bytes;
    assert_eq!(left, 0, "it is written whole, and given back");
    life.finish();
}

/// The notes of a checkpoint were kept to its end: whoever came and went while it was written slowly filled the memory.
#[test]
fn m42_what_comes_and_goes_while_a_checkpoint_is_written_leaves_no_notes() {
    let mut life = Life::new();
    let (number, group) = (session(1, 0), group(2, 0));
    life.open(number);
    life.subscribe(number, "filter", 1);
    life.make_group(group);
    life.commit();
    life.begin();
    let session = SessionUid(number);
    let mut most = 0;
    for n in 0..5_000_u64 {
        life.join(group, 10 + n);
        life.subscribe(number, "filter", 2 + n);
        life.subscribe(number, &format!("filter/{n}"), 0);
        let (packet_id, hash) = (1 + n as u16, n);
        life.rare(Rare::Held {
            session,
            packet_id,
            hash,
        });
        life.commit();
        most = most.max(life.notes());
        life.rare(Rare::GroupLeft {
            group,
            member: home(10 + n),
            ended: n % 2 == 0,
        });
        life.rare(Rare::Unsubscribed {
            session,
            filter: format!("filter/{n}").into(),
            share: None,
        });
        life.rare(Rare::Released { session, packet_id });
        life.commit();
    }
    assert!(most <= 5, "of what is there: {most}");
    assert!(life.notes() <= 2, "the subscription and its scan");
    life.finish();
}

/// Nor are those of what was written by itself kept once the walk has passed it.
#[test]
fn m42_the_walk_forgets_the_notes_that_it_passes() {
    let (mut life, number) = laden();
    let behind = session(2, 1);
    life.open(behind);
    (0..2_000).for_each(|_| life.publish(&[behind], &[]));
    life.commit();
    life.begin();
    for packet_id in 1..=1_000 {
        life.rare(Rare::Held {
            session: SessionUid(number),
            packet_id,
            hash: 1,
        });
    }
    for n in 0..1_000 {
        life.subscribe(number, &format!("filter/{n}"), 20_000 + n);
    }
    life.commit();
    let before = life.partition.checkpoint_bytes();
    assert_eq!(life.notes(), 3_000);
    let walk = |life: &Life| {
        let saving = life.partition.state.saving.as_ref();
        saving.expect("it goes on").walk.clone()
    };
    while matches!(walk(&life), Walk::Sets(_) | Walk::Sessions(0, _)) {
        life.step(1);
    }
    assert_eq!(life.notes(), 0);
    assert!(life.partition.checkpoint_bytes() < before, "they counted");
    life.finish();
}

/// How long what is done again and again in the same way takes: of each step the shortest time, since others run on the machine too.
#[derive(Default)]
struct Times {
    steps: Vec<std::time::Duration>,
    bytes: u64,
}

impl Times {
    /// Of one fact.
    fn of_fact(&mut self, life: &mut Life) {
        self.take(0, |life| life.commit(), life);
    }

    /// Of all slices of a turn, up to the end.
    fn of_slices(&mut self, life: &mut Life) {
        for at in 0.. {
            self.take(at, |life| life.step(1_024), life);
            if life.has_ended() {
                return;
            }
        }
    }

    fn take(&mut self, at: usize, mut work: impl FnMut(&mut Life) -> u64, life: &mut Life) {
        let begun = std::time::Instant::now();
        let bytes = work(life);
        let took = begun.elapsed();
        self.bytes = self.bytes.max(bytes);
        match self.steps.get_mut(at) {
            Some(step) => *step = took.min(*step),
            None => self.steps.push(took),
        }
    }
}

/// By hand, in release: how long the worst fact and the worst slice take, and the fact without a checkpoint.
#[test]
#[ignore = "takes seconds; by hand"]
fn bench_turns() {
    const ROUNDS: usize = 7;
    let fan_out = || {
        let mut life = Life::new();
        let streams = thousand(&mut life);
        life.publish(&streams, &[]);
        life
    };
    let outcomes = || {
        let mut life = Life::new();
        let streams = thousand(&mut life);
        let outcome = |&number: &u64| life.outcome(number, (0, 0), Fate::Done);
        streams.iter().for_each(outcome);
        life
    };
    let leave = || {
        let (mut life, group) = group_of_thousand(100_000);
        let (member, ended) = (home(3), true);
        life.rare(Rare::GroupLeft {
            group,
            member,
            ended,
        });
        life
    };
    let release = || {
        let (mut life, number) = laden();
        let (session, packet_id) = (SessionUid(number), 60_000);
        life.rare(Rare::Released { session, packet_id });
        life
    };
    let end = || {
        let (mut life, number) = laden();
        for _ in 0..1_000 {
            (0..100).for_each(|_| life.publish(&[number], &[]));
            life.commit();
        }
        let session = SessionUid(number);
        life.rare(Rare::SessionEnded { session });
        life
    };
    let worlds: [(&str, &dyn Fn() -> Life); 5] = [
        ("a message for 1,000 sessions", &fan_out),
        ("their 1,000 outcomes", &outcomes),
        ("one leaves a group of 1,000 with 100,000 messages", &leave),
        ("one of 65,535 holds is released", &release),
        ("a session with 100,000 messages ends", &end),
    ];
    for (name, make) in worlds {
        let [mut alone, mut fact, mut slices] = std::array::from_fn(|_| Times::default());
        for _ in 0..ROUNDS {
            alone.of_fact(&mut make());
            let mut life = make();
            life.begin();
            fact.of_fact(&mut life);
            slices.of_slices(&mut life);
        }
        eprintln!(
            "{name}: {:?}, beside a checkpoint {:?} and {} bytes; of {} slices the longest {:?}, the largest {} bytes",
            alone.steps[0],
            fact.steps[0],
            fact.bytes,
            slices.steps.len(),
            slices.steps.iter().max().expect("there are some"),
            slices.bytes
        );
    }
}
