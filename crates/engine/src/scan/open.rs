//! Scans of retained messages that are under way, of all sessions of a partition.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::BuildHasher,
};

use courser_contract::{IndexToken, PartitionId, RecordView, SessionUid};
use hashbrown::HashMap;

use self::overtaken::{Last, Overtaken};
use crate::state::weight::of_next;

mod overtaken;

type Hasher = foldhash::fast::RandomState;

/// A scan of retained messages under way.
#[derive(Debug)]
pub(crate) struct OpenScan {
    pub(crate) filter: Box<str>,
    /// How many live messages with RETAIN had been noted when it was asked for.
    since: u64,
    /// Its fence has passed, as the how manieth.
    begun: Option<u64>,
    /// The question that a partition has been asked and has not answered.
    asked: Option<u64>,
    /// One is set aside: the scan stays open until a later leader asks it again.
    pub(crate) withheld: bool,
    /// There is something for the session, which had no connection to take it: it asks again once there is one.
    pub(crate) has_found: bool,
    /// Partitions that are still to be asked, the next one last.
    pub(crate) waiting: Vec<PartitionId>,
    /// Up to where partitions have answered: ahead of the cursors of the state while the entries of the finds are under way.
    pub(crate) reached: Vec<(PartitionId, Box<str>)>,
}

impl OpenScan {
    fn new(filter: Box<str>, since: u64) -> Self {
        Self {
            filter,
            since,
            begun: None,
            asked: None,
            withheld: false,
            has_found: false,
            waiting: Vec::new(),
            reached: Vec::new(),
        }
    }

    /// Nobody is asked or has to be.
    pub(crate) const fn is_done(&self) -> bool {
        self.begun.is_some() && self.asked.is_none() && !self.withheld && self.waiting.is_empty()
    }
}

/// Longer messages are not compared with what is found, which may then come again: of so many bytes a live one costs a turn some 0.1 ms, where a
/// session that gets it has scans.
const COMPARED_BYTES_MAX: usize = 1 << 20;
/// Found messages of QoS 0 that are sent before the front is asked whether its client takes them, in bytes: an output has room for more.
const UNASKED_BYTES: u64 = 32 << 10;
/// Most sessions without a connection whose questions are under way at once: nobody waits for the answers, and after a start there may be as many
/// as have scans.
const ABSENT_MAX: usize = 64;

/// For whom a scan asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A session with a connection: it takes what is found.
    Present,
    /// One without: it is asked whether there is anything.
    Absent,
}

/// What a live message says of a find for its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// There was none.
    Wanted,
    /// The live one was newer, or is the same.
    Overtaken,
    /// One may be newer than the other, whichever that is.
    Unclear,
}

/// How far it is settled which live messages are newer than what is found.
///
/// Beside a live message of before the fence of a scan, or shortly behind it, the find may be the newer one: a shard that had the filter, or the
/// session's own partition, gave the live one, and another shard matched the later one without it. The keeper alone knows their order. So two
/// fences more pass one after the other: whatever comes behind the first was matched once the keeper had all that was matched without the filter;
/// whatever came before it is at the keeper when the second one has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    /// Nothing was unclear.
    #[default]
    Open,
    /// A fence is under way for all scans up to this one; behind the first one it is noted what had come.
    Fenced {
        token: IndexToken,
        begun: u64,
        live: Option<u64>,
    },
}

/// What the scans of one session have in common.
#[derive(Debug, Default)]
struct OfSession {
    /// One at least.
    scans: usize,
    /// Those with lower numbers have nobody to ask.
    ask_from: u64,
    /// One of them has asked and got no answer: the others wait.
    asking: Option<Asker>,
    /// Bytes of QoS 0 that were sent since the front was asked last, and whether it has not answered.
    sent: u64,
    waits_for_front: bool,
    /// Messages of its stream that it has taken since a scan asked last.
    taken: u32,
    overtaken: Overtaken,
    order: Order,
    /// For scans up to the one with this place among those that have begun: what was noted behind this number is newer than what they
    /// find, and what was before it is not.
    clear: Option<(u64, u64)>,
}

/// See the module. A session may have thousands, for as many filters: what happens to one of them looks at no others.
#[derive(Debug, Default)]
pub(crate) struct OpenScans {
    scans: BTreeMap<(SessionUid, u64), OpenScan>,
    sessions: HashMap<SessionUid, OfSession, Hasher>,
    /// Questions of sessions without a connection that are under way.
    absent: usize,
    /// Sessions without a connection that have a question to ask when there are fewer.
    line: BTreeSet<SessionUid>,
    /// Live messages with RETAIN that were noted.
    live: u64,
    /// Scans whose fence has passed.
    begun: u64,
    topics: Hasher,
}

impl OpenScans {
    /// What it takes for each scan, its filter and the topics that it has reached not counted: lists of 64 partitions that are to be asked and of four that were.
    pub(crate) const SCAN_BYTES: usize = of_next::<(SessionUid, u64), OpenScan>()
        + 64 * size_of::<PartitionId>()
        + 4 * size_of::<(PartitionId, Box<str>)>();
    /// And for each session that has some, in a table half of which may be empty.
    pub(crate) const SESSION_BYTES: usize = 2 * size_of::<(SessionUid, OfSession)>();

