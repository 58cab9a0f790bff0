//! Which passwords are hashed: each call of the hasher is counted, and time is told.

use std::net::SocketAddr;

use courser_access::{
    Command, HashMemory, Limits, PasswordHash, Room, SALT_BYTES, Table, User, UserName, UserState,
    dummy_hash,
};
use courser_contract::{ShardId, WhyRefused};
use courser_mqtt::front::Password;
use courser_settings::Settings;
use rand::SeedableRng;

use super::super::password::REMEMBER_MS;
use super::super::refusals::RefusedLogin;
use super::*;
use crate::access::Backoff;
use crate::peer::Entrance;
use crate::rings::Doze;

/// One shard whose passwords are hashed when the test says so.
struct Door {
    accounts: Accounts,
    logins: Arc<Logins>,
    table: Table,
    next: u32,
}

/// What came of a login, and what its password was held against, if it was.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    refused: Option<ReasonCode>,
    hashed: Option<PasswordHash>,
}

const ADDRESS: &str = "192.0.2.1:1";

fn name(text: &str) -> UserName {
    UserName::new(text).expect("a user name")
}

fn hash_of(password: &str) -> PasswordHash {
    let salt = [7; SALT_BYTES];
    PasswordHash::new(password.as_bytes(), salt, &mut HashMemory::default()).expect("it is short")
}

impl Door {
    /// One that knows `anna` by the password `right`, `disabled`, and `certain`, who has no password.
    fn new(secret: u8) -> Self {
        Self::within(secret, Room::default())
    }

    /// The same in a process with so much room.
    fn within(secret: u8, room: Room) -> Self {
        let access = Arc::new(Access::new(&[], Limits::default(), room));
        let logins = Arc::new(Logins {
            access,
            pool: HashPool::without_threads(),
            throttle: Throttle::new(u64::MAX, Backoff::default()),
            presence: Presence::default(),
            refusals: Refusals::default(),
            denials: Denials::default(),
            tokens: None,
            secret: Secret([secret; 32]),
            lasting: Secret([secret; 32]),
        });
        let reply = Reply::new(Arc::new(Doze::default()));
        let mut door = Self {
            accounts: Accounts::new(Arc::clone(&logins), reply, StdRng::from_seed([1; 32])),
            logins,
            table: Table::default(),
            next: 0,
        };
        let with = |password: Option<&str>, state| User {
            password: password.map(hash_of),
            state,
            ..User::default()
        };
        door.put("anna", with(Some("right"), UserState::Enabled));
        door.put("disabled", with(Some("right"), UserState::Disabled));
        door.put("certain", with(None, UserState::Enabled));
        door
    }

    fn put(&mut self, user: &str, as_it_is: User) {
        self.table.apply(&Command::PutUser(name(user), as_it_is));
        self.logins.access.publish(&self.table);
    }

    fn at(&self, ms: u64) {
        self.accounts.set_now(Tick(0).after_ms(ms));
    }

    fn log_in(&mut self, user: &str, password: &str) -> Seen {
        self.log_in_from(ADDRESS, user, password)
    }

    fn log_in_from(&mut self, address: &str, user: &str, password: &str) -> Seen {
        self.log_in_with(None, address, Some(user), Some(password))
    }

    /// A new connection whose certificate names somebody.
    fn arrive(&mut self, certificate: Option<&str>, address: &str) -> FrontId {
        let front = FrontId {
            shard: ShardId(0),
            slot: self.next,
            generation: 0,
        };
        self.next += 1;
        let entrance = Entrance::mqtt(Asked::Accounts, &Settings::default());
        let address: SocketAddr = address.parse().expect("an address");
        let peer = Peer {
            identity: certificate.map(Arc::from),
            ..Peer::plain(&entrance, address)
        };
        self.accounts.arrive(front, &peer);
        front
    }

