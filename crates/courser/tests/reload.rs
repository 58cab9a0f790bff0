//! `courser config reload` and `courser client trace` on running servers: what is done, what is refused, and no server at all.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const COURSER: &str = env!("CARGO_BIN_EXE_courser");

/// A server with its settings and its data in `folder`, ready.
fn server(folder: &Path, settings: &str) -> Running {
    server_with(folder, settings, &["--mqtt", "127.0.0.1:0"])
}

/// The same with these flags.
fn server_with(folder: &Path, settings: &str, flags: &[&str]) -> Running {
    fs::create_dir(folder).expect("a new folder");
    fs::write(folder.join("courser.toml"), settings).expect("written");
    let log = fs::File::create(folder.join("server.log")).expect("a new file");
    let mut child = Command::new(COURSER)
        .args([
            "server",
            "--config",
            "courser.toml",
            "--http",
            "127.0.0.1:0",
        ])
        .args(["--set", "log.segment_bytes=1MiB"])
        .args(flags)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .expect("the program can be started");
    let output = child.stdout.take().expect("it was piped");
    let running = Running(child);
    let mut lines = BufReader::new(output).lines();
    let ready = lines.find(|line| line.as_ref().is_ok_and(|line| line == "ready"));
    assert!(ready.is_some(), "the server ends before it is ready");
    running
}

#[test]
fn settings_are_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let [good, wrong] = ["good", "wrong"].map(|name| folder.path().join(name));
    let _good = server(&good, "mqtt.receive_maximum = 16\n");
    let _wrong = server(&wrong, "");
    let changed = "mqtt.receive_maximum = 32\nserver.pin_shards = true\nlog.level = \"debug\"\n";
    fs::write(good.join("courser.toml"), changed).expect("written");
    fs::write(
        wrong.join("courser.toml"),
        "mqtt.receive_maximum = 0\nnope = 1\n",
    )
    .expect("written");
    let home = folder.path().join("config").display().to_string();
    for (name, place) in [("good", good.join("data")), ("wrong", wrong.join("data"))] {
        let added = Command::new(COURSER)
            .args(["context", "add", name, "--server"])
            .arg(place)
            .env("XDG_CONFIG_HOME", &home)
            .status()
            .expect("it runs");
        assert!(added.success(), "{name} has a name");
    }
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reload/reload.trycmd");
    let copy = folder.path().join("reload.trycmd");
    fs::copy(case, &copy).expect("copied");
    let tests = trycmd::TestCases::new();
    tests.register_bin("courser", Path::new(COURSER));
    tests.env("XDG_CONFIG_HOME", home);
    tests.case(copy.to_str().expect("a path of text"));
    tests.run();
}

/// What a setting draws from a file is in no answer about settings, nor in what is given to somebody who helps.
#[test]
fn what_settings_draw_from_elsewhere_is_never_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    fs::write(&secret, "canary.example").expect("written");
    let place = folder.path().join("drawn");
    let drawn = format!("mqtt.redirect_to = \"${{FILE:{}}}\"\n", secret.display());
    let _server = server(&place, &drawn);
    let data = place.join("data");
    for words in [
        &["config", "show", "--origin"][..],
        &["config", "show", "-o", "json"],
        &["config", "diff"],
        &["config", "diff", "-o", "json"],
        &["diagnose", "-", "--with-names"],
        &["diagnose", "-"],
    ] {
        let done = Command::new(COURSER)
            .args(words)
            .arg("--server")
            .arg(&data)
            .output()
            .expect("it runs");
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(done.status.success(), "{words:?}: {said}");
        assert!(said.contains("${FILE:"), "{words:?}: {said}");
        assert!(!said.contains("canary"), "{words:?}: {said}");
    }
}

