//! What stops a server before it serves, each with the place of the setting that is wrong: the server's own rules and loaders, asked
//! without starting one.

use std::io;
use std::path::{Path, PathBuf};

use courser_admin::{Token, TokenError};
use courser_broker::{Anonymous, file_faults, memory_fault, public_faults, with_causes};
use courser_settings::{Origin, Resolved, SettingError};

/// Whether files are looked at that settings name, and the memory that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// They are those of this machine.
    Looked,
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
    if files == Files::Looked {
        let unusable = file_faults(settings);
        found.extend(
            unusable
                .iter()
                .map(|fault| at(resolved, fault.setting(), &with_causes(fault))),
        );
        found.extend(memory(resolved));
        found.extend(token_fault(resolved));
    }
    found.sort();
    found
}

/// That the memory of this machine, or of the control group, serves nobody.
pub(crate) fn memory(resolved: &Resolved) -> Option<SettingError> {
    let fault = memory_fault(&resolved.settings)?;
    Some(at(resolved, fault.setting(), &with_causes(&fault)))
}

/// Why a server without a listener does not start.
const NOBODY: &str = "mqtt.listen is empty and there is no [[listener]]: there is nothing to serve; name an address with --mqtt ADDRESS:PORT";

/// The token of operators, where it has a file of its own. One that is not there is made by the server, in a folder that is.
fn token_fault(resolved: &Resolved) -> Option<SettingError> {
    const KEY: &str = "http.token_file";
    let path = PathBuf::from(&resolved.settings.http.token_file);
    if path.as_os_str().is_empty() {
        return None;
    }
    let error = Token::read(&path).err()?;
    let fault = match &error {
        TokenError::File { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
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
    Some(at(
        resolved,
        Some(KEY.to_owned()),
        &format!("{KEY}: {fault}"),
    ))
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
