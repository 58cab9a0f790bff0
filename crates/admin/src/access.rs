//! Who asks, and whether they may.

use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

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
    /// A name for logs: `uid:1000`, or `token`.
    pub name: String,
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

/// Who asks: the user of the broker or root over the socket, whoever has the token elsewhere.
fn principal(state: &AppState, request: &Request) -> Result<Principal, ApiError> {
    let caller = request.extensions().get::<Caller>();
    match caller {
        Some(Caller::Local { uid }) => {
            let own = rustix::process::geteuid().as_raw();
            if *uid == own || *uid == 0 {
                return Ok(Principal {
                    name: format!("uid:{uid}"),
                });
            }
            Err(ApiError::new(
                Code::Forbidden,
                "the socket is for the user of the broker and for root",
            ))
        }
        Some(Caller::Network { .. }) | None => by_token(state, request),
    }
}

fn by_token(state: &AppState, request: &Request) -> Result<Principal, ApiError> {
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    match (given, &state.token) {
        (Some(given), Some(token)) if token.is(given.trim()) => Ok(Principal {
            name: "token".to_owned(),
        }),
        (Some(_), _) => Err(ApiError::new(Code::Unauthorized, "the token is not right")),
        (None, _) => Err(ApiError::new(Code::Unauthorized, "no token was given")),
    }
}

/// Lets in who may use the API.
pub(crate) async fn require(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    match principal(&state, &request) {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

/// The same, but anyone on this machine may.
pub(crate) async fn require_elsewhere(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let local = request
        .extensions()
        .get::<Caller>()
        .is_some_and(Caller::is_local);
    if local {
        return next.run(request).await;
    }
    match principal(&state, &request) {
        Ok(_) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}
