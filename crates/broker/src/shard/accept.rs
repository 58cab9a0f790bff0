//! New connections of a shard.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use courser_memory::Detached;
use tokio::net::TcpListener;

use super::Shard;
use super::budget::Budget;
use super::ready::{Place, ReadyQueue, SocketWaker};
use super::sockets::Newcomer;
use super::timers::Timer;
use super::transport::{Layered, Socket, Transport};
use crate::doors::{Arrival, CameFrom};
use crate::listen::BoundListener;
use crate::memory::Level;
use crate::peer::{Entrance, NotNow, Peer};

/// Places from here on are those of listeners.
pub(crate) const LISTENERS: Place = 0xFFFF_0000;
/// Connections that one turn accepts from one listener.
const ACCEPT_MAX: usize = 32;
/// How long a listener rests that had no descriptor or memory for a connection, in milliseconds.
const REST_MS: u64 = 100;

struct Listener {
    socket: TcpListener,
    entrance: Arc<Entrance>,
    waker: Waker,
    /// Whether somebody may wait.
    ready: bool,
}

/// The listeners of a shard.
#[derive(Default)]
pub(crate) struct Accepting {
    listeners: Vec<Listener>,
    /// The one that is asked first: another one each turn, since a turn may be over before the last of them.
    first: usize,
    /// Whether they rest until a timer fires.
    resting: bool,
}

/// Places of `count` things, from `first` on and round to the one before it.
fn round(first: usize, count: usize) -> impl Iterator<Item = usize> {
    (first..count).chain(0..first.min(count))
}

impl Accepting {
    /// From sockets that listen already. Must be called on the shard's runtime.
    ///
    /// # Errors
    /// When the runtime cannot watch a socket.
    pub(crate) fn new(bound: Vec<BoundListener>, ready: &Arc<ReadyQueue>) -> io::Result<Self> {
        let listeners = (LISTENERS..).zip(bound).map(|(place, bound)| {
            Ok(Listener {
                socket: TcpListener::from_std(bound.socket)?,
                entrance: bound.entrance,
                waker: SocketWaker::waker(place, ready),
                ready: true,
            })
        });
        Ok(Self {
            listeners: listeners.collect::<io::Result<_>>()?,
            first: 0,
            resting: false,
        })
    }

    /// Places of listeners in the order of this turn.
    fn next_round(&mut self) -> impl Iterator<Item = usize> + use<> {
        let count = self.listeners.len();
        let first = self.first;
        self.first = if first + 1 < count { first + 1 } else { 0 };
        round(first, count)
    }

    /// A listener was woken.
    pub(crate) fn wake(&mut self, place: Place) {
        if let Some(listener) = self.listeners.get_mut((place - LISTENERS) as usize) {
            listener.ready = true;
        }
    }

    /// The rest is over.
    pub(crate) const fn resume(&mut self) {
        self.resting = false;
    }

    /// Whether a turn would accept.
    pub(crate) fn has_work(&self) -> bool {
        !self.resting && self.listeners.iter().any(|listener| listener.ready)
    }

    /// Takes no more connections.
    pub(crate) fn close(&mut self) {
        self.listeners.clear();
    }
}

impl Shard {
    /// Accepts whoever waits, a bounded number a turn.
    pub(crate) fn accept(&mut self) {
        for at in self.accepting.next_round() {
            for _ in 0..ACCEPT_MAX {
                if self.accepting.resting || self.hub.budget.is_spent() {
                    return;
                }
                let listener = &mut self.accepting.listeners[at];
                if !listener.ready {
                    break;
                }
                let mut context = Context::from_waker(&listener.waker);
                match listener.socket.poll_accept(&mut context) {
                    Poll::Pending => listener.ready = false,
                    Poll::Ready(Ok((stream, address))) => {
                        let peer = Peer::plain(&listener.entrance, address);
                        self.hub.budget.spend(Budget::ACCEPT);
                        self.admit(stream, peer);
                    }
                    Poll::Ready(Err(error)) => self.accept_failed(&error),
                }
            }
        }
    }

    /// Takes in whoever came through a door or from another shard, a bounded number a turn.
    pub(crate) fn welcome(&mut self) {
        if !self.inbox.has_some() {
            return;
        }
        for _ in 0..ACCEPT_MAX {
            if self.hub.budget.is_spent() {
                return;
            }
            let Some(arrival) = self.inbox.pop() else {
                return;
            };
            self.hub.budget.spend(Budget::ACCEPT);
            self.let_in(arrival);
        }
    }

