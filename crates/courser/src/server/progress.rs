//! What is said while a start takes long.

use courser_broker::{Progress, StartStep};
use serde_json::json;

use super::greeting::Said;

/// What the start is at, how much of it is done, and since when it goes on.
pub(super) fn goes_on(progress: Progress, seconds: u64) -> Said {
    let Progress { step, done, of } = progress;
    let (what, step, unit) = match step {
        StartStep::Reading => ("reading the log", "reading", "segments"),
        StartStep::Restoring => (
            "recovering sessions and messages",
            "restoring",
            "partitions",
        ),
        StartStep::Replaying => ("recovering what came after them", "replaying", "partitions"),
    };
    let much = match of {
        0 => String::new(),
        _ => format!(", {done} of {of} {unit}"),
    };
    let facts = json!({"elapsed_seconds": seconds, "step": step, "done": done, "of": of});
    Said::new("starting", format!("{what}{much}, {seconds} s")).with(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_says_how_much_of_how_much_is_done() {
        for (step, done, of, text, key) in [
            (StartStep::Reading, 0, 0, "reading the log, 7 s", "reading"),
            (
                StartStep::Reading,
                3,
                20,
                "reading the log, 3 of 20 segments, 7 s",
                "reading",
            ),
            (
                StartStep::Restoring,
                5,
                17,
                "recovering sessions and messages, 5 of 17 partitions, 7 s",
                "restoring",
            ),
            (
                StartStep::Replaying,
                0,
                17,
                "recovering what came after them, 0 of 17 partitions, 7 s",
                "replaying",
            ),
        ] {
            let facts = json!({"elapsed_seconds": 7, "step": key, "done": done, "of": of});
            let said = goes_on(Progress { step, done, of }, 7);
            assert_eq!(said, Said::new("starting", text).with(facts));
        }
    }
}
