//! The MQTT client behind `courser pub`, `courser sub` and `courser bench`.
//!
//! [`Client`] is a plain blocking client for one connection. [`load`] drives many connections at once and measures. Both go through
//! TLS and WebSocket where [`Layers`] say so.
//! Neither is used by the project's end-to-end tests, which talk through clients of others.
#![forbid(unsafe_code)]

mod client;
mod error;
mod layers;
pub mod load;
mod message;
mod options;
mod packets;
pub mod probe;
mod socket;
mod stranger;

pub use client::{Client, SessionState, Stopper};
pub use courser_mqtt::codec::{ProtocolVersion, QoS, ReasonCode};
pub use courser_transport::tls::{ClientMaterial, MaterialError, NameCheck, Part, Trust};
pub use error::{Asked, ClientError, Meaning};
pub use layers::Layers;
pub use message::{Filter, Message, MessageProperty};
pub use options::{Endpoint, Options, VersionChoice, Will};
pub use router::filter_matches as matches;
pub use stranger::Speaks;
