//! The setting that a fault is about.

use super::Sources;

fn keys(sources: Sources) -> Vec<Option<String>> {
    let errors = sources.check().expect_err("it is refused").0;
    errors.into_iter().map(|error| error.key).collect()
}

#[test]
fn each_fault_of_a_file_names_its_setting() {
    let door = "[[listener]]\nname = \"x\"\nunix = \"/x\"\n";
    for (text, expected) in [
        ("server.shard = 2", Some("server.shard")),
        ("[server]\nshards = \"x\"", Some("server.shards")),
        ("[nowhere]\nto = 1", Some("nowhere.to")),
        ("server = 1", Some("server")),
        ("nowhere = 1", Some("nowhere")),
        ("listener = 1", Some("listener")),
        ("include = \"x\"", Some("include")),
        (
            "mqtt.listen = \"${ENV:NOWHERE_AT_ALL}\"",
            Some("mqtt.listen"),
        ),
        (
            "mqtt.connect_bytes_max = \"2MiB\"",
            Some("mqtt.connect_bytes_max"),
        ),
        ("[[listener]]\nunix = \"/x\"", Some("listener.name")),
        ("server shards", None),
    ] {
        let found = keys(Sources::new().file("f", text));
        assert_eq!(found[0].as_deref(), expected, "{text}");
    }
    for (more, expected) in [
        ("unix_mode = \"999\"", "listener[\"x\"].unix_mode"),
        ("receive_maximum = 0", "listener[\"x\"].receive_maximum"),
        ("nothing = 0", "listener[\"x\"].nothing"),
        (door, "listener[\"x\"]"),
    ] {
        let found = keys(Sources::new().file("f", &format!("{door}{more}")));
        assert_eq!(found[0].as_deref(), Some(expected), "{more}");
    }
}

#[test]
fn so_does_each_of_arguments_and_the_environment() {
    let variable =
        |name: &str, value: &str| Sources::new().environment([(name.to_owned(), value.to_owned())]);
    for (sources, expected) in [
        (Sources::new().set("server.shard=2"), Some("server.shard")),
        (Sources::new().set("server.shards=x"), Some("server.shards")),
        (
            Sources::new().set("listener[x].path=/"),
            Some("listener[\"x\"].path"),
        ),
        (Sources::new().set("listener.path=/"), Some("listener.path")),
        (Sources::new().set("listener=1"), Some("listener")),
        (
            Sources::new().argument("--shards", "server.shards", "x"),
            Some("server.shards"),
        ),
        (Sources::new().set("nothing"), None),
        (
            variable("COURSER__SERVER__SHARDS", "x"),
            Some("server.shards"),
        ),
    ] {
        assert_eq!(keys(sources)[0].as_deref(), expected);
    }
}

/// It would be shown wherever the listener is meant, as in what a reload changes.
#[test]
fn i14_a_listener_whose_name_was_drawn_is_refused_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
    write("secret", "canary").expect("a file");
    let text = "[[listener]]\nname = \"${FILE:secret}\"\nunix = \"/x\"\n";
    write("courser.toml", text).expect("a file");
    let load = Sources::new().load("--config", &folder.path().join("courser.toml"));
    let said = load.check().expect_err("its name is drawn").to_string();
    let part = "found \"${FILE:secret}\"; expected a name that is written here";
    assert!(
        said.contains(part) && said.contains("courser.toml:2:8: "),
        "{said}"
    );
    assert!(!said.contains("canary"), "{said}");
}

/// The name of an item may be drawn from elsewhere, and be a secret.
#[test]
fn i14_a_key_shows_nothing_that_was_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
    write("secret", "canary").expect("a file");
    let text = "[[listener]]\nname = \"${FILE:secret}\"\nunix = 1\n";
    write("courser.toml", text).expect("a file");
    let load = || Sources::new().load("--config", &folder.path().join("courser.toml"));
    assert_eq!(keys(load()), [Some("listener.unix".to_owned())]);
    let one = "[[listener]]\nname = \"${FILE:secret}\"\n";
    for text in [
        one.to_owned(),
        format!("{one}unix = \"/x\"\n{one}unix = \"/y\"\n"),
    ] {
        write("courser.toml", &text).expect("a file");
        let errors = load()
            .check()
            .expect_err("it needs a place, and another name");
        let said = format!("{errors} {:?}", keys(load()));
        assert!(
            said.contains("${FILE:secret}") && !said.contains("canary"),
            "{said}"
        );
    }
}
