//! `courser config` and `courser init`: the cases are in `tests/config/`, each runs in a folder of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn settings_are_checked_shown_and_compared() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let folder = tempfile::tempdir().expect("a folder");
    for case in ["config.trycmd", "init.trycmd", "tls.trycmd"] {
        fs::copy(cases.join(case), folder.path().join(case)).expect("copied");
    }
    for case in ["config", "init", "tls"] {
        fs::create_dir(folder.path().join(format!("{case}.in"))).expect("a new folder");
        // What a case writes stays with it.
        fs::create_dir(folder.path().join(format!("{case}.out"))).expect("a new folder");
    }
    let used = folder.path().join("init.in/used");
    fs::create_dir(&used).expect("a new folder");
    fs::write(used.join("node"), "").expect("written");
    for file in fs::read_dir(cases.join("config.in")).expect("a folder") {
        let file = file.expect("a file");
        let to = folder.path().join("config.in").join(file.file_name());
        fs::copy(file.path(), to).expect("copied");
    }
    let tests = trycmd::TestCases::new();
    tests.register_bin("courser", Path::new(env!("CARGO_BIN_EXE_courser")));
    tests.case(
        folder
            .path()
            .join("*.trycmd")
            .to_str()
            .expect("a path of text"),
    );
    tests.run();
}

/// A name may come from a list of clients that somebody else has written.
#[test]
fn no_name_of_a_certificate_moves_the_cursor_of_a_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |words: &[&str], code: i32| {
        let done = Command::new(env!("CARGO_BIN_EXE_courser"))
            .arg("tls")
            .args(words)
            .current_dir(folder.path())
            .output()
            .expect("it runs");
        let said = String::from_utf8([done.stdout, done.stderr].concat()).expect("text");
        assert_eq!(done.status.code(), Some(code), "{said:?}");
        let moves = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
        assert!(!said.contains(moves), "{said:?}");
        said
    };
    const EVIL: &str = "a\u{1b}[2J\u{202e}\r";
    run(&["new-ca", "--folder", EVIL], 0);
    let made = run(&["new-cert", "a", "--folder", EVIL, "--file", EVIL], 0);
    let shown = r"a\u{1b}[2J\u{202e}\r";
    assert!(
        made.contains(&format!("wrote {shown}/{shown}.key: ")),
        "{made}"
    );
    // There already; no host name; no name of a client; no name of files; not there; no certificate.
    run(&["new-cert", "a", "--folder", EVIL, "--file", EVIL], 6);
    run(&["new-cert", EVIL], 2);
    run(&["new-cert", EVIL, "--client"], 2);
    run(&["new-cert", "a", "--file", &format!("/{EVIL}")], 2);
    run(&["new-cert", "a", "--folder", &EVIL[1..]], 5);
    run(&["show", &EVIL[1..]], 5);
    let key = format!("{EVIL}/{EVIL}.key");
    run(&["show", &key], 1);
    run(&["show", &format!("{EVIL}/{EVIL}.pem")], 0);
    fs::copy(
        folder.path().join(key),
        folder.path().join(format!("{EVIL}/ca.key")),
    )
    .expect("copied");
    run(&["new-cert", "b", "--folder", EVIL], 1);
}
