//! What is where in a data folder.

/// Folder of segments and their summaries.
pub const LOG: &str = "log";
/// Folder of checkpoints and their manifests.
pub const CHECKPOINTS: &str = "checkpoints";
/// Its folders.
pub const FOLDERS: [&str; 2] = [LOG, CHECKPOINTS];

/// The first account, until a start has taken it.
pub const BOOTSTRAP: &str = "bootstrap";

/// Identity, number of the start, number of partitions: a folder with this file is one.
pub const NODE: &str = "node";
/// The one before, or the one that is being written.
pub(crate) const NODE_NEW: &str = "node.new";
/// Held by the process that uses the folder.
pub(crate) const LOCK: &str = "LOCK";
/// What the operator has ordered for the next start.
pub(crate) const REPAIR: &str = "repair";
/// Entries that made the program panic.
pub(crate) const CRASH: &str = "crash";
/// How far the scrub has come.
pub(crate) const SCRUB: &str = "scrub";

/// Files beside its folders that belong to what is kept: a backup has them. The others are of this process, or can be made again.
pub(crate) const KEPT: [&str; 3] = [NODE, REPAIR, CRASH];
