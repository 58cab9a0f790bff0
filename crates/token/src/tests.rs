use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use courser_access::RoleName;
use serde_json::{Value, json};

use crate::{Grant, KeyError, KeySet, Loaded, Policy, TOKEN_BYTES_MAX, TokenError, Verifier};

const NOW: u64 = 1_800_000_000;
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Who signs. Tokens are put together here and not by the crate that reads them.
enum Signer {
    Rs(RsaKeyPair),
    Es(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Hs(Vec<u8>),
    Nobody,
}

impl Signer {
    fn rs() -> Self {
        Self::Rs(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
    }

    fn es() -> Self {
        Self::Es(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    fn ed() -> Self {
        Self::Ed(Ed25519KeyPair::generate().unwrap())
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Rs(_) => "RS256",
            Self::Es(_) => "ES256",
            Self::Ed(_) => "EdDSA",
            Self::Hs(_) => "HS256",
            Self::Nobody => "none",
        }
    }

    fn sign(&self, text: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rs(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature)
                    .unwrap();
                signature
            }
            Self::Es(pair) => pair.sign(&random, text).unwrap().as_ref().to_vec(),
            Self::Ed(pair) => pair.sign(text).as_ref().to_vec(),
            Self::Hs(secret) => hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text)
                .as_ref()
                .to_vec(),
            Self::Nobody => Vec::new(),
        }
    }

    fn pem(&self) -> String {
        let der = match self {
            Self::Rs(pair) => AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key())
                .unwrap()
                .as_ref()
                .to_vec(),
            Self::Es(pair) => AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key())
                .unwrap()
                .as_ref()
                .to_vec(),
            Self::Ed(pair) => {
                let head = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
                [head, pair.public_key().as_ref()].concat()
            }
            Self::Hs(_) | Self::Nobody => unreachable!("it has no public key"),
        };
        let text = STANDARD.encode(der);
        let lines: Vec<&str> = text
            .as_bytes()
            .chunks(64)
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        let lines = lines.join("\n");
        format!("-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----\n")
    }

    fn jwk(&self, id: Option<&str>) -> Value {
        let mut key = match self {
            Self::Rs(pair) => json!({
                "kty": "RSA",
                "n": b64(pair.public_key().modulus().big_endian_without_leading_zero()),
                "e": b64(pair.public_key().exponent().big_endian_without_leading_zero()),
            }),
            Self::Es(pair) => {
                let point = pair.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "x": b64(&point[1..33]), "y": b64(&point[33..]) })
            }
            Self::Ed(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": b64(pair.public_key().as_ref()) })
            }
            Self::Hs(secret) => json!({ "kty": "oct", "k": b64(secret) }),
            Self::Nobody => unreachable!("it has no key"),
        };
        if let Some(id) = id {
            key["kid"] = id.into();
        }
        key
    }

    /// A token with this head, whose `alg` is the signer's unless it is given.
    fn token(&self, mut head: Value, claims: &Value) -> String {
        if head.get("alg").is_none() {
            head["alg"] = self.name().into();
        }
        let text = format!(
            "{}.{}",
            b64(head.to_string().as_bytes()),
            b64(claims.to_string().as_bytes())
        );
        let signature = self.sign(text.as_bytes());
        format!("{text}.{}", b64(&signature))
    }
}

fn set_of(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

fn verifier(keys: &[Value], policy: Policy) -> Verifier {
    let mut set = KeySet::default();
    set.add_key_set(set_of(keys).as_bytes()).unwrap();
    Verifier::new(set, policy)
}

fn ours() -> Policy {
    Policy {
        audience: vec!["courser".to_owned()],
        issuers: vec!["https://login.example".to_owned()],
        ..Policy::default()
    }
}

/// Claims that [`ours`] lets in, with changes; `null` takes one away.
fn claims(changes: &Value) -> Value {
    let mut claims = json!({
        "sub": "anna", "aud": "courser", "iss": "https://login.example", "exp": NOW + 600,
    });
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(name),
            value => claims
                .as_object_mut()
                .unwrap()
                .insert(name.clone(), value.clone()),
        };
    }
    claims
}

fn outcome(result: &Result<Grant, TokenError>) -> Result<&str, TokenError> {
    result.as_ref().map(|it| it.user.as_str()).map_err(|it| *it)
}

