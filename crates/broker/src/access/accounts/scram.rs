//! SCRAM-SHA-256: a few hashes, done at once.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use courser_access::UserState;
use courser_access::scram::Exchange;
use courser_contract::{FrontId, WhyRefused};
use courser_mqtt::codec::ReasonCode;
use courser_mqtt::front::{AuthExchange, AuthStep, Login};
use rand::Rng;

use super::{Accounts, Origin};

impl Accounts {
    pub(super) fn by_scram(
        &self,
        login: &Login<'_>,
        origin: Origin,
    ) -> (AuthStep, Option<Box<dyn AuthExchange>>) {
        if let Some(why) = self.logins.throttle.waits(origin, self.now.get()) {
            return (why.step(), None);
        }
        let table = self.logins.access.table();
        let mut nonce = [0; 18];
        self.inner.borrow_mut().rng.fill_bytes(&mut nonce);
        let nonce = STANDARD_NO_PAD.encode(nonce);
        let (mut since, mut claimed) = (None, None);
        let begun = Exchange::begin(login.data, &nonce, &self.logins.decoys.0, |name| {
            claimed = Some(name.clone());
            let user = table.user(name.as_str())?;
            since = Some(user.since);
            let keys = user.scram.clone();
            keys.filter(|_| user.state == UserState::Enabled)
        });
        // An empty user name of CONNECT says nothing, as with tokens.
        let named = login.user_name.filter(|name| !name.is_empty());
        let is_other = named.is_some_and(|named| {
            let mut claimed = claimed.iter();
            claimed.any(|claimed| claimed.as_str() != named)
        });
        self.note_claim(login.front, claimed);
        if is_other {
            return (
                AuthStep::Refused(ReasonCode::BadUserNameOrPassword, WhyRefused::OtherName),
                None,
            );
        }
        match begun {
            Ok(exchange) => {
                let step = AuthStep::Continue(exchange.server_first().as_bytes().to_vec());
                let waiting = ScramExchange {
                    accounts: self.clone(),
                    front: login.front,
                    origin,
                    since,
                    exchange,
                };
                (step, Some(Box::new(waiting)))
            }
            Err(_) => {
                self.guessed(login.front, origin);
                (
                    AuthStep::Refused(ReasonCode::NotAuthorized, WhyRefused::WrongProof),
                    None,
                )
            }
        }
    }
}

/// A SCRAM exchange that waits for the client's proof.
#[derive(Debug)]
struct ScramExchange {
    accounts: Accounts,
    front: FrontId,
    origin: Origin,
    /// Of the user when it began.
    since: Option<u64>,
    exchange: Exchange,
}

impl AuthExchange for ScramExchange {
    fn answer(&mut self, data: &[u8]) -> AuthStep {
        let step = self.finish(data);
        self.accounts.note(self.front, &step);
        step
    }
}

impl ScramExchange {
    fn finish(&mut self, data: &[u8]) -> AuthStep {
        let logins = &self.accounts.logins;
        // Whoever has begun many exchanges at once has no more guesses for it.
        if let Some(why) = logins.throttle.waits(self.origin, self.accounts.now.get()) {
            return why.step();
        }
        let table = logins.access.table();
        match self.exchange.finish(data) {
            Ok((user, signature)) => {
                let still = table.user(user.as_str()).is_some_and(|it| {
                    it.state == UserState::Enabled && Some(it.since) == self.since
                });
                if still {
                    logins.throttle.succeeded(self.origin);
                    self.accounts
                        .grant(self.front, user.into(), signature.into_bytes())
                } else {
                    AuthStep::Refused(ReasonCode::NotAuthorized, WhyRefused::NotAUser)
                }
            }
            Err(_) => {
                self.accounts.guessed(self.front, self.origin);
                AuthStep::Refused(ReasonCode::NotAuthorized, WhyRefused::WrongProof)
            }
        }
    }
}
