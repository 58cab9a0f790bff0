//! Reads certificates and keys again when their files change.
//!
//! Folders are watched, not files: a file is usually replaced by another of its name, or a link on the way to it is. So may be its folder,
//! which is therefore watched from the folder around it as well, and again when another one has its name. What else changes in one of them, such
//! as a log, costs a look at the files' dates; they are read when these have changed.

use std::collections::{BTreeMap, BTreeSet};
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
        let mut folders = match watcher {
            Ok(watcher) => Some(Folders::new(watcher, &all)),
            Err(error) => {
                say_not_watched(Path::new("*"), &error);
                None
            }
        };
        let mut all: Vec<_> = all.into_iter().map(Seen::new).collect();
        let look = move || {
            while wait_for_change(&incoming) {
                // Before the files are read: what changes in a new folder from then on is told.
                if let Some(folders) = &mut folders {
                    let _ = folders.watch();
                }
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

/// The folders that are watched.
#[derive(Debug)]
struct Folders {
    watcher: RecommendedWatcher,
    /// By their names, with which folder has the name, as far as it is watched.
    seen: BTreeMap<PathBuf, Option<(u64, u64)>>,
}

impl Folders {
    /// Watches the folders of the files of `all`, and those around them.
    fn new(watcher: RecommendedWatcher, all: &[Arc<dyn Watched>]) -> Self {
        let files = all.iter().flat_map(|one| one.files());
        let own: BTreeSet<_> = files.map(|file| folder_of(&file)).collect();
        let around = own.iter().map(|folder| folder_of(folder));
        let names = around.chain(own.iter().cloned());
        let mut folders = Self {
            seen: names.map(|name| (name, None)).collect(),
            watcher,
        };
        for (folder, error) in folders.watch() {
            if own.contains(&folder) {
                say_not_watched(&folder, &error);
            }
        }
        folders
    }

    /// Watches the folders that have these names now, and says which are not watched. One that is not there is, once it is: the one around it
    /// tells.
    fn watch(&mut self) -> Vec<(PathBuf, notify::Error)> {
        let mut errors = Vec::new();
        for (name, seen) in &mut self.seen {
            let found = std::fs::metadata(name).map(|found| (found.dev(), found.ino()));
            if seen.is_some() && found.as_ref().ok() == seen.as_ref() {
                continue;
            }
            // That the one before is gone already is no fault.
            if seen.take().is_some() {
                let _ = self.watcher.unwatch(name);
            }
            let watched = found.map_err(notify::Error::io).and_then(|now| {
                let mode = RecursiveMode::NonRecursive;
                self.watcher.watch(name, mode).map(|()| now)
            });
            match watched {
                Ok(now) => *seen = Some(now),
                Err(error) => errors.push((name.clone(), error)),
            }
        }
        errors
    }
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

    /// Who renews certificates may make their folder anew, or lead a link to it elsewhere.
    #[test]
    fn a_folder_that_is_replaced_is_watched_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for name in ["live", "1", "2"] {
            std::fs::create_dir(path(name)).expect("made");
        }
        std::os::unix::fs::symlink("1", path("linked")).expect("a link");
        let one = |name: &str| {
            Arc::new(Asked {
                file: path(name).join("key.pem"),
                looks: Mutex::default(),
            }) as Arc<dyn Watched>
        };
        let all = [one("live"), one("linked")];
        let (notes, incoming) = channel();
        let watcher = notify::recommended_watcher(move |_| {
            let _ = notes.send(());
        });
        let mut folders = Folders::new(watcher.expect("a watcher"), &all);
        let told = || {
            let waits = Duration::from_secs(10);
            assert!(incoming.recv_timeout(waits).is_ok(), "it is told");
            while incoming.recv_timeout(QUIET).is_ok() {}
        };
        std::fs::rename(path("live"), path("old")).expect("moved");
        told();
        assert_eq!(folders.watch().len(), 1, "it is not there");
        std::fs::create_dir(path("live")).expect("made");
        told();
        assert!(folders.watch().is_empty());
        std::fs::write(path("live/key.pem"), "two").expect("written");
        told();
        std::os::unix::fs::symlink("2", path("new")).expect("a link");
        std::fs::rename(path("new"), path("linked")).expect("replaced");
        told();
        assert!(folders.watch().is_empty());
        std::fs::write(path("2/key.pem"), "two").expect("written");
        told();
        std::fs::write(path("old/key.pem"), "three").expect("written");
        std::fs::write(path("1/key.pem"), "three").expect("written");
        assert!(incoming.recv_timeout(QUIET).is_err(), "not their folders");
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
