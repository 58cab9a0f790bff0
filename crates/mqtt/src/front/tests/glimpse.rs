//! Reading ahead to CONNECT.

use super::support::{Client, Hello, V5, V311};
use crate::front::SessionSpan;

/// A CONNECT of the client "cl" byte by byte.
fn connect(version: u8, flags: u8, properties: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', version, flags, 0, 60];
    if version == 5 {
        body.push(properties.len() as u8);
        body.extend(properties);
    }
    body.extend([0, 2, b'c', b'l']);
    let mut bytes = vec![0x10, body.len() as u8];
    bytes.extend(body);
    bytes
}

#[test]
fn a_session_is_kept_that_outlives_its_connection() {
    // v3 [MQTT-3.1.2-4], v3 [MQTT-3.1.2-6]; v5 3.1.2.11.2: Session Expiry Interval, 0 without it.
    const HOUR: [u8; 5] = [0x11, 0, 0, 14, 16];
    const ZERO: [u8; 5] = [0x11, 0, 0, 0, 0];
    let clean = 0x02;
    let cases = [
        (V311, connect(4, clean, &[]), SessionSpan::Connection),
        (V311, connect(4, 0, &[]), SessionSpan::Kept),
        (V5, connect(5, clean, &[]), SessionSpan::Connection),
        (V5, connect(5, 0, &[]), SessionSpan::Connection),
        (V5, connect(5, clean, &ZERO), SessionSpan::Connection),
        (V5, connect(5, clean, &HOUR), SessionSpan::Kept),
    ];
    for (version, bytes, span) in cases {
        let client = Client::new(version, |_| {});
        let seen = client.front.glimpse(&bytes).expect("it is whole");
        assert_eq!((seen.client_id, seen.span), ("cl", span), "{bytes:02x?}");
    }
}

#[test]
fn nothing_is_kept_where_the_broker_keeps_nothing() {
    let client = Client::new(V311, |config| config.session_expiry_max_seconds = 0);
    let bytes = connect(4, 0, &[]);
    let seen = client.front.glimpse(&bytes).expect("it is whole");
    assert_eq!(seen.span, SessionSpan::Connection);
}

#[test]
fn only_a_whole_and_first_connect_is_seen() {
    let mut client = Client::new(V311, |_| {});
    let bytes = connect(4, 0, &[]);
    for end in 0..bytes.len() {
        assert_eq!(client.front.glimpse(&bytes[..end]), None, "{end} bytes");
    }
    let more = [&bytes[..], &[0xC0, 0]].concat();
    assert!(client.front.glimpse(&more).is_some(), "whatever follows");
    assert_eq!(client.front.glimpse(&[0xC0, 0]), None, "PINGREQ");
    // The reserved flag: v3 [MQTT-3.1.2-3].
    assert_eq!(client.front.glimpse(&connect(4, 1, &[])), None);

    client.connects(&Hello::default());
    assert_eq!(client.front.glimpse(&bytes), None, "the second one");
}
