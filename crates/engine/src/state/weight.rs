//! What sessions and what they have subscribed to take in memory: counted as entries are applied, so that the leader need not look.
//!
//! The numbers are what the process was seen to take for each (bench/million.py, and sessions with 10,000 filters of 200 and of 4,000 bytes):
//! a filter is in its session, in L2, and twice in L1. What a session has open follows from the structs that hold it, and a test holds it against the
//! allocator. They are of the leader's decisions only, and in no entry.

use courser_contract::{PartitionId, Will};

use crate::{
    entry::ScanState,
    scan::OpenScans,
    session::{Extra, Scan, Session, Subscribed},
};

/// A session without anything, in its tables.
const SESSION_BYTES: usize = 512;
/// One subscription, its filter not counted: in its session and in the list of its filter.
const SUBSCRIPTION_BYTES: usize = 120;
/// What a shared one takes more: its group, the group's queue, and what both know of each other.
const SHARED_BYTES: usize = 1_000;
/// A filter that somebody of the partition has, in L2 and in both copies of L1: nodes and tokens.
const FILTER_BYTES: usize = 250;
/// Copies of its text there.
const COPIES: usize = 3;
/// Of one level in one of them.
const LEVEL_BYTES: usize = 4;

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

/// A filter in the indexes, however many have it.
pub(crate) fn of_filter(filter: &str) -> u64 {
    let levels = 1 + filter.bytes().filter(|it| *it == b'/').count();
    (FILTER_BYTES + COPIES * (filter.len() + LEVEL_BYTES * levels)) as u64
}

#[cfg(test)]
mod tests;
