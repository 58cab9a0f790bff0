//! Bytes that a client sends, MQTT 3.1.1.
#![no_main]

use courser_fuzz::decode_stream;
use courser_mqtt::codec::{ProtocolVersion, Sender};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| decode_stream(
    bytes,
    ProtocolVersion::V311,
    Sender::Client
));
