//! All users and roles at once: made, judged and encoded where there is time, and put in place by the shard of partition 0.
//!
//! Of 90,000 users a turn that did all of it took 200 to 350 ms: some microseconds a user, to encode the entry, to read it back and parse its hashes, to
//! apply it twice, and to free what it replaces. So whoever asks for it makes the [`Import`] for the table of a revision; the shard only looks whether
//! that one still counts, and takes what was made. Its entry is the one of any other change: whoever applies it from the log gets the same table, and a
//! crash leaves the old one or the new one. That takes as long as ever, at a start and where another node leads, when no client waits for it. What goes is freed
//! by a thread of its own ([`let_go`]).

use std::thread;

use bytes::Bytes;
use courser_access::{Command, Limits, Refusal, Table};
use courser_memory::{Component, Scope};

use super::entry::Unstamped;

/// See the module.
#[derive(Debug)]
pub(crate) struct Import {
    /// The revision that it is made for.
    at: u64,
    /// The table after it.
    after: Table,
    /// Whether it has users that were not there before.
    adds_users: bool,
    entry: Entry,
}

#[derive(Debug)]
enum Entry {
    Made(Unstamped),
    Proposed(Bytes),
}

impl Import {
    /// For the table that counts. Cost: some microseconds a user.
    ///
    /// # Errors
    /// [`Refusal`], as of any change.
    pub(crate) fn new(before: &Table, new: Table) -> Result<Self, Refusal> {
        let command = Command::Replace(Box::new(new));
        before.check(&command)?;
        let entry = Unstamped::new(&command);
        let mut after = before.clone();
        after.apply(&command);
        // The settings are told by whoever publishes it.
        let after = after.with_process(Limits::default());
        let adds_users = after
            .users()
            .any(|(name, _)| before.user(name.as_str()).is_none());
        Ok(Self {
            at: before.revision(),
            after,
            adds_users,
            entry: Entry::Made(entry),
        })
    }

    /// The revision that it is made for.
    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    /// The table after it.
    pub(crate) const fn after(&self) -> &Table {
        &self.after
    }

    /// Whether it has users that were not there before.
    pub(crate) const fn adds_users(&self) -> bool {
        self.adds_users
    }

    /// The entry to be proposed at a time. Copies nothing.
    pub(crate) fn propose(&mut self, wall_ms: u64) -> Bytes {
        let entry = match &mut self.entry {
            Entry::Made(entry) => Bytes::from_owner(Elsewhere::new(entry.stamp(wall_ms))),
            Entry::Proposed(entry) => entry.clone(),
        };
        self.entry = Entry::Proposed(entry.clone());
        entry
    }

    /// Whether an entry that is committed is the very one that was proposed.
    pub(crate) fn is(&self, committed: &[u8]) -> bool {
        matches!(&self.entry, Entry::Proposed(mine) if std::ptr::eq(&raw const **mine, committed))
    }
}

impl Drop for Import {
    /// It may have been refused, and then nobody else has its table.
    fn drop(&mut self) {
        let entry = std::mem::replace(&mut self.entry, Entry::Proposed(Bytes::new()));
        let_go((std::mem::take(&mut self.after), entry));
    }
}

/// Drops what has grown with the number of users, on a thread of its own: once for an import and each of those that had what it replaces. Where there is
/// no thread to be had it is dropped here.
pub(crate) fn let_go<T: Send + 'static>(what: T) {
    let begun = thread::Builder::new()
        .name("let-go".to_owned())
        .spawn(move || {
            let _scope = Scope::enter(Component::Access);
            drop(what);
        });
    drop(begun);
}

/// Bytes that whoever has them last does not free itself.
struct Elsewhere(Vec<u8>);

impl Elsewhere {
    const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl AsRef<[u8]> for Elsewhere {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let_go(std::mem::take(&mut self.0));
    }
}
