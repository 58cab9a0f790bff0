//! Reads certificates and keys again when their files change.
//!
//! Folders are watched, not files: a file is usually replaced by another of its name, or a link on the way to it is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::certificates::Certificates;

/// After a change nothing may change for so long until the files are read: certificate and key are two files.
const QUIET: Duration = Duration::from_millis(250);
/// They are read at the latest this long after a change, however often something in the folder changes.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often they are read without being told of a change: not every file system tells.
const ANYWAY: Duration = Duration::from_secs(60);

/// What is read from files, and read again.
pub(crate) trait Watched: std::fmt::Debug + Send + Sync {
    /// The files. Folders on the way to them may change as well.
    fn files(&self) -> Vec<PathBuf>;

    /// Reads them again, and says what came of it. Blocks for as long as the disk takes.
    fn look(&self);
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
        let look = move || {
            let _watcher = watcher;
            while wait_for_change(&incoming) {
                for one in &all {
                    one.look();
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

/// Waits until files should be read: something has changed and nothing more for a while, or it is time anyway. False: it is over.
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

    fn look(&self) {
        match self.load() {
            Ok(loaded) => {
                let _ = self.take(loaded);
            }
            Err(error) => self.tell_refused(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
