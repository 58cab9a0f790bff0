//! Random lives of three nodes: loss, delay, reordering, cuts, slow disks, kills and checkpoints, then peace, in which all
//! must agree and serve (I6, I13). What must always hold is checked by the cluster itself.

use bytes::Bytes;
use courser_cluster::Role;

use crate::network::{Cluster, MEMBERS};
use crate::real_log::RealLog;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn member(&mut self) -> u16 {
        self.below(usize::from(MEMBERS)) as u16
    }
}

/// How the links behave besides losing messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    /// As the shell's are: what arrives, arrives in order.
    Ordered,
    /// Worse than the shell promises; safety must hold all the same.
    Reordering,
}

/// Whether disks are logs or models of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disks {
    Models,
    RealLogs,
}

struct Life {
    rng: Rng,
    cluster: Cluster,
    links: Links,
    proposed: u32,
    taken: u32,
}

impl Life {
    fn new(seed: u64, links: Links) -> Self {
        let mut rng = Rng(seed);
        let cache = [0, 200, 1 << 20][rng.below(3)];
        Self {
            cluster: Cluster::new(seed, cache),
            rng,
            links,
            proposed: 0,
            taken: 0,
        }
    }

    fn step(&mut self) {
        let id = self.rng.member();
        let to = self.rng.member();
        let up = self.cluster.is_up(id);
        match self.rng.below(1_000) {
            0..200 => self.deliver(id, to),
            200..380 if up => {
                self.cluster.persist(id);
            }
            380..540 if up => self.cluster.tick(id),
            540..940 if up => self.propose(id),
            940..955 => self.cluster.lose(id, to),
            955..965 if up => self.cluster.node(id).checkpoint(),
            965..969 => self.cluster.isolate(id),
            969..973 => self.cluster.cut(id, to),
            973..985 => self.cluster.mend(),
            985..990 if up => self.kill(id),
            990..1_000 if !up => self.cluster.start(id),
            _ => self.deliver(id, to),
        }
    }

    fn deliver(&mut self, from: u16, to: u16) {
        let waiting = self.cluster.waiting(from, to);
        for _ in 0..self.rng.below(4) {
            let place = match self.links {
                Links::Ordered => 0,
                Links::Reordering => self.rng.below(waiting.max(1)),
            };
            self.cluster.deliver(from, to, place);
        }
    }

    fn propose(&mut self, id: u16) {
        if !matches!(self.cluster.node(id).role, Role::Leader(_)) {
            return;
        }
        self.proposed += 1;
        let entry = Bytes::from(format!("{} of {id}", self.proposed));
        self.taken += u32::from(self.cluster.propose(id, entry));
    }

    fn kill(&mut self, id: u16) {
        let writing = self.cluster.node(id).asked.writes.len();
        let survive = self.rng.below(writing + 1);
        self.cluster.kill(id, survive);
    }

    /// No more faults: all agree within ten seconds of ticks, and something new is committed.
    fn heal(&mut self) {
        self.cluster.mend();
        for id in 0..MEMBERS {
            if !self.cluster.is_up(id) {
                self.cluster.start(id);
            }
        }
        let leader = self.cluster.elect(100);
        let before = self.cluster.committed().count();
        assert!(self.cluster.propose(leader, Bytes::from_static(b"last")));
        for _ in 0..20 {
            self.cluster.run();
            (0..MEMBERS).for_each(|id| self.cluster.tick(id));
        }
        self.cluster.run();
        assert!(
            self.cluster.agree(),
            "all have applied the same: {:#?}",
            self.cluster.places()
        );
        assert!(self.cluster.committed().count() > before);
        assert_eq!(self.cluster.committed().last().unwrap(), "last");
    }
}

/// What the lives of some seeds came to.
#[derive(Debug, Default)]
struct Sums {
    committed: usize,
    snapshots: u64,
    fetches: u64,
    taken: u32,
    /// Restarts of a real log at which a checkpoint of another node was compared.
    compared: usize,
}

fn live(seeds: std::ops::Range<u64>, links: Links, disks: Disks) -> Sums {
    let mut sums = Sums::default();
    for seed in seeds {
        let lived = std::panic::catch_unwind(|| {
            let mut life = Life::new(seed, links);
            if disks == Disks::RealLogs {
                (0..MEMBERS).for_each(|id| life.cluster.node(id).log = Some(RealLog::new()));
            }
            for _ in 0..6_000 {
                life.step();
            }
            life.heal();
            let mut compared_by = |id| {
                let log = life.cluster.node(id).log.as_ref();
                log.map_or(0, |log| log.fetched_compared)
            };
            let compared: usize = (0..MEMBERS).map(&mut compared_by).sum();
            (
                life.cluster.committed().count(),
                life.cluster.snapshots,
                life.cluster.fetches,
                life.taken,
                compared,
            )
        });
        let Ok((committed, snapshots, fetches, taken, compared)) = lived else {
            panic!("seed {seed} with {links:?} links");
        };
        sums.committed += committed;
        sums.snapshots += snapshots;
        sums.fetches += fetches;
        sums.taken += taken;
        sums.compared += compared;
    }
    eprintln!("{links:?}: {sums:?}");
    sums
}

/// Seeds of one test: few in an ordinary run, `COURSER_RAFT_SEEDS` by hand.
fn seeds() -> std::ops::Range<u64> {
    let many = std::env::var("COURSER_RAFT_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    0..many.unwrap_or(60)
}

#[test]
fn i6_no_fork_over_ordered_links() {
    let sums = live(seeds(), Links::Ordered, Disks::Models);
    assert!(
        sums.committed > 1_000 && sums.snapshots > 10 && sums.fetches > 10,
        "{sums:?}"
    );
    assert!(
        sums.taken as usize > sums.committed,
        "some leaderships were lost with entries"
    );
}

#[test]
fn i6_no_fork_even_when_links_reorder() {
    let sums = live(seeds(), Links::Reordering, Disks::Models);
    assert!(sums.committed > 1_000, "{sums:?}");
}

#[test]
fn i6_no_fork_over_real_logs() {
    let sums = live(0..10, Links::Ordered, Disks::RealLogs);
    assert!(sums.committed > 100 && sums.compared > 0, "{sums:?}");
}

#[test]
fn one_seed_is_one_life() {
    let trace = |seed| {
        let mut life = Life::new(seed, Links::Ordered);
        for _ in 0..3_000 {
            life.step();
        }
        let committed: Vec<Bytes> = life.cluster.committed().cloned().collect();
        let mut terms = Vec::new();
        for id in 0..MEMBERS {
            if life.cluster.is_up(id) {
                terms.push(life.cluster.node(id).group.term());
            }
        }
        (committed, terms, life.taken)
    };
    for seed in 0..10 {
        assert_eq!(
            trace(seed),
            trace(seed),
            "timeouts come from the seed alone"
        );
    }
}
