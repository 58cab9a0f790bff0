//! The AUTH exchange, with a method made for the tests: the client answers the challenge "2+2".

use std::rc::Rc;

use super::support::{CLEAN, Client, Hello, V5, V311, attached, block};
use crate::codec::{
    Auth, Binary, Disconnect, MqttStr, Packet, Pingreq, Properties, Property, PropertyScope, QoS,
    ReasonCode, Secret, TopicName, Will,
};
use crate::front::{AuthExchange, AuthStep, Authentication, Login, Password};
use courser_contract::{Epoch, FrontId, ShardId, ToFront, WhyRefused};

#[derive(Debug)]
struct Sums;

#[derive(Debug)]
struct Sum;

impl Authentication for Sums {
    fn begin(&self, login: &Login<'_>) -> (AuthStep, Option<Box<dyn AuthExchange>>) {
        match (login.method, login.data) {
            (Some("SUM"), b"later") => (AuthStep::Pending, Some(Box::new(Sum))),
            (Some("SUM"), _) => (AuthStep::Continue(b"2+2".into()), Some(Box::new(Sum))),
            (Some(_), _) => (
                AuthStep::Refused(
                    ReasonCode::BadAuthenticationMethod,
                    WhyRefused::NoSuchMethod,
                ),
                None,
            ),
            (None, _) => match login.password.map(|password| password.0) {
                Some(b"right") => (AuthStep::Accepted(Vec::new()), None),
                _ => (
                    AuthStep::Refused(ReasonCode::BadUserNameOrPassword, WhyRefused::WrongPassword),
                    None,
                ),
            },
        }
    }
}

impl AuthExchange for Sum {
    fn answer(&mut self, data: &[u8]) -> AuthStep {
        match data {
            b"4" => AuthStep::Accepted(b"yes".into()),
            b"again" => AuthStep::Continue(b"3+1".into()),
            _ => AuthStep::Refused(ReasonCode::NotAuthorized, WhyRefused::WrongProof),
        }
    }
}

fn login(method: &str, data: &[u8]) -> Client {
    let mut client = Client::new(V5, |config| config.authentication = Rc::new(Sums));
    client.connects(&Hello {
        properties: &[
            Property::AuthenticationMethod(MqttStr::new(method).unwrap()),
            Property::AuthenticationData(Secret::new(data).unwrap()),
        ],
        ..Hello::default()
    });
    client
}

fn auth(client: &mut Client, reason: ReasonCode, method: &str, data: &[u8]) {
    let properties = block(
        PropertyScope::Auth,
        &[
            Property::AuthenticationMethod(MqttStr::new(method).unwrap()),
            Property::AuthenticationData(Secret::new(data).unwrap()),
        ],
    );
    client.says(&Packet::Auth(Auth {
        reason,
        properties: properties.properties(),
    }));
}

fn logged_in() -> Client {
    let mut client = login("SUM", b"");
    auth(&mut client, ReasonCode::ContinueAuthentication, "SUM", b"4");
    client.told(ToFront::Claimed { epoch: Epoch(7) });
    client.told(attached(CLEAN, 7, false));
    client.hears();
    client.effects();
    client
}

#[test]
fn a_method_takes_as_many_steps_as_it_needs() {
    // v5 [MQTT-4.12.0-2], v5 [MQTT-4.12.0-5], v5 [MQTT-3.2.0-1]: AUTH 0x18 before CONNACK, always with the method
    let mut client = login("SUM", b"");
    assert!(client.front.wants_read());
    assert_eq!(client.hears(), ["AUTH 0x18 SUM '2+2'"]);
    auth(
        &mut client,
        ReasonCode::ContinueAuthentication,
        "SUM",
        b"again",
    );
    assert_eq!(client.hears(), ["AUTH 0x18 SUM '3+1'"]);
    assert!(client.effects().is_empty(), "nothing is attached yet");
    auth(&mut client, ReasonCode::ContinueAuthentication, "SUM", b"4");
    assert_eq!(client.effects().len(), 1);
    client.told(ToFront::Claimed { epoch: Epoch(7) });
    client.told(attached(CLEAN, 7, false));
    let connack = client.hears().remove(0);
    assert!(
        connack.contains("AuthenticationMethod(\"SUM\") AuthenticationData(Secret(3 bytes))"),
        "{connack}"
    );
}

