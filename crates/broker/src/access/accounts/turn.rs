//! A proof that has to be looked at beside the shard: at once, or when its turn comes, or not at all.

use std::time::Duration;

use courser_access::{UserName, dummy_hash};
use courser_contract::{FrontId, Tick, WhyRefused};
use courser_mqtt::codec::ReasonCode;
use courser_mqtt::front::AuthStep;
use zeroize::Zeroizing;

use super::super::drain::ms_between;
use super::super::hashing::{Called, News, Skipped};
use super::super::lanes::Ticket;
use super::super::throttle::{Coming, Wake};
use super::super::wanted::{Waits, Wanted};
use super::{Accounts, Admission, Asker, Job, Kind, LookedAt, Origin, Proof};

/// What a client came with that is to be looked at.
pub(super) enum Came {
    Password {
        user: UserName,
        password: Zeroizing<Vec<u8>>,
    },
    Token {
        token: Zeroizing<Vec<u8>>,
        /// The name that came with it, if one did.
        name: Option<UserName>,
    },
}

impl std::fmt::Debug for Came {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Came(..)")
    }
}

impl Came {
    const fn kind(&self) -> Kind {
        match self {
            Self::Password { .. } => Kind::Password,
            Self::Token { .. } => Kind::Token,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Password { user, password } => user.as_str().len() + password.len(),
            Self::Token { token, name } => {
                name.as_ref().map_or(0, |name| name.as_str().len()) + token.len()
            }
        }
    }
}

/// A proof that waits for its turn.
#[derive(Debug)]
pub(super) struct Waiting {
    ticket: Ticket,
    came: Came,
}

impl Accounts {
    /// Has a proof looked at, in its turn.
    pub(super) fn ask(&self, front: FrontId, origin: Origin, came: Came) -> AuthStep {
        let kind = came.kind();
        let coming = Coming {
            origin,
            kind,
            bytes: came.bytes(),
            until: self.until(front),
        };
        let now = self.now.get();
        let wake = || self.call(front, (origin, kind));
        match self.logins.throttle.come(coming, now, wake) {
            Admission::Go => self.look(front, origin, came),
            Admission::Queued(ticket) => self.wait(front, Waiting { ticket, came }),
            Admission::Refused(why) => why.step(),
        }
    }

    fn call(&self, front: FrontId, (origin, kind): (Origin, Kind)) -> Wake {
        let reply = self.reply.clone();
        Box::new(move |may| {
            reply.tell(News::Called(Called {
                front,
                origin,
                kind,
                may,
            }));
        })
    }

    fn wait(&self, front: FrontId, waiting: Waiting) -> AuthStep {
        let mut inner = self.inner.borrow_mut();
        inner.counted.queued += 1;
        if let Some(arrival) = inner.arrivals.get_mut(&front) {
            arrival.waiting = Some(waiting);
        }
        AuthStep::Pending
    }

    /// Its connection has gone, so it waits no more. Where it has just been told that it has its turn, [`Accounts::called`] gives that on.
    pub(super) fn give_up(&self, waiting: &Waiting) {
        let kind = waiting.came.kind();
        self.logins.throttle.leave(kind, waiting.ticket);
        self.inner.borrow_mut().counted.gave_up += 1;
    }

    /// Somebody who waited has its turn, or is told why not; none: nobody is there any more, or it goes on.
    pub(super) fn called(&self, called: Called) -> Option<AuthStep> {
        let Called {
            front,
            origin,
            kind,
            may,
        } = called;
        let waiting = {
            let mut inner = self.inner.borrow_mut();
            let arrival = inner.arrivals.get_mut(&front);
            arrival.and_then(|arrival| arrival.waiting.take())
        };
        match (waiting, may) {
            (Some(waiting), Ok(())) => Some(self.look(front, origin, waiting.came)),
            (Some(_), Err(why)) => Some(why.step()),
            (None, Ok(())) => {
                let throttle = &self.logins.throttle;
                throttle.finished(origin, kind, LookedAt::NoGuess, self.now.get());
                None
            }
            (None, Err(_)) => None,
        }
    }

    /// Until when a connection waits.
    fn until(&self, front: FrontId) -> Option<Tick> {
        self.inner.borrow().arrivals.get(&front)?.until
    }

    /// A connection waits from now on for what comes of its proof.
    fn want(&self, front: FrontId) -> Wanted {
        let left = self
            .until(front)
            .map(|until| ms_between(self.now.get(), until));
        let (waits, wanted) = Waits::begin(left.map(Duration::from_millis));
        if let Some(arrival) = self.inner.borrow_mut().arrivals.get_mut(&front) {
            arrival.asked = Some(waits);
        }
        wanted
    }

    /// What was admitted was not looked at: the connection does not wait any more, or could not for long enough.
    pub(super) fn skipped(&self, skipped: &Skipped) -> Option<AuthStep> {
        let (throttle, now) = (&self.logins.throttle, self.now.get());
        throttle.finished(skipped.origin, skipped.kind, LookedAt::NoGuess, now);
        let mut inner = self.inner.borrow_mut();
        let arrival = inner.arrivals.get_mut(&skipped.front)?;
        arrival.asked.take()?;
        Some(AuthStep::Refused(ReasonCode::ServerBusy, WhyRefused::Full))
    }

    /// Looks at what the throttle has admitted.
    fn look(&self, front: FrontId, origin: Origin, came: Came) -> AuthStep {
        let kind = came.kind();
        let proof = match came {
            Came::Password { user, password } => {
                let (claim, hash) = self.logins.claim(user, &password);
                let now = self.now.get();
                // Not before it is admitted: who has to wait would learn by it which of many passwords is right.
                if self.inner.borrow().remembered.has(&claim, now) {
                    let throttle = &self.logins.throttle;
                    throttle.finished(origin, kind, LookedAt::Right, now);
                    return self.grant(front, claim.user.into(), Vec::new());
                }
                Proof::Password {
                    password,
                    hash: hash.unwrap_or_else(dummy_hash),
                    claim,
                }
            }
            Came::Token { token, name } => match &self.logins.tokens {
                Some(keys) => Proof::Token {
                    token,
                    verifier: keys.verifier(),
                    name,
                },
                None => unreachable!("tokens are taken only where there are keys"),
            },
        };
        let asker = Asker::Front(front, self.reply.clone(), self.want(front));
        let job = Job {
            asker,
            origin,
            proof,
        };
        match self.logins.submit(job, kind, self.now.get()) {
            true => AuthStep::Pending,
            false => AuthStep::Refused(ReasonCode::ServerBusy, WhyRefused::Full),
        }
    }
}
