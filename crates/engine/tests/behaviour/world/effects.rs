//! What partitions ask of the world.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use courser_contract::{
    AppendNumber, Cut, DeliverTo, Delivery, Destinations, Dropped, Fence, FrontId, HomeRef,
    IndexChange, IndexToken, Origin, PartitionEffects, PartitionId, Permission, Settled, ToFront,
    ToPartition, WillPermission, owner_name,
};

use super::{DURABLE, Got, OTHER, VOLATILE};

#[derive(Default)]
pub(crate) struct Effects {
    /// Who asks.
    pub(crate) at: Asker,
    pub(crate) events: u64,
    pub(crate) partitions: Vec<PartitionId>,
    pub(crate) deliveries: Vec<(FrontId, Got)>,
    /// Calls of `deliver`, for tests of fan-out.
    pub(crate) deliver_calls: usize,
    pub(crate) to_fronts: Vec<(FrontId, ToFront)>,
    pub(crate) to_partitions: VecDeque<(PartitionId, PartitionId, ToPartition)>,
    /// Sessions of which a group has said that they have left.
    pub(crate) left: Vec<HomeRef>,
    pub(crate) settled: Vec<(PartitionId, AppendNumber, Settled)>,
    pub(crate) index: Vec<(PartitionId, IndexToken)>,
    pub(crate) fences: Vec<(PartitionId, IndexToken)>,
    /// The last cut: there is one shard.
    pub(crate) cut: Cut,
    /// L1: which filters lead where.
    pub(crate) l1: BTreeMap<(PartitionId, Box<str>), ()>,
    pub(crate) dropped: BTreeMap<Dropped, u64>,
    /// Questions for retained messages that were asked.
    pub(crate) questions: usize,
    /// Fronts that are to be read less.
    pub(crate) slowed: Vec<FrontId>,
    /// What is said of wills that nothing else is said of is yes.
    pub(crate) wills: BTreeMap<(String, String), WillPermission>,
    /// Authors that have lost the right to a topic.
    pub(crate) denied_authors: BTreeSet<(String, String)>,
    /// Sessions that are counted for users, by the partition that says so.
    pub(crate) kept: BTreeMap<(PartitionId, Box<str>), u32>,
    /// Entries that a test has committed by itself.
    pub(crate) entries: Vec<bytes::Bytes>,
}

/// A partition that has a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker(pub(crate) PartitionId);

impl Default for Asker {
    fn default() -> Self {
        Self(PartitionId(0))
    }
}

impl Effects {
    pub(crate) fn route(&self, topic: &str, retain: bool) -> Destinations {
        let mut to = Destinations::new();
        for (id, filter) in self.l1.keys() {
            if router::filter_matches(filter, topic) && !to.contains(id) {
                to.push(*id);
            }
        }
        if retain && !to.contains(&self.keeper(topic)) {
            to.push(self.keeper(topic));
        }
        to
    }

    /// Sessions of a user, in all partitions.
    pub(crate) fn kept_by(&self, user: &str) -> u32 {
        let of_user = self.kept.iter().filter(|((_, name), _)| **name == *user);
        of_user.map(|(_, count)| count).sum()
    }

    /// Topics that begin with "other" have their retained message in the other partition, `$SYS` in the volatile one.
    pub(crate) fn keeper(&self, topic: &str) -> PartitionId {
        if topic.starts_with("other") {
            OTHER
        } else if topic.starts_with("$SYS") {
            VOLATILE
        } else {
            DURABLE
        }
    }
}

impl PartitionEffects for Effects {
    fn deliver(&mut self, delivery: Delivery<'_>, to: &[DeliverTo]) {
        self.events += 1;
        self.deliver_calls += 1;
        if let Some(record) = delivery.record {
            assert_eq!(
                record.view(),
                *delivery.view,
                "the shared bytes say the same"
            );
        }
        for receiver in to {
            self.deliveries
                .push((receiver.front, Got::of(&delivery, receiver)));
        }
    }

    fn send_front(&mut self, front: FrontId, message: ToFront) {
        self.events += 1;
        self.to_fronts.push((front, message));
    }

    fn send_partition(&mut self, to: PartitionId, message: ToPartition) {
        self.events += 1;
        if let ToPartition::Left { member, .. } = &message {
            self.left.push(*member);
        }
        self.questions += usize::from(matches!(message, ToPartition::ScanRetained(_)));
        self.to_partitions.push_back((self.at.0, to, message));
    }

    fn settled(&mut self, _origin: Origin, number: AppendNumber, result: Settled) {
        self.events += 1;
        self.settled.push((self.at.0, number, result));
    }

    fn change_index(&mut self, token: IndexToken, change: IndexChange) {
        self.events += 1;
        for filter in change.add {
            self.l1.insert((self.at.0, filter), ());
        }
        for filter in change.remove {
            self.l1.remove(&(self.at.0, filter));
        }
        self.index.push((self.at.0, token));
    }

    fn fence(&mut self, token: IndexToken, fence: Fence) {
        if let Fence::Cut(cut) = fence {
            self.cut = cut;
        }
        self.events += 1;
        self.fences.push((self.at.0, token));
    }

    fn destinations(&mut self, topic: &str, retain: bool) -> Destinations {
        self.route(topic, retain)
    }

    fn retained_partition(&self, topic: &str) -> PartitionId {
        self.keeper(topic)
    }

    fn retained_partitions(&self) -> Destinations {
        [DURABLE, OTHER, VOLATILE].into_iter().collect()
    }

    /// As the keeper of a topic.
    fn group_partition(&self, _share: &str, filter: &str) -> PartitionId {
        if filter.starts_with("other") {
            OTHER
        } else {
            DURABLE
        }
    }

    fn volatile_partition(&self) -> PartitionId {
        VOLATILE
    }

    fn cut(&self, _: PartitionId) -> Cut {
        self.cut
    }

    fn slow_down(&mut self, front: FrontId) {
        self.slowed.push(front);
    }

    fn permits_will(&mut self, owner: &str, _client_id: &str, topic: &str) -> WillPermission {
        let said = self.wills.get(&(owner.to_owned(), topic.to_owned()));
        said.copied().unwrap_or(WillPermission::Granted)
    }

    fn permits_retained(&mut self, author: &str, topic: &str) -> Permission {
        let asked = (author.to_owned(), topic.to_owned());
        match self.denied_authors.contains(&asked) {
            true => Permission::Denied,
            false => Permission::Granted,
        }
    }

    fn may_keep_session(&mut self, owner: &str, most: u32) -> Permission {
        match self.kept_by(owner_name(owner)) < most {
            true => Permission::Granted,
            false => Permission::Denied,
        }
    }

    fn keep_session(&mut self, owner: &str, most: u32) -> Permission {
        let permission = self.may_keep_session(owner, most);
        if permission == Permission::Granted {
            let place = (self.at.0, owner_name(owner).into());
            *self.kept.entry(place).or_default() += 1;
        }
        permission
    }

    fn forget_session(&mut self, owner: &str) {
        let place = (self.at.0, owner_name(owner).into());
        let count = self.kept.get_mut(&place).expect("it was counted");
        *count -= 1;
        if *count == 0 {
            self.kept.remove(&place);
        }
    }

    fn dropped(&mut self, why: Dropped, messages: u64) {
        self.events += 1;
        *self.dropped.entry(why).or_default() += messages;
    }
}
