//! Texts for people, made from the table.

#[cfg(test)]
mod tests;

use crate::Setting;
use crate::table::{SECTIONS, lists, table};
use std::fmt::Write;

/// The page `docs/reference/settings.md`.
#[must_use]
pub fn reference_markdown() -> String {
    let mut page = String::from(HEAD);
    let settings = table();
    for (section, doc) in SECTIONS {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## [{section}]\n\n{}\n\n{COLUMNS}", doc.trim());
        for setting in settings
            .iter()
            .filter(|setting| section_of(setting) == *section)
        {
            row(&mut page, setting);
        }
    }
    for list in lists() {
        let _ = write!(
            page,
            "\n## [[{}]]\n\n{} A list of at most {} tables, each with another `{}`; one more or less applies: {}.\n\n{COLUMNS}",
            list.name,
            list.doc.trim(),
            list.items_max,
            list.identity,
            list.applies.name(),
        );
        for field in &list.fields {
            row(&mut page, field);
        }
    }
    page
}

const COLUMNS: &str =
    "| key | value | default | allowed | change applies | meaning |\n|---|---|---|---|---|---|\n";

const HEAD: &str = "# Settings

Made from the table in `crates/settings/src/table.rs`; do not edit this page, but run
`COURSER_BLESS=1 cargo test -p courser-settings reference`.

The file is TOML and may be empty: every setting has a default. A setting is written as `section.name = value` or
below its `[section]`. Sizes are written as `\"16MiB\"` (KiB, MiB, GiB, TiB of 1,024; KB, MB, GB, TB of 1,000) or as a
number of bytes; durations as `\"30s\"`, `\"250ms\"`, `\"1h30m\"`, `\"7d\"`.

The order is default, file, environment, flag, and the later one wins. `include = [\"other.toml\", \"folder\"]` at the
top of a file reads others before it, of a folder all its `.toml` files by name; paths are relative to the file that
says so. `COURSER__SECTION__NAME` in the environment is `section.name`. `--set section.name=value` and the flags that have
names of their own are last.

`${ENV:NAME}` and `${FILE:PATH}` within a text draw from a variable or a file (without its last line end), so that a secret
need not stand in the file; `$${` is `${`. What was drawn is never printed: errors and `courser config show` print the
text that draws it. A path is written as it is, or draws from variables: `${FILE:…}` is refused there.

What there may be many of is a list, at the end of this page: each item is a table below `[[name]]`.
`--set 'name=[{ … }, { … }]'`, or `COURSER__NAME` in the environment, gives a list as a whole, in place of that of the file; `--set 'name[ITEM].field=value'`
changes one field of an item that is there, `ITEM` being its first field: `--set 'listener[web].path=/x'`. In a file a text may draw one value from
the environment (`${ENV:…}`).

An unknown or removed key, a value of another kind, a value out of its range, values that contradict each other and a file that is named but not there stop the
start-up with the place of the error. `courser config check` says all of them without a server. A key that was renamed works under its old name for one major version and warns.
";

fn section_of(setting: &Setting) -> &str {
    setting.key.split('.').next().unwrap_or_default()
}

fn row(page: &mut String, setting: &Setting) {
    let range = match &setting.range {
        Some((least, most)) => format!("`{least}` to `{most}`"),
        None => String::new(),
    };
    let default = match setting.default.as_deref() {
        None => "must be given".to_owned(),
        Some("") => "not set".to_owned(),
        Some(default) => format!("`{default}`"),
    };
    let _ = writeln!(
        page,
        "| `{}` | {} | {default} | {range} | {} | {} |",
        setting.key,
        setting.kind,
        setting.applies.name(),
        setting.doc.trim(),
    );
}

/// The list behind `courser server --help`: one line for each key with its default, then what it is for.
#[must_use]
pub fn help_text() -> String {
    let mut text = String::new();
    let mut line = |setting: &Setting, key: &str| {
        let default = match setting.default.as_deref() {
            None => "must be given".to_owned(),
            Some("") => "not set".to_owned(),
            Some(default) => default.to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {key} = {default}\n      {}", setting.doc.trim());
    };
    for setting in table() {
        line(&setting, setting.key);
    }
    for list in lists() {
        for field in &list.fields {
            let name = field.key.rsplit('.').next().unwrap_or_default();
            line(field, &format!("[[{}]] {name}", list.name));
        }
    }
    text
}