    pub(crate) fn is_empty(&self) -> bool {
        self.scans.is_empty()
    }

    /// Whether a session has any.
    pub(crate) fn has_any(&self, uid: SessionUid) -> bool {
        self.sessions.contains_key(&uid)
    }

    /// A scan that has not begun.
    pub(crate) fn open(&mut self, uid: SessionUid, number: u64, filter: Box<str>) {
        let open = OpenScan::new(filter, self.live);
        let before = self.scans.insert((uid, number), open);
        debug_assert!(before.is_none(), "numbers are given once");
        self.sessions.entry(uid).or_default().scans += 1;
    }

    pub(crate) fn get(&self, uid: SessionUid, number: u64) -> Option<&OpenScan> {
        self.scans.get(&(uid, number))
    }

    /// To change whom it has to ask.
    pub(crate) fn get_mut(&mut self, uid: SessionUid, number: u64) -> Option<&mut OpenScan> {
        let of = self.sessions.get_mut(&uid)?;
        of.ask_from = of.ask_from.min(number);
        self.scans.get_mut(&(uid, number))
    }

    /// The fence of a scan has passed: it may ask these, the next one last.
    pub(crate) fn begin(&mut self, uid: SessionUid, number: u64, waiting: Vec<PartitionId>) {
        self.begun += 1;
        let begun = self.begun;
        if let Some(open) = self.get_mut(uid, number) {
            open.waiting = waiting;
            open.begun = Some(begun);
        }
    }

    /// A live message with RETAIN goes to those of some sessions that have scans: what these still find for its topic is older, or the order of the
    /// two has to be made clear (M34). A look-up for each session, however many scans there are.
    pub(crate) fn note_live(
        &mut self,
        view: &RecordView<'_>,
        sessions: impl Iterator<Item = SessionUid>,
    ) {
        self.live += 1;
        let mut noted = None;
        for uid in sessions {
            if let Some(of) = self.sessions.get_mut(&uid) {
                let (topic, last) = *noted.get_or_insert_with(|| {
                    let last = Last {
                        number: self.live,
                        says: says(&self.topics, view),
                    };
                    (self.topics.hash_one(view.topic), last)
                });
                of.overtaken.note(topic, last);
            }
        }
    }

    /// Whether a session got any live message with RETAIN while it had scans.
    pub(crate) fn has_overtaken(&self, uid: SessionUid) -> bool {
        let of = self.sessions.get(&uid);
        of.is_some_and(|of| !of.overtaken.is_empty())
    }

    /// What is known of a find beside the last live message for its topic since its scan was asked for.
    pub(crate) fn finding(&self, uid: SessionUid, number: u64, view: &RecordView<'_>) -> Finding {
        let (Some(open), Some(of)) = (self.scans.get(&(uid, number)), self.sessions.get(&uid))
        else {
            return Finding::Wanted;
        };
        let topic = self.topics.hash_one(view.topic);
        let Some(last) = of.overtaken.since(topic, open.since) else {
            return Finding::Wanted;
        };
        if last.says.is_some() && last.says == says(&self.topics, view) {
            return Finding::Overtaken;
        }
        let clear = of.clear.filter(|(up_to, _)| open.begun <= Some(*up_to));
        match clear {
            None => Finding::Unclear,
            Some((_, since)) if last.number > since => Finding::Overtaken,
            Some(_) => Finding::Wanted,
        }
    }

    /// Something that a session's scans have found is unclear: until [`Self::order_fence_passed`] has said that it is clear they ask nothing.
    pub(crate) fn clear_up(&mut self, uid: SessionUid, token: IndexToken) {
        let begun = self.begun;
        if let Some(of) = self.sessions.get_mut(&uid) {
            let live = None;
            of.order = Order::Fenced { token, begun, live };
        }
    }

    /// A fence of [`Self::clear_up`] has passed: the token of another one, `next`, if that is needed. None: it is clear, or nobody waits for this one any
    /// more.
    pub(crate) fn order_fence_passed(
        &mut self,
        uid: SessionUid,
        passed: IndexToken,
        next: IndexToken,
    ) -> Option<IndexToken> {
        let of = self.sessions.get_mut(&uid)?;
        let Order::Fenced { token, begun, live } = of.order else {
            return None;
        };
        if token != passed {
            return None;
        }
        if let Some(live) = live {
            of.order = Order::Open;
            of.clear = Some((begun, live));
            return None;
        }
        let (token, live) = (next, Some(self.live));
        of.order = Order::Fenced { token, begun, live };
        Some(token)
    }

    /// So many bytes of QoS 0 were sent. Whether the front is to be asked: until it has answered no scan of the session asks for more.
    pub(crate) fn has_sent(&mut self, uid: SessionUid, bytes: u64) -> bool {
        let Some(of) = self.sessions.get_mut(&uid) else {
            return false;
        };
        of.sent += bytes;
        of.waits_for_front |= of.sent >= UNASKED_BYTES;
        of.waits_for_front
    }

