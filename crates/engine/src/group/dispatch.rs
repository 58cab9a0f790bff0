//! The leader's half of a group: what each member has under way, and what goes to whom next.

mod ahead;
mod aside;
mod kept;
mod news;

pub(crate) use self::{ahead::Up, news::News};

use std::collections::{BTreeMap, BTreeSet};

use courser_contract::{
    FrontId, GroupRoom, HomeRef, MemberConnection, OutcomeKind, QoS, Seq, Uptake,
};

use super::seats::{Receiver, SeatId, Seats, Standing, Turn};
use super::{Fact, Group, Leave, Member, Owed};
use crate::{emptied::Emptied, seq_table::SeqTable};

/// Messages that are set aside for members without room, over all members; only when the topic chooses. More than a queue holds by default, so that
/// who takes nothing holds up nobody else; at some 17 bytes each. Where a larger queue is allowed, the group waits for the slowest from here on.
pub(crate) const ASIDE_MAX: usize = 1 << 17;

/// Deliveries that may begin before the count of the earlier ones has committed (M21).
const UNCOUNTED_MAX: u32 = 2;

/// A message that wants a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Hash of its topic, the same on every node.
    pub(crate) topic_hash: u64,
    /// Its QoS.
    pub(crate) qos: QoS,
}

/// What there is of a message that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is done, expired or gone.
    Gone,
    /// It is not in memory: nothing behind it goes out before it is there.
    Absent,
    /// It may be given out.
    Here(Message),
}

/// A message with its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// The message.
    pub(crate) seq: Seq,
    /// Who gets it.
    pub(crate) receiver: Receiver,
    /// Lower of the message's and the granted one (v5 [MQTT-4.8.2-3]). At most once: the front says when it has left.
    /// Exactly once: the front is asked for a packet id ([`Dispatch::named`]), it is sent after [`Fact::Assigned`] has
    /// committed (M31).
    pub(crate) qos: QoS,
    /// Which delivery of the message this is, from 1.
    pub(crate) attempt: u32,
}

/// A message under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnderWay {
    seat: SeatId,
    qos: QoS,
    step: Step,
}

/// How far a delivery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// QoS 2: the front is asked for a packet id, nothing has left (M31).
    Asked,
    /// It may have been sent, or will be without another word of the front.
    Begun,
    /// The same at QoS 1, and it is written down that it is owed: no member was left that would get it otherwise.
    Kept,
}

impl UnderWay {
    /// Whether it is written down whose it is, or about to be.
    const fn is_owed(&self) -> bool {
        match self.step {
            Step::Asked => false,
            Step::Begun => matches!(self.qos, QoS::ExactlyOnce),
            Step::Kept => true,
        }
    }
}

/// Leader's memory of a group, see the module above. A message costs two operations of a ring and no allocation.
#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    seats: Seats,
    /// Messages from here on were not looked at.
    cursor: Seq,
    /// But these: owed to sessions when this memory began.
    taken_up: BTreeSet<Seq>,
    under_way: SeqTable<UnderWay>,
    /// To go out again, before anything newer.
    returned: BTreeSet<Seq>,
    /// To go out again once their count of deliveries has committed (M21).
    uncounted: BTreeSet<Seq>,
    /// Messages set aside, counted over all seats.
    aside: usize,
    /// Members that some messages are too large for.
    too_large: BTreeMap<Seq, BTreeSet<HomeRef>>,
    /// Deliveries of messages that came back, also those not committed yet.
    attempts: BTreeMap<Seq, u32>,
    news: News,
}

impl Dispatch {
    /// The memory of a new leader: nobody has a connection, and every message from `floor` on that is not done is to go out,
    /// but those owed to a session.
    pub(crate) fn new(group: &Group, floor: Seq) -> Self {
        let mut dispatch = Self {
            seats: Seats::new(group.strategy()),
            cursor: floor,
            taken_up: BTreeSet::new(),
            under_way: SeqTable::default(),
            returned: BTreeSet::new(),
            uncounted: BTreeSet::new(),
            aside: 0,
            too_large: BTreeMap::new(),
            attempts: BTreeMap::new(),
            news: News::default(),
        };
        for (home, &member) in group.members() {
            dispatch.seats.place(home, member, Standing::Member);
        }
        for (seq, owed) in group.all_owed() {
            dispatch.take_up(seq, owed);
        }
        dispatch
    }

