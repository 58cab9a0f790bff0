//! Bugs that can be planted, to see that the oracle finds them: into the simulator's shell and stations, under the log, into the
//! log, the engine, consensus and the fronts.

use std::fmt;
use std::str::FromStr;

use courser_cluster::PlantedConsensus;
use courser_engine::PlantedPartition;
use courser_log::testing::Planted as PlantedLog;
use courser_mqtt::front::PlantedFront;

/// Names every bug once.
macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A duty that is not done, somewhere between a front and a disk.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

bugs! {
    /// Unsettled appends are not sent again to a new leader (M11, M14).
    ForgetResend,
    /// They are sent again under new numbers (M14).
    ResendRenumbered,
    /// Entries are applied when they are proposed (M9).
    ApplyBeforeCommit,
    /// Publishes are answered when they are sent (M9, M10).
    SettleBeforeCommit,
    /// The next connection of a client id is let in before the last one has closed (M25).
    AttachBeforeDetach,
    /// Changes of L1 are confirmed before other shards use them (M38).
    ConfirmIndexEarly,
    /// Batches of a link overtake each other (the contract's order).
    ReorderLink,
    /// A batch between shards is lost now and then.
    LoseBatch,
    /// A payload is changed on its way between shards.
    DamagePayload,
    /// Deliveries come twice.
    DeliverTwice,
    /// Fences pass at once (M34).
    SkipFence,
    /// Timers of partitions never fire (M20).
    NoTimers,
    /// An entry is forgotten at a restart (I1).
    LoseEntry,
    /// PUBREL leaves before "received" is committed (M32).
    EarlyPubrel,
    /// The hold of a QoS 2 publish is not found again by the next connection (M28).
    ForgetHold,
    /// An outbox forwards a message twice, under two numbers (M19).
    ForwardTwice,
    /// DUP says the opposite now and then (M30).
    WrongDup,
    /// What a subscription finds among retained messages comes behind a newer live one (M34).
    FoundLate,
    /// The start counter is not raised (M14).
    SameStart,
    /// On a disk: a group of one commits what is not synced (I2).
    AckBeforeSync,
    /// On a disk: word that some records are durable counts for those that wait for the next batch.
    CommitBeyondSynced,
    /// On a disk: a group hands out its records in reverse.
    SwapRecords,
    /// On a disk: the folder of the log is never synced.
    NoDirectorySync,
    /// On a disk: a segment that was left is not synced.
    OldSegmentNotSynced,
    /// On a disk: a failed sync counts as one that succeeded.
    SyncErrorIgnored,
    /// On a disk: a manifest may name pieces that are not synced (M42).
    PiecesNotSynced,
    /// On a disk: pieces of a checkpoint are as they are when they are written (M42).
    LatePieces,
    /// On a disk: term and vote are not written (I6).
    ForgetVote,
    /// On a disk: rot is cut like a torn end (M44).
    CutRot,
    /// On a disk: a batch that a disk has lost is the end of the log (M44).
    CutLost,
    /// On a disk: heads of segments say that the log ended with the last batch that is left of it (M44).
    ForgetLost,
    /// On a disk: blocks of an older life of a segment count as new (M44).
    ReadRecycled,
    /// On a disk: segments with live entries are used again.
    FreeLiveSegments,
    /// On a disk: what can be read after a start counts as durable.
    TrustTheCache,
    /// On a disk: the head of a segment does not repeat term and vote.
    EmptyHeads,
    /// On a disk: a partition out of a checkpoint has forgotten which forwards it took (M19).
    ForgetInbox,
    /// A home hears of a group that it has nothing of a session that left, when it has (M31, M35).
    ForgetLeavers,
    /// A packet id of a shared delivery is free before the group has committed its end (M27, M31).
    FreeIdsEarly,
    /// Both parts of a shared group take a message that goes to both partitions (M36).
    BothParts,
    /// The volatile part of a group closes before its fence has passed (M36).
    CutWithoutFence,
    /// The durable part answers and gives out before it has what waits in the volatile one (M36).
    HeirBeforePassed,
    /// On a disk: of two orders that wait for the writer the later one is written first.
    SwapOrders,
    /// On a disk: a header calls synced what was only written (M44).
    ClaimTooMuch,
    /// On a disk: records of damaged batches are taken as they are (I5).
    TakeDamaged,
    /// On a disk: a partition with damage serves (I1).
    ServeDamaged,
    /// On a disk: a partition that is set aside acknowledges (M39).
    AsideAcknowledges,
    /// On a disk: a record whose bytes are lost is delivered (I5).
    DeliverLost,
    /// On a disk: a stream goes on behind a lost record as if it had never been (M44).
    SkipLost,
    /// On a disk: a loss that the operator has accepted is not counted (M44).
    UncountedLoss,
    /// On a disk: durable partitions are answered as relaxed ones are, after the write (I2).
    AllRelaxed,
    /// On a disk: one of the records that the cleaner moves is not written (M41).
    KeptLost,
    /// On a disk: two records are moved under each other's address (M41).
    KeptElsewhere,
    /// On a disk: a record that is moved loses its last byte (M41).
    KeptTooShort,
    /// On a disk: the cleaner does not hear of every third record that a checkpoint needs (M41).
    NeedForgotten,
    /// On a disk: the cleaner calls the segment behind the one that it has cleaned empty (M41).
    CleanedMisnamed,
    /// On a disk: a start reads entries, and not what was moved of them (M41).
    RestoreWithoutKept,
    /// On a disk: segments are used again although kept records in them are needed (M41).
    FreeKept,
    /// On a disk: a segment is called cleaned before what is needed of it has moved (M41).
    CleanedFirst,
    /// On a disk: a start does not see kept records in segments (M41).
    ForgetKeptAtStart,
    /// On a disk: segments with entries above their checkpoint are cleaned (M41).
    CleanUncovered,
    /// On a disk: segments that are being copied are used again.
    HoldIgnored,
    /// On a disk: a backup ends before the last block of the log that it was cut behind.
    CutMissesBatch,
    /// On a disk: what the last backup has of a segment stands for all of it, whatever was written since.
    OldSegmentKept,
    /// On a disk: a backup leaves out a new segment with records that the cleaner has moved.
    MovedLeftOut,
    /// On a disk: a backup has checkpoints as they are when the log is copied, not as they were at the cut.
    CheckpointsLate,
    /// On a disk: a node that came out of a backup gives its starts the words that they had before.
    WordRepeats,
    /// On a disk: that applying an entry has panicked is not noted (M50).
    PanicUnnoted,
    /// On a disk: a partition goes on before an entry that panics, as if that and all behind it had never been (M39).
    ServesBeforePanic,
    /// On a disk: with an entry that is skipped the next one is not applied either.
    SkipTakesNext,
    /// On a disk: with an entry that is skipped go the target sets that it has defined, which later ones name (M8).
    SkipTakesSets,
    /// On a disk: when there was no room once there never is again (M47).
    ShortForEver,
    /// The will of a client that has said good-bye is sent (M26).
    WillKept,
    /// At a start wills go before the index has the filters of all partitions (M26).
    WillsAtStart,
    /// What is asked about a filter does not wait for what was asked about it before (M38).
    RequestsAtOnce,
    /// On a disk: a scrub is told that a segment ends before its last batch (I7).
    ScrubEndsEarly,
    /// On a disk: the log does not hear of the first entries that a checkpoint needs (M42).
    LiveEntryForgotten,
    /// On a disk: the checkpoint that counts is removed when the next one is begun (M42).
    OldCheckpointRemoved,
    /// On a disk: the log forgets what a checkpoint does not need before that one counts (M42).
    ForgetBeforeManifest,
    /// On a disk: a record that is read back comes under another one's address (M17).
    RecallSwapped,
    /// On a disk: records that are read back do not come (M17).
    RecallLost,
    /// On a disk: the record reader does not hear that things were moved (M41).
    OldPlaces,
    /// On a disk: a stream goes on behind a record that is not in memory (M17).
    SkipCold,
    /// On a disk: what expires goes up to a second too early if it is not in memory (v5 [MQTT-3.3.2-5]).
    ColdExpiresEarly,
    /// On a disk: a shared group goes on behind a message that is not in memory (M35).
    SharedSkipCold,
    /// On a disk: what a member of a shared group had when it left is not read back for the others (M35).
    ReturnedUnasked,
    /// On a disk: records whose checksums are wrong are read back as they are (I5).
    RecallDamaged,
    /// On a disk: of a batch in which something has rotted nothing is read back, also what is whole in it (M44).
    RecallNeighbours,
    /// On a disk: the cleaner calls a segment empty that it could not read (M41).
    CleanDamaged,
    /// On a disk: what a summary says of a segment is of another state of it (M44).
    StaleSummary,
    /// On a disk: a start passes over segments with entries above their checkpoint (M44).
    PassUncovered,
    /// On a disk: summaries leave out what was moved into their segments (M41).
    SummaryWithoutKept,
    /// On a disk: messages are as old as the oldest entry of their partition (M20).
    AgedFromFirst,
    /// On a disk: messages that are under way go because they are too old (M30).
    AgedUnderWay,
    /// On a disk: messages that go because they are too old are not counted.
    AgedUncounted,
    /// A session's stream takes more than its limits say (I9).
    QueueUnbounded,
    /// A full session refuses nobody, whatever its policy (M12).
    Unrefused,
    /// To make room for newer ones also messages go that are under way (M30).
    DroppedUnderWay,
    /// More is retained than may be (I9).
    RetainedUnbounded,
    /// In a front: QoS 0 goes on into the output of a client that does not read (I9).
    OutputUnbounded,
    /// In a front: what is delivered again has no DUP (M30).
    RepeatWithoutDup,
    /// In a front: the client's Receive Maximum is not looked at.
    WindowIgnored,
    /// In a front: PUBREL of an exchange that began on an earlier connection does not leave again (M30).
    PubrelForgotten,
    /// In a front: a packet id that a group uses is free when PUBREC comes (M31).
    IdFreeAtPubrec,
    /// With members: a follower says that it has entries, and a voter that it has voted, before that is durable (I2, I6).
    ClaimBeforeSync,
    /// With members: of term and vote only the term is written (I6).
    VoteForgotten,
    /// With members: a leader counts its own entries for a majority when they are written (I2).
    CommitUnsynced,
    /// With members: word that some records are durable counts for all that are on their way (I2).
    PersistedTooFar,
    /// With members: a leader says so before it has handed over what was committed before its term (M5).
    LeadsAtOnce,
}

