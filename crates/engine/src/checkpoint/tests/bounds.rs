//! No step and no fact writes much, however large what it touches is.

use super::*;

/// Bytes that a step writes at most, where names are short: a chunk of 256 references.
const STEP_MAX: u64 = 2_048;
/// The same of a fact that changes one thing: the head of what it belongs to, and that.
const FACT_MAX: u64 = 256;

#[test]
fn m42_a_message_for_a_thousand_streams_writes_nothing() {
    let mut life = Life::new();
    let streams: Vec<u64> = (0..1_000)
        .map(|place| session(1 + u64::from(place), place))
        .collect();
    streams.iter().for_each(|&number| life.open(number));
    for _ in 0..300 {
        life.publish(&streams, &[]);
    }
    life.commit();
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

/// By hand, in release: how long the worst fact and the worst step take.
#[test]
#[ignore = "takes seconds; by hand"]
fn bench_turns() {
    let time = |name: &str, life: &mut Life| {
        let mut steps = (0, std::time::Duration::ZERO, 0);
        loop {
            let begun = std::time::Instant::now();
            let bytes = life.step(1_024);
            let took = begun.elapsed();
            steps = (steps.0 + 1, steps.1.max(took), bytes.max(steps.2));
            if life.has_ended() {
                break;
            }
        }
        let (count, took, bytes) = steps;
        eprintln!("{name}: {count} slices, the longest {took:?}, {bytes} bytes at most");
    };
    let fact = |name: &str, life: &mut Life| {
        let begun = std::time::Instant::now();
        let bytes = life.commit();
        eprintln!("{name}: {:?}, {bytes} bytes", begun.elapsed());
    };
    let fan_out = || {
        let mut life = Life::new();
        let streams: Vec<u64> = (0..1_000)
            .map(|place| session(1 + u64::from(place), place))
            .collect();
        streams.iter().for_each(|&number| life.open(number));
        (0..300).for_each(|_| life.publish(&streams, &[]));
        life.commit();
        (life, streams)
    };
    for begin in [false, true] {
        eprintln!("a checkpoint has just begun: {begin}");
        let (mut life, streams) = fan_out();
        if begin {
            life.begin();
        }
        life.publish(&streams, &[]);
        fact("a message for 1,000 sessions", &mut life);
        streams
            .iter()
            .for_each(|&number| life.outcome(number, (0, 0), Fate::Done));
        fact("its 1,000 outcomes", &mut life);
        if begin {
            time("1,000 sessions with 300 messages", &mut life);
        }
        let (mut life, number) = group_of_thousand(100_000);
        if begin {
            life.begin();
        }
        life.rare(Rare::GroupLeft {
            group: number,
            member: home(3),
            ended: true,
        });
        fact(
            "a member of 1,000 leaves a group with 100,000 messages",
            &mut life,
        );
        if begin {
            time("that group", &mut life);
        }
        let (mut life, number) = laden();
        if begin {
            life.begin();
        }
        let session = SessionUid(number);
        let packet_id = 60_000;
        life.rare(Rare::Released { session, packet_id });
        fact("one of 65,535 holds is released", &mut life);
        if begin {
            time("that session", &mut life);
        }
        let (mut life, number) = laden();
        for _ in 0..1_000 {
            (0..100).for_each(|_| life.publish(&[number], &[]));
            life.commit();
        }
        if begin {
            life.begin();
        }
        life.rare(Rare::SessionEnded {
            session: SessionUid(number),
        });
        fact("a session with 100,000 references ends", &mut life);
        if begin {
            time("what is left of it", &mut life);
        }
    }
}
