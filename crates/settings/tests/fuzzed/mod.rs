//! What the fuzz target of the configuration file does with its input; the kept corpus runs through the same code as a plain test.

use courser_settings::{Origin, Shown, Sources};

const NAME: &str = "courser.toml";

/// A configuration file: each error names a place that there is, and what was understood means the same when it is printed and
/// read again.
pub fn config_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    // What a file draws from elsewhere is this machine's business.
    if text.contains("${") {
        return;
    }
    let resolved = match Sources::new().file(NAME, text).resolve() {
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
            }
            return;
        }
    };
    let printed = resolved.show(Shown::Values);
    let again = Sources::new()
        .file(NAME, &printed)
        .resolve()
        .unwrap_or_else(|errors| panic!("what is printed can be read: {errors}\n{printed}"));
    assert_eq!(again.settings, resolved.settings, "{printed}");
    assert_eq!(again.digest(), resolved.digest());
}
