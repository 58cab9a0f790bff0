use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use std::thread;

use courser_settings::Sources;

use super::*;

/// What a thread that is confined to these files says; none: this kernel cannot do it.
fn confined(files: Files, tried: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(move || match enforce(&files).expect("rules") {
        Confined::To { .. } => tried(),
        Confined::Unknown => eprintln!("not tried: this kernel has no Landlock"),
        Confined::Off => unreachable!("nobody has said so"),
    });
    thread.join().expect("it does not panic");
}

fn refused<T: std::fmt::Debug>(what: &str, result: io::Result<T>) {
    let kind = result.expect_err(what).kind();
    // To another folder a file cannot be moved, since rights may differ there.
    let expected = [ErrorKind::PermissionDenied, ErrorKind::CrossesDevices];
    assert!(expected.contains(&kind), "{what}: {kind}");
}

#[test]
fn nothing_elsewhere_is_opened_made_moved_or_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, elsewhere) = (folder.path().join("data"), folder.path().join("elsewhere"));
    for folder in [&data, &elsewhere] {
        fs::create_dir(folder).expect("made");
        fs::write(folder.join("old"), "old").expect("written");
    }
    let files = Files {
        own: vec![data.clone()],
        ..Files::default()
    };
    let other = elsewhere.clone();
    confined(files, move || {
        let path = |name: &str| data.join(name);
        fs::create_dir(path("in")).expect("a folder");
        fs::write(path("new"), "new").expect("written");
        fs::rename(path("new"), path("in/moved")).expect("moved");
        assert_eq!(fs::read(path("in/moved")).expect("read"), b"new");
        fs::remove_file(path("in/moved")).expect("removed");
        drop(UnixListener::bind(path("socket")).expect("a socket"));
        refused("read", fs::read(other.join("old")));
        refused("list", fs::read_dir(&other));
        refused("make", fs::write(other.join("new"), "new"));
        refused("change", fs::write(other.join("old"), "new"));
        refused("remove", fs::remove_file(other.join("old")));
        refused("folder", fs::create_dir(other.join("folder")));
        refused("socket", UnixListener::bind(other.join("socket")));
        refused("move out", fs::rename(path("old"), other.join("moved")));
        refused("move in", fs::rename(other.join("old"), path("moved")));
        symlink(other.join("old"), path("link")).expect("a link");
        refused("by a link", fs::read(path("link")));
        refused("/etc", fs::read("/etc/passwd"));
    });
    fs::write(elsewhere.join("new"), "new").expect("this thread is free");
    assert_eq!(fs::read(elsewhere.join("old")).expect("read"), b"old");
}

#[test]
fn what_is_read_again_may_be_replaced_and_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (live, archive) = (folder.path().join("live"), folder.path().join("archive"));
    for folder in [&live, &archive] {
        fs::create_dir(folder).expect("made");
    }
    fs::write(archive.join("1.pem"), "one").expect("written");
    symlink("../archive/1.pem", live.join("chain.pem")).expect("a link");
    let mut files = Files::default();
    files.add_again(&live.join("chain.pem"));
    let (has_read, reads) = mpsc::channel();
    let (replaces, replaced) = mpsc::channel();
    let link = live.join("chain.pem");
    let of_thread = link.clone();
    let thread = thread::spawn(move || {
        confined(files, move || {
            assert_eq!(fs::read(&of_thread).expect("read"), b"one");
            has_read.send(()).expect("somebody waits");
            let () = replaced.recv().expect("it was replaced");
            assert_eq!(fs::read(&of_thread).expect("read"), b"two");
            refused("change", fs::write(&of_thread, "three"));
            refused("list", fs::read_dir(of_thread.parent().expect("a folder")));
        });
    });
    // Where the kernel has none of it nobody reads or waits.
    let _ = reads.recv();
    fs::write(archive.join("2.pem"), "two").expect("written");
    symlink("../archive/2.pem", live.join("new.pem")).expect("a link");
    fs::rename(live.join("new.pem"), &link).expect("replaced");
    let _ = replaces.send(());
    thread.join().expect("it does not panic");
}

/// Who renews certificates may make a folder anew, or lead a link to it elsewhere.
#[test]
fn the_folder_of_what_is_read_again_may_be_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join("certificates").join(name);
    for name in ["live", "1"] {
        fs::create_dir_all(path(name)).expect("made");
        fs::write(path(name).join("chain.pem"), "one").expect("written");
    }
    fs::write(folder.path().join("other"), "other").expect("written");
    symlink("1", path("linked")).expect("a link");
    let names = ["live", "linked"].map(|name| path(name).join("chain.pem"));
    let mut files = Files::default();
    for name in &names {
        files.add_again(name);
        files.add_around(name);
    }
    let (has_read, reads) = mpsc::channel();
    let (replaces, replaced) = mpsc::channel();
    let other = folder.path().join("other");
    let of_thread = names.clone();
    let thread = thread::spawn(move || {
        confined(files, move || {
            has_read.send(()).expect("somebody waits");
            let () = replaced.recv().expect("they were replaced");
            for name in of_thread {
                assert_eq!(fs::read(&name).expect("read"), b"two", "{name:?}");
                refused("change", fs::write(&name, "three"));
            }
            refused("further up", fs::read(other));
        });
    });
    let _ = reads.recv();
    fs::rename(path("live"), path("old")).expect("moved");
    for name in ["live", "2"] {
        fs::create_dir(path(name)).expect("made");
        fs::write(path(name).join("chain.pem"), "two").expect("written");
    }
    symlink("2", path("new")).expect("a link");
    fs::rename(path("new"), path("linked")).expect("replaced");
    let _ = replaces.send(());
    thread.join().expect("it does not panic");
}

