//! A user keeps no more sessions than it may, over all partitions, whatever ends, begins anew or starts again.

use courser_contract::{ConnectRefusal, DetachCause};
use proptest::prelude::*;

use crate::people::will;
use crate::world::{Commits, DURABLE, OTHER, Options, World};

const REFUSED: Option<ConnectRefusal> = Some(ConnectRefusal::UserSessions);

/// Of a user that may keep so many.
fn of(user: &str, most: u32) -> Options {
    Options {
        user_sessions_max: most,
        ..Options::of(user)
    }
}

/// Comes with this client id; why it is refused.
fn comes(world: &mut World, client_id: &str, options: Options) -> Option<ConnectRefusal> {
    let at = world.client(client_id);
    world.connect(at, options);
    world.settle();
    let refused = world.clients[at].refused;
    assert_eq!(refused.is_none(), world.clients[at].home.is_some());
    refused
}

/// Two sessions of a user that may keep two.
fn full() -> World {
    let mut world = World::new();
    assert_eq!(comes(&mut world, "a", of("anna", 2)), None);
    let elsewhere = Options {
        place: OTHER,
        ..of("anna", 2)
    };
    assert_eq!(comes(&mut world, "b", elsewhere), None);
    world
}

#[test]
fn i9_a_user_keeps_no_more_sessions_than_it_may() {
    let mut world = full();
    assert_eq!(comes(&mut world, "c", of("anna", 2)), REFUSED);
    assert_eq!(comes(&mut world, "c", of("ben", 2)), None, "another user's");
    assert_eq!(comes(&mut world, "d", of("anna", 3)), None, "it may more");
    let clean = Options {
        owner: Some("anna".into()),
        user_sessions_max: 2,
        ..Options::clean()
    };
    assert_eq!(comes(&mut world, "e", clean), None, "nothing is kept of it");
    assert_eq!(comes(&mut world, "f", Options::durable()), None, "nobody's");
}

#[test]
fn i9_who_has_a_session_takes_it_up_or_begins_it_anew_at_the_limit() {
    for is_away in [false, true] {
        for clean_start in [false, true] {
            for has_will in [false, true] {
                let mut world = full();
                let options = Options {
                    clean_start,
                    will: will("w", 60).will.filter(|_| has_will),
                    ..of("anna", 2)
                };
                let first = world.client("a");
                world.attach(first, options.clone());
                if is_away {
                    world.detach(first, DetachCause::Lost);
                }
                for _ in 0..3 {
                    assert_eq!(comes(&mut world, "a", options.clone()), None);
                    assert_eq!(comes(&mut world, "c", options.clone()), REFUSED);
                }
                assert_eq!(world.fx.kept_by("anna"), 2);
            }
        }
    }
}

/// The place of a session that ends for its own client is free at no moment between, whoever asks.
#[test]
fn i9_nobody_gets_the_place_of_a_session_that_is_begun_anew() {
    for has_will in [false, true] {
        for expiry_seconds in [0, 60] {
            let mut world = full();
            let options = Options {
                clean_start: true,
                will: will("w", 0).will.filter(|_| has_will),
                ..of("anna", 2)
            };
            let old = Options {
                clean_start: false,
                expiry_seconds,
                ..options.clone()
            };
            assert_eq!(comes(&mut world, "a", old), None);
            world.commits = Commits::Held;
            let again = world.client("a");
            world.connect(again, options.clone());
            let others: Vec<usize> = (0..20)
                .map(|number| {
                    let other = world.client(&format!("o{number}"));
                    let place = [DURABLE, OTHER][number % 2];
                    world.connect(
                        other,
                        Options {
                            place,
                            ..of("anna", 2)
                        },
                    );
                    world.turn();
                    world.commit_one([OTHER, DURABLE][number % 2]);
                    other
                })
                .collect();
            world.settle();
            assert_eq!(world.clients[again].refused, None);
            assert!(world.clients[again].home.is_some());
            for other in others {
                assert_eq!(world.clients[other].refused, REFUSED);
            }
            assert_eq!(world.fx.kept_by("anna"), 2);
        }
    }
}

#[test]
fn i9_a_session_that_ends_leaves_its_place() {
    let mut world = full();
    let short = Options {
        expiry_seconds: 1,
        ..of("anna", 2)
    };
    let a = world.client("a");
    world.attach(a, short);
    world.detach(a, DetachCause::Lost);
    assert_eq!(comes(&mut world, "c", of("anna", 2)), REFUSED);
    for _ in 0..20 {
        world.pass_time(100);
        world.settle();
    }
    assert_eq!(comes(&mut world, "c", of("anna", 2)), None);
    assert_eq!(comes(&mut world, "a", of("anna", 2)), REFUSED);
    let clean = Options {
        owner: Some("anna".into()),
        ..Options::clean()
    };
    assert_eq!(
        comes(&mut world, "c", clean),
        None,
        "its own, which ends then"
    );
    assert_eq!(comes(&mut world, "a", of("anna", 2)), None);
}

#[test]
fn i9_sessions_are_counted_again_by_the_next_leader() {
    let mut world = full();
    for id in [DURABLE, OTHER] {
        world.restart(id);
        world.settle();
        assert_eq!(world.fx.kept_by("anna"), 2);
        world.depose(id, 0);
        assert_eq!(world.fx.kept_by("anna"), 1, "it is not led here");
        world.elect(id);
        world.settle();
        assert_eq!(comes(&mut world, "c", of("anna", 2)), REFUSED);
    }
    assert_eq!(comes(&mut world, "a", of("anna", 2)), None);
    // Less than there are: nobody loses any.
    assert_eq!(comes(&mut world, "a", of("anna", 1)), None);
    assert_eq!(comes(&mut world, "d", of("anna", 1)), REFUSED);
}

