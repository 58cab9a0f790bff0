//! Bytes that a server sends, MQTT 5.0.
#![no_main]

use courser_fuzz::decode_stream;
use courser_mqtt::codec::{ProtocolVersion, Sender};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| decode_stream(
    bytes,
    ProtocolVersion::V5,
    Sender::Server
));
