//! Retained messages for new subscriptions (M34), and the answers to others' questions for them.

use courser_contract::{
    AppendKey, DeliverFlags, DeliverTo, Delivery, Dropped, Epoch, Fence, HomeRef, IndexToken,
    PartitionEffects, PartitionId, Permission, QoS, Record, RecordView, RetainedFound,
    RetainedScan, ScanRef, SessionUid, ToFront, ToPartition,
};
use std::{rc::Rc, sync::Arc};

use crate::{
    Partition, PlantedPartition,
    entry::{PublishFact, Rare, RetainMark, ScanState, Target, TargetList, Targets},
    lead::{After, Fenced},
    retained::Scan,
    session::{Session, Subscribed},
};

mod open;

use self::open::{Asker, Finding};
pub(crate) use self::open::{OpenScan, OpenScans};

/// Most messages of one answer: a page costs a question, an entry and a turn of each side, whatever is on it.
const FIND_MAX: u32 = 255;
/// Least messages that a session with a full window takes between two questions, unless its window is smaller: fewer are not worth one.
const SHARE_MIN: u32 = 64;
/// Most bytes of one answer, or one message.
const FIND_BYTES_MAX: usize = 32 << 10;
/// Most topics that one question looks at.
const VISITS_MAX: usize = 1_024;

/// How a message goes to sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    /// Into their streams.
    Stored,
    /// To those with a connection, at most once.
    Routed,
}

impl Partition {
    /// The fence of some scans has passed: they may ask.
    pub(crate) fn begin_scans(
        &mut self,
        uid: SessionUid,
        scans: &[u64],
        fx: &mut impl PartitionEffects,
    ) {
        for &number in scans {
            let Some(open) = self.lead.scans.get(uid, number) else {
                continue;
            };
            let exact = !open.filter.contains(['+', '#']);
            let mut partitions = if exact {
                smallvec::smallvec![fx.retained_partition(&open.filter)]
            } else {
                fx.retained_partitions()
            };
            let session = self.state.sessions.get(uid.0);
            let extra = session.and_then(|session| session.extra.as_ref());
            let scan = extra.and_then(|extra| extra.scans.get(&number));
            let finished = |p: &PartitionId| {
                scan.is_some_and(|scan| scan.cursors.get(p) == Some(&ScanState::Finished))
            };
            partitions.retain(|p| !finished(p));
            partitions.reverse();
            self.lead.scans.begin(uid, number, partitions.to_vec());
            self.end_scan_if_done(uid, number);
        }
        self.scan_on(uid.0, fx);
    }

    /// Asks for more retained messages, as far as the session has room; one question at a time.
    pub(crate) fn scan_on(&mut self, stream: u64, fx: &mut impl PartitionEffects) {
        if self.lead.scans.is_empty() {
            return;
        }
        let uid = SessionUid(stream);
        let Some(session) = self.state.sessions.get(stream) else {
            return;
        };
        let Some((asker, limit)) = self.scan_limit(session) else {
            return;
        };
        let asks = self.lead.next_request();
        let Some((number, partition)) = self.lead.scans.ask(uid, asker, asks) else {
            return;
        };
        let open = self.lead.scans.get(uid, number);
        let open = open.expect("it has just asked");
        let scan = session
            .extra
            .as_ref()
            .and_then(|extra| extra.scans.get(&number));
        let reached = open.reached.iter().find(|(at, _)| *at == partition);
        let stored = scan.and_then(|scan| scan.cursors.get(&partition));
        let after = match (reached, stored) {
            (Some((_, topic)), _) | (None, Some(ScanState::After(topic))) => Some(topic.clone()),
            (None, Some(ScanState::Finished) | None) => None,
        };
        let question = RetainedScan {
            scan: ScanRef {
                home: HomeRef {
                    partition: self.config.id,
                    session: uid,
                },
                scan: number,
                question: asks,
            },
            filter: open.filter.clone(),
            after,
            limit: u8::try_from(limit.min(FIND_MAX)).expect("it is at most 255"),
        };
        fx.send_partition(partition, ToPartition::ScanRetained(Box::new(question)));
    }

