//! The last few events of each client id.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use courser_contract::WallMs;

use super::{Happened, PastEvent};

/// Events of one client id.
pub(super) const OF_CLIENT_MAX: usize = 8;
/// What a client id takes besides itself and its events, in both tables.
const EACH_BYTES: usize = 224;

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
        }
    }
}

/// The events of one client id with their numbers, and when the last one came.
#[derive(Debug, Default)]
struct OfClient {
    last: u64,
    events: VecDeque<(u64, Past)>,
}

impl OfClient {
    fn bytes(&self) -> usize {
        self.events.capacity() * size_of::<(u64, Past)>()
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
        self.clients.contains_key(client_id)
    }

    pub(super) fn note(&mut self, number: u64, event: &PastEvent) {
        let entry = self.clients.entry(Arc::clone(&event.client_id));
        let client_id = Arc::clone(entry.key());
        let of = entry.or_default();
        let mut before = 0;
        if !of.events.is_empty() {
            before = EACH_BYTES + client_id.len() + of.bytes();
            self.order.remove(&of.last);
        }
        of.last = number;
        if of.events.len() == OF_CLIENT_MAX {
            of.events.pop_front();
        }
        of.events.push_back((number, Past::of(event)));
        self.bytes += EACH_BYTES + client_id.len() + of.bytes() - before;
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