#[test]
fn i9_before_a_login_packets_of_the_exchange_are_small_too() {
    let mut client = login("SUM", b"");
    client.hears();
    // The beginning of an AUTH of 1 MiB.
    client.gives(&[0xF0, 0x80, 0x80, 0x40, 0x18]);
    assert!(!client.front.wants_read());
    assert_eq!(client.hears(), ["CONNACK 0x95"]);
}

#[test]
fn a_verdict_may_come_later() {
    let mut client = login("SUM", b"later");
    assert!(!client.front.wants_read());
    let step = AuthStep::Continue(b"2+2".into());
    client
        .front
        .handle_authenticated(client.now, step, &mut client.shell);
    assert_eq!(client.hears(), ["AUTH 0x18 SUM '2+2'"]);
    auth(&mut client, ReasonCode::ContinueAuthentication, "SUM", b"4");
    assert_eq!(client.effects().len(), 1);
}

#[test]
fn unknown_methods_are_refused() {
    // v5 [MQTT-4.12.0-1], with the methods of the tests and with none
    let mut client = login("GSSAPI", b"");
    assert_eq!(client.hears(), ["CONNACK 0x8C"]);
    assert_eq!(client.effects(), ["close Refused(140, NoSuchMethod)"]);
    let mut client = Client::new(V5, |_| {});
    client.connects(&Hello {
        properties: &[Property::AuthenticationMethod(MqttStr::new("SUM").unwrap())],
        ..Hello::default()
    });
    assert_eq!(client.hears(), ["CONNACK 0x8C"]);
}

#[test]
fn who_is_refused_has_the_client_id_that_was_said() {
    let mut late = login("SUM", b"later");
    let step = AuthStep::Refused(ReasonCode::NotAuthorized, WhyRefused::WrongProof);
    late.front
        .handle_authenticated(late.now, step, &mut late.shell);
    let mut willful = Client::new(V5, |config| {
        config.maximum_qos = courser_contract::QoS::AtMostOnce
    });
    willful.connects(&Hello {
        will: Some(Will {
            topic: TopicName::new("t").unwrap(),
            payload: Binary::new(b"").unwrap(),
            qos: QoS::AtLeastOnce,
            retain: false,
            properties: Properties::EMPTY,
        }),
        ..Hello::default()
    });
    for mut client in [login("GSSAPI", b""), late, willful] {
        let effects = client.effects();
        assert!(effects[0].starts_with("close Refused"), "{effects:?}");
        assert_eq!(client.front.client_id(), "c");
    }
}

#[test]
fn a_refusal_midway_is_a_connack() {
    // v5 [MQTT-4.12.0-4]
    let mut client = login("SUM", b"");
    client.hears();
    auth(&mut client, ReasonCode::ContinueAuthentication, "SUM", b"5");
    assert_eq!(client.hears(), ["CONNACK 0x87"]);
    assert_eq!(client.effects(), ["close Refused(135, WrongProof)"]);
}

#[test]
fn without_a_method_there_is_no_auth_and_none_in_connack() {
    // v5 [MQTT-4.12.0-6]; a wrong password is told in both versions
    for (version, code) in [(V5, 0x86), (V311, 4)] {
        let mut client = Client::new(version, |config| config.authentication = Rc::new(Sums));
        client.connects(&Hello::default());
        assert_eq!(client.receives()[3], code);
    }
    let mut client = Client::attached(V5);
    client.connects(&Hello::default());
    assert!(client.hears().iter().all(|line| !line.contains("Auth")));
}

#[test]
fn only_auth_and_disconnect_during_the_exchange() {
    let mut client = login("SUM", b"");
    client.hears();
    client.says(&Packet::Pingreq(Pingreq));
    // v5 [MQTT-3.14.0-1]: CONNACK and not DISCONNECT
    assert_eq!(client.hears(), ["CONNACK 0x82"]);
    assert_eq!(client.effects(), ["close Fault(130)"]);

    let mut client = login("SUM", b"");
    client.says(&Packet::Disconnect(Disconnect::new(
        ReasonCode::NORMAL_DISCONNECTION,
    )));
    assert_eq!(client.effects(), ["close Disconnect"]);

    let mut client = login("SUM", b"");
    client.hears();
    auth(&mut client, ReasonCode::ContinueAuthentication, "SUN", b"4");
    assert_eq!(client.hears(), ["CONNACK 0x82"]);
}