    fn take_up(&mut self, seq: Seq, owed: &Owed) {
        let nobody = Member {
            options: courser_contract::SubscriptionOptions::default(),
            identifier: None,
            priority: 0,
        };
        let seat = self
            .seats
            .seat_of(owed.member)
            .unwrap_or_else(|| self.seats.place(owed.member, nobody, Standing::Leaving));
        match owed.is_kept() {
            true => self.begin(seq, (seat, QoS::AtLeastOnce), Step::Kept),
            false => self.begin(seq, (seat, QoS::ExactlyOnce), Step::Begun),
        }
        if seq >= self.cursor {
            self.taken_up.insert(seq);
        }
    }

    /// A join has been applied to `group`.
    pub(crate) fn joined(&mut self, group: &Group, home: HomeRef) {
        if let Some(&member) = group.member(home) {
            self.seats.place(home, member, Standing::Member);
        }
    }

    /// A leave has been applied. What was begun is finished after an unsubscribe; at the end of a session QoS 1 goes to
    /// others and QoS 2 to nobody. A session may end that unsubscribed before, and is still owed something.
    ///
    /// Returns deliveries for which its front was asked for packet ids that are not wanted any more.
    pub(crate) fn left(
        &mut self,
        group: &Group,
        home: HomeRef,
        why: Leave,
        facts: &mut Vec<Fact>,
    ) -> Vec<Seq> {
        let Some(seat) = self.seats.seat_of(home) else {
            return Vec::new();
        };
        let mut withdrawn = Vec::new();
        let member = self.seats.get(seat).member;
        self.seats.place(home, member, Standing::Leaving);
        self.free_aside(seat);
        match why {
            Leave::Unsubscribed => withdrawn = self.withdraw(seat),
            Leave::SessionEnded => {
                self.end_kept(seat, facts);
                self.take_back(group, seat, facts);
                for seq in self.under_way_at(seat) {
                    self.end(seq, seat);
                }
            }
        }
        self.keep_begun(group, facts);
        self.clear_away(seat);
        withdrawn
    }

    /// What a session that has left was asked for and has not named goes to others. So nothing of it is uncommitted for long.
    fn withdraw(&mut self, seat: SeatId) -> Vec<Seq> {
        let all = self.under_way.iter();
        let asked = all.filter(|(_, at)| at.seat == seat && at.step == Step::Asked);
        let asked: Vec<Seq> = asked.map(|(seq, _)| seq).collect();
        for &seq in &asked {
            self.end(seq, seat);
            self.returned.insert(seq);
        }
        asked
    }

    /// A member's connection came. It is sent again what [`Group::owed_to`] says. How fast it reads is said apart, also before.
    pub(crate) fn attached(&mut self, home: HomeRef, connection: MemberConnection) {
        if let Some(seat) = self.seats.seat_of(home) {
            self.seats.connect(seat, Some(connection));
        }
    }

    /// How fast the client of a member reads.
    pub(crate) fn reads(&mut self, home: HomeRef, uptake: Uptake) {
        if let Some(seat) = self.seats.seat_of(home) {
            self.seats.set_uptake(seat, uptake);
        }
    }

    /// What the front of a member has room for, after it gave something back.
    pub(crate) fn has_places(&mut self, home: HomeRef, room: GroupRoom) {
        if let Some(seat) = self.seats.seat_of(home) {
            self.seats.has_places(seat, room);
        }
    }

    /// Whether a session has this connection, and was sent again on it what it is owed.
    pub(crate) fn is_attached(&self, home: HomeRef, front: Option<FrontId>) -> bool {
        let seat = self.seats.seat_of(home);
        front.is_some() && seat.is_some_and(|seat| self.seats.get(seat).front == front)
    }

