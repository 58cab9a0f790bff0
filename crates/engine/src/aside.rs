//! A partition that is set aside (M39, M44): part of its log is lost or cannot be applied, and it must not go on as if that
//! had never been.
//!
//! It has the state of the last entry before the bad place and keeps its filters in L1, so that nobody is told that a message
//! is stored which its sessions will not get: what matches is refused. It lets no session in, answers others where they would
//! wait for ever, and changes nothing. A question that it may not answer with less than all there is (retained messages, a
//! session that leaves a group) stays open until it serves again.

use courser_contract::{
    Append, AppendKey, Dropped, IndexChange, JoinResult, Now, PartitionEffects, PartitionId,
    Refusal, Settled, Tell, ToPartition,
};

use crate::{Partition, PlantedPartition, lead::Role, outbox::KnownForward, publish::answer};

/// What publishes a partition that is set aside refuses (M39).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsideFilters {
    /// Those that match its filters: all that it had at the last entry that it has.
    Known,
    /// All with QoS > 0: its state is lost, and any of them may be for a session that it had.
    Unknown,
    /// None but those that it keeps as retained: the operator has released its filters.
    Released,
}

/// Matches every topic but those that begin with `$`.
const EVERYTHING: &str = "#";

impl Partition {
    /// Sets a partition aside that does not lead and was never told to: from now on it refuses. To be called once.
    ///
    /// # Panics
    /// When it leads, or waits for that.
    pub fn set_aside(&mut self, now: Now, filters: AsideFilters, fx: &mut impl PartitionEffects) {
        assert_eq!(
            self.lead.role,
            Role::Follower,
            "only a partition that nobody leads is set aside"
        );
        self.lead.now = now;
        self.lead.term = self.state.term;
        self.lead.role = Role::Aside;
        let add = match filters {
            AsideFilters::Known => self.state.l2.filters(),
            AsideFilters::Unknown => vec![EVERYTHING.into()],
            AsideFilters::Released => Vec::new(),
        };
        if !add.is_empty() {
            let remove = Vec::new();
            self.change_index(IndexChange { add, remove }, fx);
        }
        for (from, message) in std::mem::take(&mut self.lead.early) {
            self.refuse_message(from, message, fx);
        }
    }

    /// Whether it is set aside.
    #[must_use]
    pub const fn is_aside(&self) -> bool {
        match self.lead.role {
            Role::Aside => true,
            Role::Follower | Role::Elected | Role::Indexing | Role::Leading => false,
        }
    }

    /// Whether it does all that it is to do for now: it [serves](Self::serves), or it is set aside and L1 has the filters that
    /// it refuses.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        match self.lead.role {
            Role::Leading => true,
            Role::Aside => self.lead.index.unconfirmed.is_empty(),
            Role::Follower | Role::Elected | Role::Indexing => false,
        }
    }

    /// A publish that matches the filters of a partition that is set aside.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse_append(&self, append: &Append<'_>, fx: &mut impl PartitionEffects) {
        match append.key {
            AppendKey::Unanswered if append.keep_retained => fx.dropped(Dropped::Rejected, 1),
            AppendKey::Unanswered => fx.dropped(Dropped::Offline, 1),
            AppendKey::Numbered { .. } | AppendKey::Outbox { .. } => {
                answer(&append.key, self.refusal(&append.key), fx);
            }
        }
    }

    /// What was taken before stays taken.
    fn refusal(&self, key: &AppendKey) -> Settled {
        let known = match *key {
            AppendKey::Outbox { source, seq, floor } => {
                self.state.inbox.classify(source, seq, floor)
            }
            AppendKey::Numbered { .. } | AppendKey::Unanswered => KnownForward::New,
        };
        match known {
            KnownForward::Repeat => Settled::Ok,
            KnownForward::New if self.is_planted(PlantedPartition::AsideAcknowledges) => {
                Settled::Ok
            }
            KnownForward::New => Settled::Refused(Refusal::Unavailable),
        }
    }

    /// A message of another partition.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse_message(
        &self,
        from: PartitionId,
        message: ToPartition,
        fx: &mut impl PartitionEffects,
    ) {
        match message {
            ToPartition::Append { key, leader, .. } => {
                // Of what was sent to an earlier leader, all older ones must come first (M14, M19).
                if leader.is_none_or(|leader| leader == self.lead.term) {
                    answer(&key, self.refusal(&key), fx);
                }
            }
            ToPartition::Leads { tell, .. } => match tell {
                Tell::Asks => self.tell_leader(from, Tell::Answers, fx),
                Tell::Answers => {}
            },
            ToPartition::ScanRetained(scan) => {
                let withheld = ToPartition::RetainedWithheld {
                    scan: scan.scan,
                    partition: self.config.id,
                };
                fx.send_partition(scan.scan.home.partition, withheld);
            }
            ToPartition::Join(join) => {
                let refused = ToPartition::Joined {
                    member: join.member,
                    request: join.request,
                    result: JoinResult::Refused(Refusal::Unavailable),
                };
                fx.send_partition(join.member.partition, refused);
            }
            // A member is one until its group has heard otherwise, and the group cannot hear now.
            ToPartition::Leave { .. }
            | ToPartition::Unclaim { .. }
            | ToPartition::Forwarded { .. }
            | ToPartition::Slow { .. }
            | ToPartition::RetainedFound(_)
            | ToPartition::RetainedWithheld { .. }
            | ToPartition::Joined { .. }
            | ToPartition::Left { .. }
            | ToPartition::MemberFront { .. }
            | ToPartition::AskPart { .. }
            | ToPartition::Part { .. }
            | ToPartition::Decline(_)
            | ToPartition::Inherit(_)
            | ToPartition::Inheritances { .. }
            | ToPartition::PassOn(_)
            | ToPartition::Took { .. }
            | ToPartition::Elsewhere { .. } => {}
        }
    }
}
