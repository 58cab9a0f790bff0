//! The data folder: who may use it, whose it is, and how often it was started (M46).
//!
//! ```text
//! DATA/LOCK           held by the process that uses the folder; the number of that process for people
//! DATA/node           identity, start counter, number of partitions (`file`)
//! DATA/log/           segments, files of crate `log`
//! DATA/crash          entries that made the program panic (`repair::crash`)
//! DATA/repair         what the operator has ordered for the next start (`repair::orders`)
//! DATA/scrub          how far the scrub has come (`scrub::progress`)
//! DATA/checkpoints/   states of partitions, files of crate `log`
//! ```
//! Folders are 0700, files 0600: messages are the users' own.

mod file;
mod folder;
pub mod layout;
#[cfg(test)]
mod power;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub(crate) use file::{NodeFile, VERSION};
pub use folder::FolderError;
pub(crate) use folder::{DataFolder, make_folder, random_bytes, replace_unsynced};

use crate::slots::Relaxed;
