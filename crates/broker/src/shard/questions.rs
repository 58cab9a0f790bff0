//! Answers to operators' questions: a bounded piece of work each.

mod retained;

use courser_contract::{
    CloseCause, CloseReason, FrontId, PartitionId, ToFront, WhyRefused, owner_name,
};
use courser_engine::{Deletion, LostReference, Partition, ReferenceSearch, SessionView};
use courser_mqtt::codec::{ProtocolVersion, ReasonCode};
use courser_mqtt::front::Redirect;
use tokio::sync::oneshot::Sender;

use super::Shard;
use super::budget::Budget;
use super::connection::Connection;
use super::fronts::Access;
use crate::control::{
    CLIENTS_AT_ONCE, ClientRow, Ended, Happened, Page, PastEvent, Question, SessionPlace,
    SessionRow, SubscriptionRow, SubscriptionStop, cause_words,
};
use crate::scrub::Missing;
use crate::slots::Places;

/// Places of a table of sessions that one question looks at.
const SESSIONS_AT_ONCE: u32 = 256;
/// Subscriptions of one answer.
const SUBSCRIPTIONS_AT_ONCE: usize = 256;
/// Places of streams that one question about damage looks at: of each it is looked up where its record was born.
const REFERENCES_AT_ONCE: usize = 1_024;
/// Events of one answer.
const EVENTS_AT_ONCE: usize = 256;
/// The reason by which a connection ends that may not be here, or not have what it asks for.
const NOT_AUTHORIZED: u8 = ReasonCode::NotAuthorized.byte();

/// Nobody may wait any more: the answer is for nothing then.
fn give<T>(answer: Sender<T>, value: T) {
    let _ = answer.send(value);
}

impl Shard {
    /// Answers one question in any case, and more while the turn has budget.
    pub(crate) fn answer_questions(&mut self) {
        if !self.desk.has_question() {
            return;
        }
        while let Some(question) = self.desk.take() {
            self.answer(question);
            self.handle_local();
            if self.hub.budget.is_spent() {
                return;
            }
        }
    }

    fn answer(&mut self, question: Question) {
        match question {
            Question::Report(answer) => give(answer, Box::new(self.report())),
            Question::Clients { from, answer } => give(answer, self.client_rows(from)),
            Question::Client { front, answer } => give(answer, self.client_row(front)),
            Question::Holder {
                partition,
                client_id,
                answer,
            } => give(answer, self.owned(partition).holder(&client_id)),
            Question::Kick { front, answer } => give(answer, self.kick(front)),
            Question::Redirect {
                front,
                redirect,
                answer,
            } => give(answer, self.redirect(front, &redirect)),
            Question::History { client_id, answer } => {
                give(answer, self.hub.watch.history.of_client(&client_id));
            }
            Question::Events { from, answer } => {
                give(answer, self.hub.watch.history.from(from, EVENTS_AT_ONCE));
            }
            Question::Trace {
                client_id,
                front,
                from,
                answer,
            } => give(answer, self.trace(&client_id, front, from)),
            Question::Sessions {
                partition,
                from,
                answer,
            } => give(answer, self.session_rows(partition, from)),
            Question::Session {
                partition,
                client_id,
                answer,
            } => give(answer, self.session_row(partition, &client_id)),
            Question::SessionAt { at, answer } => give(answer, self.session_row_at(at)),
            Question::EndSession {
                partition,
                client_id,
                answer,
            } => give(answer, self.end_session(partition, &client_id)),
            Question::Subscriptions {
                partition,
                from,
                answer,
            } => give(answer, self.subscription_rows(partition, from)),
            Question::Retained {
                partition,
                filter,
                after,
                answer,
            } => give(
                answer,
                self.retained_rows(partition, &filter, after.as_deref()),
            ),
            Question::RetainedMessage {
                partition,
                topic,
                answer,
            } => give(answer, self.retained_message(partition, &topic)),
            Question::Needs {
                partition,
                missing,
                from,
                answer,
            } => give(answer, self.needs(partition, &missing, from)),
            Question::Renew { partition, answer } => {
                let place = self.partitions.place(partition);
                if let Some(checkpoints) = &mut self.checkpoints {
                    checkpoints.renew(place);
                }
                give(answer, ());
            }
            Question::ClearRetained {
                partition,
                topics,
                answer,
            } => {
                self.clear_all_retained(partition, &topics);
                give(answer, ());
            }
        }
    }

