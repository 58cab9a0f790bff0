use courser_access::Limits;

use super::*;

const SECOND: u64 = 1_000;

fn rates(messages: u32) -> Rates {
    let limits = Limits {
        messages_per_second: Some(messages),
        ..Limits::default()
    };
    Rates::of(limits).unwrap()
}

fn named(user: Option<&'static str>, client_id: &'static str) -> Whose<'static> {
    let name = Name::ClientId(client_id);
    Whose { user, name }
}

fn nameless(last: u8) -> Whose<'static> {
    let name = Name::Address(Origin::V4([192, 0, 2, last]));
    Whose { user: None, name }
}

/// Publishes as much as it may at once; how much that was.
fn publish(joined: &Joined, now: Tick) -> u64 {
    let mut messages = 0;
    while !joined.quota.is_overdrawn(now.0) {
        joined.quota.take(now.0, 1, 0);
        messages += 1;
    }
    messages
}

fn count(quotas: &Quotas) -> (usize, usize) {
    let clients = quotas.clients();
    (clients.known.len(), clients.gone.len())
}

/// The invariant of `debts`.
fn check_debts(quotas: &Quotas) {
    let clients = quotas.clients();
    let in_debt = |(key, known): (&Key, &Known)| {
        let is_gone = known.here == 0;
        is_gone.then(|| known.debt(*key)).flatten()
    };
    let debts: BTreeSet<Debt> = clients.known.iter().filter_map(in_debt).collect();
    assert_eq!(clients.debts, debts);
}

#[test]
fn who_comes_again_and_again_publishes_no_more_than_who_stays() {
    for whose in [named(None, "c1"), named(Some("anna"), "c1"), nameless(1)] {
        for at_once in [1, 3] {
            let quotas = Quotas::default();
            let mut messages = 0;
            for ms in (0..10 * SECOND).step_by(10) {
                let now = Tick(SECOND + ms);
                let here: Vec<Joined> = (0..at_once)
                    .map(|_| quotas.join(&whose, rates(5), now))
                    .collect();
                messages += here.iter().map(|it| publish(it, now)).sum::<u64>();
                for gone in here {
                    gone.leave(now);
                }
            }
            // The rate for ten seconds, a burst of one, and one packet.
            assert!((50..=56).contains(&messages), "{whose:?}: {messages}");
        }
    }
}

#[test]
fn a_takeover_gives_no_new_burst() {
    let quotas = Quotas::default();
    let now = Tick(SECOND);
    let old = quotas.join(&named(None, "c1"), rates(5), now);
    assert_eq!(publish(&old, now), 6);
    let new = quotas.join(&named(None, "c1"), rates(5), now);
    assert_eq!(publish(&new, now), 0, "while the old one is still here");
    old.leave(now);
    assert_eq!(publish(&new, now), 0);
    let later = Tick(2 * SECOND);
    assert_eq!(publish(&new, later), 5);
    new.leave(later);
}

#[test]
fn what_one_client_owes_is_not_owed_by_another_one() {
    let quotas = Quotas::default();
    let now = Tick(SECOND);
    let all = [
        named(None, "c1"),
        named(None, "c2"),
        named(Some("anna"), "c1"),
        named(Some("ben"), "c1"),
        nameless(1),
        nameless(2),
    ];
    for whose in all {
        let one = quotas.join(&whose, rates(5), now);
        assert_eq!(publish(&one, now), 6, "{whose:?}");
        one.leave(now);
    }
}

#[test]
fn a_user_publishes_no_more_under_ever_new_client_ids_than_as_many_clients_as_it_has_at_once() {
    for at_once in [1, 3] {
        let quotas = Quotas::default();
        let (mut messages, mut names) = (0, 0_u64..);
        for ms in (0..10 * SECOND).step_by(10) {
            let now = Tick(SECOND + ms);
            let here: Vec<Joined> = names
                .by_ref()
                .take(at_once)
                .map(|name| {
                    let name = name.to_string();
                    let user = Some("anna");
                    let name = Name::ClientId(&name);
                    quotas.join(&Whose { user, name }, rates(5), now)
                })
                .collect();
            messages += here.iter().map(|it| publish(it, now)).sum::<u64>();
            for gone in here {
                gone.leave(now);
            }
            check_debts(&quotas);
            let (known, gone) = count(&quotas);
            assert!(known <= at_once && gone <= 4 * at_once, "{known}, {gone}");
        }
        let most = 50 * at_once as u64..=56 * at_once as u64;
        assert!(most.contains(&messages), "{at_once}: {messages}");
    }
}

