use super::{Resolved, Shown};
use crate::{Applies, Sources};

fn resolved(text: &str) -> Resolved {
    Sources::new()
        .file("f", text)
        .resolve()
        .expect("all is right")
}

const TEXT: &str = "server.shards = 3\nmqtt.response_information = \"a\\\"\\\\ü$${x}\"\n[[class]]\nfilter = \"a.b/#\"\n[[class]]\nfilter = \"b\"\nclass = \"volatile\"\n";

#[test]
fn what_is_shown_says_the_same() {
    for text in ["", TEXT] {
        let one = resolved(text);
        for shown in [Shown::Values, Shown::Origins] {
            let again = resolved(&one.show(shown));
            assert_eq!(again.settings, one.settings, "{}", one.show(shown));
            assert_eq!(again.digest(), one.digest());
        }
    }
}

#[test]
fn every_value_has_its_origin() {
    let resolved = Sources::new()
        .file("f", TEXT)
        .environment([("COURSER__SYS__INTERVAL".to_owned(), "1s".to_owned())])
        .argument("--data", "data.path", "/d")
        .resolve()
        .expect("all is right");
    let origin = |key: &str| {
        let all = resolved.effective();
        let found = all.iter().find(|value| value.key == key);
        found.map(|value| value.origin.to_string())
    };
    assert_eq!(origin("server.shards").as_deref(), Some("f:1:17"));
    assert_eq!(
        origin("sys.interval").as_deref(),
        Some("COURSER__SYS__INTERVAL")
    );
    assert_eq!(origin("data.path").as_deref(), Some("--data"));
    assert_eq!(origin("mqtt.listen").as_deref(), Some("default"));
    assert_eq!(origin("class[\"b\"].class").as_deref(), Some("f:7:9"));
    assert_eq!(origin("class[\"a.b/#\"].class").as_deref(), Some("default"));
    let text = resolved.show(Shown::Origins);
    assert!(
        text.contains("\nshards = 3                                   # f:1:17\n"),
        "{text}"
    );
}

#[test]
fn what_was_drawn_is_not_shown() {
    let one = resolved("data.path = \"${ENV:CARGO_MANIFEST_DIR}\"");
    let text = one.show(Shown::Origins);
    assert!(
        text.contains("path = \"${ENV:CARGO_MANIFEST_DIR}\""),
        "{text}"
    );
    assert!(!text.contains(env!("CARGO_MANIFEST_DIR")), "{text}");
    let changes = resolved("").changes(&one);
    assert_eq!(changes[0].after, "\"${ENV:CARGO_MANIFEST_DIR}\"");
}

#[test]
fn a_digest_depends_on_the_values_alone() {
    let one = resolved("server.shards = 3");
    let same = Sources::new()
        .set("server.shards=3")
        .resolve()
        .expect("it is right");
    assert_eq!(one.digest(), same.digest());
    assert_ne!(one.digest(), resolved("server.shards = 4").digest());
    assert_ne!(
        resolved("[[class]]\nfilter = \"a\"").digest(),
        resolved("").digest()
    );
    assert_eq!(one.digest().len(), 16);
}

#[test]
fn changes_say_what_and_when() {
    let changes = |before: &str, after: &str| -> Vec<(String, String, String, Applies)> {
        let changes = resolved(before).changes(&resolved(after));
        let each = changes.into_iter();
        each.map(|it| (it.key, it.before, it.after, it.applies))
            .collect()
    };
    let one = |key: &str, before: &str, after: &str, applies| {
        vec![(key.to_owned(), before.to_owned(), after.to_owned(), applies)]
    };
    assert_eq!(changes(TEXT, TEXT), []);
    assert_eq!(
        changes("", "sys.interval = \"1s\""),
        one("sys.interval", "\"10s\"", "\"1s\"", Applies::AtOnce)
    );
    let (a, b) = ("[[class]]\nfilter = \"a\"\n", "[[class]]\nfilter = \"b\"\n");
    assert_eq!(
        changes("", a),
        one("class[\"a\"]", "", "\"a\"", Applies::Restart)
    );
    assert_eq!(
        changes(a, ""),
        one("class[\"a\"]", "\"a\"", "", Applies::Restart)
    );
    let volatile = "[[class]]\nfilter = \"a\"\nclass = \"volatile\"\n";
    assert_eq!(
        changes(a, volatile),
        one(
            "class[\"a\"].class",
            "\"durable\"",
            "\"volatile\"",
            Applies::Restart
        )
    );
    assert_eq!(
        changes(&format!("{a}{b}"), &format!("{b}{a}")),
        one("class", "\"a\", \"b\"", "\"b\", \"a\"", Applies::Restart)
    );
}

#[test]
fn a_running_process_adopts_what_needs_no_restart() {
    let running = resolved("server.shards = 3\nsys.interval = \"1s\"\n[[class]]\nfilter = \"a\"");
    let new = resolved("server.shards = 4\nsys.interval = \"2s\"\nmqtt.receive_maximum = 9");
    let adopted = running.adopted(&new);
    assert_eq!(adopted.settings.server.shards, 3);
    assert_eq!(adopted.settings.sys.interval.as_secs(), 2);
    assert_eq!(adopted.settings.mqtt.receive_maximum, 9);
    assert_eq!(adopted.settings.classes, running.settings.classes);
    let left: Vec<String> = adopted.changes(&new).into_iter().map(|it| it.key).collect();
    assert_eq!(left, ["server.shards", "class[\"a\"]"]);
    assert!(
        adopted
            .changes(&new)
            .iter()
            .all(|it| it.applies == Applies::Restart)
    );
    let origins = adopted.effective();
    let of = |key: &str| {
        origins
            .iter()
            .find(|it| it.key == key)
            .map(|it| it.origin.to_string())
    };
    assert_eq!(of("server.shards").as_deref(), Some("f:1:17"));
    assert_eq!(of("mqtt.receive_maximum").as_deref(), Some("f:3:24"));
}
