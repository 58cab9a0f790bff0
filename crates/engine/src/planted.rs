//! Bugs of partitions that tests must find: without the feature `planted` nothing of them is there. What they do to checkpoints stands beside those.

use crate::Partition;

/// A duty of a partition that is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedPartition {
    /// A partition that is set aside acknowledges what it does not store.
    AsideAcknowledges,
    /// A record whose bytes are lost is delivered.
    Delivered,
    /// A stream goes on behind one as if it had never been.
    Skipped,
    /// An accepted loss is not counted.
    Uncounted,
    /// A stream goes on behind a record that is not in memory.
    ColdSkipped,
    /// The same of a group.
    SharedColdSkipped,
    /// What a group was given back by a member that left is not asked for again when it has left memory.
    ReturnedUnasked,
    /// To the timer a record that is not in memory expires in the second before its last one.
    ColdExpiredEarly,
    /// All messages are as old as the oldest entry.
    AgedFromFirst,
    /// Messages that are under way go as well when they are too old.
    AgedUnderWay,
    /// What goes because it is too old is not counted.
    AgedUncounted,
    /// Of a stream in which more waits than may all goes that waits.
    TrimmedTooFar,
    /// A stream takes more than its limits say (I9).
    Unbounded,
    /// A full session refuses nobody, whatever its policy: what has no room is dropped (M12).
    Unrefused,
    /// To make room for newer ones also messages go that are under way (M30).
    DroppedUnderWay,
    /// More is retained than may be (I9).
    RetainedUnbounded,
    /// The hold of a QoS 2 publish is not found again (M28).
    HoldForgotten,
    /// PUBREL leaves before "received" is committed (M32).
    EarlyRelease,
    /// DUP says the opposite now and then (M30).
    WrongDup,
    /// What a scan finds comes behind a newer message that overtook it (M34).
    FoundLate,
    /// An outbox forwards a message twice, under two positions (M19).
    ForwardedTwice,
    /// The next connection of a client id is let in before the last one has said that it lets go (M25).
    LetInEarly,
    /// The will of a client that has said good-bye is sent (M26).
    WillKept,
    /// What is asked about a filter does not wait for what was asked about it before (M38).
    RequestsAtOnce,
}

impl Partition {
    /// Plants a bug. For tests that must find it.
    #[cfg(feature = "planted")]
    pub const fn plant(&mut self, planted: PlantedPartition) {
        self.planted = Some(planted);
    }

    /// Whether this bug is planted: never without the feature.
    pub(crate) fn is_planted(&self, planted: PlantedPartition) -> bool {
        cfg!(feature = "planted") && self.planted == Some(planted)
    }
}
