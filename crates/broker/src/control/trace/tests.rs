use super::*;

fn at(ms: u64) -> Now {
    Now {
        tick: Tick(ms),
        wall: WallMs(1_000 + ms),
    }
}

fn words(page: &TracePage) -> Vec<&str> {
    page.lines.iter().map(|line| line.what.as_str()).collect()
}

#[test]
fn packets_are_said_in_words_and_neither_payload_nor_password() {
    let mut traces = Traces::default();
    assert!(traces.tracer("c", Some(ProtocolVersion::V311), 0).is_none());
    let begun = traces.ask(Tick(0), "c", u64::MAX);
    assert_eq!(begun, Some(TracePage::default()));
    let tracer = traces.tracer("c", Some(ProtocolVersion::V311), 0);
    let tracer = tracer.expect("it is traced");
    assert!(traces.tracer("d", Some(ProtocolVersion::V311), 0).is_none());
    let connect = b"\x10\x18\x00\x04MQTT\x04\xc2\x00\x3c\x00\x01c\x00\x01u\x00\x06secret";
    let publish = b"\x33\x0d\x00\x03a\x1bb\x00\x07canary\xc0\x00";
    tracer.received(at(1), &[&connect[..], &publish[..], b"\x10"].concat());
    let page = traces.ask(Tick(2), "c", 0).expect("there is room");
    assert_eq!(
        words(&page),
        [
            "CONNECT client \"c\", session: new, keep-alive 60 s, logs in",
            "PUBLISH \"a\\u{1b}b\", QoS 1, packet id 7, retained, 6 bytes",
            "PINGREQ",
            "1 bytes",
        ]
    );
    assert_eq!((page.next, page.lost), (4, 0));
    assert!(
        page.lines
            .iter()
            .all(|line| line.at == WallMs(1_001) && line.direction == Direction::Received)
    );
}

#[test]
fn a_trace_is_bounded_and_says_what_was_lost() {
    let mut traces = Traces::default();
    traces.ask(Tick(0), "c", u64::MAX).expect("there is room");
    let tracer = traces.tracer("c", Some(ProtocolVersion::V5), 0);
    let tracer = tracer.expect("it is traced");
    for _ in 0..LINES_MAX + 5 {
        tracer.received(at(1), b"\xc0\x00");
    }
    let page = traces.ask(Tick(1), "c", 0).expect("there is room");
    assert_eq!((page.lines.len(), page.lost), (LINES_AT_ONCE, 5));
    let page = traces.ask(Tick(1), "c", page.next).expect("there is room");
    assert_eq!((page.lines.len(), page.lost), (LINES_AT_ONCE, 0));
}

#[test]
fn a_trace_that_nobody_asks_for_ends_and_makes_room() {
    let mut traces = Traces::default();
    for number in 0..TRACES_MAX {
        let client_id = format!("c{number}");
        assert!(traces.ask(Tick(0), &client_id, 0).is_some());
    }
    let tracer = traces.tracer("c0", Some(ProtocolVersion::V5), 0);
    let tracer = tracer.expect("it is traced");
    assert!(traces.ask(Tick(LEASE_MS), "one more", 0).is_none());
    assert!(traces.ask(Tick(LEASE_MS), "c1", 0).is_some(), "it goes on");
    assert!(!tracer.is_over(Tick(LEASE_MS)));
    assert!(traces.ask(Tick(LEASE_MS + 1), "one more", 0).is_some());
    assert!(tracer.is_over(Tick(LEASE_MS + 1)));
    assert!(traces.tracer("c0", Some(ProtocolVersion::V5), 0).is_none());
    assert!(traces.tracer("c1", Some(ProtocolVersion::V5), 0).is_some());
}

#[test]
fn a_connection_is_watched_for_its_connect_only_while_anything_is_traced() {
    let mut traces = Traces::default();
    assert!(traces.newcomer().is_none());
    traces.ask(Tick(0), "c", u64::MAX).expect("there is room");
    let waits = traces.newcomer().expect("somebody is traced");
    assert!(waits.awaits_connect() && !waits.is_over(Tick(u64::MAX)));
    waits.received(at(1), b"\xc0\x00");
    waits.note(at(1), "nobody's".to_owned());
    traces.note(at(2), "d", || unreachable!("nobody asked for it"));
    traces.note(at(2), "c", || "denied".to_owned());
    let page = traces.ask(Tick(3), "c", 0).expect("there is room");
    assert_eq!(words(&page), ["denied"]);
}
