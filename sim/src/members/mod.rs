//! A partition's consensus with three members, each with a disk of its own: messages are lost, delayed and cut off, disks are
//! slow, and power goes, while entries are proposed. Then all is well, and the members must agree and serve (I13).
//!
//! The other worlds have one node, whose groups are of one. Here is nothing but groups; what must hold is looked at from outside
//! after every step, see [`Seen`].

mod member;
mod seen;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

use bytes::Bytes;
use courser_cluster::{Consensus, NodeId, PeerMessage, Role};
use courser_contract::Term;

use self::member::Member;
use self::seen::Seen;
use crate::bug::Bug;
use crate::rng::Rng;
use crate::seeds::Plan;
use crate::world::{Counts, Outcome};

/// Steps with faults.
const STEPS: u64 = 10_000;
/// Ticks in which the members must elect a leader once the faults are over: ten seconds of 100 ms (I13).
const ELECTION_TICKS: u64 = 100;
/// Ticks after the last entry in which all must have it.
const QUIET_TICKS: u64 = 20;

/// See the module.
struct Members {
    rng: Rng,
    members: Vec<Member>,
    links: BTreeMap<(usize, usize), VecDeque<PeerMessage>>,
    cut: BTreeSet<(usize, usize)>,
    seen: Seen,
    step: u64,
    proposed: u64,
    counts: Counts,
    trace: String,
}

/// Runs a plan with members to its end or to the first violation.
pub(crate) fn run(plan: &Plan) -> Outcome {
    let mut members = Members::new(plan);
    members.live();
    Outcome {
        violation: members.seen.violation.take(),
        trace: members.trace,
        counts: members.counts,
        uses: crate::oracle::Uses::default(),
    }
}

impl Members {
    fn new(plan: &Plan) -> Self {
        let planted = plan.bug.and_then(Bug::in_consensus);
        let number = usize::from(plan.members);
        let members = (0..number).map(|id| Member::new(id, number, plan.seed, planted));
        Self {
            rng: Rng::new(plan.seed ^ 0x0003_3E3B_E250_0000),
            members: members.collect(),
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            seen: Seen::default(),
            step: 0,
            proposed: 0,
            counts: Counts::default(),
            trace: String::new(),
        }
    }

    fn live(&mut self) {
        while self.step < STEPS && !self.failed() {
            self.step += 1;
            self.counts.events += 1;
            self.do_something();
        }
        if !self.failed() {
            self.heal();
        }
    }

    const fn failed(&self) -> bool {
        self.seen.violation.is_some()
    }