impl Bug {
    /// What it is called in consensus, if it sits there.
    pub(crate) const fn in_consensus(self) -> Option<PlantedConsensus> {
        match self {
            Self::AckBeforeSync | Self::CommitUnsynced => Some(PlantedConsensus::CommitUnsynced),
            Self::CommitBeyondSynced | Self::PersistedTooFar => {
                Some(PlantedConsensus::PersistedTooFar)
            }
            Self::SwapRecords => Some(PlantedConsensus::RecordsReversed),
            Self::ClaimBeforeSync => Some(PlantedConsensus::ClaimBeforeSync),
            Self::VoteForgotten => Some(PlantedConsensus::VoteForgotten),
            Self::LeadsAtOnce => Some(PlantedConsensus::LeadsAtOnce),
            _ => None,
        }
    }

    /// In the fronts.
    pub(crate) const fn in_front(self) -> Option<PlantedFront> {
        match self {
            Self::RepeatWithoutDup => Some(PlantedFront::RepeatWithoutDup),
            Self::WindowIgnored => Some(PlantedFront::WindowIgnored),
            Self::PubrelForgotten => Some(PlantedFront::PubrelForgotten),
            Self::IdFreeAtPubrec => Some(PlantedFront::IdFreeAtPubrec),
            Self::OutputUnbounded => Some(PlantedFront::OutputUnbounded),
            _ => None,
        }
    }

