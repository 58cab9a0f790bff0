//! `${ENV:NAME}` and `${FILE:PATH}` in texts, so that a secret need not stand in the file.

use std::path::{Path, PathBuf};
use std::{env, io};

use crate::bounded::read_text;

/// Most bytes of a file that a value is drawn from.
const DRAWN_BYTES_MAX: u64 = 64 * 1024;

/// What `${…}` draws from.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings {
    /// A variable of the environment, if it is there and UTF-8.
    pub variable: fn(&str) -> Option<String>,
    /// The text of a file.
    pub file: fn(&Path) -> io::Result<String>,
}

impl Default for Surroundings {
    /// Those of this process.
    fn default() -> Self {
        Self {
            variable: |name| env::var(name).ok(),
            file: read_short,
        }
    }
}

fn read_short(path: &Path) -> io::Result<String> {
    read_text(path, DRAWN_BYTES_MAX)
}

/// Where a text stands that draws.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elsewhere<'a> {
    pub(crate) surroundings: Surroundings,
    /// Where relative paths begin; None for a text without a file.
    pub(crate) folder: Option<&'a Path>,
}

/// A text, and the files that are in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub(crate) text: String,
    pub(crate) files: Vec<PathBuf>,
}

/// The text with everything drawn in; None where there is nothing to draw. A `$${` stands for `${`. A path is relative to
/// the folder, and the line end at the end of a file is left out.
///
/// # Errors
/// What is wrong, without anything that was drawn.
pub(crate) fn draw(text: &str, from: Elsewhere<'_>) -> Result<Option<Drawn>, String> {
    if !text.contains("${") {
        return Ok(None);
    }
    let mut drawn = Drawn::default();
    let mut left = text;
    while let Some(at) = left.find("${") {
        let (before, rest) = left.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            drawn.text.push_str(before);
            drawn.text.push_str("${");
            left = &rest[2..];
            continue;
        }
        drawn.text.push_str(before);
        let Some((reference, after)) = rest[2..].split_once('}') else {
            return Err("\"${\" has no end; write \"$${\" for the two characters".to_owned());
        };
        drawn.add(reference, from)?;
        left = after;
    }
    drawn.text.push_str(left);
    Ok(Some(drawn))
}

impl Drawn {
    fn add(&mut self, reference: &str, from: Elsewhere<'_>) -> Result<(), String> {
        let said = reference.escape_debug();
        match reference.split_once(':') {
            Some(("ENV", name)) => {
                let text = (from.surroundings.variable)(name).ok_or_else(|| {
                    format!(
                        "cannot read ${{{said}}}: there is no such variable, or it is not UTF-8"
                    )
                })?;
                self.text.push_str(&text);
            }
            Some(("FILE", path)) => {
                let path = from
                    .folder
                    .map_or_else(|| path.into(), |folder| folder.join(path));
                let text = (from.surroundings.file)(&path)
                    .map_err(|error| format!("cannot read ${{{said}}}: {error}"))?;
                self.text.push_str(text.trim_end_matches(['\n', '\r']));
                self.files.push(path);
            }
            Some(_) | None => {
                return Err(format!(
                    "\"${{{said}}}\" is neither ${{ENV:NAME}} nor ${{FILE:PATH}}"
                ));
            }
        }
        Ok(())
    }
}
