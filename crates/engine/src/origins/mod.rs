//! Which numbered appends a partition has taken (M14): a repeat is known and stored once.
//!
//! An origin numbers its appends to one partition from 1 without gaps, sends them in that order, and says with each one its
//! `floor`, the lowest number that it has seen no answer for. Of each origin the state keeps
//!
//! ```text
//!   forgotten │ taken or refused, known exactly     │ not seen yet
//!   ──────────┼─────────────────────────────────────┼─────────────▶ numbers
//!           floor                                  last
//! ```
//!
//! Invariants (`check`): each known origin has a taken number, none below its floor, and `last` is the highest of them; all
//! origins of a node are of its newest start.
//!
//! Two copies live in a partition. The replicated one takes a number when its entry is applied. The leader has a second one
//! that takes numbers when they are proposed: [`Known::Repeat`] there with a number that the first does not contain means
//! that the first copy of the append is still under way; its answer is the answer. A new leader starts its copy from the
//! replicated one (M5), and the origin sends again what is unsettled, in number order, before anything new.

mod ranges;

use courser_contract::{AppendNumber, Origin, Refusal, Settled, ShardId};

pub(crate) use self::ranges::Ranges;
use crate::canonical::{Canonical, DecodeError, Reader, write_count};

/// Numbers from an origin's floor on that may be taken. The set of an origin is ranges, so that in the worst case (every other
/// number refused) it takes 16 bytes for two of these numbers: 8 MiB. A front's window and the shard's credits end far below.
pub(crate) const SPAN_MAX: u64 = 1 << 20;

/// What an append is to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Never seen, or refused as the last one of its origin and so free to be decided anew.
    New,
    /// Seen, and this became of it. The refusal's own reason is not kept: [`Refusal::Unspecified`].
    Repeat(Settled),
    /// Of no interest to anyone: settled long ago, or of an origin whose node has started again. No answer.
    Dropped,
    /// New, and too far above the floor to be remembered: to be refused.
    OutOfRange,
}

/// One shard of a node, since that node's newest start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Taken {
    /// Numbers below are forgotten.
    floor: u64,
    /// Taken numbers from the floor on.
    above: Ranges,
}

impl Taken {
    /// An origin not heard of before starts at its floor.
    fn starting_at(floor: u64) -> Self {
        Self {
            floor,
            above: Ranges::default(),
        }
    }

    /// Highest number that was taken.
    #[inline]
    fn last(&self) -> u64 {
        self.above
            .last()
            .unwrap_or_else(|| self.floor.saturating_sub(1))
    }

    /// Takes a number that is new; false when it is not.
    #[inline]
    fn take(&mut self, number: u64, floor: u64) -> bool {
        if self.classify(number, floor) != Known::New {
            return false;
        }
        if floor > self.floor {
            self.floor = floor;
            self.above.remove_below(floor);
        }
        self.above.insert(number);
        true
    }

    #[inline]
    fn classify(&self, number: u64, floor: u64) -> Known {
        let floor = self.floor.max(floor);
        if number < floor {
            Known::Dropped
        } else if number > self.last() {
            if number - floor < SPAN_MAX {
                Known::New
            } else {
                Known::OutOfRange
            }
        } else if self.above.contains(number) {
            Known::Repeat(Settled::Ok)
        } else {
            Known::Repeat(Settled::Refused(Refusal::Unspecified))
        }
    }
}

/// One node: only its newest start counts. Shards in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    number: u16,
    start: u32,
    shards: Vec<(ShardId, Taken)>,
}

impl Node {
    #[inline]
    fn place(&self, shard: ShardId) -> Result<usize, usize> {
        // Shards are numbered from 0, so that mostly each is at its own place.
        match self.shards.get(usize::from(shard.0)) {
            Some((at, _)) if *at == shard => Ok(usize::from(shard.0)),
            Some(_) | None => self.shards.binary_search_by_key(&shard, |(at, _)| *at),
        }
    }

    #[inline]
    fn shard(&self, shard: ShardId) -> Option<&Taken> {
        let at = self.place(shard).ok()?;
        Some(&self.shards[at].1)
    }
}

/// Taken appends of all origins of a partition. Memory: one small entry for each shard of each node, and what
/// [`SPAN_MAX`] says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    /// In order of their numbers.
    nodes: Vec<Node>,
}

impl Origins {
    #[inline]
    fn place(&self, node: u16) -> Result<usize, usize> {
        self.nodes.binary_search_by_key(&node, |at| at.number)
    }

    #[inline]
    fn node(&self, node: u16) -> Option<&Node> {
        self.place(node).ok().map(|at| &self.nodes[at])
    }