    /// In partitions.
    pub(crate) const fn in_partition(self) -> Option<PlantedPartition> {
        match self {
            Self::AgedFromFirst => Some(PlantedPartition::AgedFromFirst),
            Self::AgedUnderWay => Some(PlantedPartition::AgedUnderWay),
            Self::AgedUncounted => Some(PlantedPartition::AgedUncounted),
            Self::SkipCold => Some(PlantedPartition::ColdSkipped),
            Self::ColdExpiresEarly => Some(PlantedPartition::ColdExpiredEarly),
            Self::SharedSkipCold => Some(PlantedPartition::SharedColdSkipped),
            Self::ReturnedUnasked => Some(PlantedPartition::ReturnedUnasked),
            Self::QueueUnbounded => Some(PlantedPartition::Unbounded),
            Self::Unrefused => Some(PlantedPartition::Unrefused),
            Self::DroppedUnderWay => Some(PlantedPartition::DroppedUnderWay),
            Self::RetainedUnbounded => Some(PlantedPartition::RetainedUnbounded),
            Self::ForgetHold => Some(PlantedPartition::HoldForgotten),
            Self::EarlyPubrel => Some(PlantedPartition::EarlyRelease),
            Self::WrongDup => Some(PlantedPartition::WrongDup),
            Self::FoundLate => Some(PlantedPartition::FoundLate),
            Self::ForwardTwice => Some(PlantedPartition::ForwardedTwice),
            Self::WillKept => Some(PlantedPartition::WillKept),
            Self::RequestsAtOnce => Some(PlantedPartition::RequestsAtOnce),
            Self::AttachBeforeDetach => Some(PlantedPartition::LetInEarly),
            Self::AsideAcknowledges => Some(PlantedPartition::AsideAcknowledges),
            Self::DeliverLost => Some(PlantedPartition::Delivered),
            Self::SkipLost => Some(PlantedPartition::Skipped),
            Self::UncountedLoss => Some(PlantedPartition::Uncounted),
            _ => None,
        }
    }

