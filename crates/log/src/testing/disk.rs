//! Handles on a disk in memory.

use std::{
    io::{self, IoSlice},
    sync::{Arc, Mutex, MutexGuard},
};

use super::{
    Choices,
    state::{Call, FileId, State, Survival, Unsynced, Withheld},
};
use crate::disk::{Disk, DiskFile};

/// One folder in memory; a clone is the same folder, seen by the same process.
#[derive(Clone, Debug, Default)]
pub struct MemDisk {
    state: Arc<Mutex<State>>,
    process: u64,
}

/// A file of a [`MemDisk`].
#[derive(Clone, Debug)]
pub struct MemFile {
    disk: MemDisk,
    id: FileId,
}

impl MemDisk {
    /// An empty folder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nobody panics while holding the disk")
    }

    /// The disk as it is now, as another disk: what happens to one does not happen to the other.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut state = self.state().clone();
        state.orphans.clear();
        Self {
            process: state.process,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The process ends as by `kill -9`: all that was written is still visible, but for names of which a sync has failed: a file
    /// system that could not write its folder is mounted anew before anybody goes on. Gives the disk for the next process; older
    /// handles fail. Planned failures are forgotten, what cannot be read stays so.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut state = self.state();
        state.process += 1;
        state.forget_lost_names();
        state.orphans.clear();
        state.clear_plans();
        Self {
            state: Arc::clone(&self.state),
            process: state.process,
        }
    }

    /// Power is lost: of what was not synced any part may be left. Otherwise as [`MemDisk::kill`].
    #[must_use]
    pub fn power_loss(&self, seed: u64) -> Self {
        let mut choices = Choices::new(seed);
        let mut names = choices;
        names.next_u64();
        self.power_loss_with(
            |changes| names.below(changes as u64 + 1) as usize,
            |_| match choices.below(4) {
                0 => Survival::Whole,
                1 => Survival::Gone,
                2 => Survival::Torn {
                    sector: 512,
                    seed: choices.next_u64(),
                },
                _ => Survival::Torn {
                    sector: 4096,
                    seed: choices.next_u64(),
                },
            },
        )
    }

    /// Power is lost, and the caller says what is left: how many of the changes of names, and what of each write.
    #[must_use]
    pub fn power_loss_with(
        &self,
        names_kept: impl FnOnce(usize) -> usize,
        mut keep: impl FnMut(Unsynced<'_>) -> Survival,
    ) -> Self {
        self.state().lose_power(names_kept, &mut keep);
        self.kill()
    }

    /// The call of that kind after `after` more of them fails, and `times - 1` further ones.
    pub fn fail(&self, call: Call, after: u64, times: u64, kind: io::ErrorKind) {
        self.state().plan(call, after, times, kind);
    }

    /// From the `nth` changing call on (from 1, counted from now) no call succeeds: the process ended there.
    pub fn die_at(&self, nth: u64) {
        let mut state = self.state();
        state.dies_at = Some(state.changes + nth);
    }

    /// No file of that name can be removed from now on, whoever asks.
    pub fn keep_file(&self, name: &str) {
        self.state().kept.insert(name.to_owned());
    }

    /// What was planned to fail and has not yet does not fail any more.
    pub fn forget_faults(&self) {
        self.state().clear_plans();
    }

    /// Calls that change something, so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Calls that failed as it was planned with [`MemDisk::fail`], so far.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.state().failed
    }

    /// Seed of what failing writes and syncs leave.
    pub fn seed_faults(&self, seed: u64) {
        self.state().choices.0 = Choices::new(seed);
    }

    /// Bytes that all files together may have; `None` is no limit, and then nothing is withheld either.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        let mut state = self.state();
        state.capacity = bytes;
        state.withheld = state.withheld.filter(|_| bytes.is_some());
    }

    /// From now on the disk keeps some of what it says is free to itself; `None`: it gives what it has again.
    pub fn withhold(&self, what: Option<Withheld>) {
        self.state().withheld = what;
    }

    /// Bytes that all files have.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// Flips bits of a byte of a file, on the disk and as it is read.
    pub fn rot(&self, name: &str, at: u64, flip: u8) {
        self.with_file(name, |file| file.rot(at, flip));
    }

    /// The last write to the block of 4,096 bytes that this byte lies in never came there, although it succeeded, and its sync: the block is
    /// what it was before, as a disk that lies gives it.
    pub fn lose_block(&self, name: &str, at: u64) {
        self.with_file(name, |file| file.bring_back(at, false));
    }

    /// The same of all that this write wrote and nothing has written since.
    pub fn lose_write(&self, name: &str, at: u64) {
        self.with_file(name, |file| file.bring_back(at, true));
    }

    /// Cuts a file, as a damaged file system does.
    pub fn truncate(&self, name: &str, len: u64) {
        self.with_file(name, |file| file.truncate(len));
    }

    /// Replaces what a file holds, durably.
    pub fn replace(&self, name: &str, bytes: Vec<u8>) {
        self.with_file(name, |file| file.replace(&bytes));
    }

    /// Reading any byte from `first` to `last` of a file fails from now on, until it is written again.
    pub fn make_unreadable(&self, name: &str, first: u64, last: u64) {
        let mut state = self.state();
        let id = *state.names.get(name).expect("the file is there");
        state.unreadable.entry(id).or_default().push((first, last));
    }

    /// All of a file can be read again: it lies elsewhere now.
    pub fn make_readable(&self, name: &str) {
        let mut state = self.state();
        let id = *state.names.get(name).expect("the file is there");
        state.unreadable.remove(&id);
    }

    /// What a file holds, as it is read.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let id = state.names.get(name)?;
        Some(state.files.get(id)?.visible.to_vec())
    }

    /// Names of all files, ascending.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    fn with_file(&self, name: &str, change: impl FnOnce(&mut super::state::File)) {
        let mut state = self.state();
        let id = *state.names.get(name).expect("the file is there");
        change(state.files.get_mut(&id).expect("a name has a file"));
    }

    fn file(&self, id: FileId) -> MemFile {
        MemFile {
            disk: self.clone(),
            id,
        }
    }
}

