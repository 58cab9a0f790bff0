//! On which shard a connection is served. Whoever accepts it reads its CONNECT; before that is handled it may go to another shard.
//!
//! It goes as its socket, the layers above it, and the bytes that were read ([`Arrival`]), the way that connections come from doors. Its
//! front has done nothing by then: it is left behind, and the other shard makes one. So neither session, window, keep-alive nor will
//! ever move, and a takeover sees what it would see if the kernel had chosen that shard.
//!
//! A connection goes once: while settings change, shards may differ in where it belongs.

use std::sync::atomic::Ordering;

use courser_contract::{CloseCause, FrontId, ShardId};
use courser_memory::Buffer;
use courser_mqtt::front::{Glimpse, SessionSpan};
use courser_settings::Placement;

use super::Shard;
use super::connection::Connection;
use crate::doors::{Arrival, CameFrom};

/// Connections of the process up to which those of sessions that end with them are gathered on one shard.
const GATHERED_MAX: usize = 32;

/// What becomes of a connection that was served.
pub(super) enum Served {
    /// It stays, and may have closed.
    Here(Option<CloseCause>),
    /// It goes to another shard.
    Goes(ShardId),
}

impl Shard {
    /// The shard that these received bytes send a connection to. The other value is the end of a front that has panicked at them.
    pub(super) fn belongs_to(
        &mut self,
        id: FrontId,
        connection: &mut Connection,
        received: &[u8],
    ) -> Served {
        let placement = self.hub.config.settings.server.placement;
        if placement == Placement::Kernel
            || self.inboxes.len() == 1
            || connection.came_from == CameFrom::Shard
            || connection.front.version().is_some()
            || !self.hub.serving
            || self.is_stopping()
        {
            return Served::Here(None);
        }
        let (seen, close) = self.call_front(id, connection, |connection, _| {
            connection.front.glimpse(received)
        });
        match seen.flatten().map(|seen| self.place_of(placement, &seen)) {
            Some(there) if there != self.hub.id => Served::Goes(there),
            Some(_) | None => Served::Here(close),
        }
    }

    fn place_of(&self, placement: Placement, seen: &Glimpse<'_>) -> ShardId {
        let few = || self.hub.connections.load(Ordering::Relaxed) <= GATHERED_MAX;
        match (placement, seen.span) {
            // One that the server names has no session yet.
            (Placement::Home | Placement::Gather, SessionSpan::Kept)
                if !seen.client_id.is_empty() =>
            {
                let home = self.hub.classes.session(seen.client_id);
                self.hub.places.shard_of(home)
            }
            (Placement::Gather, SessionSpan::Connection | SessionSpan::Kept) if few() => ShardId(0),
            (Placement::Kernel | Placement::Home | Placement::Gather, _) => self.hub.id,
        }
    }

    /// Gives a connection to another shard. It stays counted.
    pub(super) fn move_to(&mut self, id: FrontId, connection: Box<Connection>, to: ShardId) {
        self.forget(id, &connection);
        let Connection {
            transport,
            peer,
            guest,
            rest,
            ..
        } = *connection;
        let Ok((socket, tunnel)) = transport.loosen() else {
            // A socket that the runtime does not give back has failed.
            return self.uncount_connection(&peer.entrance);
        };
        self.hub.counters.sockets_moved += 1;
        self.inboxes[usize::from(to.0)].push(Arrival {
            socket,
            tunnel,
            early: rest.map(Buffer::detach).unwrap_or_default(),
            peer,
            guest: guest.map(|guest| *guest),
            came_from: CameFrom::Shard,
        });
    }
}
