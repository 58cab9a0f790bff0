use super::*;

fn unlike_of(code: &str, page: &str) -> Vec<String> {
    let file = |path: &str, text: &str| TextFile {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    unlike(&[
        file("crates/a/src/b.rs", code),
        file(
            "crates/a/src/b/tests.rs",
            "tracing::info!(event = \"only_in_a_test\");",
        ),
        file(PAGE, page),
    ])
}

const CODE: &str = r#"
    tracing::warn!(event = "one", %error, "text");
    tracing::error!(
        event = "two",
        "text"
    );
    tracing::info!(event = "two");
    // tracing::info!(event = "three");
    Said::new(
        "four",
        text,
    )
    fields.add("event", "five".into());
"#;
const PAGE_OF_IT: &str = "| event | level | what |\n|---|---|---|\n| `one` | warn | x |\n| `two` | error, info | x |\n| `four` | info | x |\n| `five` | error | x |\n";

#[test]
fn a_page_that_says_what_the_code_does_is_right() {
    assert_eq!(unlike_of(CODE, PAGE_OF_IT), Vec::<String>::new());
}

#[test]
fn a_word_that_is_renamed_is_found_on_both_sides() {
    let broken = unlike_of(&CODE.replace("\"four\"", "\"for\""), PAGE_OF_IT);
    assert_eq!(broken.len(), 2, "{broken:?}");
    assert!(broken[0].contains("what for means") && broken[1].contains("nobody writes four"));
}

#[test]
fn a_level_that_changes_is_found() {
    let broken = unlike_of(&CODE.replace("tracing::warn", "tracing::info"), PAGE_OF_IT);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].contains("one is {\"warn\"}"), "{broken:?}");
}
