//! What a server says that cannot start, before it has a log.

use std::process::Command;

const COURSER: &str = env!("CARGO_BIN_EXE_courser");

#[test]
fn a_refused_data_folder_is_said_whatever_the_form_of_the_log() {
    for format in ["text", "json"] {
        let done = Command::new(COURSER)
            .args(["server", "--mqtt", "127.0.0.1:0", "--data", "/proc/x"])
            .args(["--set", &format!("log.format={format}")])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success(), "{format}");
        assert!(said.contains("/proc/x"), "{format}: {said:?}");
    }
}
