//! What a seed means: the shape of its world and how rough it is.

use courser_contract::Class;
use courser_engine::{Limits, Overflow};

use crate::bug::Bug;
use crate::rng::Rng;
use crate::shell::Relaxed;
use crate::worlds::Worlds;

/// One run, decided by its seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The kind of world that it was drawn for.
    pub worlds: Worlds,
    /// The seed.
    pub seed: u64,
    /// Shards, 1 to 3.
    pub shards: u16,
    /// Durable partitions.
    pub partitions: u16,
    /// Client ids.
    pub clients: usize,
    /// Milliseconds with faults.
    pub faulty_ms: u64,
    /// Longest delay of a batch between shards, in milliseconds.
    pub link_ms: u64,
    /// Longest time from proposal to commit.
    pub commit_ms: u64,
    /// Longest way between a client and its shard.
    pub socket_ms: u64,
    /// Mean pause between two deeds of a client.
    pub pause_ms: u64,
    /// Kills of the whole node, at most.
    pub kills: u64,
    /// Leaders that lose their partition, at most.
    pub deposals: u64,
    /// How likely a connection is cut, in percent of deeds.
    pub cuts: u64,
    /// The connection that carries this packet, counted over all clients and both ways, is lost right behind it.
    pub cut_after: Option<u64>,
    /// How likely a client that may stop reading does so, in percent.
    pub stalls: u64,
    /// How likely a client withholds an acknowledgement, in percent.
    pub withheld: u64,
    /// Whether clients join shared groups.
    pub groups: bool,
    /// How likely a filter or topic is one of the first group, in percent of those that clients choose.
    pub one_group: u64,
    /// Groups among which those are drawn: 1 or 2.
    pub busy_groups: u64,
    /// Whether clients ask about a filter again before they have an answer, and have many of them.
    pub hasty: bool,
    /// Whether some clients subscribe to what is retained while the others send their last messages, which are retained.
    pub subscribing_last: bool,
    /// Publishes that a client may have under way towards the broker.
    pub receive_maximum: u16,
    /// Bytes of most payloads, at most.
    pub payload_bytes: u64,
    /// How likely a message of version 5 for sessions expires within a second to three, in percent.
    pub expiring: u64,
    /// How likely a client that is away comes back at its next deed, in percent.
    pub returns: u64,
    /// Limits of the partitions.
    pub limits: Limits,
    /// Bytes in the output of a connection above which QoS 0 is dropped.
    pub output_bytes_max: usize,
    /// Members of a group whose consensus is all there is; 0: a whole node, whose groups are of one.
    pub members: u16,
    /// The node's disk; none: its logs are lists that a kill cannot hurt.
    pub disk: Option<DiskPlan>,
    /// A planted bug.
    pub bug: Option<Bug>,
}

/// How much a node's disk lives to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Few segments, many kinds of worlds.
    Short,
    /// Many generations of segments.
    Long,
}

/// How the disk of a node is, and what happens to it.
#[derive(Clone, Debug)]
pub struct DiskPlan {
    /// How much it lives to see.
    pub life: Life,
    /// Size of a segment of the log.
    pub segment_bytes: u64,
    /// Segments that are kept for results, votes, releases and the cleaner (M47).
    pub reserve_segments: u32,
    /// A partition gets a checkpoint after so many entries.
    pub checkpoint_entries: u64,
    /// Bytes of a checkpoint that a turn writes.
    pub checkpoint_budget: usize,
    /// Failing calls of the disk, at most.
    pub failures: u64,
    /// Times in which the disk is full, at most.
    pub full: u64,
    /// The log's disk fills up once, and nobody makes it larger: room comes of what is drained (M47).
    pub drains: bool,
    /// Records that one pass of the cleaner over a segment moves.
    pub cleaner_records: usize,
    /// Copies that are made while it runs.
    pub copies: u64,
    /// Backups that are begun while it runs.
    pub backups: u64,
    /// Times that the disk is lost and the node comes out of a backup, at most.
    pub losses: u64,
    /// Programs that panic at an entry, at most.
    pub poisons: u64,
    /// Places that rot while it runs, at most.
    pub rots: u64,
    /// Times in which all segments are checked while it runs.
    pub scrubs: u64,
    /// How likely a kill is a loss of power, in percent.
    pub power_losses: u64,
    /// Whether sessions have classes: some clients are relaxed, some volatile (M1).
    pub classes: bool,
    /// After one sync in so many it is looked whether all that is committed would survive a loss of power.
    pub probe_every: u64,
    /// Whether the log alone is looked at after each of the others: a seed takes five times as long then.
    pub every_sync: bool,
}