    /// A partition of this shard.
    pub(super) fn owned(&mut self, id: PartitionId) -> &mut Partition {
        let place = self.partitions.place(id);
        let partition = self.partitions.at(place).partition.as_deref_mut();
        partition.expect("a partition is at home between calls")
    }

    fn client_rows(&mut self, from: u32) -> Page<ClientRow, u32> {
        let places = self.fronts.places();
        let end = places.min(from.saturating_add(CLIENTS_AT_ONCE));
        let rows: Vec<_> = (from..end)
            .filter_map(|place| self.client_row(self.fronts.id(place)?))
            .collect();
        self.hub
            .budget
            .spend(i64::from(end.saturating_sub(from)) * Budget::ROW);
        Page {
            rows,
            next: (end < places).then_some(end),
        }
    }

    /// None for one that was closed, also while its last bytes are on their way: nothing can be done with it any more.
    fn client_row(&mut self, front: FrontId) -> Option<ClientRow> {
        match self.fronts.get(front) {
            Access::Here(connection) if connection.takes_events() => {
                Some(client_row(front, connection))
            }
            Access::Here(_) | Access::Taken | Access::Gone => None,
        }
    }

    fn kick(&mut self, front: FrontId) -> bool {
        let closed = ToFront::Closed(CloseReason::Administrative);
        self.with_front(front, |it, now, fx| it.handle_message(now, closed, fx))
            .is_some()
    }

    fn redirect(&mut self, front: FrontId, redirect: &Redirect) -> bool {
        self.with_front(front, |it, now, fx| it.handle_redirect(now, redirect, fx))
            .is_some()
    }

    fn session_rows(&mut self, id: PartitionId, from: u32) -> Page<SessionRow, u32> {
        let partition = self.owned(id);
        let places = partition.session_places();
        let end = places.min(from.saturating_add(SESSIONS_AT_ONCE));
        let mut found: Vec<_> = (from..end)
            .filter_map(|place| Some((place, partition.session_at(place)?)))
            .map(|(place, session)| (session_row(id, place + 1, &session), session.front()))
            .collect();
        self.hub
            .budget
            .spend(i64::from(end.saturating_sub(from)) * Budget::ROW);
        for (row, front) in &mut found {
            self.own(row, *front);
        }
        Page {
            rows: found.into_iter().map(|(row, _)| row).collect(),
            next: (end < places).then_some(end),
        }
    }

    fn session_row(&mut self, id: PartitionId, client_id: &str) -> Option<SessionRow> {
        let session = self.owned(id).stored_session(client_id)?;
        Some(session_row(id, 0, &session))
    }

    fn session_row_at(&mut self, at: SessionPlace) -> Option<SessionRow> {
        let session = self.owned(at.partition).session(at.session)?;
        let (mut row, front) = (session_row(at.partition, 0, &session), session.front());
        self.own(&mut row, front);
        Some(row)
    }

    /// Whose a session in a volatile partition is, which its connection knows.
    fn own(&mut self, row: &mut SessionRow, front: Option<FrontId>) {
        self.name(&mut row.client_id, front);
        if row.user.is_none()
            && let Some(front) = front
            && let Access::Here(connection) = self.fronts.get(front)
        {
            row.user = user_of(connection);
        }
    }

