//! One message for many fronts: encoded once for all receivers that differ only in packet id and topic alias.

use courser_contract::{Delivery, Now};

/// Buffers of [`Prepared`]; one a shard, used for message after message.
#[derive(Debug, Default)]
pub struct PreparedScratch {
    bytes: Vec<u8>,
}

/// A message with the encodings that its receivers have asked for so far.
#[derive(Debug)]
pub struct Prepared<'a> {
    delivery: Delivery<'a>,
    now: Now,
    scratch: &'a mut PreparedScratch,
}

impl<'a> Prepared<'a> {
    /// Begins the fan-out of a message.
    pub fn new(delivery: Delivery<'a>, now: Now, scratch: &'a mut PreparedScratch) -> Self {
        scratch.bytes.clear();
        Self {
            delivery,
            now,
            scratch,
        }
    }
}
