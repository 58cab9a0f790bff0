//! The client of the API, for commands: one question a connection.

mod dry_run;
mod server;

use std::fmt::{self, Write as _};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OnceCell;
use zeroize::Zeroizing;

pub use server::Server;

use crate::Token;
use crate::error::{ErrorBody, ErrorDetail};
use crate::serve::short_path;

/// Bytes of the largest answer that is taken.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// How a body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Makes something.
    Post,
    /// Replaces something.
    Put,
    /// Changes a part of something.
    Patch,
}

/// What says who asks. Neither `Debug` nor `Display` show a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// The token of the server.
    Token(Token),
    /// A user.
    User(UserCredentials),
}

/// Name and password of a user.
#[derive(Clone, PartialEq, Eq)]
pub struct UserCredentials(Zeroizing<String>);

impl fmt::Debug for UserCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserCredentials(…)")
    }
}

impl Credentials {
    /// Those of a user.
    ///
    /// # Errors
    /// For people: the name cannot be said over HTTP.
    pub fn user(name: &str, password: &str) -> Result<Self, String> {
        if name.contains(':') {
            // RFC 7617 section 2.
            return Err(format!(
                "\"{name}\" cannot be named over HTTP, because of the colon in it"
            ));
        }
        let both = Zeroizing::new(format!("{name}:{password}"));
        Ok(Self::User(UserCredentials(both)))
    }

    /// The value of the header `Authorization`.
    fn header(&self) -> String {
        match self {
            Self::Token(token) => token.header(),
            Self::User(UserCredentials(both)) => {
                format!("Basic {}", STANDARD.encode(both.as_bytes()))
            }
        }
    }
}

/// Asks one server.
#[derive(Clone, Debug)]
pub struct Client {
    server: Server,
    credentials: Option<Credentials>,
    timeout: Duration,
    /// What the server says of its routes, once that was asked.
    routes: Arc<OnceCell<Value>>,
}

/// Why there is no answer, or no good one.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there.
    #[error("cannot connect to {server}: {source} (is the server running? try: courser server)")]
    Connect {
        /// Where.
        server: String,
        /// Why.
        source: io::Error,
    },
    /// It does not answer in time.
    #[error("no answer of {server} within {} s", timeout.as_secs_f32())]
    TimedOut {
        /// Who.
        server: String,
        /// How long was waited.
        timeout: Duration,
    },
    /// It says no.
    #[error("{} (error {}): {}", detail.message, detail.code, detail.hint)]
    Refused {
        /// Status of the answer.
        status: u16,
        /// What it says.
        detail: ErrorDetail,
    },
    /// It would do what it is only to say something of: no such question was sent.
    #[error(
        "{server} is older than this command, and would do at once what it is only to tell (--dry-run, or what is asked at a terminal): nothing was \
         sent; say --yes to do it, or use the courser of that server"
    )]
    NoDryRun {
        /// Who.
        server: String,
    },
    /// It says something that is not of this API.
    #[error("{server} answers something else than a courser: {what}")]
    Strange {
        /// Who.
        server: String,
        /// What.
        what: String,
    },
}

impl Client {
    /// Of a server, who asks with these; over a socket it is known without who asks.
    #[must_use]
    pub fn new(server: Server, credentials: Option<Credentials>, timeout: Duration) -> Self {
        Self {
            server,
            credentials,
            timeout,
            routes: Arc::default(),
        }
    }