    /// The name of a session in a volatile partition, which its front knows.
    fn name(&mut self, client_id: &mut Box<str>, front: Option<FrontId>) {
        if client_id.is_empty()
            && let Some(front) = front
            && let Access::Here(connection) = self.fronts.get(front)
        {
            *client_id = connection.front.client_id().into();
        }
    }

    /// Ends a session that has no connection.
    pub(super) fn end_session(&mut self, id: PartitionId, client_id: &str) -> Ended {
        let deletion = self.with_partition(id, |it, now, fx| it.delete_session(now, client_id, fx));
        match deletion {
            Deletion::Unknown => Ended::Unknown,
            Deletion::InUse => Ended::InUse,
            Deletion::Proposed => Ended::Proposed,
            Deletion::Unavailable => Ended::Unavailable,
        }
    }

    fn subscription_rows(
        &mut self,
        id: PartitionId,
        from: SubscriptionStop,
    ) -> Page<SubscriptionRow, SubscriptionStop> {
        let partition = self.owned(id);
        let places = partition.session_places();
        let end = places.min(from.session.saturating_add(SESSIONS_AT_ONCE));
        let mut found = Vec::new();
        let mut next = (end < places).then_some(SubscriptionStop {
            session: end,
            done: 0,
        });
        for place in from.session..end {
            let Some(session) = partition.session_at(place) else {
                continue;
            };
            let done = if place == from.session {
                from.done as usize
            } else {
                0
            };
            let room = SUBSCRIPTIONS_AT_ONCE - found.len();
            found.extend(subscription_rows(&session, place, done).take(room));
            if found.len() == SUBSCRIPTIONS_AT_ONCE {
                next = found.last().map(|(row, _)| row.behind);
                break;
            }
        }
        let looked = i64::from(end.saturating_sub(from.session)) + found.len() as i64;
        self.hub.budget.spend(looked * Budget::ROW);
        for (row, front) in &mut found {
            self.name(&mut row.client_id, *front);
        }
        Page {
            rows: found.into_iter().map(|(row, _)| row).collect(),
            next,
        }
    }

    /// What needs records that the disk has lost, from a place of what the partition stores on.
    fn needs(
        &mut self,
        id: PartitionId,
        missing: &Missing,
        from: ReferenceSearch,
    ) -> Page<LostReference, ReferenceSearch> {
        let place = self.partitions.place(id);
        if let Some(last) = missing.last_entry()
            && let Some(checkpoints) = &mut self.checkpoints
        {
            checkpoints.hasten(place, last);
        }
        if id == Places::METADATA {
            return Page {
                rows: Vec::new(),
                next: None,
            };
        }
        let is_meant = |index, byte| missing.has(index, byte);
        let (rows, next) = self
            .owned(id)
            .search_references(from, REFERENCES_AT_ONCE, is_meant);
        let looked = REFERENCES_AT_ONCE as i64 * Budget::DELIVERY;
        self.hub
            .budget
            .spend(looked + rows.len() as i64 * Budget::ROW);
        Page { rows, next }
    }

    /// Notes what happened to a connection.
    pub(crate) fn note_event(&mut self, connection: &Connection, what: Happened) {
        log(connection, what);
        if let Some(tracer) = &connection.tracer {
            let words = match what {
                Happened::Connected => "connected".to_owned(),
                Happened::Closed(cause) => format!("closed: {}", cause_words(cause)),
                Happened::Denied(deed) => deed.words().to_owned(),
            };
            tracer.note(self.hub.now, words);
        }
        let event = PastEvent {
            at: self.hub.now.wall,
            client_id: connection.front.client_id().into(),
            what,
            address: connection.peer.address,
            topic: None,
        };
        let since = connection.was_attached.then_some(connection.since);
        // The other ones were told when they were refused their login.
        if let (Happened::Closed(CloseCause::Refused(code, why)), None, Some(who)) =
            (what, since, connection.gate.principal())
            && let Some(code) = kept_out(code, why)
        {
            let client_id = connection.front.client_id();
            let accounts = &self.hub.access.accounts;
            let whom = (client_id, who.user.as_str());
            accounts.tell_kept_out(whom, (code, why), &connection.peer);
        }
        self.hub.watch.history.note(event, since);
    }
}

