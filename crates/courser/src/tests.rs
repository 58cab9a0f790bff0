//! Every verb is run by the cases of `tests/`: with success, and with each way to fail that it has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

use super::Courser;

/// How a case ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Done,
    /// The server does not do it, or not for this user.
    Refused,
    NotFound,
    NoServer,
    /// Called wrongly, or the files that it is for are not right.
    Wrong,
}

/// Why a verb has no case that ends so.
enum Because {
    /// It cannot.
    Never(&'static str),
    /// A test that is no case, by its file and a text of it.
    Elsewhere(&'static str, &'static str),
}

use Because::{Elsewhere, Never};

/// What is not in the cases, each with its reason. One that has a case after all fails the test.
const WITHOUT: &[(&str, End, Because)] = &[
    (
        "server",
        End::Done,
        Elsewhere("crates/courser/tests/server/mod.rs", "\"server\""),
    ),
    (
        "bench",
        End::Done,
        Elsewhere(
            "tests/e2e/test_first_five_minutes.py",
            "[*courser, \"bench\"]",
        ),
    ),
    (
        "config schema",
        End::Wrong,
        Never("it takes nothing that could be wrong"),
    ),
    (
        "context list",
        End::Wrong,
        Never("it takes nothing that could be wrong"),
    ),
    (
        "listener list",
        End::NotFound,
        Never("nothing is an empty list"),
    ),
    (
        "client list",
        End::NotFound,
        Never("nothing is an empty list"),
    ),
    (
        "client trace",
        End::NotFound,
        Never("the client may come later"),
    ),
    (
        "session list",
        End::NotFound,
        Never("nothing is an empty list"),
    ),
    (
        "subscription list",
        End::NotFound,
        Never("nothing is an empty list"),
    ),
    (
        "retained list",
        End::NotFound,
        Never("nothing is an empty list"),
    ),
    (
        "user list",
        End::NotFound,
        Never("nothing is an empty list"),
    ),
    (
        "role list",
        End::NotFound,
        Never("nothing is an empty list"),
    ),
    (
        "role add",
        End::NotFound,
        Never("it names nothing that must be there"),
    ),
    (
        "domain list",
        End::NotFound,
        Never("nothing is an empty list"),
    ),
    ("acl list", End::NotFound, Never("nothing is an empty list")),
    ("access export", End::NotFound, Never("it takes all")),
    (
        "access import",
        End::NotFound,
        Never("it names nothing that must be there"),
    ),
    ("top", End::NotFound, Never("it names nothing")),
    ("events", End::NotFound, Never("it names nothing")),
    ("diagnose", End::NotFound, Never("it names nothing")),
    ("config reload", End::NotFound, Never("it names nothing")),
    ("config show", End::NotFound, Never("it names nothing")),
    ("config diff", End::NotFound, Never("it names nothing")),
    ("backup create", End::NotFound, Never("it makes the folder")),
    ("backup status", End::NotFound, Never("it names nothing")),
    ("inspect damage", End::NotFound, Never("it names nothing")),
    (
        "pub",
        End::NotFound,
        Never("a topic is there when it is named"),
    ),
    (
        "sub",
        End::NotFound,
        Never("a topic is there when it is named"),
    ),
    (
        "request",
        End::NotFound,
        Never("a topic is there when it is named"),
    ),
    ("probe", End::NotFound, Never("it names nothing")),
    ("bench", End::NotFound, Never("it names nothing")),
    ("bench mqtt", End::NotFound, Never("it names nothing")),
    ("bench connect", End::NotFound, Never("it names nothing")),
    ("bench retained", End::NotFound, Never("it names nothing")),
    ("bench absent", End::NotFound, Never("it names nothing")),
];

/// Verbs by their names, such as `client list`, with all their flags.
fn verbs(command: &Command, name: &str, found: &mut BTreeMap<String, Vec<String>>) {
    let parts: Vec<&Command> = command
        .get_subcommands()
        .filter(|part| part.get_name() != "help")
        .collect();
    if parts.is_empty() || !(command.is_subcommand_required_set() || name.is_empty()) {
        let flags = command
            .get_arguments()
            .map(|flag| flag.get_id().to_string());
        found.insert(name.to_owned(), flags.collect());
    }
    for part in parts {
        let name = format!("{name} {}", part.get_name());
        verbs(part, name.trim(), found);
    }
}

/// The ways in which a verb with these flags can end.
fn ends(flags: &[String]) -> &'static [End] {
    let asks = ["context", "host"]
        .iter()
        .any(|it| flags.iter().any(|flag| flag == it));
    if asks {
        &[End::Done, End::Refused, End::NotFound, End::NoServer]
    } else {
        &[End::Done, End::Wrong]
    }
}

const fn end_of(code: u8, asks: bool) -> Option<End> {
    Some(match code {
        0 => End::Done,
        _ if !asks => End::Wrong,
        1 | 4 | 6 => End::Refused,
        3 => End::NoServer,
        5 => End::NotFound,
        _ => return None,
    })
}

fn case_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of cases") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            case_files(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "trycmd")
        {
            found.push(path);
        }
    }
}

/// The verb of a case, by the words behind `courser`.
fn verb_of(root: &Command, words: &str) -> String {
    let (mut command, mut name) = (root, String::new());
    for word in words.split_whitespace() {
        let Some(part) = command.find_subcommand(word) else {
            break;
        };
        command = part;
        name = format!("{name} {word}");
    }
    name.trim().to_owned()
}

