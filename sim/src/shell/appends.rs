//! Numbered appends as their publisher's shard keeps them until they are answered (M10, M11, M14).

use std::collections::{BTreeMap, VecDeque};

use courser_contract::{
    AppendKey, AppendNumber, Cut, FrontId, Origin, PartitionId, Record, Settled, Ticket,
};

/// A publish whose destinations have all answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) front: FrontId,
    pub(crate) ticket: Ticket,
    pub(crate) result: Settled,
}

/// An append with all that sending it again needs.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) record: Record,
    pub(crate) keep_retained: bool,
    pub(crate) deliver: bool,
    pub(crate) cut: Cut,
}

#[derive(Debug)]
struct Wait {
    front: FrontId,
    ticket: Ticket,
    remaining: u32,
    worst: Settled,
}

#[derive(Debug)]
struct Lane {
    floor: u64,
    numbers: VecDeque<Option<(u64, Kept)>>,
}

impl Lane {
    fn next(&self) -> u64 {
        self.floor + self.numbers.len() as u64
    }
}

/// The unsettled appends of one origin.
#[derive(Debug)]
pub(crate) struct Appends {
    origin: Origin,
    lanes: BTreeMap<PartitionId, Lane>,
    waits: BTreeMap<u64, Wait>,
    last_wait: u64,
}

impl Appends {
    pub(crate) const fn new(origin: Origin) -> Self {
        Self {
            origin,
            lanes: BTreeMap::new(),
            waits: BTreeMap::new(),
            last_wait: 0,
        }
    }

    /// A publish that waits for as many answers as it gets numbers.
    pub(crate) fn begin(&mut self, front: FrontId, ticket: Ticket) -> u64 {
        self.last_wait += 1;
        self.waits.insert(
            self.last_wait,
            Wait {
                front,
                ticket,
                remaining: 0,
                worst: Settled::Ok,
            },
        );
        self.last_wait
    }

    fn lane(&mut self, partition: PartitionId) -> &mut Lane {
        self.lanes.entry(partition).or_insert_with(|| Lane {
            floor: 1,
            numbers: VecDeque::new(),
        })
    }

    /// The key of the next append to `partition`.
    pub(crate) fn number(&mut self, wait: u64, partition: PartitionId, kept: Kept) -> AppendKey {
        let origin = self.origin;
        let lane = self.lane(partition);
        let number = AppendNumber(lane.next());
        lane.numbers.push_back(Some((wait, kept)));
        let floor = AppendNumber(lane.floor);
        let wait = self.waits.get_mut(&wait).expect("a publish was begun");
        wait.remaining += 1;
        AppendKey::Numbered {
            origin,
            number,
            floor,
        }
    }

    /// A partition has answered.
    pub(crate) fn settled(
        &mut self,
        partition: PartitionId,
        origin: Origin,
        number: AppendNumber,
        result: Settled,
    ) -> Option<Done> {
        if origin != self.origin {
            return None;
        }
        let lane = self.lanes.get_mut(&partition)?;
        let at = usize::try_from(number.0.checked_sub(lane.floor)?).ok()?;
        let (id, _) = lane.numbers.get_mut(at)?.take()?;
        while matches!(lane.numbers.front(), Some(None)) {
            lane.numbers.pop_front();
            lane.floor += 1;
        }
        let wait = self
            .waits
            .get_mut(&id)
            .expect("an open number has its wait");
        if wait.worst == Settled::Ok {
            wait.worst = result;
        }
        wait.remaining -= 1;
        if wait.remaining > 0 {
            return None;
        }
        let wait = self.waits.remove(&id).expect("it was just seen");
        Some(Done {
            front: wait.front,
            ticket: wait.ticket,
            result: wait.worst,
        })
    }

    /// All that a partition has not answered, in number order, to be sent again (M14).
    pub(crate) fn unsettled(&self, partition: PartitionId) -> Vec<(AppendKey, Kept)> {
        let Some(lane) = self.lanes.get(&partition) else {
            return Vec::new();
        };
        let numbers = lane.numbers.iter().enumerate();
        let open = numbers.filter_map(|(at, slot)| Some((at as u64, slot.as_ref()?)));
        open.map(|(at, (_, kept))| {
            let key = AppendKey::Numbered {
                origin: self.origin,
                number: AppendNumber(lane.floor + at),
                floor: AppendNumber(lane.floor),
            };
            (key, kept.clone())
        })
        .collect()
    }

    /// For a fence: partitions with unsettled numbers, and the first number that was not given yet.
    pub(crate) fn watermarks(&self) -> Vec<(PartitionId, u64)> {
        let open = self
            .lanes
            .iter()
            .filter(|(_, lane)| !lane.numbers.is_empty());
        open.map(|(&partition, lane)| (partition, lane.next()))
            .collect()
    }

    /// Whether everything below `number` is settled.
    pub(crate) fn is_settled_below(&self, partition: PartitionId, number: u64) -> bool {
        self.lanes
            .get(&partition)
            .is_none_or(|lane| lane.floor >= number)
    }

    /// Partitions with unsettled appends of `front` (M25).
    pub(crate) fn open(&self, front: FrontId) -> Vec<PartitionId> {
        let has = |lane: &Lane| {
            lane.numbers
                .iter()
                .flatten()
                .any(|(wait, _)| self.waits[wait].front == front)
        };
        let open = self.lanes.iter().filter(|(_, lane)| has(lane));
        open.map(|(&partition, _)| partition).collect()
    }
}
