//! What TLS holds of what has not ended.

use rustls::crypto::cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::{ConnectionTrafficSecrets, ContentType, ProtocolVersion, SupportedCipherSuite};

use super::*;

/// A record takes so much more than what is in it: its head, the type of what is in it, and a tag.
const ADDED: usize = 5 + 1 + 16;

fn open() -> Pair {
    let ca = Ca::new("authority");
    let server = tls::server(&server_material(&ca)).expect("a good set-up");
    let mut client = (*tls::client(&trust(&ca)).expect("a good set-up")).clone();
    client.enable_secret_extraction = true;
    let name = tls::server_name("broker.example").expect("a name");
    let mut pair = Pair::new(
        Tunnel::server(Some(server.config), None).expect("TLS begins"),
        Tunnel::client(Some((Arc::new(client), name)), None).expect("TLS begins"),
    );
    pair.run().expect("both agree");
    pair
}

/// Records of a client that does with TLS what it likes.
struct Hand {
    number: u64,
    encrypter: Box<dyn MessageEncrypter>,
}

impl Hand {
    fn of(client: Tunnel) -> Self {
        let Some(Connection::Client(tls)) = client.tls.map(|tls| *tls) else {
            unreachable!("it has TLS");
        };
        let Some(SupportedCipherSuite::Tls13(suite)) = tls.negotiated_cipher_suite() else {
            unreachable!("both know TLS 1.3");
        };
        let (number, secrets) = tls.dangerous_extract_secrets().expect("it is allowed").tx;
        let (ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }) = secrets
        else {
            unreachable!("there are no others");
        };
        Self {
            number,
            encrypter: suite.aead_alg.encrypter(key, iv),
        }
    }

    fn record(&mut self, typ: ContentType, payload: &[u8]) -> Vec<u8> {
        let message = OutboundPlainMessage {
            typ,
            version: ProtocolVersion::TLSv1_3,
            payload: OutboundChunks::Single(payload),
        };
        let record = self.encrypter.encrypt(message, self.number);
        self.number += 1;
        record.expect("it can be sealed").encode()
    }
}

#[test]
fn what_tls_holds_of_a_record_without_its_end_is_told() {
    let mut pair = open();
    assert_eq!(pair.server.unfinished_bytes(), 0, "of the handshake");
    send(&mut pair.client, &[7; 16_000]);
    let mut wire = Vec::new();
    pair.client.write(&mut wire).expect("a vector takes all");
    let (last, most) = wire.split_last().expect("bytes");
    for chunk in most.chunks(CHUNK) {
        feed(&mut pair.server, chunk, &mut pair.at_server).expect("a record");
    }
    assert_eq!(pair.server.unfinished_bytes(), 16_000 + ADDED - 1);
    feed(&mut pair.server, &[*last], &mut pair.at_server).expect("a record");
    assert_eq!(pair.server.unfinished_bytes(), 0);
    assert_eq!(pair.at_server.len(), 16_000);
}

#[test]
fn what_tls_holds_of_a_handshake_message_without_its_end_is_told() {
    let mut pair = open();
    let mut hand = Hand::of(pair.client);
    let mut fed = |record: &[u8]| {
        feed(&mut pair.server, record, &mut pair.at_server).expect("a record");
        pair.server.unfinished_bytes()
    };
    // A KeyUpdate of 65,000 bytes (RFC 8446 section 4), all but the last thousand of them.
    let mut message = vec![0; 4 + 64_000];
    message[..4].copy_from_slice(&[24, 0, 0xfd, 0xe8]);
    let mut held = 0;
    for part in message.chunks(16_001) {
        held += part.len() + ADDED;
        assert_eq!(fed(&hand.record(ContentType::Handshake, part)), held);
    }
}

#[test]
fn records_that_end_and_give_something_leave_nothing() {
    let mut pair = open();
    let mut hand = Hand::of(pair.client);
    let mut fed = |record: &[u8]| {
        feed(&mut pair.server, record, &mut pair.at_server).expect("a record");
        pair.server.unfinished_bytes()
    };
    let mut wire = hand.record(ContentType::ApplicationData, b"");
    assert_eq!(
        fed(&wire),
        ADDED,
        "nobody can tell it from one that is joined"
    );
    wire = hand.record(ContentType::ApplicationData, b"bytes");
    wire.extend(hand.record(ContentType::ApplicationData, b"more"));
    let next = hand.record(ContentType::ApplicationData, b"behind");
    wire.extend(&next[..3]);
    assert_eq!(fed(&wire), 3);
    assert_eq!(fed(&next[3..]), 0);
    assert_eq!(pair.at_server, b"bytesmorebehind");
}
