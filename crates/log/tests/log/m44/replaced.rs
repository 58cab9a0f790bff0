//! Entries that were accepted as lost, and those that have taken their place: these count, start after start, also once they are below a
//! checkpoint and their segments are used again while the older ones are still there.

use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{
    BatchPlace, LiveEntries, PartitionDamage, Push, Record, Recovered, SegmentNumber,
};

use super::recorded::{FRAME, HEADER, Recorded, damage, data, entries};
use crate::support::{CheckpointFolder, checkpoint_at, open, write};

const BUSY: u16 = 1;
const IDLE: u16 = 2;
/// Entries of the idle partition that were written first.
const FIRST: u64 = 12;
/// The first of them that is lost, and one before it that is always needed.
const LOST: u64 = 6;
const NEEDED: u64 = 3;

/// A log whose partition 2 has lost entries, in a segment that stays, and starts of it.
struct Replaced {
    recorded: Recorded,
    checkpoints: CheckpointFolder,
    starts: u32,
    first: SegmentNumber,
}

impl Replaced {
    /// Entries from [`LOST`] to `last` are damaged, and segments follow.
    fn new(last: u64) -> Self {
        let mut recorded = Recorded::new();
        let places: Vec<BatchPlace> = (0..FIRST).map(|_| recorded.write_synced(&[IDLE])).collect();
        for place in &places[LOST as usize - 1..last as usize] {
            recorded.rot(*place, HEADER + FRAME + 100);
        }
        let first = places[0].place.segment;
        assert_eq!(places[FIRST as usize - 1].place.segment, first);
        while recorded.log.segments() < 2 {
            recorded.write_synced(&[BUSY]);
        }
        Self {
            recorded,
            checkpoints: CheckpointFolder::default(),
            starts: 1,
            first,
        }
    }

    /// The next start goes on with what there is.
    fn start(&mut self) -> Recovered {
        self.starts += 1;
        let manifests = self.checkpoints.manifests();
        let (log, found) = open(&self.recorded.disk.kill(), self.starts, &manifests)
            .expect("whatever there was, it opens");
        log.check();
        self.recorded.log = log;
        self.recorded.batch = self.recorded.log.new_batch();
        for (id, partition) in &found.partitions {
            let last = partition.entries.last().map(|entry| entry.index);
            let saved = partition.checkpoint.map(|at| at.index);
            let last = last.or(saved).map_or(0, |index| index.0);
            self.recorded.last.insert(id.0, last);
            let terms = partition.entries.iter().map(|entry| entry.term);
            let saved = partition.checkpoint.map(|at| at.term);
            assert!(saved.into_iter().chain(terms).is_sorted(), "terms ascend");
        }
        found
    }

    /// An entry of the idle partition, in the term of this start, and not as long as the first of that index.
    fn write(&mut self) -> BatchPlace {
        self.recorded.term = Term(u64::from(self.starts));
        let place = self.recorded.write_of(&[IDLE], 500);
        self.recorded.log.sync().expect("synced");
        place
    }

    fn save(&mut self, id: u16, index: u64, term: u64, live: LiveEntries) {
        let at = checkpoint_at(index, term);
        let log = &mut self.recorded.log;
        self.checkpoints
            .take(PartitionId(id), at, live.clone(), log.synced());
        log.set_checkpoint(PartitionId(id), at, live);
    }

    /// Saves the idle partition as it is.
    fn save_idle(&mut self, live: &[u64]) {
        let (last, term) = (self.recorded.last[&IDLE], u64::from(self.starts));
        let live = live.iter().map(|index| LogIndex(*index)).collect();
        self.save(IDLE, last, term, live);
    }

    /// Other traffic, of which nothing is needed, until all segments but the first are used again.
    fn recycle(&mut self) {
        let recycled = self.recorded.log.counts().recycled;
        for _ in 0..400 {
            self.recorded.term = Term(u64::from(self.starts));
            self.recorded.write_synced(&[BUSY]);
            let last = self.recorded.last[&BUSY];
            self.save(BUSY, last, u64::from(self.starts), LiveEntries::NONE);
            while let Some(job) = self.recorded.log.prepare() {
                self.recorded.log.prepared(job.run()).expect("synced");
            }
        }
        assert!(self.recorded.log.counts().recycled > recycled + 2);
    }

    fn has_first(&self) -> bool {
        self.recorded.disk.names().contains(&self.first.file_name())
    }

    /// Several starts find the idle partition whole, with nothing above its checkpoint but `above`, and what is needed is what was written.
    fn stays(&mut self, above: usize, needed: &[(u64, &[u8])]) {
        for _ in 0..3 {
            let found = self.start();
            assert_eq!(damage(&found, IDLE), None, "{}", found.report);
            assert_eq!(entries(&found, IDLE), above, "{}", found.report);
            assert!(found.partitions[&PartitionId(IDLE)].missing_live.is_empty());
            let mut reader = self.recorded.log.reader(PartitionId(IDLE));
            for (index, expected) in needed {
                let read = reader.read(LogIndex(*index)).expect("it is there");
                assert!(read.data == *expected, "entry {index}");
            }
        }
    }
}

