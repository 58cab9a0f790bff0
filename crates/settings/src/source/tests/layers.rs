//! Files, included files, the environment, arguments, and what texts draw from elsewhere.

use super::{Sources, refused};
use crate::Settings;
use crate::moved::{Fate, Moved};
use std::fs;
use std::path::Path;

fn load(folder: &Path) -> Result<Settings, String> {
    Sources::new()
        .load("--config", &folder.join("courser.toml"))
        .check()
        .map_err(|errors| {
            errors
                .to_string()
                .replace(&folder.display().to_string(), ".")
        })
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    folder
}

fn variables(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn default_then_file_then_environment_then_argument() {
    let file = "server.shards = 1\nmqtt.receive_maximum = 1\nmqtt.topic_alias_max = 1";
    let settings = Sources::new()
        .file("courser.toml", file)
        .environment(variables(&[
            ("COURSER__MQTT__RECEIVE_MAXIMUM", "2"),
            ("COURSER__MQTT__TOPIC_ALIAS_MAX", "2"),
            ("COURSER_MQTT__LISTEN", "not ours"),
            ("PATH", "not ours"),
        ]))
        .set("mqtt.topic_alias_max=3")
        .check()
        .expect("all is right");
    let mqtt = &settings.mqtt;
    assert_eq!(settings.server.shards, 1);
    assert_eq!((mqtt.receive_maximum, mqtt.topic_alias_max), (2, 3));
    assert_eq!(mqtt.topic_levels_max, 128);
}

#[test]
fn a_variable_gives_a_list_as_a_whole() {
    let settings = Sources::new()
        .file("courser.toml", "[[class]]\nfilter = \"a\"")
        .environment(variables(&[("COURSER__CLASS", "[{ filter = \"b\" }]")]))
        .check()
        .expect("all is right");
    assert_eq!(settings.classes.len(), 1);
    assert_eq!(settings.classes[0].filter.as_str(), "b");
}

#[test]
fn a_wrong_variable_is_named() {
    let check = |name: &str, value: &str, expected: &str| {
        let sources = Sources::new().environment(variables(&[(name, value)]));
        refused(
            sources.check().map_err(|errors| errors.to_string()),
            expected,
        );
    };
    check(
        "COURSER__SERVER__SHARD",
        "1",
        r#"COURSER__SERVER__SHARD: unknown key "server.shard"; did you mean "server.shards"?"#,
    );
    check(
        "COURSER__SERVER__SHARDS",
        "many",
        r#"COURSER__SERVER__SHARDS: server.shards: expected a whole number, found "many""#,
    );
    check(
        "COURSER__MQTT",
        "abc",
        r#"COURSER__MQTT: "mqtt" is a section: name a setting of it, such as "mqtt.listen""#,
    );
}

#[test]
fn a_file_wins_over_what_it_includes_wherever_it_says_so() {
    let folder = folder(&[
        (
            "courser.toml",
            "server.shards = 1\ninclude = [\"other.toml\", \"conf.d\"]\n",
        ),
        ("other.toml", "server.shards = 2\nmqtt.receive_maximum = 2"),
        ("conf.d/2.toml", "mqtt.topic_alias_max = 22"),
        (
            "conf.d/1.toml",
            "mqtt.receive_maximum = 3\nmqtt.topic_alias_max = 11",
        ),
        ("conf.d/1.toml.old", "nonsense"),
    ]);
    let settings = load(folder.path()).expect("all is right");
    let mqtt = &settings.mqtt;
    assert_eq!(settings.server.shards, 1);
    assert_eq!((mqtt.receive_maximum, mqtt.topic_alias_max), (3, 22));
}

#[test]
fn a_file_that_is_named_but_not_there_is_an_error() {
    let empty = folder(&[]);
    refused(
        load(empty.path()),
        "--config: cannot read ./courser.toml: No such file or directory (os error 2)",
    );
    let folder = folder(&[("courser.toml", "include = [\"a.toml\"]\n")]);
    refused(
        load(folder.path()),
        "./courser.toml:1:12: cannot read ./a.toml: No such file or directory (os error 2)",
    );
}

#[test]
fn a_file_that_is_no_text_is_told_by_its_place() {
    let empty = folder(&[("courser.toml", "include = \"a.toml\"\n")]);
    let path = empty.path().join("a.toml");
    std::fs::write(&path, b"[mqtt]\nqos_max = 1 # \xc3\xbc \xff\n").expect("it can be written");
    refused(load(empty.path()), "./a.toml:2:17: it is not valid UTF-8");
    std::fs::rename(&path, empty.path().join("courser.toml")).expect("it can be moved");
    refused(
        load(empty.path()),
        "./courser.toml:2:17: it is not valid UTF-8",
    );
}

#[test]
fn errors_of_an_included_file_have_its_name() {
    let folder = folder(&[
        ("courser.toml", "include = \"a.toml\"\n"),
        ("a.toml", "\nserver.shards = 900"),
    ]);
    refused(
        load(folder.path()),
        "./a.toml:2:17: server.shards: 900 is out of range; allowed: 0 to 256",
    );
}

#[test]
fn files_that_include_each_other_end() {
    let circle = folder(&[
        ("courser.toml", "include = [\"a.toml\"]"),
        ("a.toml", "include = [\"courser.toml\"]"),
    ]);
    refused(
        load(circle.path()),
        "./a.toml:1:12: ./courser.toml includes itself",
    );
    let winding = folder(&[
        ("courser.toml", "include = [\"in/../a.toml\"]"),
        ("a.toml", "include = [\"in/../courser.toml\"]"),
        ("in/other.toml", ""),
    ]);
    refused(
        load(winding.path()),
        "./in/../a.toml:1:12: ./in/../in/../courser.toml includes itself",
    );
    let names: Vec<String> = (0..20).map(|n| format!("{n}.toml")).collect();
    let deep = folder(&[("courser.toml", "include = [\"0.toml\"]")]);
    for (name, next) in names.iter().zip(&names[1..]) {
        let text = format!("include = [\"{next}\"]");
        fs::write(deep.path().join(name), text).expect("a file");
    }
    let error = load(deep.path()).expect_err("this is too deep");
    assert!(
        error.contains("at most 8 files include each other"),
        "{error}"
    );
}

#[test]
fn only_files_include_files() {
    let error = Sources::new().file("text", "include = [\"a\"]").check();
    refused(
        error.map_err(|errors| errors.to_string()),
        "text:1:11: only a file can include others",
    );
    let folder = folder(&[("courser.toml", "include = [1]\n")]);
    refused(
        load(folder.path()),
        "./courser.toml:1:12: expected a list of files, found a number",
    );
}

#[test]
fn texts_draw_from_files_and_the_environment() {
    let folder = folder(&[
        (
            "courser.toml",
            "mqtt.response_information = \"a/${FILE:secret/text}/$${b}\"\nmqtt.receive_maximum = \"${FILE:number}\"\ndata.path = \"${ENV:CARGO_MANIFEST_DIR}/data\"\n[[class]]\nfilter = \"${FILE:secret/text}\"",
        ),
        ("secret/text", "s3cret\n"),
        ("number", "77\n"),
    ]);
    let settings = load(folder.path()).expect("all is right");
    assert_eq!(settings.mqtt.response_information, "a/s3cret/${b}");
    assert_eq!(settings.mqtt.receive_maximum, 77);
    assert_eq!(
        settings.data.path,
        Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
    );
    assert_eq!(settings.classes[0].filter.as_str(), "s3cret");
}

#[test]
fn what_was_read_is_known() {
    let folder = folder(&[
        (
            "courser.toml",
            "include = [\"one.toml\", \"more\"]\nmqtt.response_information = \"${FILE:secret/text}\"\n",
        ),
        ("one.toml", "mqtt.receive_maximum = 7\n"),
        (
            "more/two.toml",
            "[[class]]\nfilter = \"${FILE:../secret/other}\"\n",
        ),
        ("secret/text", "x"),
        ("secret/other", "y"),
    ]);
    let file = folder.path().join("courser.toml");
    let sources = Sources::new().load("--config", &file);
    let resolved = sources.resolve().expect("all is right");
    let read = resolved.files.iter().map(|path| {
        let inside = path.strip_prefix(folder.path());
        inside.expect("it is in the folder").to_str().expect("text")
    });
    assert_eq!(
        read.collect::<Vec<_>>(),
        [
            "courser.toml",
            "one.toml",
            "more",
            "more/two.toml",
            "more/../secret/other",
            "secret/text",
        ]
    );
}

#[test]
fn what_was_drawn_is_never_shown() {
    let folder = folder(&[
        (
            "courser.toml",
            "mqtt.receive_maximum = \"${FILE:secret}\"\nmqtt.response_information = \"${FILE:secret}\"",
        ),
        ("secret", "s3cret"),
    ]);
    refused(
        load(folder.path()),
        "./courser.toml:1:24: mqtt.receive_maximum: expected a whole number, found \"${FILE:secret}\"",
    );
    fs::write(folder.path().join("secret"), "70000").expect("a file");
    let error = load(folder.path()).expect_err("out of range");
    assert!(
        error.ends_with("\"${FILE:secret}\" is out of range; allowed: 1 to 65535"),
        "{error}"
    );
}

#[test]
fn i14_a_path_is_not_what_is_in_a_file() {
    for key in ["tokens.secret_file", "data.path"] {
        let folder = folder(&[
            ("courser.toml", &format!("{key} = \"a/${{FILE:secret}}\"")),
            ("secret", "s3cret"),
        ]);
        let error = load(folder.path()).expect_err("a path is written as it is");
        let said = format!(
            "{key}: expected the path of the file, not what is in it: found \"a/${{FILE:secret}}\""
        );
        assert!(error.ends_with(&said), "{error}");
    }
}

#[test]
fn of_a_list_that_was_drawn_the_wrong_item_is_told_but_not_shown() {
    let folder = folder(&[
        ("courser.toml", "mqtt.listen = \"${FILE:secret}\""),
        ("secret", "[\"127.0.0.1:1\", \"127.0.0.1:2\"]"),
    ]);
    let settings = load(folder.path()).expect("a list in brackets");
    assert_eq!(settings.mqtt.listen.len(), 2);
    fs::write(folder.path().join("secret"), "127.0.0.1:1,s3cret").expect("a file");
    refused(
        load(folder.path()),
        "./courser.toml:1:15: mqtt.listen: item 2 of the list: expected an address such as \"127.0.0.1:1883\" or \
         \"[::1]:1883\", found \"${FILE:secret}\"",
    );
}

#[test]
fn what_cannot_be_drawn_is_an_error() {
    let check = |text: &str, expected: &str| {
        let file = format!("data.path = \"{text}\"");
        let result = Sources::new().file("f", &file).check();
        refused(result.map_err(|errors| errors.to_string()), expected);
    };
    check(
        "${ENV:COURSER_NO_SUCH}",
        "f:1:13: data.path: cannot read ${ENV:COURSER_NO_SUCH}: there is no such variable, or it is not UTF-8",
    );
    check(
        "${FILE:/no/such}",
        "f:1:13: data.path: cannot read ${FILE:/no/such}: No such file or directory (os error 2)",
    );
    check(
        "${HOME}",
        "f:1:13: data.path: \"${HOME}\" is neither ${ENV:NAME} nor ${FILE:PATH}",
    );
    check(
        "a${ENV:X",
        "f:1:13: data.path: \"${\" has no end; write \"$${\" for the two characters",
    );
}

const MOVED: &[Moved] = &[
    Moved {
        key: "mqtt.max_inflight",
        fate: Fate::Renamed("mqtt.receive_maximum"),
    },
    Moved {
        key: "mqtt.tcp_nodelay",
        fate: Fate::Removed("it is always on"),
    },
];

#[test]
fn a_renamed_key_works_and_warns() {
    let mut sources = Sources::new();
    sources.moved = MOVED;
    let resolved = sources
        .file("f", "[mqtt]\nmax_inflight = 9")
        .resolve()
        .expect("the old name works");
    assert_eq!(resolved.settings.mqtt.receive_maximum, 9);
    let warnings: Vec<String> = resolved.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            r#"f:2:1: "mqtt.max_inflight" is now "mqtt.receive_maximum"; the old name goes with the next major version"#
        ]
    );
}

#[test]
fn what_weakened_every_class_at_once_is_refused_with_what_to_write_instead() {
    for value in ["written", "synced"] {
        let sources = Sources::new().file("f", &format!("[log]\nacknowledge = \"{value}\""));
        let error = sources.check().expect_err("it is gone").to_string();
        let begin = "f:2:1: \"log.acknowledge\" is no longer a setting; messages are acknowledged once they are synced";
        assert!(error.starts_with(begin), "{error}");
        assert!(
            error.contains("[[class]]") && error.contains("\"relaxed\""),
            "{error}"
        );
    }
}

#[test]
fn a_removed_key_is_an_error_that_says_what_to_do() {
    let mut sources = Sources::new();
    sources.moved = MOVED;
    let result = sources.file("f", "mqtt.tcp_nodelay = true").check();
    refused(
        result.map_err(|errors| errors.to_string()),
        r#"f:1:6: "mqtt.tcp_nodelay" is no longer a setting; it is always on"#,
    );
}

#[test]
fn no_key_of_the_table_has_gone() {
    for moved in crate::moved::MOVED {
        assert!(
            crate::table()
                .iter()
                .all(|setting| setting.key != moved.key),
            "{}",
            moved.key
        );
    }
}
