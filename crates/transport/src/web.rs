//! WebSocket: the upgrade request, and MQTT in binary frames (v3 section 6, v5 section 6).
//!
//! Heads are the library's; here are the rules of MQTT and the bounds:
//! - a client must offer the sub-protocol `mqtt`, and is answered with it           v3 [MQTT-6.0.0-3] [MQTT-6.0.0-4]
//! - MQTT is in binary frames; anything else closes the connection                  v3 [MQTT-6.0.0-1]
//! - packets need not begin or end with frames: only their bytes are handed on      v3 [MQTT-6.0.0-2]
//! - no extension is agreed on: a frame that uses one, as for compression, is a fault
//! - a frame, and a message of several, is at most as large as a packet may be; the first message, with which CONNECT comes, as large as
//!   that may be. Its payload is handed on as it comes ([`frames`]): who announces much, or does not end, holds no memory by that
//! - of pings that come while earlier bytes wait for the socket only the newest is answered (RFC 6455 5.5.3): who pings and does not read
//!   fills no memory

mod frames;
mod mask;

use std::net::IpAddr;

use tungstenite::Error;
use tungstenite::error::ProtocolError;
use tungstenite::handshake::client::generate_key;
use tungstenite::handshake::derive_accept_key;
use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, create_response, write_response};
use tungstenite::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use tungstenite::protocol::Role;

use self::frames::Frames;
pub(crate) use self::mask::Mask;
use crate::tunnel::Plain;

/// Sub-protocol of MQTT.
const PROTOCOL: &str = "mqtt";
/// Longest upgrade request or answer.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// From which web pages connections may come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origins {
    /// From all, and from clients that are no browsers.
    #[default]
    Any,
    /// From pages of this machine, which have asked for it by a name or address that is its own: for servers that let everybody of the machine
    /// in. Otherwise every page in a browser of this machine would be let in, wherever it is from. A request without an origin is of no browser, and let in.
    Local,
    /// From these, each as a browser writes it: `https://example.org`. A request without an origin is of no browser, and let in.
    Only(Vec<String>),
}

/// Largest frames and messages in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebLimits {
    /// Of the first message.
    pub first: usize,
    /// Of those behind it.
    pub later: usize,
}

/// What a server's door takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebServer {
    /// Path of the request, such as `/mqtt`; what follows a `?` is not looked at.
    pub path: String,
    /// Origins.
    pub origins: Origins,
    /// Sizes.
    pub limits: WebLimits,
}

/// Why a WebSocket connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// The request or the answer is not HTTP.
    #[error("malformed HTTP")]
    Malformed,
    /// It is longer than [`HEAD_BYTES_MAX`].
    #[error("the HTTP head is longer than {HEAD_BYTES_MAX} bytes")]
    TooLong,
    /// It is for another path.
    #[error("the request is for another path")]
    OtherPath,
    /// It does not ask for an upgrade to WebSocket 13.
    #[error("the request is no upgrade to WebSocket")]
    NoUpgrade,
    /// It does not offer the sub-protocol `mqtt`.
    #[error("the request does not offer the sub-protocol \"mqtt\"")]
    NoSubprotocol,
    /// Its origin is not allowed.
    #[error("the request comes from an origin that is not allowed")]
    OtherOrigin,
    /// The server did not agree.
    #[error("the server answered {0} to the upgrade")]
    Refused(u16),
    /// A text frame.
    #[error("a text frame")]
    Text,
    /// A frame or message beyond the limit.
    #[error("a frame beyond the limit")]
    FrameTooLarge,
    /// A frame that RFC 6455 does not allow.
    #[error("a malformed frame")]
    BadFrame,
}

/// The layer of one connection.
#[derive(Debug)]
pub(crate) enum Web {
    /// There is none.
    Off,
    /// The request has not come whole.
    Accepting(Box<Accepting>),
    /// The answer has not come whole.
    Connecting(Box<Connecting>),
    /// Frames are exchanged.
    On(Box<Frames>),
}

#[derive(Debug)]
pub(crate) struct Accepting {
    server: std::sync::Arc<WebServer>,
    head: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Connecting {
    key: String,
    head: Vec<u8>,
}

impl Web {
    pub(crate) fn accepting(server: &std::sync::Arc<WebServer>) -> Self {
        Self::Accepting(Box::new(Accepting {
            server: std::sync::Arc::clone(server),
            head: Vec::new(),
        }))
    }

