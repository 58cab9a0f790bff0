use super::template;
use crate::{Settings, Sources, table};

fn read(text: &str) -> Result<Settings, String> {
    let sources = Sources::new().file("template", text);
    sources.check().map_err(|errors| errors.to_string())
}

#[test]
fn as_it_is_it_says_the_defaults() {
    assert_eq!(read(&template()), Ok(Settings::default()));
}

#[test]
fn with_every_line_uncommented_it_says_the_defaults_too() {
    let uncommented: Vec<String> = template()
        .lines()
        .take_while(|line| !line.starts_with("# [["))
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if is_entry(rest) => rest.to_owned(),
            _ => line.to_owned(),
        })
        .collect();
    let entries = uncommented.iter().filter(|line| is_entry(line)).count();
    let with_default = table()
        .into_iter()
        .filter(|it| it.default.as_deref() != Some(""));
    assert_eq!(entries, with_default.count());
    assert_eq!(read(&uncommented.join("\n")), Ok(Settings::default()));
}

/// `name = value`, where the name is one of the table.
fn is_entry(line: &str) -> bool {
    line.split_once(" = ").is_some_and(|(name, _)| {
        table()
            .iter()
            .any(|setting| setting.key.ends_with(&format!(".{name}")))
    })
}
