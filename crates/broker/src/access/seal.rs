//! Client ids that the broker assigns, as it knows them again without keeping them: of their 128 bits the last 48 follow from the others by a
//! secret that lasts as long as the data folder. So a client comes back with the one that it was given, after a start too, and also where its
//! session has ended; what a client makes up is another one.
//!
//! 80 random bits: among 10^9 of them two are the same once in two million times. 48 bits of the seal: who tries 10,000 a second needs
//! 400 years for one. A seal names no user, who is not known yet when the client id is: whose session it is, its home knows.

use courser_mqtt::front::assigned_bits_of;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::accounts::Secret;

/// Bits of the second word that are the seal.
const SEAL_BITS: u64 = (1 << 48) - 1;

/// Makes of random bits those of a client id.
pub(super) fn seal(secret: &Secret, [first, second]: [u64; 2]) -> [u64; 2] {
    let drawn = second & !SEAL_BITS;
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("a key of any length");
    mac.update(b"assigned client id");
    mac.update(&first.to_le_bytes());
    mac.update(&drawn.to_le_bytes());
    let digest = mac.finalize().into_bytes();
    let word = digest.first_chunk().expect("a digest has 32 bytes");
    [first, drawn | u64::from_le_bytes(*word) & SEAL_BITS]
}

/// Whether a client id was assigned here. Words are compared whole: how much of a guess is right cannot be told by the time.
pub(super) fn is_sealed(secret: &Secret, client_id: &str) -> bool {
    assigned_bits_of(client_id).is_some_and(|bits| seal(secret, bits) == bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_id([first, second]: [u64; 2]) -> String {
        format!("auto-{first:016x}{second:016x}")
    }

    #[test]
    fn a_client_id_is_known_as_assigned_by_the_secret_that_sealed_it_and_none_that_was_made_up() {
        let (secret, other) = (Secret([1; 32]), Secret([2; 32]));
        for drawn in [[0, 0], [7, u64::MAX], [u64::MAX, 1 << 48]] {
            let bits = seal(&secret, drawn);
            let id = client_id(bits);
            assert!(is_sealed(&secret, &id), "{id}");
            assert!(!is_sealed(&other, &id), "{id}");
            assert_eq!(bits[0], drawn[0]);
            assert_eq!(bits[1] >> 48, drawn[1] >> 48, "these are random");
            for bit in 0..64 {
                let changed = [bits[0] ^ 1 << bit, bits[1]];
                assert!(!is_sealed(&secret, &client_id(changed)), "{bit}");
                let changed = [bits[0], bits[1] ^ 1 << bit];
                assert!(!is_sealed(&secret, &client_id(changed)), "{bit}");
            }
        }
        for id in ["", "auto-", "anna", &"auto-0".repeat(6)] {
            assert!(!is_sealed(&secret, id), "{id}");
        }
    }
}