/// Entries behind the damage counted again, with a term below that of the checkpoint, and no start was possible any more.
#[test]
fn m44_entries_behind_an_accepted_loss_do_not_come_back_when_what_replaced_them_is_gone() {
    for last in [LOST, LOST + 1, LOST + 2, FIRST - 1] {
        let mut log = Replaced::new(last);
        let found = log.start();
        assert!(damage(&found, IDLE).is_some(), "{}", found.report);
        let needed = data(IDLE, NEEDED, 600);
        let needed = [(NEEDED, &needed[..])];
        for _ in 0..2 {
            log.write();
        }
        // Those that were written last are the ones that count.
        log.stays(LOST as usize + 1, &[]);
        log.save_idle(&[NEEDED]);
        log.recycle();
        assert!(log.has_first(), "something of it is needed");
        log.stays(0, &needed);
        // It goes on, and some of that is below a checkpoint, too, before it has come as far as the lost ones did.
        log.write();
        log.stays(1, &needed);
        log.save_idle(&[NEEDED]);
        log.recycle();
        log.stays(0, &needed);
        while log.recorded.last[&IDLE] < FIRST + 3 {
            log.write();
        }
        let above = log.recorded.last[&IDLE] - LOST - 2;
        log.stays(above as usize, &needed);
        log.save_idle(&[]);
        log.recycle();
        assert!(!log.has_first(), "nothing of it is needed any more");
        log.stays(0, &[]);
    }
}

/// Segments with replaced entries stayed until the partition had come as far as those, however long that took.
#[test]
fn m44_a_segment_is_free_when_what_is_left_of_it_was_replaced() {
    let mut log = Replaced::new(LOST);
    log.start();
    log.write();
    log.save_idle(&[]);
    log.recycle();
    // What is damaged may be anybody's; the next start sees that it was replaced.
    log.stays(0, &[]);
    log.recycle();
    assert!(!log.has_first());
}

/// What is moved is looked for at its entry first: there the replaced one would be found.
#[test]
fn m44_an_entry_is_not_moved_while_one_that_it_has_replaced_is_there() {
    let mut log = Replaced::new(LOST);
    log.start();
    log.write();
    let new = log.write().place.segment;
    // The one that it has replaced is whole.
    let replaced = log.recorded.last[&IDLE];
    assert_eq!(replaced, LOST + 1);
    log.save_idle(&[NEEDED, replaced]);
    log.recycle();
    assert_eq!(log.recorded.log.source(new).map(|_| ()), None);
    let written = data(IDLE, LOST + 1, 500);
    log.stays(0, &[(replaced, &written)]);
    assert_eq!(log.recorded.log.source(new).map(|_| ()), None);
    log.write();
    log.save_idle(&[replaced]);
    log.recycle();
    log.stays(0, &[(replaced, &written)]);
    // Nothing of the older one has to be moved for it to be free.
    let segment = log.first;
    assert!(log.recorded.log.source(segment).is_some());
    let cleaned = [Record::Cleaned { segment }];
    write(&mut log.recorded.log, &mut log.recorded.batch, &cleaned);
    log.recorded.log.sync().expect("synced");
    log.recycle();
    assert!(!log.has_first());
    assert!(log.recorded.log.source(new).is_some());
    log.stays(0, &[(replaced, &written)]);
}

/// The term was that of the last entry before the damage; those behind it, which are whole, may be of a later one.
#[test]
fn m44_who_goes_on_without_entries_does_so_in_a_higher_term_than_theirs() {
    let mut recorded = Recorded::new();
    recorded.write_vote(1);
    recorded.write_synced(&[1]);
    recorded.term = Term(7);
    // Its vote goes with its first entry.
    recorded.batch.clear();
    let records = [
        Record::HardState {
            partition: PartitionId(1),
            term: Term(7),
            vote: 1,
            commit: LogIndex(1),
        },
        crate::support::entry_of(Term(7), 1, 2, &data(1, 2, 600)),
    ];
    for record in &records {
        assert_eq!(recorded.batch.push(record), Push::Taken);
    }
    let bad = recorded.log.write(&mut recorded.batch).expect("written");
    recorded.log.sync().expect("synced");
    recorded.last.insert(1, 2);
    recorded.write_synced(&[1]);
    let name = bad.place.segment.file_name();
    let mut bytes = recorded.disk.bytes(&name).expect("it is there");
    bytes[bad.place.offset as usize..][..bad.bytes as usize].fill(0);
    recorded.disk.replace(&name, bytes);
    let found = recorded.restart(2);
    let lost = PartitionDamage::Missing {
        first: LogIndex(2),
        last: LogIndex(2),
    };
    assert_eq!(damage(&found, 1), Some(lost));
    let of = &found.partitions[&PartitionId(1)];
    assert_eq!(of.behind[0].term, Term(7));
    assert!(of.hard_state.term > Term(7), "{:?}", of.hard_state);
}
