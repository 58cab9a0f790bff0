//! Torn or rotten: one test for each row of the table in `docs/log-format.md`.

use std::io::ErrorKind;

use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{
    DamageKind, Log, LogConfig, Manifests, PartitionDamage, Push, Recovered,
    testing::{Call, MemDisk, Survival},
};

use super::recorded::{FRAME, HEADER, Recorded, VOTE_FRAME, damage, data, entries};
use crate::support::{self, NODE, entry_of, open, start};

#[test]
fn m44_a_torn_last_batch_is_cut_and_counted() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let torn = recorded.write_of(&[1, 2], 3_000);
    // The first sector is there, with the header, and nothing else.
    recorded.disk = recorded.disk.power_loss_with(|all| all, |_| Survival::Gone);
    let mut header = vec![0; 512];
    header[..].copy_from_slice(&{
        let mut again = Recorded::new();
        again.write_synced(&[1]);
        let place = again.write_of(&[1, 2], 3_000);
        let bytes = again
            .disk
            .bytes(&place.place.segment.file_name())
            .expect("it is there");
        bytes[place.place.offset as usize..][..512].to_vec()
    });
    let name = torn.place.segment.file_name();
    let mut bytes = recorded.disk.bytes(&name).expect("it is there");
    bytes[torn.place.offset as usize..][..512].copy_from_slice(&header);
    recorded.disk.replace(&name, bytes);

    let recovered = recorded.restart(2);
    let cut = recovered.report.cut.expect("it is cut");
    assert_eq!(
        (cut.place, cut.batches, cut.bytes),
        (torn.place, 1, torn.bytes)
    );
    assert_eq!(recovered.report.damages, []);
    assert_eq!((entries(&recovered, 1), entries(&recovered, 2)), (1, 0));
}

#[test]
fn m44_nothing_at_the_end_is_no_cut() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.cut, None);
    assert_eq!(entries(&recovered, 1), 1);
}

#[test]
fn m44_a_bad_batch_that_a_later_one_calls_synced_is_rot_and_only_the_bad_record_is_lost() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1, 2]);
    let bad = recorded.write_synced(&[1, 2, 3]);
    recorded.write_synced(&[1, 3]);
    // In the data of the second record.
    let record = (FRAME + 600).next_multiple_of(8);
    recorded.rot(bad, HEADER + record + FRAME + 100);
    let recovered = recorded.restart(2);
    let damages = &recovered.report.damages;
    assert_eq!(damages.len(), 1);
    assert_eq!(
        (damages[0].place, damages[0].first),
        (bad.place, bad.number)
    );
    let kind = DamageKind::Rot {
        salvaged: 2,
        lost: Some(1),
    };
    assert_eq!(damages[0].kind, kind);
    assert_eq!(recovered.report.cut, None);
    let found = [1, 2, 3].map(|id| (entries(&recovered, id), damage(&recovered, id)));
    let lost = PartitionDamage::InDoubt { after: LogIndex(1) };
    assert_eq!(found, [(3, None), (1, Some(lost)), (2, None)]);
}

/// Found by a flipped bit of a simulated disk: the entry that followed showed that none was missing, and a term that was led was
/// forgotten all the same (I6).
#[test]
fn i6_a_term_is_known_by_its_entries_when_its_vote_was_in_a_lost_batch() {
    for rots in [false, true] {
        let mut recorded = Recorded::new();
        recorded.write_vote(2);
        recorded.write_synced(&[1]);
        let vote = recorded.write_vote(3);
        recorded.term = Term(3);
        recorded.write_synced(&[1]);
        recorded.log.witness().expect("written");
        if rots {
            recorded.rot(vote, HEADER + VOTE_FRAME);
        }
        let recovered = recorded.restart(2);
        assert_eq!(
            (entries(&recovered, 1), damage(&recovered, 1)),
            (2, None),
            "no entry is missing"
        );
        let found = recovered.partitions[&PartitionId(1)].hard_state;
        // Nobody knows for whom it voted in term 3: nothing may be voted in it again.
        let expected = if rots { (Term(4), 0) } else { (Term(3), 1) };
        assert_eq!((found.term, found.vote), expected);
    }
}

