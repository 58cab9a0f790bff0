//! Runs of the simulator that every change must survive. By hand, more of them:
//! `cargo run --release -p courser-sim -- --seeds 20000 --keep-going`.

use courser_sim::{Counts, Excuse, Plan, Worlds, replay_command, run_plan, run_seed};

/// Seeds of an ordinary test run.
const SEEDS: u64 = 1_000;

/// Runs seeds: the sums, and what was broken.
fn run_all(seeds: impl Iterator<Item = u64>, change: impl Fn(&mut Plan)) -> (Counts, Vec<String>) {
    let mut sum = Counts::default();
    let mut broken = Vec::new();
    for seed in seeds {
        let mut plan = Plan::new(seed);
        change(&mut plan);
        let again = replay_command(&plan);
        let outcome = run_plan(plan);
        sum.add(&outcome.counts);
        if let Some(violation) = outcome.violation {
            broken.push(format!("seed {seed}: {violation}\n  {again}"));
        }
    }
    (sum, broken)
}

/// Says what was broken, if anything was.
fn assert_none(broken: &[String]) {
    assert!(
        broken.is_empty(),
        "{} of {SEEDS} seeds:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

/// A run in which nothing happens proves nothing.
fn assert_busy(sum: &Counts) {
    assert!(sum.published > 50 * SEEDS, "{sum:?}");
    assert!(sum.delivered > 100 * SEEDS, "{sum:?}");
    assert!(sum.resumed > SEEDS, "{sum:?}");
    assert!(sum.repeats > SEEDS / 2, "{sum:?}");
    assert!(sum.replays > 5 * SEEDS, "{sum:?}");
}

#[test]
fn every_seed_keeps_the_rules() {
    let (sum, broken) = run_all(1..=SEEDS, |_| ());
    assert_none(&broken);
    assert_busy(&sum);
}

/// The same worlds go another way when nobody shares.
#[test]
fn seeds_with_groups_keep_the_rules_without_them() {
    let with_groups = |&seed: &u64| Plan::new(seed).groups;
    let (sum, broken) = run_all((1..=SEEDS).filter(with_groups), |plan| plan.groups = false);
    assert_none(&broken);
    assert!(sum.delivered > 50 * SEEDS, "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 17, 44, 91] {
        let (first, second) = (run_seed(seed, None), run_seed(seed, None));
        assert!(first.trace.len() > 1_000, "seed {seed} has a trace");
        assert!(first.trace == second.trace, "seed {seed}: two traces");
        assert_eq!(first.counts, second.counts);
    }
}

#[test]
fn different_seeds_give_different_runs() {
    assert_ne!(run_seed(1, None).trace, run_seed(2, None).trace);
}

#[test]
fn a_replay_command_says_what_was_changed() {
    let rough = (1..=SEEDS).map(Plan::new);
    let mut rough = rough.filter(|plan| plan.groups && plan.deposals > 0);
    let mut plan = rough.next().expect("a seed with both is among the first");
    let drawn = replay_command(&plan);
    assert!(
        drawn.ends_with(&format!("--from {} --trace", plan.seed)),
        "{drawn}"
    );
    plan.groups = false;
    plan.deposals = 0;
    assert_eq!(
        replay_command(&plan),
        format!("{drawn} --no-groups --no-deposals")
    );
    plan.deposals = 30;
    plan.faulty_ms = 999;
    assert_eq!(
        replay_command(&plan),
        format!("{drawn} --no-groups --deposals 30 --faulty-ms 999")
    );
}

#[test]
fn a_replay_command_names_its_kind_of_worlds() {
    let page = include_str!("../../../docs/simulator.md");
    for worlds in Worlds::ALL {
        assert_eq!(Worlds::named(worlds.name()), Some(worlds));
        let flag = match worlds {
            Worlds::Plain => String::new(),
            _ => format!(" --{}", worlds.name()),
        };
        for seed in [7, 9] {
            let command = replay_command(&worlds.plan(seed));
            let expected = format!("--from {seed} --trace{flag}");
            assert!(command.ends_with(&expected), "{command}");
        }
        let row = format!("| `courser-sim{flag}` |");
        assert!(page.contains(&row), "docs/simulator.md has no {row}");
    }
}

/// M36: a group becomes durable with messages in its volatile part, and volatile again, with members and leaders that come and go.
#[test]
fn seeds_with_one_group_that_changes_its_class() {
    let (sum, broken) = run_all(1..=300, |plan| *plan = Worlds::OneGroup.plan(plan.seed));
    assert_none(&broken);
    assert!(sum.connections > 1_500, "{sum:?}");
}

/// M27, M31: two groups in partitions that often lose their leader, for clients that are members of both.
#[test]
fn seeds_with_two_groups_that_lose_their_leaders() {
    let (sum, broken) = run_all(1..=200, |plan| *plan = Worlds::TwoGroups.plan(plan.seed));
    assert_none(&broken);
    assert!(sum.delivered > 60_000, "{sum:?}");
}

/// M36: what the volatile part of a group had offered to a leader that was lost meanwhile was taken by the next one, and void. Both parts
/// took the same messages.
#[test]
fn what_was_offered_to_an_earlier_leader_is_not_taken() {
    let outcome = run_plan(Worlds::TwoGroups.plan(28));
    assert_eq!(outcome.violation, None);
    assert!(outcome.trace.contains("Part {"), "parts are offered");
}

/// I4, M35: a client that asks for a new session, is refused and goes on with the old one has forgotten what it had received of it. The
/// repeat of an exchange is new to it, each time.
#[test]
fn a_client_may_forget_an_exchange_more_than_once() {
    let outcome = run_plan(Worlds::TwoGroups.plan(55));
    assert_eq!(outcome.violation, None);
    let came = outcome.trace.matches("c0 gets message 15 on g/1 as");
    assert_eq!(came.count(), 3, "once, and again behind each refusal");
    assert!(outcome.excused(Excuse::ExchangeForgotten) > 0);
}

/// M31, v5 [MQTT-3.3.4-9]: a place in the window was kept for a packet id that nobody was to hear of any more, because the session had left
/// the group and the leader that had asked for it was lost. With Receive Maximum 1 the client got nothing above QoS 0.
#[test]
fn a_place_is_free_again_when_the_group_has_forgotten_who_left() {
    let outcome = run_plan(Worlds::TwoGroups.plan(2));
    assert_eq!(outcome.violation, None);
    assert!(outcome.trace.contains("Void"), "its front hears of it");
}

/// M31: what a new leader gave before it said that this was all, under an id that was named for an earlier one, was dropped where it
/// waited for room. It came much later, with DUP, when its packet id had served another message.
#[test]
fn what_a_new_leader_gives_under_a_named_id_is_not_dropped() {
    for seed in [19, 41, 67, 150] {
        let outcome = run_plan(Worlds::TwoGroups.plan(seed));
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

/// M14: what is asked of a partition without a leader comes behind what its last one was asked and has not answered. A leave came before
/// the join that it undid, and again behind it: the group said that nothing was left of the session, and PUBREL never came.
#[test]
fn what_is_asked_of_nobody_comes_in_its_order() {
    let outcome = run_plan(Worlds::TwoGroups.plan(906));
    assert_eq!(outcome.violation, None);
    assert!(outcome.trace.contains("to an old leader"), "it is put off");
}

/// A plain or a tight world in which most partitions lose their leader most of the time.
fn with_many_deposals(plan: Plan) -> Plan {
    Plan {
        deposals: 30,
        kills: 0,
        ..plan
    }
}

/// M28: of a client that forgets its half of a session and goes on with it (v5 [MQTT-3.2.2-4] asks it to close), a message comes through that
/// was never answered, behind what it has published since.
#[test]
fn a_message_that_its_publisher_has_forgotten_may_come_late() {
    for seed in [282, 511] {
        let outcome = run_plan(with_many_deposals(Plan::new(seed)));
        assert_eq!(outcome.violation, None, "seed {seed}");
        assert!(outcome.excused(Excuse::Forgotten) > 0, "seed {seed}");
    }
}

/// M26: a DISCONNECT that nobody leads the session to hear of, or that is lost with its leader: to the log the connection was lost.
#[test]
fn a_good_bye_may_come_to_nobody() {
    let outcome = run_plan(with_many_deposals(Plan::new(1707)));
    assert_eq!(outcome.violation, None);
    assert!(outcome.excused(Excuse::GoodByeLost) > 0, "the will came");
}

/// M34: a retained message of QoS 2 was still in an outbox of its publisher's home when its keeper was asked for a new subscription, which
/// missed it.
#[test]
fn a_subscription_gets_what_was_on_its_way_to_its_keeper() {
    for seed in [514, 763] {
        let outcome = run_plan(with_many_deposals(Plan::new(seed)));
        assert_eq!(outcome.violation, None, "seed {seed}");
        assert!(outcome.trace.contains("append Outbox"), "seed {seed}");
    }
    let outcome = run_plan(with_many_deposals(Worlds::OneGroup.plan(112)));
    assert_eq!(outcome.violation, None);
    assert!(outcome.trace.contains("append Outbox"));
}

/// M19, M34: a retained message of QoS 2 whose publisher had begun a new session waited in an outbox, and came to where it is kept behind newer
/// ones. Who had had those live found it when it subscribed again.
#[test]
fn a_retained_message_may_outlive_its_session() {
    for seed in [2_318, 2_818] {
        let outcome = run_plan(with_many_deposals(Worlds::Tight.plan(seed)));
        assert_eq!(outcome.violation, None, "seed {seed}");
        let outlived = outcome.excused(Excuse::OutlivesSession);
        assert!(outlived > 0, "seed {seed}");
    }
}

/// M34: a question for retained messages that a new leader is asked again was answered twice, and both answers were taken.
#[test]
fn a_question_that_is_sent_again_is_answered_once() {
    let outcome = run_plan(Worlds::OneGroup.plan(247));
    assert_eq!(outcome.violation, None);
    assert!(outcome.trace.contains("lost its leader"), "it is new");
}

/// M36: a session that left the volatile part of a group was a member of the durable one as well, because a link had said its join again.
#[test]
fn who_leaves_a_group_leaves_all_of_it() {
    let outcome = run_plan(Worlds::OneGroup.plan(823));
    assert_eq!(outcome.violation, None);
    assert!(outcome.counts.published > 100, "{:?}", outcome.counts);
}

/// M28: what a partition had stored of a QoS 2 publish when it lost its leader did not reach clean sessions, and its publisher was told that
/// it had.
#[test]
fn a_publish_that_outlives_its_leader_reaches_clean_sessions() {
    for seed in [712, 4379] {
        let outcome = run_plan(Worlds::OneGroup.plan(seed));
        assert_eq!(outcome.violation, None);
        assert!(outcome.trace.contains("lost its leader"), "seed {seed}");
    }
}

/// A DISCONNECT that waits for the appends of its front when the partition loses its leader is lost with it: to the next leader the
/// connection was lost, and its will is due (M26).
#[test]
fn a_good_bye_may_be_lost_with_a_leader() {
    let outcome = run_plan(with_many_deposals(Worlds::OneGroup.plan(206)));
    assert_eq!(outcome.violation, None);
    assert!(outcome.excused(Excuse::GoodByeLost) > 0, "the will came");
}
