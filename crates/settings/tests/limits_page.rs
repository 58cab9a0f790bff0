//! `docs/limits.md` against the table of settings: every setting that is a limit is there, with its default, and nothing else is. And against
//! constants of the code that are limits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use courser_settings::{
    ADDRESS_CONNECTIONS_MAX, ADDRESS_CONNECTS_PER_SECOND, Setting, lists, table,
};

/// Settings that limit something; the others say what is done.
const LIMITS: [&str; 13] = [
    "_max",
    "_max_seconds",
    "_maximum",
    "_timeout",
    "connects_per_second",
    ".max",
    "reserve_bytes",
    "login_failures.wait_first",
    "login_failures.forget_after",
    "limits.messages_per_second",
    "limits.bytes_per_second",
    "limits.connections",
    "limits.sessions",
];

/// A listener that says nothing of its own.
const OF_ALL: &str = "that of all";

/// Defaults that the page says in words, with what the table has for them.
const IN_WORDS: &[(&str, &str, &str)] = &[
    ("limits.bytes_per_second", "\"0B\"", "none"),
    ("limits.connections", "0", "none"),
    ("limits.messages_per_second", "0", "none"),
    ("limits.sessions", "0", "none"),
    ("listener.address_connections_max", "", OF_ALL),
    ("listener.address_connects_per_second", "", OF_ALL),
    ("listener.connect_bytes_max", "", OF_ALL),
    ("listener.connect_timeout", "", OF_ALL),
    ("listener.connections_max", "", "none of its own"),
    ("listener.connects_per_second", "", OF_ALL),
    ("listener.keep_alive_max_seconds", "", OF_ALL),
    ("listener.packet_bytes_max", "", OF_ALL),
    ("listener.receive_maximum", "", OF_ALL),
    ("listener.session_expiry_max", "", OF_ALL),
    ("listener.topic_alias_max", "", OF_ALL),
    ("listeners.address_connections_max", "", "10,000"),
    ("listeners.address_connects_per_second", "", "500"),
    ("listeners.connects_per_second", "0", "none"),
    ("login_failures.wait_max", "\"1m\"", "60 s"),
    ("log.reserve_bytes", "\"0B\"", "four segments"),
    (
        "memory.max",
        "\"0B\"",
        "60 % of the control group or else of the machine",
    ),
    ("mqtt.keep_alive_max_seconds", "0", "none"),
    ("retained.age_max", "\"0s\"", "none"),
    ("session.queue_age_max", "\"0s\"", "none"),
];

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/limits.md");
    fs::read_to_string(path).expect("docs/limits.md can be read")
}

fn settings() -> Vec<Setting> {
    let of_lists = lists().into_iter().flat_map(|list| list.fields);
    table().into_iter().chain(of_lists).collect()
}

/// A default as the page writes it: `1 MiB`, `100,000`, `5 s`, `7 days`.
fn in_text(key: &str, default: &str) -> String {
    let words = IN_WORDS.iter().find(|(known, ..)| *known == key);
    if let Some((_, expected, words)) = words {
        assert_eq!(default, *expected, "{key}: the page says {words}");
        return (*words).to_owned();
    }
    let bare = default.trim_matches('"');
    let digits = bare.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = bare.split_at(digits.unwrap_or(bare.len()));
    let grouped = number.as_bytes().rchunks(3).rev();
    let grouped: Vec<&str> = grouped
        .map(|group| std::str::from_utf8(group).expect("digits"))
        .collect();
    let unit = if unit == "d" { "days" } else { unit };
    format!("{} {unit}", grouped.join(",")).trim().to_owned()
}