    /// Begins as a client; what is to be sent goes to `out`.
    pub(crate) fn connecting(host: &str, path: &str, out: &mut Vec<u8>) -> Self {
        let key = generate_key();
        out.extend(
            format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
            )
            .as_bytes(),
        );
        Self::Connecting(Box::new(Connecting {
            key,
            head: Vec::new(),
        }))
    }

    pub(crate) const fn is_open(&self) -> bool {
        match self {
            Self::Off | Self::On(_) => true,
            Self::Accepting(_) | Self::Connecting(_) => false,
        }
    }

    /// Takes what came; the bytes of MQTT in it go to `into`, answers to `out`.
    pub(crate) fn receive(
        &mut self,
        received: &[u8],
        into: &mut Plain<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), WebError> {
        match self {
            Self::Off => {
                into.put(received);
                Ok(())
            }
            Self::On(frames) => frames.receive(received, into, out),
            Self::Accepting(accepting) => {
                let Some((used, answer)) = gather(&mut accepting.head, received, |head| {
                    accept(&accepting.server, head, out)
                })?
                else {
                    return Ok(());
                };
                let mut frames = Box::new(Frames::new(Role::Server, accepting.server.limits));
                answer?;
                let result = frames.receive(&received[used..], into, out);
                *self = Self::On(frames);
                result
            }
            Self::Connecting(connecting) => {
                let Some((used, answer)) = gather(&mut connecting.head, received, |head| {
                    check_answer(&connecting.key, head)
                })?
                else {
                    return Ok(());
                };
                answer?;
                let unlimited = WebLimits {
                    first: usize::MAX,
                    later: usize::MAX,
                };
                let mut frames = Box::new(Frames::new(Role::Client, unlimited));
                let result = frames.receive(&received[used..], into, out);
                *self = Self::On(frames);
                result
            }
        }
    }
}

/// What is made of a whole head: its length, and the judgement on it.
type Judged = (usize, Result<(), WebError>);

/// Adds what came to a head until `judge` finds it whole. How many of the `received` bytes it took, and the judgement.
fn gather(
    head: &mut Vec<u8>,
    received: &[u8],
    judge: impl FnOnce(&[u8]) -> Result<Option<Judged>, WebError>,
) -> Result<Option<Judged>, WebError> {
    let before = head.len();
    let room = HEAD_BYTES_MAX - before;
    head.extend_from_slice(&received[..received.len().min(room)]);
    match judge(head)? {
        Some((length, judgement)) => Ok(Some((length - before.min(length), judgement))),
        None if head.len() == HEAD_BYTES_MAX => Err(WebError::TooLong),
        None => Ok(None),
    }
}

/// Answers a request, if it is whole.
fn accept(server: &WebServer, head: &[u8], out: &mut Vec<u8>) -> Result<Option<Judged>, WebError> {
    let request = match Request::try_parse(head) {
        Ok(None) => return Ok(None),
        Ok(Some((length, request))) => Some((length, request)),
        Err(_) => None,
    };
    let judged = match &request {
        Some((_, request)) => judge(server, request),
        None => Err(WebError::Malformed),
    };
    let status = match judged {
        Ok(()) => StatusCode::SWITCHING_PROTOCOLS,
        Err(WebError::OtherPath) => StatusCode::NOT_FOUND,
        Err(WebError::OtherOrigin) => StatusCode::FORBIDDEN,
        Err(WebError::NoUpgrade) => StatusCode::UPGRADE_REQUIRED,
        Err(
            WebError::Malformed
            | WebError::TooLong
            | WebError::NoSubprotocol
            | WebError::Refused(_)
            | WebError::Text
            | WebError::FrameTooLarge
            | WebError::BadFrame,
        ) => StatusCode::BAD_REQUEST,
    };
    let response = match (&request, judged) {
        (Some((_, request)), Ok(())) => create_response(request).map_err(|_| WebError::NoUpgrade),
        (_, judged) => Err(judged.err().unwrap_or(WebError::Malformed)),
    };
    let (mut response, judged) = match response {
        Ok(response) => (response, Ok(())),
        Err(error) => (refusal(status), Err(error)),
    };
    if judged.is_ok() {
        response.headers_mut().insert(
            header::SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_static(PROTOCOL),
        );
    }
    // Writing to a vector cannot fail, and all its headers are text.
    let _ = write_response(out, &response);
    let length = request.map_or(head.len(), |(length, _)| length);
    Ok(Some((length, judged)))
}

