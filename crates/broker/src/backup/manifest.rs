//! The manifest of a backup: what it holds, where, and how that is checked. A file of text, written last.
//!
//! ```text
//! courser backup 1
//! number 3
//! node 00112233445566778899aabbccddeeff     whose data folder it was
//! made 1763770000000                        milliseconds since 1970
//! cut SEGMENT BYTE BATCH                    where the log ended
//! partition ID INDEX                        its last entry
//! file PATH STORED BYTES KEPT SHA256        PATH in the data folder has BYTES bytes: the first KEPT are in STORED, the rest is zero
//! end SHA256                                over everything before this line
//! ```

use std::fmt::Write as _;

use courser_contract::{LogIndex, PartitionId, WallMs};
use courser_log::{BatchNumber, Place, SegmentNumber, checkpoint_file};
use sha2::{Digest, Sha256};

use super::layout;

const NAME: &str = "courser backup";
pub(crate) const VERSION: u32 = 1;
/// A data folder has fewer files.
const FILES_MAX: usize = 10_000_000;

/// SHA-256 of some bytes.
pub(crate) type Sum = [u8; 32];

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) number: u32,
    pub(crate) node: [u8; 16],
    pub(crate) made: WallMs,
    /// Where the log ended, and its last batch.
    pub(crate) cut: (Place, BatchNumber),
    /// The last entry of each partition.
    pub(crate) partitions: Vec<(PartitionId, LogIndex)>,
    pub(crate) files: Vec<FileLine>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileLine {
    /// Where it belongs in a data folder.
    pub(crate) path: String,
    /// Where it is among the backups: perhaps in the folder of an earlier one.
    pub(crate) stored: String,
    /// Its length in a data folder.
    pub(crate) bytes: u64,
    /// Its length among the backups; the rest is zero.
    pub(crate) kept: u64,
    /// Of what is kept.
    pub(crate) sum: Sum,
}

/// Why text is no manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("its checksum is wrong")]
    Checksum,
    #[error("line {0} is none of a manifest")]
    Line(usize),
    #[error(
        "it has version {0}, and this program reads version {VERSION}: use the program that made it"
    )]
    Version(u32),
}

impl Manifest {
    /// The text.
    pub(crate) fn encode(&self) -> String {
        let mut text = format!("{NAME} {VERSION}\nnumber {}\n", self.number);
        let (end, batch) = self.cut;
        let _ = writeln!(text, "node {}", hex(&self.node));
        let _ = writeln!(text, "made {}", self.made.0);
        let _ = writeln!(text, "cut {} {} {}", end.segment.0, end.offset, batch.0);
        for (id, index) in &self.partitions {
            let _ = writeln!(text, "partition {} {}", id.0, index.0);
        }
        for file in &self.files {
            let FileLine {
                path,
                stored,
                bytes,
                kept,
                sum,
            } = file;
            let _ = writeln!(text, "file {path} {stored} {bytes} {kept} {}", hex(sum));
        }
        let sum: Sum = Sha256::digest(text.as_bytes()).into();
        let _ = writeln!(text, "end {}", hex(&sum));
        text
    }

    /// Reads the text. The version is looked at before the checksum: a later one may have another.
    pub(crate) fn decode(text: &str) -> Result<Self, ManifestError> {
        let version = text.lines().next().and_then(|line| {
            let rest = line.strip_prefix(NAME)?.strip_prefix(' ')?;
            rest.parse().ok()
        });
        match version {
            Some(VERSION) => {}
            Some(other) => return Err(ManifestError::Version(other)),
            None => return Err(ManifestError::Line(1)),
        }
        let at = text.rfind("end ").ok_or(ManifestError::Checksum)?;
        let (body, end) = text.split_at(at);
        let sum: Sum = Sha256::digest(body.as_bytes()).into();
        if end.strip_suffix('\n') != Some(&format!("end {}", hex(&sum))) {
            return Err(ManifestError::Checksum);
        }
        Lines::new(body).read()
    }

    /// Bytes of the data folder that it makes.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = self.files.iter().map(|file| file.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Backups in whose folders its files are.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        let files = self.files.iter();
        files.filter_map(|file| number_of(file.stored.split_once('/')?.0))
    }

    /// The file at a place of the data folder.
    pub(crate) fn file(&self, path: &str) -> Option<&FileLine> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// The lines between the first and the last.
struct Lines<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    at: usize,
}

impl<'a> Lines<'a> {
    fn new(body: &'a str) -> Self {
        let mut lines = body.lines().enumerate();
        lines.next();
        Self { lines, at: 1 }
    }