#[test]
fn i9_a_session_of_nobody_counts_for_the_user_that_takes_it_up() {
    let mut world = World::new();
    assert_eq!(comes(&mut world, "n", Options::durable()), None);
    assert_eq!(comes(&mut world, "a", of("anna", 1)), None);
    let mine = world.clients.len() - 2;
    assert_eq!(comes(&mut world, "n", of("anna", 1)), REFUSED);
    assert!(!world.clients[mine].taken_over, "nobody was displaced");
    assert_eq!(comes(&mut world, "n", of("anna", 2)), None);
    assert_eq!(world.fx.kept_by("anna"), 2);
}

/// The session was nobody's again, and so was the place.
#[test]
fn i9_a_session_of_nobody_that_was_not_taken_up_after_all_counts_for_nobody() {
    let mut world = World::new();
    assert_eq!(comes(&mut world, "n", Options::durable()), None);
    world.restart(DURABLE);
    world.settle();
    world.commits = Commits::Held;
    let mine = world.client("n");
    world.connect(mine, of("anna", 1));
    world.depose(DURABLE, 0);
    assert_eq!(world.fx.kept_by("anna"), 0);
    world.elect(DURABLE);
    world.settle();
    assert_eq!(comes(&mut world, "a", of("anna", 1)), None);
}

#[test]
fn i9_who_is_refused_for_sessions_displaces_nobody() {
    let mut world = full();
    let clean = Options {
        owner: Some("anna".into()),
        ..Options::clean()
    };
    let first = world.client("c");
    world.attach(first, clean);
    assert_eq!(comes(&mut world, "c", of("anna", 2)), REFUSED);
    assert!(!world.clients[first].taken_over);
}

#[derive(Clone, Debug)]
enum Step {
    Connect {
        client_id: usize,
        user: usize,
        clean_start: bool,
        expiry_seconds: u32,
        has_will: bool,
    },
    Detach(usize),
    Commit(bool),
    Turn,
    Restart(bool),
    Depose(bool, usize),
    Time(u64),
    Settle,
}

const IDS: usize = 5;
const USERS: [Option<&str>; 3] = [Some("anna"), Some("ben\0@1"), None];
/// Of each user.
const MOST: u32 = 2;

fn step() -> impl Strategy<Value = Step> {
    let connect = (
        0..IDS,
        0..USERS.len(),
        any::<bool>(),
        prop_oneof![Just(0u32), Just(1), Just(60)],
        any::<bool>(),
    );
    let connect = connect.prop_map(|(client_id, user, clean_start, expiry_seconds, has_will)| {
        Step::Connect {
            client_id,
            user,
            clean_start,
            expiry_seconds,
            has_will,
        }
    });
    prop_oneof![
        8 => connect,
        3 => any::<usize>().prop_map(Step::Detach),
        6 => any::<bool>().prop_map(Step::Commit),
        4 => Just(Step::Turn),
        1 => any::<bool>().prop_map(Step::Restart),
        1 => (any::<bool>(), 0usize..3).prop_map(|(other, kept)| Step::Depose(other, kept)),
        2 => (1u64..1_500).prop_map(Step::Time),
        2 => Just(Step::Settle),
    ]
}

fn place(other: bool) -> courser_contract::PartitionId {
    if other { OTHER } else { DURABLE }
}

fn takes(world: &mut World, step: Step) {
    match step {
        Step::Connect {
            client_id,
            user,
            clean_start,
            expiry_seconds,
            has_will,
        } => {
            let at = world.client(&format!("c{client_id}"));
            let options = Options {
                clean_start,
                expiry_seconds,
                will: will("w", 1).will.filter(|_| has_will),
                owner: USERS[user].map(Into::into),
                user_sessions_max: MOST,
                place: place(client_id % 2 == 1),
                ..Options::durable()
            };
            world.connect(at, options);
        }
        Step::Detach(at) => {
            let connected = (0..world.clients.len()).filter(|at| world.clients[*at].home.is_some());
            let connected: Vec<usize> = connected.collect();
            if let Some(&at) = connected.get(at % connected.len().max(1)) {
                for (to, message) in world.clients[at].detach(DetachCause::Lost) {
                    world.send_home(to, message);
                }
            }
        }
        Step::Commit(other) => {
            world.commit_one(place(other));
        }
        Step::Turn => world.turn(),
        Step::Restart(other) => world.restart(place(other)),
        Step::Depose(other, kept) => {
            world.depose(place(other), kept);
            world.elect(place(other));
        }
        Step::Time(ms) => world.pass_time(ms),
        Step::Settle => world.settle(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Nobody has ever more than it may, and what is counted is what there is (`World::settle`).
    #[test]
    fn i9_what_is_counted_is_what_is_kept(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        world.commits = Commits::Held;
        // Who is not led anywhere is not counted meanwhile.
        let mut was_led = true;
        for step in steps {
            was_led &= !matches!(step, Step::Restart(_) | Step::Depose(..));
            takes(&mut world, step);
            for user in ["anna", "ben"] {
                prop_assert!(!was_led || world.fx.kept_by(user) <= MOST);
            }
        }
        world.settle();
        world.check();
    }
}