    /// What the append `number` of `origin` is, sent with `floor`. Cost: O(log origins + log ranges), the latter mostly 1.
    #[inline]
    pub(crate) fn classify(
        &self,
        origin: Origin,
        number: AppendNumber,
        floor: AppendNumber,
    ) -> Known {
        let unknown = Taken::starting_at(floor.0);
        let taken = match self.node(origin.node) {
            Some(node) if origin.start < node.start => return Known::Dropped,
            Some(node) if origin.start == node.start => {
                node.shard(origin.shard).unwrap_or(&unknown)
            }
            Some(_) | None => &unknown,
        };
        taken.classify(number.0, floor.0)
    }

    /// Takes an append that [`Origins::classify`] called new. Applying an entry does this again for what an older leader
    /// wrote: a number that is not new then changes nothing (M4), and false comes back.
    pub(crate) fn take(
        &mut self,
        origin: Origin,
        number: AppendNumber,
        floor: AppendNumber,
    ) -> bool {
        if let Some(taken) = self.known_mut(origin) {
            return taken.take(number.0, floor.0);
        }
        if self.classify(origin, number, floor) != Known::New {
            return false;
        }
        self.taken_mut(origin, floor).take(number.0, floor.0)
    }

    /// The numbers of an origin of which some were taken.
    #[inline]
    fn known_mut(&mut self, origin: Origin) -> Option<&mut Taken> {
        let at = self.place(origin.node).ok()?;
        let node = &mut self.nodes[at];
        if node.start != origin.start {
            return None;
        }
        let at = node.place(origin.shard).ok()?;
        Some(&mut node.shards[at].1)
    }

    /// The numbers of an origin that is not older than its node, from the floor on if it is new.
    fn taken_mut(&mut self, origin: Origin, floor: AppendNumber) -> &mut Taken {
        let at = self.place(origin.node).unwrap_or_else(|at| {
            let node = Node {
                number: origin.node,
                ..Node::default()
            };
            self.nodes.insert(at, node);
            at
        });
        let node = &mut self.nodes[at];
        if node.start != origin.start {
            node.start = origin.start;
            node.shards.clear();
        }
        let at = node.place(origin.shard).unwrap_or_else(|at| {
            let taken = Taken::starting_at(floor.0);
            node.shards.insert(at, (origin.shard, taken));
            at
        });
        &mut node.shards[at].1
    }

    /// Whether `number` was taken and is not forgotten: on the replicated copy, whether the first copy has committed.
    pub(crate) fn contains(&self, origin: Origin, number: AppendNumber) -> bool {
        self.node(origin.node)
            .filter(|node| node.start == origin.start)
            .and_then(|node| node.shard(origin.shard))
            .is_some_and(|taken| taken.above.contains(number.0))
    }

    /// Appends the canonical bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        write_count(self.nodes.len(), out);
        for node in &self.nodes {
            node.number.write(out);
            node.start.write(out);
            write_count(node.shards.len(), out);
            for (shard, taken) in &node.shards {
                shard.write(out);
                taken.floor.write(out);
                taken.above.write(out);
            }
        }
    }

    /// Reads what [`Origins::encode`] wrote.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut nodes: Vec<Node> = Vec::new();
        for _ in 0..reader.count(10)? {
            let node = read_node(reader)?;
            if nodes.last().is_some_and(|last| last.number >= node.number) {
                return Err(DecodeError::Invalid("order of nodes"));
            }
            nodes.push(node);
        }
        Ok(Self { nodes })
    }

    /// Asserts the invariants of the module.
    pub(crate) fn check(&self) {
        let shards = self.nodes.iter().flat_map(|node| &node.shards);
        for (_, taken) in shards {
            taken.above.check();
            assert!(
                taken
                    .above
                    .first()
                    .is_some_and(|first| first >= taken.floor),
                "an origin is known by what was taken, and nothing below its floor is"
            );
        }
    }
}

fn read_node(reader: &mut Reader<'_>) -> Result<Node, DecodeError> {
    let number = reader.read()?;
    let start = reader.read()?;
    let mut shards: Vec<(ShardId, Taken)> = Vec::new();
    for _ in 0..reader.count(14)? {
        let shard: ShardId = reader.read()?;
        let taken = Taken {
            floor: reader.read()?,
            above: reader.read()?,
        };
        if taken.above.first().is_none_or(|first| first < taken.floor) {
            return Err(DecodeError::Invalid("taken numbers"));
        }
        if shards.last().is_some_and(|(last, _)| *last >= shard) {
            return Err(DecodeError::Invalid("order of shards"));
        }
        shards.push((shard, taken));
    }
    Ok(Node {
        number,
        start,
        shards,
    })
}

#[cfg(test)]
mod tests;
