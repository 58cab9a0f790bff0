//! The commented file that `courser init --full` writes.

#[cfg(test)]
mod tests;

use crate::Setting;
use crate::table::{SECTIONS, lists, table};
use std::fmt::Write;

const HEAD: &str = "# Settings of Courser. Every line that begins with \"#\" and a key shows the default: remove the \"#\" to change it.
# A change of this file takes effect at the next start, or by a SIGHUP to the broker where \"applies\" says more.
# `courser config check --config FILE` checks it, and the reference page has the same texts.
";

/// A file in which every setting stands as a comment with its default, its range and what it is for.
#[must_use]
pub fn template() -> String {
    let mut text = String::from(HEAD);
    let settings = table();
    // Writing to a string cannot fail.
    for (section, doc) in SECTIONS {
        let _ = write!(text, "\n# {}\n[{section}]\n", doc.trim());
        let within = format!("{section}.");
        for setting in settings.iter().filter(|it| it.key.starts_with(&within)) {
            entry(&mut text, setting);
        }
    }
    for list in lists() {
        let _ = write!(
            text,
            "\n# {}\n# At most {}, each with another \"{}\".\n# [[{}]]\n",
            list.doc.trim(),
            list.items_max,
            list.identity,
            list.name
        );
        for field in &list.fields {
            entry(&mut text, field);
        }
    }
    text
}

fn entry(text: &mut String, setting: &Setting) {
    let name = setting.key.split('.').next_back().unwrap_or_default();
    let range = match &setting.range {
        Some((least, most)) => format!("; {least} to {most}"),
        None => String::new(),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "# {}\n# ({}{range}; applies: {})",
        setting.doc.trim(),
        setting.kind,
        setting.applies.name()
    );
    let _ = match setting.default.as_deref() {
        None => writeln!(text, "# {name} = …"),
        Some("") => writeln!(text, "# {name} is not set"),
        Some(default) => writeln!(text, "# {name} = {default}"),
    };
}