    /// Of a new connection whose certificate names somebody, to its end.
    fn log_in_with(
        &mut self,
        certificate: Option<&str>,
        address: &str,
        user: Option<&str>,
        password: Option<&str>,
    ) -> Seen {
        let front = self.arrive(certificate, address);
        let (mut step, _) = self.accounts.begin(&login(front, user, password));
        let hashed = self.logins.pool.look_at_next();
        if let Some((told, verdict)) = self.accounts.take_steps().pop() {
            assert_eq!(told, front);
            assert!(matches!(step, AuthStep::Pending), "it waited for the hash");
            step = verdict;
        }
        self.accounts.leave(front);
        match step {
            AuthStep::Accepted(_) => Seen {
                refused: None,
                hashed,
            },
            AuthStep::Refused(code, _) => Seen {
                refused: Some(code),
                hashed,
            },
            AuthStep::Continue(_) | AuthStep::Pending => panic!("it is never told"),
        }
    }
}

fn login<'a>(front: FrontId, user: Option<&'a str>, password: Option<&'a str>) -> Login<'a> {
    Login {
        front,
        client_id: "c1",
        user_name: user,
        password: password.map(|password| Password(password.as_bytes())),
        method: None,
        data: &[],
        until: None,
    }
}

/// A password was right, and hashed or not.
fn right(hashed: Option<&str>) -> Seen {
    Seen {
        refused: None,
        hashed: hashed.map(hash_of),
    }
}

fn wrong(hashed: PasswordHash) -> Seen {
    Seen {
        refused: Some(ReasonCode::BadUserNameOrPassword),
        hashed: Some(hashed),
    }
}

/// "Find it by the log, which names address and client id" is what docs/security.md tells who shares an address.
#[test]
fn s2_a_login_that_is_refused_is_named_in_the_log() {
    for (user, password, code) in [
        ("anna", "a-guess", ReasonCode::BadUserNameOrPassword),
        (
            "nobody",
            "another-guess",
            ReasonCode::ConnectionRateExceeded,
        ),
    ] {
        let mut door = Door::new(1);
        let front = door.arrive(None, ADDRESS);
        let _ = door
            .accounts
            .begin(&login(front, Some(user), Some(password)));
        let seen = door
            .accounts
            .with_refusal(front, (code, WhyRefused::ByReason), |refused| {
                assert_eq!(refused.client_id, "c1");
                // What is no user may be a token in the place of a name.
                assert_eq!(refused.user, (user == "anna").then_some(user));
                assert_eq!(refused.address, ADDRESS.parse().ok());
                assert_eq!(refused.listener, "mqtt");
                format!("{refused:?}")
            });
        let line = seen.expect("it is the first of this second");
        assert!(
            !line.contains(password) && !line.contains("nobody"),
            "{line}"
        );
    }
}

/// Nothing costs them a wait, so they can come as often as they like.
#[test]
fn s2_clients_that_show_nothing_hide_no_guess_in_the_log() {
    let mut door = Door::new(1);
    for _ in 0..100 {
        let seen = door.log_in_with(None, ADDRESS, Some("anna"), None);
        assert_eq!(seen.refused, Some(ReasonCode::NotAuthorized));
    }
    let front = door.arrive(None, "198.51.100.1:1");
    let _ = door
        .accounts
        .begin(&login(front, Some("anna"), Some("wrong")));
    assert!(door.logins.pool.look_at_next().is_some());
    assert_eq!(door.accounts.take_steps().len(), 1);
    let code = ReasonCode::BadUserNameOrPassword;
    let left_out = |refused: &RefusedLogin<'_>| refused.left_out;
    let code = (code, WhyRefused::ByReason);
    assert_eq!(door.accounts.with_refusal(front, code, left_out), Some(0));
}

#[test]
fn s2_who_does_not_exist_costs_one_hash_like_everybody_else() {
    let mut door = Door::new(1);
    assert_eq!(door.log_in("anna", "wrong"), wrong(hash_of("right")));
    for nobody in ["nobody", "disabled", "certain"] {
        let seen = door.log_in(nobody, "right");
        assert_eq!(
            seen,
            wrong(dummy_hash()),
            "{nobody}: the same answer for the same work"
        );
    }
    assert_eq!(
        dummy_hash().cost(),
        hash_of("right").cost(),
        "the same work"
    );
}

