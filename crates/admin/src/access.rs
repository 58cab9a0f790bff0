//! Who asks, and whether they may.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use courser_access::Administration;
use courser_broker::LogInError;

use crate::AppState;
use crate::error::{ApiError, Code};

/// Where a request comes from, as the socket says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Over the Unix socket, by a process of this user.
    Local {
        /// User id of the process.
        uid: u32,
    },
    /// Over TCP.
    Network {
        /// The other end.
        address: SocketAddr,
    },
}

/// Who somebody has proved to be: an extension of every request behind the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// A name for logs: `uid:1000`, `token`, or `user:anna`.
    pub name: String,
    /// What it may do here.
    pub administration: Administration,
}

impl Caller {
    /// Whether the other end is this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Local { .. } => true,
            Self::Network { address } => address.ip().to_canonical().is_loopback(),
        }
    }
}

impl Principal {
    /// Somebody who may do everything.
    const fn full(name: String) -> Self {
        Self {
            name,
            administration: Administration::Full,
        }
    }

    /// Whether it may do what needs this.
    ///
    /// # Errors
    /// [`Code::Forbidden`].
    pub(crate) fn may(&self, needed: Administration) -> Result<(), ApiError> {
        if self.administration >= needed {
            return Ok(());
        }
        let message = match self.administration {
            Administration::Read => "the roles of this user let it look, and change nothing",
            Administration::None | Administration::Full => {
                "no role of this user has administration"
            }
        };
        Err(ApiError::new(Code::Forbidden, message))
    }
}

/// What somebody shows to say who it is.
enum Shown {
    /// Name and password, as one text.
    Password(String),
    Token(String),
    /// A header that says neither.
    Strange,
    Nothing,
}

/// What of a request says who asks, and for what.
struct Asking {
    needed: Administration,
    caller: Option<Caller>,
    shown: Shown,
    /// Whether a page in a browser sends it.
    is_from_page: bool,
}

impl Asking {
    fn of(request: &Request) -> Self {
        Self {
            needed: needed(request.method()),
            caller: request.extensions().get::<Caller>().copied(),
            shown: shown(request.headers()),
            is_from_page: request.headers().contains_key(header::ORIGIN),
        }
    }

    /// Who asks, if it may.
    async fn let_in(self, state: &AppState) -> Result<Principal, ApiError> {
        let needed = self.needed;
        let principal = self.principal(state).await?;
        principal.may(needed)?;
        Ok(principal)
    }

    /// Whoever says a name is that user, whichever way it comes; else the socket tells who it is, and elsewhere the token.
    async fn principal(self, state: &AppState) -> Result<Principal, ApiError> {
        match (self.shown, self.caller) {
            // A browser sends a password that it has kept with whatever any page asks of it.
            (Shown::Password(_), _) if self.is_from_page => {
                Err(unauthorized("pages do not log in by a password"))
            }
            (Shown::Password(both), caller) => by_password(state, caller, &both).await,
            (_, Some(Caller::Local { uid })) => by_uid(uid),
            (Shown::Token(given), caller) => by_token(state, caller, &given),
            (Shown::Strange, _) => Err(unauthorized("the token is not right")),
            (Shown::Nothing, _) => Err(unauthorized("no token was given")),
        }
    }
}

fn unauthorized(message: &str) -> ApiError {
    ApiError::new(Code::Unauthorized, message)
}

/// Reads the header `Authorization` (RFC 6750, RFC 7617); the word before the credentials is the same in any case.
fn shown(headers: &HeaderMap) -> Shown {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Shown::Nothing;
    };
    let Some((scheme, given)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
        return Shown::Strange;
    };
    if scheme.eq_ignore_ascii_case("bearer") {
        return Shown::Token(given.trim().to_owned());
    }
    let decoded = scheme
        .eq_ignore_ascii_case("basic")
        .then(|| STANDARD.decode(given.trim()).ok());
    match decoded.flatten().map(String::from_utf8) {
        Some(Ok(both)) => Shown::Password(both),
        Some(Err(_)) | None => Shown::Strange,
    }
}

