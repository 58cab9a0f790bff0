//! Asserts what holds of the leader's memory between events.

use std::collections::BTreeSet;

use courser_contract::WallMs;

use crate::{
    Partition,
    lead::{Due, Role},
    room::Reserved,
    session::Session,
    timeouts::ASK_AGAIN_MS,
};

impl Partition {
    pub(crate) fn check_lead(&self) {
        let mut attached = 0;
        for (_, session) in self.state.sessions.iter() {
            let lead = &session.lead;
            attached += u64::from(lead.live.is_some());
            if self.gather.facts() == 0 && self.lead.number == self.lead.applied {
                assert_eq!(
                    lead.reserved,
                    Reserved::default(),
                    "nothing is reserved when nothing is under way (M4)"
                );
            }
            if let Some(live) = &lead.live {
                let next = session.stream.next_reference(live.pushed);
                let waits = next.is_some_and(|(seq, reference)| {
                    seq < session.sent_limit
                        && !self.lead.streams.doomed.contains(&(session.uid.0, seq))
                        && !self.state.records.is_tombstone(reference.slot)
                        && !self.state.records.is_cold(reference.slot)
                });
                assert!(
                    !(waits && live.has_room()),
                    "what may be sent is sent: nothing waits with an open window"
                );
            }
        }
        self.check_recalls();
        self.check_due();
        assert_eq!(
            attached, self.lead.registry.attached,
            "connections are counted"
        );
        let idle = self.gather.facts() == 0 && self.lead.number == self.lead.applied;
        if idle && !matches!(self.lead.role, Role::Follower | Role::Aside) {
            assert!(
                self.lead.after.is_empty(),
                "nothing waits for an entry that is not coming: {:?} behind {}",
                self.lead.after,
                self.lead.applied
            );
            assert!(
                self.lead.streams.doomed.is_empty(),
                "what was to end has ended"
            );
            self.lead.streams.coming.check_idle();
            assert_eq!(self.lead.forwards.reserved, 0, "no forward is reserved");
            assert_eq!(self.lead.registry.reserved, 0, "no session is reserved");
            self.lead.projection.check();
        }
    }

    /// What has lost its meaning does not wait for its moment, which may be years away (I9). What is asked again comes soon.
    fn check_due(&self) {
        let state = &self.state;
        let retained = state.retained.records().filter_map(|slot| {
            let due = Due::retained(slot, state.records.address(slot));
            Some((state.records.expires_at(slot)?, due))
        });
        let retained: BTreeSet<_> = retained.collect();
        let is_of = |number, moment: fn(&Session) -> Option<WallMs>, at| {
            let session = state.sessions.get(number);
            session.is_some_and(|it| it.is_detaching() || moment(it) == Some(at))
        };
        let soon = WallMs(self.wall().0 + ASK_AGAIN_MS);
        for (at, due) in self.lead.due.iter() {
            let is_wanted = match due {
                Due::SessionEnd(number) => is_of(number, |session| session.ends_at, at),
                Due::Will(number) => is_of(number, Session::will_due, at),
                Due::Retained { .. } => retained.contains(&(at, due)),
                Due::Expiry { .. } | Due::Aging => true,
            };
            assert!(is_wanted || at <= soon, "{due:?} has its meaning (M20)");
        }
    }
}