/// Found by a lost block of a simulated disk: all entries lay below a checkpoint, so that none was left to show that the term had been led.
#[test]
fn i6_a_term_is_known_by_a_checkpoint_when_its_vote_was_in_a_lost_batch() {
    for rots in [false, true] {
        let mut recorded = Recorded::new();
        recorded.write_synced(&[1]);
        let vote = recorded.write_vote(1);
        for _ in 0..3 {
            recorded.write_synced(&[1]);
        }
        recorded.log.witness().expect("written");
        if rots {
            recorded.rot(vote, HEADER + VOTE_FRAME);
        }
        let last = recorded.last[&1];
        let manifests = support::manifest(last, 1, recorded.log.synced());
        let (log, recovered) = open(&recorded.disk.kill(), 2, &manifests).expect("it opens");
        log.check();
        assert_eq!((entries(&recovered, 1), damage(&recovered, 1)), (0, None));
        let found = recovered.partitions[&PartitionId(1)].hard_state;
        let expected = if rots { (Term(2), 0) } else { (Term(1), 1) };
        assert_eq!((found.term, found.vote), expected);
    }
}

#[test]
fn m44_a_lost_header_concerns_the_partitions_that_the_next_batch_names() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1, 2, 3]);
    let bad = recorded.write_synced(&[2]);
    recorded.write_synced(&[1]);
    recorded.write_synced(&[3]);
    recorded.rot(bad, 20);
    let recovered = recorded.restart(2);
    let found = [1, 2, 3].map(|id| (entries(&recovered, id), damage(&recovered, id)));
    let lost = PartitionDamage::InDoubt { after: LogIndex(1) };
    assert_eq!(found, [(2, None), (1, Some(lost)), (2, None)]);
    let kind = DamageKind::Rot {
        salvaged: 0,
        lost: None,
    };
    assert_eq!(recovered.report.damages[0].kind, kind);
}

/// Found by the simulator: the batch that names them is cut itself, and the one that took its place said that the lost one had something of everybody.
#[test]
fn m44_a_lost_header_concerns_the_same_partitions_once_the_next_batch_is_cut() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1, 2, 3]);
    let bad = recorded.write_synced(&[2]);
    let next = recorded.write_synced(&[1]);
    recorded.rot(bad, 20);
    recorded.rot(next, HEADER + FRAME + 1);
    let lost = PartitionDamage::InDoubt { after: LogIndex(1) };
    let damages = |recovered: &Recovered| [1, 2, 3].map(|id| damage(recovered, id));
    let disk = recorded.disk.kill();
    let (log, recovered) = open(&disk, 2, &Manifests::new()).expect("it opens");
    assert!(recovered.report.cut.is_some());
    assert_eq!(damages(&recovered), [None, Some(lost), None]);
    let mut recorded = Recorded::on_log(disk, log, &recovered);
    recorded.write_synced(&[1]);
    let recovered = recorded.restart(3);
    assert_eq!(recovered.report.cut, None);
    assert_eq!(damages(&recovered), [None, Some(lost), None]);
}

#[test]
fn m44_a_gap_before_a_later_entry_is_said_exactly_and_nothing_behind_it_is_delivered() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let first = recorded.write_synced(&[1]);
    let second = recorded.write_synced(&[1]);
    recorded.write_synced(&[1]);
    recorded.write_synced(&[1]);
    recorded.rot(first, 8);
    recorded.rot(second, 8);
    let recovered = recorded.restart(2);
    let lost = PartitionDamage::Missing {
        first: LogIndex(2),
        last: LogIndex(3),
    };
    assert_eq!(
        (entries(&recovered, 1), damage(&recovered, 1)),
        (1, Some(lost))
    );
    let damage = recovered.report.damages[0];
    assert_eq!((damage.first, damage.last), (first.number, second.number));
}

#[test]
fn m44_the_last_batch_is_rot_once_a_witness_calls_it_synced() {
    for witness in [false, true] {
        let mut recorded = Recorded::new();
        recorded.write_synced(&[1]);
        let last = recorded.write_synced(&[1]);
        if witness {
            assert!(recorded.log.witness().expect("written"));
            assert!(!recorded.log.witness().expect("one is enough"));
        }
        recorded.rot(last, HEADER + FRAME + 1);
        let recovered = recorded.restart(2);
        assert_eq!(entries(&recovered, 1), 1);
        assert_eq!(recovered.report.cut.is_some(), !witness);
        assert_eq!(recovered.report.damages.len(), usize::from(witness));
        assert_eq!(damage(&recovered, 1).is_some(), witness);
    }
}