/// It was stored by a process with more memory.
#[test]
fn s2_who_has_a_hash_that_takes_too_much_memory_is_refused_at_the_cost_of_who_is_not_there() {
    let room = Room {
        hash_kib: 32 << 10,
        bytes: u64::MAX,
    };
    let mut door = Door::within(1, room);
    let dear = |kib: u32| User {
        password: Some(
            format!("$argon2id$v=19$m={kib},t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
                .parse()
                .expect("a hash"),
        ),
        ..User::default()
    };
    door.put("dear", dear((32 << 10) + 1));
    door.put("fits", dear(32 << 10));
    assert_eq!(door.log_in("dear", "guess"), wrong(dummy_hash()));
    assert_eq!(door.accounts.counted().dear_hash, 1);
    let fits = dear(32 << 10).password.expect("it has one");
    assert_eq!(door.log_in("fits", "guess"), wrong(fits));
    assert_eq!(door.log_in("nobody", "guess"), wrong(dummy_hash()));
    assert_eq!(door.accounts.counted().dear_hash, 1);
}

/// What a certificate names is exact, and neither a password nor a user name makes anybody else of it.
#[test]
fn s2_a_certificate_is_the_user_that_it_names_and_nobody_else() {
    let mut door = Door::new(1);
    let accepted = || right(None);
    let refused = |code| Seen {
        refused: Some(code),
        hashed: None,
    };
    let no = || refused(ReasonCode::NotAuthorized);
    let both = Some("right");
    for (certificate, user, password, expected) in [
        ("anna", None, None, accepted()),
        ("anna", Some("anna"), None, accepted()),
        ("certain", Some("certain"), None, accepted()),
        ("anna", Some("certain"), None, no()),
        ("anna", Some(""), None, no()),
        ("anna", Some("Anna"), None, no()),
        ("Anna", None, None, no()),
        ("Anna", Some("anna"), None, no()),
        ("disabled", None, None, no()),
        ("nobody", None, None, no()),
        ("", None, None, no()),
        // A password comes on top: it must be that of the same user, and right.
        ("anna", Some("anna"), both, right(both)),
        ("anna", Some("anna"), Some("wrong"), wrong(hash_of("right"))),
        // The password of another one is right, and is not even looked at.
        ("certain", Some("anna"), both, no()),
        ("root", Some("anna"), both, no()),
        ("nobody", Some("anna"), both, no()),
        ("anna", None, both, no()),
        ("certain", Some("certain"), both, wrong(dummy_hash())),
    ] {
        let seen = door.log_in_with(Some(certificate), ADDRESS, user, password);
        assert_eq!(seen, expected, "{certificate:?} as {user:?}");
    }
}

/// The same for what proves a user behind CONNECT: SCRAM and tokens.
#[test]
fn s2_no_other_proof_makes_somebody_else_of_a_certificate() {
    let door = Door::new(1);
    let entrance = Entrance::mqtt(Asked::Accounts, &Settings::default());
    for (slot, certificate, is_let_in) in [
        (0, Some("anna"), true),
        (1, Some("certain"), false),
        (2, None, true),
    ] {
        let front = FrontId {
            shard: ShardId(0),
            slot,
            generation: 0,
        };
        let address = ADDRESS.parse().expect("an address");
        let peer = Peer {
            identity: certificate.map(Arc::from),
            ..Peer::plain(&entrance, address)
        };
        door.accounts.arrive(front, &peer);
        let step = door.accounts.grant(front, name("anna").into(), Vec::new());
        let let_in = matches!(step, AuthStep::Accepted(_));
        assert_eq!(let_in, is_let_in, "{certificate:?}");
        assert_eq!(door.accounts.take_login(front).is_some(), is_let_in);
    }
}

#[test]
fn a_password_that_was_right_is_not_hashed_again_for_a_minute() {
    let mut door = Door::new(1);
    assert_eq!(door.log_in("anna", "right"), right(Some("right")));
    door.at(REMEMBER_MS - 1);
    assert_eq!(door.log_in("anna", "right"), right(None));
    assert_eq!(
        door.log_in("anna", "Right"),
        wrong(hash_of("right")),
        "another one is hashed"
    );
    assert_eq!(
        door.log_in("nobody", "right"),
        wrong(dummy_hash()),
        "of another user too"
    );
    door.at(REMEMBER_MS);
    assert_eq!(
        door.log_in("anna", "right"),
        right(Some("right")),
        "the minute is over"
    );
}

/// What became of connections that came at once, by front, and how many passwords were hashed for it.
fn come_to_pass(door: &Door) -> (HashMap<FrontId, AuthStep>, usize) {
    let (mut done, mut hashed) = (HashMap::new(), 0);
    loop {
        let looked_at = door.logins.pool.look_at_next().is_some();
        hashed += usize::from(looked_at);
        done.extend(door.accounts.take_steps());
        if !looked_at && !door.accounts.has_steps() {
            return (done, hashed);
        }
    }
}

/// What nobody hears of is not compared: those who wait would wait for it.
#[test]
fn i10_a_password_whose_client_has_gone_is_not_hashed() {
    let mut door = Door::new(1);
    let gone = door.arrive(None, ADDRESS);
    let ended = door.arrive(None, ADDRESS);
    let stays = door.arrive(None, "192.0.2.2:1");
    for front in [gone, ended, stays] {
        let (step, _) = door
            .accounts
            .begin(&login(front, Some("anna"), Some("right")));
        assert_eq!(step, AuthStep::Pending);
    }
    door.accounts.leave(gone);
    // Its last words are on their way.
    door.accounts.end(ended);
    let (done, hashed) = come_to_pass(&door);
    assert_eq!((done, hashed), (HashMap::from([(stays, ACCEPTED)]), 1));
    let seen = door.log_in("anna", "other");
    assert!(seen.hashed.is_some(), "nothing of its address is under way");
}

/// It has done nothing wrong, and hears that before its time is over.
#[test]
fn s3_a_password_that_cannot_be_compared_in_time_is_told_that_the_server_is_busy() {
    let mut door = Door::new(1);
    let (late, stays) = (door.arrive(None, ADDRESS), door.arrive(None, ADDRESS));
    for (front, until) in [(late, Some(Tick(0))), (stays, Some(Tick(60_000)))] {
        let login = Login {
            until,
            ..login(front, Some("anna"), Some("right"))
        };
        assert_eq!(door.accounts.begin(&login).0, AuthStep::Pending);
    }
    let (done, hashed) = come_to_pass(&door);
    let busy = AuthStep::Refused(ReasonCode::ServerBusy, WhyRefused::Full);
    assert_eq!(done, HashMap::from([(late, busy), (stays, ACCEPTED)]));
    assert_eq!(hashed, 1);
}

const ACCEPTED: AuthStep = AuthStep::Accepted(Vec::new());

impl Door {
    /// So many come at once from one address, each with its user and password.
    fn come_at_once<'a>(&mut self, who: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<FrontId> {
        who.map(|(user, password)| {
            let front = self.arrive(None, ADDRESS);
            let (step, _) = self
                .accounts
                .begin(&login(front, Some(user), Some(password)));
            assert_eq!(step, AuthStep::Pending, "{front:?}");
            front
        })
        .collect()
    }
}

