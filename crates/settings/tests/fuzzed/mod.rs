//! What the fuzz target of the configuration file does with its input; the kept corpus runs through the same code as a plain test.

use std::io;
use std::path::Path;

use courser_settings::{Origin, Shown, Sources, Surroundings};

const NAME: &str = "courser.toml";

/// What a file may draw and nobody may see.
const SECRET: &str = "dr4wn-s3cret";

/// The same on every machine: a value of each kind, a secret, and one that breaks lines.
const SURROUNDINGS: Surroundings = Surroundings { variable, file };

fn variable(name: &str) -> Option<String> {
    let text = match name {
        "NUMBER" => "8",
        "SIZE" => "8MiB",
        "TIME" => "5s",
        "BOOL" => "true",
        "LIST" => "127.0.0.1:1883, [::1]:1883",
        "ITEMS" => "[\"127.0.0.1:1883\"]",
        "LINES" => "a\n# b\u{1b}[2J",
        "MORE" => "${ENV:SECRET}",
        "SECRET" => SECRET,
        "NOTHING" => "",
        _ => return None,
    };
    Some(text.to_owned())
}

fn file(path: &Path) -> io::Result<String> {
    match path.to_str() {
        Some("secret") => Ok(format!("{SECRET}\n")),
        Some("number") => Ok("8\r\n".to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// A configuration file: each error names a place that there is, what was understood means the same when it is printed and
/// read again, and nothing that was drawn is seen anywhere.
pub fn config_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let read = |text| {
        let sources = Sources::new().drawing_from(SURROUNDINGS);
        sources.file(NAME, text).resolve()
    };
    let shows = |said: &str| said.contains(SECRET) && !text.contains(SECRET);
    let resolved = match read(text) {
        Ok(resolved) => resolved,
        Err(errors) => {
            assert!(!errors.0.is_empty(), "a refusal says why");
            let lines = text.lines().count() + 1;
            for error in &errors.0 {
                if let Origin::File { name, line, column } = &error.origin {
                    assert_eq!(name, NAME);
                    assert!((1..=lines).contains(line), "{error}: of {lines} lines");
                    assert!(*column >= 1);
                }
                let said = error.message.chars().any(|c| c.is_control() && c != '\n');
                assert!(!said, "control characters are escaped: {error:?}");
                assert!(!shows(&error.message), "it shows what was drawn: {error}");
            }
            return;
        }
    };
    let printed = resolved.show(Shown::Values);
    assert!(!shows(&printed), "it shows what was drawn:\n{printed}");
    let again = read(&printed)
        .unwrap_or_else(|errors| panic!("what is printed can be read: {errors}\n{printed}"));
    assert_eq!(again.settings, resolved.settings, "{printed}");
    assert_eq!(again.digest(), resolved.digest());
}