/// A disk that lies: the last write was synced, and is not there. Where nothing was written behind it nothing knows of it, and the same when the
/// witness is lost with it (`docs/durability.md` says so).
#[test]
fn m44_a_lost_last_write_is_damage_once_a_witness_calls_it_synced() {
    for (witness, lost_with_it) in [(false, false), (true, true), (true, false)] {
        let mut recorded = Recorded::new();
        recorded.write_synced(&[1]);
        let last = recorded.write_synced(&[1]);
        let name = last.place.segment.file_name();
        if witness {
            assert!(recorded.log.witness().expect("written"));
        }
        recorded.disk.lose_write(&name, last.place.offset);
        if lost_with_it {
            let behind = last.place.offset + last.bytes;
            recorded.disk.lose_write(&name, behind);
        }
        let known = witness && !lost_with_it;
        let recovered = recorded.restart(2);
        assert_eq!(entries(&recovered, 1), 1);
        assert_eq!(recovered.report.cut, None);
        assert_eq!(recovered.report.damages.len(), usize::from(known));
        assert_eq!(damage(&recovered, 1).is_some(), known);
    }
}

#[test]
fn m44_a_batch_that_a_checkpoint_calls_synced_is_rot() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let last = recorded.write_synced(&[1]);
    let manifests = support::manifest(2, 1, recorded.log.synced());
    recorded.rot(last, HEADER + FRAME + 1);
    let (_, recovered) = open(&recorded.disk.kill(), 2, &manifests).expect("opens");
    assert_eq!(recovered.report.cut, None);
    assert_eq!(recovered.report.damages.len(), 1);
    let lost = PartitionDamage::InDoubt { after: LogIndex(2) };
    assert_eq!(damage(&recovered, 1), Some(lost));
}

#[test]
fn m44_evidence_is_found_in_the_next_segment() {
    let mut recorded = Recorded::new();
    let mut before = recorded.write_synced(&[1]);
    loop {
        let place = recorded.write_synced(&[1]);
        if place.place.segment > before.place.segment {
            break;
        }
        before = place;
    }
    // The last batch of the first segment, and its header with it.
    recorded.rot(before, 8);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.cut, None);
    assert_eq!(recovered.report.damages[0].place, before.place);
    assert!(matches!(
        damage(&recovered, 1),
        Some(PartitionDamage::Missing { .. })
    ));
}

/// However many segments there are: at the end of each one the others are not looked through.
#[test]
fn a_start_reads_a_log_once() {
    const SEGMENTS: u64 = 12;
    let disk = MemDisk::new();
    let open = |disk: &MemDisk, counter| {
        // Two reads long.
        let config = LogConfig::new(NODE, 2 << 20).expect("a good size");
        Log::open(disk.clone(), config, start(counter), &Manifests::new())
    };
    let (mut log, _) = open(&disk, 1).expect("it opens");
    let mut batch = log.new_batch();
    let mut last = 0;
    while log.segments() < SEGMENTS as usize {
        last += 1;
        let record = entry_of(Term(1), 1, last, &data(1, last, 200_000));
        assert_eq!(batch.push(&record), Push::Taken);
        log.write(&mut batch).expect("written");
        log.sync().expect("synced");
        batch.clear();
        while let Some(job) = log.prepare() {
            log.prepared(job.run()).expect("synced");
        }
    }
    let disk = disk.kill();
    // More than the two for what lies across two reads, and for headers.
    disk.fail(Call::Read, 8 * SEGMENTS, u64::MAX, ErrorKind::Other);
    let (_, recovered) = open(&disk, 2).expect("it needs no more reads");
    assert_eq!(recovered.report.damages, []);
    assert_eq!(entries(&recovered, 1) as u64, last);
}

