use rcgen::PublicKeyData;

use super::*;

// Of OpenSSL 3.0, and of use for nothing else: `ecparam -name prime256v1 -genkey`,
const WITH_PARAMETERS: &str = "\
-----BEGIN EC PARAMETERS-----
BggqhkjOPQMBBw==
-----END EC PARAMETERS-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIO22QP36MY+II2TVsbVgG9yUDaqyVgov4Vx2E95TmhXVoAoGCCqGSM49
AwEHoUQDQgAEwzF7iGrhnj7YMiXFQtveQL2cvFcz255zn00iSH0eiA/GwK8MIBiZ
ZB1G63v5p4XU5SJc8t97uJarEih1ecSVpA==
-----END EC PRIVATE KEY-----
";
// `ec -aes128` and `pkcs8 -topk8` of the same,
const ENCRYPTED_OLD: &str = "\
-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-128-CBC,D0C5F511FB1250BDC87C879A20B466CC

S92UyYV0fzwD/6xCRSlGxZIJSMdXARp2Iaf30Hm55Ro1GOgSF0Ns2kVPSaFyTOxW
qYibGuLlegbVra/LlrMSKdD9UOqUrxdgwsnfqSuhRt/hX9WAPtqZvZwRMhcek3dI
MYvdOV4uA3fuEpDKqPJlvP7pyaKp3UgXDdby46W0CzY=
-----END EC PRIVATE KEY-----
";
const ENCRYPTED: &str = "\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAg7Fjcbm9GAigICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEOdOvrf2lIZ++i/HeORPPqAEgZCC
7BPeF15xrZQbkYg7o9gy3D8ir4cfiE4XVWJMm3XgdMOcruDm3Bcz/vjhHv4lp4Df
JErfEXcRkqV6LZn5qvfu1jlWuLZfOwe3Y61SLI25RrUqzz6L6aX4HklPhfb8uXrD
70aLk9SBPChjV4ECT8l+tkIbnQtteo+rXIWyb42QQLlrjVG0pJw0P4V/kf0ZdSA=
-----END ENCRYPTED PRIVATE KEY-----
";
// `ecparam -name secp256k1 -genkey -noout`.
const OTHER_CURVE: &str = "\
-----BEGIN EC PRIVATE KEY-----
MHQCAQEEIMIbTLftrXrbBu/qLF4r/vlE/YEv4MHeZESqk46i+3yooAcGBSuBBAAK
oUQDQgAEtEmT/ZY6v1N5pkIkMfKABIt4VQWNKilqFpKIBPxnrIDUYNEHYF2DrBPn
8EhxCiFSzcy645JIG8EJhyy/JRPOFw==
-----END EC PRIVATE KEY-----
";

fn fault(text: &str) -> &'static str {
    signing_key(text.as_bytes()).expect_err("it is no key")
}

#[test]
fn what_stands_before_a_key_is_passed_over() {
    let key = signing_key(WITH_PARAMETERS.as_bytes()).expect("a key of its curve");
    let own = signing_key(key.serialize_pem().as_bytes()).expect("as it is written here");
    assert_eq!(own.subject_public_key_info(), key.subject_public_key_info());
}

#[test]
fn what_is_wrong_with_a_key_is_said_with_what_to_do() {
    let key = WITH_PARAMETERS
        .find("-----BEGIN EC PRIVATE")
        .expect("a key");
    let parameters = &WITH_PARAMETERS[..key];
    let public = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
    for (text, said) in [
        (ENCRYPTED, "is encrypted, and no passphrase is asked for"),
        (ENCRYPTED_OLD, "openssl pkey -in OLD -out NEW"),
        (OTHER_CURVE, "a private key that cannot be used"),
        (parameters, "only the parameters of a curve"),
        (public, "a public one"),
        ("0w...", "-inform DER"),
        ("nothing", "no private key"),
        ("", "no private key"),
        (&WITH_PARAMETERS[..key + 100], "malformed PEM"),
    ] {
        assert!(fault(text).contains(said), "{text}: {}", fault(text));
    }
}
