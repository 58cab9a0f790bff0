//! Sessions and groups without their streams, part by part.

use courser_contract::{HomeRef, PartitionId, Seq};

use super::{
    items::{After, Item, Part},
    save::Saving,
    unit::Kind,
};
use crate::{
    canonical::{Canonical, write_count, write_str},
    session::{Session, Subscribed},
    state::{SharedGroup, encode_scan},
};

/// No member comes before.
const FIRST: HomeRef = HomeRef {
    partition: PartitionId(0),
    session: courser_contract::SessionUid(0),
};

impl Saving {
    /// The head of a session; returns bytes. Everything else of it comes behind that.
    pub(super) fn session(&mut self, session: &mut Session) -> usize {
        if session.saved.has(self.mark, Part::Head) {
            return 0;
        }
        session.saved.add(self.mark, Part::Head);
        let bytes = self.output.unit(Kind::Session, |out| {
            session.uid.write(out);
            write_str(&session.client_id, out);
            session.epoch.write(out);
            session.attached.write(out);
            session.receive_maximum.write(out);
            session.expiry_seconds.write(out);
            session.ends_at.write(out);
            session.sent_limit.write(out);
            session.stream.end_at(self.mark).write(out);
        });
        match session.owner() {
            None => bytes,
            Some(owner) => {
                let owned = self.output.unit(Kind::Owner, |out| {
                    session.uid.write(out);
                    write_str(owner, out);
                });
                bytes + owned
            }
        }
    }

    /// Something of a session that is written nowhere, behind its head and besides its stream; returns what it cost, in bytes. None: there is nothing.
    pub(super) fn rest_of_session(&mut self, session: &mut Session) -> Option<usize> {
        let mark = self.mark;
        let todo = |session: &Session, part| !session.saved.has(mark, part);
        let (part, bytes) = if todo(session, Part::Subscriptions) {
            (Part::Subscriptions, self.subscriptions(session))
        } else if todo(session, Part::Will) {
            (Part::Will, self.will(session))
        } else if todo(session, Part::Holds) {
            (Part::Holds, self.holds(session))
        } else if todo(session, Part::Scans) {
            (Part::Scans, self.scans(session))
        } else {
            return None;
        };
        if self.open.is_none() {
            session.saved.add(self.mark, part);
        }
        if session.extra.is_none() {
            for part in [Part::Will, Part::Holds, Part::Scans] {
                session.saved.add(self.mark, part);
            }
        }
        Some(bytes)
    }

    /// In their order, which is theirs in the list as long as none was written by itself. Then they say their places.
    fn subscriptions(&mut self, session: &Session) -> usize {
        let uid = session.uid.0;
        let from = match self.open {
            Some(Item::Subscription(of, at)) if of == uid => at,
            Some(_) | None => 0,
        };
        let made = session.subscriptions.get(from as usize..);
        let made = (from..).zip(made.unwrap_or_default());
        let items = made.map(|(at, made)| (Item::Subscription(uid, at), (at, made)));
        match session.saved.has(self.mark, Part::Placed) {
            false => self.items((Kind::Subscriptions, uid), items, |(_, made), out| {
                write_subscription(made, out);
            }),
            true => self.items((Kind::Places, uid), items, |(at, made), out| {
                at.write(out);
                write_subscription(made, out);
            }),
        }
    }

    fn will(&mut self, session: &Session) -> usize {
        let extra = session.extra.as_ref();
        let Some(extra) = extra.filter(|it| it.will.is_some() || it.will_due.is_some()) else {
            return 0;
        };
        self.output.unit(Kind::Extra, |out| {
            session.uid.write(out);
            extra.will.write(out);
            extra.will_due.write(out);
            // Holds and scans have units of their own.
            write_count(0, out);
            write_count(0, out);
        })
    }

    fn holds(&mut self, session: &Session) -> usize {
        let uid = session.uid.0;
        let from = match self.open {
            Some(Item::Hold(of, packet_id)) if of == uid => packet_id,
            Some(_) | None => 0,
        };
        let holds = session.extra.iter().flat_map(|it| it.holds.range(from..));
        let items =
            holds.map(|(&packet_id, &hash)| (Item::Hold(uid, packet_id), (packet_id, hash)));
        self.items((Kind::Holds, uid), items, |hold, out| hold.write(out))
    }

