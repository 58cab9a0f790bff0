//! What is compared, what counts as a failure, and what is remembered.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use courser_access::{
    Command, HashMemory, PasswordHash, Role, RoleName, SALT_BYTES, Table, User, UserState,
};

use super::*;
use crate::access::{Backoff, Denials, HashPool, Presence, Refusals, Secret, Throttle};

const FROM: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));

/// Operators whose passwords are compared when the test says so: `anna` may do everything, `ben` nothing, `carl` is disabled; the
/// password of each is `right`.
struct Desk {
    operators: Operators,
    table: Table,
}

fn user(role: &str, state: UserState) -> User {
    let hash = PasswordHash::new(b"right", [7; SALT_BYTES], &mut HashMemory::default());
    User {
        state,
        password: Some(hash.expect("it is short")),
        roles: [RoleName::new(role).expect("a name")].into(),
        ..User::default()
    }
}

impl Desk {
    fn new() -> Self {
        let logins = Arc::new(Logins {
            access: Arc::new(Access::alone()),
            pool: HashPool::without_threads(),
            throttle: Throttle::new(u64::MAX, Backoff::default()),
            presence: Presence::default(),
            refusals: Refusals::default(),
            denials: Denials::default(),
            tokens: None,
            secret: Secret([1; 32]),
            lasting: Secret([2; 32]),
        });
        let mut desk = Self {
            operators: Operators::new(logins, Clock::default()),
            table: Table::default(),
        };
        for (role, administration) in [
            ("all", Administration::Full),
            ("none", Administration::None),
        ] {
            let role = RoleName::new(role).expect("a name");
            let as_it_is = Role {
                administration,
                ..Role::default()
            };
            desk.put(Command::PutRole(role, as_it_is));
        }
        for (name, role, state) in [
            ("anna", "all", UserState::Enabled),
            ("ben", "none", UserState::Enabled),
            ("carl", "all", UserState::Disabled),
        ] {
            desk.put(put(name, user(role, state)));
        }
        desk
    }

    fn put(&mut self, command: Command) {
        self.table.apply(&command);
        self.operators.access().publish(&self.table);
    }

    /// What comes of it, and what the password was held against, if it was.
    fn log_in(
        &self,
        name: &str,
        password: &str,
    ) -> (Result<Administration, LogInError>, Option<PasswordHash>) {
        let mut login = pin!(async {
            let done = self.operators.log_in(FROM, name, password.as_bytes()).await;
            done.map(|it| it.administration)
        });
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(done) = login.as_mut().poll(&mut context) {
            return (done, None);
        }
        let hash = self.operators.0.logins.pool.look_at_next();
        match login.as_mut().poll(&mut context) {
            Poll::Ready(done) => (done, hash),
            Poll::Pending => panic!("it was looked at"),
        }
    }
}

fn put(name: &str, user: User) -> Command {
    Command::PutUser(UserName::new(name).expect("a name"), user)
}

#[test]
fn a_user_may_do_what_its_roles_say() {
    let desk = Desk::new();
    assert_eq!(desk.log_in("anna", "right").0, Ok(Administration::Full));
    assert_eq!(desk.log_in("ben", "right").0, Ok(Administration::None));
}

#[test]
fn s2_who_is_not_there_costs_as_much_as_a_wrong_password() {
    let desk = Desk::new();
    for name in ["nobody", "carl"] {
        let (done, hash) = desk.log_in(name, "right");
        assert_eq!(done, Err(LogInError::Wrong), "{name}");
        assert_eq!(hash, Some(dummy_hash()), "{name}");
    }
    let (done, hash) = desk.log_in("anna", "wrong");
    assert_eq!(done, Err(LogInError::Wrong));
    assert!(hash.is_some_and(|hash| hash != dummy_hash()));
}

#[test]
fn s2_an_address_that_fails_waits_also_when_it_does_not_wait_for_the_answer() {
    let desk = Desk::new();
    for _ in 0..5 {
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut gone = pin!(desk.operators.log_in(FROM, "anna", b"wrong"));
            assert!(gone.as_mut().poll(&mut context).is_pending());
        }
        assert!(desk.operators.0.logins.pool.look_at_next().is_some());
    }
    assert_eq!(desk.log_in("anna", "right"), (Err(LogInError::Wait), None));
    let elsewhere = desk.operators.log_in(None, "anna", b"right");
    let polled = pin!(elsewhere).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "others are compared");
}

#[test]
fn s2_what_is_remembered_tells_nothing_to_an_address_that_waits() {
    let desk = Desk::new();
    assert!(desk.log_in("anna", "right").1.is_some());
    for _ in 0..5 {
        assert_eq!(desk.log_in("ben", "wrong").0, Err(LogInError::Wrong));
    }
    let waits = (Err(LogInError::Wait), None);
    assert_eq!(desk.log_in("anna", "wrong"), waits);
    assert_eq!(desk.log_in("anna", "right"), waits);
}

