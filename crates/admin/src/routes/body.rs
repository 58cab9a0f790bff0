//! What requests bring, with our own errors: bodies of JSON, whatever the header says, names in paths, and how a change is meant.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use crate::AppState;
use crate::error::{ApiError, Code};

/// Bytes of an import: some 100,000 users. One entry of the log carries all of it.
pub(super) const IMPORT_BYTES_MAX: usize = 32 << 20;
/// Bytes of every other body.
pub(super) const BODY_BYTES_MAX: usize = 256 * 1024;

/// The body of a request.
pub(super) struct Sent<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<AppState> for Sent<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let bad = |message: String| ApiError::new(Code::BadRequest, format!("body: {message}"));
        let bytes =
            Bytes::from_request(request, state)
                .await
                .map_err(|rejection| match rejection.status() {
                    StatusCode::PAYLOAD_TOO_LARGE => too_large(),
                    _ => bad(rejection.body_text()),
                })?;
        let read = serde_json::from_slice(&bytes);
        read.map(Self).map_err(|error| bad(error.to_string()))
    }
}

fn too_large() -> ApiError {
    let (import, other) = (IMPORT_BYTES_MAX >> 20, BODY_BYTES_MAX >> 10);
    let message = format!(
        "the body is larger than {other} KiB, or {import} MiB of an import of users and roles"
    );
    ApiError::new(Code::BodyTooLarge, message)
}

/// The name that a path has in it, percent-encoded there.
pub(super) struct Named(pub(super) String);

impl FromRequestParts<AppState> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let named = Path::from_request_parts(parts, state).await;
        named
            .map(|Path(name)| Self(name))
            .map_err(|rejection| ApiError::new(Code::BadRequest, rejection.body_text()))
    }
}

/// How a change is meant.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(super) struct How {
    /// Only say what would be done. What would be refused is refused.
    pub(super) dry_run: bool,
}

impl How {
    /// What an answer says is done.
    pub(super) const fn said(self, done: &'static str, would: &'static str) -> &'static str {
        match self.dry_run {
            true => would,
            false => done,
        }
    }
}

impl FromRequestParts<AppState> for How {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let how = Query::from_request_parts(parts, state).await;
        how.map(|Query(how)| how)
            .map_err(|rejection| ApiError::new(Code::BadRequest, rejection.body_text()))
    }
}
