//! The kept inputs of the fuzz targets of doors (`fuzz/corpus`) and some that are made of parts of good ones.

#[allow(
    unreachable_pub,
    reason = "the fuzz targets, in another crate, use them too"
)]
mod fuzzed;
#[allow(unreachable_pub, reason = "the same file serves other crates")]
#[path = "../../../fuzz/src/kept.rs"]
mod kept;

use proptest::prelude::*;

#[test]
fn kept_inputs() {
    kept::each("proxy_header", fuzzed::proxy_header);
    kept::each("web_upgrade", fuzzed::web_upgrade);
    kept::each("web_frames", fuzzed::web_frames);
}

/// Pieces of good inputs and any bytes, in any order.
fn pieces(of: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(of).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

const PROXY: &[&[u8]] = &[
    b"PROXY ",
    b"TCP4 ",
    b"TCP6 ",
    b"UNKNOWN",
    b"192.0.2.7 ",
    b"::1 ",
    b"1 65535",
    b"\r\n",
    b"\r\n\r\n\0\r\nQUIT\n",
    b"\x21\x11\0\x0C\xC0\0\x02\x07\x7F\0\0\x01\0\x04\0\x05",
    b"\x20\0\0\0",
    b"\x21\x21\0\x24",
    &[0; 36],
    b"\x10\x0C\0\x04MQTT",
];
const UPGRADE: &[&[u8]] = &[
    b"\xFF",
    b"GET /mqtt HTTP/1.1\r\n",
    b"GET / HTTP/1.1\r\n",
    b"Host: h\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    b"Sec-WebSocket-Version: 13\r\n",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    b"Sec-WebSocket-Protocol: mqtt\r\n",
    b"Sec-WebSocket-Protocol: a, mqtt\r\n",
    b"Origin: https://example.org\r\n",
    b"Origin: https://example.com\r\n",
    b"\r\n",
    b"\x82\x81\0\0\0\0x",
];
const FRAMES: &[&[u8]] = &[
    b"\x07",
    b"\x82\x83\x01\x02\x03\x04abc",
    b"\x02\x81\0\0\0\0a",
    b"\x00\x81\0\0\0\0b",
    b"\x80\x81\0\0\0\0c",
    b"\x81\x81\0\0\0\0t",
    b"\x89\x82\0\0\0\0hi",
    b"\x8A\x80\0\0\0\0",
    b"\x88\x82\0\0\0\0\x03\xE8",
    b"\x82\xFE\x10\0\0\0\0\0",
    b"\x82\xFF\0\0\0\x01\0\0\0\0",
    b"\xC2\x80\0\0\0\0",
    b"\x82\x01x",
];

proptest! {
    #[test]
    fn proxy_headers_of_parts(bytes in pieces(PROXY)) {
        fuzzed::proxy_header(&bytes);
    }

    #[test]
    fn upgrades_of_parts(bytes in pieces(UPGRADE)) {
        fuzzed::web_upgrade(&bytes);
    }

    #[test]
    fn frames_of_parts(bytes in pieces(FRAMES)) {
        fuzzed::web_frames(&bytes);
    }
}
