//! The kinds of worlds: what each is called, what happens in it, and how its plans are drawn.

use courser_contract::SharedStrategy;
use courser_engine::{Limits, Overflow};

use crate::rng::Rng;
use crate::seeds::{DiskPlan, Life, Plan};

/// A kind of world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worlds {
    /// Kills, leaders that lose their partitions, broken connections, takeovers, slow links and clients.
    Plain,
    /// Clients that come to and leave one shared group, so that it changes its class often.
    OneGroup,
    /// Two busy shared groups in partitions that often lose their leader.
    TwoGroups,
    /// Limits that are reached: queues, subscriptions, outputs.
    Tight,
    /// Clients that ask about a filter again before they have an answer.
    Hasty,
    /// No node, but the consensus of one partition with three members.
    Members,
    /// The log and checkpoints on a disk: kills, losses of power, failing calls, a full disk.
    Disk,
    /// A disk, and sessions that keep a message for a second or two.
    Aging,
    /// A disk that lives through at least 50 segments, with the cleaner and copies.
    LongLife,
    /// A long life on a disk that fills up and gets no larger.
    Draining,
    /// A shorter long life with backups: the disk is lost, and the node comes out of one.
    BackedUp,
    /// A disk, and a program that panics at some entry whenever it comes to it.
    Poisoned,
    /// A disk, and partitions that keep next to nothing of what waits in memory.
    Cold,
}

impl Worlds {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Plain,
        Self::OneGroup,
        Self::TwoGroups,
        Self::Tight,
        Self::Hasty,
        Self::Members,
        Self::Disk,
        Self::Aging,
        Self::LongLife,
        Self::Draining,
        Self::BackedUp,
        Self::Poisoned,
        Self::Cold,
    ];

    /// What it is called; the command line asks for it with `--` before that.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.kind().name
    }

    /// What happens in it.
    #[must_use]
    pub const fn about(self) -> &'static str {
        self.kind().about
    }

    /// The one that is called so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|worlds| worlds.name() == name)
    }

    /// The plan of a seed for a world of this kind.
    #[must_use]
    pub fn plan(self, seed: u64) -> Plan {
        Plan {
            worlds: self,
            ..(self.kind().draw)(seed)
        }
    }

    const fn kind(self) -> Kind {
        match self {
            Self::Plain => Kind {
                name: "plain",
                about: "kills, leaders that lose their partitions, broken connections, takeovers, slow links and clients",
                draw: Plan::new,
            },
            Self::OneGroup => Kind {
                name: "one-group",
                about: "clients that come to and leave one shared group, so that it changes its class often",
                draw: one_group,
            },
            Self::TwoGroups => Kind {
                name: "two-groups",
                about: "two busy shared groups in partitions that often lose their leader",
                draw: two_groups,
            },
            Self::Tight => Kind {
                name: "tight",
                about: "limits that are reached: queues, subscriptions, outputs",
                draw: tight,
            },
            Self::Hasty => Kind {
                name: "hasty",
                about: "clients that ask about a filter again before they have an answer",
                draw: hasty,
            },
            Self::Members => Kind {
                name: "members",
                about: "no node, but the consensus of one partition with three members",
                draw: members,
            },
            Self::Disk => Kind {
                name: "disk",
                about: "the log and checkpoints on a disk: kills, losses of power, failing calls, a full disk",
                draw: on_disk,
            },
            Self::Aging => Kind {
                name: "aging",
                about: "a disk, and sessions that keep a message for a second or two",
                draw: aging,
            },
            Self::LongLife => Kind {
                name: "long-life",
                about: "a disk that lives through at least 50 segments, with the cleaner and copies",
                draw: long_life,
            },
            Self::Draining => Kind {
                name: "draining",
                about: "a long life on a disk that fills up and gets no larger",
                draw: draining,
            },
            Self::BackedUp => Kind {
                name: "backups",
                about: "a shorter long life with backups: the disk is lost, and the node comes out of one",
                draw: backed_up,
            },
            Self::Poisoned => Kind {
                name: "poisoned",
                about: "a disk, and a program that panics at some entry whenever it comes to it",
                draw: poisoned,
            },
            Self::Cold => Kind {
                name: "cold",
                about: "a disk, and partitions that keep next to nothing of what waits in memory",
                draw: cold,
            },
        }
    }
}

struct Kind {
    name: &'static str,
    about: &'static str,
    draw: fn(u64) -> Plan,
}

/// The plan of a seed whose clients come to and leave one shared group most of the time, so that it changes its class often
/// (M36).
fn one_group(seed: u64) -> Plan {
    let plan = Plan::new(seed);
    Plan {
        clients: plan.clients + 3,
        groups: true,
        one_group: 60,
        ..plan
    }
}

