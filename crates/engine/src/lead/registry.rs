//! Who has which client id, and who wants it (M24, M25).

use std::collections::BTreeMap;

use compact_str::CompactString;
use courser_contract::{Attach, Epoch, FrontId, SessionUid, WallMs};
use hashbrown::HashMap;

use super::Hasher;

/// Connections and client ids of a partition.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) clients: HashMap<CompactString, Client, Hasher>,
    /// Sessions that were proposed and are not yet open.
    pub(crate) reserved: u32,
    /// Authors of wills that are to be retained, of sessions that keep no client id. They end with their connections, and the process.
    pub(crate) will_authors: BTreeMap<SessionUid, Box<str>>,
    /// Sessions with a connection.
    pub(crate) attached: u64,
    /// Sessions that it ended because their time was over.
    pub(crate) expired: u64,
}

impl Registry {
    /// Whether a connection has a client id, or one is coming or going. What only the next one would wait for counts for nothing.
    pub(crate) fn is_taken(&self, client_id: &str) -> bool {
        let client = self.clients.get(client_id);
        client.is_some_and(|it| it.holder != Holder::Left || it.waiting.is_some())
    }
}

/// A client id that somebody has or wants (M24, M25).
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) holder: Holder,
    /// The user of the holder, or of the last one.
    pub(crate) owner: Option<Box<str>>,
    /// Whether the holder has been told that another one waits.
    pub(crate) told: bool,
    /// A fence is under way that the next holder waits for.
    pub(crate) fenced: bool,
    /// Forwards of a will that the next holder waits for.
    pub(crate) wills: u32,
    /// Whether a place among the sessions that its user keeps is taken for whoever comes or waits: it is the session's once that is open.
    pub(crate) place: bool,
    /// The one that waits; a newer one displaces it.
    pub(crate) waiting: Option<Waiting>,
}

/// A connection that waits for its client id.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) attach: Box<Attach>,
    /// When it asked.
    pub(crate) since: WallMs,
}

/// Who has a client id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// An entry is under way that gives it to this front.
    Coming(FrontId),
    /// A front with a session in a volatile partition.
    Clean(FrontId, Epoch),
    /// A front with a session of this partition.
    Home(FrontId, SessionUid),
    /// The last one lets go, which is proposed: nobody may have it before that is applied.
    Leaving,
    /// Nobody; a fence or a will may be under way before the next one has it.
    Left,
}
