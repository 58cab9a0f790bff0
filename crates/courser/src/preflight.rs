//! What stops a server before it serves, each with the place of the setting that is wrong: the server's own rules and loaders, asked
//! without starting one.

use std::error::Error;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use courser_admin::{Token, TokenError};
use courser_broker::{
    Anonymous, FileDoubt, file_doubts, file_faults, memory_fault, public_faults, with_causes,
};
use courser_settings::{ByteSize, Keep, Landlock, Origin, Resolved, SettingError, listener_key};
use rustix::process::{Resource, getrlimit};

/// Whether files are looked at that settings name, and the memory that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// They are those of this machine.
    Looked,
    /// The same, by a process that the kernel confines: a file that it may not open is one for the next start, which may
    /// ([`unseen`]).
    LookedConfined,
    /// The settings are for another machine.
    PassedOver,
}

/// What is wrong with settings that are each allowed and fit together: nobody would be served, or everybody; and, where they are looked
/// at, files that cannot be used. In the order of the places.
pub(crate) fn faults(resolved: &Resolved, anonymous: Anonymous, files: Files) -> Vec<SettingError> {
    let settings = &resolved.settings;
    let mut found: Vec<SettingError> = public_faults(settings, anonymous)
        .iter()
        .map(|fault| at(resolved, fault.setting(), &with_causes(fault)))
        .collect();
    if settings.mqtt.listen.is_empty() && settings.doors.is_empty() {
        found.push(at(resolved, Some("mqtt.listen".to_owned()), NOBODY));
    }
    if files != Files::PassedOver {
        let counts = |why| why == Why::Wrong || files == Files::Looked;
        found.extend(
            unusable(resolved)
                .filter(|(_, why)| counts(*why))
                .map(|(fault, _)| fault),
        );
        found.extend(memory(resolved));
        found.extend(places(resolved));
    }
    found.sort();
    found
}

/// Files that a confined process may not open, so that nobody knows yet whether the next start can use them.
pub(crate) fn unseen(resolved: &Resolved) -> Vec<SettingError> {
    let denied = unusable(resolved).filter(|(_, why)| *why == Why::Denied);
    let unseen = denied.map(|(fault, _)| SettingError {
        message: format!("{}{UNSEEN}", fault.message),
        ..fault
    });
    unseen.collect()
}

/// What is said behind the fault of such a file.
const UNSEEN: &str = ": it is looked at by the next start, since this process opens its own files only (sandbox.landlock)";

/// Why a file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// This process may not open it.
    Denied,
    /// Anything else.
    Wrong,
}

impl Why {
    fn of(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            let of_system = error.downcast_ref::<io::Error>();
            if of_system.is_some_and(|it| it.kind() == io::ErrorKind::PermissionDenied) {
                return Self::Denied;
            }
            cause = error.source();
        }
        Self::Wrong
    }
}

/// Files of these settings that cannot be used.
fn unusable(resolved: &Resolved) -> impl Iterator<Item = (SettingError, Why)> {
    let files = file_faults(&resolved.settings).into_iter().map(|fault| {
        let why = Why::of(&fault);
        (at(resolved, fault.setting(), &with_causes(&fault)), why)
    });
    files.chain(token_fault(resolved))
}

/// Places on this machine where nothing can be made: sockets in folders that are not there, a file where a socket or a folder is to be.
pub(crate) fn places(resolved: &Resolved) -> Vec<SettingError> {
    let settings = &resolved.settings;
    let mut found = Vec::new();
    let mut wrong = |key: String, fault: String| {
        let message = format!("{key}: {fault}");
        found.push(at(resolved, Some(key), &message));
    };
    for door in &settings.doors {
        let Some(path) = &door.unix else { continue };
        let folder = folder_of(path);
        let shown = path.display();
        let key = || listener_key(&door.name, "unix");
        if !folder.is_dir() {
            let fault = format!(
                "cannot make {shown}: there is no folder {}",
                folder.display()
            );
            wrong(key(), fault);
        } else if path
            .symlink_metadata()
            .is_ok_and(|it| !it.file_type().is_socket())
        {
            let fault = format!("{shown} is something else than a socket: it is left as it is");
            wrong(key(), fault);
        }
    }
    let data = &settings.data.path;
    if settings.data.store == Keep::Disk && data.exists() && !data.is_dir() {
        let fault = format!("{} is a file: name a folder", data.display());
        wrong("data.path".to_owned(), fault);
    }
    let (segment, allowed) = (settings.log.segment_bytes, file_bytes_max());
    if settings.data.store == Keep::Disk && segment > allowed {
        let fault = format!(
            "this process may write files of at most {allowed} (ulimit -f, LimitFSIZE=), and a segment has {segment}"
        );
        wrong("log.segment_bytes".to_owned(), fault);
    }
    found
}