/// What a start would refuse is refused by a reload, the whole of it, also where it counts after a restart only: nobody learns that then.
#[test]
fn a_reload_refuses_what_could_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("strict");
    let running = server(&place, "");
    let file = place.join("courser.toml");
    let reload = || {
        let mut command = Command::new(COURSER);
        let command = command.args(["config", "reload", "--server"]);
        let done = command.arg(place.join("data")).output().expect("it runs");
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (done.status.code(), said)
    };
    let changed = "mqtt.receive_maximum = 7\n";
    for (wrong, says) in [
        (
            "[[listener]]\nname = \"new\"\nprotocol = \"mqtts\"\naddress = [\"127.0.0.1:28999\"]\ncertificate = \"nope.pem\"\n\
             key = \"nope.key\"\nauthentication = \"accounts\"\n",
            "nope.pem",
        ),
        (
            "[[listener]]\nname = \"new\"\naddress = [\"0.0.0.0:28998\"]\nauthentication = \"none\"\n",
            "0.0.0.0:28998 can be reached from other machines",
        ),
        (
            "[http]\ntoken_file = \"nowhere/token\"\n",
            "there is no folder nowhere",
        ),
    ] {
        fs::write(&file, format!("{changed}{wrong}")).expect("written");
        let (code, said) = reload();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("courser.toml:"), "with its place: {said}");
        assert!(said.contains(says), "{said}");
        assert!(said.contains("nothing has changed"), "{said}");
    }
    // What is not read counts neither.
    fs::write(&file, changed).expect("written");
    let (code, said) = reload();
    assert_eq!(code, Some(0), "{said}");
    let applied = "applied: mqtt.receive_maximum: 1024 -> 7 (new connections)";
    assert!(said.contains(applied), "nothing of it counted: {said}");
    fs::write(
        &file,
        "mqtt.receive_maximum = 8\n[[listener]]\nname = \"new\"\naddress = [\"0.0.0.0:28998\"]\n",
    )
    .expect("written");
    let log = || fs::read_to_string(place.join("server.log")).expect("a log");
    let refused = || log().matches("settings not reloaded").count();
    let before = refused();
    let signal = Command::new("kill")
        .args(["-HUP", &running.0.id().to_string()])
        .status();
    assert!(signal.expect("it runs").success());
    let until = Instant::now() + Duration::from_secs(20);
    while refused() == before {
        assert!(Instant::now() < until, "{}", log());
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!log().contains("7 -> 8"), "{}", log());
}

/// `mqtt.listen` of the file, where no flag says another: a public one without a login.
#[test]
fn a_reload_refuses_a_public_address_where_nobody_logs_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("public");
    let settings = "mqtt.listen = [\"127.0.0.1:0\"]\n";
    let _running = server_with(&place, settings, &[]);
    let public = "mqtt.listen = [\"0.0.0.0:0\"]\nmqtt.authentication = \"none\"\n";
    fs::write(place.join("courser.toml"), public).expect("written");
    let done = Command::new(COURSER)
        .args(["config", "reload", "--server"])
        .arg(place.join("data"))
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    let says = "0.0.0.0:0 can be reached from other machines, and nobody has to log in";
    assert!(said.contains(says), "{said}");
}
/// A process that is confined to its own files may not open those of a new listener: it is no fault, for the next start may.
#[test]
fn a_new_listener_may_have_its_files_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("confined");
    let elsewhere = folder.path().join("tls").display().to_string();
    for words in [&["new-ca"][..], &["new-cert", "localhost"]] {
        let mut command = Command::new(COURSER);
        let command = command
            .arg("tls")
            .args(words)
            .args(["--folder", &elsewhere]);
        let done = command.output().expect("it runs");
        assert!(done.status.success(), "{words:?}");
    }
    let _running = server(&place, "");
    let settings = format!(
        "[[listener]]\nname = \"new\"\nprotocol = \"mqtts\"\naddress = [\"127.0.0.1:28997\"]\n\
         certificate = \"{elsewhere}/localhost.pem\"\nkey = \"{elsewhere}/localhost.key\"\n"
    );
    fs::write(place.join("courser.toml"), settings).expect("written");
    let done = Command::new(COURSER)
        .args(["config", "reload", "--server"])
        .arg(place.join("data"))
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{done:?}");
    assert!(said.contains("listener \"new\" is new (restart)"), "{said}");
}
