//! What sessions and what they have subscribed to take in memory: counted as entries are applied, so that the leader need not look.
//!
//! The numbers are what the process was seen to take for each (bench/million.py), and tests hold them against the allocator: what a session has open follows from the
//! structs that hold it, and filters from what the trie of their partition is made of, since those that begin alike or share their levels take a fraction of
//! those that do not. A filter is in its session, in L2, and twice in L1. They are of the leader's decisions only, and in no entry.

use courser_contract::{PartitionId, Will};
use router::Parts;

use crate::{
    entry::ScanState,
    scan::OpenScans,
    session::{Extra, Scan, Session, Subscribed},
};

/// A session without anything, in its tables.
const SESSION_BYTES: usize = 512;
/// One subscription in its session, its filter not counted.
const SUBSCRIPTION_BYTES: usize = 90;
/// One in the list of a filter that several have.
const LISTED_BYTES: usize = 36;
/// What a shared one takes more: its group, the group's queue, and what both know of each other. While the member is connected, as `tests/stored/memory.rs`
/// counts it: what that needs goes with the connection, and has to be there for the next one.
const SHARED_BYTES: usize = 2_400;
/// A node of the trie of filters: 40 bytes in L2, 24 in each copy of L1, and its places in their tables.
const NODE_BYTES: usize = 125;
/// A distinct text of a level, in the three of them.
const TEXT_BYTES: usize = 140;
/// A level of a tail there.
const TAIL_LEVEL_BYTES: usize = 14;
/// Copies of a text that is too long for its place.
const COPIES: usize = 3;

/// The most that a node of a B-tree has.
const NODE_MAX: usize = 11;

/// A leaf of a B-tree: its room, a parent, and what it is.
const fn of_leaf<K, V>() -> usize {
    let room = NODE_MAX * (size_of::<K>() + size_of::<V>());
    (room + size_of::<usize>() + 4).next_multiple_of(8)
}

/// Each of many in a B-tree that grew in their order: its leaves are little more than half full, and something leads to them.
pub(crate) const fn of_next<K, V>() -> usize {
    of_leaf::<K, V>() / 5
}

/// A B-tree of so many.
const fn of_tree<K, V>(count: usize) -> usize {
    match count {
        0 => 0,
        1..=NODE_MAX => of_leaf::<K, V>(),
        _ => 2 * of_leaf::<K, V>() + count * of_next::<K, V>(),
    }
}

/// A session without what it has subscribed to, its messages, and [`of_scan`]. In constant time.
pub(crate) fn of_session(session: &Session) -> u64 {
    let owner = session.owner().map_or(0, str::len);
    let extra = session.extra.as_ref().map_or(0, |it| of_extra(it));
    (SESSION_BYTES + 2 * session.client_id.len() + owner + extra) as u64
}

/// What few sessions have: QoS 2 publishes that wait for their PUBREL, scans of retained messages with the leader's memory of them, a will.
fn of_extra(extra: &Extra) -> usize {
    let Extra {
        will,
        will_due: _,
        holds,
        scans,
        leaves,
    } = extra;
    let will = will.as_ref();
    let will = will.map_or(0, |it| size_of::<Will>() + will_bytes(it));
    let holds = of_tree::<u16, u64>(holds.len());
    let scans = match scans.len() {
        0 => 0,
        count => {
            of_tree::<u64, Scan>(count) + OpenScans::SESSION_BYTES + count * OpenScans::SCAN_BYTES
        }
    };
    size_of::<Extra>() + size_of_val(&**leaves) + will + holds + scans
}

/// Texts of a will.
pub(crate) const fn will_bytes(will: &Will) -> usize {
    will.topic.len() + will.properties.len() + will.payload.len()
}

/// What scans have that differ: the filter and how far they are, each also in the leader's memory.
pub(crate) fn of_scan(scan: &Scan) -> u64 {
    let reached = |state: &ScanState| match state {
        ScanState::After(topic) => 2 * topic.len(),
        ScanState::Finished => 0,
    };
    let cursors = of_tree::<PartitionId, ScanState>(scan.cursors.len());
    let reached: usize = scan.cursors.values().map(reached).sum();
    (2 * scan.filter.len() + cursors + reached) as u64
}

/// A session and what it has open, without its subscriptions and its messages.
pub(crate) fn of_whole(session: &Session) -> u64 {
    let scans = session.extra.iter().flat_map(|it| it.scans.values());
    of_session(session) + scans.map(of_scan).sum::<u64>()
}

/// A subscription, without what its filter takes in the indexes.
pub(crate) fn of_subscription(made: &Subscribed) -> u64 {
    let shared = made
        .share_name()
        .map_or(0, |name| SHARED_BYTES + name.len());
    (SUBSCRIPTION_BYTES + made.filter.len() + shared) as u64
}

/// All filters of a partition in the indexes, and `listed` subscriptions to them beside the first of each. What filters of several partitions share L1 has once, and
/// this says it for each.
pub(crate) fn of_filters(parts: Parts, listed: usize) -> u64 {
    let Parts {
        nodes,
        tail_levels,
        texts,
        long_text_bytes,
    } = parts;
    let levels = nodes * NODE_BYTES + tail_levels * TAIL_LEVEL_BYTES;
    let texts = texts * TEXT_BYTES + COPIES * long_text_bytes;
    (levels + texts + listed * LISTED_BYTES) as u64
}

#[cfg(test)]
mod tests;