    fn let_in(&mut self, arrival: Arrival) {
        let Arrival {
            socket,
            tunnel,
            early,
            peer,
            guest,
            came_from,
        } = arrival;
        // A stop that has told its connections to close would wait for this one.
        match (came_from, self.is_stopping()) {
            (CameFrom::Door, true) => return,
            (CameFrom::Shard, true) => return self.uncount_connection(&peer.entrance),
            (CameFrom::Door, false) if self.has_room(&peer.entrance) => {
                self.count_connection(&peer.entrance);
            }
            (CameFrom::Door, false) => return self.hub.counters.over_limit += 1,
            (CameFrom::Shard, false) => {}
        }
        let Ok(socket) = Socket::adopt(socket) else {
            // One that the runtime cannot watch has no use.
            self.hub.counters.accept_failures += 1;
            return self.uncount_connection(&peer.entrance);
        };
        let transport = match tunnel {
            None => Transport::Plain(socket),
            Some(tunnel) => Transport::Layered(Box::new(Layered {
                socket,
                tunnel: *tunnel,
            })),
        };
        self.add_connection(Newcomer {
            transport,
            peer,
            guest: guest.map(Box::new),
            came_from,
            early,
        });
    }

    /// One connection more in the process, which this shard has let in.
    fn count_connection(&mut self, entrance: &Entrance) {
        self.hub.counters.sockets += 1;
        self.hub.connections.fetch_add(1, Ordering::Relaxed);
        entrance.count();
    }

    /// One fewer.
    pub(super) fn uncount_connection(&self, entrance: &Entrance) {
        self.hub.connections.fetch_sub(1, Ordering::Relaxed);
        entrance.uncount();
    }

    fn has_room(&self, entrance: &Entrance) -> bool {
        let connections = self.hub.connections.load(Ordering::Relaxed);
        entrance.has_room(&self.hub.config, connections) && self.hub.memory != Level::Over
    }

    fn admit(&mut self, stream: tokio::net::TcpStream, peer: Peer) {
        let address = peer.address.map(|address| address.ip());
        let guest = match peer.entrance.let_in(address) {
            Ok(guest) if self.has_room(&peer.entrance) => guest.map(Box::new),
            Ok(_) | Err(NotNow::TooMany | NotNow::TooFast | NotNow::Waits) => {
                self.hub.counters.over_limit += 1;
                return;
            }
        };
        self.count_connection(&peer.entrance);
        let transport = Transport::Plain(Socket::Tcp(stream));
        self.add_connection(Newcomer {
            transport,
            peer,
            guest,
            came_from: CameFrom::Door,
            early: Detached::default(),
        });
    }

    /// A connection that ended while it waited is nothing. Anything else (no descriptors, no memory) would fail again at
    /// once: the listeners rest.
    fn accept_failed(&mut self, error: &io::Error) {
        if error.kind() == io::ErrorKind::ConnectionAborted {
            return;
        }
        if self.hub.counters.accept_failures == 0 {
            tracing::warn!(event = "accept_failed", %error, "cannot accept connections; trying again every {REST_MS} ms");
        }
        self.hub.counters.accept_failures += 1;
        self.accepting.resting = true;
        self.timers
            .insert(self.hub.now.tick.after_ms(REST_MS), Timer::ACCEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listener_is_first_in_its_turn() {
        let mut accepting = Accepting::default();
        assert_eq!(accepting.next_round().count(), 0);
        let rounds: Vec<Vec<usize>> = (0..3).map(|first| round(first, 3).collect()).collect();
        assert_eq!(rounds, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
        assert_eq!(round(5, 0).count(), 0, "they are closed");
    }

    #[test]
    fn a_flood_of_connections_leaves_half_of_what_there_is() {
        let mut budget = Budget::of(Budget::TURN);
        let aside = budget.halve();
        let mut accepted = 0;
        while !budget.is_spent() {
            budget.spend(Budget::ACCEPT);
            accepted += 1;
        }
        budget.grant(aside);
        assert_eq!(accepted, 10);
        assert!(!budget.is_spent());
        let rest = std::iter::from_fn(|| {
            let left = !budget.is_spent();
            budget.spend(Budget::READ);
            left.then_some(())
        });
        assert_eq!(rest.count(), 67, "reads of those who are there");
        let mut spent = Budget::of(-5);
        assert_eq!(spent.halve(), 0);
        assert!(spent.is_spent());
    }
}