    /// A member's connection went. Its QoS 1 messages go back, in order and before newer ones, each with one delivery more
    /// counted; its QoS 2 messages stay with the session (v5 [MQTT-4.8.2-4]), and those of QoS 1 where the group has no member.
    pub(crate) fn detached(&mut self, group: &Group, home: HomeRef, facts: &mut Vec<Fact>) {
        let Some(seat) = self.seats.seat_of(home) else {
            return;
        };
        self.seats.connect(seat, None);
        self.free_aside(seat);
        self.take_back(group, seat, facts);
        self.clear_away(seat);
    }

    /// No member has a connection any more: what was kept for messages to come is given back. A group may rest for as long as its members' sessions live.
    pub(crate) fn rest(&mut self) {
        self.seats.rest();
        self.taken_up.give_back_if_empty();
        self.under_way.shrink();
        self.returned.give_back_if_empty();
        self.uncounted.give_back_if_empty();
        self.too_large.give_back_if_empty();
        self.attempts.give_back_if_empty();
    }

    /// What has come to its end since the last call.
    pub(crate) fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// Whether something has come to its end since then.
    pub(crate) const fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Whether a session takes part, or has something under way.
    pub(crate) fn knows(&self, home: HomeRef) -> bool {
        self.seats.seat_of(home).is_some()
    }

    /// What a member's front says of the deliveries `first..=last`; those that are not with this member are passed over. What
    /// is to be written down is appended to `facts`. A refusal by the client ends a message for all (v5 [MQTT-4.8.2-6]). Returns how many
    /// are too large for all members that have a connection; these end.
    pub(crate) fn outcome(
        &mut self,
        home: HomeRef,
        (first, last): (Seq, Seq),
        kind: OutcomeKind,
        facts: &mut Vec<Fact>,
    ) -> u64 {
        let Some(seat) = self.seats.seat_of(home) else {
            return 0;
        };
        let mut too_large = 0;
        let mut from = first;
        while let Some((seq, &under_way)) = self.under_way.next_from(from)
            && seq <= last
        {
            from = Seq(seq.0 + 1);
            if under_way.seat == seat {
                let kind = match kind {
                    OutcomeKind::TooLarge if !self.set_aside_for_another(seq, seat) => {
                        too_large += 1;
                        OutcomeKind::Skipped
                    }
                    kind => kind,
                };
                self.outcome_of(seq, under_way, kind, facts);
            }
        }
        self.clear_away(seat);
        too_large
    }

    /// A member's front has chosen a packet id for what it was asked about: `facts` say whose it is, and it is sent when they
    /// have committed (M31).
    pub(crate) fn named(&mut self, home: HomeRef, seq: Seq, packet_id: u16, facts: &mut Vec<Fact>) {
        let seat = self.seats.seat_of(home);
        if let Some(at) = self.under_way.get_mut(seq)
            && Some(at.seat) == seat
            && at.step == Step::Asked
        {
            at.step = Step::Begun;
            facts.push(Fact::Assigned {
                seq,
                member: home,
                packet_id: Some(packet_id),
            });
        }
    }

    fn outcome_of(
        &mut self,
        seq: Seq,
        under_way: UnderWay,
        kind: OutcomeKind,
        facts: &mut Vec<Fact>,
    ) {
        let UnderWay { seat, qos, step } = under_way;
        match kind {
            OutcomeKind::Done | OutcomeKind::Rejected | OutcomeKind::Skipped => {
                self.end(seq, seat);
                self.forget(seq);
                facts.push(Fact::Done { seq });
                if qos == QoS::ExactlyOnce {
                    self.news.finished.push((self.seats.get(seat).home, seq));
                }
            }
            OutcomeKind::Received => {
                if qos == QoS::ExactlyOnce && step == Step::Begun {
                    facts.push(Fact::Received { seq });
                }
            }
            OutcomeKind::TooLarge => {
                self.end(seq, seat);
                if under_way.is_owed() {
                    facts.push(Fact::Unassigned { seq });
                }
                if qos == QoS::ExactlyOnce && step == Step::Begun {
                    self.news.finished.push((self.seats.get(seat).home, seq));
                }
            }
            OutcomeKind::Returned => {
                self.end(seq, seat);
                self.returned.insert(seq);
                self.seats.pass_over(seat);
                self.seats.has_places(seat, GroupRoom::Places(0));
                if under_way.is_owed() {
                    facts.push(Fact::Unassigned { seq });
                }
            }
        }
    }