    /// How many messages a session may be found, if any: as its window has room. Where it has none, live messages come faster than the session
    /// takes them: it is asked for as many as were taken, so that finds neither starve nor fill the stream. For one that is away nothing is taken,
    /// but most filters find nothing: their scans end without it.
    fn scan_limit(&self, session: &Session) -> Option<(Asker, u32)> {
        let Some(live) = &session.lead.live else {
            return Some((Asker::Absent, FIND_MAX));
        };
        let backlog = i64::from(session.stream.live()) + i64::from(session.lead.reserved.messages);
        let limit = match u32::try_from(i64::from(live.window) - backlog) {
            Ok(room @ 1..) => room,
            Ok(0) | Err(_) => {
                let taken = self.lead.scans.taken(session.uid);
                let taken = taken.min(u32::from(live.window));
                if taken < SHARE_MIN.min(u32::from(live.window)) || !self.is_low(session.uid.0) {
                    return None;
                }
                taken
            }
        };
        Some((Asker::Present, limit))
    }

    /// Whether a session has taken all that one question brings it: the next one need not wait for the entry that says so.
    pub(crate) fn has_taken_its_finds(&self, uid: SessionUid, window: u16) -> bool {
        !self.lead.scans.is_empty() && self.lead.scans.taken(uid) >= FIND_MAX.min(u32::from(window))
    }

    /// Another partition, or this one, wants retained messages: answered once all that was pushed here is applied.
    pub(crate) fn scan_retained(
        &mut self,
        scan: Box<RetainedScan>,
        fx: &mut impl PartitionEffects,
    ) {
        if self.gather.facts() > 0 {
            self.gather.hurry();
        }
        self.after_all(After::Scan(scan), fx);
    }

    /// Answers a question for retained messages.
    pub(crate) fn answer_scan(&mut self, scan: &RetainedScan, fx: &mut impl PartitionEffects) {
        let wall = self.wall();
        let mut found = Vec::new();
        let question = Scan {
            filter: &scan.filter,
            after: scan.after.as_deref(),
            limit: usize::from(scan.limit.max(1)),
            visits: VISITS_MAX,
        };
        let end = self.state.retained.scan(&question, &mut found);
        self.state.l2.note_looked_at(end.visits);
        // They are counted once, when their loss is accepted, and told until then.
        if self.state.records.tombstones() > 0 {
            let records = &self.state.records;
            found.retain(|slot| !records.is_tombstone(*slot));
        }
        let mut records: Vec<Record> = Vec::new();
        let (mut bytes, mut next) = (0, end.next);
        let mut withheld = 0;
        let found = found.into_iter().map(|slot| self.state.records.get(slot));
        for record in found.filter(|record| record.expires_at().is_none_or(|at| at > wall)) {
            let record = record.to_record();
            let view = record.view();
            if is_withheld(&view, fx) {
                withheld += 1;
                continue;
            }
            bytes += view.encoded_len();
            if let (true, Some(last)) = (bytes > FIND_BYTES_MAX, records.last()) {
                next = Some(last.view().topic.into());
                break;
            }
            records.push(record);
        }
        if withheld > 0 {
            fx.dropped(Dropped::AuthorDenied, withheld);
        }
        let answer = RetainedFound {
            scan: scan.scan,
            partition: self.config.id,
            records,
            next,
            at: wall,
        };
        let to = scan.scan.home.partition;
        fx.send_partition(to, ToPartition::RetainedFound(Box::new(answer)));
    }

    /// An answer.
    pub(crate) fn retained_found(&mut self, found: &RetainedFound, fx: &mut impl PartitionEffects) {
        self.take_found(found, fx);
        self.ask_in_line(fx);
    }

