//! Canonical bytes of the replicated state: two partitions that applied the same entries give the same ones.
//!
//! Records are named by their addresses and written once with their lengths: an address has the same bytes everywhere, and who has them in
//! memory is nobody else's business. Nothing that depends on a place in memory, a hash map's order or the leader's memory is in it.

use std::collections::BTreeMap;

use super::State;
use crate::{
    canonical::{Canonical, write_count, write_str},
    look,
    record::{Address, Slot},
    session::{Extra, Scan, Session},
    stream::Stream,
};

impl State {
    /// See the module.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.id.write(&mut out);
        self.index.write(&mut out);
        self.wall.write(&mut out);
        self.term.0.write(&mut out);
        self.last_session.write(&mut out);
        self.last_group.write(&mut out);
        self.last_scan.write(&mut out);
        self.ages.encode(&mut out);
        self.encode_records(&mut out);
        self.encode_sets(&mut out);
        write_count(self.sessions.len(), &mut out);
        for number in self.sessions.sorted() {
            let session = self.sessions.get(number).expect("it was listed");
            self.encode_session(session, &mut out);
        }
        let address =
            |slot: Slot, out: &mut Vec<u8>| write_address(self.records.address(slot), out);
        self.retained.encode(&mut out, address);
        self.origins.encode(&mut out);
        self.inbox.encode(&mut out);
        self.outboxes.encode(&mut out, |item, out| {
            address(item.slot, out);
            item.keep_retained.write(out);
            item.cut.write(out);
        });
        self.encode_groups(&mut out);
        out
    }

    fn encode_records(&self, out: &mut Vec<u8>) {
        let slots = self
            .records
            .iter()
            .map(|slot| (self.records.address(slot), slot));
        let by_address: BTreeMap<_, _> = slots.collect();
        write_count(by_address.len(), out);
        for (address, slot) in by_address {
            write_address(address, out);
            self.records.references(slot).write(out);
            self.records.len_of(slot).write(out);
        }
    }

    fn encode_sets(&self, out: &mut Vec<u8>) {
        let sets = self.sets.iter().enumerate();
        let used: Vec<_> = sets
            .filter_map(|(set, targets)| Some((set, targets.as_ref()?)))
            .collect();
        write_count(used.len(), out);
        for (set, targets) in used {
            write_count(set, out);
            write_count(targets.len(), out);
            targets.iter().for_each(|target| target.write(out));
        }
    }

    fn encode_session(&self, session: &Session, out: &mut Vec<u8>) {
        session.uid.write(out);
        write_str(&session.client_id, out);
        session.owner().map(Box::<str>::from).write(out);
        session.epoch.write(out);
        session.attached.write(out);
        session.receive_maximum.write(out);
        session.expiry_seconds.write(out);
        session.ends_at.write(out);
        session.sent_limit.write(out);
        self.encode_stream(&session.stream, out);
        write_count(session.subscriptions.len(), out);
        for subscription in &*session.subscriptions {
            write_str(&subscription.filter, out);
            write_str(subscription.share_name().unwrap_or_default(), out);
            subscription.share.is_some().write(out);
            subscription.options.write(out);
            subscription.identifier.write(out);
        }
        session.extra.is_some().write(out);
        if let Some(extra) = &session.extra {
            encode_extra(extra, out);
        }
    }

    pub(super) fn encode_stream(&self, stream: &Stream, out: &mut Vec<u8>) {
        stream.floor().write(out);
        stream.next().write(out);
        stream.live().write(out);
        stream.bytes().write(out);
        for (seq, reference) in stream.iter() {
            seq.write(out);
            write_address(self.records.address(reference.slot), out);
            look::qos(reference.look).write(out);
            look::retain(reference.look).write(out);
            self.looks.identifiers(reference.look).cloned().write(out);
            stream.is_received(seq).write(out);
        }
    }
}

/// The part that few sessions have.
fn encode_extra(extra: &Extra, out: &mut Vec<u8>) {
    extra.will.write(out);
    extra.will_due.write(out);
    write_count(extra.holds.len(), out);
    for (packet_id, hash) in &extra.holds {
        packet_id.write(out);
        hash.write(out);
    }
    write_count(extra.scans.len(), out);
    for (number, scan) in &extra.scans {
        encode_scan(*number, scan, out);
    }
}

/// A scan of a session.
pub(crate) fn encode_scan(number: u64, scan: &Scan, out: &mut Vec<u8>) {
    number.write(out);
    scan.filter.write(out);
    write_count(scan.cursors.len(), out);
    for (partition, state) in &scan.cursors {
        partition.write(out);
        state.write(out);
    }
}

fn write_address(address: Address, out: &mut Vec<u8>) {
    address.index.write(out);
    address.ordinal.write(out);
}
