//! How much one connection may publish: what its rates are, and what its client has taken of them.

use courser_access::{Limits, Rates};
use courser_contract::Tick;

use super::quotas::{Joined, Quotas, Whose};

/// See the module. None where nothing is limited, which is all that is looked at then.
#[derive(Debug, Default)]
pub(crate) struct Meter(Option<Box<Limited>>);

#[derive(Debug)]
struct Limited {
    /// By what counts now; none: it is not limited any more.
    rates: Option<Rates>,
    /// Once it has a will or a session: nobody publishes before, and who it is may not be known.
    joined: Option<Joined>,
}

impl Meter {
    pub(crate) fn new(limits: Limits) -> Self {
        let limited = |rates| {
            Box::new(Limited {
                rates: Some(rates),
                joined: None,
            })
        };
        Self(Rates::of(limits).map(limited))
    }

    /// It has these limits from now on, which counts at the next [look](Self::owes).
    pub(crate) fn renew(&mut self, limits: Limits) {
        match &mut self.0 {
            None => *self = Self::new(limits),
            Some(limited) => limited.rates = Rates::of(limits),
        }
    }

    /// Whether there is anything to ask.
    #[inline]
    pub(crate) const fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// As much is read of its socket at once.
    #[inline]
    pub(crate) fn read_bytes_max(&self) -> usize {
        let rates = self.0.as_ref().and_then(|limited| limited.rates);
        rates.map_or(usize::MAX, Rates::read_bytes_max)
    }

    /// Takes a message of these parts: whether more was published than may be by now. They are what others get of it: topic, also where an alias
    /// stands for it, properties and payload.
    #[inline]
    pub(crate) fn charge(&self, now: Tick, parts: [&[u8]; 3]) -> bool {
        let limited = self.0.as_deref();
        let Some(joined) = limited.and_then(|it| it.joined.as_ref()) else {
            return false;
        };
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        joined.quota.take(now.0, 1, bytes as u64);
        joined.quota.is_overdrawn(now.0)
    }

    /// Whether its client, which is known, has published more than it may by now.
    pub(crate) fn owes(&mut self, now: Tick, quotas: &Quotas, whose: &Whose<'_>) -> bool {
        let Some(limited) = &mut self.0 else {
            return false;
        };
        let counts = limited.joined.as_ref().map(|joined| joined.quota.rates());
        if counts != limited.rates {
            if let Some(before) = limited.joined.take() {
                before.leave(now);
            }
            limited.joined = limited.rates.map(|rates| quotas.join(whose, rates, now));
        }
        match &limited.joined {
            Some(joined) => joined.quota.is_overdrawn(now.0),
            None => {
                self.0 = None;
                false
            }
        }
    }

    /// The connection publishes nothing any more.
    pub(crate) fn leave(&mut self, now: Tick) {
        if let Some(joined) = self.0.take().and_then(|limited| limited.joined) {
            joined.leave(now);
        }
    }
}
