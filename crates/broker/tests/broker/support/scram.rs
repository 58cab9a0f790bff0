//! The client's side of SCRAM-SHA-256, by RFC 5802 section 3.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("a key of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

fn xor(a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
    std::array::from_fn(|at| a[at] ^ b[at])
}

/// Hi(): written out, so that a mistake in the use of a library would show.
fn salted(password: &str, salt: &[u8], iterations: u32) -> [u8; 32] {
    let mut last = hmac(password.as_bytes(), &[salt, &[0, 0, 0, 1]].concat());
    let mut sum = last;
    for _ in 1..iterations {
        last = hmac(password.as_bytes(), &last);
        sum = xor(sum, last);
    }
    sum
}

/// The client's last message to a server's first one.
pub(crate) fn answer(server_first: &str, client_first: &str, password: &str) -> String {
    let bare = client_first.strip_prefix("n,,").expect("without binding");
    let mut attributes = server_first.split(',');
    let mut attribute = |name: &str| {
        let text = attributes.next().expect("three attributes");
        text.strip_prefix(name).expect("in this order").to_owned()
    };
    let (nonce, salt, iterations) = (attribute("r="), attribute("s="), attribute("i="));
    let salt = STANDARD.decode(salt).expect("base64");
    let salted = salted(password, &salt, iterations.parse().expect("a number"));
    let client_key = hmac(&salted, b"Client Key");
    let last = format!("c=biws,r={nonce}");
    let message = format!("{bare},{server_first},{last}");
    let stored_key: [u8; 32] = Sha256::digest(client_key).into();
    let proof = xor(client_key, hmac(&stored_key, message.as_bytes()));
    format!("{last},p={}", STANDARD.encode(proof))
}
