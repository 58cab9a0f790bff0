use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use courser_settings::Sources;
use serde_json::{Value, json};
use tracing::subscriber::with_default;

use super::*;

/// What was written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().expect("nobody panics here").clone();
        let text = String::from_utf8(bytes).expect("text");
        text.lines().map(str::to_owned).collect()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics here").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn settings(format: &str, level: &str) -> Settings {
    let text = format!("[log]\nformat = \"{format}\"\nlevel = \"{level}\"\n");
    let read = Sources::new().file("f", &text).check();
    read.expect("all is right")
}

/// The lines that `act` leads to.
fn said(settings: &Settings, act: impl FnOnce(&Log)) -> Vec<String> {
    let written = Written::default();
    let log = Log::to(settings, written.clone()).expect("a thread");
    with_default(tracing_subscriber::registry().with(log.lines()), || {
        act(&log)
    });
    log.flush();
    written.lines()
}

const EVIL: &str = "x\x1b[2J\r\nevent=forged \"\\\u{202e}\u{9b}\u{2028}";

#[test]
fn text_is_one_line_an_event_whatever_a_client_calls_itself() {
    let lines = said(&settings("text", "info"), |_| {
        tracing::info!(event = "one", client_id = EVIL, count = 3, "said \n so");
        tracing::warn!(event = "two", address = %"[::1]:1883", empty = "");
        tracing::debug!(event = "three");
    });
    assert_eq!(lines.len(), 2, "{lines:?}");
    let (time, rest) = lines[0].split_once(' ').expect("words");
    assert!(time.parse::<Timestamp>().is_ok(), "{time}");
    assert_eq!(
        rest,
        r#"info event=one client_id="x\u{1b}[2J\r\nevent=forged \"\\\u{202e}\u{9b}\u{2028}" count=3 message="said \n so""#
    );
    let (_, rest) = lines[1].split_once(' ').expect("words");
    assert_eq!(rest, r#"warn event=two address=[::1]:1883 empty="""#);
}

#[test]
fn json_is_one_object_a_line_and_says_exactly_what_was_said() {
    let lines = said(&settings("json", "debug"), |_| {
        tracing::debug!(
            event = "one",
            client_id = EVIL,
            count = 3,
            good = true,
            "so"
        );
        tracing::error!(time = "forged", level = "forged", "no name");
    });
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in &lines {
        assert!(line.chars().all(|letter| !letter.is_control()), "{line}");
        assert!(!line.contains('\u{202e}') && !line.contains('\u{2028}'));
    }
    let mut first: Value = serde_json::from_str(&lines[0]).expect("JSON");
    assert!(first["time"].take().is_string());
    let expected = json!({"time": null, "level": "debug", "event": "one", "client_id": EVIL, "count": 3, "good": true, "message": "so"});
    assert_eq!(first, expected);
    let second: Value = serde_json::from_str(&lines[1]).expect("JSON");
    assert_eq!(second["level"], "error", "a field is not the level");
    assert_eq!(
        second["event"], "courser_logging_tests",
        "every line has one"
    );
}

#[test]
fn facts_are_fields_of_json_and_nothing_else_of_text() {
    let facts = json!({"address": "[::1]:1", "count": 3, "level": "forged", "none": null, "long": "x".repeat(70_000)});
    let facts = facts.to_string();
    let act = |_: &Log| tracing::info!(event = "one", { FACTS } = facts, "so");
    let lines = said(&settings("json", "info"), act);
    let line: Value = serde_json::from_str(&lines[0]).expect("JSON");
    assert_eq!(
        (&line["address"], &line["count"]),
        (&json!("[::1]:1"), &json!(3))
    );
    assert_eq!(line["level"], "info", "a fact is not the level");
    assert_eq!(line["message"], "so");
    assert_eq!(line.get(FACTS), None);
    assert!(lines[0].len() < 5_000, "long ones are cut");
    let lines = said(&settings("text", "info"), act);
    assert!(
        lines[0].ends_with(" info event=one message=so"),
        "{lines:?}"
    );
}

#[test]
fn level_and_form_change_while_it_is_written() {
    let lines = said(&settings("text", "warn"), |log| {
        tracing::info!(event = "before");
        log.set(&settings("json", "debug"));
        tracing::debug!(event = "after");
        tracing::debug!(target: "somebody", event = "of_others");
        tracing::warn!(target: "somebody", event = "of_others_too");
        log.set(&settings("text", "error"));
        tracing::warn!(event = "again");
        tracing::error!(event = "at_last");
    });
    let events: Vec<bool> = lines.iter().map(|line| line.starts_with('{')).collect();
    assert_eq!(events, [true, true, false], "{lines:?}");
    assert!(lines[0].contains("\"after\"") && lines[1].contains("\"of_others_too\""));
    assert!(lines[2].ends_with("error event=at_last"), "{lines:?}");
}

#[test]
fn long_values_are_cut() {
    let lines = said(&settings("text", "info"), |_| {
        tracing::info!(event = "one", topic = "ä".repeat(70_000).as_str());
    });
    assert!(lines[0].len() < 2_200, "{}", lines[0].len());
    assert!(lines[0].ends_with("…\""));
}

/// Whoever reads stops to.
struct Stuck(Sender<()>, Receiver<()>, Written);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.send(());
        let _ = self.1.recv();
        self.2.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn nobody_waits_for_a_slow_reader_and_what_is_dropped_is_told() {
    let written = Written::default();
    let (reached, at_it) = channel();
    let (go, goes) = channel();
    let log = Log::to(
        &settings("text", "info"),
        Stuck(reached, goes, written.clone()),
    );
    let log = log.expect("a thread");
    let more = 50;
    with_default(tracing_subscriber::registry().with(log.lines()), || {
        tracing::info!(event = "first");
        at_it.recv().expect("it writes");
        for _ in 0..LINES_MAX + more {
            tracing::info!(event = "more");
        }
    });
    drop(go);
    log.flush();
    // The queue was full, so there was no room for the wish to flush either: then for another one.
    while written.lines().len() < LINES_MAX + 2 {
        log.flush();
    }
    let lines = written.lines();
    assert_eq!(lines.len(), LINES_MAX + 2);
    let told: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains("event=log_lines_dropped"))
        .collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].contains(&format!("lines={more} ")), "{told:?}");
}
