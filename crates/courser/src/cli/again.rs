//! Commands that go on when the broker has gone away: they connect again, ever less often while it does not come back.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use courser_client::{Client, ClientError, Options, SessionState};

use super::interrupt::Interrupt;

/// The first rest; each is twice as long as the one before, up to the longest.
const REST_FIRST: Duration = Duration::from_millis(250);
const REST_MAX: Duration = Duration::from_secs(30);

/// Rests between tries.
#[derive(Debug)]
struct Backoff {
    next: Duration,
}

impl Backoff {
    const fn new() -> Self {
        Self { next: REST_FIRST }
    }

    /// At least half of what it may be: how much more is left to chance (`chance` is any number), so that those whom one broker has lost do
    /// not come back at once.
    fn rest(&mut self, chance: u64) -> Duration {
        let half = self.next / 2;
        self.next = (2 * self.next).min(REST_MAX);
        half + half.mul_f64(chance as f64 / u64::MAX as f64)
    }
}

/// How a command comes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again<'a> {
    /// Those of the first connection.
    pub(crate) options: &'a Options,
    /// After this there is no further try.
    pub(crate) deadline: Option<Instant>,
    pub(crate) is_quiet: bool,
}

impl Again<'_> {
    /// Connects again after a connection was lost for `why`. None: the time is over.
    ///
    /// # Errors
    /// `why`, or what was wrong with the last try: when it is nothing that passes, or when a signal comes.
    pub(crate) fn come_back(
        &self,
        client: &mut Client,
        interrupt: &Interrupt,
        mut why: ClientError,
    ) -> Result<Option<SessionState>, ClientError> {
        let mut backoff = Backoff::new();
        let mut said = String::new();
        loop {
            let left = self
                .deadline
                .map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if !why.is_passing() || interrupt.ending().is_some() {
                return Err(why);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let text = why.to_string();
            if text != said {
                self.say(&format!("{text}; connecting again"));
                said = text;
            }
            let rest = backoff.rest(RandomState::new().hash_one(0));
            interrupt.rest(left.map_or(rest, |left| rest.min(left)));
            if interrupt.ending().is_some() {
                return Err(why);
            }
            match client.connect_again(self.options) {
                Ok(session) => {
                    interrupt.stops(client)?;
                    self.say(match session {
                        SessionState::Resumed => "connected again, with the session as it was",
                        SessionState::New => {
                            "connected again, in a new session: what was published meanwhile does not come"
                        }
                    });
                    return Ok(Some(session));
                }
                Err(error) => why = error,
            }
        }
    }

    fn say(&self, what: &str) {
        if !self.is_quiet {
            eprintln!("courser: {what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_up_to_the_longest() {
        for (chance, part) in [(0, 0.5), (u64::MAX, 1.0)] {
            let mut backoff = Backoff::new();
            let rests = [(); 9].map(|()| backoff.rest(chance).as_secs_f64());
            let whole = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0];
            assert_eq!(rests, whole.map(|rest| rest * part), "{chance}");
        }
    }
}