/// With what a client was kept out that had logged in, where that is to be said of it: it may not have what it asks for.
const fn kept_out(code: u8, why: WhyRefused) -> Option<ReasonCode> {
    match (code, why) {
        (NOT_AUTHORIZED, _) => Some(ReasonCode::NotAuthorized),
        (_, WhyRefused::UserSessions) => Some(ReasonCode::QuotaExceeded),
        (_, _) => None,
    }
}

/// For whoever wants each client in the log.
fn log(connection: &Connection, what: Happened) {
    let client_id = connection.front.client_id();
    let listener = &*connection.peer.entrance.name;
    let address = connection.peer.address.map(tracing::field::display);
    match what {
        Happened::Connected => {
            tracing::debug!(event = "client_connected", client_id, listener, address);
        }
        Happened::Closed(cause) => tracing::debug!(
            event = "client_disconnected",
            client_id,
            listener,
            address,
            cause = cause_words(cause)
        ),
        // It has a line of its own, as others have with it.
        Happened::Denied(_) => {}
    }
}

/// As whom it has logged in.
fn user_of(connection: &Connection) -> Option<Box<str>> {
    let who = connection.gate.principal();
    who.map(|who| who.user.as_str().into())
}

fn client_row(front: FrontId, connection: &mut Connection) -> ClientRow {
    ClientRow {
        front,
        client_id: connection.front.client_id().into(),
        version: connection.front.version().map(|version| match version {
            ProtocolVersion::V311 => 4,
            ProtocolVersion::V5 => 5,
        }),
        address: connection.peer.address,
        since: connection.since,
        keep_alive_seconds: connection.front.keep_alive_seconds(),
        listener: connection.peer.entrance.name.clone(),
        identity: connection.peer.identity.clone(),
        user: user_of(connection),
        session: connection.front.home().map(|home| SessionPlace {
            partition: home.partition,
            session: home.session,
        }),
        has_will: connection.has_will,
        output_bytes: connection.front.output().len() as u64,
        unsettled: connection.unsettled,
    }
}

fn session_row(partition: PartitionId, behind: u32, session: &SessionView<'_>) -> SessionRow {
    let (queued_messages, queued_bytes) = session.queued();
    SessionRow {
        at: SessionPlace {
            partition,
            session: session.uid(),
        },
        behind,
        client_id: session.client_id().into(),
        user: session.owner().map(|owner| owner_name(owner).into()),
        connected: session.front().is_some(),
        expiry_seconds: session.expiry_seconds(),
        ends_at: session.ends_at(),
        subscriptions: session.subscription_count() as u64,
        queued_messages,
        queued_bytes,
        in_flight: session.under_way(),
        has_will: session.has_will(),
    }
}

/// Subscriptions of the session at `place` from the one at `done` on, with its connection.
fn subscription_rows(
    session: &SessionView<'_>,
    place: u32,
    done: usize,
) -> impl Iterator<Item = (SubscriptionRow, Option<FrontId>)> {
    let (front, client_id) = (session.front(), session.client_id());
    let first = u32::try_from(done).expect("a session has fewer than 2^32 subscriptions");
    let numbered = (first + 1..).zip(session.subscriptions(done));
    numbered.map(move |(done, made)| {
        let row = SubscriptionRow {
            client_id: client_id.into(),
            behind: SubscriptionStop {
                session: place,
                done,
            },
            filter: made.filter.into(),
            share: made.share.map(Into::into),
            qos: made.options.qos,
            no_local: made.options.no_local,
            retain_as_published: made.options.retain_as_published,
            retain_handling: made.options.retain_handling,
            identifier: made.identifier,
        };
        (row, front)
    })
}
