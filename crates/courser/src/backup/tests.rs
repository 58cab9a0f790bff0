use super::*;

fn status(state: &str, id: &str, folder: &str, number: u32) -> Value {
    json!({"state": state, "id": id, "folder": folder, "number": number})
}

/// What `create` takes the state for, of a backup that was begun with the id a.
#[track_caller]
fn check(status: &Value, expected: Verdict) {
    for number in [0, 3] {
        let begun = self::status("running", "a", "/b", number);
        assert_eq!(verdict(&begun, status), expected, "{begun} {status}");
    }
}

#[test]
fn a_backup_is_waited_for_until_it_has_ended() {
    check(&status("running", "a", "/b", 3), Verdict::Running);
    check(&status("done", "a", "/b", 3), Verdict::Ended);
    check(&status("failed", "a", "/b", 3), Verdict::Ended);
    let begun = status("running", "a", "/b", 0);
    // It has failed before it had a number.
    for (state, expected) in [("running", Verdict::Running), ("failed", Verdict::Ended)] {
        assert_eq!(verdict(&begun, &status(state, "a", "/b", 0)), expected);
    }
}

/// The server was killed and was there again before the next look: `create` said "backup 0" and ended with 0.
#[test]
fn a_server_that_was_started_again_has_made_no_backup() {
    check(&status("none", "", "", 0), Verdict::Unknown);
    check(&status("none", "a", "/b", 3), Verdict::Unknown);
}

#[test]
fn that_another_backup_is_made_says_nothing_of_the_one_that_was_begun() {
    for state in ["running", "done", "failed"] {
        check(&status(state, "c", "/b", 3), Verdict::Unknown);
        check(&status(state, "a", "/d", 3), Verdict::Unknown);
        let begun = status("running", "a", "/b", 3);
        let other = status(state, "a", "/b", 4);
        assert_eq!(verdict(&begun, &other), Verdict::Unknown);
    }
}

/// One of an earlier build, which goes on while the program is replaced.
#[test]
fn a_server_that_tells_no_id_is_waited_for_by_folder_and_number() {
    let state = |state, number| json!({"state": state, "folder": "/b", "number": number});
    let begun = state("running", 3);
    assert_eq!(verdict(&begun, &state("done", 3)), Verdict::Ended);
    assert_eq!(verdict(&begun, &state("done", 4)), Verdict::Unknown);
    let none = json!({"state": "none", "folder": "", "number": 0});
    assert_eq!(verdict(&begun, &none), Verdict::Unknown);
}

/// The last backup before damage stays beside the damaged ones, and all of them were called whole.
#[test]
fn a_prune_calls_whole_only_what_is() {
    let check = |kept: &[u32], damaged: &[u32], expected| {
        assert_eq!(left(kept, damaged), expected);
    };
    check(&[1, 2], &[2], "left, and whole: 1; left, and DAMAGED: 2");
    check(&[3], &[], "left, and whole: 3");
    check(&[3, 4, 5, 8, 9], &[], "left, and whole: 3 to 5, 8 to 9");
    check(&[u32::MAX], &[u32::MAX], "left, and DAMAGED: 4294967295");
    let mixed = "left, and whole: 2 to 3, 7; left, and DAMAGED: 5 to 6";
    check(&[2, 3, 5, 6, 7], &[5, 6], mixed);
}
