//! A checkpoint, read some pieces a step.

use courser_contract::{Need, Needs, NeedsScan, PartitionId};

use super::obstacle::Trouble;
use crate::{
    checkpoint::{CheckpointReader, CheckpointStore, Manifests},
    disk::{Disk, DiskFile},
};

/// Pieces that a step reads: 512 KiB at most.
const PIECES: usize = 8;

/// One that is being read. A later one may take its place meanwhile: the file stays open, and says enough (see the module above).
#[derive(Debug)]
pub(super) struct CheckpointScan<F, S> {
    reader: CheckpointReader<F>,
    scan: S,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scanned {
    More,
    All,
}

impl<F: DiskFile, S: NeedsScan> CheckpointScan<F, S> {
    /// Begins to read the checkpoint of a partition that counts.
    pub(super) fn new<D, N>(
        store: &CheckpointStore<D>,
        manifests: &Manifests,
        needs: &N,
        partition: PartitionId,
    ) -> Result<Self, Trouble>
    where
        D: Disk<File = F>,
        N: Needs<Scan = S>,
    {
        let manifest = manifests.get(&partition);
        let manifest = manifest.ok_or_else(|| "there is no manifest".to_owned())?;
        let reader = store.reader(manifest)?;
        let scan = needs.scan(partition);
        Ok(Self { reader, scan })
    }

    /// Reads on.
    pub(super) fn step(&mut self, need: &mut dyn FnMut(Need)) -> Result<Scanned, Trouble> {
        for _ in 0..PIECES {
            match self.reader.next_piece()? {
                Some(piece) => self.scan.piece(&piece, need)?,
                None => return Ok(Scanned::All),
            }
        }
        Ok(Scanned::More)
    }

    /// All pieces have come. Gives their bytes.
    pub(super) fn finish(self) -> Result<u64, Trouble> {
        let (_, bytes) = self.reader.so_far();
        self.scan.finish()?;
        Ok(bytes)
    }
}
