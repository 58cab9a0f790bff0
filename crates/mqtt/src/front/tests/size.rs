//! What a connection costs.

use std::mem::size_of;

use courser_contract::QoS;

use super::support::{Client, Hello, V5, V311, to_front, view};
use crate::front::{Front, Output};

#[test]
fn an_idle_front_is_small() {
    let bytes = size_of::<Front>();
    assert!(bytes <= 256, "{bytes} bytes");
    assert!(size_of::<Output>() <= 56);
}

#[test]
fn an_idle_front_holds_no_buffer() {
    let mut client = Client::attached(V311);
    client.gets(view("t", QoS::AtMostOnce, b"m"), &to_front(QoS::AtMostOnce));
    let free = client.front.config.output_pool.free_bytes();
    client.receives();
    assert_eq!(client.front.config.output_pool.free_bytes(), free + 512);
}

#[test]
fn what_only_some_connections_need_goes_back_when_idle() {
    let hello = Hello {
        keep_alive_seconds: 60,
        ..Hello::default()
    };
    let mut client = Client::attached_with(V5, |_| {}, &hello);
    assert!(client.front.inbound.is_none() && client.front.outbound.is_none());
    client.publishes("t", 2, 1);
    client.pubrels(1);
    client.gets_run(0, 0);
    client.passes(1_000);
    client.front.handle_timeout(client.now, &mut client.shell);
    assert!(client.front.inbound.is_none());
    assert!(client.front.outbound.is_some(), "a delivery is under way");
    client.pubacks(1);
    client.front.handle_timeout(client.now, &mut client.shell);
    assert!(client.front.outbound.is_none());
}
