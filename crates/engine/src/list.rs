//! What an operator sees of a partition: sessions by place, retained messages by topic. Nothing here changes anything but
//! [`Partition::delete_session`] and [`Partition::end_sessions`].

use std::ops::Range;

use courser_contract::{
    FrontId, LogIndex, Now, PartitionEffects, RecordView, SessionLimits, SessionUid,
    SubscriptionOptions, WallMs,
};

use crate::{
    Partition,
    lead::Holder,
    record::Slot,
    retained::Scan,
    session::{Going, Session, Subscribed, WillGoes},
    timeouts::FILTERS_ENDED_MAX,
};

/// A session as it is now.
#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    session: &'a Session,
}

/// One subscription of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionView<'a> {
    /// Topic filter, without the share name.
    pub filter: &'a str,
    /// Share name of a shared one.
    pub share: Option<&'a str>,
    /// QoS and the rest.
    pub options: SubscriptionOptions,
    /// Subscription identifier (v5).
    pub identifier: Option<u32>,
}

/// What became of the wish to end a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// There is none with this client id.
    Unknown,
    /// It has a connection, or one is coming or going.
    InUse,
    /// Its end is in the entry that is gathered; it is gone once that is committed.
    Proposed,
    /// This partition does not lead.
    Unavailable,
}

/// What has become of the sessions at some places, see [`Partition::end_sessions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionsEnded {
    /// The first place that was not looked at.
    pub next: u32,
    /// Some stay, since they have a connection, or one is coming or going.
    pub in_use: bool,
}

/// A retained message.
#[derive(Clone, Debug)]
pub struct RetainedView<'a> {
    /// Which one it is, for ever: its entry and its number there (M16).
    pub address: (LogIndex, u32),
    /// What is in it: nothing, not even its topic, where that is lost.
    pub record: RecordView<'a>,
    /// Its topic, if what is in it is lost.
    pub lost: Option<Box<str>>,
}

/// Retained messages in topic order.
#[derive(Debug)]
pub struct RetainedPage<'a> {
    /// The messages.
    pub found: Vec<RetainedView<'a>>,
    /// Go on behind this topic; none: that was all.
    pub next: Option<Box<str>>,
    /// Topics that were looked at.
    pub visits: usize,
}

impl<'a> SessionView<'a> {
    /// Its number in this partition.
    #[must_use]
    pub const fn uid(&self) -> SessionUid {
        self.session.uid
    }

    /// Client id; empty in a volatile partition, where only its front knows it.
    #[must_use]
    pub fn client_id(&self) -> &'a str {
        &self.session.client_id
    }

    /// The user to whom it belongs; none in a volatile partition, and where nobody logs in.
    #[must_use]
    pub fn owner(&self) -> Option<&'a str> {
        self.session.owner()
    }

    /// The connection, if there is one.
    #[must_use]
    pub fn front(&self) -> Option<FrontId> {
        self.session.lead.live.as_ref().map(|live| live.front)
    }

    /// Seconds that it outlives its connection.
    #[must_use]
    pub const fn expiry_seconds(&self) -> u32 {
        self.session.expiry_seconds
    }

    /// When it ends; none while it has a connection.
    #[must_use]
    pub const fn ends_at(&self) -> Option<WallMs> {
        self.session.ends_at
    }

    /// Messages that wait for it or are under way, and their encoded bytes.
    #[must_use]
    pub const fn queued(&self) -> (u32, u64) {
        (self.session.stream.live(), self.session.stream.bytes())
    }

    /// Those that are under way to its connection.
    #[must_use]
    pub fn under_way(&self) -> u32 {
        let live = self.session.lead.live.as_ref();
        live.map_or(0, |live| u32::from(live.under_way))
    }

    /// Whether it has a will.
    #[must_use]
    pub fn has_will(&self) -> bool {
        let extra = self.session.extra.as_ref();
        extra.is_some_and(|extra| extra.will.is_some())
    }

    /// How many subscriptions it has, shared ones included.
    #[must_use]
    pub fn subscription_count(&self) -> usize {
        self.session.subscriptions.len()
    }

    /// Its subscriptions from the one at `from` on. While none ends they are in the order in which they were made.
    pub fn subscriptions(&self, from: usize) -> impl Iterator<Item = SubscriptionView<'a>> + 'a {
        let subscriptions: &'a [Subscribed] = &self.session.subscriptions;
        subscriptions
            .iter()
            .skip(from)
            .map(|made| SubscriptionView {
                filter: &made.filter,
                share: made.share_name(),
                options: made.options,
                identifier: made.identifier,
            })
    }
}

impl Partition {
    /// Places of its table of sessions, free ones included; a walk goes over them.
    #[must_use]
    pub fn session_places(&self) -> u32 {
        u32::try_from(self.state.sessions.places()).expect("a table has at most 2^24 places")
    }

