//! The HTTP request that becomes a WebSocket.

use super::*;
use crate::web::HEAD_BYTES_MAX;

/// A good request with one thing changed.
pub(super) fn request(change: &[(&str, &str)]) -> Vec<u8> {
    let mut text = "GET /mqtt HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                    Sec-WebSocket-Protocol: mqttv3.1, mqtt\r\n\
                    Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
        .to_owned();
    for (from, to) in change {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    text.into_bytes()
}

/// What a server says to these bytes, and how it ends.
fn answer(bytes: &[u8]) -> (String, Result<usize, TunnelError>) {
    answer_of(&web(), bytes)
}

fn answer_of(server: &Arc<WebServer>, bytes: &[u8]) -> (String, Result<usize, TunnelError>) {
    let mut server = Tunnel::server(None, Some(server)).expect("it begins");
    let mut room = [0; 4096];
    let result = server.receive(bytes, &mut room);
    let mut wire = Vec::new();
    server.write(&mut wire).expect("a vector takes all");
    (String::from_utf8_lossy(&wire).into_owned(), result)
}

// v3 [MQTT-6.0.0-4], v5 [MQTT-6.0.0-4]: "mqtt" is chosen and answered with; clients offer it, v3 [MQTT-6.0.0-3], v5 [MQTT-6.0.0-3].
#[test]
fn an_upgrade_is_answered_with_the_sub_protocol_and_without_extensions() {
    let (text, result) = answer(&request(&[]));
    assert!(result.is_ok());
    assert!(text.starts_with("HTTP/1.1 101 "), "{text}");
    let text = text.to_ascii_lowercase();
    assert!(text.contains("sec-websocket-protocol: mqtt\r\n"), "{text}");
    assert!(
        text.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"),
        "{text}"
    );
    // Deflate is what CVE-2026-27571 was about.
    assert!(!text.contains("extensions"), "{text}");
}

#[test]
fn a_server_for_this_machine_lets_in_pages_of_this_machine() {
    let server = Arc::new(WebServer {
        origins: Origins::Local,
        ..WebServer::clone(&web())
    });
    let table = [
        ("localhost:8083", None, "101"),
        ("broker.example", None, "101"),
        ("localhost:8083", Some("http://localhost:3000"), "101"),
        ("LOCALHOST", Some("http://127.0.0.1"), "101"),
        ("[::1]:8083", Some("https://[::1]:8083"), "101"),
        ("localhost:8083", Some("https://evil.example"), "403"),
        ("localhost:8083", Some("null"), "403"),
        ("localhost:8083", Some(""), "403"),
        ("localhost:8083", Some("http://192.0.2.1"), "403"),
        (
            "localhost:8083",
            Some("https://localhost.evil.example"),
            "403",
        ),
        (
            "localhost:8083",
            Some("https://localhost@evil.example"),
            "403",
        ),
        ("evil.example:8083", Some("http://evil.example:8083"), "403"),
        ("evil.example:8083", Some("http://localhost:8083"), "403"),
    ];
    for (host, origin, status) in table {
        let origin = origin.map_or(String::new(), |it| format!("\r\nOrigin: {it}"));
        let headers = format!("Host: {host}{origin}");
        let (text, _) = answer_of(&server, &request(&[("Host: h", &headers)]));
        let right = format!("HTTP/1.1 {status} ");
        assert!(text.starts_with(&right), "{headers}: {text}");
    }
}

#[test]
fn a_request_that_can_be_read_in_two_ways_is_refused() {
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    let headers = [
        ("Host: other", "400"),
        ("Host: h", "400"),
        (key, "400"),
        ("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "400"),
        ("Sec-WebSocket-Version: 8", "400"),
        ("Sec-WebSocket-Version: 13", "400"),
        ("Content-Length: 5", "400"),
        ("Content-Length: +0", "400"),
        ("Content-Length: 0\r\nContent-Length: 5", "400"),
        ("Transfer-Encoding: chunked", "400"),
        ("Transfer-Encoding: identity", "400"),
        ("Content-Length: 0", "101"),
        ("X-Forwarded-Host: other", "101"),
    ];
    for (header, status) in headers {
        let more = format!("{key}\r\n{header}");
        let (text, result) = answer(&request(&[(key, &more)]));
        let right = format!("HTTP/1.1 {status} ");
        assert!(text.starts_with(&right), "{header}: {text}");
        assert_eq!(result.is_ok(), status == "101", "{header}");
    }
}

#[test]
fn other_requests_are_refused_with_a_status() {
    let table: &[(&[(&str, &str)], &str)] = &[
        (&[("GET /mqtt", "GET /")], "404"),
        (&[("GET /mqtt", "GET /mqtt/x")], "404"),
        (&[("GET", "POST")], "400"),
        (&[("HTTP/1.1", "HTTP/1.0")], "400"),
        (&[("Upgrade: websocket", "Upgrade: h2c")], "426"),
        (&[("Version: 13", "Version: 8")], "426"),
        // An upgrade it is, but none that can be answered.
        (&[("dGhlIHNhbXBsZSBub25jZQ==", "abc")], "400"),
        (&[("Sec-WebSocket-Key", "Sec-WebSocket-Kex")], "400"),
        (&[], "101"),
        (&[("mqttv3.1, mqtt", "mqttv3.1, mqtts")], "400"),
        (&[("Sec-WebSocket-Protocol: mqttv3.1, mqtt\r\n", "")], "400"),
        (
            &[("Host: h", "Host: h\r\nOrigin: https://evil.example")],
            "403",
        ),
        (
            &[(
                "Host: h",
                "Host: h\r\nOrigin: https://example.org.evil.example",
            )],
            "403",
        ),
        (
            &[("Host: h", "Host: h\r\nOrigin: https://example.org")],
            "101",
        ),
        (&[("GET /mqtt", "GET /mqtt?token=1")], "101"),
        (&[("Host: h", "Ho\0st: h")], "400"),
        (&[("Host: h\r\n", "")], "400"),
    ];
    for (change, status) in table {
        let (text, result) = answer(&request(change));
        assert!(
            text.starts_with(&format!("HTTP/1.1 {status} ")),
            "{change:?}: {text}"
        );
        assert_eq!(result.is_ok(), *status == "101", "{change:?}");
    }
}

#[test]
fn a_head_that_never_ends_is_bounded() {
    let mut bytes = request(&[("\r\n\r\n", "\r\nX: ")]);
    bytes.resize(HEAD_BYTES_MAX, b'x');
    let (_, result) = answer(&bytes);
    assert!(matches!(result, Err(TunnelError::Web(WebError::TooLong))));
}