/// A fleet behind an address translation that comes back after a failure of its network.
#[test]
fn i10_a_fleet_behind_one_address_gets_in_at_once() {
    let mut door = Door::new(1);
    let names: Vec<String> = (0..60).map(|number| format!("device-{number}")).collect();
    let user = User {
        password: Some(hash_of("right")),
        ..User::default()
    };
    for device in &names {
        door.put(device, user.clone());
    }
    let fronts = door.come_at_once(names.iter().map(|device| (device.as_str(), "right")));
    let (done, hashed) = come_to_pass(&door);
    assert!(
        fronts.iter().all(|front| done[front] == ACCEPTED),
        "{done:?}"
    );
    assert_eq!((done.len(), hashed), (60, 60));
    assert_eq!(door.accounts.counted().queued, 52);
    assert_eq!(door.accounts.counted().accepted, 60);
}

/// Of one user there is next to nothing to hash: those that wait profit from those before them.
#[test]
fn i10_a_fleet_with_one_password_costs_no_more_hashes_than_are_under_way() {
    let mut door = Door::new(1);
    let fronts = door.come_at_once((0..60).map(|_| ("anna", "right")));
    let (done, hashed) = come_to_pass(&door);
    assert!(
        fronts.iter().all(|front| done[front] == ACCEPTED),
        "{done:?}"
    );
    assert!(hashed <= 8, "{hashed}");
}

