//! The kept inputs of the fuzz target of the configuration file (`fuzz/corpus/config_file`), and damaged forms of the template.

#[allow(
    unreachable_pub,
    reason = "the fuzz targets, in another crate, use them too"
)]
mod fuzzed;
#[allow(unreachable_pub, reason = "the same file serves other crates")]
#[path = "../../../fuzz/src/kept.rs"]
mod kept;

#[test]
fn kept_inputs() {
    kept::each("config_file", fuzzed::config_file);
}

/// Each setting of the template drawn from each thing that there is, and from what there is not.
#[test]
fn drawn_templates() {
    let template = courser_settings::template();
    let drawn = [
        "NUMBER", "SIZE", "TIME", "BOOL", "LIST", "ITEMS", "LINES", "MORE", "SECRET", "NOTHING",
        "ABSENT",
    ];
    let drawn = drawn.map(|name| format!("${{ENV:{name}}}"));
    let others = [
        "${FILE:secret}",
        "${FILE:number}",
        "${FILE:absent}",
        "${FILE:\\u001b[2J}",
        "${ENV:\\u0007}",
        "${\\u0000}",
        "${",
        "$${",
        "a$${b}${ENV:SECRET}",
    ];
    let texts: Vec<&str> = drawn.iter().map(String::as_str).chain(others).collect();
    let mut table = "";
    for line in template.lines() {
        let line = line
            .strip_prefix("# ")
            .or_else(|| line.strip_prefix('#'))
            .unwrap_or(line);
        if line.starts_with('[') {
            table = line;
        } else if let Some((name, _)) = line.split_once(" = ") {
            for text in &texts {
                fuzzed::config_file(format!("{table}\n{name} = \"{text}\"").as_bytes());
            }
        }
    }
}

/// The template with all its settings in force, broken off everywhere and with each sign in turn at some places.
#[test]
fn damaged_templates() {
    let template = courser_settings::template();
    let lines = template.lines().map(|line| {
        let setting = line.strip_prefix("# ").or_else(|| line.strip_prefix('#'));
        setting.filter(|rest| rest.contains(" = ")).unwrap_or(line)
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    fuzzed::config_file(text.as_bytes());
    for end in (0..text.len()).step_by(1009) {
        fuzzed::config_file(&text.as_bytes()[..end]);
    }
    for (at, sign) in b"\"[]{}=#.,'\\\n\0-9e\x7F".iter().enumerate() {
        for place in (at * 31..text.len()).step_by(4001) {
            let mut damaged = text.clone().into_bytes();
            damaged[place] = *sign;
            fuzzed::config_file(&damaged);
        }
    }
}
