//! `courser config` and `courser init`: the cases are in `tests/config/`, each runs in a folder of its own.

use std::fs;
use std::path::Path;

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
