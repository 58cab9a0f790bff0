//! JSON Web Tokens: in the password of CONNECT, or by the authentication method [`METHOD`], with which a client can show a newer one
//! before the old one ends.

use std::sync::Arc;

use courser_access::{Principal, UserName, UserState};
use courser_contract::{FrontId, Tick, WhyRefused};
use courser_mqtt::codec::ReasonCode;
use courser_mqtt::front::{AuthStep, Login};
use courser_token::{Grant, TOKEN_BYTES_MAX, TokenError};
use zeroize::Zeroizing;

use super::{Accounts, Came, Kind, LookedAt, Origin};
use crate::clock::unix_seconds;

/// Authentication Method of MQTT 5.0; its data is the token.
const METHOD: &str = "JWT";

impl Accounts {
    pub(super) fn by_token(&self, login: &Login<'_>, origin: Origin) -> AuthStep {
        let token = match (login.method, login.password) {
            (Some(METHOD), _) => login.data,
            (Some(_), _) => {
                return AuthStep::Refused(
                    ReasonCode::BadAuthenticationMethod,
                    WhyRefused::NoSuchMethod,
                );
            }
            (None, Some(password)) => password.0,
            (None, None) => {
                return AuthStep::Refused(ReasonCode::NotAuthorized, WhyRefused::NothingShown);
            }
        };
        if self.logins.tokens.is_none() {
            return AuthStep::Refused(ReasonCode::ServerUnavailable, WhyRefused::ByReason);
        }
        let (throttle, now) = (&self.logins.throttle, self.now.get());
        if let Some(why) = throttle.waits(origin, now) {
            return why.step();
        }
        // 3.1.1 has no password without a user name, v3 [MQTT-3.1.2-22]: an empty one says nothing.
        let name = login.user_name.filter(|name| !name.is_empty());
        let name = name.map(UserName::new).transpose();
        let (Ok(name), true) = (name, token.len() <= TOKEN_BYTES_MAX) else {
            self.guessed(login.front, origin);
            return AuthStep::Refused(ReasonCode::BadUserNameOrPassword, WhyRefused::WrongToken);
        };
        let token = Zeroizing::new(token.to_vec());
        self.ask(login.front, origin, Came::Token { token, name })
    }

    pub(super) fn judge_token(
        &self,
        front: FrontId,
        origin: Origin,
        (grant, name): (Result<Grant, TokenError>, Option<UserName>),
    ) -> AuthStep {
        let looked_at = grant.as_ref().err().map_or(LookedAt::Right, guessed);
        let throttle = &self.logins.throttle;
        throttle.finished(origin, Kind::Token, looked_at, self.now.get());
        if looked_at == LookedAt::Guess {
            self.note_guess(front);
        }
        let grant = match grant {
            Ok(grant) => grant,
            Err(why) => return self.refuse_token(front, why),
        };
        let same = name.is_none_or(|name| name == grant.user);
        let table = self.logins.access.table();
        let disabled = table
            .user(grant.user.as_str())
            .is_some_and(|user| user.state == UserState::Disabled);
        if !same || disabled {
            let why = if same {
                WhyRefused::NotAUser
            } else {
                WhyRefused::OtherName
            };
            return AuthStep::Refused(ReasonCode::NotAuthorized, why);
        }
        let who = Principal {
            user: grant.user,
            granted: Some(Arc::from(grant.roles)),
        };
        let step = self.grant(front, who, Vec::new());
        if let AuthStep::Accepted(_) = step {
            self.note_end(front, grant.ends_at);
        }
        step
    }

    fn refuse_token(&self, front: FrontId, why: TokenError) -> AuthStep {
        let inner = self.inner.borrow();
        let arrival = inner.arrivals.get(&front);
        let client_id = arrival.map(|it| it.client_id.as_str());
        tracing::debug!(event = "token_refused", client_id, %why, "a client came with a token that proves nothing");
        let again = arrival.is_some_and(|it| it.principal.is_some());
        let code = if again {
            // The other one is for CONNACK alone.
            ReasonCode::NotAuthorized
        } else {
            ReasonCode::BadUserNameOrPassword
        };
        AuthStep::Refused(code, WhyRefused::WrongToken)
    }

    /// Notes when a connection ends unless it shows a newer token.
    fn note_end(&self, front: FrontId, ends_at: u64) {
        let left = ends_at.saturating_sub(unix_seconds());
        let ends = self.now.get().after_ms(left.saturating_mul(1_000));
        let mut inner = self.inner.borrow_mut();
        let arrival = inner.arrivals.get_mut(&front);
        let before = arrival.and_then(|arrival| arrival.ends.replace(ends));
        if let Some(before) = before {
            inner.ends.remove(before, front);
        }
        inner.ends.insert(ends, front);
    }

    /// A connection whose token has ended. Each is told once.
    pub(crate) fn take_ended(&self) -> Option<FrontId> {
        let mut inner = self.inner.borrow_mut();
        let ended = inner.ends.take(self.now.get())?;
        if let Some(arrival) = inner.arrivals.get_mut(&ended) {
            arrival.ends = None;
        }
        Some(ended)
    }

    /// When the next token ends.
    pub(crate) fn next_end(&self) -> Option<Tick> {
        self.inner.borrow().ends.next()
    }
}

/// A client whose clock is wrong, that was not told of a new token, or that has too many roles, guesses nothing: those of its address
/// do not wait for it. What its tokens cost is bounded by how many of one address are looked at.
fn guessed(why: &TokenError) -> LookedAt {
    match why {
        TokenError::Expired | TokenError::NotYet | TokenError::Roles => LookedAt::NoGuess,
        TokenError::TooLong
        | TokenError::Malformed
        | TokenError::Extension
        | TokenError::NoKey
        | TokenError::ManyKeys
        | TokenError::Signature
        | TokenError::Claims
        | TokenError::Audience
        | TokenError::Issuer
        | TokenError::User => LookedAt::Guess,
    }
}