#[test]
fn m44_what_was_cut_stays_void_after_later_starts() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    // Three writes without a sync: the first is lost, the others are intact.
    let lost = recorded.write(&[1]);
    recorded.write(&[1]);
    recorded.write(&[1]);
    let mut first = true;
    recorded.disk = recorded.disk.power_loss_with(
        |all| all,
        |_| {
            if std::mem::take(&mut first) {
                Survival::Gone
            } else {
                Survival::Whole
            }
        },
    );
    let cut = recorded.restart(2).report.cut.expect("it is cut");
    assert_eq!((cut.place, cut.batches), (lost.place, 2));
    // Nothing was written in between: the same once more.
    assert_eq!(recorded.restart(3).report.cut, Some(cut));
    let mut again = Recorded::on(recorded.disk.kill(), 4);
    assert_eq!(again.write(&[2]).place, lost.place);
    again.log.sync().expect("synced");
    // Behind it stand intact batches of the first start, with the very next number.
    let recovered = again.restart(5);
    assert_eq!(
        (recovered.report.cut, &recovered.report.damages[..]),
        (None, &[][..])
    );
    assert_eq!((entries(&recovered, 1), entries(&recovered, 2)), (1, 1));
}

#[test]
fn d10_blocks_of_a_recycled_segment_are_never_read_as_new() {
    let mut recorded = Recorded::new();
    for _ in 0..40 {
        recorded.write_synced(&[1]);
    }
    let stale = recorded.places[0].place.segment;
    let at = support::checkpoint_at(40, 1);
    recorded
        .log
        .set_checkpoint(PartitionId(1), at, Default::default());
    while let Some(job) = recorded.log.prepare() {
        recorded.log.prepared(job.run()).expect("synced");
    }
    assert!(recorded.log.counts().recycled > 0);
    let manifests = support::manifest(40, 1, recorded.log.synced());
    let mut before = recorded.places[0];
    for _ in 0..60 {
        let place = recorded.write_synced(&[1]);
        assert_ne!(place.place.segment, stale, "numbers are not used again");
        // A crash at every fill of the recycled segment.
        let (_, recovered) = open(&recorded.disk.fork().kill(), 2, &manifests).expect("opens");
        assert_eq!(recovered.report.damages, []);
        assert_eq!(recovered.report.cut, None);
        let found = &recovered.partitions[&PartitionId(1)].entries;
        assert_eq!(found.len() as u64, recorded.last[&1] - 40);
        assert_eq!(
            found.last().map(|entry| entry.index.0),
            Some(recorded.last[&1])
        );
        before = place;
    }
    assert!(before.place.segment > stale);
}

#[test]
fn d10_a_lost_write_under_which_an_older_batch_lies_is_told_by_the_next_one() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let old = recorded.write(&[1]);
    // The batch is there, but the process that finds it says it is cut: here the bytes are put back by hand.
    let name = old.place.segment.file_name();
    let older = recorded.disk.bytes(&name).expect("it is there");
    recorded.disk = recorded.disk.power_loss_with(|all| all, |_| Survival::Gone);
    let mut again = Recorded::on(recorded.disk.clone(), 2);
    let new = again.write_synced(&[2]);
    again.write_synced(&[3]);
    assert_eq!((new.place, new.number), (old.place, old.number));
    let mut bytes = again.disk.bytes(&name).expect("it is there");
    let range = old.place.offset as usize..(old.place.offset + old.bytes) as usize;
    bytes[range.clone()].copy_from_slice(&older[range]);
    again.disk.replace(&name, bytes);
    let recovered = again.restart(3);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::Replaced);
    assert_eq!(
        entries(&recovered, 1),
        1,
        "what was never acknowledged stays away"
    );
    assert!(damage(&recovered, 2).is_some());
    assert_eq!(damage(&recovered, 3), None);
}

#[test]
fn m44_the_end_of_a_segment_whose_successors_are_gone_is_known_from_later_heads() {
    let mut recorded = Recorded::new();
    // Partition 2 has its last entry at the end of the first segment, partition 1 fills some more.
    let mut before = recorded.write_synced(&[1]);
    while recorded.log.segments() == 1 {
        before = recorded.write_synced(&[2]);
    }
    let end = recorded.places[recorded.places.len() - 2];
    assert_eq!(end.place.segment.0 + 1, before.place.segment.0);
    while recorded.log.segments() < 4 {
        recorded.write_synced(&[1]);
    }
    // The second segment is recycled; the first has something live of partition 2.
    let at = support::checkpoint_at(recorded.last[&1], 1);
    recorded
        .log
        .set_checkpoint(PartitionId(1), at, Default::default());
    let manifests = support::manifest(recorded.last[&1], 1, recorded.log.synced());
    recorded.rot(end, 8);
    let (_, recovered) = open(&recorded.disk.kill(), 2, &manifests).expect("opens");
    let found = damage(&recovered, 2);
    assert!(found.is_some(), "{}", recovered.report);
}