    /// In the log.
    pub(crate) const fn in_log(self) -> Option<PlantedLog> {
        match self {
            Self::CutRot => Some(PlantedLog::CutRot),
            Self::CutLost => Some(PlantedLog::CutLost),
            Self::ForgetLost => Some(PlantedLog::ForgetLost),
            Self::ReadRecycled => Some(PlantedLog::ReadRecycled),
            Self::EmptyHeads => Some(PlantedLog::HeadWithoutHardStates),
            Self::FreeKept => Some(PlantedLog::FreeKept),
            Self::HoldIgnored => Some(PlantedLog::IgnoreHold),
            Self::CleanUncovered => Some(PlantedLog::CleanUncovered),
            Self::ForgetKeptAtStart => Some(PlantedLog::ForgetKeptAtStart),
            Self::FreeLiveSegments => Some(PlantedLog::FreeLiveSegments),
            Self::TrustTheCache => Some(PlantedLog::TrustTheCache),
            Self::ClaimTooMuch => Some(PlantedLog::ClaimTooMuch),
            Self::ShortForEver => Some(PlantedLog::LowForEver),
            Self::ScrubEndsEarly => Some(PlantedLog::HeldTooShort),
            Self::TakeDamaged => Some(PlantedLog::TakeDamaged),
            Self::NoDirectorySync => Some(PlantedLog::SkipFolderSync),
            Self::OldSegmentNotSynced => Some(PlantedLog::ForgetOlderSegment),
            Self::CutMissesBatch => Some(PlantedLog::CutShort),
            Self::StaleSummary => Some(PlantedLog::StaleSummary),
            Self::PassUncovered => Some(PlantedLog::PassUncovered),
            Self::SummaryWithoutKept => Some(PlantedLog::SummaryWithoutKept),
            Self::RecallDamaged => Some(PlantedLog::RecallDamaged),
            Self::RecallNeighbours => Some(PlantedLog::RecallNeighbours),
            Self::CleanDamaged => Some(PlantedLog::CleanDamaged),
            _ => None,
        }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|bug| bug.to_string() == text);
        found.copied().ok_or_else(|| format!("no such bug: {text}"))
    }
}