    /// The session at a place.
    #[must_use]
    pub fn session_at(&self, place: u32) -> Option<SessionView<'_>> {
        let session = self.state.sessions.at(place)?;
        Some(SessionView { session })
    }

    /// Tells the kept session at a place what it may use from now on; what waits beyond that goes, the oldest first.
    pub fn limit_session_at(&mut self, place: u32, limits: SessionLimits) {
        if let Some(session) = self.state.sessions.at(place) {
            self.limit_session(session.uid, limits);
        }
    }

    /// The session of a number.
    #[must_use]
    pub fn session(&self, uid: SessionUid) -> Option<SessionView<'_>> {
        let session = self.state.sessions.get(uid.0)?;
        Some(SessionView { session })
    }

    /// Tells a kept session what it may use from now on; what waits beyond that goes, the oldest first.
    pub fn limit_session(&mut self, uid: SessionUid, limits: SessionLimits) {
        if let Some(session) = self.state.sessions.get_mut(uid.0) {
            session.lead.limits = limits;
            self.watch_session(uid.0, limits);
        }
    }

    /// The session of a client id that is kept in this partition.
    #[must_use]
    pub fn stored_session(&self, client_id: &str) -> Option<SessionView<'_>> {
        let uid = self.state.by_client.get(client_id)?;
        let session = self.state.sessions.get(*uid)?;
        Some(SessionView { session })
    }

    /// The connection that has a client id whose slot is in this partition, wherever its session is.
    #[must_use]
    pub fn holder(&self, client_id: &str) -> Option<FrontId> {
        match self.lead.registry.clients.get(client_id)?.holder {
            Holder::Coming(front) | Holder::Clean(front, _) | Holder::Home(front, _) => Some(front),
            Holder::Leaving | Holder::Left => None,
        }
    }

    /// Ends the session of a client id as if its time were over: its will goes out, its messages are dropped. One that is in use is
    /// left alone.
    pub fn delete_session(
        &mut self,
        now: Now,
        client_id: &str,
        fx: &mut impl PartitionEffects,
    ) -> Deletion {
        self.lead.now = now;
        if !self.serves() {
            return Deletion::Unavailable;
        }
        match self.stored_session(client_id).map(|view| view.uid()) {
            Some(uid) => self.end_unless_in_use(uid, fx),
            None => Deletion::Unknown,
        }
    }

    /// The same for all sessions at these places whose owner is gone. Stops behind the one with which a thousand subscriptions end: an entry
    /// is applied as a whole.
    pub fn end_sessions(
        &mut self,
        now: Now,
        places: Range<u32>,
        is_gone: impl Fn(&str) -> bool,
        fx: &mut impl PartitionEffects,
    ) -> SessionsEnded {
        self.lead.now = now;
        let mut in_use = false;
        let mut filters = 0;
        for place in places.clone() {
            let session = self.state.sessions.at(place);
            let Some(session) = session.filter(|it| it.owner().is_some_and(&is_gone)) else {
                continue;
            };
            let (uid, its_filters) = (session.uid, session.subscriptions.len());
            match self.end_unless_in_use(uid, fx) {
                Deletion::InUse => in_use = true,
                Deletion::Proposed => filters += its_filters,
                Deletion::Unknown | Deletion::Unavailable => {}
            }
            if filters >= FILTERS_ENDED_MAX {
                let next = place + 1;
                return SessionsEnded { next, in_use };
            }
        }
        let next = places.end;
        SessionsEnded { next, in_use }
    }

    fn end_unless_in_use(&mut self, uid: SessionUid, fx: &mut impl PartitionEffects) -> Deletion {
        let Some(session) = self.state.sessions.get(uid.0) else {
            return Deletion::Unknown;
        };
        if session.lead.going == Going::Ended {
            return Deletion::Proposed;
        }
        // One whose detachment is proposed is attached until that is applied.
        if session.attached || self.lead.registry.is_taken(&session.client_id) {
            return Deletion::InUse;
        }
        self.send_will(uid, WillGoes::WithSession, fx);
        Deletion::Proposed
    }

    /// The next retained messages that match `filter`, at most `limit` (at least 1), in topic order behind `after`. Looks at no more
    /// than about `visits` topics: a page may be empty and have a next one.
    #[must_use]
    pub fn retained_page(
        &self,
        filter: &str,
        after: Option<&str>,
        (limit, visits): (usize, usize),
    ) -> RetainedPage<'_> {
        let scan = Scan {
            filter,
            after,
            limit,
            visits,
        };
        let mut found = Vec::new();
        let end = self.state.retained.scan_each(&scan, |topic, slot| {
            found.push(self.retained_view(slot, topic));
        });
        RetainedPage {
            found,
            next: end.next,
            visits: end.visits,
        }
    }

    /// The retained message of a topic.
    #[must_use]
    pub fn retained_of(&self, topic: &str) -> Option<RetainedView<'_>> {
        let slot = self.state.retained.get(topic)?;
        Some(self.retained_view(slot, || topic.to_owned()))
    }

    fn retained_view(&self, slot: Slot, topic: impl Fn() -> String) -> RetainedView<'_> {
        let records = &self.state.records;
        let address = records.address(slot);
        let is_lost = records.is_tombstone(slot);
        RetainedView {
            address: (LogIndex(address.index), address.ordinal),
            record: records.view(slot),
            lost: is_lost.then(|| topic().into_boxed_str()),
        }
    }
}