/// Verbs of the cases in a text, with the codes that they end with.
fn cases(root: &Command, text: &str) -> Vec<(String, u8)> {
    let mut lines = text.lines().peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let Some(words) = line.strip_prefix("$ courser ") else {
            continue;
        };
        let code = lines.peek().and_then(|next| next.strip_prefix("? "));
        let code = code.map_or(0, |code| code.trim().parse().expect("a code is a number"));
        found.push((verb_of(root, words), code));
    }
    found
}

#[test]
fn help_of_the_server_lists_the_settings() {
    let root = Courser::command();
    let server = root.find_subcommand("server").expect("a verb");
    let help = server.get_after_long_help().expect("a list").to_string();
    for line in [
        "\n  server.shards = 0\n",
        "\n  [[class]] filter = must be given\n",
        // As `COURSER__SYS__INTERVAL`: with one sign it would be no setting, and nobody would hear of it.
        "COURSER__SECTION__KEY in the environment",
    ] {
        assert!(help.contains(line), "{line:?} in {help}");
    }
}

#[test]
fn every_verb_is_run_with_each_of_its_ends() {
    let mut root = Courser::command();
    root.build();
    let mut all = BTreeMap::new();
    verbs(&root, "", &mut all);
    assert!(all.contains_key("client list") && all.contains_key("bench"));
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    case_files(&own.join("tests"), &mut files);
    let mut seen = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a file of cases");
        for (verb, code) in cases(&root, &text) {
            let asks = all.get(&verb).is_some_and(|flags| ends(flags).len() > 2);
            seen.extend(end_of(code, asks).map(|end| (verb, end)));
        }
    }
    let mut wrong = Vec::new();
    for (verb, flags) in &all {
        for &end in ends(flags) {
            let has_case = seen.contains(&(verb.clone(), end));
            let without = WITHOUT.iter().find(|it| (it.0, it.1) == (verb, end));
            match (has_case, without) {
                (true, None) => {}
                (false, None) => wrong.push(format!("{verb}: no case ends with {end:?}")),
                (true, Some((_, _, Never(why) | Elsewhere(why, _)))) => {
                    wrong.push(format!("{verb}: {end:?} has a case after all: {why}"));
                }
                (false, Some((_, _, Never(_)))) => {}
                (false, Some((_, _, Elsewhere(file, what)))) => {
                    let text = fs::read_to_string(own.join("../..").join(file));
                    if !text.is_ok_and(|text| text.contains(what)) {
                        wrong.push(format!("{verb}: {file} has no {what}"));
                    }
                }
            }
        }
    }
    for (verb, end, _) in WITHOUT {
        let known = all
            .get(*verb)
            .is_some_and(|flags| ends(flags).contains(end));
        if !known {
            wrong.push(format!(
                "{verb}: there is no such verb, or it cannot end with {end:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Flags that many verbs have, by what they stand under. Those of a verb alone stand under none.
const HEADINGS: [(&str, &[&str]); 5] = [
    (
        "Settings",
        &["config", "set", "in_memory", "mqtt", "shards"],
    ),
    (
        "Connection",
        &[
            "server",
            "token_file",
            "operator",
            "operator_password_file",
            "host",
            "port",
            "url",
            "unix",
        ],
    ),
    ("TLS and WebSocket", &["tls", "cafile", "ws"]),
    ("Listing", &["sort", "limit", "cursor", "watch"]),
    ("Output", &["output", "debug"]),
];

fn headings_of(command: &Command, name: &str, wrong: &mut Vec<String>) {
    // Its flags say what is kept of a server, which it does not ask.
    if name == "courser context add" {
        return;
    }
    for flag in command.get_arguments().filter(|it| !it.is_positional()) {
        let id = flag.get_id().as_str();
        let mut all = HEADINGS.iter();
        if let Some((heading, _)) = all.find(|(_, flags)| flags.contains(&id))
            && flag.get_help_heading() != Some(heading)
        {
            wrong.push(format!("{name} --{id}: {:?}", flag.get_help_heading()));
        }
    }
    for part in command.get_subcommands() {
        headings_of(part, &format!("{name} {}", part.get_name()), wrong);
    }
}

/// In one list they stood by turns, for clap orders flags of several groups by their numbers.
#[test]
fn helps_have_flags_of_one_kind_together() {
    let mut all = Courser::command();
    all.build();
    let mut wrong = Vec::new();
    headings_of(&all, "courser", &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_help_begins_with_what_the_verb_has_alone() {
    let mut all = Courser::command();
    all.build();
    let list = all
        .find_subcommand_mut("client")
        .and_then(|client| client.find_subcommand_mut("list"))
        .expect("a verb");
    let help = list.render_long_help().to_string();
    let places = ["\nOptions:", "\nConnection:", "\nListing:", "\nOutput:"];
    let places = places.map(|heading| help.find(heading).expect(heading));
    assert!(
        places[0] < *places[1..].iter().min().expect("some"),
        "{help}"
    );
    let of_connection = &help[places[1]..];
    let end = of_connection[1..]
        .find("\n\n\n")
        .unwrap_or(of_connection.len() - 1);
    for flag in [
        "--server",
        "--token-file",
        "--operator",
        "--context",
        "--timeout",
    ] {
        assert!(of_connection[..=end].contains(flag), "{flag} in {help}");
    }
}
