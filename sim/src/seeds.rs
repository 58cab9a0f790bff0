//! What a seed means: the shape of its world and how rough it is.

use courser_contract::Class;
use courser_engine::{Limits, Overflow};

use crate::bug::Bug;
use crate::rng::Rng;
use crate::shell::Relaxed;

/// One run, decided by its seed.
#[derive(Clone, Debug)]
pub struct Plan {
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
    /// Publishes that a client may have under way towards the broker.
    pub receive_maximum: u16,
    /// Bytes of most payloads, at most.
    pub payload_bytes: u64,
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
    /// The plan of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x00C0_0C05_E250_0000);
        let shards = rng.between(1, 3) as u16;
        let rough = rng.below(4);
        Self {
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
            groups: GROUPS && rng.chance(50),
            one_group: 0,
            busy_groups: 1,
            hasty: false,
            receive_maximum: *rng.pick(&[2, 10, 100]),
            payload_bytes: 30,
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

    /// The plan of a seed whose clients come to and leave one shared group most of the time, so that it changes its class often
    /// (M36).
    #[must_use]
    pub fn one_group(seed: u64) -> Self {
        let plan = Self::new(seed);
        Self {
            clients: plan.clients + 3,
            groups: true,
            one_group: 60,
            ..plan
        }
    }

    /// The plan of a seed whose clients do not wait for SUBACK and UNSUBACK: they ask about a filter again (M38), and have so many that a
    /// session looks them up by their hash. On a disk with every second seed.
    #[must_use]
    pub fn hasty(seed: u64) -> Self {
        let plan = match seed % 2 {
            0 => Self::on_disk(seed),
            _ => Self::new(seed),
        };
        Self {
            hasty: true,
            ..plan
        }
    }

    /// The plan of a seed with two groups, mostly in two partitions, that give much to few members, while commits take long and
    /// leaders come and go: what one partition has not committed of an exchange is lost while the other goes on (M27, M31).
    #[must_use]
    pub fn two_groups(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x0002_9200_9500_0000);
        let plan = Self::new(seed);
        Self {
            partitions: plan.partitions + 8,
            clients: plan.clients.clamp(4, 6),
            faulty_ms: rng.between(6_000, 9_000),
            groups: true,
            one_group: 85,
            busy_groups: 2,
            link_ms: plan.link_ms.min(2),
            commit_ms: *rng.pick(&[60, 150, 300]),
            socket_ms: *rng.pick(&[1, 5]),
            pause_ms: 30,
            kills: 0,
            deposals: rng.between(10, 30),
            cuts: *rng.pick(&[0, 1]),
            withheld: 0,
            receive_maximum: 100,
            ..plan
        }
    }

