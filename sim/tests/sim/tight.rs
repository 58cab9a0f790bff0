//! I9: worlds with limits that are reached. What waits for a session, its subscriptions and the output of its connection stay below
//! them after every step; what has no room is refused with its reason code or dropped by the session's policy and counted, nothing else
//! is missing, and nobody is refused below a limit. By hand, more of them: `cargo run --release -p courser-sim -- --tight --seeds 1000`.

use courser_sim::{Bug, Counts, Plan, Worlds, replay_command, run_plan};

const SEEDS: u64 = 120;

#[test]
fn i9_nothing_is_above_its_limit() {
    let mut sum = Counts::default();
    for seed in 1..=SEEDS {
        let outcome = run_plan(Worlds::Tight.plan(seed));
        assert_eq!(outcome.violation, None, "seed {seed}");
        sum.add(&outcome.counts);
    }
    assert!(sum.overflowed > 10 * SEEDS, "limits are reached: {sum:?}");
    assert!(sum.refused > SEEDS, "subscriptions are refused: {sum:?}");
    assert!(sum.delivered > 100 * SEEDS, "the rest arrives: {sum:?}");
}

/// 424 and 1764: what was acknowledged and dropped at once gave its room back twice; a connection that begins behind what was dropped
/// unsent.
#[test]
fn i9_nor_where_the_oldest_is_dropped() {
    let mut sum = Counts::default();
    for seed in (1..=60).chain([424, 1764]) {
        let outcome = run_plan(Worlds::Tight.plan(seed).dropping_oldest());
        assert_eq!(outcome.violation, None, "seed {seed}");
        sum.add(&outcome.counts);
    }
    eprintln!("{sum:?}");
    assert!(sum.overflowed > 10 * 62, "limits are reached: {sum:?}");
}

/// Sessions that refuse their publishers (M12): what was acknowledged comes, whatever its QoS.
#[test]
fn i1_nothing_is_dropped_where_publishers_are_refused() {
    let mut sum = Counts::default();
    for seed in 1..=SEEDS {
        let outcome = run_plan(Worlds::Tight.plan(seed).refusing());
        assert_eq!(outcome.violation, None, "seed {seed}");
        sum.add(&outcome.counts);
    }
    eprintln!("{sum:?}");
    assert!(sum.turned_away > SEEDS, "publishers are refused: {sum:?}");
    assert!(sum.delivered > 100 * SEEDS, "the rest arrives: {sum:?}");
}

/// Where no more topics may be retained, a QoS 2 message is stored for its subscribers and refused where it would be kept. A 3.1.1 client
/// hears nothing of it and sends it again on each connection.
#[test]
fn i4_what_is_refused_where_it_would_be_kept_comes_once_m28() {
    let mut sum = Counts::default();
    for seed in 1..=SEEDS {
        let outcome = run_plan(Plan::new(seed).retaining_few());
        assert_eq!(outcome.violation, None, "seed {seed}");
        sum.add(&outcome.counts);
    }
    eprintln!("{sum:?}");
    assert!(sum.turned_away > SEEDS, "publishers are refused: {sum:?}");
    assert!(sum.delivered > 50 * SEEDS, "the rest arrives: {sum:?}");
}

/// 716: a client that has no answer sends what was retained again, behind newer messages.
#[test]
fn m34_a_retained_message_that_came_again_is_not_older() {
    assert_eq!(run_plan(Worlds::Tight.plan(716)).violation, None);
}

/// Clients see nothing of a queue or an output that grows: nobody gets anything wrong until the process has no memory.
#[test]
fn i9_is_the_only_rule_that_finds_what_has_no_limit() {
    for bug in [Bug::QueueUnbounded, Bug::OutputUnbounded] {
        let plans = (1..=40).map(|seed| Worlds::Tight.plan(seed).with_bug(Some(bug)));
        let found: Vec<String> = plans.filter_map(|plan| run_plan(plan).violation).collect();
        assert!(found.len() > 2, "{bug}: {found:?}");
        assert!(
            found.iter().all(|text| text.starts_with("I9: ")),
            "{found:?}"
        );
    }
}

#[test]
fn a_replay_command_names_what_is_refused() {
    let command = replay_command(&Worlds::Tight.plan(7).refusing());
    assert!(command.ends_with("--trace --tight --refuse"), "{command}");
    let command = replay_command(&Plan::new(7).retaining_few());
    let ends = command.ends_with("--from 7 --trace --retain-few");
    assert!(ends, "{command}");
    let command = replay_command(&Plan::new(7).subscribing_last());
    let ends = command.ends_with("--from 7 --trace --subscribe-last");
    assert!(ends, "{command}");
}