    /// A session has taken messages of its stream.
    pub(crate) fn note_taken(&mut self, uid: SessionUid, count: u64) {
        if let Some(of) = self.sessions.get_mut(&uid) {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            of.taken = of.taken.saturating_add(count);
        }
    }

    /// How many it has taken since the last question.
    pub(crate) fn taken(&self, uid: SessionUid) -> u32 {
        self.sessions.get(&uid).map_or(0, |of| of.taken)
    }

    /// The front has room for more.
    pub(crate) fn front_has_room(&mut self, uid: SessionUid) {
        if let Some(of) = self.sessions.get_mut(&uid) {
            of.sent = 0;
            of.waits_for_front = false;
        }
    }

    /// There is a new front.
    pub(crate) fn has_front(&mut self, uid: SessionUid) {
        self.front_has_room(uid);
        self.line.remove(&uid);
        if let Some(of) = self.sessions.get_mut(&uid) {
            of.ask_from = 0;
        }
    }

    /// The next question of a session: the scan that asks, and the partition that is asked. None while one waits for an answer, for the
    /// front, or, of a session without one, for the answers of others.
    pub(crate) fn ask(
        &mut self,
        uid: SessionUid,
        asker: Asker,
        question: u64,
    ) -> Option<(u64, PartitionId)> {
        let of = self.sessions.get_mut(&uid)?;
        let waits = of.waits_for_front && asker == Asker::Present;
        if of.asking.is_some() || of.order != Order::Open || waits {
            return None;
        }
        let may_ask = |open: &OpenScan| match asker {
            Asker::Present => !open.waiting.is_empty(),
            Asker::Absent => !open.waiting.is_empty() && !open.has_found,
        };
        let mut scans = self.scans.range_mut((uid, of.ask_from)..=(uid, u64::MAX));
        let Some((&(_, number), open)) = scans.find(|(_, open)| may_ask(open)) else {
            of.ask_from = u64::MAX;
            return None;
        };
        of.ask_from = number;
        if asker == Asker::Absent {
            if self.absent >= ABSENT_MAX {
                self.line.insert(uid);
                return None;
            }
            self.absent += 1;
        }
        of.asking = Some(asker);
        of.taken = 0;
        open.asked = Some(question);
        open.has_found = false;
        Some((number, open.waiting.pop()?))
    }

    /// The scan whose question is answered, and for whom it asked; none if it has not asked this one, or has its answer.
    pub(crate) fn answered(
        &mut self,
        uid: SessionUid,
        number: u64,
        question: u64,
    ) -> Option<(&mut OpenScan, Asker)> {
        let open = self.scans.get_mut(&(uid, number))?;
        open.asked.take_if(|asked| *asked == question)?;
        let of = self.sessions.get_mut(&uid)?;
        of.ask_from = of.ask_from.min(number);
        let asker = of.asking.take()?;
        self.absent -= usize::from(asker == Asker::Absent);
        Some((open, asker))
    }

    /// A session that has waited for the answers of others, once one of them has come.
    pub(crate) fn next_in_line(&mut self) -> Option<SessionUid> {
        if self.absent >= ABSENT_MAX {
            return None;
        }
        self.line.pop_first()
    }

    /// Takes scans of a session out by their numbers; how many.
    pub(crate) fn forget(&mut self, uid: SessionUid, is_over: impl Fn(u64) -> bool) -> usize {
        let mine = (uid, 0)..=(uid, u64::MAX);
        let over = self
            .scans
            .extract_if(mine, |&(_, number), _| is_over(number));
        let (count, asked) = over.fold((0, false), |(count, asked), (_, open)| {
            (count + 1, asked | open.asked.is_some())
        });
        self.are_gone(uid, count, asked);
        count
    }

    /// Takes one out.
    pub(crate) fn remove(&mut self, uid: SessionUid, number: u64) {
        if let Some(open) = self.scans.remove(&(uid, number)) {
            self.are_gone(uid, 1, open.asked.is_some());
        }
    }

    /// So many of a session are taken out, one of which may have asked.
    fn are_gone(&mut self, uid: SessionUid, count: usize, asked: bool) {
        if let Some(of) = self.sessions.get_mut(&uid) {
            of.scans -= count;
            if asked && of.asking.take() == Some(Asker::Absent) {
                self.absent -= 1;
            }
            if of.scans == 0 {
                self.line.remove(&uid);
                self.sessions.remove(&uid);
            }
        }
    }
}

/// A hash of what a message says, if it is not too long for that.
fn says(hasher: &Hasher, view: &RecordView<'_>) -> Option<u64> {
    let bytes = view.payload.len() + view.properties.len();
    let is_short = bytes <= COMPARED_BYTES_MAX;
    is_short.then(|| hasher.hash_one((view.payload, view.properties)))
}

#[cfg(test)]
mod tests;