/// The plan of a seed with two groups, mostly in two partitions, that give much to few members, while commits take long and
/// leaders come and go: what one partition has not committed of an exchange is lost while the other goes on (M27, M31).
fn two_groups(seed: u64) -> Plan {
    let mut rng = Rng::new(seed ^ 0x0002_9200_9500_0000);
    let plan = Plan::new(seed);
    Plan {
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
fn tight(seed: u64) -> Plan {
    let mut rng = Rng::new(seed ^ 0x0000_71C4_7000_0000);
    let plan = Plan::new(seed);
    let few = seed.is_multiple_of(2);
    // A subscriber of all retained messages gets the last one of each client, of 6,000 bytes at most.
    let (messages, bytes) = match few {
        true => (rng.between(8, 40) as u32, u64::MAX),
        false => (u32::MAX, rng.between(48_000, 90_000)),
    };
    Plan {
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

/// The plan of a seed whose clients do not wait for SUBACK and UNSUBACK: they ask about a filter again (M38), and have so many that a
/// session looks them up by their hash. On a disk with every second seed.
fn hasty(seed: u64) -> Plan {
    let plan = match seed % 2 {
        0 => on_disk(seed),
        _ => Plan::new(seed),
    };
    Plan {
        hasty: true,
        ..plan
    }
}

/// The plan of a seed for a group of three members.
fn members(seed: u64) -> Plan {
    Plan {
        members: 3,
        ..Plan::new(seed)
    }
}

/// The plan of a seed for a node with a disk. Groups of one never lose their leader; the node dies instead.
fn on_disk(seed: u64) -> Plan {
    let mut rng = Rng::new(seed ^ 0x00D1_5C0C_05E2_5000);
    Plan {
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
            rots: 0,
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
        ..Plan::new(seed)
    }
}

/// The plan of a seed for a node with a disk whose sessions keep messages for a second or two.
fn aging(seed: u64) -> Plan {
    let mut plan = on_disk(seed);
    plan.limits.queue_seconds_max = 1 + (seed % 2) as u32;
    plan
}

/// The plan of a seed for a node that lives long: with small segments and large messages the log is used again many times,
/// while some clients stay away for long and pin what they have not read (M41). In a third of the worlds messages wait
/// for a second only.
fn long_life(seed: u64) -> Plan {
    let mut rng = Rng::new(seed ^ 0x00_1096_11FE_0000);
    let plan = on_disk(seed);
    let mut limits = plan.limits.clone();
    if seed.is_multiple_of(3) {
        limits.queue_seconds_max = 1;
    }
    Plan {
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

/// The plan of a seed for a node that lives long on a disk which fills up and stays as small: what clients take has to make the room
/// for what they send (M47).
fn draining(seed: u64) -> Plan {
    let plan = long_life(seed);
    Plan {
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

/// The plan of a seed for a node that is backed up while it lives, in full and then what is new, and that loses its disk: it comes out of a backup, with
/// another number of shards.
fn backed_up(seed: u64) -> Plan {
    let mut rng = Rng::new(seed ^ 0x0000_BAC0_0000);
    let plan = long_life(seed);
    Plan {
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

/// The plan of a seed for a node with a disk whose program panics at some entry again and again, until an operator does something about it (M39, M50).
fn poisoned(seed: u64) -> Plan {
    let mut rng = Rng::new(seed ^ 0x0000_0901_5001);
    let plan = on_disk(seed);
    Plan {
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

/// The plan of a seed for a node with a disk that keeps next to nothing of what waits in memory, of which some expires; every third one lives
/// long. In every second one much waits for two shared groups whose members come and go; in two of five some of what is only on the disk rots.
fn cold(seed: u64) -> Plan {
    let mut plan = match seed % 3 {
        0 => long_life(seed),
        _ => on_disk(seed),
    };
    plan.limits.hot_bytes = [0, 600, 6_000][(seed / 3 % 3) as usize];
    plan.returns = plan.returns.min(30);
    plan.expiring = 40;
    if seed.is_multiple_of(2) {
        plan = plan.sharing();
    }
    let mut rng = Rng::new(seed ^ 0x0000_2077_1D00);
    if let Some(disk) = plan.disk.as_mut().filter(|_| rng.chance(40)) {
        disk.rots = rng.between(1, 6);
        plan.returns = plan.returns.min(10);
        disk.scrubs = disk.scrubs.max(4);
        // What is written goes into a segment that is full soon, and is below a checkpoint soon.
        disk.segment_bytes = 64 << 10;
        disk.checkpoint_entries = disk.checkpoint_entries.min(50);
    }
    plan
}

impl Plan {
    /// The same world where half of all is for two shared groups whose members come and go.
    fn sharing(mut self) -> Self {
        self.clients = self.clients.clamp(4, 6);
        self.groups = true;
        self.one_group = 50;
        self.busy_groups = 2;
        self.limits.shared_strategy = STRATEGIES[(self.seed / 2 % 4) as usize];
        self
    }

    /// The same, and nothing of what waits stays in memory. Nobody kills the node: a start asks for all anew.
    pub(crate) fn sharing_cold(self) -> Self {
        let mut plan = self.sharing();
        plan.limits.hot_bytes = 0;
        plan.kills = 0;
        plan
    }
}

/// How members of a shared group take turns.
const STRATEGIES: [SharedStrategy; 4] = [
    SharedStrategy::RoundRobin,
    SharedStrategy::HashTopic,
    SharedStrategy::LeastOutstanding,
    SharedStrategy::Sticky,
];
