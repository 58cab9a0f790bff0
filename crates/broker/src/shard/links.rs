//! What leads to the other shards, and since when it is full (M49). The link of a shard to itself is its disk.

use courser_contract::{Append, FrontId, PartitionId, ShardId, Tick};

use super::ready::Place;
use crate::latency::Moment;
use crate::rings::{Batch, Ports, Sender};

/// Bytes of one shard that may be on their way to the disk before it stops reading sockets.
const DISK_BACKLOG_MAX: usize = 32 << 20;

/// How long a shard does not read sockets for want of room on a link, in milliseconds (M49).
pub(crate) const NOT_READING_MS: u64 = 5_000;

/// See the module.
pub(crate) struct Links {
    me: ShardId,
    pub(crate) ports: Ports,
    /// Messages of this shard to itself.
    pub(crate) local: Batch,
    /// Since when links are full, by peer.
    congested: Vec<Option<Tick>>,
    /// Set when an append was added to a full link: whoever added it waits.
    pub(crate) overfull: bool,
    /// Connections that are not read until a link has room.
    pub(crate) waiting: Vec<Place>,
}

impl Links {
    /// All of them free.
    pub(crate) fn new(me: ShardId, ports: Ports) -> Self {
        Self {
            me,
            congested: vec![None; ports.to.len()],
            ports,
            local: Batch::default(),
            overfull: false,
            waiting: Vec::new(),
        }
    }

    /// The batch for a shard: a ring's, or the one of this shard to itself.
    #[inline]
    pub(crate) fn batch(&mut self, shard: ShardId) -> &mut Batch {
        if shard == self.me {
            return &mut self.local;
        }
        self.sender(shard).batch()
    }

    /// The ring to another shard.
    #[inline]
    fn sender(&mut self, shard: ShardId) -> &mut Sender {
        let peer = self.ports.to[usize::from(shard.0)].as_mut();
        peer.expect("every other shard is a peer")
    }

    /// Adds an append to the link to `shard`, received then, and notes when that is full.
    #[inline]
    pub(crate) fn push_append(
        &mut self,
        shard: ShardId,
        partition: PartitionId,
        append: &Append<'_>,
        front: Option<FrontId>,
        received: Option<Moment>,
    ) {
        let sender = self.sender(shard);
        let batch = sender.batch();
        batch.push_append(partition, append, front);
        batch.note_received(received);
        let is_full = !sender.has_room();
        self.overfull |= is_full;
    }

    /// Takes note of a disk that is slower than the publishers: as a link of the shard to itself that is full.
    pub(crate) fn watch_disk(&mut self, backlog_bytes: usize, now: Tick) {
        let since = &mut self.congested[usize::from(self.me.0)];
        note_room(since, backlog_bytes < DISK_BACKLOG_MAX, now);
    }

    /// Takes note of links that became full or free.
    pub(crate) fn watch(&mut self, now: Tick) {
        for (sender, since) in self.ports.to.iter_mut().zip(&mut self.congested) {
            let Some(sender) = sender else { continue };
            note_room(since, sender.has_room(), now);
        }
    }

    /// Whether a link is full; the one of this shard to itself is its disk's.
    #[inline]
    pub(crate) fn is_congested(&self, shard: ShardId) -> bool {
        self.congested[usize::from(shard.0)].is_some()
    }

    /// Whether any of them is.
    #[inline]
    pub(crate) fn are_congested(&self) -> bool {
        self.congested.iter().any(Option::is_some)
    }

    /// Whether a link refuses requests: it has been full for as long as a socket may stay unread (M49).
    pub(crate) fn refuses(&self, shard: ShardId, now: Tick) -> bool {
        self.congested[usize::from(shard.0)]
            .is_some_and(|since| now >= since.after_ms(NOT_READING_MS))
    }

    /// Whether a connection that is not read for want of room on a link may be read again.
    pub(crate) fn may_read_again(&self, now: Tick) -> bool {
        (0..self.congested.len()).all(|shard| {
            self.congested[shard].is_none() || self.refuses(ShardId(shard as u16), now)
        })
    }
}

fn note_room(since: &mut Option<Tick>, has_room: bool, now: Tick) {
    match (has_room, &since) {
        (true, _) => *since = None,
        (false, None) => *since = Some(now),
        (false, Some(_)) => {}
    }
}