    fn read(mut self) -> Result<Manifest, ManifestError> {
        let mut manifest = Manifest {
            number: self.one("number")?,
            node: self.node()?,
            made: WallMs(self.one("made")?),
            cut: self.cut()?,
            partitions: Vec::new(),
            files: Vec::new(),
        };
        for (at, line) in self.lines.by_ref() {
            let wrong = ManifestError::Line(at + 1);
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["partition", id, index] => {
                    let read = id.parse().ok().zip(index.parse().ok());
                    let (id, index) = read.ok_or(wrong)?;
                    manifest.partitions.push((PartitionId(id), LogIndex(index)));
                }
                ["file", path, stored, bytes, kept, sum] if manifest.files.len() < FILES_MAX => {
                    let file = file_line([path, stored], [bytes, kept], sum);
                    manifest.files.push(file.ok_or(wrong)?);
                }
                _ => return Err(wrong),
            }
        }
        Ok(manifest)
    }

    fn words(&mut self, name: &str) -> Result<Vec<&'a str>, ManifestError> {
        let (at, line) = self.lines.next().ok_or(ManifestError::Line(self.at + 1))?;
        self.at = at + 1;
        let rest = line.strip_prefix(name).and_then(|it| it.strip_prefix(' '));
        let rest = rest.ok_or(ManifestError::Line(self.at))?;
        Ok(rest.split(' ').collect())
    }

    fn one<T: std::str::FromStr>(&mut self, name: &str) -> Result<T, ManifestError> {
        let words = self.words(name)?;
        let number = match words.as_slice() {
            [number] => number.parse().ok(),
            _ => None,
        };
        number.ok_or(ManifestError::Line(self.at))
    }

    fn node(&mut self) -> Result<[u8; 16], ManifestError> {
        let words = self.words("node")?;
        let node = match words.as_slice() {
            [node] => unhex(node),
            _ => None,
        };
        node.ok_or(ManifestError::Line(self.at))
    }

    fn cut(&mut self) -> Result<(Place, BatchNumber), ManifestError> {
        let words = self.words("cut")?;
        let numbers: Option<Vec<u64>> = words.iter().map(|word| word.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[segment, offset, batch]) => {
                let segment = SegmentNumber(segment);
                Ok((Place { segment, offset }, BatchNumber(batch)))
            }
            Some(_) | None => Err(ManifestError::Line(self.at)),
        }
    }
}

fn file_line([path, stored]: [&str; 2], [bytes, kept]: [&str; 2], sum: &str) -> Option<FileLine> {
    let (bytes, kept) = (bytes.parse().ok()?, kept.parse().ok()?);
    (is_of_data(path) && is_stored(stored) && kept <= bytes).then_some(FileLine {
        path: path.to_owned(),
        stored: stored.to_owned(),
        bytes,
        kept,
        sum: unhex(sum)?,
    })
}

/// Whether a path is one that a data folder has: nothing else is ever written (D15).
fn is_of_data(path: &str) -> bool {
    match path.split_once('/') {
        None => layout::KEPT.contains(&path),
        Some((layout::LOG, name)) => SegmentNumber::of_file_name(name).is_some(),
        Some((layout::CHECKPOINTS, name)) => checkpoint_file(name).is_some(),
        Some(_) => false,
    }
}

/// Whether a path is one that a backup has: the number of a backup, then a path of a data folder.
fn is_stored(path: &str) -> bool {
    path.split_once('/')
        .is_some_and(|(number, rest)| number_of(number).is_some() && is_of_data(rest))
}

/// Name of the folder of a backup.
pub(crate) fn folder_of(number: u32) -> String {
    format!("{number:06}")
}

/// The backup of a folder's name.
pub(crate) fn number_of(name: &str) -> Option<u32> {
    let number = name.parse().ok().filter(|number| *number > 0)?;
    (folder_of(number) == name).then_some(number)
}

/// In hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::sample::a_manifest;
    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let text = a_manifest().encode();
        assert_eq!(Manifest::decode(&text), Ok(a_manifest()));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8_lossy(&bytes);
            assert!(Manifest::decode(&changed).is_err(), "byte {at}");
            assert!(Manifest::decode(&text[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn another_version_is_said_to_be_one() {
        let text = a_manifest()
            .encode()
            .replace("courser backup 1", "courser backup 2");
        assert_eq!(Manifest::decode(&text), Err(ManifestError::Version(2)));
    }

    /// D15, S6: whoever has made it, it leads nowhere else.
    #[test]
    fn d15_no_name_leads_out_of_a_folder() {
        for path in [
            "log/../../x",
            "../node",
            "/etc/passwd",
            "log/1.seg",
            "log//0000000001.seg",
            "checkpoints/x-1.ckp",
            "checkpoints/03-1.ckp",
            "checkpoints/65536.manifest",
            "checkpoints/../1.manifest",
            "admin.token",
            "",
        ] {
            assert!(!is_of_data(path), "{path}");
            assert!(!is_stored(&format!("000001/{path}")), "{path}");
        }
        for path in ["node", "../000001/node", "1/node", "000000/node", "000001"] {
            assert!(!is_stored(path), "{path}");
        }
        assert!(is_stored("000001/node") && is_stored("1234567/log/0000000001.seg"));
    }
}
