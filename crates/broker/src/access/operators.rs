//! Operators who say their name and password: users of the table, compared on the same threads as clients and under the same limits of
//! their address.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use courser_access::{Administration, HashError, SALT_BYTES, UserName, dummy_hash};
use courser_contract::Tick;
use tokio::sync::{Semaphore, oneshot};
use zeroize::Zeroizing;

use super::Access;
use super::accounts::Logins;
use super::hashing::{Asker, Credentials, Found, Job, NewPassword, Proof};
use super::lanes::Ticket;
use super::password::Remembered;
use super::throttle::{Admission, Coming, Kind, LookedAt, Origin, Wake, Why};
use crate::clock::Clock;
use crate::lines::Lines;

/// Why an operator does not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogInError {
    /// There is no such user, it is disabled, or this is not its password.
    #[error("user name or password are not right")]
    Wrong,
    /// Too many logins have failed from this address.
    #[error("too many logins of this address have failed: come again later")]
    Wait,
    /// As many passwords as may wait to be compared, of this address or of all, do.
    #[error("too many passwords wait to be compared: try again")]
    Busy,
    /// Users are not known yet, or the broker stops.
    #[error("users and roles are not known: the broker is starting or stopping")]
    Unavailable,
}

impl From<Why> for LogInError {
    fn from(why: Why) -> Self {
        match why {
            Why::Failed => Self::Wait,
            Why::Full | Why::Crowded => Self::Busy,
        }
    }
}

/// An operator who has come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedIn {
    /// What it may do.
    pub administration: Administration,
    /// Whether its password was compared, and not remembered from a moment ago.
    pub anew: bool,
}

/// Why a password was not made ready to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    /// It is none.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// No thread can be had, or the broker stops.
    #[error("the password could not be hashed: the broker is stopping, or has no thread for it")]
    Unavailable,
}

/// What can come of a login, in the order of [`OperatorLogins`].
const RESULTS: [&str; 6] = [
    "accepted",
    "wrong",
    "delayed",
    "unavailable",
    "forbidden",
    "wrong_token",
];

/// What has come of the logins of operators.
#[derive(Debug, Default)]
struct OperatorLogins([AtomicU64; RESULTS.len()]);

impl OperatorLogins {
    fn count(&self, done: Result<Administration, LogInError>) {
        let [accepted, wrong, delayed, unavailable, forbidden, _] = &self.0;
        let counter = match done {
            Ok(Administration::Read | Administration::Full) => accepted,
            // Every user of the broker has a password: it is not yet an operator.
            Ok(Administration::None) => forbidden,
            Err(LogInError::Wrong) => wrong,
            Err(LogInError::Wait) => delayed,
            Err(LogInError::Busy | LogInError::Unavailable) => unavailable,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn count_wrong_token(&self) {
        let [.., wrong_token] = &self.0;
        wrong_token.fetch_add(1, Ordering::Relaxed);
    }
}

/// A login that was admitted.
enum Begun {
    /// Its password was right a moment ago.
    Remembered,
    /// The pool compares it, and counts what comes of it.
    Compared(oneshot::Receiver<Result<Administration, LogInError>>),
}

/// A place among those who wait for their turn, which is given up when nobody waits in it any more.
struct Place {
    inner: Arc<Inner>,
    ticket: Ticket,
    called: oneshot::Receiver<Result<(), Why>>,
}

impl Place {
    /// Its turn has come, and what is due with it must follow; or it is told why not.
    async fn turn(mut self) -> Result<(), LogInError> {
        match (&mut self.called).await {
            Ok(may) => may.map_err(LogInError::from),
            Err(_) => Err(LogInError::Unavailable),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let throttle = &self.inner.logins.throttle;
        if throttle.leave(Kind::Password, self.ticket) {
            return;
        }
        self.called.close();
        if let Ok(Ok(())) = self.called.try_recv() {
            self.inner.pass_on(self.ticket.origin);
        }
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Operators(Arc<Inner>);

struct Inner {
    logins: Arc<Logins>,
    /// That of the shards: they and operators count failures of the same addresses.
    clock: Clock,
    remembered: Mutex<Remembered>,
    counted: OperatorLogins,
    /// Of wrong tokens, which cost nothing and make nobody wait.
    lines: Lines,
    /// One new password at a time is on its way to the pool, so that logins wait for one at most.
    making: Arc<Semaphore>,
}

impl fmt::Debug for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Operators")
    }
}

impl Inner {
    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What was found, on a thread of the pool.
    fn judge(&self, origin: Origin, found: Found) -> Result<Administration, LogInError> {
        let Found::Password { claim, matched } = found else {
            unreachable!("operators have passwords only");
        };
        let now = self.clock.tick();
        if !self.logins.is_right(origin, (&claim, matched), now) {
            return Err(LogInError::Wrong);
        }
        self.remembered().note(&claim, now);
        Ok(self.administration(claim.user.as_str()))
    }

    /// Somebody who had its turn is not there any more.
    fn pass_on(&self, origin: Origin) {
        let throttle = &self.logins.throttle;
        let now = self.clock.tick();
        throttle.finished(origin, Kind::Password, LookedAt::NoGuess, now);
    }

    fn administration(&self, name: &str) -> Administration {
        self.logins.access.table().administration(name)
    }
}

impl Operators {
    pub(crate) fn new(logins: Arc<Logins>, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            logins,
            clock,
            remembered: Mutex::default(),
            counted: OperatorLogins::default(),
            lines: Lines::default(),
            making: Arc::new(Semaphore::new(1)),
        }))
    }

