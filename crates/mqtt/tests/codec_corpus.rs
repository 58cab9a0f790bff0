//! The kept corpus of the fuzz targets, replayed without nightly or libFuzzer.

#[allow(unreachable_pub)] // a library of its own in fuzz/
#[path = "../../../fuzz/src/codec.rs"]
mod checks;
#[allow(unreachable_pub, reason = "the same file serves other crates")]
#[path = "../../../fuzz/src/kept.rs"]
mod kept;

use courser_mqtt::codec::{ProtocolVersion, Sender};

type Check = fn(&[u8]);

const TARGETS: [(&str, Check); 6] = [
    ("decode_client_v3", |bytes| {
        checks::decode_stream(bytes, ProtocolVersion::V311, Sender::Client);
    }),
    ("decode_client_v5", |bytes| {
        checks::decode_stream(bytes, ProtocolVersion::V5, Sender::Client);
    }),
    ("decode_server_v3", |bytes| {
        checks::decode_stream(bytes, ProtocolVersion::V311, Sender::Server);
    }),
    ("decode_server_v5", |bytes| {
        checks::decode_stream(bytes, ProtocolVersion::V5, Sender::Server);
    }),
    ("roundtrip", checks::roundtrip),
    ("frame_splits", checks::frame_splits),
];

/// Every kept input of every target, and each of them cut short by one byte.
#[test]
fn kept_corpus() {
    for (target, check) in TARGETS {
        let mut inputs = 0;
        kept::each(target, |bytes| {
            check(bytes);
            check(bytes.get(1..).unwrap_or_default());
            inputs += 1;
        });
        assert!(inputs >= 10, "{target} has {inputs} inputs");
    }
}