impl Plan {
    /// The plan of a seed for a plain world; other kinds are drawn by [`Worlds::plan`].
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x00C0_0C05_E250_0000);
        let shards = rng.between(1, 3) as u16;
        let rough = rng.below(4);
        Self {
            worlds: Worlds::Plain,
            seed,
            shards,
            partitions: rng.between(1, 4) as u16 + shards,
            clients: rng.between(2, 7) as usize,
            faulty_ms: rng.between(1_500, 9_000),
            link_ms: *rng.pick(&[0, 2, 10, 60]),
            commit_ms: *rng.pick(&[1, 5, 30, 150]),
            socket_ms: *rng.pick(&[1, 5, 40]),
            pause_ms: *rng.pick(&[30, 80, 250]),
            kills: if rough == 3 { rng.between(1, 3) } else { 0 },
            deposals: if rough == 2 { rng.between(1, 4) } else { 0 },
            cuts: *rng.pick(&[0, 2, 6]),
            cut_after: None,
            stalls: 30,
            withheld: *rng.pick(&[0, 5, 25]),
            groups: rng.chance(50),
            one_group: 0,
            busy_groups: 1,
            hasty: false,
            subscribing_last: false,
            receive_maximum: *rng.pick(&[2, 10, 100]),
            payload_bytes: 30,
            expiring: 0,
            returns: 40,
            limits: Limits {
                outbound_window_max: *rng.pick(&[1, 4, 64]),
                ..Limits::default()
            },
            output_bytes_max: OUTPUT_BYTES_MAX,
            members: 0,
            disk: None,
            bug: None,
        }
    }

    /// The same world whose sessions without room drop their oldest message that was never sent, not the new one (M12).
    #[must_use]
    pub const fn dropping_oldest(mut self) -> Self {
        self.limits.overflow = Overflow::DropOldest;
        self
    }

    /// The same world where some clients ask for what is retained while the others send the last message of their topics: each of those is on
    /// its way past a subscription, and no later one makes up for it (M34).
    #[must_use]
    pub const fn subscribing_last(mut self) -> Self {
        self.subscribing_last = true;
        self
    }

    /// The same world whose sessions without room refuse their publishers (M12).
    #[must_use]
    pub const fn refusing(mut self) -> Self {
        self.limits.overflow = Overflow::RefusePublisher;
        self
    }

    /// Whether sessions without room refuse their publishers.
    pub(crate) fn refuses_publishers(&self) -> bool {
        self.limits.overflow == Overflow::RefusePublisher
    }

    /// The same world where one topic of each partition may be retained until all converges: most others are refused there.
    #[must_use]
    pub const fn retaining_few(mut self) -> Self {
        self.limits.retained_messages_max = 1;
        self
    }

    /// Whether few topics may be retained.
    pub(crate) const fn retains_few(&self) -> bool {
        self.limits.retained_messages_max == 1
    }

    /// Whether publishes are refused for want of room.
    pub(crate) fn refuses(&self) -> bool {
        self.retains_few() || self.refuses_publishers()
    }

    /// Whether limits are such that they are reached.
    pub(crate) const fn is_tight(&self) -> bool {
        self.output_bytes_max < OUTPUT_BYTES_MAX
    }

    /// Whether messages go when they have waited for too long.
    pub(crate) const fn ages(&self) -> bool {
        self.limits.queue_seconds_max < u32::MAX
    }

    /// The class of the sessions of the client with this number.
    pub(crate) fn class_of(&self, client: usize) -> Class {
        if !self.disk.as_ref().is_some_and(|disk| disk.classes) {
            return Class::Durable;
        }
        match client % 4 {
            1 => Class::Relaxed,
            3 => Class::Volatile,
            _ => Class::Durable,
        }
    }

    pub(crate) fn relaxed(&self) -> Relaxed {
        let classes = (0..self.clients).map(|client| self.class_of(client));
        if classes.into_iter().any(|class| class == Class::Relaxed) {
            Relaxed::Made
        } else {
            Relaxed::None
        }
    }

    /// The same with a planted bug.
    #[must_use]
    pub const fn with_bug(mut self, bug: Option<Bug>) -> Self {
        self.bug = bug;
        self
    }
}

/// Bytes of an output that no client of the model leaves unread.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