#[test]
fn the_examples_of_the_standard_verify() {
    // RFC 7515 appendices A.1 and A.3.
    let payload = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let keys = set_of(&[
        json!({ "kty": "oct", "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow" }),
        json!({ "kty": "EC", "crv": "P-256",
            "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" }),
    ]);
    let mut set = KeySet::default();
    set.add_key_set(keys.as_bytes()).unwrap();
    let policy = Policy {
        user_claim: "iss".to_owned(),
        leeway_seconds: 0,
        ..Policy::default()
    };
    let verifier = Verifier::new(set, policy);
    for (head, signature) in [
        (
            "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9",
            "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        ),
        (
            "eyJhbGciOiJFUzI1NiJ9",
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
        ),
    ] {
        let token = format!("{head}.{payload}.{signature}");
        let grant = verifier.verify(token.as_bytes(), 1_300_819_379);
        assert_eq!(outcome(&grant), Ok("joe"), "{head}");
        assert_eq!(grant.unwrap().ends_at, 1_300_819_380);
        let late = verifier.verify(token.as_bytes(), 1_300_819_380);
        assert_eq!(outcome(&late), Err(TokenError::Expired));
    }
}

#[test]
fn every_algorithm_by_key_set_and_by_file() {
    let signers = [
        Signer::rs(),
        Signer::es(),
        Signer::ed(),
        Signer::Hs(SECRET.to_vec()),
    ];
    let keys: Vec<Value> = signers.iter().map(|it| it.jwk(Some(it.name()))).collect();
    let by_set = verifier(&keys, ours());
    for signer in &signers {
        let mut set = KeySet::default();
        match signer {
            Signer::Hs(secret) => set.add_secret(secret).unwrap(),
            _ => set.add_public_key(signer.pem().as_bytes()).unwrap(),
        }
        let by_file = Verifier::new(set, ours());
        let head = json!({ "kid": signer.name(), "typ": "JWT" });
        let token = signer.token(head, &claims(&json!({})));
        let unnamed = signer.token(json!({}), &claims(&json!({})));
        for (token, verifier) in [
            (&token, &by_set),
            (&unnamed, &by_set),
            (&token, &by_file),
            (&unnamed, &by_file),
        ] {
            let grant = verifier.verify(token.as_bytes(), NOW);
            assert_eq!(outcome(&grant), Ok("anna"), "{}", signer.name());
        }
        for at in [0, token.len() / 2, token.len() - 2] {
            let mut bent = token.clone().into_bytes();
            bent[at] = if bent[at] == b'A' { b'B' } else { b'A' };
            assert!(by_set.verify(&bent, NOW).is_err(), "byte {at} is another");
        }
    }
}

#[test]
fn tokens_that_prove_nothing() {
    let es = Signer::es();
    let other = Signer::es();
    let verifier = verifier(&[es.jwk(Some("one"))], ours());
    let good = |changes: Value| es.token(json!({ "kid": "one" }), &claims(&changes));
    let cases: Vec<(&str, String, Result<&str, TokenError>)> = vec![
        ("right", good(json!({})), Ok("anna")),
        (
            "several audiences",
            good(json!({ "aud": ["a", "courser"] })),
            Ok("anna"),
        ),
        (
            "fractions",
            good(json!({ "exp": NOW as f64 + 1.5 })),
            Ok("anna"),
        ),
        (
            "ended within the leeway",
            good(json!({ "exp": NOW - 29 })),
            Ok("anna"),
        ),
        (
            "ended",
            good(json!({ "exp": NOW - 30 })),
            Err(TokenError::Expired),
        ),
        (
            "no end",
            good(json!({ "exp": null })),
            Err(TokenError::Claims),
        ),
        (
            "an end that is no number",
            good(json!({ "exp": "2100" })),
            Err(TokenError::Claims),
        ),
        (
            "an end before 1970",
            good(json!({ "exp": -1 })),
            Err(TokenError::Claims),
        ),
        (
            "an end beyond all years",
            good(json!({ "exp": 1e300 })),
            Err(TokenError::Claims),
        ),
        (
            "begins within the leeway",
            good(json!({ "nbf": NOW + 30 })),
            Ok("anna"),
        ),
        (
            "not yet",
            good(json!({ "nbf": NOW + 31 })),
            Err(TokenError::NotYet),
        ),
        (
            "a beginning that is no number",
            good(json!({ "nbf": [] })),
            Err(TokenError::Claims),
        ),
        (
            "another audience",
            good(json!({ "aud": "shop" })),
            Err(TokenError::Audience),
        ),
        (
            "a longer audience",
            good(json!({ "aud": "courser2" })),
            Err(TokenError::Audience),
        ),
        (
            "no audience",
            good(json!({ "aud": null })),
            Err(TokenError::Claims),
        ),
        (
            "another issuer",
            good(json!({ "iss": "https://evil.example" })),
            Err(TokenError::Issuer),
        ),
        (
            "a list of issuers",
            good(json!({ "iss": ["https://login.example"] })),
            Err(TokenError::Claims),
        ),
        (
            "no issuer",
            good(json!({ "iss": null })),
            Err(TokenError::Claims),
        ),
        (
            "no user",
            good(json!({ "sub": null })),
            Err(TokenError::User),
        ),
        (
            "an empty user",
            good(json!({ "sub": "" })),
            Err(TokenError::User),
        ),
        (
            "a user that is a number",
            good(json!({ "sub": 7 })),
            Err(TokenError::User),
        ),
        (
            "a user with a control character",
            good(json!({ "sub": "a\u{0}b" })),
            Err(TokenError::User),
        ),
        (
            "of another key",
            other.token(json!({ "kid": "one" }), &claims(&json!({}))),
            Err(TokenError::Signature),
        ),
        (
            "an unknown key id",
            es.token(json!({ "kid": "two" }), &claims(&json!({}))),
            Err(TokenError::NoKey),
        ),
        (
            "an extension",
            es.token(
                json!({ "crit": ["b64"], "b64": false }),
                &claims(&json!({})),
            ),
            Err(TokenError::Extension),
        ),
        ("garbage", "garbage".to_owned(), Err(TokenError::Malformed)),
        ("nothing", String::new(), Err(TokenError::Malformed)),
        (
            "two parts",
            "e30.e30".to_owned(),
            Err(TokenError::Malformed),
        ),
        (
            "four parts",
            format!("{}.e30", good(json!({}))),
            Err(TokenError::Malformed),
        ),
        (
            "white space",
            format!(" {}", good(json!({}))),
            Err(TokenError::Malformed),
        ),
        (
            "padding",
            format!("{}=", good(json!({}))),
            Err(TokenError::Malformed),
        ),
        (
            "too long",
            good(json!({ "x": "y".repeat(TOKEN_BYTES_MAX) })),
            Err(TokenError::TooLong),
        ),
    ];
    for (what, token, expected) in cases {
        let result = verifier.verify(token.as_bytes(), NOW);
        assert_eq!(outcome(&result), expected, "{what}");
    }
}

#[test]
fn the_head_of_a_token_never_chooses_what_a_key_is_for() {
    let rs = Signer::rs();
    let verifier = verifier(&[rs.jwk(None)], ours());
    // The public key, which everybody has, taken for a secret.
    let forged = Signer::Hs(rs.pem().into_bytes());
    let der = match &rs {
        Signer::Rs(pair) => pair.public_key().as_ref().to_vec(),
        _ => unreachable!(),
    };
    let claims = claims(&json!({}));
    // A key of the forger, in the head of its own token.
    let own = Signer::es();
    for (what, token, expected) in [
        (
            "none",
            Signer::Nobody.token(json!({}), &claims),
            TokenError::Malformed,
        ),
        (
            "none, spelt otherwise",
            Signer::Nobody.token(json!({ "alg": "nOnE" }), &claims),
            TokenError::Malformed,
        ),
        (
            "no signature",
            Signer::Nobody.token(json!({ "alg": "RS256" }), &claims),
            TokenError::Signature,
        ),
        (
            "HS256 by the public key",
            forged.token(json!({}), &claims),
            TokenError::NoKey,
        ),
        (
            "HS256 by its DER",
            Signer::Hs(der).token(json!({}), &claims),
            TokenError::NoKey,
        ),
        (
            "RS256 in name",
            forged.token(json!({ "alg": "RS256" }), &claims),
            TokenError::Signature,
        ),
        (
            "RS512",
            rs.token(json!({ "alg": "RS512" }), &claims),
            TokenError::NoKey,
        ),
        (
            "PS256",
            rs.token(json!({ "alg": "PS256" }), &claims),
            TokenError::NoKey,
        ),
        (
            "its own key",
            own.token(json!({ "jwk": own.jwk(None) }), &claims),
            TokenError::NoKey,
        ),
        (
            "a key elsewhere",
            own.token(json!({ "jku": "https://evil.example/keys" }), &claims),
            TokenError::NoKey,
        ),
    ] {
        let result = verifier.verify(token.as_bytes(), NOW);
        assert_eq!(outcome(&result), Err(expected), "{what}");
    }
}

#[test]
fn an_audience_that_nobody_asked_for_is_somebody_else() {
    let es = Signer::es();
    let verifier = verifier(&[es.jwk(None)], Policy::default());
    let token = es.token(json!({}), &claims(&json!({})));
    let result = verifier.verify(token.as_bytes(), NOW);
    assert_eq!(outcome(&result), Err(TokenError::Audience));
    let token = es.token(json!({}), &claims(&json!({ "aud": null })));
    assert_eq!(outcome(&verifier.verify(token.as_bytes(), NOW)), Ok("anna"));
}

#[test]
fn roles_come_from_a_claim_and_from_the_policy() {
    let es = Signer::es();
    let key = es.jwk(None);
    let roles = |claim: &str, changes: Value| {
        let policy = Policy {
            roles_claim: Some(claim.to_owned()),
            roles: vec![RoleName::new("everybody").unwrap()],
            user_claim: "/who/name~1x".to_owned(),
            ..ours()
        };
        let mut all = json!({ "who": { "name/x": "ben" } });
        all.as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        let token = es.token(json!({}), &claims(&all));
        let grant = verifier(std::slice::from_ref(&key), policy).verify(token.as_bytes(), NOW)?;
        assert_eq!(grant.user.as_str(), "ben");
        let names: Vec<String> = grant.roles.into_iter().map(String::from).collect();
        Ok(names.join(" "))
    };
    let nested = json!({ "realm": { "roles": ["b", "a", "b"] } });
    let listed = |count: usize| (0..count).map(|number| format!("r{number:03}"));
    let most = || listed(64).collect::<Vec<_>>().join(" ");
    // Twice each, with what cannot be roles between, and the one that denies at the end.
    let repeated: Vec<String> = [listed(63), listed(63)]
        .into_iter()
        .flatten()
        .chain(["a b".to_owned(), "x/#".to_owned(), "r063".to_owned()])
        .collect();
    let too_many: Vec<String> = listed(65).collect();
    for (claim, changes, expected) in [
        (
            "groups",
            json!({ "groups": ["device", "a b", "", 7, "x/#"] }),
            "device everybody",
        ),
        (
            "scope",
            json!({ "scope": "read write" }),
            "everybody read write",
        ),
        ("/realm/roles", nested, "a b everybody"),
        ("groups", json!({}), "everybody"),
        (
            "groups",
            json!({ "groups": { "device": true } }),
            "everybody",
        ),
        ("/groups", json!({ "groups": "device" }), "device everybody"),
        (
            "https://x.example/roles",
            json!({ "https://x.example/roles": ["a"] }),
            "a everybody",
        ),
    ] {
        let found = roles(claim, changes.clone());
        let expected = Ok(expected.to_owned());
        assert_eq!(found, expected, "{claim} {changes}");
    }
    let all = Ok(format!("everybody {}", most()));
    assert_eq!(roles("groups", json!({ "groups": most() })), all);
    assert_eq!(roles("groups", json!({ "groups": repeated })), all);
    // One that is left out could be the one that denies.
    let refused = roles("groups", json!({ "groups": too_many }));
    assert_eq!(refused, Err(TokenError::Roles));
    let refused = roles("groups", json!({ "groups": too_many.join(" ") }));
    assert_eq!(refused, Err(TokenError::Roles));
}

#[test]
fn keys_that_are_of_no_use_are_passed_over_or_refused() {
    let (rs, es) = (Signer::rs(), Signer::es());
    let with = |signer: &Signer, name: &str, value: Value| {
        let mut key = signer.jwk(None);
        key[name] = value;
        key
    };
    let short = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let modulus = short.public_key().modulus();
    let weak = json!({
        "kty": "RSA", "e": "AQAB", "n": b64(&modulus.big_endian_without_leading_zero()[..255]),
    });
    for key in [
        with(&rs, "use", json!("enc")),
        with(&rs, "alg", json!("RS512")),
        with(&rs, "alg", json!("HS256")),
        with(&es, "alg", json!("RS256")),
        with(&es, "key_ops", json!(["sign"])),
        with(&es, "crv", json!("P-384")),
        with(&es, "x", json!("AA")),
        with(&es, "x", json!("!")),
        weak,
        json!({ "kty": "oct", "k": b64(&SECRET[..31]) }),
        json!({ "kty": "OKP", "crv": "X25519", "x": b64(&[9; 32]) }),
        json!({ "kty": "OKP", "crv": "Ed25519", "x": b64(&[9; 31]) }),
        json!({ "kty": "PQ" }),
        json!({}),
        json!(7),
    ] {
        let mut set = KeySet::default();
        let alone = set.add_key_set(set_of(std::slice::from_ref(&key)).as_bytes());
        assert!(
            matches!(alone, Err(KeyError::NoneOfUse(1))),
            "{key}: {alone:?}"
        );
        let both = set.add_key_set(set_of(&[key, es.jwk(None)]).as_bytes());
        let expected = Loaded {
            used: 1,
            passed_over: 1,
        };
        assert_eq!(both.unwrap(), expected);
    }
    let mut set = KeySet::default();
    for text in ["", "[]", "{}", r#"{"keys":7}"#, "\u{feff}{\"keys\":[]}"] {
        let refused = set.add_key_set(text.as_bytes());
        assert!(matches!(refused, Err(KeyError::NoSet(_))), "{text:?}");
    }
    let many = vec![es.jwk(None); 65];
    let refused = set.add_key_set(set_of(&many).as_bytes());
    assert!(matches!(refused, Err(KeyError::TooMany)));
    let private = es.pem().replace("PUBLIC", "PRIVATE");
    for text in [
        "",
        "x",
        &private,
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
    ] {
        let refused = set.add_public_key(text.as_bytes());
        assert!(matches!(refused, Err(KeyError::NoPublicKey)), "{text:?}");
    }
    let refused = set.add_secret(&SECRET[..31]);
    assert!(matches!(refused, Err(KeyError::ShortSecret(31))));
    assert!(set.is_empty(), "what was refused has added nothing");
}

#[test]
fn a_token_is_held_against_eight_keys_at_most() {
    let signers: Vec<Signer> = (0..9).map(|_| Signer::ed()).collect();
    let rs = Signer::rs();
    let named = |(at, signer): (usize, &Signer)| signer.jwk(Some(&format!("k{at}")));
    let mut keys: Vec<Value> = signers.iter().enumerate().map(named).collect();
    keys.push(rs.jwk(None));
    let last = signers.last().unwrap();
    let claims = claims(&json!({}));
    let (with_id, without) = (
        last.token(json!({ "kid": "k8" }), &claims),
        last.token(json!({}), &claims),
    );
    let all = verifier(&keys, ours());
    let eight = verifier(&keys[1..], ours());
    let says = |verifier: &Verifier, token: &str| {
        let result = verifier.verify(token.as_bytes(), NOW);
        result.map(|grant| grant.user.as_str().to_owned())
    };
    let anna = Ok("anna".to_owned());
    assert_eq!(says(&all, &with_id), anna);
    assert_eq!(says(&all, &without), Err(TokenError::ManyKeys));
    assert_eq!(says(&all, &rs.token(json!({}), &claims)), anna);
    assert_eq!(says(&eight, &without), anna);
    // Of keys without an id there are no more than that.
    let mut set = KeySet::default();
    for signer in &signers[1..] {
        set.add_public_key(signer.pem().as_bytes()).unwrap();
    }
    let refused = set.add_public_key(signers[0].pem().as_bytes());
    assert!(matches!(refused, Err(KeyError::TooMany)));
    set.add_public_key(rs.pem().as_bytes()).unwrap();
    assert_eq!(set.len(), 9);
}

#[test]
fn nothing_shows_a_secret() {
    let mut set = KeySet::default();
    set.add_secret(SECRET).unwrap();
    let shown = format!("{:?}", Verifier::new(set, ours()));
    let bytes = format!("{:?}", &SECRET[..4]);
    assert!(
        !shown.contains("0123") && !shown.contains(&bytes[1..bytes.len() - 1]),
        "{shown}"
    );
}