fn refusal(status: StatusCode) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    if status == StatusCode::UPGRADE_REQUIRED {
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(
            header::SEC_WEBSOCKET_VERSION,
            HeaderValue::from_static("13"),
        );
    }
    response
}

/// Whether a request may come in.
fn judge(server: &WebServer, request: &Request) -> Result<(), WebError> {
    if !is_plain(request.headers()) {
        return Err(WebError::Malformed);
    }
    if request.uri().path() != server.path {
        return Err(WebError::OtherPath);
    }
    create_response(request).map_err(|error| match error {
        Error::Protocol(
            ProtocolError::MissingSecWebSocketKey | ProtocolError::InvalidSecWebSocketKey,
        ) => WebError::Malformed,
        _ => WebError::NoUpgrade,
    })?;
    let mut offered = request
        .headers()
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter();
    let offers = |value: &HeaderValue| {
        let names = value.to_str().unwrap_or_default().split(',');
        names.map(str::trim).any(|name| name == PROTOCOL)
    };
    if !offered.any(offers) {
        return Err(WebError::NoSubprotocol);
    }
    if server.origins.let_in(request.headers()) {
        Ok(())
    } else {
        Err(WebError::OtherOrigin)
    }
}

/// Whether proxies on the way cannot have read another request than this one: one host (RFC 9112 section 3.2), one key and one version (RFC 6455 sections
/// 11.3.1 and 11.3.5), and no content, which would be read as frames.
fn is_plain(headers: &HeaderMap) -> bool {
    let count = |name| headers.get_all(name).iter().count();
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    count(header::HOST) == 1
        && count(header::SEC_WEBSOCKET_KEY) <= 1
        && count(header::SEC_WEBSOCKET_VERSION) <= 1
        && lengths.all(|length| length == "0")
        && !headers.contains_key(header::TRANSFER_ENCODING)
}

impl Origins {
    fn let_in(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match self {
            Self::Any => true,
            Self::Only(allowed) => origins.all(|origin| {
                let mut allowed = allowed.iter();
                allowed.any(|one| one.as_bytes() == origin.as_bytes())
            }),
            Self::Local => {
                // A name that leads here for this once makes the page's origin and the host the same (DNS rebinding).
                let mut asked = headers.get_all(header::HOST).iter();
                !headers.contains_key(header::ORIGIN)
                    || origins.all(is_local) && asked.all(is_local)
            }
        }
    }
}

/// Whether an origin or a host is this machine by name or address.
fn is_local(place: &HeaderValue) -> bool {
    let place = place
        .to_str()
        .ok()
        .and_then(|text| text.parse::<Uri>().ok());
    let host = place.as_ref().and_then(Uri::host).unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address
            .parse::<IpAddr>()
            .is_ok_and(|it| it.to_canonical().is_loopback())
}

/// Checks a server's answer, if it is whole.
fn check_answer(key: &str, head: &[u8]) -> Result<Option<Judged>, WebError> {
    let parsed = tungstenite::handshake::client::Response::try_parse(head);
    let Some((length, response)) = parsed.map_err(|_| WebError::Malformed)? else {
        return Ok(None);
    };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(WebError::Refused(response.status().as_u16()));
    }
    let is = |name: header::HeaderName, expected: &[u8]| {
        let value = response.headers().get(name);
        value.is_some_and(|value| value.as_bytes() == expected)
    };
    let accepted = is(
        header::SEC_WEBSOCKET_ACCEPT,
        derive_accept_key(key.as_bytes()).as_bytes(),
    );
    let judgement = if !accepted {
        Err(WebError::NoUpgrade)
    } else if !is(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL.as_bytes()) {
        Err(WebError::NoSubprotocol)
    } else {
        Ok(())
    };
    Ok(Some((length, judgement)))
}
