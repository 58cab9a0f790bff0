//! Which entries made the program panic when they were applied (M50): the file `DATA/crash`.
//!
//! One line a panic, `apply PARTITION INDEX`, written and synced by the thread that panics, so that it must not need much. A
//! line that is cut or is none says nothing: then one panic more is needed.
//!
//! Each start writes the file anew: with no more lines than count, and with empty ones behind them. A note takes the place of these, so that
//! it needs no room: a full disk is no reason to panic at the same entry at each start.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use courser_contract::{LogIndex, PartitionId};

use crate::files::{private_file, sync_folder};

/// So many panics at one entry set its partition aside.
pub(crate) const PANICS: u32 = 2;
/// The file is a multiple of this, of which so much at least is empty lines: for a panic of each shard.
const BLOCK_BYTES: usize = 4_096;
const ROOM_BYTES: usize = 2_560;

/// How often which entry made the program panic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crashes(BTreeMap<(PartitionId, LogIndex), u32>);

impl Crashes {
    /// The file, if there is one.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let text = match fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let mut crashes = Self::default();
        for place in text.split_inclusive('\n').filter_map(line) {
            *crashes.0.entry(place).or_default() += 1;
        }
        Ok(crashes)
    }

    /// The first entry of a partition, above its checkpoint, that has made the program panic too often.
    pub(crate) fn bad_entry(
        &self,
        id: PartitionId,
        above: LogIndex,
        is_skipped: impl Fn(LogIndex) -> bool,
    ) -> Option<LogIndex> {
        let of = self.0.range((id, above.next())..=(id, LogIndex(u64::MAX)));
        let bad = of.filter(|(_, panics)| **panics >= PANICS);
        bad.map(|((_, index), _)| *index)
            .find(|index| !is_skipped(*index))
    }

    /// Forgets what is noted of a partition. True if something was.
    pub(crate) fn forget(&mut self, id: PartitionId) -> bool {
        let before = self.0.len();
        self.0.retain(|(of, _), _| *of != id);
        self.0.len() < before
    }

    /// Forgets what is noted of a partition's entries from this one on.
    pub(crate) fn forget_from(&mut self, id: PartitionId, first: LogIndex) {
        self.0.retain(|(of, index), _| *of != id || *index < first);
    }

    /// The file, with room for more notes. More panics at one entry than set its partition aside say no more than these.
    pub(crate) fn encode(&self) -> String {
        let lines = self.0.iter();
        let lines = lines.map(|((id, index), panics)| {
            format!("apply {} {}\n", id.0, index.0).repeat(PANICS.min(*panics) as usize)
        });
        let mut text: String = lines.collect();
        let bytes = (text.len() + ROOM_BYTES).next_multiple_of(BLOCK_BYTES);
        text.extend(std::iter::repeat_n('\n', bytes - text.len()));
        text
    }
}

/// Notes that applying an entry has panicked, in place of empty lines where there are some. Durable when it returns. Shards may panic together.
///
/// # Errors
/// Those of the disk.
pub(crate) fn note(path: &Path, id: PartitionId, index: LogIndex) -> io::Result<()> {
    let mut file = private_file().read(true).truncate(false).open(path)?;
    file.lock()?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let said = text.iter().rposition(|byte| *byte != b'\n');
    let end = said.map_or(0, |last| last as u64 + 1);
    // Behind a line that was cut.
    let line = format!("\napply {} {}\n", id.0, index.0);
    file.write_all_at(line.as_bytes(), end)?;
    file.sync_all()?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

fn line(line: &str) -> Option<(PartitionId, LogIndex)> {
    let mut words = line.strip_suffix('\n')?.split(' ');
    (words.next()? == "apply").then_some(())?;
    let id = PartitionId(words.next()?.parse().ok()?);
    let index = LogIndex(words.next()?.parse().ok()?);
    words.next().is_none().then_some((id, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: PartitionId = PartitionId(2);

    #[test]
    fn m50_two_panics_at_one_entry_count_and_one_does_not() {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let path = folder.path().join("crash");
        let bad = |above: u64, skipped: u64| {
            let crashes = Crashes::read(&path).expect("it can be read");
            crashes.bad_entry(ID, LogIndex(above), |index| index.0 == skipped)
        };
        assert_eq!(bad(0, 0), None);
        for index in [7, 9, 9] {
            note(&path, ID, LogIndex(index)).expect("there is room");
        }
        note(&path, PartitionId(3), LogIndex(7)).expect("there is room");
        assert_eq!(bad(0, 0), Some(LogIndex(9)));
        assert_eq!(bad(9, 0), None, "it is below the checkpoint");
        assert_eq!(bad(0, 9), None, "it is skipped");
        let mut crashes = Crashes::read(&path).expect("it can be read");
        fs::write(&path, crashes.encode()).expect("there is room");
        assert_eq!(Crashes::read(&path).expect("it can be read"), crashes);
        assert!(crashes.forget(ID) && !crashes.forget(ID));
    }

    #[test]
    fn m50_a_note_needs_no_room_of_the_disk() {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let path = folder.path().join("crash");
        fs::write(&path, Crashes::default().encode()).expect("there is room");
        let bytes = || fs::metadata(&path).expect("it is there").len();
        let before = bytes();
        // Of 64 shards at once.
        for index in 0..64 {
            note(&path, ID, LogIndex(u64::MAX / 4 + index / 2)).expect("there is room");
        }
        assert_eq!(bytes(), before, "what is there is written over");
        let crashes = Crashes::read(&path).expect("it can be read");
        assert_eq!(crashes.0.len(), 32);
        assert!(crashes.0.values().all(|panics| *panics == PANICS));
    }

    #[test]
    fn m50_however_many_notes_there_are_the_next_one_counts() {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let path = folder.path().join("crash");
        fs::write(&path, "apply 3 7\n".repeat(200_000)).expect("there is room");
        for _ in 0..PANICS {
            note(&path, ID, LogIndex(8)).expect("there is room");
        }
        let crashes = Crashes::read(&path).expect("it can be read");
        assert_eq!(
            crashes.bad_entry(ID, LogIndex(0), |_| false),
            Some(LogIndex(8))
        );
        assert_eq!(crashes.encode().len(), BLOCK_BYTES, "what counts is little");
    }

    #[test]
    fn m50_a_note_that_was_cut_says_nothing() {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let path = folder.path().join("crash");
        fs::write(
            &path,
            "apply 2 7\napply 2 7 9\napply x 7\n\u{fffd}\napply 2 7",
        )
        .expect("room");
        note(&path, ID, LogIndex(8)).expect("there is room");
        let crashes = Crashes::read(&path).expect("it can be read");
        // The cut one is whole again by the line end of the next: it was one.
        assert_eq!(crashes.0.get(&(ID, LogIndex(7))), Some(&2));
        assert_eq!(crashes.0.get(&(ID, LogIndex(8))), Some(&1));
        assert_eq!(crashes.0.len(), 2);
    }
}
