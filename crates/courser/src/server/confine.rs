//! Which files the server may open, held to by the kernel (Landlock): who takes over the process through a client reads no other file of
//! its user, and changes none but those of the data folder.
//!
//! It counts for the thread that calls it and for threads that begin later, so it comes before all others. What a reload reads again is
//! opened by the folder: such a file is usually replaced by another of its name.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use courser_broker::layout;
use courser_settings::{Keep, Landlock, Resolved, Settings};
use landlock::{
    ABI, Access, AccessFs, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, path_beneath_rules,
};

use crate::preflight::folder_of;

/// The newest rights that are asked for; a kernel that knows fewer is asked for those.
const RIGHTS: ABI = ABI::V5;
/// What says how much memory and how many cores there are, and what metrics tell of the process.
const SYSTEM: [&str; 3] = ["/proc", "/sys/fs/cgroup", "/sys/devices/system"];

/// How far it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Confined {
    /// This far.
    To {
        /// What the kernel knows of it.
        abi: String,
        /// Folders that backups cannot be made in, since they are not there.
        missing: Vec<PathBuf>,
    },
    /// The kernel knows none of it.
    Unknown,
    /// The settings do not want it.
    Off,
}

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfineError {
    /// The data folder cannot be made.
    #[error("cannot use the data folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It was asked for.
    #[error(
        "this kernel has no Landlock, and sandbox.landlock = \"required\": with \"auto\" the server starts without it"
    )]
    Unknown,
    /// The kernel refuses.
    #[error("the kernel does not confine the process; sandbox.landlock = \"off\" goes without it")]
    Kernel(#[from] RulesetError),
}

impl Confined {
    /// Lines of the log.
    pub(crate) fn tell(&self) {
        match self {
            Self::To { abi, missing } => {
                tracing::info!(
                    event = "confined",
                    landlock = abi,
                    "the process opens its own files only (sandbox.landlock)"
                );
                for folder in missing {
                    tracing::warn!(
                        event = "backup_folder_missing",
                        folder = %folder.display(),
                        "there is no such folder: no backup is made there before the next start"
                    );
                }
            }
            Self::Unknown => tracing::warn!(
                event = "not_confined",
                "this kernel has no Landlock: the process can open all files of its user"
            ),
            Self::Off => tracing::info!(
                event = "not_confined",
                "sandbox.landlock = \"off\": the process can open all files of its user"
            ),
        }
    }
}

/// Confines this thread, and those that it begins, to what these settings need.
pub(crate) fn confine(resolved: &Resolved) -> Result<Confined, ConfineError> {
    let settings = &resolved.settings;
    if settings.sandbox.landlock == Landlock::Off {
        return Ok(Confined::Off);
    }
    if let Some(path) = data_folder(settings) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|source| ConfineError::Folder {
            path: path.to_owned(),
            source,
        })?;
    }
    let confined = enforce(&Files::of(resolved))?;
    match confined {
        Confined::Unknown if settings.sandbox.landlock == Landlock::Required => {
            Err(ConfineError::Unknown)
        }
        Confined::Unknown | Confined::Off => Ok(confined),
        Confined::To { abi, .. } => Ok(Confined::To {
            abi,
            missing: backup_folders(settings).filter(|it| !it.is_dir()).collect(),
        }),
    }
}

/// What may be opened, each with all that is in it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Files {
    /// Files come and go there.
    own: Vec<PathBuf>,
    /// A secret is made there that is not there yet.
    made: Vec<PathBuf>,
    /// Sockets come and go there.
    sockets: Vec<PathBuf>,
    /// Read.
    read: Vec<PathBuf>,
    /// Read, and listed.
    listed: Vec<PathBuf>,
}

impl Files {
    fn of(resolved: &Resolved) -> Self {
        let settings = &resolved.settings;
        let data = data_folder(settings).map(Path::to_owned);
        let elsewhere = data.iter().flat_map(|data| linked(data));
        let elsewhere: Vec<PathBuf> = elsewhere.collect();
        let own = data.into_iter().chain(elsewhere);
        let mut files = Self {
            own: own.chain(backup_folders(settings)).collect(),
            listed: SYSTEM.iter().map(PathBuf::from).collect(),
            ..Self::default()
        };
        let token = Path::new(&settings.http.token_file);
        if !settings.http.token_file.is_empty() && !token.exists() {
            files.made.push(folder_of(token).to_owned());
        }
        let sockets = settings.doors.iter().filter_map(|door| door.unix.as_ref());
        files
            .sockets
            .extend(sockets.map(|path| folder_of(path).to_owned()));
        for path in again(resolved) {
            files.add_again(&path);
        }
        for path in renewed(settings) {
            files.add_around(path);
        }
        files
    }

