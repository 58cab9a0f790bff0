//! An exchange that is cut behind each of its packets in turn: small worlds of two clients, the same up to the packet behind which a
//! connection is lost, whichever way that packet went. The session goes on with the next connection, and the oracle sees to it that no
//! acknowledged message is lost, none of QoS 2 comes twice, and order is kept: v3 [MQTT-4.4.0-1], v5 [MQTT-4.4.0-1], M28, M30, M32.

use courser_sim::{Bug, Counts, Plan, replay_command, run_plan};

/// Worlds, of both versions and all QoS both ways.
const WORLDS: u64 = 4;

/// A world of a seed in which nothing goes wrong but this.
fn world(seed: u64, cut_after: u64) -> Plan {
    let plan = Plan::new(seed);
    Plan {
        clients: 2,
        faulty_ms: 1_000,
        commit_ms: plan.commit_ms.min(5),
        link_ms: plan.link_ms.min(2),
        socket_ms: 1,
        pause_ms: 30,
        kills: 0,
        deposals: 0,
        cuts: 0,
        withheld: 0,
        groups: false,
        returns: 100,
        cut_after: Some(cut_after),
        ..plan
    }
}

/// Cuts a world behind each packet in turn until there is no such packet, or a rule is broken: cuts, their sums, and how.
fn cut_everywhere(seed: u64, bug: Option<Bug>) -> (u64, Counts, Option<String>) {
    let mut sum = Counts::default();
    for packet in 1.. {
        let plan = Plan {
            bug,
            ..world(seed, packet)
        };
        let again = replay_command(&plan);
        let outcome = run_plan(plan);
        if let Some(violation) = outcome.violation {
            let broken =
                format!("seed {seed}, cut behind packet {packet}: {violation}\n  like {again}");
            return (packet, sum, Some(broken));
        }
        if outcome.counts.packets < packet {
            return (packet - 1, sum, None);
        }
        sum.add(&outcome.counts);
    }
    unreachable!("a world has less than 2^64 packets")
}

#[test]
fn an_exchange_cut_behind_each_packet_loses_and_repeats_nothing() {
    let mut sum = Counts::default();
    let mut all = 0;
    for seed in 1..=WORLDS {
        let (cuts, counts, broken) = cut_everywhere(seed, None);
        assert_eq!(broken, None);
        all += cuts;
        sum.add(&counts);
    }
    // A run in which nothing happens proves nothing.
    assert!(all > 100 * WORLDS, "{all} cuts, {sum:?}");
    assert!(sum.resumed > all / 2, "{all} cuts, {sum:?}");
    assert!(sum.repeats > all / 20, "{all} cuts, {sum:?}");
}

#[test]
fn cuts_find_what_is_planted_in_the_exchange() {
    for bug in [Bug::ForgetHold, Bug::WrongDup] {
        let found = (1..=WORLDS).any(|seed| cut_everywhere(seed, Some(bug)).2.is_some());
        assert!(found, "{bug} is not found");
    }
}
