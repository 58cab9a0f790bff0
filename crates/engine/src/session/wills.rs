//! Wills: when they go, whether they may and have room, and to whom.

use courser_contract::{
    Cuts, Destinations, DetachCause, Dropped, PartitionEffects, PartitionId, QoS, RecordView,
    SessionUid, WallMs, Will, WillPermission, author_of,
};

use super::detach::Awaited;
use crate::{
    DiskRoom, Partition,
    entry::Rare,
    lead::{After, Due, Holder},
    planted::PlantedPartition,
    state::weight,
};

/// What becomes of the will of a session that loses its connection.
pub(super) enum WillFate {
    /// There is none, or the client took it back (v3 [MQTT-3.14.4-3], v5 [MQTT-3.14.4-3]).
    Deleted,
    /// It is published now.
    Now,
    /// It is published at this moment unless the client comes back (v5 [MQTT-3.1.3-9]).
    At(WallMs),
}

/// With what the will of a session without a connection goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WillGoes {
    /// The end of the session.
    WithSession,
    /// Nothing: the session stays.
    Alone,
}

impl Partition {
    pub(super) fn will_fate(
        &self,
        uid: SessionUid,
        cause: DetachCause,
        expiry: u32,
        wall: WallMs,
        fx: &mut impl PartitionEffects,
    ) -> WillFate {
        let Some(will) = self.will(uid) else {
            return WillFate::Deleted;
        };
        let can_go = self.can_will_go(uid, fx);
        match cause {
            DetachCause::Disconnect if !self.is_planted(PlantedPartition::WillKept) => {
                WillFate::Deleted
            }
            DetachCause::Disconnect
            | DetachCause::DisconnectWithWill
            | DetachCause::Lost
            | DetachCause::TakenOver
            | DetachCause::ServerStops => match will.delay_seconds.min(expiry) {
                0 if can_go && self.has_room_for_will(uid, fx) => WillFate::Now,
                delay => WillFate::At(WallMs(wall.0 + u64::from(delay) * 1_000)),
            },
        }
    }

    pub(super) fn will(&self, uid: SessionUid) -> Option<&Will> {
        let session = self.state.sessions.get(uid.0)?;
        if session.will_forgotten {
            return None;
        }
        session.extra.as_ref()?.will.as_deref()
    }

    /// Whether a will of this session would come to all whom it is for, and its right is known. Neither is so at the beginning of a start. True
    /// of a session without one.
    pub(crate) fn can_will_go(&self, uid: SessionUid, fx: &mut impl PartitionEffects) -> bool {
        self.will(uid).is_none()
            || fx.routes_all() && self.will_permission(uid, fx) != WillPermission::NotYet
    }

    /// Whether a will of this session has room on the disk where it goes: it was let in when it came, and is written anew for each who keeps it (M47). True of
    /// one that nobody keeps, and of a session without one.
    pub(crate) fn has_room_for_will(
        &self,
        uid: SessionUid,
        fx: &mut impl PartitionEffects,
    ) -> bool {
        let Some(will) = self.will(uid) else {
            return true;
        };
        if self.is_volatile() {
            return true;
        }
        let destinations = fx.destinations(&will.topic, will.retain);
        let fits = self.will_fits(weight::will_bytes(will), self.copies(will, &destinations));
        if !fits {
            self.disk_budget.note_refused();
        }
        fits
    }

    /// How often a will is written where it goes: here, and once more in each other partition that may keep it. None: what is not kept is not.
    fn copies(&self, will: &Will, destinations: &[PartitionId]) -> usize {
        if will.qos == QoS::AtMostOnce && !will.retain {
            return 0;
        }
        let kept = destinations.iter().filter(|to| !to.is_volatile());
        let others = kept.clone().filter(|to| **to != self.config.id).count();
        usize::from(kept.count() > 0) + others
    }

    fn will_fits(&self, bytes: usize, copies: usize) -> bool {
        copies == 0
            || match self.disk_room_for(bytes * copies) {
                DiskRoom::Enough => true,
                DiskRoom::Short => self.disk_room == DiskRoom::Short && bytes <= self.going_room,
            }
    }

    /// A will goes: its room is taken.
    fn take_room_for_will(&mut self, bytes: usize, copies: usize) {
        match self.disk_room {
            DiskRoom::Enough => self.disk_budget.take(bytes * copies),
            DiskRoom::Short if copies > 0 => {
                self.going_room = self.going_room.saturating_sub(bytes);
            }
            DiskRoom::Short => {}
        }
    }