#[test]
fn s2_many_guesses_at_once_are_no_more_guesses_than_one_after_the_other() {
    let mut door = Door::new(1);
    assert_eq!(door.log_in("anna", "right"), right(Some("right")));
    let guesses: Vec<String> = (0..60).map(|number| format!("guess-{number}")).collect();
    let last = ["right"; 20].into_iter();
    let tried = guesses.iter().map(String::as_str).chain(last);
    let fronts = door.come_at_once(tried.map(|password| ("anna", password)));
    let (done, hashed) = come_to_pass(&door);
    assert_eq!(hashed, 12, "what was under way when the fifth failed");
    let heard = |code| {
        let is_that = |step: &AuthStep| matches!(step, AuthStep::Refused(told, _) if *told == code);
        fronts.iter().filter(|front| is_that(&done[*front])).count()
    };
    assert_eq!(heard(ReasonCode::BadUserNameOrPassword), 12);
    assert_eq!(
        heard(ReasonCode::ConnectionRateExceeded),
        68,
        "also those with what is remembered as right"
    );
}

#[test]
fn i9_who_leaves_before_its_turn_costs_no_hash_and_holds_nothing() {
    let mut door = Door::new(1);
    let fronts = door.come_at_once((0..60).map(|_| ("certain", "wrong")));
    // One has its turn at the moment at which it goes.
    assert!(door.logins.pool.look_at_next().is_some());
    door.accounts.take_steps();
    for front in &fronts {
        door.accounts.leave(*front);
    }
    let (_, hashed) = come_to_pass(&door);
    assert!(hashed <= 9, "{hashed}");
    assert!(door.accounts.counted().gave_up >= 50);
    let other = door.log_in_from("198.51.100.1:1", "anna", "right");
    assert_eq!(other, right(Some("right")), "nothing is in its way");
}

#[test]
fn a_changed_password_is_remembered_no_more() {
    let mut door = Door::new(1);
    assert_eq!(door.log_in("anna", "right"), right(Some("right")));
    let other = User {
        password: Some(hash_of("other")),
        ..User::default()
    };
    door.put("anna", other);
    assert_eq!(door.log_in("anna", "right"), wrong(hash_of("other")));
    assert_eq!(door.log_in("anna", "other"), right(Some("other")));
    let again = User {
        password: Some(hash_of("right")),
        ..User::default()
    };
    door.put("anna", again);
    assert_eq!(
        door.log_in("anna", "right"),
        right(Some("right")),
        "what was remembered of the old one is not of this one"
    );
}

#[test]
fn what_is_remembered_says_nothing_to_another_process() {
    let [one, two] = [Door::new(1), Door::new(2)];
    let key = |door: &Door| door.logins.key("anna", Some(1), b"right");
    assert_eq!(key(&one), key(&one));
    assert_ne!(key(&one), key(&two));
    assert!(!key(&one).windows(5).any(|bytes| bytes == b"right"));
    // What is hashed is told apart: where the name ends is part of it.
    let of = |name, password| one.logins.key(name, Some(1), password);
    assert_ne!(of("anna", b"right"), of("annar", b"ight"));
}

