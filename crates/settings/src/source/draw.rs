//! `${ENV:NAME}` and `${FILE:PATH}` in texts, so that a secret need not stand in the file.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Most bytes of a file that a value is drawn from.
const DRAWN_BYTES_MAX: u64 = 64 * 1024;

/// A text, and the files that are in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub(crate) text: String,
    pub(crate) files: Vec<PathBuf>,
}

/// The text with everything drawn in; None where there is nothing to draw. A `$${` stands for `${`. A path is relative to
/// `folder`, and the line end at the end of a file is left out.
///
/// # Errors
/// What is wrong, without anything that was drawn.
pub(crate) fn draw(text: &str, folder: Option<&Path>) -> Result<Option<Drawn>, String> {
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
        drawn.add(reference, folder)?;
        left = after;
    }
    drawn.text.push_str(left);
    Ok(Some(drawn))
}

impl Drawn {
    fn add(&mut self, reference: &str, folder: Option<&Path>) -> Result<(), String> {
        let cannot = |why: &dyn std::fmt::Display| format!("cannot read ${{{reference}}}: {why}");
        match reference.split_once(':') {
            Some(("ENV", name)) => {
                let text = env::var(name)
                    .map_err(|_| cannot(&"there is no such variable, or it is not UTF-8"))?;
                self.text.push_str(&text);
            }
            Some(("FILE", path)) => {
                let path = folder.map_or_else(|| path.into(), |folder| folder.join(path));
                let bytes = fs::metadata(&path).map_err(|error| cannot(&error))?.len();
                if bytes > DRAWN_BYTES_MAX {
                    return Err(cannot(&format_args!(
                        "it has {bytes} bytes; allowed: {DRAWN_BYTES_MAX}"
                    )));
                }
                let text = fs::read_to_string(&path).map_err(|error| cannot(&error))?;
                self.text.push_str(text.trim_end_matches(['\n', '\r']));
                self.files.push(path);
            }
            Some(_) | None => {
                return Err(format!(
                    "\"${{{}}}\" is neither ${{ENV:NAME}} nor ${{FILE:PATH}}",
                    reference.escape_debug()
                ));
            }
        }
        Ok(())
    }
}