#[test]
fn what_a_client_leaves_behind_is_taken_over_once_and_within_its_user() {
    let quotas = Quotas::default();
    let now = Tick(SECOND);
    let come = |user, client_id| {
        let one = quotas.join(&named(user, client_id), rates(5), now);
        (publish(&one, now), one)
    };
    let anna = Some("anna");
    let (first, one) = come(anna, "c1");
    one.leave(now);
    assert_eq!((first, count(&quotas)), (6, (1, 1)));
    let (of_ben, ben) = come(Some("ben"), "c2");
    let (of_nobody, nobody) = come(None, "c2");
    assert_eq!((of_ben, of_nobody), (6, 6));
    let (heir, two) = come(anna, "c2");
    assert_eq!(heir, 0, "it owes what the first one does");
    let (another, three) = come(anna, "c3");
    let (again, one) = come(anna, "c1");
    assert_eq!((another, again), (6, 6), "they are three at once");
    for one in [ben, nobody, two, three, one] {
        one.leave(now);
    }
    check_debts(&quotas);
    assert_eq!(count(&quotas).0, 5);
    let later = Tick(100 * SECOND);
    for _ in 0..5 {
        quotas
            .join(&named(None, "other"), rates(5), later)
            .leave(later);
    }
    assert_eq!(count(&quotas), (0, 0));
}

#[test]
fn of_several_debts_the_one_that_is_paid_first_is_taken_over() {
    let quotas = Quotas::default();
    let now = Tick(SECOND);
    let anna = Some("anna");
    let come = |client_id, now| quotas.join(&named(anna, client_id), rates(5), now);
    for (one, owed) in [(come("long", now), 100), (come("short", now), 10)] {
        one.quota.take(now.0, owed, 0);
        one.leave(now);
    }
    let later = Tick(now.0 + 2 * SECOND - 100);
    let (first, second) = (come("first", later), come("second", later));
    assert_eq!(publish(&first, later), 5, "the tenth of a second is owed");
    assert_eq!(publish(&second, later), 0, "for 18 s");
}

#[test]
fn other_rates_begin_anew_and_the_same_go_on() {
    let quotas = Quotas::default();
    let now = Tick(SECOND);
    let one = quotas.join(&named(None, "c1"), rates(5), now);
    publish(&one, now);
    one.leave(now);
    let more = quotas.join(&named(None, "c1"), rates(10), now);
    assert_eq!(publish(&more, now), 11);
    more.leave(now);
    let same = quotas.join(&named(None, "c1"), rates(10), now);
    assert_eq!(publish(&same, now), 0);
    same.leave(now);
}

#[test]
fn who_has_paid_is_forgotten() {
    let quotas = Quotas::default();
    let now = Tick(SECOND);
    quotas.join(&named(None, "idle"), rates(5), now).leave(now);
    assert_eq!(count(&quotas), (0, 0), "it owes nothing");
    for whose in [named(None, "c1"), nameless(1)] {
        let one = quotas.join(&whose, rates(5), now);
        publish(&one, now);
        one.leave(now);
    }
    assert_eq!(count(&quotas), (2, 2));
    let here = quotas.join(&named(None, "c2"), rates(5), now);
    assert_eq!(count(&quotas), (3, 2), "they owe");
    let later = Tick(100 * SECOND);
    let other = quotas.join(&named(None, "c3"), rates(5), later);
    assert_eq!(count(&quotas), (2, 0));
    here.leave(later);
    other.leave(later);
    assert_eq!(count(&quotas), (0, 0));
}

#[test]
fn of_those_who_are_gone_a_bounded_number_is_remembered_and_none_who_is_here_is_forgotten() {
    let quotas = Quotas::default();
    let now = Tick(SECOND);
    let gone = quotas.join(&named(None, "here"), rates(5), now);
    publish(&gone, now);
    gone.leave(now);
    // It was among those who are gone, and has come again.
    let here = quotas.join(&named(None, "here"), rates(5), now);
    let names: Vec<String> = (0..GONE_MAX + 10).map(|it| it.to_string()).collect();
    for name in &names {
        let whose = Whose {
            user: None,
            name: Name::ClientId(name),
        };
        let one = quotas.join(&whose, rates(1), now);
        publish(&one, now);
        one.leave(now);
        let (known, gone) = count(&quotas);
        assert!(gone <= GONE_MAX && known <= GONE_MAX + 1);
    }
    let again = quotas.join(&named(None, "here"), rates(5), now);
    assert_eq!(publish(&again, now), 0);
    again.leave(now);
    here.leave(now);
}
