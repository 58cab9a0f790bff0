//! What the fuzz targets of doors do with their input; the kept corpus runs through the same code as a plain test.

use std::sync::Arc;

use courser_transport::proxy::{self, HEADER_BYTES_MAX};
use courser_transport::{Origins, Tunnel, WebLimits, WebServer};

/// Most that the first message may bring, in these tests.
const FRAME_BYTES: usize = 1024;
/// What a server may say to an upgrade, and to a fault.
const ANSWER_BYTES: usize = 512;
/// First byte of a pong.
const PONG: u8 = 0x8A;
/// A request that is let in.
const UPGRADE: &[u8] = b"GET /mqtt HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";

/// The PROXY header: what its bytes say does not change when more arrive, and nobody waits for more than the limit.
pub fn proxy_header(bytes: &[u8]) {
    let found = proxy::read(bytes);
    let more = [bytes, b"\r\n\0\x10 more"].concat();
    match found {
        Ok(None) => assert!(bytes.len() < HEADER_BYTES_MAX, "no wait beyond the limit"),
        Ok(Some(header)) => {
            assert!((1..=bytes.len().min(HEADER_BYTES_MAX)).contains(&header.length));
            assert_eq!(proxy::read(&bytes[..header.length]), found);
            assert_eq!(proxy::read(&more), found);
            for end in 0..header.length {
                assert_eq!(
                    proxy::read(&bytes[..end]),
                    Ok(None),
                    "{end} bytes are not all"
                );
            }
        }
        Err(_) => assert!(proxy::read(&more).is_err(), "what is wrong stays wrong"),
    }
}

/// The upgrade request and what follows it; the first byte says where the stream is cut.
pub fn web_upgrade(bytes: &[u8]) {
    let Some((&cut, stream)) = bytes.split_first() else {
        return;
    };
    cut_anywhere(&[], usize::from(cut) * 4, stream);
}

/// Frames on a connection that was upgraded; the first byte says where they are cut.
pub fn web_frames(bytes: &[u8]) {
    let Some((&cut, stream)) = bytes.split_first() else {
        return;
    };
    cut_anywhere(UPGRADE, usize::from(cut), stream);
}

/// How a server has taken a stream.
#[derive(Debug, PartialEq, Eq)]
struct Taken {
    mqtt: Vec<u8>,
    said: Vec<u8>,
    is_open: bool,
    has_ended: bool,
    fault: Option<String>,
}

/// A stream in one piece and the same in two are taken alike but for pongs, and cost no more than they are long.
fn cut_anywhere(before: &[u8], at: usize, stream: &[u8]) {
    let mut whole = take(before, &[stream]);
    let (first, second) = stream.split_at(at.min(stream.len()));
    let mut parts = take(before, &[first, second]);
    assert!(whole.mqtt.len() <= stream.len());
    assert!(whole.said.len() <= stream.len() + ANSWER_BYTES);
    if whole.fault.is_some() {
        // What came in the same piece as a fault is not handed on.
        parts.mqtt.truncate(whole.mqtt.len());
    }
    let pongs = take_pongs(&mut whole.said);
    let pongs_of_parts = take_pongs(&mut parts.said);
    assert_eq!(whole, parts, "cut at {at}");
    // Of pings that came together the newest is answered, unless a close is (RFC 6455 5.5.2, 5.5.3).
    assert!(pongs.len() <= 1, "cut at {at}: {pongs:?}");
    let is_bye = whole.fault.is_some() || whole.has_ended;
    assert!(
        pongs.last() == pongs_of_parts.last() || (is_bye && pongs.is_empty()),
        "cut at {at}: {pongs:?}, {pongs_of_parts:?}"
    );
}

/// Takes the pongs out of what a server said: each is a frame of its own, unmasked, and shorter than 126 bytes.
fn take_pongs(said: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let head = match said.windows(4).position(|end| end == b"\r\n\r\n") {
        Some(end) if said.starts_with(b"HTTP/") => end + 4,
        _ => 0,
    };
    let frames = said.split_off(head);
    let mut pongs = Vec::new();
    let mut rest = &frames[..];
    while let [kind, length, ..] = *rest {
        let (frame, after) = rest.split_at(2 + usize::from(length));
        if kind == PONG {
            pongs.push(frame.to_vec());
        } else {
            said.extend_from_slice(frame);
        }
        rest = after;
    }
    said.extend_from_slice(rest);
    pongs
}

fn take(before: &[u8], pieces: &[&[u8]]) -> Taken {
    let server = Arc::new(WebServer {
        path: "/mqtt".to_owned(),
        origins: Origins::Only(vec!["https://example.org".to_owned()]),
        limits: WebLimits {
            first: FRAME_BYTES,
            later: 4 * FRAME_BYTES,
        },
    });
    let mut tunnel = Tunnel::server(None, Some(&server)).expect("nothing is random in it");
    let mut room = [0; 100];
    tunnel.receive(before, &mut room).expect("a good request");
    tunnel.write(&mut Vec::new()).expect("a vector takes all");
    let mut taken = Taken {
        mqtt: Vec::new(),
        said: Vec::new(),
        is_open: false,
        has_ended: false,
        fault: None,
    };
    for piece in pieces {
        if tunnel.has_ended() {
            break;
        }
        match tunnel.receive(piece, &mut room) {
            Ok(mut count) => {
                while count > 0 {
                    taken.mqtt.extend_from_slice(&room[..count]);
                    count = tunnel.take(&mut room);
                }
            }
            Err(fault) => taken.fault = Some(fault.to_string()),
        }
        tunnel.write(&mut taken.said).expect("a vector takes all");
    }
    taken.is_open = tunnel.is_open();
    taken.has_ended = tunnel.has_ended();
    taken
}