    /// Where a will goes, with its room on the disk taken. Without room it goes to those alone for whom nothing is kept: its session ends, or is taken up again, and does
    /// not wait.
    fn take_room_for(&mut self, will: &Will, fx: &mut impl PartitionEffects) -> Destinations {
        let mut destinations = fx.destinations(&will.topic, will.retain);
        if self.is_volatile() {
            return destinations;
        }
        let bytes = weight::will_bytes(will);
        let copies = self.copies(will, &destinations);
        if self.will_fits(bytes, copies) {
            self.take_room_for_will(bytes, copies);
        } else {
            self.disk_budget.note_refused();
            fx.dropped(Dropped::DiskFull, 1);
            destinations.retain(|to| to.is_volatile());
        }
        destinations
    }

    /// Whether the owner of a session may publish its will. A volatile partition does not know the owner: its sessions end with their
    /// connections, which lose a will as soon as the right to it is gone.
    pub(crate) fn will_permission(
        &self,
        uid: SessionUid,
        fx: &mut impl PartitionEffects,
    ) -> WillPermission {
        let session = self.state.sessions.get(uid.0);
        let owner = session.and_then(|session| Some((session, session.owner()?)));
        match (owner, self.will(uid)) {
            (Some((session, owner)), Some(will)) => {
                fx.permits_will(owner, &session.client_id, &will.topic)
            }
            (None, _) | (_, None) => WillPermission::Granted,
        }
    }

    /// Who publishes what a session leaves behind.
    fn will_author(&self, uid: SessionUid) -> Option<Box<str>> {
        if let Some(author) = self.lead.registry.will_authors.get(&uid) {
            return Some(author.clone());
        }
        let session = self.state.sessions.get(uid.0)?;
        Some(author_of(&session.client_id, session.owner()?).into())
    }

    pub(super) fn forget_will(&mut self, uid: SessionUid) {
        if let Some(session) = self.state.sessions.get_mut(uid.0) {
            session.will_forgotten = true;
        }
    }

    pub(super) fn cancel_will(&mut self, uid: SessionUid) {
        let session = self.state.sessions.get(uid.0);
        if let Some(at) = session.and_then(|session| session.will_due()) {
            self.lead.due.remove(at, Due::Will(uid.0));
        }
    }

    /// Ends a session that has no connection, or publishes its will. Who has its client id next has it once the will has settled (M25).
    pub(crate) fn send_will(
        &mut self,
        uid: SessionUid,
        goes: WillGoes,
        fx: &mut impl PartitionEffects,
    ) {
        let has_will = self.will(uid).is_some();
        let Some(session) = self.state.sessions.get(uid.0) else {
            return;
        };
        let client_id = session.client_id.clone();
        let owner = session.owner.as_deref().cloned();
        match goes {
            WillGoes::WithSession => self.end_session(uid, fx),
            WillGoes::Alone => self.publish_will(uid, fx),
        }
        if has_will && !client_id.is_empty() {
            self.hold(&client_id, Holder::Leaving, owner.as_ref().map(|it| &*it.0));
            self.lead.after(After::Detached {
                client_id,
                session: uid,
                open: Vec::new(),
            });
        }
    }

    /// Publishes the will of a session, if it has one, and takes it away (v3 [MQTT-3.1.2-8], v3 [MQTT-3.1.2-10],
    /// v5 [MQTT-3.1.2-8], v5 [MQTT-3.1.2-10]).
    pub(super) fn publish_will(&mut self, uid: SessionUid, fx: &mut impl PartitionEffects) {
        let Some(will) = self.will(uid).cloned() else {
            return;
        };
        let session = self.state.sessions.get(uid.0).expect("it has a will");
        let client = session.publisher();
        let author = will.retain.then(|| self.will_author(uid)).flatten();
        let permission = self.will_permission(uid, fx);
        self.cancel_will(uid);
        self.forget_will(uid);
        self.write(&Rare::WillTaken { session: uid });
        match permission {
            WillPermission::Granted => {}
            // Who ends a session before users and roles are known does not wait for them: nothing goes out unasked.
            WillPermission::Denied | WillPermission::NotYet => {
                return fx.dropped(Dropped::Denied, 1);
            }
        }
        let wall = self.wall();
        let view = RecordView {
            topic: &will.topic,
            properties: &will.properties,
            payload: &will.payload,
            qos: will.qos,
            retain: will.retain,
            expires_at: will
                .expiry_seconds
                .map(|seconds| WallMs(wall.0 + u64::from(seconds) * 1_000)),
            publisher: Some(client),
            author: author.as_deref(),
        };
        let destinations = self.take_room_for(&will, fx);
        let cuts: Cuts = destinations.iter().map(|&to| fx.cut(to)).collect();
        let to = (&destinations[..], &cuts[..]);
        let plan = self.plan_spread(&view, to, Awaited::ByNobody, fx);
        if plan.refused {
            fx.dropped(Dropped::RetainedFull, 1);
        }
        let spread = self.spread(&view, &plan, uid, fx);
        let session = self.state.sessions.get(uid.0).expect("it had a will");
        let client_id = session.client_id.clone();
        self.lead.after(After::WillForwarded {
            client_id,
            forwards: spread.forwards,
        });
    }
}