/// The address of who asks; none where it came by the socket.
fn origin(caller: Option<Caller>) -> Option<IpAddr> {
    match caller {
        Some(Caller::Network { address }) => Some(address.ip()),
        Some(Caller::Local { .. }) | None => None,
    }
}

async fn by_password(
    state: &AppState,
    caller: Option<Caller>,
    both: &str,
) -> Result<Principal, ApiError> {
    let wrong = || unauthorized("user name or password are not right");
    // RFC 7617 section 2: the name ends at the first colon.
    let (name, password) = both.split_once(':').ok_or_else(wrong)?;
    let from = origin(caller);
    match state.control.log_in(from, name, password.as_bytes()).await {
        Ok(done) => {
            // A user of the broker who has no administration is none, whatever its password.
            if done.anew && done.administration != Administration::None {
                note_login(from, name);
            }
            Ok(Principal {
                name: format!("user:{name}"),
                administration: done.administration,
            })
        }
        Err(LogInError::Wrong) => {
            // Not the name: it may be a password that stands in its place.
            tracing::warn!(
                event = "operator_refused",
                address = address_of(from),
                "somebody has named an operator with a wrong password"
            );
            Err(wrong())
        }
        Err(error @ LogInError::Wait) => Err(ApiError::new(Code::LoginRate, error.to_string())),
        Err(error @ LogInError::Busy) => Err(ApiError::new(Code::Busy, error.to_string())),
        Err(error @ LogInError::Unavailable) => {
            Err(ApiError::new(Code::Unavailable, error.to_string()))
        }
    }
}

/// Once for requests in a row: those whose password is remembered are not logins of their own to whoever reads.
fn note_login(from: Option<IpAddr>, name: &str) {
    tracing::info!(
        event = "operator_logged_in",
        address = address_of(from),
        user = name,
        "an operator has logged in"
    );
}

fn address_of(from: Option<IpAddr>) -> String {
    from.map_or_else(|| "the socket".to_owned(), |from| from.to_string())
}

/// The user of the broker, and root.
fn by_uid(uid: u32) -> Result<Principal, ApiError> {
    let own = rustix::process::geteuid().as_raw();
    if uid == own || uid == 0 {
        return Ok(Principal::full(format!("uid:{uid}")));
    }
    Err(ApiError::new(
        Code::Forbidden,
        "the socket is for the user of the broker and for root",
    ))
}

fn by_token(state: &AppState, caller: Option<Caller>, given: &str) -> Result<Principal, ApiError> {
    let now = Instant::now();
    if state.token.as_ref().is_some_and(|it| it.is(given, now)) {
        return Ok(Principal::full("token".to_owned()));
    }
    if let Some(left_out) = state.control.wrong_token(now) {
        tracing::warn!(
            event = "operator_refused",
            address = address_of(origin(caller)),
            left_out,
            "somebody has shown a wrong token of operators"
        );
    }
    Err(unauthorized("the token is not right"))
}

/// What a request needs. Whoever may only look may look at everything but what a route keeps back by itself.
fn needed(method: &Method) -> Administration {
    match *method {
        Method::GET | Method::HEAD => Administration::Read,
        _ => Administration::Full,
    }
}

