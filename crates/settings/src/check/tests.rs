use crate::Sources;

#[test]
fn tokens_need_keys_an_audience_and_a_claim() {
    let asked = "mqtt.authentication=tokens";
    let listener = r#"listener=[{ name = "x", unix = "/tmp/x", authentication = "tokens" }]"#;
    let (keys, audience) = ("tokens.key_set=\"keys.json\"", "tokens.audience=[\"us\"]");
    for (settings, fault) in [
        (
            &[asked, audience][..],
            r#"mqtt.authentication: "tokens" needs keys"#,
        ),
        (
            &[listener, audience],
            r#"listener["x"].authentication: "tokens" needs keys"#,
        ),
        (
            &[asked, keys],
            r#"tokens.audience: found [], and mqtt.authentication = "tokens" needs one"#,
        ),
        (&[asked, audience, keys], ""),
        (&[asked, audience, "tokens.secret_file=\"s\""], ""),
        (&[asked, audience, "tokens.public_keys=[\"k\"]"], ""),
        (&[listener, audience, keys], ""),
        (
            &["tokens.user_claim=\"\""],
            r#"tokens.user_claim: expected the name of a claim, found """#,
        ),
    ] {
        let sources = settings
            .iter()
            .fold(Sources::new(), |all, one| all.set(one));
        let said = sources
            .check()
            .err()
            .map_or_else(String::new, |errors| errors.to_string());
        assert_eq!(said.is_empty(), fault.is_empty(), "{settings:?}: {said}");
        assert!(said.contains(fault), "{settings:?}: {said}");
    }
}

#[test]
fn a_socket_whose_path_the_system_does_not_take_is_refused() {
    for (bytes, fault) in [
        (107, ""),
        (
            108,
            "of at most 107 bytes, which is what the system takes for a socket; found 108 bytes",
        ),
    ] {
        let path = format!("/{}", "x".repeat(bytes - 1));
        let text = format!("[[listener]]\nname = \"x\"\nunix = \"{path}\"");
        let checked = Sources::new().file("f", &text).check();
        let said = checked.err().map_or_else(String::new, |it| it.to_string());
        assert_eq!(said.is_empty(), fault.is_empty(), "{said}");
        assert!(said.contains(fault), "{said}");
        assert!(
            fault.is_empty() || said.starts_with("f:3:8: listener[\"x\"].unix: "),
            "{said}"
        );
    }
}

