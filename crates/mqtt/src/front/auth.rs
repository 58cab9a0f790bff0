//! Authentication as events: methods are plugged in by the shell, the exchange of packets is here.

use std::fmt;

use crate::codec::ReasonCode;

/// What a client says of itself in CONNECT.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// Client id, already assigned when the client sent none.
    pub client_id: &'a str,
    /// User name.
    pub user_name: Option<&'a str>,
    /// Password.
    pub password: Option<Password<'a>>,
    /// Authentication Method of v5.
    pub method: Option<&'a str>,
    /// Authentication Data of v5.
    pub data: &'a [u8],
}

/// A password; `Debug` prints its length only.
#[derive(Clone, Copy)]
pub struct Password<'a>(pub &'a [u8]);

impl fmt::Debug for Password<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Password({} bytes)", self.0.len())
    }
}

/// What comes next in an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthStep {
    /// The client is who it says. With data for CONNACK, or for the last AUTH of a re-authentication.
    Accepted(Vec<u8>),
    /// AUTH 0x18 with this data goes to the client, its answer to [`AuthExchange::answer`].
    Continue(Vec<u8>),
    /// It is not: one of Bad User Name or Password, Not authorized, Bad authentication method, Banned, Server unavailable,
    /// Server busy, Unspecified error.
    Refused(ReasonCode),
    /// The answer comes later by [`Front::handle_authenticated`](super::Front::handle_authenticated).
    Pending,
}

/// The server's side of an exchange under way.
pub trait AuthExchange {
    /// The client's answer to [`AuthStep::Continue`].
    fn answer(&mut self, data: &[u8]) -> AuthStep;
}

/// Ways to authenticate.
pub trait Authentication: fmt::Debug {
    /// Begins an exchange, at CONNECT or when an attached client authenticates again. The second part is there when answers of the
    /// client are expected.
    fn begin(&self, login: &Login<'_>) -> (AuthStep, Option<Box<dyn AuthExchange>>);
}

/// Lets everyone in who names no method; user name and password are not looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anonymous;

impl Authentication for Anonymous {
    fn begin(&self, login: &Login<'_>) -> (AuthStep, Option<Box<dyn AuthExchange>>) {
        let step = match login.method {
            None => AuthStep::Accepted(Vec::new()),
            // v5 [MQTT-4.12.0-1]
            Some(_) => AuthStep::Refused(ReasonCode::BadAuthenticationMethod),
        };
        (step, None)
    }
}
