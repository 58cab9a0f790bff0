use super::*;

fn user(name: &str) -> UserName {
    UserName::new(name).unwrap()
}

/// RFC 7677 section 3: the one exchange that the RFC spells out.
#[test]
fn rfc_7677_the_exchange_of_the_rfc_is_ours() {
    let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let keys = ScramKeys::with_iterations(b"pencil", &salt, 4096);
    let exchange = Exchange::begin(
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        b"secret",
        |name| (name.as_str() == "user").then_some(keys),
    )
    .unwrap();
    assert_eq!(
        exchange.server_first(),
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    );
    let last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    assert_eq!(
        exchange.finish(last),
        Ok((
            user("user"),
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_owned()
        ))
    );
    // The same proof for another nonce, with another header, or a bit of it turned.
    for wrong in [
        last.map(|b| if b == b'Q' { b'R' } else { b }).as_slice(),
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"c=eSws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    ] {
        assert!(exchange.finish(wrong).is_err());
    }
}

/// A client's side by the RFC, with its own arithmetic order.
fn proof_of(exchange: &Exchange, password: &[u8], keys: &ScramKeys) -> String {
    let mut salted = [0; 32];
    pbkdf2::pbkdf2_hmac::<Sha256>(password, &keys.salt, keys.iterations, &mut salted);
    let client_key = hmac(&salted, &[b"Client Key"]);
    let last = format!("c={},r={}", exchange.binding, exchange.nonce);
    let message = format!(
        "{},{},{last}",
        exchange.client_first_bare, exchange.server_first
    );
    let signature = hmac(&sha256(&client_key), &[message.as_bytes()]);
    let proof: Vec<u8> = client_key
        .iter()
        .zip(signature)
        .map(|(a, b)| a ^ b)
        .collect();
    format!("{last},p={}", STANDARD.encode(proof))
}

#[test]
fn names_with_commas_and_equals_signs_are_decoded() {
    let keys = ScramKeys::with_iterations(b"pw", &[1; 16], 4096);
    let mut asked = None;
    let exchange = Exchange::begin(b"y,,n=a=2Cb=3Dc,r=x", "server", b"s", |name| {
        asked = Some(name.clone());
        Some(keys.clone())
    })
    .unwrap();
    assert_eq!(asked, Some(user("a,b=c")));
    let right = proof_of(&exchange, b"pw", &keys);
    assert_eq!(exchange.finish(right.as_bytes()).unwrap().0, user("a,b=c"));
    let wrong = proof_of(&exchange, b"pv", &keys);
    assert_eq!(exchange.finish(wrong.as_bytes()), Err(ScramError::Proof));
}

#[test]
fn an_unknown_user_looks_like_one_with_another_password() {
    let first = |name: &str| {
        let message = format!("n,,n={name},r=x");
        let exchange = Exchange::begin(message.as_bytes(), "nonce", b"secret", |_| None).unwrap();
        exchange.server_first().to_owned()
    };
    assert_eq!(
        first("anna"),
        first("anna"),
        "a salt that changes tells who does not exist"
    );
    assert_ne!(first("anna"), first("bert"));
    assert!(first("anna").ends_with(&format!(",i={ITERATIONS}")));
    let exchange = Exchange::begin(b"n,,n=anna,r=x", "nonce", b"secret", |_| None).unwrap();
    for password in [&b""[..], b"anna", &[0; 32]] {
        let last = proof_of(&exchange, password, &exchange.keys);
        assert_eq!(exchange.finish(last.as_bytes()), Err(ScramError::Proof));
    }
}

#[test]
fn what_is_not_scram_is_refused() {
    use ScramError::{Malformed, Unsupported};
    for (message, expected) in [
        (&b""[..], Malformed),
        (b"n,,", Malformed),
        (b"n,,n=", Malformed),
        (b"n,,n=,r=x", Malformed),
        (b"n,,n=a", Malformed),
        (b"n,,n=a,r=", Malformed),
        (b"n,,n=a,r=\x80", Malformed),
        (b"n,,r=x,n=a", Malformed),
        (b"n,,n=a=2c,r=x", Malformed),
        (b"n,,n=a=,r=x", Malformed),
        (b"n,,n=a=2,r=x", Malformed),
        ("n,,n=a=é,r=x".as_bytes(), Malformed),
        (b"x,,n=a,r=x", Malformed),
        (b"p=tls-exporter,,n=a,r=x", Unsupported),
        (b"n,a=root,n=a,r=x", Unsupported),
        (b"n,,m=ext,n=a,r=x", Unsupported),
        (&[b'n'; 2000], Malformed),
    ] {
        let begun = Exchange::begin(message, "nonce", b"s", |_| None).map(|_| ());
        assert_eq!(begun, Err(expected), "{}", message.escape_ascii());
    }
}

#[test]
fn keys_are_written_as_they_are_read() {
    let keys = ScramKeys::new(b"secret", [3; SALT_BYTES]);
    let text = keys.to_string();
    assert_eq!(text.parse(), Ok(keys.clone()));
    assert_eq!(format!("{keys:?}"), "ScramKeys(..)");
    for wrong in [
        "",
        "SCRAM-SHA-256$",
        &text.replace("20000", "4095"),
        &text.replace("20000", "99999999"),
        &text[..text.len() - 4],
        &text.replace("SHA-256", "SHA-1"),
    ] {
        assert_eq!(wrong.parse::<ScramKeys>(), Err(KeysParseError), "{wrong}");
    }
}
