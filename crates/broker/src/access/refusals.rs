//! What the log says of logins that are refused: who it was, and why, in as many lines as somebody reads.

use std::net::SocketAddr;
use std::time::Instant;

use courser_contract::WhyRefused;
use courser_mqtt::codec::ReasonCode;

use crate::control::why_words;
use crate::lines::Lines;
use crate::peer::Peer;

/// What a client came with that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// It counts against its address.
    Guess,
    /// Nothing, or what was not looked at or tells who guesses nothing.
    NoGuess,
    /// Who it is: it may not have what it asks for.
    Proof,
}

/// A login that is refused.
#[derive(Debug)]
pub(super) struct Refused<'a> {
    pub(super) client_id: &'a str,
    /// That there is, or that a certificate names. What else stands in the place of a name may be a token or a password (I14).
    pub(super) user: Option<&'a str>,
    pub(super) shown: Shown,
    pub(super) code: ReasonCode,
    pub(super) why: WhyRefused,
}

impl Refused<'_> {
    /// Why, for people.
    const fn words(&self) -> &'static str {
        match self.why {
            WhyRefused::ByReason => self.code.name(),
            why => why_words(why),
        }
    }
}

/// What is written of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RefusedLogin<'a> {
    pub(super) client_id: &'a str,
    pub(super) user: Option<&'a str>,
    pub(super) address: Option<SocketAddr>,
    pub(super) listener: &'a str,
    pub(super) reason: &'static str,
    /// Lines of its kind that were not written since the last one was.
    pub(super) left_out: u64,
}

impl RefusedLogin<'_> {
    /// Writes the line.
    pub(super) fn tell(&self) {
        tracing::warn!(
            event = "login_refused",
            client_id = self.client_id,
            user = self.user,
            address = self.address.map(tracing::field::display),
            listener = self.listener,
            reason = self.reason,
            left_out = self.left_out,
            "a client was not let in"
        );
    }
}

/// The lines of a process, of three kinds. While an address waits, all of its clients are refused unseen, and these must not hide the one
/// for whose sake they are; nor must those that prove nothing and pay nothing for it, as often as they like. An address has few guesses, for
/// each makes it wait longer, so that one address does not hide those of another.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Proofs that count against their address.
    guesses: Lines,
    /// Others that were looked at.
    seen: Lines,
    /// Clients that were refused unseen.
    unseen: Lines,
}

impl Refusals {
    /// What is to be written of a refusal, if anything is.
    pub(super) fn line<'a>(
        &self,
        refused: &Refused<'a>,
        peer: &'a Peer,
        now: Instant,
    ) -> Option<RefusedLogin<'a>> {
        let lines = match (refused.shown, refused.code) {
            (Shown::Guess, _) => &self.guesses,
            (
                Shown::NoGuess,
                ReasonCode::ConnectionRateExceeded
                | ReasonCode::ServerBusy
                | ReasonCode::ServerUnavailable,
            ) => &self.unseen,
            (Shown::NoGuess | Shown::Proof, _) => &self.seen,
        };
        let left_out = lines.admit(now)?;
        Some(RefusedLogin {
            client_id: refused.client_id,
            user: refused.user,
            address: peer.address,
            listener: &peer.entrance.name,
            reason: refused.words(),
            left_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lines::LINES_PER_SECOND;
    use crate::peer::{Authentication, Entrance};
    use courser_settings::Settings;

    const GUESS: ReasonCode = ReasonCode::BadUserNameOrPassword;
    const WAITS: ReasonCode = ReasonCode::ConnectionRateExceeded;

    #[test]
    fn i10_a_flood_of_guesses_is_a_few_lines_a_second_and_its_size() {
        let entrance = Entrance::mqtt(Authentication::Accounts, &Settings::default());
        let peer = Peer::plain(&entrance, "192.0.2.1:1".parse().expect("an address"));
        let (refusals, begun) = (Refusals::default(), Instant::now());
        let told = |code, ms| {
            let now = begun + Duration::from_millis(ms);
            let refused = Refused {
                client_id: "c",
                user: None,
                shown: match code {
                    GUESS => Shown::Guess,
                    _ => Shown::NoGuess,
                },
                code,
                why: WhyRefused::ByReason,
            };
            refusals
                .line(&refused, &peer, now)
                .map(|line| line.left_out)
        };
        let nothing_shown = ReasonCode::NotAuthorized;
        while told(nothing_shown, 0).is_some() {}
        for _ in 0..LINES_PER_SECOND.get() {
            assert_eq!(told(GUESS, 0), Some(0));
        }
        for _ in 0..100 {
            assert_eq!(told(GUESS, 1), None);
        }
        assert_eq!(told(WAITS, 1), Some(0), "who waits hides nobody's guess");
        assert_eq!(
            told(nothing_shown, 1_000),
            Some(1),
            "they are counted apart"
        );
        assert_eq!(told(GUESS, 1_000), Some(100));
        assert_eq!(told(GUESS, 2_000), Some(0), "they are told once");
    }
}
