//! Which entries made the program panic when they were applied (M50): the file `DATA/crash`.
//!
//! One line a panic, `apply PARTITION INDEX`, appended and synced by the thread that panics, so that it must not need much. A
//! line that is cut or is none says nothing: then one panic more is needed.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use courser_contract::{LogIndex, PartitionId};

/// So many panics at one entry set its partition aside.
pub(crate) const PANICS: u32 = 2;
/// More than all that can be of use.
const BYTES_MAX: u64 = 1 << 20;

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

    /// The file.
    pub(crate) fn encode(&self) -> String {
        let lines = self.0.iter();
        let lines = lines.map(|((id, index), panics)| {
            format!("apply {} {}\n", id.0, index.0).repeat(*panics as usize)
        });
        lines.collect()
    }
}

/// Notes that applying an entry has panicked. Durable when it returns.
///
/// # Errors
/// Those of the disk.
pub(crate) fn note(path: &Path, id: PartitionId, index: LogIndex) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    if file.metadata()?.len() > BYTES_MAX {
        return Ok(());
    }
    // Behind a line that was cut.
    file.write_all(format!("\napply {} {}\n", id.0, index.0).as_bytes())?;
    file.sync_all()?;
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::File::open(folder)?.sync_all()
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
