mod keys;
mod layers;

use super::Sources;
use crate::value::{ByteSize, Overflow, SharedStrategy};
use crate::{Settings, table};
use proptest::prelude::*;
use std::path::Path;
use std::time::Duration;

fn file(text: &str) -> Result<Settings, String> {
    Sources::new()
        .file("courser.toml", text)
        .check()
        .map_err(|errors| errors.to_string())
}

fn set(argument: &str) -> Result<Settings, String> {
    Sources::new()
        .set(argument)
        .check()
        .map_err(|errors| errors.to_string())
}

fn refused(result: Result<Settings, String>, expected: &str) {
    assert_eq!(result.expect_err("this is refused"), expected);
}

#[test]
fn nothing_said_gives_the_defaults() {
    let settings = file("").expect("an empty file is right");
    assert_eq!(settings, Settings::default());
    assert_eq!(settings.mqtt.packet_bytes_max, ByteSize::mib(1));
    assert_eq!(
        settings.mqtt.session_expiry_max,
        Duration::from_secs(7 * 86_400)
    );
    assert!(
        settings
            .mqtt
            .listen
            .iter()
            .all(|address| address.ip().is_loopback() && address.port() == 1883)
    );
    assert_eq!(settings.mqtt.listen.len(), 2);
}

/// Each default is written as the parser reads it, so the reference page can be copied from.
#[test]
fn every_default_can_be_written_in_a_file() {
    for setting in table() {
        let default = setting.default.expect("a setting of a section has one");
        if default.is_empty() {
            continue;
        }
        let text = format!("{} = {default}", setting.key);
        assert_eq!(file(&text), Ok(Settings::default()), "{text}");
    }
}

#[test]
fn both_ends_of_every_range_are_allowed_and_no_more() {
    for setting in table() {
        let Some((least, most)) = setting.range else {
            continue;
        };
        for end in [&least, &most] {
            let result = Sources::new()
                .set("mqtt.packet_bytes_max=268435455")
                .set("mqtt.connect_bytes_max=1MiB");
            let text = format!("{} = {end}", setting.key);
            match result.file("courser.toml", &text).check() {
                Ok(_) => {}
                Err(errors) => assert!(
                    !errors.to_string().contains("out of range"),
                    "{text}: {errors}"
                ),
            }
        }
        let beyond = beyond(&most);
        let error = file(&format!("{} = {beyond}", setting.key)).expect_err("beyond the range");
        assert!(
            error.ends_with(&format!("is out of range; allowed: {least} to {most}")),
            "{error}"
        );
    }
}

/// A value of the same kind above any range of the table.
fn beyond(most: &str) -> &'static str {
    match most.trim_end_matches('"').chars().next_back() {
        Some('B') => "\"2000TiB\"",
        Some('d' | 'h' | 'm' | 's') => "\"50000d\"",
        _ => "9223372036854775807",
    }
}

/// What is in a file is what an error shows, also where no number of the program is as large.
#[test]
fn a_number_beyond_all_is_shown_as_it_was_written() {
    for (written, shown) in [
        ("99999999999999999999999", "99999999999999999999999"),
        ("9223372036854775808", "9223372036854775808"),
        ("-99999999999999999999999", "-99999999999999999999999"),
    ] {
        for (key, allowed) in [
            ("mqtt.receive_maximum", "1 to 65535"),
            ("mqtt.packet_bytes_max", "\"1KiB\" to \"268435455B\""),
        ] {
            let error = file(&format!("{key} = {written}")).expect_err("beyond the range");
            let expected = format!("{key}: {shown} is out of range; allowed: {allowed}");
            assert!(error.ends_with(&expected), "{error}");
        }
        let error = file(&format!("mqtt.pin = {written}")).expect_err("no key");
        assert!(error.contains("unknown key"), "{error}");
        let error = file(&format!("data.path = {written}")).expect_err("no text");
        assert!(error.ends_with(&format!("found {shown}")), "{error}");
    }
}