/// Lets in who may use the API.
pub(crate) async fn require(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    let asking = Asking::of(&request);
    match asking.let_in(&state).await {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

/// Whether a program of this machine asks for itself, as far as can be seen: a proxy that passes on what others ask says so, or keeps the name
/// that they have asked for, as a browser does whose page has had its own name lead here.
fn is_from_here(request: &Request) -> bool {
    match request.extensions().get::<Caller>() {
        Some(Caller::Local { .. }) => true,
        Some(caller @ Caller::Network { .. }) => {
            caller.is_local() && !is_passed_on(request.headers()) && asks_for_here(request)
        }
        None => false,
    }
}

fn is_passed_on(headers: &HeaderMap) -> bool {
    let says_so = |name: &str| {
        matches!(name, "forwarded" | "via" | "x-real-ip") || name.starts_with("x-forwarded-")
    };
    headers.keys().any(|name| says_so(name.as_str()))
}

/// Whether the host that a request names, if it does, is an address or `localhost`.
fn asks_for_here(request: &Request) -> bool {
    let mut named = request.headers().get_all(header::HOST).iter();
    let of_headers = named.all(|host| {
        let host = host.to_str().ok().and_then(|host| host.parse().ok());
        host.is_some_and(|host| is_here(&host))
    });
    of_headers && request.uri().authority().is_none_or(is_here)
}

fn is_here(authority: &Authority) -> bool {
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    host.eq_ignore_ascii_case("localhost")
        || address.unwrap_or(host).parse::<std::net::IpAddr>().is_ok()
}

/// The same, but any program of this machine may.
pub(crate) async fn require_elsewhere(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    if is_from_here(&request) {
        return next.run(request).await;
    }
    let asking = Asking::of(&request);
    match asking.let_in(&state).await {
        Ok(_) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().expect("a header"));
        match shown(&headers) {
            Shown::Password(both) => format!("password {both}"),
            Shown::Token(token) => format!("token {token}"),
            Shown::Strange => "strange".to_owned(),
            Shown::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn who_asks_is_read_as_the_standards_have_it() {
        for (value, expected) in [
            ("Bearer abc", "token abc"),
            ("bearer  abc ", "token abc"),
            ("Basic YW5uYTpzZWNyZXQ=", "password anna:secret"),
            ("BASIC YW5uYTphOmI=", "password anna:a:b"),
            ("Basic YW5uYQ", "strange"),
            ("Basic /w==", "strange"),
            ("Digest abc", "strange"),
            ("Bearer", "strange"),
        ] {
            assert_eq!(read(value), expected, "{value:?}");
        }
        assert!(matches!(shown(&HeaderMap::new()), Shown::Nothing));
    }

    fn is_let_in(caller: Caller, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::new(axum::body::Body::empty());
        request.extensions_mut().insert(caller);
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().expect("a name");
            let value = value.parse().expect("a value");
            request.headers_mut().append(name, value);
        }
        is_from_here(&request)
    }

    #[test]
    fn i12_what_a_proxy_passes_on_is_not_of_this_machine() {
        let from = |text: &str| Caller::Network {
            address: text.parse().expect("an address"),
        };
        let here = from("127.0.0.1:4000");
        for host in [
            "127.0.0.1:8080",
            "[::1]:8080",
            "localhost:8080",
            "LOCALHOST",
            "192.0.2.1",
        ] {
            assert!(is_let_in(here, &[("host", host)]), "{host}");
            assert!(
                !is_let_in(from("192.0.2.1:4000"), &[("host", host)]),
                "{host}"
            );
            for passed_on in [
                "Forwarded",
                "X-Forwarded-For",
                "X-Forwarded-Proto",
                "Via",
                "X-Real-IP",
            ] {
                let headers = [("host", host), (passed_on, "127.0.0.1")];
                assert!(!is_let_in(here, &headers), "{passed_on}");
            }
        }
        // A page whose own name leads to this machine.
        for host in [
            "broker.example",
            "broker.example:8080",
            "localhost.example",
            "127.0.0.1.example",
            "",
            " ",
        ] {
            assert!(!is_let_in(here, &[("host", host)]), "{host:?}");
        }
        assert!(!is_let_in(
            here,
            &[("host", "localhost"), ("host", "broker.example")]
        ));
        assert!(is_let_in(here, &[]), "of HTTP 1.0");
        assert!(is_let_in(Caller::Local { uid: 0 }, &[("host", "any")]));
    }

    #[test]
    fn who_may_look_changes_nothing() {
        use Administration::{Full, None, Read};
        let may = |administration, method| {
            let name = "user:anna".to_owned();
            let principal = Principal {
                name,
                administration,
            };
            principal.may(needed(&method)).is_ok()
        };
        for (administration, looks, changes) in [
            (None, false, false),
            (Read, true, false),
            (Full, true, true),
        ] {
            assert_eq!(may(administration, Method::GET), looks);
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                assert_eq!(may(administration, method), changes);
            }
        }
    }
}