    fn note(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.trace, "{:>7} {line}", self.step);
    }

    fn some_member(&mut self) -> usize {
        self.rng.below(self.members.len() as u64) as usize
    }

    fn do_something(&mut self) {
        let (id, other) = (self.some_member(), self.some_member());
        let is_up = self.members[id].is_up();
        match self.rng.below(1_000) {
            0..380 => self.deliver_some(id, other),
            380..520 if is_up => self.sync(id),
            520..620 if is_up => self.tick(id),
            620..950 if is_up => drop(self.propose(id)),
            950..956 => drop(self.take_message(id, other)),
            956..959 => self.isolate(id),
            959..962 => {
                self.cut.insert((id, other));
                self.links.remove(&(id, other));
            }
            962..976 => self.cut.clear(),
            976..980 if is_up => self.lose_power(id),
            980..1_000 if !is_up => self.start(id),
            _ => self.deliver_some(id, other),
        }
    }

    fn deliver_some(&mut self, from: usize, to: usize) {
        for _ in 0..self.rng.below(4) {
            self.deliver(from, to);
        }
    }

    fn take_message(&mut self, from: usize, to: usize) -> Option<PeerMessage> {
        self.links.get_mut(&(from, to))?.pop_front()
    }

    /// The oldest message of a link arrives, if there is one and somebody to take it.
    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let Some(message) = self.take_message(from, to) else {
            return false;
        };
        let Some(group) = self.members[to].group_mut() else {
            return true;
        };
        if let Err(error) = group.step(NodeId(from as u16), message) {
            let text = format!("I6: member {from} says to {to} what no member says: {error}");
            self.seen.fail(text);
        }
        self.poll(to);
        true
    }

    /// The oldest batch of a member is durable.
    fn sync(&mut self, id: usize) {
        if self.members[id].sync() {
            self.poll(id);
        }
    }

    fn tick(&mut self, id: usize) {
        if let Some(group) = self.members[id].group_mut() {
            group.tick();
            self.poll(id);
        }
    }

    /// A client's entry comes to a member that says that it leads.
    fn propose(&mut self, id: usize) -> bool {
        if !matches!(self.members[id].role, Role::Leader(_)) {
            return false;
        }
        self.proposed += 1;
        let entry = Bytes::from(format!("{} of {id}", self.proposed));
        let group = self.members[id].group_mut();
        let taken = group.is_some_and(|group| group.propose(entry).is_ok());
        self.counts.published += u64::from(taken);
        self.poll(id);
        taken
    }

    /// The member is gone, with all that was on its way from and to it; of what its disk was writing, the first part is there.
    fn lose_power(&mut self, id: usize) {
        let rng = &mut self.rng;
        self.members[id].lose_power(|end| rng.below(end));
        self.links.retain(|&(from, to), _| from != id && to != id);
        self.note(format_args!("member {id} loses power"));
    }

    fn start(&mut self, id: usize) {
        self.note(format_args!("member {id} starts"));
        self.counts.recoveries += 1;
        match self.members[id].start() {
            Ok(()) => self.poll(id),
            Err(text) => self.seen.fail(text),
        }
    }

    fn isolate(&mut self, id: usize) {
        for peer in (0..self.members.len()).filter(|&peer| peer != id) {
            self.cut.extend([(id, peer), (peer, id)]);
        }
        let cut = &self.cut;
        self.links.retain(|link, _| !cut.contains(link));
    }

    /// Takes what a member wants done, and looks at all of it.
    fn poll(&mut self, id: usize) {
        let asked = self.members[id].poll();
        for (index, term, entry) in asked.committed {
            self.counts.entries += 1;
            let disks = self.members.iter().map(|member| &member.disk);
            self.seen
                .handed_over(id, (index, term, entry), disks.collect());
        }
        for role in asked.roles {
            self.note(format_args!("member {id} is {role:?}"));
            self.members[id].role = role;
            if let Role::Leader(term) = role {
                self.seen.leads(id, term);
                self.seen.serves(id, term, self.members[id].handed);
            }
        }
        for (to, message) in asked.sent {
            self.seen.sent(id, &message, usize::from(to.0));
            let link = (id, usize::from(to.0));
            if !self.cut.contains(&link) {
                self.links.entry(link).or_default().push_back(message);
            }
        }
    }

    /// Everything that is under way arrives.
    fn settle(&mut self) {
        let mut moved = true;
        while std::mem::take(&mut moved) && !self.failed() {
            for from in 0..self.members.len() {
                for to in 0..self.members.len() {
                    moved |= self.deliver(from, to);
                }
                if self.members[from].sync() {
                    self.poll(from);
                    moved = true;
                }
            }
        }
    }

    fn tick_all(&mut self) {
        for id in 0..self.members.len() {
            self.tick(id);
        }
        self.settle();
    }

    /// The member that leads the newest term and says so.
    fn leader(&self) -> Option<usize> {
        let newest = self.members.iter().filter_map(Member::term).max()?;
        let leads = |member: &Member| member.role == Role::Leader(Term(newest));
        self.members.iter().position(leads)
    }

    /// No more faults: a leader within ten seconds, one more entry, and all have handed over the same (I13, I1).
    fn heal(&mut self) {
        self.note(format_args!("faults end"));
        self.cut.clear();
        for id in 0..self.members.len() {
            if !self.members[id].is_up() {
                self.start(id);
            }
        }
        self.settle();
        let mut ticks = 0;
        while self.leader().is_none() && ticks < ELECTION_TICKS && !self.failed() {
            ticks += 1;
            self.tick_all();
        }
        let served = self.leader().is_some_and(|leader| self.propose(leader));
        for _ in 0..QUIET_TICKS {
            self.tick_all();
        }
        let last = self.seen.last_committed();
        let behind = self.members.iter().position(|it| it.handed != last);
        if !served {
            self.seen
                .fail("I13: nobody leads and serves after the faults".to_owned());
        } else if let Some(id) = behind {
            let text = format!("I13: member {id} does not have all up to {}", last.0);
            self.seen.fail(text);
        }
    }
}
