//! A manifest of a backup for the fuzz target and for the unit tests of what reads it.

use courser_contract::{LogIndex, PartitionId, WallMs};
use courser_log::{BatchNumber, Place, SegmentNumber};

use super::manifest::{FileLine, Manifest};

/// Some of its files are in an earlier backup, of one not all is kept.
pub(super) fn a_manifest() -> Manifest {
    let file = |path: &str, stored: &str, kept| FileLine {
        path: path.to_owned(),
        stored: stored.to_owned(),
        bytes: 1 << 20,
        kept,
        sum: [7; 32],
    };
    Manifest {
        number: 2,
        node: [3; 16],
        made: WallMs(5),
        cut: (
            Place {
                segment: SegmentNumber(9),
                offset: 8192,
            },
            BatchNumber(77),
        ),
        partitions: vec![
            (PartitionId(0), LogIndex(1)),
            (PartitionId(3), LogIndex(44)),
        ],
        files: vec![
            file("log/0000000008.seg", "000001/log/0000000008.seg", 1 << 20),
            file("log/0000000009.seg", "000002/log/0000000009.seg", 8192),
            file("checkpoints/3-40.ckp", "000001/checkpoints/3-40.ckp", 9),
            file("node", "000002/node", 64),
        ],
    }
}
