//! Asserts what holds between events.

use std::collections::HashMap;

use super::{State, weight};
use crate::record::Slot;

impl State {
    /// Asserts the invariants of the replicated state and of what is derived from it.
    pub(crate) fn check(&self) {
        self.ages.check(self.index, self.wall);
        self.records.check();
        self.retained.check();
        self.origins.check();
        self.inbox.check();
        self.outboxes.check();
        self.l2.check();
        self.check_sessions();
        self.check_groups();
        self.check_references();
    }

    fn check_sessions(&self) {
        let mut subscriptions = 0;
        let mut shared = 0;
        let mut named = 0;
        let mut bytes = 0;
        for (number, session) in self.sessions.iter() {
            assert_eq!(number, session.uid.0, "a session is found by its number");
            session.check();
            let made = session.subscriptions.iter();
            bytes += weight::of_whole(session);
            bytes += made.map(weight::of_subscription).sum::<u64>();
            subscriptions += session.subscriptions.len() as u64;
            shared += session
                .subscriptions
                .iter()
                .filter(|s| s.share.is_some())
                .count() as u64;
            if !session.client_id.is_empty() {
                named += 1;
                let found = self.by_client.get(&session.client_id);
                assert_eq!(found, Some(&number), "a session is found by its client id");
            }
            for subscription in session.subscriptions.iter().filter(|s| s.share.is_none()) {
                assert!(
                    self.l2.has_stream(&subscription.filter, number),
                    "a subscription is in L2"
                );
            }
        }
        assert_eq!(named, self.by_client.len(), "client ids lead to sessions");
        assert_eq!(
            (subscriptions, shared),
            (self.subscriptions, self.shared_subscriptions),
            "subscriptions are counted"
        );
        assert_eq!(bytes, self.session_bytes, "and what they take");
    }

    /// How often a record is needed is counted from where it is referred to (M17).
    fn check_references(&self) {
        let mut counted: HashMap<Slot, u32> = HashMap::new();
        let mut queued = 0;
        let sessions = self.sessions.iter().map(|(_, session)| &session.stream);
        for stream in sessions.chain(self.group_streams()) {
            queued += u64::from(stream.live());
            let mut bytes = 0;
            for (_, reference) in stream.iter() {
                *counted.entry(reference.slot).or_default() += 1;
                bytes += u64::from(self.records.len_of(reference.slot));
            }
            assert_eq!(bytes, stream.bytes(), "a stream counts its bytes");
        }
        assert_eq!(queued, self.queued, "references are counted");
        for slot in self.retained.records() {
            *counted.entry(slot).or_default() += 1;
        }
        for (to, outbox) in self.outboxes.iter() {
            assert!(!to.is_volatile(), "an outbox leads to what stays (M19)");
            for (_, forward) in outbox.iter() {
                *counted.entry(forward.item.slot).or_default() += 1;
            }
        }
        assert_eq!(
            counted.len(),
            self.records.live(),
            "every live record is needed somewhere"
        );
        for (slot, count) in counted {
            assert_eq!(
                count,
                self.records.references(slot),
                "references of a record are counted"
            );
        }
    }
}