#[test]
fn a_folder_that_is_for_more_than_certificates_is_not_opened_for_them() {
    let around = |path: &str| {
        let mut files = Files::default();
        files.add_around(Path::new(path));
        files.read
    };
    assert_eq!(
        around("/srv/broker/tls/chain.pem"),
        [Path::new("/srv/broker")]
    );
    for path in [
        "/chain.pem",
        "/srv/chain.pem",
        "/srv/tls/chain.pem",
        "/home/me/tls/chain.pem",
    ] {
        assert_eq!(around(path), Vec::<PathBuf>::new(), "{path}");
    }
    if let Some(home) = std::env::var_os("HOME") {
        let path = Path::new(&home).join("tls/chain.pem");
        assert!(is_shared(Path::new(&home)), "{path:?}");
    }
}

#[test]
fn a_folder_is_opened_for_what_is_made_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (token, socket) = (folder.path().join("token"), folder.path().join("socket"));
    for folder in [&token, &socket] {
        fs::create_dir(folder).expect("made");
    }
    let files = Files {
        made: vec![token.clone()],
        sockets: vec![socket.clone()],
        ..Files::default()
    };
    confined(files, move || {
        fs::write(token.join("token"), "t").expect("made");
        assert_eq!(fs::read(token.join("token")).expect("read"), b"t");
        refused("folder", fs::create_dir(token.join("folder")));
        drop(UnixListener::bind(socket.join("mqtt.sock")).expect("a socket"));
        fs::remove_file(socket.join("mqtt.sock")).expect("removed");
        refused("file", fs::write(socket.join("file"), "x"));
    });
}

/// The folders of everything that a setting names: a new one that names a file has to be thought of here.
#[test]
fn every_file_that_settings_name_is_thought_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("etc/courser.toml");
    fs::create_dir(folder.path().join("etc")).expect("made");
    fs::write(
        &config,
        r#"
        data.path = "/d/data"
        backup.folders = ["/b/one", "/b/two"]
        sandbox.read = ["/r/file", "/proc"]
        http.token_file = "/h/token"
        tokens.key_set = "/k/set"
        tokens.public_keys = ["/p/key"]
        tokens.secret_file = "/s/secret"
        tokens.audience = ["a"]
        [[listener]]
        name = "one"
        protocol = "mqtts"
        unix = "/u/mqtt.sock"
        certificate = "/c/chain"
        key = "/root-of-all"
        client_certificates = "required"
        client_authorities = "/a/authorities"
        client_revocations = "/l/list"
        "#,
    )
    .expect("written");
    let resolved = Sources::new().load("--config", &config).resolve();
    let files = Files::of(&resolved.expect("all is right"));
    let paths = |of: &[&str]| of.iter().map(PathBuf::from).collect::<Vec<_>>();
    assert_eq!(files.own, paths(&["/d/data", "/b/one", "/b/two"]));
    assert_eq!(files.made, paths(&["/h"]));
    assert_eq!(files.sockets, paths(&["/u"]));
    let real = config.canonicalize().expect("it is there");
    let mut read = vec![folder_of(&config).to_owned(), folder_of(&real).to_owned()];
    read.extend(paths(&[
        "/p",
        "/r",
        "/h",
        "/c",
        "/root-of-all",
        "/a",
        "/l",
        "/k",
        "/s",
    ]));
    assert_eq!(files.read, read);
    let system = paths(&SYSTEM);
    assert_eq!(files.listed, [system, paths(&["/proc"])].concat());
    let table = courser_settings::table();
    let lists = courser_settings::lists();
    let all = table.iter().chain(lists.iter().flat_map(|it| &it.fields));
    let of_paths = all.filter(|it| it.kind.contains("path") || it.key.ends_with("_file"));
    let keys: Vec<&str> = of_paths.map(|setting| setting.key).collect();
    assert_eq!(
        keys,
        [
            "data.path",
            "http.token_file",
            "tokens.key_set",
            "tokens.secret_file",
            "listener.unix",
            "listener.certificate",
            "listener.key",
            "listener.client_authorities",
            "listener.client_revocations",
        ]
    );
}

/// The log may lie on a disk of its own.
#[test]
fn a_log_that_is_a_link_is_opened_where_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, disk) = (folder.path().join("data"), folder.path().join("disk"));
    for folder in [&data, &disk] {
        fs::create_dir(folder).expect("made");
    }
    assert_eq!(linked(&data).count(), 0);
    symlink("../disk", data.join("log")).expect("a link");
    symlink("../nowhere", data.join("checkpoints")).expect("a link");
    let own: Vec<PathBuf> = linked(&data).collect();
    assert_eq!(own, [disk.canonicalize().expect("it is there")]);
    let files = Files {
        own: own.into_iter().chain([data.clone()]).collect(),
        ..Files::default()
    };
    confined(files, move || {
        let path = |name: &str| data.join("log").join(name);
        fs::write(path("1.new"), "new").expect("written");
        fs::rename(path("1.new"), path("1.seg")).expect("renamed");
        assert_eq!(fs::read(path("1.seg")).expect("read"), b"new");
        refused("above", fs::write(folder.path().join("other"), "new"));
    });
}
