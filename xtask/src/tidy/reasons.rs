//! What stands in the source only with a reason in the comment above it.

#[cfg(test)]
mod tests;

use crate::repo::TextFile;

/// What wants a reason.
struct Rule {
    /// What a line of it has in it, any of these.
    words: &'static [&'static str],
    /// How the reason begins in the comment right above the line.
    reason: &'static str,
    /// Where, by the beginning of a path.
    places: &'static [&'static str],
}

const RULES: [Rule; 2] = [
    // Hashers with a seed that everybody knows: who may choose the keys of such a map makes them collide.
    Rule {
        words: &["FixedState"],
        reason: "Fixed seed: ",
        places: &["crates/"],
    },
    // Locks where messages pass: what a message meets is owned, read without a lock, or a ring (docs/adr/0023).
    Rule {
        words: &["Mutex<", "RwLock<", "Condvar"],
        reason: "Lock: ",
        places: &[
            "crates/broker/src/rings",
            "crates/broker/src/shard",
            "crates/contract/src",
            "crates/engine/src",
            "crates/memory/src",
            "crates/mqtt/src",
            "crates/router/src",
            "crates/shard/src",
        ],
    },
];

/// A line for each that has none.
pub(super) fn missing(file: &TextFile) -> Vec<String> {
    let path = file.path.as_str();
    let rules = RULES.iter().filter(|rule| rule.is_for(path));
    rules
        .flat_map(|rule| {
            rule.unexplained(&file.text).map(move |(number, word)| {
                let reason = rule.reason;
                format!("{path}:{number}: {word} without a comment above it: \"{reason}…\"")
            })
        })
        .collect()
}

impl Rule {
    fn is_for(&self, path: &str) -> bool {
        path.ends_with(".rs") && self.places.iter().any(|place| path.starts_with(place))
    }

    /// Numbers of lines, each with the word that wants a reason.
    fn unexplained<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, &'static str)> {
        let mut is_explained = false;
        (1..).zip(text.lines()).filter_map(move |(number, line)| {
            let line = line.trim_start();
            if let Some(comment) = line.strip_prefix("//") {
                is_explained |= comment.contains(self.reason);
                return None;
            }
            let word = self.words.iter().find(|word| line.contains(**word));
            let was_explained = std::mem::take(&mut is_explained);
            word.filter(|_| !was_explained).map(|word| (number, *word))
        })
    }
}