#[test]
fn s2_what_is_no_name_counts_as_a_guess() {
    let desk = Desk::new();
    for _ in 0..5 {
        let refused = (Err(LogInError::Wrong), None);
        assert_eq!(desk.log_in("an\0na", "right"), refused);
    }
    let waits = (Err(LogInError::Wait), None);
    assert_eq!(desk.log_in("an\0na", "right"), waits);
    assert_eq!(desk.log_in("anna", "right"), waits);
}

#[test]
fn what_was_right_is_remembered_until_the_user_is_another() {
    let mut desk = Desk::new();
    assert!(desk.log_in("anna", "right").1.is_some());
    let full = (Ok(Administration::Full), None);
    assert_eq!(desk.log_in("anna", "right"), full, "it is not hashed again");
    assert!(desk.log_in("anna", "wrong").1.is_some());
    desk.put(put("anna", user("none", UserState::Enabled)));
    assert_eq!(
        desk.log_in("anna", "right").0,
        Ok(Administration::None),
        "its roles count as they are now"
    );
    desk.put(put("anna", user("all", UserState::Disabled)));
    assert_eq!(desk.log_in("anna", "right").0, Err(LogInError::Wrong));
}

/// One after the other, however many of their address, or clients of it, are before them.
#[test]
fn i10_operators_beyond_what_may_be_at_once_have_their_turn() {
    let mut desk = Desk::new();
    let mut context = Context::from_waker(Waker::noop());
    for round in 0..10 {
        // What was right is not remembered of another hash.
        let hash = PasswordHash::new(b"right", [round; SALT_BYTES], &mut HashMemory::default());
        let anna = User {
            password: Some(hash.expect("it is short")),
            ..user("all", UserState::Enabled)
        };
        desk.put(put("anna", anna));
        let log_in = |_| Box::pin(desk.operators.log_in(FROM, "anna", b"right"));
        let mut all: Vec<_> = (0..12).map(log_in).collect();
        for login in &mut all {
            assert!(login.as_mut().poll(&mut context).is_pending());
        }
        let pool = &desk.operators.0.logins.pool;
        assert!(pool.look_at_next().is_some());
        // One has its turn and does not wait for it any more, one leaves before it.
        drop(all.remove(8));
        drop(all.pop());
        while !all.is_empty() {
            let before = all.len();
            all.retain_mut(|login| match login.as_mut().poll(&mut context) {
                Poll::Ready(Ok(_)) => false,
                Poll::Ready(Err(error)) => panic!("{error}"),
                Poll::Pending => true,
            });
            let gets_on = pool.look_at_next().is_some() || all.len() < before;
            assert!(gets_on, "{} wait for nothing", all.len());
        }
    }
}

#[test]
fn logins_are_counted_by_what_came_of_them() {
    let desk = Desk::new();
    let counted = |expected: [u64; 6]| {
        let names = [
            "accepted",
            "wrong",
            "delayed",
            "unavailable",
            "forbidden",
            "wrong_token",
        ];
        let counted = desk.operators.counted();
        assert_eq!(counted.map(|(name, _)| name), names);
        assert_eq!(counted.map(|(_, count)| count), expected);
    };
    counted([0; 6]);
    for _ in 0..2 {
        assert!(desk.log_in("anna", "right").0.is_ok());
    }
    counted([2, 0, 0, 0, 0, 0]);
    for _ in 0..2 {
        assert_eq!(desk.log_in("ben", "right").0, Ok(Administration::None));
    }
    counted([2, 0, 0, 0, 2, 0]);
    for _ in 0..5 {
        assert_eq!(desk.log_in("ben", "wrong").0, Err(LogInError::Wrong));
    }
    counted([2, 5, 0, 0, 2, 0]);
    assert_eq!(desk.log_in("anna", "right").0, Err(LogInError::Wait));
    counted([2, 5, 1, 0, 2, 0]);
    let desk = Desk::new();
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut gone = pin!(desk.operators.log_in(FROM, "anna", b"wrong"));
        assert!(gone.as_mut().poll(&mut context).is_pending());
    }
    assert!(desk.operators.0.logins.pool.look_at_next().is_some());
    let wrong = desk.operators.counted()[1];
    assert_eq!(
        wrong,
        ("wrong", 1),
        "also where nobody waits for the answer"
    );
}

#[test]
fn wrong_tokens_are_counted_and_told_a_few_times() {
    let desk = Desk::new();
    let now = Instant::now();
    let told = (0..100).filter_map(|_| desk.operators.wrong_token(now));
    assert!((1..=8).contains(&told.count()));
    assert_eq!(desk.operators.counted()[5], ("wrong_token", 100));
    let later = desk.operators.wrong_token(now + Duration::from_secs(2));
    assert!(later.is_some_and(|left_out| left_out > 90));
}