#[test]
fn s2_an_address_that_guesses_waits_and_costs_no_hash() {
    let mut door = Door::new(1);
    for guess in 0..5 {
        let seen = door.log_in("anna", &format!("guess-{guess}"));
        assert_eq!(seen, wrong(hash_of("right")));
    }
    let waits = Seen {
        refused: Some(ReasonCode::ConnectionRateExceeded),
        hashed: None,
    };
    assert_eq!(
        door.log_in("anna", "right"),
        waits,
        "not even the right one"
    );
    let elsewhere = door.log_in_from("198.51.100.1:1", "anna", "right");
    assert_eq!(
        elsewhere,
        right(Some("right")),
        "another address does not wait"
    );
    assert_eq!(
        door.log_in("anna", "right"),
        waits,
        "not even what another address has just proved"
    );
    assert_eq!(
        door.log_in_from("198.51.100.1:1", "anna", "right"),
        right(None),
        "which is remembered there"
    );
    door.at(999);
    assert_eq!(door.log_in("anna", "guess"), waits);
    door.at(1_000);
    assert_eq!(
        door.log_in("anna", "guess"),
        wrong(hash_of("right")),
        "a second is over"
    );
    door.at(2_999);
    assert_eq!(
        door.log_in("anna", "guess"),
        waits,
        "the next wait is twice as long"
    );
}

#[test]
fn s2_exchanges_of_scram_that_were_begun_together_are_no_more_guesses() {
    const BEGUN: u32 = 50;
    let door = Door::new(1);
    let entrance = Entrance::mqtt(Asked::Accounts, &Settings::default());
    let mut exchanges = Vec::new();
    for slot in 0..BEGUN {
        let front = FrontId {
            shard: ShardId(0),
            slot,
            generation: 0,
        };
        let address = ADDRESS.parse().expect("an address");
        door.accounts
            .arrive(front, &Peer::plain(&entrance, address));
        let login = Login {
            front,
            client_id: "c1",
            user_name: None,
            password: None,
            method: Some("SCRAM-SHA-256"),
            data: b"n,,n=anna,r=abc",
            until: None,
        };
        let (step, exchange) = door.accounts.begin(&login);
        assert!(matches!(step, AuthStep::Continue(_)), "it is challenged");
        exchanges.push(exchange.expect("it waits for the proof"));
    }
    let answers = exchanges
        .iter_mut()
        .map(|it| it.answer(b"c=biws,r=abc,p=AAAA"));
    let looked_at = answers.filter(|step| match step {
        AuthStep::Refused(ReasonCode::NotAuthorized, _) => true,
        AuthStep::Refused(ReasonCode::ConnectionRateExceeded, _) => false,
        step => panic!("{step:?} of a wrong proof"),
    });
    assert_eq!(looked_at.count(), 5, "as many as one after another");
}

#[test]
fn s5_the_user_of_scram_is_the_one_that_connect_names() {
    let mut door = Door::new(1);
    let other = AuthStep::Refused(ReasonCode::BadUserNameOrPassword, WhyRefused::OtherName);
    for (named, may_go_on) in [
        (Some("certain"), false),
        (Some("nobody"), false),
        (Some("Anna"), false),
        (Some("anna"), true),
        (Some(""), true),
        (None, true),
    ] {
        // More often than anybody may guess.
        for _ in 0..20 {
            let front = door.arrive(None, ADDRESS);
            let login = Login {
                method: Some("SCRAM-SHA-256"),
                data: b"n,,n=anna,r=abc",
                ..login(front, named, None)
            };
            let (step, exchange) = door.accounts.begin(&login);
            assert_eq!(step == other, !may_go_on, "{named:?}: {step:?}");
            assert_eq!(matches!(step, AuthStep::Continue(_)), may_go_on);
            assert_eq!(exchange.is_some(), may_go_on);
            door.accounts.leave(front);
        }
    }
}