    fn scans(&mut self, session: &Session) -> usize {
        let uid = session.uid.0;
        let from = match self.open {
            Some(Item::Scan(of, number)) if of == uid => number,
            Some(_) | None => 0,
        };
        let scans = session.extra.iter().flat_map(|it| it.scans.range(from..));
        let items = scans.map(|(&number, scan)| (Item::Scan(uid, number), (number, scan)));
        self.items((Kind::Scans, uid), items, |(number, scan), out| {
            encode_scan(number, scan, out);
        })
    }

    /// Whether all of a session is written but its stream.
    pub(super) fn has_session(&self, session: &Session) -> bool {
        let mut parts = [Part::Subscriptions, Part::Will, Part::Holds, Part::Scans].into_iter();
        parts.all(|part| session.saved.has(self.mark, part))
    }

    /// The same of a group.
    pub(super) fn has_group(&self, group: &SharedGroup) -> bool {
        let mut parts = [Part::Members, Part::Owed, Part::Attempts].into_iter();
        parts.all(|part| group.saved.has(self.mark, part))
    }

    /// The head of a group; returns bytes.
    pub(super) fn group(&mut self, number: u64, group: &mut SharedGroup) -> usize {
        if group.saved.has(self.mark, Part::Head) {
            return 0;
        }
        group.saved.add(self.mark, Part::Head);
        group.saved_end = group.stream.end_at(self.mark);
        self.output.unit(Kind::Group, |out| {
            number.write(out);
            group.saved_end.write(out);
            group.group.encode_head(out);
            // Members, deliveries and attempts have units of their own.
            (0..3).for_each(|_| write_count(0, out));
        })
    }

    /// As [`rest_of_session`](Self::rest_of_session).
    pub(super) fn rest_of_group(&mut self, number: u64, group: &mut SharedGroup) -> Option<usize> {
        let mark = self.mark;
        let todo = |group: &SharedGroup, part| !group.saved.has(mark, part);
        let (part, bytes) = if todo(group, Part::Members) {
            (Part::Members, self.members(number, group))
        } else if todo(group, Part::Owed) {
            (Part::Owed, self.owed(number, group))
        } else if todo(group, Part::Attempts) {
            (Part::Attempts, self.attempts(number, group))
        } else {
            return None;
        };
        if self.open.is_none() {
            group.saved.add(self.mark, part);
        }
        Some(bytes)
    }

    fn members(&mut self, number: u64, group: &SharedGroup) -> usize {
        let from = match self.open {
            Some(Item::Member(of, member)) if of == number => member,
            Some(_) | None => FIRST,
        };
        let members = group.group.members_from(from);
        let items = members.map(|(home, member)| (Item::Member(number, home), (home, *member)));
        self.items((Kind::Members, number), items, |it, out| it.write(out))
    }

    fn owed(&mut self, number: u64, group: &SharedGroup) -> usize {
        let from = match self.open {
            Some(Item::Owed(of, seq)) if of == number => seq,
            Some(_) | None => Seq(0),
        };
        let owed = group.group.owed_from(from);
        let items = owed
            .take_while(|(seq, _)| seq.0 < group.saved_end)
            .map(|(seq, owed)| (Item::Owed(number, seq), (seq, *owed)));
        self.items((Kind::Owed, number), items, |it, out| it.write(out))
    }

    fn attempts(&mut self, number: u64, group: &SharedGroup) -> usize {
        let from = match self.open {
            Some(Item::Attempts(of, seq)) if of == number => seq,
            Some(_) | None => Seq(0),
        };
        let attempts = group.group.attempts_from(from);
        let items = attempts
            .take_while(|(seq, _)| seq.0 < group.saved_end)
            .map(|(seq, attempts)| (Item::Attempts(number, seq), (seq, attempts)));
        self.items((Kind::Attempts, number), items, |it, out| it.write(out))
    }
}

/// What a fact is about to change.
impl Saving {
    /// A will, or its moment.
    pub(super) fn before_will(&mut self, session: &mut Session) {
        self.session(session);
        if !session.saved.has(self.mark, Part::Will) {
            session.saved.add(self.mark, Part::Will);
            self.will(session);
        }
    }

