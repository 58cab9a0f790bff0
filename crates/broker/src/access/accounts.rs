//! Logins of one shard: what a CONNECT or AUTH proves, by passwords, SCRAM, client certificates and tokens.
//!
//! Nothing here blocks: a password is compared by the [pool](super::hashing) and its verdict comes in a later turn, unless the same
//! password of the same user was found right within the last minute. Tokens go the same way. Where many of one address, or of all, come at once,
//! they have their turns ([throttle](super::throttle)). SCRAM costs a few hashes and is done at once.

mod scram;
mod telling;
mod token;
mod turn;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use compact_str::CompactString;
use courser_access::{Principal, UserName, UserState, scram as exchange};
use courser_contract::{FrontId, Tick, WhyRefused};
use courser_mqtt::codec::ReasonCode;
use courser_mqtt::front::{AuthExchange, AuthStep, Authentication, Login};
use rand::TryRng;
use rand::rngs::{StdRng, SysError, SysRng};
use zeroize::Zeroizing;

use self::turn::{Came, Waiting};
use super::denials::Denials;
use super::hashing::{Asker, Found, HashPool, Job, News, PasswordClaim, Proof, Reply, Verdict};
use super::password::Remembered;
use super::presence::{Presence, Present};
use super::refusals::{Refusals, Shown};
use super::seal::{is_sealed, seal};
use super::throttle::{Admission, Kind, LookedAt, Origin, Throttle};
use super::tokens::TokenKeys;
use super::wanted::Waits;
use super::{Access, Ends};
use crate::metrics::LoginCounts;
use crate::peer::{Authentication as Asked, Peer};

/// What all shards share of logins.
#[derive(Debug)]
pub(crate) struct Logins {
    pub(crate) access: Arc<Access>,
    pub(crate) pool: HashPool,
    pub(crate) throttle: Throttle,
    pub(crate) presence: Presence,
    pub(crate) refusals: Refusals,
    pub(crate) denials: Denials,
    /// What tokens are verified with; none: no listener asks for tokens.
    pub(crate) tokens: Option<Arc<TokenKeys>>,
    /// Of this process alone: keys what is remembered.
    pub(crate) secret: Secret,
    /// Of the data folder, where there is one: keys the salts of users that do not exist, which would be known by them if they changed with a
    /// start, and the [seals](super::seal) of client ids that were assigned, whose clients come back after one.
    pub(crate) lasting: Secret,
}

impl Logins {
    /// Hands over what the throttle has admitted; false when there is no thread for it.
    pub(super) fn submit(&self, job: Job, kind: Kind, now: Tick) -> bool {
        let origin = job.origin;
        let taken = self.pool.submit(job);
        if !taken {
            self.throttle.finished(origin, kind, LookedAt::NoGuess, now);
        }
        taken
    }
}

/// Random bytes that are never shown.
pub(crate) struct Secret(pub(crate) [u8; 32]);

impl Secret {
    /// # Errors
    /// The system has no random bytes to give.
    pub(crate) fn draw() -> Result<Self, SysError> {
        let mut secret = [0; 32];
        SysRng.try_fill_bytes(&mut secret)?;
        Ok(Self(secret))
    }

