//! What stops a start and can be found without one, by the code of the start itself.

use std::net::SocketAddr;

use courser_settings::{Login, Settings, is_public, listener_key};

use crate::access::{TokenKeys, TokensError};
use crate::broker::{RereadError, StartError};
use crate::config::{Anonymous, Config};
use crate::doors::{CertificateError, Certificates, may_be_public};
use crate::listen::{ListenError, proven};

/// Listeners that other machines reach and whose clients prove nothing, as far as settings say where that is: sockets that systemd opens
/// are looked at when they are taken.
#[must_use]
pub fn public_faults(settings: &Settings, anonymous: Anonymous) -> Vec<ListenError> {
    let mut found = Vec::new();
    let mqtt = &settings.mqtt;
    let public = |addresses: &[SocketAddr]| addresses.iter().copied().find(is_public);
    if mqtt.authentication == Login::None
        && anonymous == Anonymous::ThisMachine
        && let Some(address) = public(&mqtt.listen)
    {
        found.push(ListenError::PublicMqtt { address });
    }
    for door in &settings.doors {
        if may_be_public(settings, door, anonymous) {
            continue;
        }
        if !door.proxies.is_empty() {
            found.push(ListenError::Proxied {
                listener: door.name.clone(),
                proven: proven(door),
            });
        } else if let Some(address) = public(&door.address) {
            found.push(ListenError::Public {
                listener: door.name.clone(),
                place: address.to_string(),
                proven: proven(door),
            });
        }
    }
    found
}

/// Files with certificates, keys, revocation lists and keys of tokens that cannot be used. Blocks for as long as the disk takes.
#[must_use]
pub fn file_faults(settings: &Settings) -> Vec<StartError> {
    let doors = settings.doors.iter();
    let certificates = doors.flat_map(Certificates::faults).map(StartError::from);
    let tokens = TokenKeys::faults(settings)
        .into_iter()
        .map(StartError::from);
    certificates.chain(tokens).collect()
}

/// That this machine, or the control group that this process is in, has too little memory to serve anybody.
#[must_use]
pub fn memory_fault(settings: &Settings) -> Option<StartError> {
    let config = Config::new(settings.clone());
    config.check_memory().err().map(StartError::from)
}

impl ListenError {
    /// The setting that is to change, where it is one.
    #[must_use]
    pub fn setting(&self) -> Option<String> {
        match self {
            Self::PublicMqtt { .. } => Some("mqtt.listen".to_owned()),
            Self::Public { listener, .. } => Some(listener_key(listener, "address")),
            Self::Proxied { listener, .. } => Some(listener_key(listener, "proxies")),
            Self::NotActivated { listener, .. } => Some(listener_key(listener, "activation")),
            Self::InUse { .. }
            | Self::SocketInUse { .. }
            | Self::Denied { .. }
            | Self::Unix { .. }
            | Self::Named { .. }
            | Self::Other { .. } => None,
        }
    }
}

impl StartError {
    /// The setting that is to change, where it is one.
    #[must_use]
    pub fn setting(&self) -> Option<String> {
        match self {
            Self::Listen(error) => error.setting(),
            Self::Certificate(error) => Some(error.setting()),
            Self::Tokens(error) => Some(error.setting()),
            Self::Memory(_) => Some("memory.max".to_owned()),
            Self::Folder(_) | Self::Log(_) | Self::Random(_) | Self::Thread(_) => None,
        }
    }
}

impl RereadError {
    /// The setting that names the file.
    #[must_use]
    pub fn setting(&self) -> String {
        match self {
            Self::Certificate(error) => error.setting(),
            Self::Tokens(error) => error.setting(),
        }
    }
}

impl CertificateError {
    /// The setting that names the file.
    #[must_use]
    pub fn setting(&self) -> String {
        let (Self::Read {
            listener, field, ..
        }
        | Self::Material {
            listener, field, ..
        }) = self;
        listener_key(listener, field)
    }
}

impl TokensError {
    /// The setting that is wrong, or names the file that is.
    #[must_use]
    pub fn setting(&self) -> String {
        match self {
            Self::Read { setting, .. } | Self::Keys { setting, .. } => (*setting).to_owned(),
            Self::Role { .. } => "tokens.roles".to_owned(),
        }
    }
}

/// The first of some, of which there is one.
pub(crate) fn first<E>(errors: Vec<E>) -> E {
    let mut errors = errors.into_iter();
    errors.next().expect("what failed says why")
}

#[cfg(test)]
mod tests {
    use super::*;
    use courser_settings::Sources;

    fn settings(of: &[&str]) -> Settings {
        let sources = of.iter().fold(Sources::new(), |all, one| all.set(one));
        sources.check().expect("the settings are right")
    }