    /// The subscription at a place, if there is one.
    pub(super) fn before_subscription(&mut self, session: &mut Session, at: usize, after: After) {
        self.session(session);
        let uid = session.uid.0;
        let place = u32::try_from(at).expect("fewer subscriptions than a session may have");
        if self.is_due(session.saved, Item::Subscription(uid, place), after)
            && let Some(made) = session.subscriptions.get(at)
        {
            session.saved.add(self.mark, Part::Placed);
            self.item(Kind::Places, uid, |out| {
                place.write(out);
                write_subscription(made, out);
            });
        }
    }

    pub(super) fn before_hold(&mut self, session: &mut Session, packet_id: u16, after: After) {
        self.session(session);
        let uid = session.uid.0;
        let is_due = self.is_due(session.saved, Item::Hold(uid, packet_id), after);
        let holds = session.extra.as_ref().map(|it| &it.holds);
        if is_due && let Some(&hash) = holds.and_then(|holds| holds.get(&packet_id)) {
            self.item(Kind::Holds, uid, |out| (packet_id, hash).write(out));
        }
    }

    pub(super) fn before_scan(&mut self, session: &mut Session, number: u64, after: After) {
        self.session(session);
        let uid = session.uid.0;
        let is_due = self.is_due(session.saved, Item::Scan(uid, number), after);
        let scans = session.extra.as_ref().map(|it| &it.scans);
        if is_due && let Some(scan) = scans.and_then(|scans| scans.get(&number)) {
            self.item(Kind::Scans, uid, |out| encode_scan(number, scan, out));
        }
    }

    /// Scans that end with the subscription to a filter.
    pub(super) fn before_scans_of(&mut self, session: &mut Session, filter: &str) {
        let scans = session.extra.iter().flat_map(|it| &it.scans);
        let of_filter = scans.filter(|(_, scan)| &*scan.filter == filter);
        let numbers: Vec<u64> = of_filter.map(|(number, _)| *number).collect();
        for number in numbers {
            self.before_scan(session, number, After::Gone);
        }
    }

    pub(super) fn before_member(
        &mut self,
        number: u64,
        group: &mut SharedGroup,
        (home, after): (HomeRef, After),
    ) {
        self.group(number, group);
        if self.is_due(group.saved, Item::Member(number, home), after)
            && let Some(member) = group.group.member(home)
        {
            self.item(Kind::Members, number, |out| (home, *member).write(out));
        }
    }

    /// To whom a message is owed.
    pub(super) fn before_owed(
        &mut self,
        number: u64,
        group: &SharedGroup,
        (seq, after): (Seq, After),
    ) {
        if seq.0 < group.saved_end
            && self.is_due(group.saved, Item::Owed(number, seq), after)
            && let Some(owed) = group.group.owed(seq)
        {
            self.item(Kind::Owed, number, |out| (seq, *owed).write(out));
        }
    }

    /// How often a message was tried.
    pub(super) fn before_attempts(
        &mut self,
        number: u64,
        group: &SharedGroup,
        (seq, after): (Seq, After),
    ) {
        if seq.0 < group.saved_end && self.is_due(group.saved, Item::Attempts(number, seq), after) {
            let attempts = group.group.attempts(seq);
            if attempts > 0 {
                self.item(Kind::Attempts, number, |out| (seq, attempts).write(out));
            }
        }
    }

    /// What a group knows of messages of a range whose references are about to end.
    pub(super) fn before_messages(
        &mut self,
        number: u64,
        group: &SharedGroup,
        (first, end): (u64, u64),
    ) {
        let end = end.min(group.saved_end);
        let owed = group.group.owed_from(Seq(first));
        for (seq, _) in owed.take_while(|(seq, _)| seq.0 < end) {
            self.before_owed(number, group, (seq, after_end(group, seq)));
        }
        let attempts = group.group.attempts_from(Seq(first));
        for (seq, _) in attempts.take_while(|(seq, _)| seq.0 < end) {
            self.before_attempts(number, group, (seq, after_end(group, seq)));
        }
    }
}

/// Whether what a group knows of a message outlives the end of its reference: only where that has ended before.
fn after_end(group: &SharedGroup, seq: Seq) -> After {
    After::there_if(group.stream.get(seq.0).is_none())
}

fn write_subscription(made: &Subscribed, out: &mut Vec<u8>) {
    write_str(&made.filter, out);
    made.share.is_some().write(out);
    if let Some(name) = made.share_name() {
        write_str(name, out);
    }
    made.options.write(out);
    made.identifier.write(out);
}