    /// What is read again is read by its name; the name may lead to another folder.
    fn add_again(&mut self, path: &Path) {
        if path.is_dir() {
            return self.listed.push(path.to_owned());
        }
        let target = path.canonicalize().ok();
        for file in [Some(path.to_owned()), target].into_iter().flatten() {
            let folder = folder_of(&file);
            // That would be everything: such a file can be changed, but not replaced.
            let is_root = folder.parent().is_none();
            self.read.push(match is_root {
                true => file,
                false => folder.to_owned(),
            });
        }
    }

    /// The folder of a file may itself be replaced by another of its name, or be a link that is. The new one is another folder to the kernel, so
    /// the one around it is opened too, unless that is for more than this.
    fn add_around(&mut self, path: &Path) {
        let target = path.canonicalize().ok();
        for file in [Some(path), target.as_deref()].into_iter().flatten() {
            let around = folder_of(file).parent().map(Path::to_owned);
            self.read.extend(around.filter(|it| !is_shared(it)));
        }
    }
}

/// Whether what is in a folder is of many: the root, those in it such as `/etc`, and homes of users.
fn is_shared(folder: &Path) -> bool {
    let whole = folder.canonicalize();
    let folder = whole.as_deref().unwrap_or(folder);
    let around = folder.parent();
    let is_high = around.is_none_or(|around| around.parent().is_none());
    let is_home = std::env::var_os("HOME").is_some_and(|home| folder == Path::new(&home));
    is_high || is_home || around == Some(Path::new("/home"))
}

pub(super) fn data_folder(settings: &Settings) -> Option<&Path> {
    match settings.data.store {
        Keep::Disk => Some(&settings.data.path),
        Keep::Memory => None,
    }
}

/// Folders of the data folder that are links to others, perhaps on another disk.
fn linked(data: &Path) -> impl Iterator<Item = PathBuf> {
    let folders = layout::FOLDERS.map(|name| data.join(name));
    let folders = folders.into_iter().filter(|it| it.is_symlink());
    folders.filter_map(|it| it.canonicalize().ok())
}

fn backup_folders(settings: &Settings) -> impl Iterator<Item = PathBuf> {
    settings.backup.folders.iter().map(PathBuf::from)
}

/// Files that are read while the server runs.
fn again(resolved: &Resolved) -> Vec<PathBuf> {
    let settings = &resolved.settings;
    let tokens = &settings.tokens;
    let texts = [&tokens.public_keys, &settings.sandbox.read];
    let texts = texts.into_iter().flatten().map(PathBuf::from);
    let token = &settings.http.token_file;
    let token = (!token.is_empty()).then(|| PathBuf::from(token));
    let files = resolved.files.iter().cloned();
    let named = named(settings).map(Path::to_owned);
    files.chain(texts).chain(token).chain(named).collect()
}

/// Certificates and what belongs to them, and files of tokens that a setting of their own names.
fn named(settings: &Settings) -> impl Iterator<Item = &Path> {
    let tokens = &settings.tokens;
    let doors = settings.doors.iter().flat_map(|door| {
        [
            &door.certificate,
            &door.key,
            &door.client_authorities,
            &door.client_revocations,
        ]
    });
    let named = doors.chain([&tokens.key_set, &tokens.secret_file]);
    named.flatten().map(PathBuf::as_path)
}

/// Those that are watched: who renews them may replace their folder.
fn renewed(settings: &Settings) -> impl Iterator<Item = &Path> {
    named(settings).chain(settings.tokens.public_keys.iter().map(Path::new))
}

/// What is not there cannot be opened, now or later.
fn enforce(files: &Files) -> Result<Confined, RulesetError> {
    let all = AccessFs::from_all(RIGHTS);
    let read: BitFlags<AccessFs> = AccessFs::ReadFile.into();
    let listed = read | AccessFs::ReadDir;
    let made = read | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile;
    let sockets = AccessFs::MakeSock | AccessFs::RemoveFile;
    let status = Ruleset::default()
        .handle_access(all)?
        .create()?
        .add_rules(path_beneath_rules(&files.own, all & !AccessFs::Execute))?
        .add_rules(path_beneath_rules(&files.made, made))?
        .add_rules(path_beneath_rules(&files.sockets, sockets))?
        .add_rules(path_beneath_rules(&files.read, read))?
        .add_rules(path_beneath_rules(&files.listed, listed))?
        .restrict_self()?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => Confined::Unknown,
        (
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced,
            landlock::LandlockStatus::Available { effective_abi, .. },
        ) => Confined::To {
            abi: format!("{effective_abi:?}"),
            missing: Vec::new(),
        },
        (RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced, _) => {
            unreachable!("what is not available is not enforced")
        }
    })
}

#[cfg(test)]
mod tests;