/// How large a file this process may make, once it has asked for all that it may have.
fn file_bytes_max() -> ByteSize {
    // None is no limit.
    ByteSize::new(getrlimit(Resource::Fsize).maximum.unwrap_or(u64::MAX))
}

/// Folders that backups are made in.
pub(crate) const BACKUP_FOLDERS: &str = "backup.folders";

/// What is named and not there, which a server does without.
pub(crate) fn missing(resolved: &Resolved) -> Vec<SettingError> {
    let settings = &resolved.settings;
    let read = settings.sandbox.read.iter().map(|path| {
        let doubt = format!("there is no {path}: it cannot be read later either");
        ("sandbox.read", path, doubt)
    });
    let folders = settings.backup.folders.iter().map(|path| {
        let doubt = format!("there is no folder {path}: no backup can be made there");
        (BACKUP_FOLDERS, path, doubt)
    });
    // Who is not confined finds what comes later.
    let all = read
        .chain(folders)
        .filter(|_| settings.sandbox.landlock != Landlock::Off);
    let all = all.filter(|(_, path, _)| !Path::new(path).exists());
    all.map(|(key, _, doubt)| at(resolved, Some(key.to_owned()), &format!("{key}: {doubt}")))
        .collect()
}

/// What is doubtful in files that can be used: secrets that others can read, certificates and revocation lists that do not count now.
pub(crate) fn doubtful(resolved: &Resolved) -> Vec<SettingError> {
    let doubts = file_doubts(&resolved.settings).into_iter();
    let placed = |doubt: FileDoubt| {
        let key = doubt.setting().to_owned();
        at(resolved, Some(key.clone()), &format!("{key}: {doubt}"))
    };
    doubts.map(placed).collect()
}

/// That the memory of this machine, or of the control group, serves nobody.
pub(crate) fn memory(resolved: &Resolved) -> Option<SettingError> {
    let fault = memory_fault(&resolved.settings)?;
    Some(at(resolved, fault.setting(), &with_causes(&fault)))
}

/// Why a server without a listener does not start.
const NOBODY: &str = "mqtt.listen is empty and there is no [[listener]]: there is nothing to serve; name an address with --mqtt ADDRESS:PORT";

/// The token of operators, where it has a file of its own. One that is not there is made by the server, in a folder that is.
fn token_fault(resolved: &Resolved) -> Option<(SettingError, Why)> {
    const KEY: &str = "http.token_file";
    let path = PathBuf::from(&resolved.settings.http.token_file);
    if path.as_os_str().is_empty() {
        return None;
    }
    let error = Token::read(&path).err()?;
    let fault = match &error {
        TokenError::File { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            let folder = folder_of(&path);
            if folder.is_dir() {
                return None;
            }
            format!(
                "cannot make {}: there is no folder {}",
                path.display(),
                folder.display()
            )
        }
        TokenError::File { .. } | TokenError::Open { .. } | TokenError::Bad { .. } => {
            with_causes(&error)
        }
    };
    let fault = at(resolved, Some(KEY.to_owned()), &format!("{KEY}: {fault}"));
    Some((fault, Why::of(&error)))
}

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// A fault at the place of the setting that is to change.
fn at(resolved: &Resolved, setting: Option<String>, message: &str) -> SettingError {
    SettingError {
        origin: setting
            .as_ref()
            .map_or(Origin::Default, |key| resolved.place(key)),
        message: message.to_owned(),
        key: setting,
    }
}

/// The text of a fault with the place of the setting, where somebody set one.
pub(crate) fn placed(resolved: &Resolved, setting: Option<String>, message: String) -> String {
    let error = at(resolved, setting, &message);
    match error.origin {
        Origin::Default => message,
        Origin::File { .. } | Origin::Environment(_) | Origin::Argument(_) => error.to_string(),
    }
}
