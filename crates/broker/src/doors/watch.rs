//! Reads certificates and keys again when their files change.
//!
//! Folders are watched, not files: a file is usually replaced by another of its name, or a link on the way to it is. What else changes
//! there, such as a log, costs a look at the files' dates; they are read when these have changed.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::certificates::Certificates;

/// After a change nothing may change for so long until the files are read: certificate and key are two files.
const QUIET: Duration = Duration::from_millis(250);
/// They are looked at at the latest this long after a change, however often something in the folder changes.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often they are read without a change: not every file system tells of one, and what could not be read may be readable again.
const ANYWAY: Duration = Duration::from_secs(60);

/// What is read from files, and read again.
pub(crate) trait Watched: std::fmt::Debug + Send + Sync {
    /// The files. Folders on the way to them may change as well.
    fn files(&self) -> Vec<PathBuf>;

    /// Reads them again, and says what came of it. Blocks for as long as the disk takes.
    fn look(&self, telling: Telling);
}

/// What a look says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Also that the files are of no use.
    All,
    /// Only that something else counts now: that they are of no use was said when they became so.
    Changes,
}

/// What a file shows without being read. A link that leads elsewhere shows another file.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    bytes: u64,
    changed: (i64, i64),
}

fn stamp(path: &Path) -> Result<Stamp, ErrorKind> {
    let seen = std::fs::metadata(path).map_err(|error| error.kind())?;
    Ok(Stamp {
        file: (seen.dev(), seen.ino()),
        bytes: seen.len(),
        changed: (seen.ctime(), seen.ctime_nsec()),
    })
}

/// One of those that are watched.
#[derive(Debug)]
struct Seen {
    one: Arc<dyn Watched>,
    /// Of its files, and when they were read; none before the first time.
    last: Option<(Vec<Result<Stamp, ErrorKind>>, Instant)>,
}

impl Seen {
    fn new(one: Arc<dyn Watched>) -> Self {
        Self { one, last: None }
    }

    /// Reads the files if they have changed, or were not read for long.
    fn look(&mut self, now: Instant) {
        // Before they are read: what changes meanwhile is another state.
        let stamps: Vec<_> = self.one.files().iter().map(|file| stamp(file)).collect();
        let telling = match &self.last {
            Some((before, _)) if *before != stamps => Telling::All,
            Some((_, read)) if now.saturating_duration_since(*read) < ANYWAY => return,
            Some(_) => Telling::Changes,
            None => Telling::All,
        };
        self.one.look(telling);
        self.last = Some((stamps, now));
    }
}

/// Something for the thread.
#[derive(Debug)]
enum Note {
    Changed,
    Stop,
}

/// A thread that watches until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    notes: Sender<Note>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to watch the files of `all`. None when there are none, or no thread.
    pub(crate) fn start(all: Vec<Arc<dyn Watched>>) -> Option<Self> {
        if all.is_empty() {
            return None;
        }
        let (notes, incoming) = channel();
        let told = notes.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let reads = event.as_ref().is_ok_and(|event| event.kind.is_access());
            if !reads {
                // After the end nobody listens.
                let _ = told.send(Note::Changed);
            }
        });
        let watcher = match watcher {
            Ok(watcher) => Some(watch_folders(watcher, &all)),
            Err(error) => {
                say_not_watched(Path::new("*"), &error);
                None
            }
        };
        let mut all: Vec<_> = all.into_iter().map(Seen::new).collect();
        let look = move || {
            let _watcher = watcher;
            while wait_for_change(&incoming) {
                for one in &mut all {
                    one.look(Instant::now());
                }
            }
        };
        let thread = thread::Builder::new()
            .name("certificates".to_owned())
            .spawn(look)
            .ok()?;
        Some(Self {
            notes,
            thread: Some(thread),
        })
    }
}

/// Waits until files should be looked at: something has changed and nothing more for a while, or it is time anyway. False: it is over.
fn wait_for_change(notes: &Receiver<Note>) -> bool {
    let (mut wait, mut latest) = (ANYWAY, None);
    loop {
        match notes.recv_timeout(wait) {
            Ok(Note::Changed) => {
                let now = Instant::now();
                let latest = *latest.get_or_insert(now + PATIENCE);
                if now >= latest {
                    return true;
                }
                wait = QUIET.min(latest - now);
            }
            Ok(Note::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => return true,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.notes.send(Note::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn say_not_watched(folder: &Path, error: &notify::Error) {
    tracing::warn!(
        event = "certificates_not_watched",
        folder = %folder.display(),
        %error,
        "changes are looked for every {} s only",
        ANYWAY.as_secs()
    );
}

fn watch_folders(mut watcher: RecommendedWatcher, all: &[Arc<dyn Watched>]) -> RecommendedWatcher {
    let files = all.iter().flat_map(|one| one.files());
    let folders: BTreeSet<_> = files.map(|file| folder_of(&file)).collect();
    for folder in folders {
        if let Err(error) = watcher.watch(&folder, RecursiveMode::NonRecursive) {
            say_not_watched(&folder, &error);
        }
    }
    watcher
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

impl Watched for Certificates {
    fn files(&self) -> Vec<PathBuf> {
        self.paths().cloned().collect()
    }

    fn look(&self, telling: Telling) {
        match self.load() {
            Ok(loaded) => {
                let _ = self.take(loaded);
            }
            Err(error) if telling == Telling::All => self.tell_refused(&error),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Keeps what it was asked to say.
    #[derive(Debug)]
    struct Asked {
        file: PathBuf,
        looks: Mutex<Vec<Telling>>,
    }

    impl Watched for Asked {
        fn files(&self) -> Vec<PathBuf> {
            vec![self.file.clone()]
        }

        fn look(&self, telling: Telling) {
            self.looks.lock().expect("one thread").push(telling);
        }
    }

    #[test]
    fn files_that_are_of_no_use_are_told_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let write = |name, text| std::fs::write(path(name), text).expect("it is written");
        let asked = Arc::new(Asked {
            file: path("key.pem"),
            looks: Mutex::default(),
        });
        let mut seen = Seen::new(Arc::clone(&asked) as Arc<dyn Watched>);
        let begun = Instant::now();
        let mut looks_at = |after| {
            seen.look(begun + after);
            std::mem::take(&mut *asked.looks.lock().expect("one thread"))
        };
        assert_eq!(looks_at(Duration::ZERO), [Telling::All]);
        write("courser.log", "certificates_refused");
        assert_eq!(looks_at(QUIET), [], "another file of the folder");
        write("key.pem", "one");
        assert_eq!(looks_at(2 * QUIET), [Telling::All]);
        assert_eq!(looks_at(2 * QUIET + ANYWAY), [Telling::Changes]);
        assert_eq!(looks_at(3 * QUIET + ANYWAY), []);
        write("new.pem", "two");
        std::fs::rename(path("new.pem"), path("key.pem")).expect("it is moved");
        assert_eq!(looks_at(4 * QUIET + ANYWAY), [Telling::All]);
    }

    #[test]
    fn files_are_read_though_something_changes_all_the_time() {
        let (notes, incoming) = channel();
        let (end, ended) = channel::<()>();
        let changing = thread::spawn(move || {
            while ended.recv_timeout(QUIET / 5) == Err(RecvTimeoutError::Timeout) {
                let _ = notes.send(Note::Changed);
            }
        });
        assert!(wait_for_change(&incoming));
        drop(end);
        changing.join().expect("it ends");
        let again = wait_for_change(&incoming);
        let left = incoming.recv();
        assert!(!again && left.is_err(), "nobody is left to tell");
    }
}
