//! `courser bench mqtt` against a broker that does one thing wrong: each fault is found, told with its number, and ends it with 1.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// Publishers, each with a subscriber and a topic of its own, and messages of each.
const PAIRS: u64 = 3;
const EACH: u64 = 20;
/// The message of each topic with which something is wrong.
const WRONG: usize = 7;

/// What the broker does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// It is acknowledged and not delivered.
    Lost,
    /// It is delivered twice, the second time as if it were new.
    Repeated,
    /// It is delivered behind the one that comes next.
    Late,
}

/// A topic: who gets its messages, and how many have come.
#[derive(Debug, Default)]
struct Topic {
    subscribers: Vec<TcpStream>,
    come: usize,
    /// A delivery that is late.
    held: Option<Vec<u8>>,
}

impl Topic {
    fn take(&mut self, delivery: Vec<u8>, fault: Fault) {
        self.come += 1;
        let now = match (fault, self.come == WRONG) {
            (Fault::Lost, true) => Vec::new(),
            (Fault::Repeated, true) => vec![delivery.clone(), delivery],
            (Fault::Late, true) => {
                self.held = Some(delivery);
                Vec::new()
            }
            (_, false) | (Fault::None, true) => vec![delivery],
        };
        let held = match now.is_empty() {
            true => None,
            false => self.held.take(),
        };
        for packet in now.into_iter().chain(held) {
            for subscriber in &mut self.subscribers {
                // Who has gone away needs no more.
                let _ = subscriber.write_all(&packet);
            }
        }
    }
}

type Topics = Arc<Mutex<HashMap<Vec<u8>, Topic>>>;

/// The next packet: its first byte, and what follows its length.
fn packet(from: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut byte = [0; 1];
    from.read_exact(&mut byte).ok()?;
    let first = byte[0];
    let (mut length, mut shift) = (0, 0);
    loop {
        from.read_exact(&mut byte).ok()?;
        length |= usize::from(byte[0] & 0x7F) << shift;
        shift += 7;
        if byte[0] & 0x80 == 0 {
            break;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    Some((first, body))
}

/// The text at the beginning, and what is behind it.
fn text(body: &[u8]) -> (&[u8], &[u8]) {
    let length = usize::from(u16::from_be_bytes([body[0], body[1]]));
    body[2..].split_at(length)
}

/// Speaks as much of 3.1.1 at QoS 1 as the clients of a load do.
fn serve(mut client: TcpStream, topics: &Topics, fault: Fault) -> Option<()> {
    loop {
        let (first, body) = packet(&mut client)?;
        let answer = match first >> 4 {
            1 => vec![0x20, 2, 0, 0],
            3 => {
                let (name, rest) = text(&body);
                let mut delivery = vec![first & !0x08];
                // A load's packets are shorter than two bytes of length can say.
                delivery.extend([(body.len() & 0x7F) as u8 | 0x80, (body.len() >> 7) as u8]);
                delivery.extend(&body);
                let acknowledgement = vec![0x40, 2, rest[0], rest[1]];
                let mut topics = topics.lock().expect("nobody panics");
                topics
                    .entry(name.to_vec())
                    .or_default()
                    .take(delivery, fault);
                acknowledgement
            }
            8 => {
                let (id, mut filters) = body.split_at(2);
                let mut answer = vec![0x90, 0, id[0], id[1]];
                while !filters.is_empty() {
                    let (name, rest) = text(filters);
                    let mut topics = topics.lock().expect("nobody panics");
                    let topic = topics.entry(name.to_vec()).or_default();
                    topic
                        .subscribers
                        .push(client.try_clone().expect("a socket"));
                    answer.push(rest[0]);
                    filters = &rest[1..];
                }
                answer[1] = answer.len() as u8 - 2;
                answer
            }
            12 => vec![0xD0, 0],
            14 => return None,
            _ => continue,
        };
        client.write_all(&answer).ok()?;
    }
}

/// A broker that does this; its port.
fn broker(fault: Fault) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        let topics = Topics::default();
        for client in listener.incoming() {
            let (client, topics) = (client.expect("a client"), Arc::clone(&topics));
            thread::spawn(move || serve(client, &topics, fault));
        }
    });
    port
}

/// The code and the figures of a load.
fn load(fault: Fault, more: &[&str]) -> (Option<i32>, Value) {
    let port = broker(fault).to_string();
    let (pairs, count) = (PAIRS.to_string(), (PAIRS * EACH).to_string());
    let done = Command::new(env!("CARGO_BIN_EXE_courser"))
        .args(["bench", "mqtt", "-V", "311", "-p", &port, "-o", "json"])
        .args(["--closed", "--clients", &pairs, "-n", &count, "-w", "1"])
        .args(["--quiet", "--drain", "5s"])
        .args(more)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    let figures = serde_json::from_slice(&done.stdout);
    (
        done.status.code(),
        figures.unwrap_or_else(|error| panic!("{error}: {said}")),
    )
}

#[test]
fn a_load_finds_what_is_lost_repeated_or_out_of_order_of_all_its_streams() {
    for more in [&[][..], &["--one-thread"]] {
        for (fault, name) in [
            (Fault::None, ""),
            (Fault::Lost, "lost"),
            (Fault::Repeated, "duplicates_unmarked"),
            (Fault::Late, "out_of_order"),
        ] {
            let (code, figures) = load(fault, more);
            let faults = ["lost", "duplicates_unmarked", "out_of_order"].map(|it| {
                let found = figures[it].as_u64().expect("a figure");
                (it, found)
            });
            let expected = faults.map(|(it, _)| (it, if it == name { PAIRS } else { 0 }));
            assert_eq!(faults, expected, "{fault:?} {more:?}: {figures}");
            assert_eq!(figures["sent"], PAIRS * EACH, "{figures}");
            let wrong = i32::from(fault != Fault::None);
            assert_eq!(code, Some(wrong), "{fault:?} {more:?}");
        }
    }
}
