//! Rings of one and of two slots carry what is stored over a restart, and sessions that outlive it (M48, I1, I4).

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;

use courser_broker::Broker;

use crate::support::sessions::{folder, keep, leave, stop};
use crate::support::{Client, broker_on_with, publish};

const PUBLISHERS: usize = 4;
const READERS: usize = 4;
/// Publishes of one client under way.
const WINDOW: u32 = 20;
/// Messages of each publisher that are settled when the broker ends, and at the end.
const SETTLED: u32 = 3 * WINDOW;
const ALL: u32 = 6 * WINDOW;

/// Three shards: a session is often on another one than its connection, and its publishers on others still.
fn start(folder: &Path, slots: usize) -> (Broker, SocketAddr) {
    let settings = ["sys.interval=0s"];
    let broker = broker_on_with(folder, 3, &settings, |config| config.ring_slots = slots);
    let address = broker.addresses()[0];
    (broker, address)
}

/// A kept session that publishes numbers to a topic of its own.
struct Writer {
    client: Client,
    topic: String,
    qos: u8,
}

impl Writer {
    fn open(address: SocketAddr, qos: u8, number: usize) -> Self {
        let (client, _) = keep(address, &format!("writer-{number}"));
        let topic = format!("data/{number}");
        Self { client, topic, qos }
    }

    fn send(&mut self, from: u32, duplicate: bool) {
        let mut bytes = Vec::new();
        for message in from..from + WINDOW {
            let payload = message.to_be_bytes();
            let mut packet = publish(&self.topic, self.qos, message as u16 + 1, &payload);
            packet[0] |= u8::from(duplicate) << 3;
            bytes.extend(packet);
        }
        self.client.send_raw(&bytes);
    }

    fn send_and_settle(&mut self, messages: std::ops::Range<u32>) {
        for from in messages.step_by(WINDOW as usize) {
            self.send(from, false);
            self.client.settle(self.qos, from as u16 + 1, WINDOW);
        }
    }
}

/// A kept session that is subscribed to all of them, and what its client remembers over connections.
struct Reader {
    name: String,
    qos: u8,
    /// The number that each topic is at.
    next: HashMap<String, u32>,
    /// Packet ids of QoS 2 whose messages it has and whose PUBREL has not come.
    unreleased: HashSet<[u8; 2]>,
}

impl Reader {
    fn new(address: SocketAddr, qos: u8, number: usize) -> (Self, Client) {
        let name = format!("reader-{number}");
        let (mut client, present) = keep(address, &name);
        assert!(!present);
        client.subscribe("data/+", qos);
        let reader = Self {
            name,
            qos,
            next: HashMap::new(),
            unreleased: HashSet::new(),
        };
        (reader, client)
    }

    fn resume(&self, address: SocketAddr) -> Client {
        let (client, present) = keep(address, &self.name);
        assert!(present, "the session is there");
        client
    }

    /// Takes a packet and answers it. Whether it is the answer to a ping.
    fn take(&mut self, client: &mut Client) -> bool {
        let packet = client.receive();
        match packet.first & 0xF0 {
            0x30 => self.take_publish(client, packet.first, &packet.body),
            0x60 => {
                let id: [u8; 2] = packet.body[..2].try_into().expect("two bytes were taken");
                self.unreleased.remove(&id);
                client.send(0x70, &id);
            }
            kind => {
                assert_eq!(kind, 0xD0, "{packet:?}");
                return true;
            }
        }
        false
    }

    fn take_publish(&mut self, client: &mut Client, first: u8, body: &[u8]) {
        let end = 2 + usize::from(u16::from_be_bytes([body[0], body[1]]));
        let topic = String::from_utf8(body[2..end].to_vec()).expect("a topic is UTF-8");
        let id: [u8; 2] = body[end..end + 2].try_into().expect("two bytes were taken");
        let number = body[end + 2..].try_into().map(u32::from_be_bytes);
        let number = number.expect("a number was sent");
        client.send([0x40, 0x50][usize::from(self.qos) - 1], &id);
        if self.qos == 2 && !self.unreleased.insert(id) {
            assert_ne!(first & 0x08, 0, "what comes again is marked");
            return;
        }
        let next = self.next.entry(topic).or_default();
        // QoS 1 comes again when it was sent again.
        if self.qos == 1 && number < *next {
            return;
        }
        assert_eq!(number, *next, "I3, I4: in order, none left out, QoS 2 once");
        *next += 1;
    }

    fn has_all_below(&self, end: u32) -> bool {
        self.next.len() == PUBLISHERS && self.next.values().all(|&next| next >= end)
    }

    fn take_all_below(&mut self, client: &mut Client, end: u32) {
        while !self.has_all_below(end) {
            self.take(client);
        }
    }

    /// Nothing else comes.
    fn settle(mut self, mut client: Client) {
        client.send(0xC0, &[]);
        while !self.take(&mut client) {}
        assert!(self.next.values().all(|&next| next == ALL), "I4");
        leave(client);
    }
}

/// Every second reader is away; the others have taken some when the broker ends, and stand in the middle of exchanges.
fn before_the_restart(address: SocketAddr, qos: u8) -> (Vec<Reader>, Vec<Writer>) {
    let readers = (0..READERS).map(|number| {
        let (mut reader, mut client) = Reader::new(address, qos, number);
        thread::spawn(move || {
            if number % 2 == 0 {
                reader.take_all_below(&mut client, WINDOW + number as u32);
            } else {
                leave(client);
            }
            reader
        })
    });
    let readers: Vec<_> = readers.collect();
    let writers = (0..PUBLISHERS).map(|number| {
        thread::spawn(move || {
            let mut writer = Writer::open(address, qos, number);
            writer.send_and_settle(0..SETTLED);
            // Whoever ends now has these or has them not: its client does not know.
            writer.send(SETTLED, false);
            writer
        })
    });
    let writers: Vec<_> = writers.collect();
    let readers = readers.into_iter().map(|it| it.join().expect("it reads"));
    let readers = readers.collect();
    let writers = writers.into_iter().map(|it| it.join().expect("it writes"));
    (readers, writers.collect())
}

fn after_the_restart(address: SocketAddr, qos: u8, readers: Vec<Reader>) {
    let writers = (0..PUBLISHERS).map(|number| {
        thread::spawn(move || {
            let mut writer = Writer::open(address, qos, number);
            writer.send(SETTLED, true);
            writer.client.settle(qos, SETTLED as u16 + 1, WINDOW);
            writer.send_and_settle(SETTLED + WINDOW..ALL);
        })
    });
    let writers: Vec<_> = writers.collect();
    let readers = readers.into_iter().map(|mut reader| {
        thread::spawn(move || {
            let mut client = reader.resume(address);
            reader.take_all_below(&mut client, ALL);
            (reader, client)
        })
    });
    let readers: Vec<_> = readers.collect();
    for writer in writers {
        writer.join().expect("it writes");
    }
    for reader in readers {
        let (reader, client) = reader.join().expect("it reads");
        reader.settle(client);
    }
}

#[test]
fn m48_rings_of_few_slots_carry_kept_sessions_over_a_restart() {
    for (qos, slots) in [(2, 2), (2, 1), (1, 2)] {
        let folder = folder();
        let (broker, address) = start(folder.path(), slots);
        let (readers, writers) = before_the_restart(address, qos);
        stop(broker);
        drop(writers);
        let (broker, address) = start(folder.path(), slots);
        after_the_restart(address, qos, readers);
        stop(broker);
    }
}
