//! What a disk in memory holds, and what it forgets.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use super::{Choices, pages::Pages};

/// A call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Writing to a file. Some of it may have been written.
    Write,
    /// Syncing a file.
    Sync,
    /// Reading from a file.
    Read,
    /// Opening a file.
    Open,
    /// Making a file.
    Create,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Syncing the folder.
    SyncDir,
}

/// A write that was not synced when power was lost.
#[derive(Clone, Copy, Debug)]
pub struct Unsynced<'a> {
    /// Name of the file, as it was seen last.
    pub name: &'a str,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// What a loss of power leaves of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// All of it.
    Whole,
    /// Nothing.
    Gone,
    /// Each sector of this many bytes is there or not, as the seed says.
    Torn {
        /// 512 or 4096.
        sector: u64,
        /// Decides for each sector.
        seed: u64,
    },
}

pub(super) type FileId = u64;

#[derive(Clone, Debug)]
enum Change {
    Write {
        offset: u64,
        data: Arc<[u8]>,
    },
    /// Bytes at the end of the file come or go.
    Length(u64),
}

#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub(super) visible: Pages,
    durable: Pages,
    unsynced: Vec<Change>,
}

impl File {
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        self.visible.write(to_usize(offset), data);
        self.unsynced.push(Change::Write {
            offset,
            data: data.into(),
        });
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.visible.resize(to_usize(len));
        self.unsynced.push(Change::Length(len));
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            apply(&mut self.durable, &change);
        }
    }

    /// A sync that failed: some of the changes are on the disk, and none of them will be written again.
    pub(super) fn fail_sync(&mut self, choices: &mut Choices) {
        for change in std::mem::take(&mut self.unsynced) {
            if choices.below(2) == 0 {
                apply(&mut self.durable, &change);
            }
        }
    }

    fn lose_power(&mut self, name: &str, keep: &mut dyn FnMut(Unsynced<'_>) -> Survival) {
        for change in std::mem::take(&mut self.unsynced) {
            let (offset, len) = match &change {
                Change::Write { offset, data } => (*offset, data.len() as u64),
                Change::Length(len) => (*len, 0),
            };
            match keep(Unsynced { name, offset, len }) {
                Survival::Whole => apply(&mut self.durable, &change),
                Survival::Gone => {}
                Survival::Torn { sector, seed } => {
                    apply_torn(&mut self.durable, &change, sector, seed);
                }
            }
        }
        self.visible.clone_from(&self.durable);
    }

    /// Changes a byte for good, as rot does.
    pub(super) fn rot(&mut self, at: u64, flip: u8) {
        for bytes in [&mut self.visible, &mut self.durable] {
            bytes.flip(to_usize(at), flip);
        }
    }

    /// The block that a byte lies in was not written the last time, or nothing of that write was.
    pub(super) fn bring_back(&mut self, at: u64, whole: bool) {
        for bytes in [&mut self.visible, &mut self.durable] {
            bytes.bring_back(to_usize(at), whole);
        }
    }

    pub(super) fn truncate(&mut self, len: u64) {
        for bytes in [&mut self.visible, &mut self.durable] {
            bytes.resize(bytes.len().min(to_usize(len)));
        }
    }

    pub(super) fn replace(&mut self, bytes: &[u8]) {
        self.durable = Pages::of(bytes);
        self.visible = self.durable.clone();
        self.unsynced.clear();
    }

    pub(super) fn is_clean(&self) -> bool {
        self.unsynced.is_empty()
    }
}

fn to_usize(len: u64) -> usize {
    usize::try_from(len).expect("a file in memory fits memory")
}

fn apply(bytes: &mut Pages, change: &Change) {
    match change {
        Change::Write { offset, data } => bytes.write(to_usize(*offset), data),
        Change::Length(len) => bytes.resize(to_usize(*len)),
    }
}