    #[test]
    fn s12_who_may_be_reached_without_proof_is_named_once_for_each_listener() {
        let all = settings(&[
            "mqtt.listen=127.0.0.1:1,0.0.0.0:2,[::]:3",
            r#"listener=[
                { name = "a", address = ["127.0.0.1:4", "10.0.0.1:4"] },
                { name = "b", address = "127.0.0.1:5" },
                { name = "c", address = "127.0.0.1:6", proxies = "10.0.0.1" },
                { name = "d", address = "0.0.0.0:7", insecure_anonymous = true },
                { name = "e", address = "0.0.0.0:8", authentication = "accounts" },
                { name = "f", unix = "/f" },
            ]"#,
        ]);
        let found = public_faults(&all, Anonymous::ThisMachine);
        let found: Vec<_> = found.iter().filter_map(ListenError::setting).collect();
        let expected = [
            "mqtt.listen",
            r#"listener["a"].address"#,
            r#"listener["c"].proxies"#,
        ];
        assert_eq!(found, expected);
        assert!(public_faults(&all, Anonymous::Anywhere).is_empty());
        let login = settings(&["mqtt.listen=0.0.0.0:2", "mqtt.authentication=accounts"]);
        assert!(public_faults(&login, Anonymous::ThisMachine).is_empty());
        let login = settings(&[
            "mqtt.authentication=accounts",
            r#"listener=[{ name = "a", address = "0.0.0.0:4" }, { name = "b", address = "0.0.0.0:5", authentication = "none" }]"#,
        ]);
        let found = public_faults(&login, Anonymous::ThisMachine);
        let found: Vec<_> = found.iter().filter_map(ListenError::setting).collect();
        assert_eq!(found, [r#"listener["b"].address"#]);
    }

    #[test]
    fn certificates_that_make_nobody_a_user_are_not_said_to_prove_nothing() {
        const TLS: &str = r#"protocol = "mqtts", certificate = "c", key = "k""#;
        let told = |fields: &str, certificates: &str| {
            let all = settings(&[&format!(
                r#"listener=[{{ name = "a", {TLS}, {fields}, {certificates} }}]"#
            )]);
            let found = public_faults(&all, Anonymous::ThisMachine);
            let [fault] = &found[..] else {
                panic!("{found:?}");
            };
            fault.to_string()
        };
        for fields in [
            r#"address = "0.0.0.0:4""#,
            r#"address = "127.0.0.1:4", proxies = "10.0.0.1""#,
        ] {
            let none = told(fields, r#"client_certificates = "off""#);
            assert!(
                none.contains("its clients prove nothing: give it"),
                "{none}"
            );
            for shown in ["asked", "required"] {
                let shown = told(
                    fields,
                    &format!(r#"client_certificates = "{shown}", client_authorities = "c""#),
                );
                assert!(!shown.contains("prove nothing"), "{shown}");
                assert!(
                    shown.contains(r#"make nobody a user without authentication = "accounts""#),
                    "{shown}"
                );
            }
        }
    }

    #[test]
    fn every_file_that_cannot_be_used_is_named_with_its_setting() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("empty"), "").expect("a file");
        let door = format!(
            r#"listener=[
                {{ name = "a", protocol = "mqtts", certificate = "{missing}", key = "{missing}", client_certificates = "asked",
                   client_authorities = "{missing}", client_revocations = "{missing}" }},
                {{ name = "b", protocol = "wss", certificate = "{empty}", key = "{empty}", authentication = "tokens" }},
            ]"#,
            missing = path("missing"),
            empty = path("empty"),
        );
        let secret = format!("tokens.secret_file={}", path("missing"));
        let keys = format!("tokens.public_keys=[\"{}\"]", path("missing"));
        let set = format!("tokens.key_set={}", path("empty"));
        let roles = "tokens.roles=[\"a/b\"]";
        let tokens = [&secret, &keys, "tokens.audience=[\"us\"]", roles];
        let all = settings(&[&[&*door], &tokens.map(|it| it)[..]].concat());
        let named = |settings: &Settings| -> Vec<String> {
            let faults = file_faults(settings);
            faults.iter().filter_map(StartError::setting).collect()
        };
        assert_eq!(
            named(&all),
            [
                r#"listener["a"].client_authorities"#,
                r#"listener["a"].client_revocations"#,
                r#"listener["a"].certificate"#,
                r#"listener["a"].key"#,
                r#"listener["b"].certificate"#,
                "tokens.roles",
                "tokens.public_keys",
                "tokens.secret_file",
            ]
        );
        let tokens = ["mqtt.authentication=tokens", "tokens.audience=[\"us\"]"];
        let all = settings(&[&tokens[..], &[&set]].concat());
        assert_eq!(named(&all), ["tokens.key_set"], "an empty file");
        assert!(named(&Settings::default()).is_empty());
    }
}
