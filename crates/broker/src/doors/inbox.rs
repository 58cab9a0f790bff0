//! The way of a connection to its shard: from the door that made its handshakes, or from a shard that has accepted it.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use courser_memory::Detached;
use courser_transport::Tunnel;

use super::guests::Guest;
use crate::peer::Peer;
use crate::rings::Doze;

/// A socket that belongs to no runtime at the moment.
#[derive(Debug)]
pub(crate) enum LooseSocket {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
}

/// A connection that may speak MQTT now.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) socket: LooseSocket,
    /// Its layers, if there are any.
    pub(crate) tunnel: Option<Box<Tunnel>>,
    /// Bytes of MQTT that were read: those that came with the handshake, where there are no layers to keep them, and those by which a shard saw
    /// where the connection belongs.
    pub(crate) early: Detached,
    pub(crate) peer: Peer,
    pub(crate) guest: Option<Guest>,
    pub(crate) came_from: CameFrom,
}

/// Where a shard has a connection from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CameFrom {
    /// A door, or a listener of the shard's own: it counts as a connection from now on.
    Door,
    /// Another shard: it is counted already, and stays.
    Shard,
}

/// Connections for one shard. They are as many at most as handshakes may be under way and the process may have connections: what
/// the shard does not want it closes.
#[derive(Debug)]
pub(crate) struct Inbox {
    queue: Mutex<VecDeque<Arrival>>,
    /// Whether there may be some, so that a turn costs one load.
    some: AtomicBool,
    doze: Arc<Doze>,
}

impl Inbox {
    /// An empty one, of the shard that wakes by `doze`.
    #[must_use]
    pub(crate) fn new(doze: &Arc<Doze>) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            some: AtomicBool::new(false),
            doze: Arc::clone(doze),
        })
    }

    /// Hands a connection over.
    pub(crate) fn push(&self, arrival: Arrival) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(arrival);
        self.some.store(true, Ordering::Release);
        drop(queue);
        self.doze.wake();
    }

    /// Whether there may be one. To be looked at after the shard has lain down, too.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.some.load(Ordering::Acquire)
    }

    /// The oldest.
    pub(crate) fn pop(&self) -> Option<Arrival> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let arrival = queue.pop_front();
        self.some.store(!queue.is_empty(), Ordering::Release);
        arrival
    }
}
