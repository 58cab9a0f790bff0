//! The same life written into a real log, on a disk in memory: at each restart what the log recovers is what the model says.

use courser_log::testing::MemDisk;
use courser_log::{
    Batch, Log, LogConfig, Manifests, NodeIdentity, Push, Record, RecoveredPartition, StartId,
};

use crate::durable::Durable;
use crate::node::PARTITION;

const SEGMENT_BYTES: u64 = 64 << 10;

/// A node's log.
pub(crate) struct RealLog {
    disk: MemDisk,
    log: Log<MemDisk>,
    batch: Batch,
    start: u32,
    /// A checkpoint took the place of the whole log, which is not in the log's files (M43).
    replaced: bool,
}

fn open(disk: &MemDisk, start: u32) -> (Log<MemDisk>, Option<RecoveredPartition>) {
    let config = LogConfig::new(NodeIdentity(7), SEGMENT_BYTES).expect("a size that can be");
    let start = StartId {
        counter: start,
        word: u64::from(start) << 7,
    };
    let opened = Log::open(disk.clone(), config, start, &Manifests::new());
    let (log, mut recovered) = opened.expect("nothing failed");
    (log, recovered.partitions.remove(&PARTITION))
}

impl RealLog {
    pub(crate) fn new() -> Self {
        let disk = MemDisk::new();
        let (mut log, _) = open(&disk, 1);
        Self {
            batch: log.new_batch(),
            disk,
            log,
            start: 1,
            replaced: false,
        }
    }

    /// Writes a batch and makes it durable.
    pub(crate) fn write(&mut self, records: &[Record], replaces: bool) {
        self.replaced |= replaces;
        for record in records {
            if self.batch.push(record) == Push::Full {
                self.flush();
                assert_eq!(
                    self.batch.push(record),
                    Push::Taken,
                    "a record fits an empty batch"
                );
            }
        }
        self.flush();
        self.log.sync().expect("nothing fails");
        self.log.check();
    }

    fn flush(&mut self) {
        self.log.write(&mut self.batch).expect("nothing fails");
        self.batch.clear();
    }

    /// Power is lost; what comes back is held against the model.
    pub(crate) fn restart(self, seed: u64, model: &Durable) -> Self {
        let disk = self.disk.power_loss(seed);
        let start = self.start + 1;
        let (mut log, found) = open(&disk, start);
        if !self.replaced {
            let found = found.unwrap_or_default();
            let model = model.restored();
            assert_eq!(found.damage, None);
            assert_eq!(found.hard_state, model.hard_state, "term and vote (I6)");
            let above = found
                .entries
                .iter()
                .filter(|entry| entry.index > model.snapshot.0);
            assert!(
                above.eq(&model.entries),
                "entries: those that were replaced are gone"
            );
        }
        Self {
            batch: log.new_batch(),
            disk,
            log,
            start,
            replaced: self.replaced,
        }
    }
}
