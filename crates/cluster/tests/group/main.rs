//! Groups under virtual time: alone, and three of them over a network that loses, delays and reorders.

mod alone;
mod bad_messages;
mod durable;
mod network;
mod node;
mod random;
mod real_log;
mod three;
