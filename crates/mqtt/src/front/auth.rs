//! Authentication as events: methods are plugged in by the shell, the exchange of packets is here.

use std::fmt;

use courser_contract::{CloseCause, DetachCause, FrontEffects, FrontId, Now, Tick, WhyRefused};

use super::close::{End, Fault};
use super::{Flow, Front};
use crate::codec::{Auth, MqttStr, PropertiesBuilder, Property, PropertyScope, ReasonCode, Secret};

/// What a client says of itself in CONNECT. `Debug` prints lengths only of what proves it.
#[derive(Clone, Copy)]
pub struct Login<'a> {
    /// The front that asks; the same for every exchange of a connection.
    pub front: FrontId,
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
    /// After this nobody waits for what comes of it any more. None: the client is attached, and waits for as long as it takes.
    pub until: Option<Tick>,
}

impl fmt::Debug for Login<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("front", &self.front)
            .field("client_id", &self.client_id)
            .field("user_name", &self.user_name)
            .field("password", &self.password)
            .field("method", &self.method)
            // By some methods a whole token, which opens the door to whoever reads it.
            .field("data", &format_args!("{} bytes", self.data.len()))
            .field("until", &self.until)
            .finish()
    }
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
    Refused(ReasonCode, WhyRefused),
    /// The answer comes later by [`Front::handle_authenticated`](super::Front::handle_authenticated).
    Pending,
}

/// The server's side of an exchange under way.
pub trait AuthExchange: fmt::Debug {
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
            Some(_) => AuthStep::Refused(
                ReasonCode::BadAuthenticationMethod,
                WhyRefused::NoSuchMethod,
            ),
        };
        (step, None)
    }
}

/// The method of an attached client, and its exchange when it authenticates again.
#[derive(Debug)]
pub(super) struct ReAuthentication {
    method: Box<str>,
    exchange: Option<Box<dyn AuthExchange>>,
    turn: Turn,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// No exchange is under way.
    Nobody,
    /// The client answers.
    Client,
    /// The verdict comes later.
    Server,
}

impl ReAuthentication {
    pub(super) fn new(method: Box<str>) -> Self {
        Self {
            method,
            exchange: None,
            turn: Turn::Nobody,
        }
    }
}

impl Front {
    /// AUTH of an attached client: v5 section 4.12.1. Without a method in CONNECT it is a Protocol Error, v5 [MQTT-4.12.0-7].
    pub(super) fn handle_reauthentication(
        &mut self,
        now: Now,
        auth: &Auth<'_>,
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        let _ = now;
        let Some(state) = &mut self.reauthentication else {
            return Err(Fault::protocol("CONNECT named no authentication method"));
        };
        let properties = &auth.properties;
        if properties.authentication_method().as_deref() != Some(&*state.method) {
            return Err(Fault::protocol("the authentication method has changed"));
        }
        let data = properties
            .authentication_data()
            .map_or(&[][..], |data| data.reveal());
        let step = match (auth.reason, state.turn, &mut state.exchange) {
            (ReasonCode::ReAuthenticate, Turn::Nobody, _) => {
                let (step, exchange) = self.config.authentication.begin(&Login {
                    front: self.id,
                    client_id: &self.session.client_id,
                    user_name: None,
                    password: None,
                    method: Some(&state.method),
                    data,
                    until: None,
                });
                state.exchange = exchange;
                step
            }
            (ReasonCode::ContinueAuthentication, Turn::Client, Some(exchange)) => {
                exchange.answer(data)
            }
            _ => return Err(Fault::protocol("this AUTH is not expected now")),
        };
        self.apply_reauthentication_step(step, fx)?;
        Ok(Flow::Next)
    }

    pub(super) fn apply_reauthentication_verdict(
        &mut self,
        step: AuthStep,
        fx: &mut impl FrontEffects,
    ) {
        let pending = self
            .reauthentication
            .as_ref()
            .is_some_and(|state| state.turn == Turn::Server);
        if pending && let Err(fault) = self.apply_reauthentication_step(step, fx) {
            self.fail(fault, fx);
        }
    }

    fn apply_reauthentication_step(
        &mut self,
        step: AuthStep,
        fx: &mut impl FrontEffects,
    ) -> Result<(), Fault> {
        let Some(state) = &mut self.reauthentication else {
            return Ok(());
        };
        let method = state.method.clone();
        match step {
            AuthStep::Accepted(data) => {
                state.turn = Turn::Nobody;
                state.exchange = None;
                self.send_auth_step(ReasonCode::Success, Some(&method), &data)
            }
            AuthStep::Continue(data) => {
                state.turn = Turn::Client;
                self.send_auth_step(ReasonCode::ContinueAuthentication, Some(&method), &data)
            }
            AuthStep::Refused(reason, why) => {
                // v5 [MQTT-4.12.1-2]
                let end = End::new(DetachCause::Lost, CloseCause::Refused(reason.byte(), why));
                self.disconnect((reason, ""), end, fx);
                Ok(())
            }
            AuthStep::Pending => {
                state.turn = Turn::Server;
                Ok(())
            }
        }
    }

    /// AUTH with the client's own method: v5 [MQTT-4.12.0-5].
    pub(super) fn send_auth_step(
        &mut self,
        reason: ReasonCode,
        method: Option<&str>,
        data: &[u8],
    ) -> Result<(), Fault> {
        let fault = Fault {
            reason: ReasonCode::UnspecifiedError,
            text: "an authentication method gave what AUTH cannot say",
        };
        let method = method
            .and_then(|method| MqttStr::new(method).ok())
            .ok_or(fault)?;
        let mut builder = PropertiesBuilder::new(PropertyScope::Auth);
        builder
            .push(Property::AuthenticationMethod(method))
            .map_err(|_| fault)?;
        if !data.is_empty() {
            let data = Secret::new(data).ok_or(fault)?;
            builder
                .push(Property::AuthenticationData(data))
                .map_err(|_| fault)?;
        }
        self.send_auth(Auth {
            reason,
            properties: builder.properties(),
        })
    }
}