fn apply_torn(bytes: &mut Pages, change: &Change, sector: u64, seed: u64) {
    let Change::Write { offset, data } = change else {
        return;
    };
    let mut choices = Choices::new(seed);
    let mut at = *offset;
    let end = *offset + data.len() as u64;
    while at < end {
        let next = end.min((at / sector + 1) * sector);
        if choices.below(2) == 0 {
            let (from, to) = (to_usize(at - offset), to_usize(next - offset));
            bytes.write(to_usize(at), &data[from..to]);
        }
        at = next;
    }
}

#[derive(Clone, Debug)]
enum NameChange {
    Bind(String, FileId),
    Rename(String, String),
    Remove(String),
}

/// A failure to come.
#[derive(Clone, Copy, Debug)]
struct Plan {
    call: Call,
    /// Calls of that kind that still succeed.
    after: u64,
    /// How often it fails from then on.
    times: u64,
    kind: io::ErrorKind,
}

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) files: BTreeMap<FileId, File>,
    /// Files without a name: who has them open reads on.
    pub(super) orphans: BTreeMap<FileId, File>,
    pub(super) names: BTreeMap<String, FileId>,
    durable_names: BTreeMap<String, FileId>,
    unsynced_names: Vec<NameChange>,
    /// A sync of the folder has failed: some names are seen and will never be on the disk.
    has_lost_names: bool,
    next_file: FileId,
    plans: Vec<Plan>,
    /// Names of files that cannot be removed.
    pub(super) kept: BTreeSet<String>,
    /// Bytes of files that cannot be read: first and last.
    pub(super) unreadable: BTreeMap<FileId, Vec<(u64, u64)>>,
    pub(super) capacity: Option<u64>,
    pub(super) withheld: Option<Withheld>,
    /// Handles of older processes are of no use.
    pub(super) process: u64,
    /// Changing calls so far; and the one from which on none succeeds.
    pub(super) changes: u64,
    pub(super) dies_at: Option<u64>,
    /// Calls that failed because it was planned.
    pub(super) failed: u64,
    pub(super) choices: ChoicesOfFaults,
}

/// What a disk does not give although it says that it has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// Another file: its inodes are used up.
    Files,
    /// A byte more for any file: a quota is.
    Bytes,
}

/// What failing calls choose with; set by whoever wants other choices.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChoicesOfFaults(pub(super) Choices);

impl Default for ChoicesOfFaults {
    fn default() -> Self {
        Self(Choices::new(0))
    }
}

impl State {
    /// What a call gives before it does anything.
    pub(super) fn enter(&mut self, process: u64, call: Call) -> io::Result<()> {
        if process != self.process {
            return Err(io::Error::other("the process of this handle is gone"));
        }
        if !matches!(call, Call::Read | Call::Open) {
            self.changes += 1;
            if self.dies_at.is_some_and(|dies_at| self.changes >= dies_at) {
                return Err(io::Error::other("the process ended here"));
            }
        }
        let mut failed = None;
        for plan in &mut self.plans {
            if plan.call != call || plan.times == 0 {
                continue;
            }
            if plan.after > 0 {
                plan.after -= 1;
            } else if failed.is_none() {
                plan.times -= 1;
                failed = Some(plan.kind);
            }
        }
        match failed {
            Some(kind) => {
                self.failed += 1;
                Err(kind.into())
            }
            None => Ok(()),
        }
    }

    pub(super) fn plan(&mut self, call: Call, after: u64, times: u64, kind: io::ErrorKind) {
        self.plans.push(Plan {
            call,
            after,
            times,
            kind,
        });
    }

    pub(super) fn clear_plans(&mut self) {
        self.plans.clear();
        self.dies_at = None;
    }

    /// What is written can be read again: a disk takes another sector for one that it could not read.
    pub(super) fn heal(&mut self, id: FileId, offset: u64, len: u64) {
        let Some(ranges) = self.unreadable.get_mut(&id) else {
            return;
        };
        let end = offset + len;
        let left = ranges.drain(..).flat_map(|(first, last)| {
            // Both ends are included; what is empty goes.
            let before = (first, last.min(offset.saturating_sub(1)));
            let behind = (first.max(end), last);
            let is_before = first < offset;
            let is_behind = end <= last;
            let parts = [is_before.then_some(before), is_behind.then_some(behind)];
            parts.into_iter().flatten()
        });
        *ranges = left.collect();
    }