    /// The plan of a seed with limits that are reached: few messages or bytes wait for a session, few subscriptions are its own, and
    /// the output of a connection is short (I9).
    #[must_use]
    pub fn tight(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x0000_71C4_7000_0000);
        let plan = Self::new(seed);
        let few = seed.is_multiple_of(2);
        // A subscriber of all retained messages gets the last one of each client, of 6,000 bytes at most.
        let (messages, bytes) = match few {
            true => (rng.between(8, 40) as u32, u64::MAX),
            false => (u32::MAX, rng.between(48_000, 90_000)),
        };
        Self {
            clients: plan.clients.max(4),
            stalls: 100,
            returns: *rng.pick(&[5, 15]),
            payload_bytes: 3_000,
            output_bytes_max: *rng.pick(&[2_000, 20_000]),
            limits: Limits {
                queue_messages_max: messages,
                queue_bytes_max: bytes,
                overflow: Overflow::DropNewest,
                subscriptions_max: rng.between(2, 6) as u32,
                ..plan.limits
            },
            ..plan
        }
    }

    /// The plan of a seed for a group of three members.
    #[must_use]
    pub fn members(seed: u64) -> Self {
        Self {
            members: 3,
            ..Self::new(seed)
        }
    }

    /// The same world whose sessions without room drop their oldest message that was never sent, not the new one (M12).
    #[must_use]
    pub const fn dropping_oldest(mut self) -> Self {
        self.limits.overflow = Overflow::DropOldest;
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

    /// The plan of a seed for a node with a disk. Groups of one never lose their leader; the node dies instead.
    #[must_use]
    pub fn on_disk(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x00D1_5C0C_05E2_5000);
        Self {
            deposals: 0,
            kills: rng.between(1, 4),
            commit_ms: *rng.pick(&[1, 5, 20]),
            disk: Some(DiskPlan {
                life: Life::Short,
                cleaner_records: 1 << 17,
                copies: 0,
                backups: 0,
                losses: 0,
                poisons: 0,
                scrubs: 2,
                drains: false,
                segment_bytes: *rng.pick(&[64 << 10, 128 << 10, 1 << 20]),
                reserve_segments: 4,
                checkpoint_entries: *rng.pick(&[15, 50, 200, 2_000]),
                checkpoint_budget: *rng.pick(&[500, 4_000, 100_000]),
                failures: rng.below(3),
                full: u64::from(rng.chance(25)),
                power_losses: *rng.pick(&[0, 50, 100]),
                probe_every: rng.between(20, 60),
                every_sync: seed.is_multiple_of(8),
                classes: rng.chance(40),
            }),
            ..Self::new(seed)
        }
    }

    /// The plan of a seed for a node with a disk whose program panics at some entry again and again, until an operator does something about it (M39, M50).
    #[must_use]
    pub fn poisoned(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x0000_0901_5001);
        let plan = Self::on_disk(seed);
        Self {
            clients: plan.clients.max(3),
            groups: plan.groups,
            faulty_ms: rng.between(9_000, 14_000),
            kills: rng.below(2),
            disk: plan.disk.map(|disk| DiskPlan {
                poisons: rng.between(1, 2),
                classes: false,
                failures: 0,
                full: 0,
                ..disk
            }),
            ..plan
        }
    }

    /// The plan of a seed for a node with a disk whose sessions keep messages for a second or two.
    #[must_use]
    pub fn aging(seed: u64) -> Self {
        let mut plan = Self::on_disk(seed);
        plan.limits.queue_seconds_max = 1 + (seed % 2) as u32;
        plan
    }

    /// The plan of a seed for a node with a disk that keeps next to nothing of what waits in memory; every third one lives long.
    #[must_use]
    pub fn cold(seed: u64) -> Self {
        let mut plan = match seed % 3 {
            0 => Self::long_life(seed),
            _ => Self::on_disk(seed),
        };
        plan.limits.hot_bytes = [0, 600, 6_000][(seed / 3 % 3) as usize];
        plan.returns = plan.returns.min(30);
        plan
    }

    /// Whether messages leave memory.
    pub(crate) const fn is_cold(&self) -> bool {
        self.limits.hot_bytes < u64::MAX
    }

    /// Whether messages go when they have waited for too long.
    pub(crate) const fn ages(&self) -> bool {
        self.limits.queue_seconds_max < u32::MAX
    }

    /// The plan of a seed for a node that lives long: with small segments and large messages the log is used again many times,
    /// while some clients stay away for long and pin what they have not read (M41). In a third of the worlds messages wait
    /// for a second only.
    #[must_use]
    pub fn long_life(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x00_1096_11FE_0000);
        let plan = Self::on_disk(seed);
        let mut limits = plan.limits.clone();
        if seed.is_multiple_of(3) {
            limits.queue_seconds_max = 1;
        }
        Self {
            limits,
            clients: plan.clients.clamp(4, 6),
            groups: seed.is_multiple_of(2),
            faulty_ms: rng.between(12_500, 16_500),
            link_ms: plan.link_ms.min(2),
            socket_ms: plan.socket_ms.min(5),
            pause_ms: 30,
            commit_ms: *rng.pick(&[1, 5]),
            kills: rng.between(3, 6),
            cuts: *rng.pick(&[2, 6]),
            payload_bytes: 1_500,
            returns: *rng.pick(&[5, 10]),
            disk: plan.disk.map(|disk| DiskPlan {
                life: Life::Long,
                copies: rng.between(3, 8),
                scrubs: 6,
                probe_every: rng.between(60, 150),
                cleaner_records: *rng.pick(&[5, 40, 1 << 17]),
                segment_bytes: 64 << 10,
                checkpoint_entries: *rng.pick(&[15, 50, 200]),
                full: u64::from(rng.chance(50)),
                ..disk
            }),
            ..plan
        }
    }

    /// The plan of a seed for a node that is backed up while it lives, in full and then what is new, and that loses its disk: it comes out of a backup, with
    /// another number of shards.
    #[must_use]
    pub fn backed_up(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x0000_BAC0_0000);
        let plan = Self::long_life(seed);
        Self {
            faulty_ms: rng.between(6_000, 10_000),
            kills: rng.between(2, 6),
            disk: plan.disk.map(|disk| DiskPlan {
                copies: 0,
                scrubs: 0,
                backups: rng.between(10, 20),
                losses: rng.between(1, 3),
                failures: rng.below(2),
                full: u64::from(rng.chance(20)),
                ..disk
            }),
            ..plan
        }
    }

    /// The plan of a seed for a node that lives long on a disk which fills up and stays as small: what clients take has to make the room
    /// for what they send (M47).
    #[must_use]
    pub fn draining(seed: u64) -> Self {
        let plan = Self::long_life(seed);
        Self {
            disk: plan.disk.map(|disk| DiskPlan {
                full: 0,
                drains: true,
                // The least that a broker has: four segments of 1 MiB.
                reserve_segments: (4 << 20) / (64 << 10),
                // A pass takes what fits a batch, as the broker's: one with a few records takes a block for them, and more room than it makes.
                cleaner_records: 1 << 17,
                ..disk
            }),
            ..plan
        }
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

/// Shared groups take part.
const GROUPS: bool = true;