#[test]
fn a_listener_that_cannot_work_is_refused_with_the_reason() {
    let table = [
        (r#"address = "127.0.0.1:1884""#, ""),
        (r#"unix = "/tmp/x""#, ""),
        (r#"activation = "mqtt""#, ""),
        (
            "",
            r#"listener["x"]: needs one of address, unix and activation"#,
        ),
        (
            r#"protocol = "mqtts""#,
            r#"listener["x"].protocol: "mqtts" needs certificate and key; not set: certificate, key"#,
        ),
        (r#"protocol = "mqtts", certificate = "c", key = "k""#, ""),
        (r#"protocol = "ws""#, ""),
        (
            r#"unix = "/tmp/x", activation = "mqtt""#,
            r#"listener["x"].activation: found "mqtt" beside listener["x"].unix = "/tmp/x"; needs one of address, unix and activation"#,
        ),
        (
            r#"address = "127.0.0.1:1", protocol = "wss", certificate = "c""#,
            r#""wss" needs certificate and key; not set: key"#,
        ),
        (
            r#"address = "127.0.0.1:1", protocol = "wss", certificate = "c", key = "k""#,
            "",
        ),
        (
            r#"address = "127.0.0.1:1", certificate = "c", key = "k""#,
            r#"listener["x"].certificate: found "c", which is for protocol = "mqtts" and "wss"; here it is "mqtt""#,
        ),
        (
            r#"address = "127.0.0.1:1", client_certificates = "asked""#,
            r#"listener["x"].client_certificates: found "asked", which is for"#,
        ),
        (
            r#"address = "127.0.0.1:1", protocol = "mqtts", certificate = "c", key = "k", client_certificates = "asked""#,
            r#"listener["x"].client_certificates: "asked" needs client_authorities"#,
        ),
        (
            r#"address = "127.0.0.1:1", protocol = "mqtts", certificate = "c", key = "k", client_authorities = "a""#,
            r#"listener["x"].client_authorities: "a" needs client_certificates = "asked" or "required"; here it is "off""#,
        ),
        (
            r#"unix = "/tmp/x", unix_mode = "999""#,
            r#"listener["x"].unix_mode: expected three octal digits such as "660", found "999""#,
        ),
        (
            r#"address = "127.0.0.1:1", path = "mqtt""#,
            r#"listener["x"].path: expected a path that begins with "/", found "mqtt""#,
        ),
        (
            r#"unix = "/tmp/x", proxies = "10.0.0.1""#,
            r#"listener["x"].proxies: expected none: they are told apart by address, and clients of a Unix socket have none, found ["10.0.0.1/32"]"#,
        ),
        (
            r#"address = "127.0.0.1:1", origins = ["https://a.example", "null"]"#,
            "",
        ),
        (
            r#"address = "127.0.0.1:1", origins = ["https://dash.example.org/"]"#,
            r#"listener.origins: item 1 of the list: expected an origin as browsers send it, such as "https://example.org", "http://localhost:8080" or "null", found "https://dash.example.org/"; did you mean "https://dash.example.org"?"#,
        ),
        (
            r#"address = "127.0.0.1:1", origins = "*""#,
            r#"listener.origins: expected a list of origins such as ["https://example.org"], found "*""#,
        ),
        (
            r#"address = "127.0.0.1:1883""#,
            r#"listener["x"].address: 127.0.0.1:1883 is in mqtt.listen already"#,
        ),
        (
            r#"address = "127.0.0.1:1", proxies = "10.0.0.0/33""#,
            "list of addresses or networks",
        ),
        (
            r#"unix = "data/admin.sock""#,
            r#"listener["x"].unix: expected a path that the program does not use itself in its data folder (data.path); found "data/admin.sock""#,
        ),
        (
            r#"unix = "./elsewhere/../data/log/1/x""#,
            "does not use itself in its data folder",
        ),
        (r#"unix = "data""#, "does not use itself in its data folder"),
        (r#"unix = "data/mqtt.sock""#, ""),
        (r#"unix = "/tmp/x", packet_bytes_max = "16KiB""#, ""),
        (
            r#"unix = "/tmp/x", packet_bytes_max = "8KiB""#,
            r#"mqtt.connect_bytes_max = "16KiB" is more than listener["x"].packet_bytes_max = "8KiB""#,
        ),
        (
            r#"unix = "/tmp/x", receive_maximum = 0"#,
            "allowed: 1 to 65535",
        ),
        (
            r#"unix = "/tmp/x", session_expiry_max = "8d""#,
            r#"listener["x"].session_expiry_max: "8d" is longer than mqtt.session_expiry_max = "7d""#,
        ),
        (
            r#"unix = "/tmp/x", advertised = "a b""#,
            r#"listener["x"].advertised: expected one HOST or HOST:PORT, found "a b""#,
        ),
        (
            r#"unix = "/tmp/x", advertised = "a:1", redirect_to = "b a:1""#,
            r#"listener["x"].redirect_to: "b a:1" would send clients in a circle: "a:1" is listener["x"].advertised"#,
        ),
    ];
    for (fields, fault) in table {
        let comma = if fields.is_empty() { "" } else { ", " };
        let text = format!(r#"listener=[{{ name = "x"{comma}{fields} }}]"#);
        match Sources::new().set(&text).check() {
            Ok(_) => assert_eq!(fault, "", "{fields}"),
            Err(errors) => {
                let errors = errors.to_string();
                assert!(
                    !fault.is_empty() && errors.contains(fault),
                    "{fields}: {errors}"
                );
            }
        }
    }
}

/// A server that keeps nothing writes nothing into a data folder.
#[test]
fn a_socket_may_lie_where_files_of_the_data_folder_would_where_nothing_is_kept() {
    for (store, is_taken) in [("memory", true), ("disk", false)] {
        let text = format!(
            "data.store = \"{store}\"\n[[listener]]\nname = \"x\"\nunix = \"data/admin.sock\""
        );
        let checked = Sources::new().file("f", &text).check();
        assert_eq!(checked.is_ok(), is_taken, "{store}: {:?}", checked.err());
    }
}

fn refused(text: &str) -> String {
    let sources = Sources::new().file("f", text);
    sources.check().expect_err("it is refused").to_string()
}

/// Each was said to be wrong at "default" or at no place at all.
#[test]
fn what_contradicts_has_the_place_of_the_field_that_is_wrong() {
    let table = [
        (
            "[[listener]]\nname = \"x\"\nprotocol = \"mqtts\"\ncertificate = \"c\"",
            "f:3:12: listener[\"x\"].protocol: \"mqtts\" needs certificate and key; not set: key",
        ),
        (
            "[[listener]]\nname = \"y\"\nunix = \"/a\"\n[[listener]]\n  name = \"x\"\n  unix = \"/x\"\n  unix_mode = \"888\"",
            "f:7:15: listener[\"x\"].unix_mode: expected three octal digits such as \"660\", found \"888\"",
        ),
        (
            "\n[[listener]]\nname = \"x\"",
            "f:2:1: listener[\"x\"]: needs one of address, unix and activation",
        ),
        (
            "[[listener]]\nname = \"mqtt\"\nunix = \"/a\"",
            "f:2:8: listener[\"mqtt\"].name: \"mqtt\" is the name of mqtt.listen; expected another one",
        ),
        (
            "[[listener]]\nname = \"x\"\nprotocol = \"ws\"\ncertificate = \"c\"\naddress = \"[::1]:1\"\nkey = \"k\"",
            "f:4:15: listener[\"x\"].certificate: found \"c\", which is for protocol = \"mqtts\" and \"wss\"; here it is \"ws\"\n\
             f:6:7: listener[\"x\"].key: found \"k\", which is for protocol = \"mqtts\" and \"wss\"; here it is \"ws\"",
        ),
        (
            "[mqtt]\npacket_bytes_max = \"8KiB\"",
            "f:2:20: mqtt.connect_bytes_max = \"16KiB\" is more than mqtt.packet_bytes_max = \"8KiB\"",
        ),
        (
            "[mqtt]\nauthentication = \"tokens\"\n[tokens]\nkey_set = \"k\"",
            "f:2:18: tokens.audience: found [], and mqtt.authentication = \"tokens\" needs one: a token for somebody else must open nothing here",
        ),
        (
            "[mqtt]\nredirect_to = \"b a\"\nadvertised = \"a\"",
            "f:2:15: mqtt.redirect_to: \"b a\" would send clients in a circle: \"a\" is mqtt.advertised",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(refused(text), expected, "{text}");
    }
}

#[test]
fn a_place_is_taken_once() {
    let door = |name: &str, place: &str| format!("[[listener]]\nname = \"{name}\"\n{place}\n");
    let two = |one: &str, other: &str| format!("{}{}", door("a", one), door("b", other));
    let table = [
        (
            two(
                "address = \"[::1]:7\"",
                "address = [\"[::1]:8\", \"[::1]:7\"]",
            ),
            "f:6:11: listener[\"b\"].address: [::1]:7 is in listener[\"a\"].address already",
        ),
        (
            door("a", "address = \"127.0.0.1:18080\""),
            "f:3:11: listener[\"a\"].address: 127.0.0.1:18080 is in http.listen already",
        ),
        (
            "http.listen = \"[::1]:1883\"".to_owned(),
            "f:1:15: http.listen: [::1]:1883 is in mqtt.listen already",
        ),
        (
            two(
                "address = \"127.0.0.1:5001\"",
                "address = \"0.0.0.0:5001\"\ninsecure_anonymous = true",
            ),
            "f:6:11: listener[\"b\"].address: 0.0.0.0:5001 and 127.0.0.1:5001 of listener[\"a\"].address have one port: 0.0.0.0 and [::] are \
             all addresses of this machine",
        ),
        (
            two("unix = \"/a\"", "unix = \"/a\""),
            "f:6:8: listener[\"b\"].unix: \"/a\" is listener[\"a\"].unix already",
        ),
        (
            two("activation = \"m\"", "activation = \"m\""),
            "f:6:14: listener[\"b\"].activation: \"m\" is listener[\"a\"].activation already",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(refused(&text), expected, "{text}");
    }
    let free = two("address = \"[::1]:0\"", "address = \"[::1]:0\"");
    let sources = Sources::new().file("f", &free);
    assert!(sources.check().is_ok(), "port 0 is any free port");
    let apart = two("address = \"127.0.0.1:7\"", "address = \"[::]:7\"");
    let sources = Sources::new().file("f", &apart);
    assert!(
        sources.check().is_ok(),
        "a socket of IPv6 is for IPv6 alone"
    );
}

#[test]
fn what_contradicts_names_the_variable_or_the_argument_it_came_from() {
    let said = |sources: Sources| sources.check().expect_err("it is refused").to_string();
    let variable = [("COURSER__MQTT__ADVERTISED".to_owned(), "a b".to_owned())];
    assert_eq!(
        said(Sources::new().environment(variable)),
        "COURSER__MQTT__ADVERTISED: mqtt.advertised: expected one HOST or HOST:PORT, found \"a b\""
    );
    assert_eq!(
        said(
            Sources::new()
                .set("mqtt.connect_bytes_max=1MiB")
                .set("mqtt.packet_bytes_max=512KiB")
        ),
        "--set: mqtt.connect_bytes_max = \"1MiB\" is more than mqtt.packet_bytes_max = \"512KiB\"",
    );
}

#[test]
fn i14_what_contradicts_shows_nothing_that_was_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
    write("secret", "canary canary").expect("a file");
    write("address", "127.9.9.9:1, 127.9.9.9:1").expect("a file");
    write(
        "courser.toml",
        "[mqtt]\nadvertised = \"${FILE:secret}\"\nlisten = \"${FILE:address}\"\n",
    )
    .expect("a file");
    let sources = Sources::new().load("--config", &folder.path().join("courser.toml"));
    let errors = sources.check().expect_err("both are wrong").to_string();
    assert!(
        !errors.contains("canary") && !errors.contains("127.9"),
        "{errors}"
    );
    assert!(
        errors.contains(
            "2:14: mqtt.advertised: expected one HOST or HOST:PORT, found \"${FILE:secret}\""
        ),
        "{errors}"
    );
    assert!(
        errors.contains("3:10: mqtt.listen: names \"${FILE:address}\" twice"),
        "{errors}"
    );
}

fn doubts(text: &str) -> Vec<String> {
    let resolved = Sources::new().file("f", text).resolve();
    let doubts = resolved.expect("it is allowed").doubts;
    doubts.iter().map(ToString::to_string).collect()
}

#[test]
fn packets_that_no_session_takes_are_doubted() {
    const WHY: &str = r#"session.queue_bytes_max = "16MiB": a larger message of QoS 1 or 2 is acknowledged, and no subscriber gets it"#;
    assert!(doubts("").is_empty());
    assert!(doubts("mqtt.packet_bytes_max = \"16MiB\"").is_empty());
    assert_eq!(
        doubts("mqtt.packet_bytes_max = \"17MiB\""),
        [format!(
            r#"f:1:25: mqtt.packet_bytes_max = "17MiB" is more than {WHY}"#
        )]
    );
    assert_eq!(
        doubts("[[listener]]\nname = \"x\"\nunix = \"/x\"\npacket_bytes_max = \"17MiB\""),
        [format!(
            r#"f:4:20: listener["x"].packet_bytes_max = "17MiB" is more than {WHY}"#
        )]
    );
    let small = doubts("session.queue_bytes_max = \"512KiB\"");
    assert_eq!(small.len(), 1, "{small:?}");
    assert!(small[0].starts_with("f:1:27: mqtt.packet_bytes_max = \"1MiB\" is more than"));
}

#[test]
fn failures_that_are_forgotten_before_the_wait_for_them_has_ended_are_doubted() {
    assert!(doubts("[login_failures]\nwait_max = \"10m\"").is_empty());
    assert_eq!(
        doubts("[login_failures]\nwait_max = \"1h\""),
        [
            r#"f:2:12: login_failures.forget_after = "10m" is less than login_failures.wait_max = "1h": an address that has waited for longer may guess as often as a new one"#,
            &format!(
                "f:2:12: login_failures.wait_max = \"1h\": {}",
                crowded(1_093)
            ),
        ]
    );
}

fn crowded(a_minute: u32) -> String {
    format!(
        "no more than 65536 addresses wait at once, and {a_minute} wrong passwords a minute from as many, which anybody with a /48 of IPv6 has, \
         keep all of those waiting: no other address can log in then"
    )
}

fn first_above(place: &str, first: &str, longest: &str) -> String {
    format!(
        "{place}: login_failures.wait_first = \"{first}\" is more than login_failures.wait_max = \"{longest}\": no wait is longer than that, also not the first"
    )
}

#[test]
fn a_first_wait_above_the_longest_is_doubted() {
    let said = |settings: &str| doubts(&format!("[login_failures]\n{settings}"));
    assert_eq!(
        said("wait_first = \"10s\"\nwait_max = \"1s\""),
        [first_above("f:2:14", "10s", "1s")]
    );
    assert!(said("wait_first = \"10s\"\nwait_max = \"10s\"").is_empty());
}

#[test]
fn waits_by_which_few_guesses_keep_everybody_else_out_are_doubted() {
    let said = |settings: &str| {
        doubts(&format!(
            "[login_failures]\nforget_after = \"30d\"\n{settings}"
        ))
    };
    assert!(said("").is_empty());
    assert!(said("wait_max = \"10m\"").is_empty());
    // No wait is longer than the longest.
    assert_eq!(
        said("wait_first = \"1h\""),
        [first_above("f:3:14", "1h", "1m")]
    );
    for (wait_max, a_minute) in [("11m", 5_958), ("1d", 46)] {
        let found = said(&format!("wait_max = \"{wait_max}\""));
        let expected = format!(
            "f:3:12: login_failures.wait_max = \"{wait_max}\": {}",
            crowded(a_minute)
        );
        assert_eq!(found, [expected]);
    }
    assert!(said("wait_max = \"1d\"\naddress_max = 0").is_empty());
}

#[test]
fn what_other_machines_could_read_on_the_way_is_doubted() {
    let listen = |login: &str, address: &str| {
        doubts(&format!(
            "mqtt.authentication = \"{login}\"\nmqtt.listen = [\"127.0.0.1:1\", \"{address}\"]"
        ))
    };
    let said = listen("accounts", "0.0.0.0:1883");
    assert_eq!(
        said,
        [
            "f:2:15: mqtt.listen: 0.0.0.0:1883 can be reached from other machines without TLS, where whoever is on the way reads \
          passwords: let clients in by a [[listener]] with protocol = \"mqtts\", and keep this on loopback addresses"
        ]
    );
    assert!(listen("accounts", "[::1]:1883").is_empty());
    assert!(listen("none", "0.0.0.0:1883").is_empty(), "nothing to read");
    let http = doubts("http.listen = [\"127.0.0.1:1\", \"[::]:18080\"]");
    assert_eq!(
        http,
        [
            "f:1:15: http.listen: [::]:18080 can be reached from other machines without TLS, where whoever is on the way reads \
          the token and the passwords of operators: give it a loopback address and a reverse proxy with TLS before it"
        ]
    );
}

#[test]
fn a_listener_that_other_machines_could_read_is_doubted() {
    let said = |protocol: &str, address: &str, more: &str| {
        doubts(&format!(
            "tokens = {{ audience = [\"us\"], secret_file = \"/s\" }}\n[[listener]]\nname = \"x\"\nprotocol = \"{protocol}\"\n\
             address = \"{address}\"\n{more}"
        ))
    };
    let accounts = "authentication = \"accounts\"";
    let tls = "certificate = \"/c\"\nkey = \"/k\"\nauthentication = \"accounts\"";
    let proxies = "proxies = [\"10.0.0.1\"]\nauthentication = \"accounts\"";
    for (protocol, secure) in [("mqtt", "mqtts"), ("ws", "wss")] {
        for (login, what) in [("accounts", "passwords"), ("tokens", "tokens")] {
            let login = format!("authentication = \"{login}\"");
            let expected = format!(
                "f:5:11: listener[\"x\"].address: 0.0.0.0:7 can be reached from other machines without TLS, where whoever is on \
                 the way reads {what}: give it protocol = \"{secure}\", certificate and key, or a loopback address and a proxy \
                 with TLS before it"
            );
            assert_eq!(said(protocol, "0.0.0.0:7", &login), [expected]);
        }
        assert!(said(protocol, "127.0.0.1:7", accounts).is_empty());
        assert!(said(protocol, "0.0.0.0:7", "").is_empty(), "nobody logs in");
        assert!(
            said(protocol, "0.0.0.0:7", proxies).is_empty(),
            "TLS ends there"
        );
        assert!(said(secure, "0.0.0.0:7", tls).is_empty());
    }
}