    /// This moment, as shards have it.
    pub(crate) fn now(&self) -> Tick {
        self.0.clock.tick()
    }

    /// Users and roles.
    pub(crate) fn access(&self) -> &Arc<Access> {
        &self.0.logins.access
    }

    /// Logins by what came of them. Each request of an operator is one.
    pub(crate) fn counted(&self) -> [(&'static str, u64); RESULTS.len()] {
        let counters = &self.0.counted.0;
        std::array::from_fn(|at| (RESULTS[at], counters[at].load(Ordering::Relaxed)))
    }

    /// Counts somebody who has shown a token that is none. The lines that were left out before, if this is to be told.
    pub(crate) fn wrong_token(&self, now: Instant) -> Option<u64> {
        self.0.counted.count_wrong_token();
        self.0.lines.admit(now)
    }

    /// What the user of this name and password may do; `from` is where it comes from, none: this machine, by a file.
    pub(crate) async fn log_in(
        &self,
        from: Option<IpAddr>,
        name: &str,
        password: &[u8],
    ) -> Result<LoggedIn, LogInError> {
        let (done, anew) = match self.begin(from, name, password).await {
            // Without an answer the broker stops.
            Ok(Begun::Compared(answered)) => {
                (answered.await.unwrap_or(Err(LogInError::Unavailable)), true)
            }
            Ok(Begun::Remembered) => (Ok(self.0.administration(name)), false),
            Err(error) => (Err(error), false),
        };
        if !anew {
            self.0.counted.count(done);
        }
        done.map(|administration| LoggedIn {
            administration,
            anew,
        })
    }

    /// What is to be kept of a new password. Hashed in the pool, behind what waits there.
    pub(crate) async fn make(
        &self,
        password: Zeroizing<Vec<u8>>,
        salt: [u8; SALT_BYTES],
        scram_salt: Option<[u8; SALT_BYTES]>,
    ) -> Result<Credentials, MakeError> {
        let turn = Arc::clone(&self.0.making).acquire_owned().await;
        let turn = turn.map_err(|_| MakeError::Unavailable)?;
        let (answer, answered) = oneshot::channel();
        let tell = move |found| {
            // Not before it is made, whether or not somebody still waits.
            drop(turn);
            if let Found::New(made) = found {
                // Whoever waited may be gone.
                let _ = answer.send(made);
            }
        };
        let job = Job {
            asker: Asker::Operator(Box::new(tell)),
            origin: Origin::Local,
            proof: Proof::New(NewPassword {
                password,
                salt,
                scram_salt,
            }),
        };
        if !self.0.logins.pool.submit(job) {
            return Err(MakeError::Unavailable);
        }
        // Without an answer the broker stops.
        let made = answered.await.map_err(|_| MakeError::Unavailable)?;
        made.map_err(Into::into)
    }

    /// To where the pool has it, in its turn.
    async fn begin(
        &self,
        from: Option<IpAddr>,
        name: &str,
        password: &[u8],
    ) -> Result<Begun, LogInError> {
        if !self.access().serves() {
            return Err(LogInError::Unavailable);
        }
        let (origin, now) = (Origin::of(from), self.0.clock.tick());
        let Ok(user) = UserName::new(name) else {
            return Err(self.no_name(origin, now));
        };
        let coming = Coming {
            origin,
            kind: Kind::Password,
            bytes: name.len() + password.len(),
            until: None,
        };
        let (call, called) = oneshot::channel();
        let wake = || self.call(origin, call);
        match self.0.logins.throttle.come(coming, now, wake) {
            Admission::Go => {}
            Admission::Queued(ticket) => {
                let inner = Arc::clone(&self.0);
                let place = Place {
                    inner,
                    ticket,
                    called,
                };
                place.turn().await?;
            }
            Admission::Refused(why) => return Err(why.into()),
        }
        self.look(origin, user, password)
    }

    fn call(&self, origin: Origin, call: oneshot::Sender<Result<(), Why>>) -> Wake {
        let inner = Arc::clone(&self.0);
        Box::new(move |may| {
            if let Err(Ok(())) = call.send(may) {
                inner.pass_on(origin);
            }
        })
    }

    /// Looks at a password that was admitted.
    fn look(&self, origin: Origin, user: UserName, password: &[u8]) -> Result<Begun, LogInError> {
        let now = self.0.clock.tick();
        let throttle = &self.0.logins.throttle;
        let (claim, hash) = self.0.logins.claim(user, password);
        // Not before it is admitted, as for clients.
        if self.0.remembered().has(&claim, now) {
            throttle.finished(origin, Kind::Password, LookedAt::Right, now);
            return Ok(Begun::Remembered);
        }
        let proof = Proof::Password {
            password: Zeroizing::new(password.to_vec()),
            hash: hash.unwrap_or_else(dummy_hash),
            claim,
        };
        self.compare(origin, proof, now).map(Begun::Compared)
    }

    /// Somebody who comes with what is no name guesses as well: whoever asks without an end waits, and fills no log.
    fn no_name(&self, origin: Origin, now: Tick) -> LogInError {
        let throttle = &self.0.logins.throttle;
        if let Some(why) = throttle.waits(origin, now) {
            return why.into();
        }
        throttle.failed(origin, now);
        LogInError::Wrong
    }

    /// Hands a password that was admitted to the pool; what comes of it counts also when nobody waits for it any more.
    fn compare(
        &self,
        origin: Origin,
        proof: Proof,
        now: Tick,
    ) -> Result<oneshot::Receiver<Result<Administration, LogInError>>, LogInError> {
        let logins = &self.0.logins;
        let (answer, answered) = oneshot::channel();
        let inner = Arc::clone(&self.0);
        let tell = move |found| {
            let judged = inner.judge(origin, found);
            inner.counted.count(judged);
            let _ = answer.send(judged);
        };
        let asker = Asker::Operator(Box::new(tell));
        let job = Job {
            asker,
            origin,
            proof,
        };
        match logins.submit(job, Kind::Password, now) {
            true => Ok(answered),
            false => Err(LogInError::Busy),
        }
    }
}

#[cfg(test)]
mod tests;