    /// A message cannot be sent to its member, and was not before: it is free again, and so is its packet id, once that is committed. Then
    /// [`give_again`](Self::give_again) follows: a front that is asked sooner would take it for void.
    pub(crate) fn not_sent(&mut self, seq: Seq, facts: &mut Vec<Fact>) {
        let Some(&UnderWay { seat, qos, step }) = self.under_way.get(seq) else {
            return;
        };
        if (qos, step) != (QoS::ExactlyOnce, Step::Begun) {
            return;
        }
        self.end(seq, seat);
        facts.push(Fact::Unassigned { seq });
        self.news.unsent.push((self.seats.get(seat).home, seq));
        self.clear_away(seat);
    }

    /// A message that was not sent may be given to anyone.
    pub(crate) fn give_again(&mut self, seq: Seq) {
        if !self.is_under_way(seq) && !self.waits(seq) {
            self.returned.insert(seq);
        }
    }

    /// A message is given up, since its bytes are lost; no member has it by what is committed. The member whose front is still asked for a
    /// packet id comes back: it is not wanted.
    pub(crate) fn give_up(&mut self, seq: Seq) -> Option<HomeRef> {
        let &UnderWay { seat, qos, step } = self.under_way.get(seq)?;
        let home = self.seats.get(seat).home;
        self.end(seq, seat);
        self.forget(seq);
        let is_asked = step == Step::Asked;
        if qos == QoS::ExactlyOnce && !is_asked {
            self.news.unsent.push((home, seq));
        }
        self.clear_away(seat);
        is_asked.then_some(home)
    }

    /// [`Fact::Attempts`] has committed: the next delivery may begin (M21).
    pub(crate) fn counted(&mut self, group: &Group, seq: Seq) {
        let attempts = self.attempts.get(&seq).copied().unwrap_or(0);
        if group.attempts(seq) >= attempts && self.uncounted.remove(&seq) {
            self.returned.insert(seq);
        }
    }

    /// The next message with its receiver: what was set aside first, then what came back, then new ones below `end`. The
    /// caller looks messages up in the stream. None: nobody has room, there is nothing to send, or what comes next is not in memory.
    pub(crate) fn next(
        &mut self,
        group: &Group,
        end: Seq,
        mut message: impl FnMut(Seq) -> Look,
    ) -> Option<Assignment> {
        while self.seats.has_room() {
            let (seq, up) = self.next_waiting(end)?;
            let wanting = match message(seq) {
                Look::Here(wanting) => wanting,
                Look::Gone => {
                    self.forget(seq);
                    continue;
                }
                Look::Absent => {
                    self.put_back(seq, up);
                    return None;
                }
            };
            let turn = match up {
                Up::Aside(seat) => Turn::Seat(seat),
                Up::Returned | Up::New => self.seats.turn(wanting.topic_hash, self.waiting(end)),
            };
            match turn {
                Turn::Seat(seat) => return Some(self.assign(group, seq, seat, wanting.qos)),
                Turn::Busy(seat) if self.aside < ASIDE_MAX => {
                    self.seats.get_mut(seat).aside.insert(seq);
                    self.aside += 1;
                }
                Turn::Busy(_) | Turn::Nobody => {
                    self.returned.insert(seq);
                    return None;
                }
            }
        }
        None
    }

    /// These messages go out before all that nobody has looked at.
    pub(crate) fn put_first(&mut self, seqs: impl Iterator<Item = Seq>) {
        for seq in seqs.filter(|seq| *seq >= self.cursor) {
            self.taken_up.insert(seq);
            self.returned.insert(seq);
        }
    }

