//! Clients that were sent away and go on sending.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use crate::support::{Client, broker, counter};

/// Enough that a turn could not read each of them once.
const SOCKETS: usize = 160;
/// What a turn's whole budget reads, one more because whoever is begun is finished.
const READS_MAX: u64 = 134;
/// What is read of a client that never got a session.
const BYTES_MAX: u64 = 1 << 20;
/// More than one read brings.
const SENT_AT_ONCE: usize = 256 * 1024;

/// Sends what is no CONNECT, and all that the broker takes behind it.
fn send_on(mut socket: TcpStream) {
    let noise = vec![0xC0; SENT_AT_ONCE];
    while match socket.write(&noise) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::Interrupted,
    } {}
}

fn begin(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).expect("the broker listens")
}

/// Their bytes are read like those of any other one: one read a look, within a turn's budget, and no more of them than a kernel holds. Counted,
/// for how long it takes is the machine's affair.
#[test]
fn i10_clients_that_go_on_sending_behind_a_fault_are_read_within_a_turns_budget() {
    let broker = broker(1, &[], |_| {});
    let address = broker.addresses()[0];
    let mut neighbour = Client::connect(address, "neighbour");
    thread::scope(|scope| {
        for socket in std::iter::repeat_with(|| begin(address)).take(SOCKETS) {
            scope.spawn(move || send_on(socket));
        }
        for _ in 0..20 {
            neighbour.send(0xC0, &[]);
            assert_eq!(neighbour.receive().first, 0xD0, "the answer to a ping");
        }
    });
    let summary = broker.stop().expect("nothing failed");
    assert_eq!(counter(&summary, "closed_fault"), SOCKETS as u64);
    let reads = counter(&summary, "most_read_in_turn");
    assert!(
        (1..=READS_MAX).contains(&reads),
        "{reads} reads in one turn"
    );
    let most = (SOCKETS as u64 + 1) * (BYTES_MAX + 2 * 64 * 1024);
    let read = counter(&summary, "bytes_received");
    assert!(read <= most, "{read} bytes were read");
}
