//! Who is let in by certificates, and what set-ups work.

use super::*;
use crate::identity::{IdentityFrom, identity};
use crate::tls::Authority;

#[test]
fn a_client_that_does_not_know_the_authority_or_the_name_goes_away() {
    let (ca, other) = (Ca::new("authority"), Ca::new("other"));
    let material = server_material(&ca);
    for (trusted, name, names, agrees) in [
        (&ca, "broker.example", NameCheck::On, true),
        (&ca, "other.example", NameCheck::On, false),
        (&ca, "other.example", NameCheck::Off, true),
        (&other, "broker.example", NameCheck::On, false),
        (&other, "broker.example", NameCheck::Off, false),
    ] {
        let client = ClientMaterial {
            names,
            ..trust(trusted)
        };
        let mut pair = Pair::tls(&material, &client, name);
        assert_eq!(pair.run().is_ok(), agrees, "{name} {names:?}");
    }
}

#[test]
fn tls_1_2_is_spoken_only_by_choice() {
    let ca = Ca::new("authority");
    for (versions, agrees) in [(Versions::Tls13, false), (Versions::From12, true)] {
        let material = ServerMaterial {
            versions,
            ..server_material(&ca)
        };
        let server = tls::server(&material).expect("a good set-up").config;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        use rustls::pki_types::pem::PemObject;
        roots
            .add(CertificateDer::from_pem_slice(&ca.pem).expect("PEM"))
            .expect("an authority");
        let old = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS12])
            .expect("1.2 is known")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = tls::server_name("broker.example").expect("a name");
        let mut pair = Pair::new(
            Tunnel::server(Some(server), None).expect("TLS begins"),
            Tunnel::client(Some((Arc::new(old), name)), None).expect("TLS begins"),
        );
        assert_eq!(pair.run().is_ok(), agrees, "{versions:?}");
    }
}

#[test]
fn client_certificates_are_verified_and_say_who_it_is() {
    let (ca, other) = (Ca::new("authority"), Ca::new("other"));
    let authority = |revocations| Authority {
        certificates: ca.pem.clone(),
        revocations,
    };
    let required = |revocations| ClientCertificates::Required(authority(revocations));
    let good = || Some(ca.sign("sensor-7", 7));
    let table = [
        (required(None), good(), true),
        (required(None), None, false),
        (required(None), Some(other.sign("sensor-7", 7)), false),
        (ClientCertificates::Asked(authority(None)), None, true),
        (ClientCertificates::Asked(authority(None)), good(), true),
        (
            ClientCertificates::Asked(authority(None)),
            Some(other.sign("sensor-7", 7)),
            false,
        ),
        (required(Some(ca.revoke(&[8]))), good(), true),
        (required(Some(ca.revoke(&[7]))), good(), false),
        // A list of another authority says nothing of this one: fail closed.
        (required(Some(other.revoke(&[]))), good(), false),
    ];
    for (at, (clients, shown, agrees)) in table.into_iter().enumerate() {
        let has_certificate = shown.is_some();
        let material = ServerMaterial {
            clients,
            ..server_material(&ca)
        };
        let client = ClientMaterial {
            identity: shown,
            ..trust(&ca)
        };
        let mut pair = Pair::tls(&material, &client, "broker.example");
        assert_eq!(pair.run().is_ok(), agrees, "row {at}");
        if agrees {
            let who = pair
                .server
                .certificate()
                .map(|it| identity(it, IdentityFrom::CommonName));
            let expected = has_certificate.then(|| Ok("sensor-7".to_owned()));
            assert_eq!(who, expected, "row {at}");
        }
    }
}

/// Who renews a list may append the new one to the file.
#[test]
fn of_two_revocation_lists_of_an_authority_the_latest_counts() {
    let ca = Ca::new("authority");
    let old = |until| ca.list(1, until, &[]);
    let new = ca.list(2, 2099, &[7]);
    for (lists, serial, agrees) in [
        ([old(2099), new.clone()], 7, false),
        ([new.clone(), old(2099)], 7, false),
        ([old(2099), new.clone()], 8, true),
        // One that is over shuts nobody out.
        ([old(2025), new.clone()], 7, false),
        ([old(2025), new.clone()], 8, true),
        ([new.clone(), old(2025)], 8, true),
    ] {
        let material = ServerMaterial {
            clients: ClientCertificates::Required(Authority {
                certificates: ca.pem.clone(),
                revocations: Some(lists.concat()),
            }),
            ..server_material(&ca)
        };
        let client = ClientMaterial {
            identity: Some(ca.sign("sensor-7", serial)),
            ..trust(&ca)
        };
        let mut pair = Pair::tls(&material, &client, "broker.example");
        assert_eq!(pair.run().is_ok(), agrees, "serial {serial}");
        assert!(tls::doubts(&material, 1_800_000_000).is_empty());
    }
}

#[test]
fn a_set_up_that_cannot_work_says_which_part() {
    use crate::tls::Part;
    let ca = Ca::new("authority");
    let good = server_material(&ca);
    let (_, other_key) = ca.sign("broker.example", 2);
    let clients = |certificates: &[u8], revocations: Option<&[u8]>| {
        ClientCertificates::Required(Authority {
            certificates: certificates.to_vec(),
            revocations: revocations.map(<[u8]>::to_vec),
        })
    };
    let table = [
        (
            ServerMaterial {
                certificates: b"nothing".to_vec(),
                ..good.clone()
            },
            Part::Certificates,
        ),
        (
            ServerMaterial {
                key: Vec::new(),
                ..good.clone()
            },
            Part::Key,
        ),
        (
            ServerMaterial {
                key: other_key,
                ..good.clone()
            },
            Part::Key,
        ),
        (
            ServerMaterial {
                clients: clients(b"", None),
                ..good.clone()
            },
            Part::Authorities,
        ),
        (
            ServerMaterial {
                clients: clients(&ca.pem, Some(b"x")),
                ..good.clone()
            },
            Part::Revocations,
        ),
    ];
    for (material, part) in table {
        let error = tls::server(&material)
            .map(|_| ())
            .expect_err("it cannot work");
        assert_eq!(error.part, part, "{error}");
    }
}
