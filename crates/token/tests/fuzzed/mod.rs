//! What the fuzz target `jwt` does with its input.

use std::sync::OnceLock;

use courser_token::{Grant, KeySet, Policy, Verifier};
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use serde_json::Value;

const NOW: u64 = 1_800_000_000;
const SECRET: &[u8] = b"what nobody knows who makes inputs up";

fn policy() -> Policy {
    Policy {
        audience: vec!["courser".to_owned()],
        roles_claim: Some("/groups".to_owned()),
        ..Policy::default()
    }
}

fn verifier() -> &'static Verifier {
    static VERIFIER: OnceLock<Verifier> = OnceLock::new();
    VERIFIER.get_or_init(|| {
        let mut keys = KeySet::default();
        keys.add_secret(SECRET).expect("it is long enough");
        // Of RFC 7515 appendix A.3; its private key signs nothing here.
        let public = br#"{"keys":[{"kty":"EC","crv":"P-256","kid":"es",
            "x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
        keys.add_key_set(public).expect("a key set");
        Verifier::new(keys, policy())
    })
}

/// The first byte says what the rest is: a token, a key set, a key in PEM, or head and claims with a NUL between that are signed first.
pub fn jwt(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    match kind % 4 {
        0 => {
            let result = verifier().verify(rest, NOW);
            assert!(result.is_err(), "a signature was guessed: {result:?}");
        }
        1 => key_set(rest),
        2 => {
            let mut keys = KeySet::default();
            assert_eq!(keys.add_public_key(rest).is_ok(), keys.len() == 1);
        }
        _ => signed(rest),
    }
}

fn key_set(text: &[u8]) {
    let mut keys = KeySet::default();
    match keys.add_key_set(text) {
        Ok(loaded) => assert!((1..=64).contains(&loaded.used) && loaded.used == keys.len()),
        Err(_) => assert!(keys.is_empty(), "what is refused adds nothing"),
    }
    // Keys of whatever kind are asked about, and none of them made this.
    let verifier = Verifier::new(keys, policy());
    for algorithm in ["RS256", "ES256", "EdDSA", "HS256"] {
        let head = encode(format!(r#"{{"alg":"{algorithm}"}}"#).as_bytes());
        let token = format!("{head}.e30.AAAA");
        assert!(verifier.verify(token.as_bytes(), NOW).is_err());
    }
}

/// Base64 without padding, of URLs: enough of it for heads and claims.
fn encode(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letter = |bits: u32| char::from(LETTERS[(bits & 63) as usize]);
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let shifts = [18, 12, 6, 0];
        text.extend(shifts[..=chunk.len()].iter().map(|by| letter(bits >> by)));
    }
    text
}

fn signed(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (head, claims) = (parts.next().unwrap_or(b""), parts.next().unwrap_or(b""));
    let text = format!("{}.{}", encode(head), encode(claims));
    let key = EncodingKey::from_secret(SECRET);
    let signature = crypto::sign(text.as_bytes(), &key, Algorithm::HS256).expect("a secret signs");
    let token = format!("{text}.{signature}");
    if let Ok(grant) = verifier().verify(token.as_bytes(), NOW) {
        check(head, claims, &grant);
    }
}

/// What a grant promises, looked up in the claims by other means.
fn check(head: &[u8], claims: &[u8], grant: &Grant) {
    let head: Value = serde_json::from_slice(head).expect("a head is JSON");
    assert_eq!(head["alg"], "HS256");
    assert!(head.get("crit").is_none_or(Value::is_null));
    let claims: Value = serde_json::from_slice(claims).expect("claims are JSON");
    let end = claims["exp"].as_f64().expect("an end is a number");
    assert!(end + 31.0 > NOW as f64 && grant.ends_at > NOW);
    let ours = |audience: &Value| audience == "courser";
    let audience = &claims["aud"];
    let several = audience.as_array();
    assert!(ours(audience) || several.is_some_and(|all| all.iter().any(ours)));
    assert_eq!(claims["sub"], grant.user.as_str());
    assert!(grant.roles.len() <= 64);
}