    pub(super) fn used(&self) -> u64 {
        let files = self.files.values();
        files.map(|file| file.visible.len() as u64).sum()
    }

    pub(super) fn create(&mut self, name: &str) -> FileId {
        let id = self.next_file;
        self.next_file += 1;
        self.files.insert(id, File::default());
        self.names.insert(name.to_owned(), id);
        self.unsynced_names
            .push(NameChange::Bind(name.to_owned(), id));
        id
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        rename(&mut self.names, from, to)?;
        self.unsynced_names
            .push(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        if self.kept.contains(name) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if self.names.remove(name).is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.unsynced_names
            .push(NameChange::Remove(name.to_owned()));
        self.forget_unnamed();
        Ok(())
    }

    pub(super) fn sync_dir(&mut self) {
        let changes = std::mem::take(&mut self.unsynced_names);
        self.apply_names(&changes);
    }

    /// A sync of the folder that failed: the first of the changes are on the disk, and the others will not be written again.
    pub(super) fn fail_sync_dir(&mut self) {
        self.has_lost_names = true;
        let mut changes = std::mem::take(&mut self.unsynced_names);
        let kept = self.choices.0.below(changes.len() as u64 + 1);
        changes.truncate(to_usize(kept));
        self.apply_names(&changes);
    }

    /// Names as the disk has them, when they are known to differ from those that are seen.
    pub(super) fn forget_lost_names(&mut self) {
        if std::mem::take(&mut self.has_lost_names) {
            self.sync_dir();
            self.names.clone_from(&self.durable_names);
            self.forget_unnamed();
        }
    }

    fn apply_names(&mut self, changes: &[NameChange]) {
        for change in changes {
            match change {
                NameChange::Bind(name, id) => {
                    self.durable_names.insert(name.clone(), *id);
                }
                NameChange::Rename(from, to) => {
                    // A name that is not there durably was bound and renamed within what is applied.
                    let _known = rename(&mut self.durable_names, from, to);
                }
                NameChange::Remove(name) => {
                    self.durable_names.remove(name);
                }
            }
        }
        self.forget_unnamed();
    }

    fn forget_unnamed(&mut self) {
        let (names, durable) = (&self.names, &self.durable_names);
        let gone = self.files.extract_if(.., |id, _| {
            let has = |names: &BTreeMap<String, FileId>| names.values().any(|named| named == id);
            !has(names) && !has(durable)
        });
        self.orphans.extend(gone);
    }

    /// Forgets what was not synced.
    pub(super) fn lose_power(
        &mut self,
        names_kept: impl FnOnce(usize) -> usize,
        keep: &mut dyn FnMut(Unsynced<'_>) -> Survival,
    ) {
        let mut changes = std::mem::take(&mut self.unsynced_names);
        let kept = names_kept(changes.len()).min(changes.len());
        changes.truncate(kept);
        for (name, id) in &self.names {
            if let Some(file) = self.files.get_mut(id) {
                file.lose_power(name, keep);
            }
        }
        // Files that were renamed over or removed, and whose old name may come back.
        for file in self.files.values_mut() {
            if !file.is_clean() {
                file.lose_power("", keep);
            }
        }
        self.apply_names(&changes);
        self.names = self.durable_names.clone();
        self.has_lost_names = false;
        self.forget_unnamed();
    }
}

fn rename(names: &mut BTreeMap<String, FileId>, from: &str, to: &str) -> io::Result<()> {
    match names.remove(from) {
        Some(id) => {
            names.insert(to.to_owned(), id);
            Ok(())
        }
        None => Err(io::ErrorKind::NotFound.into()),
    }
}