    /// Takes the next messages out that wait for anyone, at most `most`: they are given to no member of this group. Those that wait
    /// for the count of their deliveries come later.
    pub(crate) fn take_waiting(&mut self, end: Seq, most: usize) -> Vec<Seq> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((seq, _)) = self.next_waiting(end)
        {
            self.forget(seq);
            taken.push(seq);
        }
        taken
    }

    /// Whether a message waits for anyone.
    pub(crate) fn has_waiting(&self, end: Seq) -> bool {
        self.cursor < end || !self.returned.is_empty() || !self.uncounted.is_empty()
    }

    /// Messages that wait for anyone, the one included that was just taken out.
    fn waiting(&self, end: Seq) -> usize {
        let new = usize::try_from(end.0.saturating_sub(self.cursor.0)).unwrap_or(usize::MAX);
        new.saturating_add(self.returned.len() + 1)
    }

    /// Takes the next message out of where it waits.
    fn next_waiting(&mut self, end: Seq) -> Option<(Seq, Up)> {
        if self.aside > 0
            && let Some(seat) = self.seats.ready_with_aside()
            && let Some(seq) = self.seats.get_mut(seat).aside.pop_first()
        {
            self.aside -= 1;
            return Some((seq, Up::Aside(seat)));
        }
        if let Some(seq) = self.returned.pop_first() {
            return Some((seq, Up::Returned));
        }
        while self.cursor < end {
            let seq = self.cursor;
            self.cursor = Seq(seq.0 + 1);
            if self.taken_up.is_empty() || !self.taken_up.remove(&seq) {
                return Some((seq, Up::New));
            }
        }
        None
    }

    fn assign(&mut self, group: &Group, seq: Seq, seat: SeatId, qos: QoS) -> Assignment {
        let receiver = self.receiver(seat);
        let qos = qos.min(receiver.member.options.qos);
        let attempt = 1 + self.attempts_of(group, seq);
        match qos {
            QoS::AtMostOnce | QoS::AtLeastOnce => self.begin(seq, (seat, qos), Step::Begun),
            QoS::ExactlyOnce => self.begin(seq, (seat, qos), Step::Asked),
        }
        self.seats.took_place(seat);
        Assignment {
            seq,
            receiver,
            qos,
            attempt,
        }
    }

    /// The receiver of a QoS 0 message of at most so many bytes, which is not stored and takes no room: a full window does not keep it out,
    /// a missing connection does. None: it is dropped.
    pub(crate) fn pick_unstored(&mut self, topic_hash: u64, bytes: usize) -> Option<Receiver> {
        let seat = self.seats.turn_unstored(topic_hash, bytes)?;
        Some(self.receiver(seat))
    }

    /// Whether a session has messages that are its own, committed or not.
    pub(crate) fn has_begun(&self, home: HomeRef) -> bool {
        self.seats.seat_of(home).is_some_and(|seat| {
            let mut all = self.under_way.iter();
            all.any(|(_, at)| at.seat == seat && (at.qos == QoS::ExactlyOnce || at.is_owed()))
        })
    }

    /// Whether a message is under way or owed, and nothing says otherwise.
    pub(crate) fn is_under_way(&self, seq: Seq) -> bool {
        self.under_way.get(seq).is_some()
    }

    /// Number of messages under way or owed.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Whether a message waits for a member, and so may expire or be dropped. One that is neither waiting nor under way is finished, and the
    /// entry that says so is on its way.
    pub(crate) fn waits(&self, seq: Seq) -> bool {
        let is_new = seq >= self.cursor && !self.taken_up.contains(&seq);
        let is_aside = || {
            let mut seats = self.seats.iter();
            self.aside > 0 && seats.any(|(_, seat)| seat.aside.contains(&seq))
        };
        is_new || self.returned.contains(&seq) || self.uncounted.contains(&seq) || is_aside()
    }

    /// All from there on wait.
    pub(crate) fn begun_below(&self) -> Seq {
        let last = self.taken_up.last().map_or(0, |last| last.0 + 1);
        self.cursor.max(Seq(last))
    }

    /// Asserts the invariants of the module above, together with the replicated half.
    pub(crate) fn check(&self, group: &Group) {
        self.seats.check();
        self.under_way.check();
        let mut places: Vec<Seq> = self
            .returned
            .iter()
            .chain(&self.uncounted)
            .copied()
            .collect();
        let mut aside = 0;
        for (id, seat) in self.seats.iter() {
            let mine = self
                .under_way
                .iter()
                .filter(|(_, at)| at.seat == id)
                .count();
            assert_eq!(
                mine, seat.outstanding as usize,
                "what is under way is counted"
            );
            assert!(
                seat.standing == Standing::Member || mine > 0,
                "who has left and has nothing has no seat"
            );
            assert_eq!(
                seat.standing == Standing::Member,
                group.member(seat.home).is_some(),
                "members have seats"
            );
            aside += seat.aside.len();
            places.extend(&seat.aside);
        }
        assert_eq!(aside, self.aside, "what is set aside is counted");
        assert!(
            places
                .iter()
                .all(|seq| *seq < self.cursor || self.taken_up.contains(seq)),
            "what waits was looked at"
        );
        places.extend(self.under_way.iter().map(|(seq, _)| seq));
        let total = places.len();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), total, "a message is in one place");
    }

    fn receiver(&self, seat: SeatId) -> Receiver {
        let place = self.seats.get(seat);
        Receiver {
            home: place.home,
            front: place
                .front
                .expect("a member whose turn it is has a connection"),
            member: place.member,
        }
    }

    fn attempts_of(&self, group: &Group, seq: Seq) -> u32 {
        match self.attempts.get(&seq) {
            Some(&attempts) => attempts,
            None => group.attempts(seq),
        }
    }

    /// What is done has no count any more, and nobody whom it is too large for.
    fn forget(&mut self, seq: Seq) {
        if !self.attempts.is_empty() {
            self.attempts.remove(&seq);
        }
        if !self.too_large.is_empty() {
            self.too_large.remove(&seq);
        }
    }

    fn begin(&mut self, seq: Seq, (seat, qos): (SeatId, QoS), step: Step) {
        self.under_way.insert(seq, UnderWay { seat, qos, step });
        self.seats.count(seat, 1);
    }

    fn end(&mut self, seq: Seq, seat: SeatId) {
        if self.under_way.remove(seq).is_some() {
            self.seats.count(seat, -1);
        }
    }

    fn under_way_at(&self, seat: SeatId) -> Vec<Seq> {
        let mine = self.under_way.iter().filter(|(_, at)| at.seat == seat);
        mine.map(|(seq, _)| seq).collect()
    }

    /// Takes the QoS 1 messages of a member back, for those that there are.
    fn take_back(&mut self, group: &Group, seat: SeatId, facts: &mut Vec<Fact>) {
        for seq in self.under_way_at(seat) {
            let Some(&at) = self.under_way.get(seq) else {
                continue;
            };
            match (at.qos, at.step) {
                (QoS::ExactlyOnce, Step::Begun | Step::Kept) => continue,
                (QoS::ExactlyOnce, Step::Asked) => {
                    self.end(seq, seat);
                    self.returned.insert(seq);
                    continue;
                }
                (QoS::AtMostOnce | QoS::AtLeastOnce, Step::Kept) if !group.has_members() => {
                    continue;
                }
                (QoS::AtMostOnce | QoS::AtLeastOnce, Step::Kept) => {
                    self.end(seq, seat);
                    facts.push(Fact::Unassigned { seq });
                }
                (QoS::AtMostOnce | QoS::AtLeastOnce, Step::Asked | Step::Begun) => {
                    self.end(seq, seat);
                }
            }
            let attempts = self.attempts_of(group, seq) + 1;
            self.attempts.insert(seq, attempts);
            facts.push(Fact::Attempts { seq, attempts });
            if attempts < UNCOUNTED_MAX {
                self.returned.insert(seq);
            } else {
                self.uncounted.insert(seq);
            }
        }
    }

    /// Who has left and has nothing under way has no seat.
    fn clear_away(&mut self, seat: SeatId) {
        let place = self.seats.get(seat);
        if place.standing == Standing::Leaving && place.outstanding == 0 {
            self.news.cleared.push(place.home);
            self.seats.remove(seat);
        }
    }
}
