//! Who published a message, as the message itself carries it.

use sha2::{Digest, Sha256};

/// The first 80 bits of the SHA-256 of a client id: what a record says of its publisher, for subscriptions with No Local
/// (v5 [MQTT-3.8.3-3]).
///
/// It is of the client, not of a session: a message that a client published in an earlier session, before a clean start or a
/// restart of the broker, is still its own. It needs no key and no table, so that every node and every later start says the same.
///
/// Two clients with one hash would not get each other's messages by subscriptions with No Local. By chance that takes about
/// 10^12 clients; on purpose, to stay unheard by one that listens, 2^80 evaluations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientHash([u8; 10]);

impl ClientHash {
    /// Of a client id. Cost: one SHA-256, of one block up to 55 bytes.
    #[must_use]
    pub fn of(client_id: &str) -> Self {
        let digest = Sha256::digest(client_id.as_bytes());
        let first = digest.first_chunk();
        Self(*first.expect("a digest has 32 bytes"))
    }

    /// The two words in which a record keeps it.
    pub(crate) fn words(self) -> (u16, u64) {
        let [a, b, rest @ ..] = self.0;
        (u16::from_le_bytes([a, b]), u64::from_le_bytes(rest))
    }

    /// From those words.
    pub(crate) fn from_words(first: u16, rest: u64) -> Self {
        let mut bytes = [0; 10];
        bytes[..2].copy_from_slice(&first.to_le_bytes());
        bytes[2..].copy_from_slice(&rest.to_le_bytes());
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records are kept for years: the hash is what it was. The bytes are those of `printf %s sensor-7 | sha256sum`.
    #[test]
    fn the_hash_of_a_client_id_stays_the_same() {
        assert_eq!(
            ClientHash::of("sensor-7").0,
            [0xE9, 0x6D, 0xE0, 0x9F, 0x04, 0xF3, 0xE5, 0x8C, 0x47, 0x37],
        );
        assert_ne!(ClientHash::of("sensor-7"), ClientHash::of("sensor-8"));
    }

    #[test]
    fn its_words_give_it_back() {
        let hash = ClientHash::of("a");
        let (first, rest) = hash.words();
        assert_eq!(ClientHash::from_words(first, rest), hash);
    }
}