    /// What lasts as long as a data folder, which others cannot read.
    pub(crate) fn of(identity: [u8; 16]) -> Self {
        let mut secret = [0; 32];
        secret[..16].copy_from_slice(&identity);
        Self(secret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A connection that has to log in.
#[derive(Debug)]
struct Arrival {
    origin: Origin,
    /// With what its client certificate says, and what is asked for where it came in.
    peer: Peer,
    client_id: CompactString,
    /// Who it says that it is, if that is a name.
    user: Option<UserName>,
    /// Who it is, once that is proved. It stays the same user.
    principal: Option<Principal>,
    /// When what proved it ends.
    ends: Option<Tick>,
    /// Counts it among the connections of its user, where those are limited.
    present: Option<Present>,
    /// Whether the gate has not been told.
    fresh: bool,
    /// What it came with last, should it be refused.
    shown: Shown,
    /// What it came with, while that waits for its turn.
    waiting: Option<Waiting>,
    /// Since what it came with was handed over to be looked at, until it ends.
    asked: Option<Waits>,
    /// Until when it waits for what comes of that. None: for as long as it takes.
    until: Option<Tick>,
}

/// What connections of one shard share.
struct Inner {
    arrivals: HashMap<FrontId, Arrival>,
    remembered: Remembered,
    ends: Ends,
    rng: StdRng,
    counted: LoginCounts,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Accounts {
    logins: Arc<Logins>,
    reply: Reply,
    now: Rc<Cell<Tick>>,
    inner: Rc<RefCell<Inner>>,
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Accounts")
    }
}

impl Accounts {
    /// Of a shard that gets verdicts by `reply`.
    pub(crate) fn new(logins: Arc<Logins>, reply: Reply, rng: StdRng) -> Self {
        Self {
            logins,
            reply,
            now: Rc::default(),
            inner: Rc::new(RefCell::new(Inner {
                arrivals: HashMap::new(),
                remembered: Remembered::default(),
                ends: Ends::default(),
                rng,
                counted: LoginCounts::default(),
            })),
        }
    }

    /// What has come of the logins.
    pub(crate) fn counted(&self) -> LoginCounts {
        self.inner.borrow().counted
    }

    /// The other end of a connection that has to log in.
    pub(crate) fn address_of(&self, front: FrontId) -> Option<SocketAddr> {
        self.inner.borrow().arrivals.get(&front)?.peer.address
    }

    /// What a connection came with counts against its address, and nothing had to be done for it.
    fn guessed(&self, front: FrontId, origin: Origin) {
        self.logins.throttle.failed(origin, self.now.get());
        self.note_guess(front);
    }

    /// What a connection came with counts against its address.
    fn note_guess(&self, front: FrontId) {
        if let Some(arrival) = self.inner.borrow_mut().arrivals.get_mut(&front) {
            arrival.shown = Shown::Guess;
        }
    }

    /// Who a connection says that it is.
    fn note_claim(&self, front: FrontId, user: Option<UserName>) {
        if let Some(arrival) = self.inner.borrow_mut().arrivals.get_mut(&front) {
            arrival.user = user;
        }
    }

    /// A turn has begun.
    pub(crate) fn set_now(&self, now: Tick) {
        self.now.set(now);
    }

    /// A connection came in where one has to log in.
    pub(crate) fn arrive(&self, front: FrontId, peer: &Peer) {
        let arrival = Arrival {
            origin: Origin::of(peer.address.map(|address| address.ip())),
            peer: peer.clone(),
            client_id: CompactString::default(),
            user: None,
            principal: None,
            ends: None,
            present: None,
            fresh: false,
            shown: Shown::NoGuess,
            waiting: None,
            asked: None,
            until: None,
        };
        self.inner.borrow_mut().arrivals.insert(front, arrival);
    }

    /// It is gone.
    pub(crate) fn leave(&self, front: FrontId) {
        let Some(gone) = self.inner.borrow_mut().arrivals.remove(&front) else {
            return;
        };
        if let Some(ends) = gone.ends {
            self.inner.borrow_mut().ends.remove(ends, front);
        }
        if let Some(waiting) = gone.waiting {
            self.give_up(&waiting);
        }
    }

    /// It has ended, and waits for nothing any more; [`Accounts::leave`] follows when its socket has gone too.
    pub(crate) fn end(&self, front: FrontId) {
        let waiting = {
            let mut inner = self.inner.borrow_mut();
            let arrival = inner.arrivals.get_mut(&front);
            arrival.and_then(|arrival| {
                arrival.asked = None;
                arrival.waiting.take()
            })
        };
        if let Some(waiting) = waiting {
            self.give_up(&waiting);
        }
    }

    /// Who a connection has proved to be since the last time that this was asked.
    pub(crate) fn take_login(&self, front: FrontId) -> Option<(CompactString, Principal)> {
        let mut inner = self.inner.borrow_mut();
        let arrival = inner.arrivals.get_mut(&front)?;
        if !std::mem::take(&mut arrival.fresh) {
            return None;
        }
        Some((arrival.client_id.clone(), arrival.principal.clone()?))
    }

    /// Whether [`Accounts::take_steps`] has something.
    pub(crate) fn has_steps(&self) -> bool {
        self.reply.mailbox.is_filled()
    }

    /// The next step of every login whose proof was looked at, or that has waited for its turn in vain.
    pub(crate) fn take_steps(&self) -> Vec<(FrontId, AuthStep)> {
        let news = self.reply.mailbox.take().into_iter();
        news.filter_map(|news| {
            let (front, step) = match news {
                News::Found(verdict) => (verdict.front, self.judge(verdict)),
                News::Skipped(skipped) => (skipped.front, self.skipped(&skipped)?),
                News::Called(called) => (called.front, self.called(called)?),
            };
            self.note(front, &step);
            (step != AuthStep::Pending).then_some((front, step))
        })
        .collect()
    }

    fn judge(&self, verdict: Verdict) -> AuthStep {
        let Verdict {
            front,
            origin,
            found,
        } = verdict;
        match found {
            Found::Password { claim, matched } => {
                self.judge_password(front, origin, (claim, matched))
            }
            Found::Token { grant, name } => self.judge_token(front, origin, (grant, name)),
            Found::New(_) => unreachable!("clients make no passwords"),
        }
    }

    fn judge_password(
        &self,
        front: FrontId,
        origin: Origin,
        (claim, matched): (PasswordClaim, bool),
    ) -> AuthStep {
        let now = self.now.get();
        if !self.logins.is_right(origin, (&claim, matched), now) {
            self.note_guess(front);
            let is_known = self
                .logins
                .access
                .table()
                .user(claim.user.as_str())
                .is_some();
            let why = if claim.is_dear {
                self.inner.borrow_mut().counted.dear_hash += 1;
                WhyRefused::DearHash
            } else if is_known {
                WhyRefused::WrongPassword
            } else {
                WhyRefused::UnknownUser
            };
            return AuthStep::Refused(ReasonCode::BadUserNameOrPassword, why);
        }
        self.inner.borrow_mut().remembered.note(&claim, now);
        self.grant(front, claim.user.into(), Vec::new())
    }

    /// Makes of random bits those of a client id that is known again as one that was assigned.
    pub(crate) fn seal(&self, drawn: [u64; 2]) -> [u64; 2] {
        seal(&self.logins.lasting, drawn)
    }

    /// A connection is who it says, and who its certificate says. It is nobody else later.
    fn grant(&self, front: FrontId, who: Principal, data: Vec<u8>) -> AuthStep {
        let mut inner = self.inner.borrow_mut();
        let Some(arrival) = inner.arrivals.get_mut(&front) else {
            return AuthStep::Refused(ReasonCode::NotAuthorized, WhyRefused::ByReason);
        };
        if !names(arrival.peer.identity.as_deref(), who.user.as_str()) {
            return AuthStep::Refused(ReasonCode::NotAuthorized, WhyRefused::OtherName);
        }
        let before = arrival.principal.as_ref();
        if before.is_some_and(|before| before.user != who.user) {
            return AuthStep::Refused(ReasonCode::NotAuthorized, WhyRefused::OtherUser);
        }
        let entrance = &arrival.peer.entrance;
        let is_given = entrance.gives(&arrival.client_id, who.user.as_str())
            || is_sealed(&self.logins.lasting, &arrival.client_id);
        if !is_given {
            let code = ReasonCode::ClientIdentifierNotValid;
            return AuthStep::Refused(code, WhyRefused::ForeignClientId);
        }
        let max = who.limits(&self.logins.access.table()).connections;
        if let (Some(max), None) = (max, &arrival.present) {
            let presence = &self.logins.presence;
            let Some(present) = presence.come(&who.user, &arrival.client_id, max) else {
                return AuthStep::Refused(ReasonCode::QuotaExceeded, WhyRefused::UserConnections);
            };
            arrival.present = Some(present);
        }
        arrival.fresh = true;
        arrival.principal = Some(who);
        AuthStep::Accepted(data)
    }

    fn by_certificate(&self, login: &Login<'_>, name: &str) -> AuthStep {
        let same = login.user_name.is_none_or(|user| user == name);
        let table = self.logins.access.table();
        let enabled = table
            .user(name)
            .is_some_and(|user| user.state == UserState::Enabled);
        match UserName::new(name) {
            Ok(user) if same && enabled => self.grant(login.front, user.into(), Vec::new()),
            Ok(_) | Err(_) => {
                let why = if same {
                    WhyRefused::NotAUser
                } else {
                    WhyRefused::OtherName
                };
                AuthStep::Refused(ReasonCode::NotAuthorized, why)
            }
        }
    }

    fn by_password(&self, login: &Login<'_>, origin: Origin) -> AuthStep {
        let (Some(name), Some(password)) = (login.user_name, login.password) else {
            return AuthStep::Refused(ReasonCode::NotAuthorized, WhyRefused::NothingShown);
        };
        let Ok(user) = UserName::new(name) else {
            return AuthStep::Refused(ReasonCode::BadUserNameOrPassword, WhyRefused::UnknownUser);
        };
        let password = Zeroizing::new(password.0.to_vec());
        self.ask(login.front, origin, Came::Password { user, password })
    }
}

/// Whether a connection with this certificate may be this user: a certificate that names one lends itself to no other.
fn names(certificate: Option<&str>, user: &str) -> bool {
    certificate.is_none_or(|name| name == user)
}

impl Authentication for Accounts {
    fn begin(&self, login: &Login<'_>) -> (AuthStep, Option<Box<dyn AuthExchange>>) {
        let (step, exchange) = self.step(login);
        self.note(login.front, &step);
        (step, exchange)
    }
}

impl Accounts {
    fn step(&self, login: &Login<'_>) -> (AuthStep, Option<Box<dyn AuthExchange>>) {
        let known = {
            let mut inner = self.inner.borrow_mut();
            inner.arrivals.get_mut(&login.front).map(|arrival| {
                arrival.client_id = login.client_id.into();
                let name = login.user_name.and_then(|name| UserName::new(name).ok());
                // Who shows a newer proof names nobody again.
                arrival.user = name.or(arrival.user.take());
                arrival.shown = Shown::NoGuess;
                arrival.until = login.until;
                let peer = &arrival.peer;
                let asked = peer.entrance.authentication;
                (arrival.origin, peer.identity.clone(), asked)
            })
        };
        let Some((origin, certificate, asked)) = known else {
            return (
                AuthStep::Refused(ReasonCode::NotAuthorized, WhyRefused::ByReason),
                None,
            );
        };
        if !self.logins.access.serves() {
            return (
                AuthStep::Refused(ReasonCode::ServerUnavailable, WhyRefused::UsersUnknown),
                None,
            );
        }
        if asked == Asked::Tokens {
            return (self.by_token(login, origin), None);
        }
        let step = match (login.method, certificate) {
            (Some(exchange::METHOD), _) => return self.by_scram(login, origin),
            (Some(_), _) => AuthStep::Refused(
                ReasonCode::BadAuthenticationMethod,
                WhyRefused::NoSuchMethod,
            ),
            (None, Some(name)) if login.password.is_none() => self.by_certificate(login, &name),
            // Whose password it is does not matter, and is not looked at.
            (None, Some(name)) if login.user_name != Some(&*name) => {
                AuthStep::Refused(ReasonCode::NotAuthorized, WhyRefused::OtherName)
            }
            (None, _) => self.by_password(login, origin),
        };
        (step, None)
    }
}

#[cfg(test)]
mod tests;
