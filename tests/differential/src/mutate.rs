//! Small damage to valid packets.

use rand::{Rng, RngExt};

/// Changes, inserts or removes up to three bytes; mostly repairs the remaining length, so that the damage lies in the body.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut impl Rng) {
    for _ in 0..random.random_range(1..=3) {
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..8) {
            0 | 1 => bytes[at] = random.random(),
            2 => bytes[at] ^= 1 << random.random_range(0..8),
            3 => bytes[at] = bytes[at].wrapping_add(1),
            4 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF, b'#', b'+', b'/'][random.random_range(0..8)],
            5 => bytes.insert(at, random.random()),
            6 if bytes.len() > 2 => drop(bytes.remove(at)),
            _ => bytes.truncate((at + 2).min(bytes.len())),
        }
    }
    if random.random_range(0..8) > 0 {
        repair(bytes);
    }
}

/// Gives the packet the remaining length that it has, when its old one had one byte or still ends where it did.
fn repair(bytes: &mut Vec<u8>) {
    let old = bytes
        .iter()
        .skip(1)
        .take(4)
        .position(|byte| byte & 0x80 == 0);
    let Some(old) = old else { return };
    let body = bytes.split_off(old + 2);
    bytes.truncate(1);
    let mut len = body.len();
    while len >= 128 {
        bytes.push((len % 128) as u8 | 0x80);
        len /= 128;
    }
    bytes.push(len as u8);
    bytes.extend(body);
}