    /// Who asks, if that is said.
    #[must_use]
    pub const fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// GET: the answer as JSON.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, ClientError> {
        self.json(Method::GET, &with_query(path, query), None).await
    }

    /// GET: the answer as text.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn text(&self, path: &str) -> Result<String, ClientError> {
        let bytes = self.ask(Method::GET, path, None).await?;
        String::from_utf8(bytes.to_vec()).map_err(|_| self.strange("no text"))
    }

    /// POST without a body.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn post(&self, path: &str) -> Result<Value, ClientError> {
        self.json(Method::POST, path, None).await
    }

    /// The same with a query.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn post_with(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Value, ClientError> {
        self.post(&with_query(path, query)).await
    }

    /// DELETE.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn delete(&self, path: &str) -> Result<Value, ClientError> {
        self.json(Method::DELETE, path, None).await
    }

    /// The same with a query.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn delete_with(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Value, ClientError> {
        self.delete(&with_query(path, query)).await
    }

    /// POST, PUT or PATCH with a body.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn send(&self, verb: Verb, path: &str, body: &Value) -> Result<Value, ClientError> {
        let method = match verb {
            Verb::Post => Method::POST,
            Verb::Put => Method::PUT,
            Verb::Patch => Method::PATCH,
        };
        let body = Bytes::from(body.to_string());
        self.json(method, path, Some(body)).await
    }

    async fn json(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Value, ClientError> {
        let bytes = self.ask(method, path, body).await?;
        serde_json::from_slice(&bytes).map_err(|error| self.strange(&error.to_string()))
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Bytes, ClientError> {
        if dry_run::is_asked(&method, path) {
            self.need_dry_run(&method, path).await?;
        }
        self.ask_in_time(method, path, body).await
    }

    async fn ask_in_time(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Bytes, ClientError> {
        let asked = tokio::time::timeout(self.timeout, self.ask_patiently(method, path, body));
        asked.await.unwrap_or_else(|_| {
            Err(ClientError::TimedOut {
                server: self.server.to_string(),
                timeout: self.timeout,
            })
        })
    }

    async fn ask_patiently(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Bytes, ClientError> {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(credentials) = &self.credentials {
            request = request.header(AUTHORIZATION, credentials.header());
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = |host: &str| {
            let request = request.header(HOST, host);
            request
                .body(Full::new(body.unwrap_or_default()))
                .map_err(|error| self.strange(&error.to_string()))
        };
        let failed = |source| ClientError::Connect {
            server: self.server.to_string(),
            source,
        };
        match &self.server {
            Server::Socket(socket) => {
                let (short, _folder) = short_path(socket).map_err(failed)?;
                let stream = UnixStream::connect(short).await.map_err(failed)?;
                self.exchange(stream, request("localhost")?).await
            }
            Server::Http(place) => {
                let stream = TcpStream::connect(place).await.map_err(failed)?;
                self.exchange(stream, request(place)?).await
            }
        }
    }

    async fn exchange<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> Result<Bytes, ClientError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let strange = |error: &dyn std::error::Error| self.strange(&error.to_string());
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| strange(&error))?;
        let driven = tokio::spawn(connection);
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| strange(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await;
        driven.abort();
        let bytes = body
            .map_err(|error| self.strange(&error.to_string()))?
            .to_bytes();
        if status == StatusCode::OK {
            return Ok(bytes);
        }
        match serde_json::from_slice::<ErrorBody>(&bytes) {
            Ok(body) => Err(ClientError::Refused {
                status: status.as_u16(),
                detail: body.error,
            }),
            Err(_) => Err(self.strange(&format!("status {status}"))),
        }
    }

    fn strange(&self, what: &str) -> ClientError {
        ClientError::Strange {
            server: self.server.to_string(),
            what: what.to_owned(),
        }
    }
}

/// A name as one part of a path: everything but letters and digits escaped.
#[must_use]
pub fn escaped(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let mut path = path.to_owned();
    for (at, (name, value)) in query.iter().enumerate() {
        path.push(if at == 0 { '?' } else { '&' });
        let _ = write!(path, "{name}={}", escaped(value));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_said_as_the_standard_has_it_and_not_shown() {
        let anna = Credentials::user("anna", "a:b").expect("a name");
        assert_eq!(anna.header(), "Basic YW5uYTphOmI=");
        assert!(!format!("{anna:?}").contains("a:b"));
        assert!(Credentials::user("an:na", "x").is_err());
    }

    #[test]
    fn names_cannot_leave_their_place_in_the_path() {
        assert_eq!(
            escaped("a/../b?c#d e%ä"),
            "a%2F%2E%2E%2Fb%3Fc%23d%20e%25%C3%A4"
        );
        assert_eq!(
            with_query("/x", &[("a", "b&c"), ("d", "=")]),
            "/x?a=b%26c&d=%3D"
        );
    }
}