#[test]
fn an_exchange_that_takes_too_long_is_refused() {
    let mut client = login("SUM", b"");
    client.hears();
    client.passes(5_000);
    assert_eq!(client.hears(), ["CONNACK 0x87"]);
    assert_eq!(client.effects(), ["close LoginTimeout"]);
}

/// It has done nothing wrong, and "not authorized" makes clients give up.
#[test]
fn i10_who_waits_for_the_verdict_for_too_long_may_come_again() {
    let mut client = login("SUM", b"later");
    client.passes(5_000);
    assert_eq!(client.hears(), ["CONNACK 0x89"]);
    assert_eq!(client.effects(), ["close LoginWaited"]);
}

#[test]
fn an_attached_client_may_authenticate_again() {
    let mut client = logged_in();
    auth(&mut client, ReasonCode::ReAuthenticate, "SUM", b"");
    assert_eq!(client.hears(), ["AUTH 0x18 SUM '2+2'"]);
    client.says(&Packet::Pingreq(Pingreq));
    auth(&mut client, ReasonCode::ContinueAuthentication, "SUM", b"4");
    assert_eq!(client.hears(), ["PINGRESP", "AUTH 0x00 SUM 'yes'"]);
    assert!(client.effects().is_empty());
}

#[test]
fn a_failed_reauthentication_disconnects() {
    // v5 [MQTT-4.12.1-2]
    let mut client = logged_in();
    auth(&mut client, ReasonCode::ReAuthenticate, "SUM", b"");
    auth(&mut client, ReasonCode::ContinueAuthentication, "SUM", b"5");
    assert_eq!(client.hears(), ["AUTH 0x18 SUM '2+2'", "DISCONNECT 0x87"]);
    assert_eq!(
        client.effects().last().unwrap(),
        "close Refused(135, WrongProof)"
    );
}

#[test]
fn a_later_verdict_ends_a_reauthentication_too() {
    let mut client = logged_in();
    auth(&mut client, ReasonCode::ReAuthenticate, "SUM", b"later");
    assert!(client.front.wants_read());
    let step = AuthStep::Refused(ReasonCode::NotAuthorized, WhyRefused::WrongProof);
    client
        .front
        .handle_authenticated(client.now, step, &mut client.shell);
    assert_eq!(client.hears(), ["DISCONNECT 0x87"]);
}

#[test]
fn auth_in_the_wrong_place_is_a_fault() {
    for (reason, method) in [
        (ReasonCode::ContinueAuthentication, "SUM"),
        (ReasonCode::ReAuthenticate, "SUN"),
    ] {
        let mut client = logged_in();
        auth(&mut client, reason, method, b"");
        assert!(client.hears()[0].starts_with("DISCONNECT 0x82"));
        assert_eq!(client.effects().last().unwrap(), "close Fault(130)");
    }
    // without a method in CONNECT
    let mut client = Client::attached(V5);
    auth(&mut client, ReasonCode::ReAuthenticate, "SUM", b"");
    assert!(client.hears()[0].starts_with("DISCONNECT 0x82"));
    // AUTH does not exist in 3.1.1
    let mut client = Client::attached(V311);
    client.gives(&[0xF0, 0]);
    assert_eq!(client.effects().last().unwrap(), "close Fault(129)");
}

#[test]
fn i14_a_login_shows_nothing_that_opens_a_door() {
    let login = Login {
        front: FrontId {
            shard: ShardId(0),
            slot: 1,
            generation: 0,
        },
        client_id: "c1",
        user_name: Some("anna"),
        password: Some(Password(b"open sesame")),
        method: Some("JWT"),
        data: b"head.claims.signature",
        until: None,
    };
    let shown = format!("{login:?}");
    assert!(shown.contains("anna") && shown.contains("21 bytes"));
    for secret in ["open sesame", "head.claims.signature"] {
        let bytes = format!("{:?}", secret.as_bytes());
        assert!(
            !shown.contains(secret) && !shown.contains(&bytes),
            "{shown}"
        );
    }
}