    /// What is found goes the way of a message, after the marks of the subscription. An answer to a question of an earlier leader is not taken,
    /// and neither is a second one, to a question that was sent again: this leader asks, or has asked, for the same messages.
    fn take_found(&mut self, found: &RetainedFound, fx: &mut impl PartitionEffects) {
        let uid = found.scan.home.session;
        let number = found.scan.scan;
        let answered = self.lead.scans.answered(uid, number, found.scan.question);
        let Some((open, asker)) = answered else {
            return;
        };
        let session = self.state.sessions.get(uid.0);
        let subscription =
            session.and_then(|session| Some((session, session.find(None, &open.filter)?)));
        let Some((session, at)) = subscription else {
            self.lead.scans.remove(uid, number);
            return self.scan_on(uid.0, fx);
        };
        let subscription = &session.subscriptions[at];
        let target = found_target(uid, subscription);
        let no_local = subscription.options.no_local;
        let client = no_local.then(|| session.publisher());
        // Nothing of what is delivered here changes what overtakes.
        let may_be_late = self.lead.scans.has_overtaken(uid);
        let is_own = |view: &RecordView<'_>| client.is_some() && view.publisher == client;
        let is_wanted = |scans: &OpenScans, view: &RecordView<'_>| {
            let late = may_be_late && scans.finding(uid, number, view) == Finding::Overtaken;
            !late && !is_own(view)
        };
        let mut views = found.records.iter().map(Record::view);
        let mut unclear = views
            .clone()
            .filter(|view| !is_own(view))
            .map(|view| self.lead.scans.finding(uid, number, &view));
        if may_be_late && unclear.any(|it| it == Finding::Unclear) {
            return self.clear_up((uid, number), found.partition, fx);
        }
        let is_away = asker == Asker::Absent || session.lead.live.is_none();
        if is_away && views.any(|view| is_wanted(&self.lead.scans, &view)) {
            self.keep_for_return((uid, number), found.partition);
            return self.scan_on(uid.0, fx);
        }
        let list = Rc::new(TargetList::of_one(target));
        let mut routed = 0;
        for record in &found.records {
            let view = record.view();
            if is_wanted(&self.lead.scans, &view) {
                routed += self.deliver_found(uid, (record, &view), &list, fx);
            }
        }
        self.pace_found(uid, routed, fx);
        self.scan_moved((uid, number), found);
        self.scan_on(uid.0, fx);
    }

    /// Which of what was found and what has come live is the newer one only the keeper knows: it is asked again once it has everything (M34).
    fn clear_up(
        &mut self,
        (uid, number): (SessionUid, u64),
        partition: PartitionId,
        fx: &mut impl PartitionEffects,
    ) {
        if let Some(open) = self.lead.scans.get_mut(uid, number) {
            open.waiting.push(partition);
        }
        let token = self.lead.next_token();
        self.lead.scans.clear_up(uid, token);
        self.fence_order(uid, token, fx);
    }

    fn fence_order(
        &mut self,
        session: SessionUid,
        token: IndexToken,
        fx: &mut impl PartitionEffects,
    ) {
        let fenced = Fenced::Order { session, token };
        self.lead.index.fences.insert(token, fenced);
        fx.fence(token, Fence::Forwarded);
    }

    /// One of the fences of [`Self::clear_up`] has passed.
    pub(crate) fn order_fence_passed(
        &mut self,
        uid: SessionUid,
        token: IndexToken,
        fx: &mut impl PartitionEffects,
    ) {
        let next = self.lead.next_token();
        match self.lead.scans.order_fence_passed(uid, token, next) {
            Some(token) => self.fence_order(uid, token, fx),
            None => self.scan_on(uid.0, fx),
        }
    }

    /// There is something for a session that was away. It stays where it is: it is there once for all who want it, by then there may be a newer
    /// one, and what has QoS 0 would be lost. The scan asks again once the session is back; until then its other filters ask.
    fn keep_for_return(&mut self, (uid, number): (SessionUid, u64), partition: PartitionId) {
        if let Some(open) = self.lead.scans.get_mut(uid, number) {
            open.waiting.push(partition);
            open.has_found = true;
        }
    }

    /// A scan has come as far as an answer says.
    fn scan_moved(&mut self, (uid, number): (SessionUid, u64), found: &RetainedFound) {
        let Some(open) = self.lead.scans.get_mut(uid, number) else {
            return;
        };
        let state = match &found.next {
            Some(topic) => {
                open.waiting.push(found.partition);
                open.reached.retain(|(at, _)| *at != found.partition);
                open.reached.push((found.partition, topic.clone()));
                ScanState::After(topic.clone())
            }
            None => ScanState::Finished,
        };
        if !self.end_scan_if_done(uid, number) {
            self.write(&Rare::ScanMoved {
                session: uid,
                scan: number,
                partition: found.partition,
                state,
            });
        }
    }

    /// Sessions that are away and waited for answers to others ask.
    fn ask_in_line(&mut self, fx: &mut impl PartitionEffects) {
        while let Some(uid) = self.lead.scans.next_in_line() {
            self.scan_on(uid.0, fx);
        }
    }

    /// A partition is set aside: what it keeps is not left out, it comes once that partition serves and this one has a new
    /// leader.
    pub(crate) fn retained_withheld(&mut self, scan: ScanRef, fx: &mut impl PartitionEffects) {
        let uid = scan.home.session;
        let answered = self.lead.scans.answered(uid, scan.scan, scan.question);
        if let Some((open, _)) = answered {
            open.withheld = true;
            self.scan_on(uid.0, fx);
        }
        self.ask_in_line(fx);
    }

    /// What has gone at QoS 0 has no place in the window: the front says when its client has taken it, or an output would be full of retained
    /// messages and drop the rest.
    fn pace_found(&mut self, uid: SessionUid, routed: u64, fx: &mut impl PartitionEffects) {
        let session = self.state.sessions.get(uid.0);
        if let Some(live) = session.and_then(|session| session.lead.live.as_ref())
            && routed > 0
            && self.lead.scans.has_sent(uid, routed)
        {
            fx.send_front(live.front, ToFront::RetainedPage);
        }
    }

    /// Its answer.
    pub(crate) fn page_taken(
        &mut self,
        uid: SessionUid,
        epoch: Epoch,
        fx: &mut impl PartitionEffects,
    ) {
        let session = self.state.sessions.get(uid.0);
        if session.is_some_and(|session| session.epoch == epoch) {
            self.lead.scans.front_has_room(uid);
            self.scan_on(uid.0, fx);
        }
    }

    /// Bytes that have gone to a connection without a place in its window.
    fn deliver_found(
        &mut self,
        uid: SessionUid,
        (record, view): (&Record, &RecordView<'_>),
        list: &Rc<TargetList>,
        fx: &mut impl PartitionEffects,
    ) -> u64 {
        let target = &list.targets[0];
        if view.qos.min(target.qos) > QoS::AtMostOnce {
            // Who published was asked before for the last time.
            let view = RecordView {
                publisher: None,
                author: None,
                ..*view
            };
            self.store_for(&view, list, fx);
            return 0;
        }
        let session = self.state.sessions.get(uid.0);
        let Some(live) = session.and_then(|session| session.lead.live.as_ref()) else {
            fx.dropped(Dropped::Offline, 1);
            return 0;
        };
        let to = DeliverTo {
            front: live.front,
            source: None,
            packet_id: None,
            qos: QoS::AtMostOnce,
            flags: DeliverFlags {
                retain: true,
                duplicate: false,
                shared: false,
            },
            identifiers: target.identifiers.clone(),
        };
        let delivery = Delivery {
            view,
            record: Some(record.as_ref()),
        };
        fx.deliver(delivery, std::slice::from_ref(&to));
        view.encoded_len() as u64
    }

    fn end_scan_if_done(&mut self, uid: SessionUid, number: u64) -> bool {
        let open = self.lead.scans.get(uid, number);
        let is_done = open.is_some_and(OpenScan::is_done);
        if is_done {
            self.lead.scans.remove(uid, number);
            self.write(&Rare::ScanEnded {
                session: uid,
                scan: number,
            });
        }
        is_done
    }

    /// Scans of subscriptions that have ended or were made anew find nothing more, v5 [MQTT-3.3.1-11]; others that waited for one of them go on.
    pub(crate) fn drop_replaced_scans(&mut self, uid: SessionUid, fx: &mut impl PartitionEffects) {
        if !self.lead.scans.has_any(uid) {
            return;
        }
        let session = self.state.sessions.get(uid.0);
        let extra = session.and_then(|session| session.extra.as_ref());
        let is_replaced = |number: u64| extra.is_none_or(|it| !it.scans.contains_key(&number));
        if self.lead.scans.forget(uid, is_replaced) > 0 {
            self.scan_on(uid.0, fx);
        }
    }

    /// A session is attached again: its scans go on.
    pub(crate) fn resume_scans(&mut self, uid: SessionUid, fx: &mut impl PartitionEffects) {
        self.lead.scans.has_front(uid);
        self.scan_on(uid.0, fx);
    }

    /// A message goes to sessions: if it has RETAIN, what their scans still find for its topic may be older (M34). A session that
    /// does not get it will have to do with the find: one that is not among `targets` because L1 did not know of it when the
    /// message was matched, one without room, and for what is only routed one without a connection.
    #[inline]
    pub(crate) fn note_live_retained(
        &mut self,
        targets: &[Target],
        view: &RecordView<'_>,
        how: Goes,
    ) {
        if view.retain
            && !self.lead.scans.is_empty()
            && !self.is_planted(PlantedPartition::FoundLate)
        {
            self.note_overtaken(targets, view, how);
        }
    }

    fn note_overtaken(&mut self, targets: &[Target], view: &RecordView<'_>, how: Goes) {
        let streams = targets.iter().map(|target| target.stream);
        let get_it = streams.filter(|&stream| match how {
            Goes::Stored => true,
            Goes::Routed => self.state.has_live(stream),
        });
        self.lead.scans.note_live(view, get_it.map(SessionUid));
    }

    /// Stores a message for the whole of a short list of sessions of this partition, or for those of them that have room.
    fn store_for(
        &mut self,
        view: &RecordView<'_>,
        list: &Rc<TargetList>,
        fx: &mut impl PartitionEffects,
    ) {
        let key = AppendKey::Unanswered;
        match self.reserve(&list.targets, view.encoded_len() as u64, fx) {
            None if self.gather.went_to(list) => {
                PublishFact::write(&mut self.gather, &key, false, Targets::Same, view);
            }
            None => {
                self.write_publish(&key, false, &list.targets, view);
                self.gather.goes_to(list);
            }
            Some(fitting) if fitting.is_empty() => {}
            Some(fitting) => self.write_publish(&key, false, &fitting, view),
        }
    }
}

/// How a found message is delivered: RETAIN set (v3 [MQTT-3.3.1-8], v5 [MQTT-3.3.1-8]), the one subscription's identifier.
fn found_target(uid: SessionUid, subscription: &Subscribed) -> Target {
    Target {
        stream: uid.0,
        qos: subscription.options.qos,
        retain: RetainMark::Set,
        identifiers: subscription
            .identifier
            .map(|identifier| Arc::from([identifier])),
    }
}

/// Whether nobody gets a retained message now: it stays, and comes again with its author's right (ADR 20).
fn is_withheld(view: &RecordView<'_>, fx: &mut impl PartitionEffects) -> bool {
    let author = view.author;
    author.is_some_and(|author| fx.permits_retained(author, view.topic) == Permission::Denied)
}
