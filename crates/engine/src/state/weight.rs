//! What sessions and what they have subscribed to take in memory: counted as entries are applied, so that the leader need not look.
//!
//! The numbers are what the process was seen to take for each (bench/million.py, and sessions with 10,000 filters of 200 and of 4,000 bytes):
//! a filter is in its session, in L2, and twice in L1. They are of the leader's decisions only, and in no entry.

use courser_contract::Will;

use crate::session::{Extra, Scan, Session, Subscribed};

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

/// A scan of retained messages, its filter not counted: its cursors.
const SCAN_BYTES: usize = 400;
/// A packet id of a QoS 2 publish that waits for its PUBREL.
pub(crate) const HOLD_BYTES: u64 = 20;

/// A session without what it has subscribed to, its messages, and [`of_open`]. In constant time.
pub(crate) fn of_session(session: &Session) -> u64 {
    let owner = session.owner().map_or(0, str::len);
    let will = session.extra.as_ref().and_then(|it| it.will.as_ref());
    let will = will.map_or(0, |will| will_bytes(will));
    (SESSION_BYTES + 2 * session.client_id.len() + owner + will) as u64
}

/// Texts of a will.
pub(crate) const fn will_bytes(will: &Will) -> usize {
    will.topic.len() + will.properties.len() + will.payload.len()
}

/// What is open of a session: scans, and QoS 2 publishes without a PUBREL.
fn of_open(session: &Session) -> u64 {
    session.extra.as_ref().map_or(0, |extra| {
        let Extra { holds, scans, .. } = &**extra;
        HOLD_BYTES * holds.len() as u64 + scans.values().map(of_scan).sum::<u64>()
    })
}

/// One scan.
pub(crate) fn of_scan(scan: &Scan) -> u64 {
    (SCAN_BYTES + scan.filter.len()) as u64
}

/// A session and what it has open, without its subscriptions and its messages.
pub(crate) fn of_whole(session: &Session) -> u64 {
    of_session(session) + of_open(session)
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
