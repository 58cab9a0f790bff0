//! Users, and clients that log in.

use std::net::SocketAddr;
use std::time::Duration;

use courser_access::scram::ScramKeys;
use courser_access::{
    Command, HashMemory, PasswordHash, Role, RoleName, Rule, SALT_BYTES, User, UserName,
};
use courser_broker::Broker;

use super::{Client, Packet, broker, counted, text};

pub(crate) const ACCOUNTS: &str = "mqtt.authentication=accounts";

pub(crate) fn name(text: &str) -> UserName {
    UserName::new(text).expect("a user name")
}

pub(crate) fn role_name(text: &str) -> RoleName {
    RoleName::new(text).expect("a role name")
}

pub(crate) fn role(rules: &[&str]) -> Role {
    let rule = |text: &&str| -> Rule { text.parse().expect("a rule") };
    Role {
        rules: rules.iter().map(rule).collect(),
        ..Role::default()
    }
}

pub(crate) fn user(password: &str, roles: &[&str]) -> User {
    let salt = [7; SALT_BYTES];
    let hash = PasswordHash::new(password.as_bytes(), salt, &mut HashMemory::default());
    User {
        password: Some(hash.expect("a password can be hashed")),
        scram: Some(ScramKeys::new(password.as_bytes(), salt)),
        roles: roles.iter().map(|role| role_name(role)).collect(),
        ..User::default()
    }
}

/// Makes a change that all shards act on when this returns: they look at the table before they look at sockets.
pub(crate) fn change(broker: &Broker, command: Command) {
    let done = broker
        .access()
        .change_and_wait(command, Duration::from_secs(20));
    done.expect("the change is made");
}

pub(crate) fn put_role(broker: &Broker, role_text: &str, rules: &[&str]) {
    change(broker, Command::PutRole(role_name(role_text), role(rules)));
}

pub(crate) fn put_user(broker: &Broker, user_text: &str, password: &str, roles: &[&str]) {
    change(
        broker,
        Command::PutUser(name(user_text), user(password, roles)),
    );
}

/// One with `anna` / `secret` who may do what `rules` say.
pub(crate) fn with_anna(shards: u16, rules: &[&str]) -> (Broker, SocketAddr) {
    let broker = broker(shards, &[ACCOUNTS], |_| {});
    let address = broker.addresses()[0];
    put_role(&broker, "anna", rules);
    put_user(&broker, "anna", "secret", &["anna"]);
    (broker, address)
}

/// What a CONNECT says besides.
pub(crate) struct Hello<'a> {
    pub(crate) version: u8,
    pub(crate) client_id: &'a str,
    /// Without user name and password.
    pub(crate) flags: u8,
    pub(crate) properties: &'a [u8],
    pub(crate) will: &'a [u8],
    pub(crate) login: Option<(&'a str, &'a str)>,
}

impl Default for Hello<'_> {
    fn default() -> Self {
        Self {
            version: 5,
            client_id: "c1",
            flags: 2,
            properties: &[],
            will: &[],
            login: Some(("anna", "secret")),
        }
    }
}

impl Hello<'_> {
    /// The socket, and the body of its CONNACK (or another first packet).
    pub(crate) fn say(&self, address: SocketAddr) -> (Client, Packet) {
        let mut client = Client::open(address);
        let logs_in = if self.login.is_some() { 0xC0 } else { 0 };
        let flags = self.flags | logs_in;
        let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', self.version, flags, 0, 60];
        if self.version == 5 {
            body.extend(counted(self.properties));
        }
        body.extend(text(self.client_id));
        body.extend_from_slice(self.will);
        if let Some((user, password)) = self.login {
            body.extend(text(user));
            body.extend(text(password));
        }
        client.send(0x10, &body);
        let answer = client.receive();
        (client, answer)
    }

    pub(crate) fn code(&self, address: SocketAddr) -> u8 {
        let (_, answer) = self.say(address);
        assert_eq!(answer.first, 0x20, "{answer:?}");
        answer.body[1]
    }

    pub(crate) fn accepted(&self, address: SocketAddr) -> Client {
        let (client, answer) = self.say(address);
        assert_eq!((answer.first, answer.body[1]), (0x20, 0), "{answer:?}");
        client
    }
}

pub(crate) fn anna(address: SocketAddr, client_id: &str) -> Client {
    Hello {
        client_id,
        ..Hello::default()
    }
    .accepted(address)
}

/// v5 SUBSCRIBE to one filter: its code.
pub(crate) fn subscribe(client: &mut Client, filter: &str) -> u8 {
    let mut body = vec![0, 1, 0];
    body.extend(text(filter));
    body.push(1);
    client.send(0x82, &body);
    let suback = client.receive();
    assert_eq!(suback.first, 0x90, "{suback:?}");
    // Behind the properties, which say why it is refused.
    *suback.body.last().expect("a code for each filter")
}

/// v5 PUBLISH with QoS 1: the code of its PUBACK.
pub(crate) fn publishes(client: &mut Client, topic: &str, retain: bool, payload: &str) -> u8 {
    let mut body = text(topic);
    body.extend([0, 9, 0]);
    body.extend_from_slice(payload.as_bytes());
    client.send(0x32 | u8::from(retain), &body);
    let puback = client.receive();
    assert_eq!(puback.first, 0x40, "{puback:?}");
    puback.body.get(2).copied().unwrap_or(0)
}

/// Topic and payload of the next delivery to a v5 client; acknowledged.
pub(crate) fn delivered(client: &mut Client) -> (String, String) {
    let packet = client.receive();
    delivery(client, &packet)
}

/// The same of a packet that has come.
pub(crate) fn delivery(client: &mut Client, packet: &Packet) -> (String, String) {
    assert_eq!(packet.first & 0xF6, 0x32, "{packet:?}");
    let topic_end = 2 + usize::from(u16::from_be_bytes([packet.body[0], packet.body[1]]));
    let topic = String::from_utf8(packet.body[2..topic_end].to_vec()).expect("UTF-8");
    client.send(0x40, &packet.body[topic_end..topic_end + 2]);
    let properties = usize::from(packet.body[topic_end + 2]);
    let payload = packet.body[topic_end + 3 + properties..].to_vec();
    (topic, String::from_utf8(payload).expect("text"))
}
