//! Sessions that outlive their connections, and brokers with a folder that end.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use courser_broker::{Broker, Summary};

use super::{Client, PATIENCE, asked};

/// 3.1.1: CleanSession 0. 5.0: Clean Start 0.
pub(crate) const KEEP: u8 = 0x00;
const DISCONNECT: u8 = 0xE0;

pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for a test")
}

pub(crate) fn stop(broker: Broker) -> Summary {
    broker.stop().expect("nothing failed")
}

/// A 3.1.1 connection to a kept session, and whether that was there.
pub(crate) fn keep(address: SocketAddr, client_id: &str) -> (Client, bool) {
    Client::session(address, client_id, 4, KEEP, &[])
}

pub(crate) fn leave(mut client: Client) {
    client.send(DISCONNECT, &[]);
    assert!(client.is_closed());
}

/// Waits until a session has no connection: what was lost with it is known then.
pub(crate) fn wait_until_away(broker: &Broker, client_id: &str) {
    let deadline = Instant::now() + PATIENCE;
    let session = || asked(broker.control().session(client_id)).expect("the shards answer");
    while session().is_some_and(|row| row.connected) {
        assert!(Instant::now() < deadline, "{client_id} is connected");
        thread::sleep(Duration::from_millis(1));
    }
}