impl Disk for MemDisk {
    type File = MemFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.enter(self.process, Call::Read)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<MemFile> {
        let mut state = self.state();
        state.enter(self.process, Call::Create)?;
        if state.withheld == Some(Withheld::Files) && !state.names.contains_key(name) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let id = state.create(name);
        drop(state);
        Ok(self.file(id))
    }

    fn open(&self, name: &str) -> io::Result<MemFile> {
        let mut state = self.state();
        state.enter(self.process, Call::Open)?;
        let id = state.names.get(name).copied();
        drop(state);
        id.map(|id| self.file(id))
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.enter(self.process, Call::Rename)?;
        state.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.enter(self.process, Call::Remove)?;
        state.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        let failed = state.failed;
        let entered = state.enter(self.process, Call::SyncDir);
        if entered.is_ok() {
            state.sync_dir();
        } else if state.failed > failed {
            state.fail_sync_dir();
        }
        entered
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let state = self.state();
        let used = state.used();
        Ok(state
            .capacity
            .map_or(u64::MAX / 2, |capacity| capacity.saturating_sub(used)))
    }
}

impl MemFile {
    fn with<T>(
        &self,
        call: Call,
        act: impl FnOnce(&mut State, FileId) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.disk.state();
        state.enter(self.disk.process, call)?;
        if !state.files.contains_key(&self.id) && !state.orphans.contains_key(&self.id) {
            return Err(io::ErrorKind::NotFound.into());
        }
        act(&mut state, self.id)
    }
}

fn file(state: &mut State, id: FileId) -> &mut super::state::File {
    let State { files, orphans, .. } = state;
    files
        .get_mut(&id)
        .or_else(|| orphans.get_mut(&id))
        .expect("looked up by whoever calls")
}

impl DiskFile for MemFile {
    fn len(&self) -> io::Result<u64> {
        self.with(Call::Read, |state, id| {
            Ok(file(state, id).visible.len() as u64)
        })
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(Call::Read, |state, id| {
            let end = offset + buf.len() as u64;
            let unreadable = state.unreadable.get(&id).is_some_and(|ranges| {
                ranges
                    .iter()
                    .any(|(first, last)| *first < end && offset <= *last)
            });
            if unreadable {
                return Err(io::Error::other("the disk does not give these bytes"));
            }
            let from = usize::try_from(offset).map_err(io::Error::other)?;
            if file(state, id).visible.read(from, buf) {
                Ok(())
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        })
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut data = Vec::new();
        for part in bufs {
            data.extend_from_slice(part);
        }
        let written = self.with(Call::Write, |state, id| {
            let len = file(state, id).visible.len() as u64;
            let grows = (offset + data.len() as u64).saturating_sub(len);
            let used = state.used();
            if state
                .capacity
                .is_some_and(|capacity| used + grows > capacity)
            {
                return Err(io::ErrorKind::StorageFull.into());
            }
            if grows > 0 && state.withheld == Some(Withheld::Bytes) {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            file(state, id).write(offset, &data);
            state.heal(id, offset, data.len() as u64);
            Ok(())
        });
        if written.is_err() {
            self.write_some(&data, offset);
        }
        written
    }

    fn sync(&self) -> io::Result<()> {
        let synced = self.with(Call::Sync, |state, id| {
            file(state, id).sync();
            Ok(())
        });
        if synced.is_err() {
            let mut state = self.disk.state();
            let mut choices = state.choices.0;
            if state.process == self.disk.process
                && let Some(file) = state.files.get_mut(&self.id)
            {
                file.fail_sync(&mut choices);
            }
            state.choices.0 = choices;
        }
        synced
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(Call::Write, |state, id| {
            file(state, id).set_len(len);
            Ok(())
        })
    }
}

impl MemFile {
    /// A write that failed may have done some of its work, within the file.
    fn write_some(&self, data: &[u8], offset: u64) {
        let mut state = self.disk.state();
        if state.process != self.disk.process {
            return;
        }
        let mut choices = state.choices.0;
        if let Some(file) = state.files.get_mut(&self.id) {
            let room = (file.visible.len() as u64).saturating_sub(offset);
            let most = room.min(data.len() as u64);
            let some = usize::try_from(choices.below(most + 1)).unwrap_or(0);
            file.write(offset, &data[..some]);
        }
        state.choices.0 = choices;
    }
}