#[test]
fn every_kind_is_read() {
    let settings = file(
        r#"
        server.pin_shards = true
        data.path = "/var/lib/courser"
        [mqtt]
        listen = ["0.0.0.0:1884"]
        topic_alias_max = 0x10
        connect_timeout = "1m30s"
        output_bytes_max = 131072
        shared_strategy = "hash_topic"
        [session]
        queue_bytes_max = "1GiB"
        overflow = "refuse"
        "#,
    )
    .expect("all of it is right");
    assert!(settings.server.pin_shards);
    assert_eq!(settings.data.path, Path::new("/var/lib/courser"));
    assert_eq!(
        settings.mqtt.listen,
        ["0.0.0.0:1884".parse().expect("an address")]
    );
    assert_eq!(settings.mqtt.topic_alias_max, 16);
    assert_eq!(settings.mqtt.connect_timeout, Duration::from_secs(90));
    assert_eq!(settings.mqtt.output_bytes_max, ByteSize::kib(128));
    assert_eq!(settings.mqtt.shared_strategy, SharedStrategy::HashTopic);
    assert_eq!(settings.session.queue_bytes_max, ByteSize::gib(1));
    assert_eq!(settings.session.overflow, Overflow::RefusePublisher);
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_what_may_be_meant() {
    let check = |text: &str, expected: &str| refused(file(text), expected);
    check(
        "[mqtt]\n\n  reciev_maximum = 5",
        r#"courser.toml:3:3: unknown key "mqtt.reciev_maximum"; did you mean "mqtt.receive_maximum"?"#,
    );
    check(
        "mqtt.queue_messages_max = 5",
        r#"courser.toml:1:6: unknown key "mqtt.queue_messages_max"; did you mean "session.queue_messages_max"?"#,
    );
    check(
        "packet_bytes_max = 5",
        r#"courser.toml:1:1: unknown key "packet_bytes_max"; did you mean "mqtt.packet_bytes_max"?"#,
    );
    check(
        "[mqqt]\nlisten = []",
        r#"courser.toml:2:1: unknown key "mqqt.listen"; did you mean "mqtt.listen"?"#,
    );
    check(
        "[cluster]\nseed_nodes = []",
        r#"courser.toml:2:1: unknown key "cluster.seed_nodes""#,
    );
    check("[cluster]", r#"courser.toml:1:2: unknown key "cluster""#);
    check(
        "mqtt = 5",
        r#"courser.toml:1:1: "mqtt" is a section; write its settings as [mqtt] or mqtt.NAME = VALUE"#,
    );
}

/// It was called out of range, with its control characters as they are.
#[test]
fn what_is_no_number_is_not_shown_as_one() {
    for text in ["_maximum^\u{7}", "_\u{7}aximum`a", "11_\0\0"] {
        let said = file(&format!("[server]\nshards = {text}")).expect_err("it is no number");
        assert!(!said.contains("out of range"), "{said}");
        let is_shown = |it: char| it.is_control() && it != '\n';
        assert!(!said.contains(is_shown), "{said:?}");
    }
}

#[test]
fn a_wrong_value_is_named_with_what_would_be_right() {
    let check = |text: &str, expected: &str| refused(file(text), expected);
    check(
        "[mqtt]\npacket_bytes_max = \"9TiB\"",
        r#"courser.toml:2:20: mqtt.packet_bytes_max: "9TiB" is out of range; allowed: "1KiB" to "268435455B""#,
    );
    check(
        "mqtt.receive_maximum = 0",
        "courser.toml:1:24: mqtt.receive_maximum: 0 is out of range; allowed: 1 to 65535",
    );
    check(
        "mqtt.receive_maximum = 70000",
        "courser.toml:1:24: mqtt.receive_maximum: 70000 is out of range; allowed: 1 to 65535",
    );
    check(
        "mqtt.receive_maximum = -99999999999999999999",
        "courser.toml:1:24: mqtt.receive_maximum: -99999999999999999999 is out of range; allowed: 1 to 65535",
    );
    check(
        "sys.interval = 10",
        r#"courser.toml:1:16: sys.interval: expected a duration such as "30s", "250ms" or "1h30m", found 10"#,
    );
    check(
        "session.overflow = \"block\"",
        r#"courser.toml:1:20: session.overflow: expected one of "drop_newest" "drop_oldest" "refuse", found "block""#,
    );
    check(
        "mqtt.authentication = \"acounts\"",
        r#"courser.toml:1:23: mqtt.authentication: expected one of "none" "accounts" "tokens", found "acounts"; did you mean "accounts"?"#,
    );
    check(
        "log.level = \"inof\"",
        r#"courser.toml:1:13: log.level: expected one of "error" "warn" "info" "debug", found "inof"; did you mean "info"?"#,
    );
    check(
        "server.pin_shards = { a = 1 }",
        "courser.toml:1:21: server.pin_shards: expected true or false, found a table",
    );
    check(
        "data.path = \"\"",
        r#"courser.toml:1:13: data.path: expected a path, found """#,
    );
}

#[test]
fn all_errors_are_told_at_once_in_the_order_of_their_places() {
    let error = file("[sys]\ninterval = 1\n[mqtt]\nlisten = 1\nfoo = 1\n")
        .expect_err("three things are wrong");
    let places: Vec<&str> = error
        .lines()
        .map(|line| line.split(": ").next().expect("a place"))
        .collect();
    assert_eq!(
        places,
        ["courser.toml:2:12", "courser.toml:4:10", "courser.toml:5:1"]
    );
}

#[test]
fn text_that_is_not_toml_is_named_with_its_place() {
    for (text, place) in [
        ("[mqtt\n", "courser.toml:1:"),
        ("[mqtt]\nlisten = \n", "courser.toml:2:"),
        (
            "mqtt.receive_maximum = 1\nmqtt.receive_maximum = 2\n",
            "courser.toml:2:6: ",
        ),
    ] {
        let error = file(text).expect_err("this is not TOML");
        assert!(error.starts_with(place), "{text:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{text:?}: {error}");
    }
}

#[test]
fn columns_count_characters() {
    refused(
        file("data = { \"größe\" = 1, x = 2 }"),
        "courser.toml:1:10: unknown key \"data.größe\"\ncourser.toml:1:23: unknown key \"data.x\"",
    );
}

#[test]
fn a_file_cannot_write_lines_of_its_own_into_the_log() {
    let error = file("mqtt.\"a\\nFATAL b\" = 1\nsession.overflow = \"x\\u001b[31m\"")
        .expect_err("both are wrong");
    assert_eq!(error.lines().count(), 2, "{error}");
    assert!(
        error.chars().all(|c| c == '\n' || !c.is_control()),
        "{error:?}"
    );
}

#[test]
fn set_takes_text_without_quotes() {
    assert_eq!(
        set("mqtt.packet_bytes_max=2MiB")
            .expect("a size")
            .mqtt
            .packet_bytes_max,
        ByteSize::mib(2)
    );
    assert_eq!(
        set("mqtt.packet_bytes_max = \"2MiB\"")
            .expect("quoted")
            .mqtt
            .packet_bytes_max,
        ByteSize::mib(2)
    );
    assert_eq!(set("server.shards=3").expect("a number").server.shards, 3);
    assert_eq!(
        set("data.path=2026").expect("a path").data.path,
        Path::new("2026")
    );
    assert_eq!(
        set("data.path=/a=b").expect("a path").data.path,
        Path::new("/a=b")
    );
    assert_eq!(
        set("mqtt.listen=127.0.0.1:1,[::1]:2")
            .expect("a list")
            .mqtt
            .listen
            .len(),
        2
    );
    assert_eq!(
        set("mqtt.listen=[\"127.0.0.1:1\"]")
            .expect("a list")
            .mqtt
            .listen
            .len(),
        1
    );
    assert!(
        set("mqtt.listen=")
            .expect("an empty list")
            .mqtt
            .listen
            .is_empty()
    );
}

#[test]
fn set_errors_name_their_origin() {
    refused(
        set("server.shards"),
        r#"--set: expected KEY=VALUE, found "server.shards""#,
    );
    refused(
        set("server.shard=1"),
        r#"--set: unknown key "server.shard"; did you mean "server.shards"?"#,
    );
    refused(
        set("server.shards=900"),
        "--set: server.shards: 900 is out of range; allowed: 0 to 256",
    );
    refused(
        set("server.shards=many"),
        r#"--set: server.shards: expected a whole number, found "many""#,
    );
}

#[test]
fn a_flag_of_its_own_is_named_in_its_errors() {
    let shards = |value: &str| {
        Sources::new()
            .argument("--shards", "server.shards", value)
            .check()
    };
    assert_eq!(shards("4").expect("a number").server.shards, 4);
    let error = shards("900").expect_err("too many").to_string();
    assert_eq!(
        error,
        "--shards: server.shards: 900 is out of range; allowed: 0 to 256"
    );
}

#[test]
fn later_sources_win() {
    let settings = Sources::new()
        .file("courser.toml", "server.shards = 1")
        .set("server.shards=2")
        .set("server.shards=3")
        .check()
        .expect("all are right");
    assert_eq!(settings.server.shards, 3);
}

#[test]
fn values_that_contradict_each_other_are_refused_where_they_were_set() {
    refused(
        file(
            "[mqtt]\npacket_bytes_max = \"2KiB\"\ntopic_bytes_max = 3000\nconnect_bytes_max = \"1KiB\"",
        ),
        r#"courser.toml:3:19: mqtt.topic_bytes_max = "3000B" is more than mqtt.packet_bytes_max = "2KiB""#,
    );
    refused(
        set("mqtt.connect_bytes_max=512"),
        r#"--set: mqtt.client_id_bytes_max = "1KiB" is more than mqtt.connect_bytes_max = "512B""#,
    );
    refused(
        set("mqtt.listen=[::1]:1,[::1]:1"),
        "--set: mqtt.listen: names [::1]:1 twice",
    );
    assert!(
        set("mqtt.listen=[::1]:0,[::1]:0").is_ok(),
        "port 0 is any free port"
    );
}

mod items {
    use super::{Sources, file, refused, set};
    use crate::value::Durability;

    #[test]
    fn are_read_in_order() {
        let settings =
            file("[[class]]\nfilter = \"a/#\"\nclass = \"relaxed\"\n\n[[class]]\nfilter = \"#\"\n")
                .expect("both are right");
        let classes: Vec<(&str, Durability)> = settings
            .classes
            .iter()
            .map(|class| (class.filter.as_str(), class.class))
            .collect();
        assert_eq!(
            classes,
            [("a/#", Durability::Relaxed), ("#", Durability::Durable)]
        );
    }

    #[test]
    fn of_two_files_are_joined_and_those_of_an_argument_stand_alone() {
        let files = || {
            Sources::new()
                .file("one.toml", "[[class]]\nfilter = \"a\"")
                .file("two.toml", "[[class]]\nfilter = \"b\"")
        };
        let filters = |sources: Sources| -> Vec<String> {
            let settings = sources.check().expect("all is right");
            let filters = settings.classes.iter().map(|class| class.filter.as_str());
            filters.map(str::to_owned).collect()
        };
        assert_eq!(filters(files()), ["a", "b"]);
        assert_eq!(filters(files().set("class=[{filter=\"b\"}]")), ["b"]);
        assert!(filters(files().set("class=[]")).is_empty());
    }

    #[test]
    fn with_faults_are_named_with_their_places() {
        let check = |text: &str, expected: &str| refused(file(text), expected);
        check(
            "\n[[class]]\nclass = \"durable\"",
            r#"courser.toml:2:1: [[class]] needs "filter""#,
        );
        check(
            "[[class]]\nfilter = \"a\"\n[[class]]\nclass = \"durable\"",
            r#"courser.toml:3:1: [[class]] needs "filter""#,
        );
        check(
            "[[class]]\nfilter = \"a\"\n clas = \"durable\"",
            r#"courser.toml:3:2: unknown key "class.clas"; did you mean "class.class"?"#,
        );
        check(
            "[[class]]\nfilter = \"a#\"",
            r##"courser.toml:2:10: class.filter: expected a topic filter such as "a/+/b" or "a/#", found "a#""##,
        );
        check(
            "[[class]]\nfilter = \"a\"\nclass = \"safe\"",
            r#"courser.toml:3:9: class.class: expected one of "durable" "relaxed" "volatile", found "safe""#,
        );
        check(
            "[[class]]\nfilter = \"a\"\n[[class]]\nfilter = \"a\"",
            r#"courser.toml:4:10: there are two [[class]] with filter = "a"; the other one: courser.toml:1:1"#,
        );
        check(
            "[[clas]]\nfilter = \"a\"",
            r#"courser.toml:1:3: unknown key "clas"; did you mean "class"?"#,
        );
        for text in ["class = 5", "class = [5]", "[class]\nfilter = \"a\""] {
            let error = file(text).expect_err("this is no list of tables");
            assert!(
                error.ends_with(
                    r#""class" is a list of tables; write each as [[class]], or all as class = [{ … }, { … }]"#
                ),
                "{error}"
            );
        }
        refused(
            set("class=[{filter=\"\"}]"),
            r##"--set: class.filter: expected a topic filter such as "a/+/b" or "a/#", found """##,
        );
    }

    #[test]
    fn can_be_changed_one_by_one_after_the_file() {
        let sources = || {
            Sources::new().file(
                "courser.toml",
                "[[listener]]\nname = \"a\"\nunix = \"/a\"\n[[listener]]\nname = \"b.=]c\"\nunix = \"/b\"\n",
            )
        };
        let resolved = sources()
            .set("listener[\"a\"].unix_mode=600")
            .set("listener[b.=]c].handshake_timeout = 1s")
            .resolve()
            .expect("both are right");
        let doors = &resolved.settings.doors;
        assert_eq!(doors[0].unix_mode, "600");
        assert_eq!(
            doors[1].handshake_timeout,
            std::time::Duration::from_secs(1)
        );
        let origin = |key: &str| resolved.origin(key).to_string();
        assert_eq!(origin("listener[\"a\"].unix_mode"), "--set");
        assert_eq!(origin("listener[\"a\"].unix"), "courser.toml:3:8");
        let check = |argument: &str, expected: &str| {
            let result = sources().set(argument).check();
            refused(result.map_err(|errors| errors.to_string()), expected);
        };
        check("listener[c].unix=/c", r#"--set: there is no listener["c"]"#);
        check(
            "listener[a].unix_mod=/c",
            r#"--set: unknown key "listener.unix_mod"; did you mean "listener.unix_mode"?"#,
        );
        check(
            "listener[a].name=c",
            r#"--set: listener["a"].name: it tells the items apart; another one is another item"#,
        );
        check(
            "listener[a].protocol=mqt",
            r#"--set: listener["a"].protocol: expected one of "mqtt" "mqtts" "ws" "wss", found "mqt"; did you mean "mqtt"?"#,
        );
        check(
            "listener[a].unix_mode=999",
            r#"--set: listener["a"].unix_mode: expected three octal digits such as "660", found "999""#,
        );
    }

    /// It was proposed to write "listener.path" where "listener.path" stood.
    #[test]
    fn without_a_name_are_told_how_they_are_named() {
        refused(
            set("listener.path=/x"),
            r#"--set: "listener" is a list: name one of its items by its name, as listener[NAME].path, or all as listener = [{ … }, { … }]"#,
        );
        let variable = [("COURSER__CLASS__FILTER".to_owned(), "#".to_owned())];
        let result = Sources::new().environment(variable).check();
        refused(
            result.map_err(|errors| errors.to_string()),
            r#"COURSER__CLASS__FILTER: "class" is a list: write each item in the file, where a value may be drawn by ${ENV:NAME}, or all as class = [{ … }, { … }] in COURSER__CLASS"#,
        );
        let error =
            set("class=[{ filter=\"a\" class=\"relaxed\" }]").expect_err("a comma is missing");
        let begin = r#"--set: class: expected [{ … }, { … }], found "[{ filter=\"a\" class=\"relaxed\" }]": "#;
        assert!(
            error.starts_with(begin) && error.len() > begin.len(),
            "{error}"
        );
    }

    #[test]
    fn are_bounded() {
        let text = |count: usize| -> String {
            (0..count)
                .map(|n| format!("[[class]]\nfilter = \"{n}\"\n"))
                .collect()
        };
        assert!(file(&text(1_024)).is_ok());
        let error = file(&text(1_025)).expect_err("one too many");
        assert_eq!(
            error,
            "courser.toml:2049:1: there may be at most 1024 [[class]]"
        );
    }
}

proptest! {
    #[test]
    fn no_text_panics(text: String) {
        let _ = file(&text);
        let _ = set(&text);
    }

    #[test]
    fn no_toml_like_text_panics(text in r#"(\[?(mqtt|sys|x)\]?[.\n ]?(listen|interval|"é\\n")? ?=? ?("?[0-9a-zé]*"?|\[|\{|[0-9.:-]*)\n?){0,6}"#) {
        let _ = file(&text);
    }
}

#[test]
fn a_key_that_stands_twice_is_named() {
    refused(
        file("[mqtt]\nqos_max = 1\nqos_max = 2\n"),
        "courser.toml:3:1: duplicate key qos_max",
    );
}

#[test]
fn a_table_that_is_nested_too_deep_is_told_where_it_is() {
    for nested in [
        "a".to_owned() + &".a".repeat(3000) + " = 1",
        "[a".to_owned() + &".a".repeat(3000) + "]",
    ] {
        let told = file(&format!("[mqtt]\nqos_max = 1 # \u{fc}\n{nested}\n[sys]\n"));
        let told = told.expect_err("it is refused");
        let first = told.lines().next().unwrap_or_default();
        assert!(first.starts_with("courser.toml:3:"), "{told}");
        assert!(first.ends_with("recursion limit"), "{told}");
    }
}

#[test]
fn the_name_of_a_file_that_is_not_there_moves_no_cursor() {
    let result = Sources::new()
        .load("--config", Path::new("no\u{1b}[31m.toml"))
        .check();
    let message = result.expect_err("it is not there").to_string();
    assert!(
        message.contains("cannot read no\\u{1b}[31m.toml"),
        "{message:?}"
    );
}