/// Every key in the second column of a table, with the text behind it up to the next one.
fn said() -> BTreeMap<String, String> {
    let mut said = BTreeMap::new();
    for row in page().lines().filter(|line| line.starts_with('|')) {
        let cell = row.split('|').nth(2).expect("a table has columns");
        let mut parts = cell.split('`');
        parts.next();
        while let (Some(key), Some(text)) = (parts.next(), parts.next()) {
            // Named again in what is said of another one.
            if text.trim_start().starts_with(',') {
                let text = text.trim_start_matches(',').trim();
                said.insert(key.to_owned(), text.to_owned());
            }
        }
    }
    said
}

#[test]
fn every_limit_is_on_the_page_with_its_default() {
    let said = said();
    for setting in settings() {
        if !LIMITS.iter().any(|end| setting.key.ends_with(end)) {
            continue;
        }
        let default = setting.default.as_deref().unwrap_or("not set");
        let expected = in_text(setting.key, default);
        let text = said.get(setting.key).unwrap_or_else(|| {
            panic!(
                "docs/limits.md does not say what happens at {}",
                setting.key
            )
        });
        let rest = text.strip_prefix(&*expected);
        assert!(
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric())),
            "{}: the default is {expected}, and the page says {text:?}",
            setting.key
        );
    }
}

#[test]
fn limits_of_addresses_that_nobody_has_set_are_those_of_the_page() {
    for (key, most) in [
        ("address_connections_max", ADDRESS_CONNECTIONS_MAX),
        ("address_connects_per_second", ADDRESS_CONNECTS_PER_SECOND),
    ] {
        let key = format!("listeners.{key}");
        let words = IN_WORDS.iter().find(|(known, ..)| *known == key);
        let (.., words) = words.expect("the page says it in words");
        assert_eq!(words.replace(',', ""), most.to_string(), "{key}");
    }
}

#[test]
fn every_key_on_the_page_is_a_setting() {
    let known: BTreeSet<&str> = settings().iter().map(|setting| setting.key).collect();
    let said = said();
    assert!(said.len() > 20, "the page was read");
    for key in said.keys() {
        assert!(known.contains(&**key), "docs/limits.md: there is no {key}");
    }
}

#[test]
fn every_limit_says_what_happens() {
    for row in page().lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "three columns: {row}");
        assert!(cells[1..4].iter().all(|cell| !cell.is_empty()), "{row}");
    }
}

/// Two rows that were written apart say two things of one limit.
#[test]
fn no_limit_of_a_table_is_there_twice() {
    let page = page();
    let mut seen = BTreeSet::new();
    for line in page.lines() {
        if !line.starts_with('|') {
            seen.clear();
            continue;
        }
        let limit = line.split('|').nth(1).expect("a table has columns").trim();
        assert!(
            seen.insert(limit),
            "docs/limits.md has two rows \"{limit}\""
        );
    }
}

