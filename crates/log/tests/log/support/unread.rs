//! What a start knows of segments that it has not read, beside what it knows of those that it has.

use courser_contract::{LogIndex, PartitionId};
use courser_log::{Disk as _, HeldSegment, testing::MemDisk};

/// The same disk without what says what need not be read.
pub(crate) fn without_summaries(disk: &MemDisk) -> MemDisk {
    let fork = disk.fork();
    let whole = fork.kill();
    for name in whole.names() {
        if name.ends_with(".sum") {
            whole.remove(&name).expect("it is there");
        }
    }
    whole
}

/// Whether segments are known as those who read them know them. A summary may count an entry in pieces whose beginning is in a segment that
/// was used again since.
pub(crate) fn assert_covers(known: &[HeldSegment], read: &[HeldSegment]) {
    assert_eq!(known.len(), read.len());
    for (known, read) in known.iter().zip(read) {
        assert_eq!((known.segment, known.last), (read.segment, read.last));
        assert_eq!(known.kept, read.kept);
        for (id, first, last) in &read.entries {
            let mut entries = known.entries.iter();
            let covers = |of: &(PartitionId, LogIndex, LogIndex)| {
                of.0 == *id && of.1 <= *first && *last <= of.2
            };
            assert!(entries.any(covers), "{known:?} of {read:?}");
        }
    }
}
