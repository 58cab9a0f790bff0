//! What a WebSocket connection holds of what comes, by the count of the allocator.

use std::alloc::System;
use std::sync::Arc;

use courser_memory::{Counting, thread_snapshot};
use courser_transport::{Origins, Tunnel, WebLimits, WebServer};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

const MIB: usize = 1 << 20;
const READ_BYTES: usize = 4096;
/// What an idle connection may hold.
const HELD_MAX: i64 = 1024;
const UPGRADE: &[u8] = b"GET /mqtt HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";
/// Binary, masked with zeros, of one byte.
const FIRST: [u8; 7] = [0x82, 0x81, 0, 0, 0, 0, 7];
/// Binary, masked with zeros; the length follows.
const MEBIBYTE: [u8; 14] = [0x82, 0xFF, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0];

/// A connection behind its upgrade and its first message, and the server that it came to.
fn connection(server: &Arc<WebServer>) -> Tunnel {
    let mut tunnel = Tunnel::server(None, Some(server)).expect("nothing is random in it");
    tunnel.receive(UPGRADE, &mut []).expect("a good request");
    tunnel.write(&mut std::io::sink()).expect("it takes all");
    let count = tunnel.receive(&FIRST, &mut [0; 1]).expect("a good frame");
    assert_eq!(count, 1);
    tunnel
}

fn server() -> Arc<WebServer> {
    Arc::new(WebServer {
        path: "/mqtt".to_owned(),
        origins: Origins::Any,
        limits: WebLimits {
            first: 16 * 1024,
            later: MIB,
        },
    })
}

/// What the allocator has given out on this thread since.
fn held(before: &courser_memory::Snapshot) -> i64 {
    thread_snapshot().since(before).live_bytes_signed()
}

#[test]
fn an_idle_connection_holds_next_to_nothing() {
    let server = server();
    let before = thread_snapshot();
    let tunnel = connection(&server);
    let held = held(&before);
    assert!((1..HELD_MAX).contains(&held), "{held} bytes");
    drop(tunnel);
}

#[test]
fn cve_2026_25627_what_a_frame_announces_is_not_held_and_what_it_brings_is_handed_on() {
    let (server, mut room) = (server(), vec![0; READ_BYTES]);
    let before = thread_snapshot();
    let mut tunnel = connection(&server);
    let held = || held(&before);
    let count = tunnel.receive(&MEBIBYTE, &mut room).expect("a good head");
    assert_eq!(count, 0);
    assert!(held() < HELD_MAX, "{} bytes for a head", held());
    let mut came = 0;
    while came < MIB {
        came += tunnel
            .receive(&[7; READ_BYTES], &mut room)
            .expect("payload");
        assert!(held() < HELD_MAX, "{} bytes when {came} came", held());
    }
    assert_eq!(came, MIB, "nothing waits for the end of the frame");
}
