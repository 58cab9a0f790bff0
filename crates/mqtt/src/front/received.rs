//! How many packets fronts have received, by version and type.
//!
//! A PUBLISH costs nothing of its own: packets are counted a read at a time, and those of other types one by one beside that.

use std::cell::Cell;

use crate::codec::{PacketType, ProtocolVersion};

/// Packets by version, 3.1.1 first, and by the number of their type.
pub type PacketNumbers = [[u64; 16]; 2];

/// Counters of the fronts of one listener on one shard.
#[derive(Debug, Default)]
pub struct PacketsReceived {
    all: [Cell<u64>; 2],
    /// Without PUBLISH.
    others: [[Cell<u64>; 16]; 2],
}

const fn place(version: ProtocolVersion) -> usize {
    match version {
        ProtocolVersion::V311 => 0,
        ProtocolVersion::V5 => 1,
    }
}

impl PacketsReceived {
    /// Packets of every type, good or bad.
    #[inline]
    pub(super) fn add(&self, version: ProtocolVersion, packets: u64) {
        let all = &self.all[place(version)];
        all.set(all.get() + packets);
    }

    /// One of them is no PUBLISH.
    #[inline]
    pub(super) fn add_other(&self, version: ProtocolVersion, packet: PacketType) {
        let count = &self.others[place(version)][packet as usize & 15];
        count.set(count.get() + 1);
    }

    /// Adds what was counted to `numbers`.
    pub fn add_to(&self, numbers: &mut PacketNumbers) {
        let versions = numbers.iter_mut().zip(&self.all).zip(&self.others);
        for ((numbers, all), others) in versions {
            let mut publishes = all.get();
            for (number, other) in numbers.iter_mut().zip(others) {
                *number += other.get();
                publishes = publishes.saturating_sub(other.get());
            }
            numbers[PacketType::Publish as usize] += publishes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nothing_else_is_a_publish() {
        let received = PacketsReceived::default();
        received.add_other(ProtocolVersion::V5, PacketType::Connect);
        received.add_other(ProtocolVersion::V5, PacketType::Auth);
        received.add(ProtocolVersion::V5, 5);
        received.add_other(ProtocolVersion::V311, PacketType::Pingreq);
        received.add(ProtocolVersion::V311, 1);
        let mut numbers = PacketNumbers::default();
        received.add_to(&mut numbers);
        received.add_to(&mut numbers);
        let mut expected = PacketNumbers::default();
        expected[1][1] = 2;
        expected[1][3] = 6;
        expected[1][15] = 2;
        expected[0][12] = 2;
        assert_eq!(numbers, expected);
    }
}
