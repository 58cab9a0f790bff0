//! MQTT 3.1.1 and 5.0: codec and session fronts, without I/O.
//!
//! - [`codec`]: bytes to packets and back, for both versions and both directions. Usable alone.
//! - [`front`]: the half of a session at the socket.
//!
//! Nothing here knows sockets, files, clocks, threads or an async runtime.
#![forbid(unsafe_code)]

pub mod codec;
pub mod front;

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
