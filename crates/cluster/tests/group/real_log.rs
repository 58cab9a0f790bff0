//! The same life written into a real log with real checkpoints, on disks in memory: at each restart what they give back is what the model says.

use bytes::Bytes;
use courser_contract::{LogIndex, Term};
use courser_log::testing::MemDisk;
use courser_log::{
    Batch, CheckpointAt, CheckpointStore, LiveEntries, Log, LogConfig, NodeIdentity, Push, Record,
    RecoveredPartition, StartId,
};

use crate::durable::Durable;
use crate::node::{PARTITION, Told};

const SEGMENT_BYTES: u64 = 64 << 10;
const NODE: NodeIdentity = NodeIdentity(7);

/// A node's log and its checkpoints.
pub(crate) struct RealLog {
    disk: MemDisk,
    checkpoints: MemDisk,
    log: Log<MemDisk>,
    store: CheckpointStore<MemDisk>,
    batch: Batch,
    start: u32,
    /// The checkpoint that counts came from another node.
    is_fetched: bool,
    /// Restarts at which such a one was compared.
    pub(crate) fetched_compared: usize,
}

/// What a start found.
struct Found {
    partition: RecoveredPartition,
    /// The bytes of the checkpoint.
    state: Option<Vec<u8>>,
}

fn open(
    disk: &MemDisk,
    checkpoints: &MemDisk,
    start: u32,
) -> (Log<MemDisk>, CheckpointStore<MemDisk>, Found) {
    let config = LogConfig::new(NODE, SEGMENT_BYTES).expect("a size that can be");
    let start = StartId {
        counter: start,
        word: u64::from(start) << 7,
    };
    let opened = CheckpointStore::open(checkpoints.clone(), NODE);
    let (store, loaded) = opened.expect("nothing failed");
    let opened = Log::open(disk.clone(), config, start, &loaded.manifests);
    let (log, mut recovered) = opened.expect("nothing failed");
    assert_eq!(recovered.report.damages, []);
    let state = loaded.manifests.get(&PARTITION).map(|manifest| {
        let mut reader = store.reader(manifest).expect("its manifest names it");
        let mut state = Vec::new();
        while let Some(piece) = reader.next_piece().expect("nothing failed") {
            state.extend_from_slice(&piece);
        }
        state
    });
    let partition = recovered.partitions.remove(&PARTITION).unwrap_or_default();
    (log, store, Found { partition, state })
}

impl RealLog {
    pub(crate) fn new() -> Self {
        let (disk, checkpoints) = (MemDisk::new(), MemDisk::new());
        let (mut log, store, _) = open(&disk, &checkpoints, 1);
        Self {
            batch: log.new_batch(),
            disk,
            checkpoints,
            log,
            store,
            start: 1,
            is_fetched: false,
            fetched_compared: 0,
        }
    }

    /// Writes a batch and makes it durable.
    pub(crate) fn write(&mut self, records: &[Record]) {
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

    /// A checkpoint that came from another node takes the place of the whole log (M43). What was in that above the place is void: an entry
    /// there replaces all behind it.
    pub(crate) fn replace(&mut self, (index, term): (LogIndex, Term), told: &Told) {
        self.write(&[Record::Entry {
            partition: PARTITION,
            term,
            index,
            data: Bytes::new(),
        }]);
        self.checkpoint((index, term), told);
        self.is_fetched = true;
    }

    /// A checkpoint becomes the one that counts.
    pub(crate) fn checkpoint(&mut self, (index, term): (LogIndex, Term), told: &Told) {
        let at = CheckpointAt { index, term };
        let mut writer = self.store.writer(PARTITION, at).expect("nothing fails");
        writer.piece(&told.to_bytes()).expect("nothing fails");
        let finished = writer.finish(LiveEntries::NONE, self.log.synced());
        finished.expect("nothing fails");
        self.log.set_checkpoint(PARTITION, at, LiveEntries::NONE);
        self.is_fetched = false;
    }

    /// Power is lost; what comes back is held against the model, and against what the node was told up to its checkpoint.
    pub(crate) fn restart(self, seed: u64, model: &Durable, told: Option<&Told>) -> Self {
        let disk = self.disk.power_loss(seed);
        let checkpoints = self.checkpoints.power_loss(seed ^ 1);
        let start = self.start + 1;
        let (mut log, store, found) = open(&disk, &checkpoints, start);
        let model = model.restored();
        assert_eq!(
            found.state,
            told.map(|told| told.to_bytes().to_vec()),
            "the state at the checkpoint, byte for byte (M42, M43)"
        );
        let (index, term) = model.snapshot;
        let at = found.partition.checkpoint.map(|at| (at.index, at.term));
        assert_eq!(at, told.map(|_| (index, term)));
        assert_eq!(found.partition.damage, None);
        let mut hard_state = model.hard_state;
        hard_state.commit = hard_state.commit.max(index);
        assert_eq!(found.partition.hard_state, hard_state, "term and vote (I6)");
        assert_eq!(
            found.partition.entries, model.entries,
            "entries: those that were replaced are gone"
        );
        Self {
            batch: log.new_batch(),
            disk,
            checkpoints,
            log,
            store,
            start,
            is_fetched: self.is_fetched,
            fetched_compared: self.fetched_compared + usize::from(self.is_fetched),
        }
    }
}
