//! Sessions and their subscriptions as the log keeps them.

use std::collections::BTreeMap;

use compact_str::CompactString;
use courser_contract::{SessionUid, WallMs};

use super::{IndexChanged, Sink, State, weight};
use crate::{
    checkpoint::Saved,
    entry::AttachFact,
    ids::{self, Owner},
    l2::{Entry, FilterChange},
    session::{Scan, Session, Subscribed, Subscriptions},
    stream::Stream,
};

impl State {
    /// Whether a session is there and a connection takes its messages.
    pub(crate) fn has_live(&self, session: u64) -> bool {
        let session = self.sessions.get(session);
        session.is_some_and(|session| session.lead.live.is_some())
    }

    /// Whether somebody is there who takes from a stream: its session, or a member of its group.
    pub(crate) fn is_taken_from(&self, stream: u64) -> bool {
        match ids::owner(stream) {
            Owner::Session => self.has_live(stream),
            Owner::Group => {
                let group = self.groups.get(stream);
                group.is_some_and(|group| !group.lead.fronts.is_empty())
            }
        }
    }

    pub(super) fn open_session(&mut self, uid: SessionUid, client_id: &str, attach: &AttachFact) {
        self.last_session = self.last_session.max(ids::counter(uid.0));
        let mut session = Box::new(Session {
            uid,
            client_id: CompactString::from(client_id),
            owner: None,
            epoch: attach.epoch,
            attached: true,
            will_forgotten: false,
            receive_maximum: attach.receive_maximum,
            expiry_seconds: attach.expiry_seconds,
            ends_at: None,
            sent_limit: 0,
            stream: Stream::default(),
            subscriptions: Subscriptions::default(),
            extra: None,
            lead: crate::session::SessionLead::default(),
            saved: Saved::all(self.saved),
        });
        attach_session(&mut session, attach);
        self.session_bytes += weight::of_session(&session);
        if !client_id.is_empty() {
            self.by_client.insert(session.client_id.clone(), uid.0);
        }
        self.sessions.insert(uid.0, session);
    }

    pub(super) fn end_session(&mut self, uid: SessionUid, sink: &mut impl Sink) {
        let Some(mut session) = self.sessions.remove(uid.0) else {
            return;
        };
        sink.ended(&session);
        self.session_bytes -= weight::of_whole(&session);
        if let Some(extra) = &session.extra {
            for request in &extra.leaves {
                self.leaves.remove(request);
            }
        }
        if self.by_client.get(&session.client_id) == Some(&uid.0) {
            self.by_client.remove(&session.client_id);
        }
        for subscription in &*session.subscriptions {
            self.forget_subscription(uid, subscription);
        }
        let chunks = self.drain_stream(uid.0, &mut session.stream);
        if let Some(saving) = &mut self.saving {
            saving.keep_session(session, chunks);
        }
    }

    fn forget_subscription(&mut self, uid: SessionUid, subscription: &Subscribed) {
        self.subscriptions -= 1;
        self.session_bytes -= weight::of_subscription(subscription);
        self.shared_subscriptions -= u64::from(subscription.share.is_some());
        if subscription.share.is_none()
            && self.l2.remove(&subscription.filter, uid.0) == FilterChange::Changed
        {
            self.index_changes
                .insert(subscription.filter.clone(), IndexChanged::Removed);
        }
    }

    pub(super) fn unsubscribe(&mut self, uid: SessionUid, share: Option<&str>, filter: &str) {
        let Some(session) = self.sessions.get_mut(uid.0) else {
            return;
        };
        if let Some(at) = session.find(share, filter) {
            let gone = session.subscriptions.remove(at);
            if share.is_none() {
                self.drop_scans(uid, filter);
            }
            self.forget_subscription(uid, &gone);
        }
    }

    pub(super) fn subscribe(&mut self, uid: SessionUid, made: Subscribed, scan: u64) {
        if let Some(share) = made.share_name() {
            self.take_leave_back(uid, share, &made.filter);
        }
        let Some(session) = self.sessions.get_mut(uid.0) else {
            return;
        };
        if made.share.is_none() {
            let entry = Entry::new(uid.0, made.options, made.identifier);
            if self.l2.insert(&made.filter, entry) == FilterChange::Changed {
                self.index_changes
                    .insert(made.filter.clone(), IndexChanged::Added);
            }
        }
        self.last_scan = self.last_scan.max(scan);
        let before = session.find(made.share_name(), &made.filter);
        if scan != 0 {
            if before.is_some() {
                self.drop_scans(uid, &made.filter);
            }
            self.begin_scan(uid, scan, &made.filter);
        }
        let Some(session) = self.sessions.get_mut(uid.0) else {
            return;
        };
        match before {
            Some(at) => {
                let before = session.subscriptions.replace(at, made);
                if let (Some(now), Some(before)) =
                    (session.subscriptions.share_mut(at), before.share)
                {
                    now.group = before.group;
                }
            }
            None => {
                self.shared_subscriptions += u64::from(made.share.is_some());
                self.session_bytes += weight::of_subscription(&made);
                session.subscriptions.push(made);
                self.subscriptions += 1;
            }
        }
    }

    fn begin_scan(&mut self, uid: SessionUid, number: u64, filter: &str) {
        let begun = Scan {
            filter: filter.into(),
            cursors: BTreeMap::new(),
        };
        self.session_bytes += weight::of_scan(&begun);
        self.change_weight(uid, |it| {
            it.extra_mut().scans.insert(number, begun);
        });
    }

    /// Drops the scans of a filter.
    fn drop_scans(&mut self, uid: SessionUid, filter: &str) {
        let mut bytes = 0;
        self.change_weight(uid, |it| {
            if let Some(extra) = &mut it.extra {
                let gone = extra
                    .scans
                    .extract_if(.., |_, scan| &*scan.filter == filter);
                bytes = gone.map(|(_, scan)| weight::of_scan(&scan)).sum();
            }
            it.tidy_extra();
        });
        self.session_bytes -= bytes;
    }
}

/// What a connection brings.
pub(super) fn attach_session(session: &mut Session, attach: &AttachFact) {
    session.epoch = attach.epoch;
    session.attached = true;
    session.expiry_seconds = attach.expiry_seconds;
    session.receive_maximum = attach.receive_maximum;
    session.sent_limit = session.sent_limit.max(attach.sent_limit);
    session.ends_at = None;
    match &attach.will {
        Some(will) => session.extra_mut().will = Some(will.clone()),
        None => {
            if let Some(extra) = &mut session.extra {
                extra.will = None;
            }
        }
    }
    set_will_due(session, None);
}

/// A will without a moment is dropped by the caller's `Rare::WillTaken` or stays with the connection.
pub(super) fn set_will_due(session: &mut Session, due: Option<WallMs>) {
    if due.is_some() || session.extra.is_some() {
        session.extra_mut().will_due = due;
        session.tidy_extra();
    }
}
