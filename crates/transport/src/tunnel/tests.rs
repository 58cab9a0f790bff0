//! A server's and a client's tunnel over two wires in memory.

mod certificates;
mod frames;
mod unfinished;
mod upgrade;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyPair, RevokedCertParams, SerialNumber,
};

use super::*;
use crate::tls::{self, ClientCertificates, ClientMaterial, NameCheck, ServerMaterial, Versions};
use crate::web::{Origins, WebLimits};

const CHUNK: usize = 1_000;

/// An authority that signs.
struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pem: Vec<u8>,
}

impl Ca {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            rcgen::KeyUsagePurpose::KeyCertSign,
            rcgen::KeyUsagePurpose::CrlSign,
        ];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("keys can be made");
        let pem = params
            .self_signed(&key)
            .expect("it can be signed")
            .pem()
            .into_bytes();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Certificate and key of `name`.
    fn sign(&self, name: &str, serial: u64) -> (Vec<u8>, Vec<u8>) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a DNS name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().expect("keys can be made");
        let signed = params
            .signed_by(&key, &self.issuer)
            .expect("it can be signed");
        (signed.pem().into_bytes(), key.serialize_pem().into_bytes())
    }

    /// The list of what it has revoked.
    fn revoke(&self, serials: &[u64]) -> Vec<u8> {
        self.list(1, 2099, serials)
    }

    /// A list with a number that counts until a year.
    fn list(&self, number: u64, until: i32, serials: &[u64]) -> Vec<u8> {
        let revoked = serials.iter().map(|&serial| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: rcgen::date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2024, 1, 1),
            next_update: rcgen::date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).expect("it can be signed");
        list.pem().expect("it can be written").into_bytes()
    }
}

fn server_material(ca: &Ca) -> ServerMaterial {
    let (certificates, key) = ca.sign("broker.example", 1);
    ServerMaterial {
        certificates,
        key,
        ..ServerMaterial::default()
    }
}

fn trust(ca: &Ca) -> ClientMaterial {
    ClientMaterial {
        authorities: ca.pem.clone(),
        ..ClientMaterial::default()
    }
}

fn web() -> Arc<WebServer> {
    Arc::new(WebServer {
        path: "/mqtt".into(),
        origins: Origins::Only(vec!["https://example.org".into()]),
        limits: WebLimits {
            first: 16 * 1024,
            later: 1 << 20,
        },
    })
}

/// Both ends of a connection.
struct Pair {
    server: Tunnel,
    client: Tunnel,
    at_server: Vec<u8>,
    at_client: Vec<u8>,
}

impl Pair {
    fn new(server: Tunnel, client: Tunnel) -> Self {
        Self {
            server,
            client,
            at_server: Vec::new(),
            at_client: Vec::new(),
        }
    }

    fn tls(server: &ServerMaterial, client: &ClientMaterial, name: &str) -> Self {
        let server = tls::server(server).expect("a good set-up").config;
        let client = tls::client(client).expect("a good set-up");
        let name = tls::server_name(name).expect("a name");
        Self::new(
            Tunnel::server(Some(server), None).expect("TLS begins"),
            Tunnel::client(Some((client, name)), None).expect("TLS begins"),
        )
    }

    /// Moves bytes, `CHUNK` at a time, until nothing moves any more.
    fn run(&mut self) -> Result<(), TunnelError> {
        loop {
            let mut moved = carry(&mut self.client, &mut self.server, &mut self.at_server)?;
            moved |= carry(&mut self.server, &mut self.client, &mut self.at_client)?;
            if !moved {
                return Ok(());
            }
        }
    }
}

fn carry(from: &mut Tunnel, to: &mut Tunnel, arrived: &mut Vec<u8>) -> Result<bool, TunnelError> {
    let mut wire = Vec::new();
    from.write(&mut wire).expect("a vector takes all");
    for chunk in wire.chunks(CHUNK) {
        feed(to, chunk, arrived)?;
    }
    Ok(!wire.is_empty())
}

/// A reader with little room.
fn feed(to: &mut Tunnel, bytes: &[u8], arrived: &mut Vec<u8>) -> Result<(), TunnelError> {
    let mut room = [0; 100];
    let mut count = to.receive(bytes, &mut room)?;
    while count > 0 {
        arrived.extend_from_slice(&room[..count]);
        count = to.take(&mut room);
    }
    Ok(())
}

fn send(tunnel: &mut Tunnel, bytes: &[u8]) {
    let taken = tunnel.send(bytes.chunks(700));
    assert_eq!(taken, bytes.len().min(700 * SLICES).min(SEND_BYTES));
}

#[test]
fn bytes_go_both_ways_through_every_combination_of_layers() {
    let ca = Ca::new("authority");
    let config = tls::server(&server_material(&ca))
        .expect("a good set-up")
        .config;
    let client = tls::client(&trust(&ca)).expect("a good set-up");
    let name = || tls::server_name("broker.example").expect("a name");
    for (tls, ws) in [(true, false), (false, true), (true, true)] {
        let server = Tunnel::server(tls.then(|| Arc::clone(&config)), ws.then(web).as_ref())
            .expect("it begins");
        let client = Tunnel::client(
            tls.then(|| (Arc::clone(&client), name())),
            ws.then_some(("h", "/mqtt")),
        )
        .expect("it begins");
        let mut pair = Pair::new(server, client);
        assert!(!pair.server.is_open());
        pair.run().expect("both agree");
        assert!(pair.server.is_open() && pair.client.is_open(), "{tls} {ws}");
        let request: Vec<u8> = (0..15_000_u32).map(|at| at as u8).collect();
        let answer: Vec<u8> = (0..40_000_u32).map(|at| (at * 7) as u8).collect();
        send(&mut pair.client, &request);
        send(&mut pair.server, &answer);
        pair.run().expect("both agree");
        assert_eq!(
            (&pair.at_server, &pair.at_client),
            (&request, &answer),
            "{tls} {ws}"
        );
        pair.client.close();
        pair.run().expect("a good-bye is no fault");
        assert!(pair.server.has_ended(), "{tls} {ws}");
    }
}
