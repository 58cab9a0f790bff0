//! The last few events of each client id.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use courser_contract::WallMs;

use super::{Deed, Happened, PastEvent, text_bytes};

/// Events of one client id.
pub(super) const OF_CLIENT_MAX: usize = 8;
/// What a client id takes besides itself and its events, in both tables.
const EACH_BYTES: usize = 240;
/// For so long the same that is denied to a client again is not new, in milliseconds.
pub(super) const DENIED_AGAIN_MS: u64 = 60_000;

/// An event without whose it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    pub(super) at: WallMs,
    pub(super) what: Happened,
    pub(super) address: Option<SocketAddr>,
}

impl Past {
    pub(super) const fn of(event: &PastEvent) -> Self {
        Self {
            at: event.at,
            what: event.what,
            address: event.address,
        }
    }

    pub(super) fn with(self, client_id: &Arc<str>) -> PastEvent {
        PastEvent {
            at: self.at,
            client_id: Arc::clone(client_id),
            what: self.what,
            address: self.address,
            topic: None,
        }
    }
}

/// What a client was last denied.
#[derive(Clone, Debug)]
struct LastDenied {
    deed: Deed,
    topic: Arc<str>,
    address: Option<SocketAddr>,
    /// When that was new.
    since: WallMs,
    /// When it was the last time.
    at: WallMs,
}

impl LastDenied {
    fn bytes(&self) -> usize {
        size_of::<Self>() + text_bytes(&self.topic)
    }

    fn with(&self, client_id: &Arc<str>) -> PastEvent {
        PastEvent {
            at: self.at,
            client_id: Arc::clone(client_id),
            what: Happened::Denied(self.deed),
            address: self.address,
            topic: Some(Arc::clone(&self.topic)),
        }
    }
}

/// The events of one client id with their numbers, and when the last one came.
#[derive(Debug, Default)]
struct OfClient {
    last: u64,
    events: VecDeque<(u64, Past)>,
    denied: Option<Box<LastDenied>>,
}

impl OfClient {
    fn bytes(&self) -> usize {
        let denied = self.denied.as_deref().map_or(0, LastDenied::bytes);
        self.events.capacity() * size_of::<(u64, Past)>() + denied
    }

    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.denied.is_none()
    }
}

/// The client ids, of which the one goes first that nothing has happened to for the longest time.
#[derive(Debug)]
pub(super) struct Pasts {
    /// Client ids.
    most: usize,
    /// What all may take.
    bytes_max: usize,
    bytes: usize,
    clients: HashMap<Arc<str>, OfClient>,
    /// Client ids by the number of their last event.
    order: BTreeMap<u64, Arc<str>>,
}

impl Pasts {
    pub(super) fn new(most: usize, bytes_max: usize) -> Self {
        Self {
            most,
            bytes_max,
            bytes: 0,
            clients: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    pub(super) fn knows(&self, client_id: &str) -> bool {
        let of = self.clients.get(client_id);
        of.is_some_and(|of| !of.events.is_empty())
    }

    pub(super) fn note(&mut self, number: u64, event: &PastEvent) {
        self.change(number, &event.client_id, |of| {
            if of.events.len() == OF_CLIENT_MAX {
                of.events.pop_front();
            }
            of.events.push_back((number, Past::of(event)));
        });
    }

    /// In place of what was denied before.
    pub(super) fn note_denied(&mut self, number: u64, event: &PastEvent) {
        let (Happened::Denied(deed), Some(topic)) = (event.what, &event.topic) else {
            unreachable!("it is of something that was denied");
        };
        let denied = LastDenied {
            deed,
            topic: Arc::clone(topic),
            address: event.address,
            since: event.at,
            at: event.at,
        };
        self.change(number, &event.client_id, |of| {
            of.denied = Some(Box::new(denied));
        });
    }

    /// Whether the same was denied before, and was new not long ago; then the time of it is noted. A clock that was set back makes it new.
    pub(super) fn was_denied_of_late(
        &mut self,
        now: WallMs,
        client_id: &str,
        (deed, topic): (Deed, &str),
    ) -> bool {
        let of = self.clients.get_mut(client_id);
        let Some(denied) = of.and_then(|of| of.denied.as_deref_mut()) else {
            return false;
        };
        let is_same = denied.deed == deed && &*denied.topic == topic;
        let is_new = now.0.abs_diff(denied.since.0) >= DENIED_AGAIN_MS;
        if is_same && !is_new {
            denied.at = now;
        }
        is_same && !is_new
    }

    /// What a client id was last denied.
    pub(super) fn denied(&self, client_id: &Arc<str>) -> Option<PastEvent> {
        let denied = self.clients.get(client_id)?.denied.as_deref()?;
        Some(denied.with(client_id))
    }

    /// Changes what is kept of a client id, because of the event of this number.
    fn change(&mut self, number: u64, client_id: &Arc<str>, change: impl FnOnce(&mut OfClient)) {
        let entry = self.clients.entry(Arc::clone(client_id));
        let client_id = Arc::clone(entry.key());
        let of = entry.or_default();
        let mut before = 0;
        if !of.is_empty() {
            before = EACH_BYTES + client_id.len() + of.bytes();
            self.order.remove(&of.last);
        }
        of.last = number;
        change(of);
        // What it takes may have become less: a topic may be shorter than the one before it.
        self.bytes = self.bytes + EACH_BYTES + client_id.len() + of.bytes() - before;
        self.order.insert(number, client_id);
        while self.clients.len() > self.most || self.bytes > self.bytes_max {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let (_, oldest) = self
            .order
            .pop_first()
            .expect("what takes bytes has a place");
        let of = self
            .clients
            .remove(&oldest)
            .expect("what has a place is there");
        self.bytes -= EACH_BYTES + oldest.len() + of.bytes();
    }

    /// Those of a client id with their numbers, oldest first.
    pub(super) fn of_client(&self, client_id: &str) -> impl Iterator<Item = (u64, Past)> {
        let of = self.clients.get(client_id).into_iter();
        of.flat_map(|of| &of.events).copied()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.clients.len(), self.order.len(), "each has its place");
        self.clients.len()
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let each =
            |(client_id, of): (&Arc<str>, &OfClient)| EACH_BYTES + client_id.len() + of.bytes();
        let counted = self.clients.iter().map(each).sum();
        assert_eq!(self.bytes, counted, "what goes is counted as what came");
        counted
    }
}