/// A limit that is no setting: its file below `crates/`, its constant, the row of the page, and how a number is written there.
type Constant = (&'static str, &'static str, &'static str, fn(u64) -> String);

const CONSTANTS: [Constant; 23] = [
    ("access/src/names.rs", "USER_BYTES_MAX", "user name", bytes),
    ("access/src/names.rs", "ROLE_BYTES_MAX", "user name", bytes),
    (
        "access/src/credential.rs",
        "PASSWORD_BYTES_MAX",
        "password |",
        bytes,
    ),
    (
        "access/src/scram.rs",
        "MESSAGE_BYTES_MAX",
        "message of a SCRAM login",
        bytes,
    ),
    (
        "access/src/pattern.rs",
        "PATTERN_BYTES_MAX",
        "topic pattern of a rule",
        bytes,
    ),
    (
        "access/src/pattern.rs",
        "LEVELS_MAX",
        "topic pattern of a rule",
        count,
    ),
    (
        "broker/src/access/backoff.rs",
        "TOO_FAST_SECONDS_FREE",
        "seconds, not all in a row",
        count,
    ),
    (
        "broker/src/access/backoff.rs",
        "TOO_FAST_WAIT_MAX",
        "seconds, not all in a row",
        seconds,
    ),
    (
        "broker/src/doors/arrivals.rs",
        "ADDRESSES_MAX",
        "seconds, not all in a row",
        count,
    ),
    ("access/src/table.rs", "USERS_MAX", "users, roles", count),
    ("access/src/table.rs", "ROLES_MAX", "users, roles", count),
    ("access/src/table.rs", "RULES_MAX", "users, roles", count),
    (
        "mqtt/src/front/requests.rs",
        "REQUESTS_MAX",
        "SUBSCRIBE and UNSUBSCRIBE without answer",
        count,
    ),
    (
        "mqtt/src/front/requests.rs",
        "FILTERS_OPEN_MAX",
        "SUBSCRIBE and UNSUBSCRIBE without answer",
        count,
    ),
    (
        "mqtt/src/front/requests.rs",
        "FILTER_BYTES_OPEN_MAX",
        "SUBSCRIBE and UNSUBSCRIBE without answer",
        kib,
    ),
    (
        "mqtt/src/front/requests.rs",
        "FILTERS_CROWD",
        "SUBSCRIBE and UNSUBSCRIBE without answer",
        count,
    ),
    ("admin/src/serve.rs", "HEAD_BYTES_MAX", "head of a", kib),
    (
        "admin/src/routes/body.rs",
        "BODY_BYTES_MAX",
        "body of a",
        kib,
    ),
    ("admin/src/list.rs", "LIMIT_MAX", "rows of a page", count),
    ("admin/src/list.rs", "CONDITIONS_MAX", "conditions", count),
    (
        "broker/src/shard/questions/retained.rs",
        "PAYLOAD_SHOWN_MAX",
        "a payload that",
        kib,
    ),
    (
        "admin/src/answers.rs",
        "CHANGES_MAX",
        "requests to the API under way",
        count,
    ),
    (
        "admin/src/serve.rs",
        "CONNECTIONS_MAX",
        "connections of the API",
        count,
    ),
];

fn count(number: u64) -> String {
    in_text("", &number.to_string())
}

fn bytes(number: u64) -> String {
    format!("{} B", count(number))
}

fn seconds(number: u64) -> String {
    format!("{} s", count(number))
}

fn kib(number: u64) -> String {
    format!("{} KiB", count(number / 1024))
}

/// The value of a constant, as the source has it: a number, or a product of some.
fn value(source: &str, name: &str) -> Option<u64> {
    let (_, behind) = source.split_once(&format!("const {name}:"))?;
    let (_, value) = behind.split_once('=')?;
    let (value, _) = value.split_once(';')?;
    let factors = value
        .split('*')
        .map(|factor| factor.trim().replace('_', "").parse::<u64>());
    factors.product::<Result<u64, _>>().ok()
}

#[test]
fn limits_that_are_no_settings_are_those_of_the_code() {
    let page = page();
    for (file, name, row, in_words) in CONSTANTS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let source = fs::read_to_string(&path).expect("a source can be read");
        let value = value(&source, name)
            .unwrap_or_else(|| panic!("{file} has no {name} that is a product of numbers"));
        let rows = page
            .lines()
            .filter(|line| line.starts_with(&format!("| {row}")));
        let limits: Vec<&str> = rows.filter_map(|row| row.split('|').nth(2)).collect();
        let [limit] = limits[..] else {
            panic!("docs/limits.md has {} rows \"{row}\"", limits.len());
        };
        let words = in_words(value);
        let mut places = limit.match_indices(&words);
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit() || c == ',');
        // Not a part of a longer number.
        let is_said = places.any(|(at, _)| {
            let (before, behind) = (&limit[..at], &limit[at + words.len()..]);
            !is_digit(before.chars().next_back())
                && !behind.starts_with(|c: char| c.is_ascii_digit())
        });
        assert!(
            is_said,
            "{file}: {name} is {words}, docs/limits.md says {limit:?}"
        );
    }
}
