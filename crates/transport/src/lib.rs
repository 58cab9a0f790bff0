//! What may lie between a socket and MQTT: a PROXY header, TLS, WebSocket.
//!
//! All of it is bytes in, bytes out: a [`Tunnel`] is given what a socket received and gives the bytes of MQTT; it is given bytes
//! of MQTT and says what is to be written. Whoever owns the socket moves the bytes and keeps the time. The same [`Tunnel`]
//! does the handshakes and what follows, so that a server may do the first on another thread than the second.
//!
//! ```text
//!            ┌─ PROXY header (proxy) ─┐
//!  received ─┤   once, before all     ├─▶ TLS (Tunnel) ─▶ upgrade, frames (Tunnel) ─▶ MQTT
//!            └────────────────────────┘
//! ```
//!
//! No sockets, files, clocks or threads: certificates come as the text of PEM files ([`tls`]), and what a verified certificate
//! says of a client is read by [`identity`]. Every fault is a value that ends one connection.
#![forbid(unsafe_code)]

pub mod identity;
pub mod proxy;
pub mod tls;
mod tunnel;
mod web;

pub use tunnel::{Plain, Rest, Sent, Tunnel, TunnelError};
pub use web::{HEAD_BYTES_MAX, Origins, WebError, WebLimits, WebServer};
