//! Bodies of requests: JSON, whatever the header says, with our own errors.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use crate::AppState;
use crate::error::{ApiError, Code};

/// The body of a request.
pub(super) struct Sent<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<AppState> for Sent<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let bad = |message: String| ApiError::new(Code::BadRequest, format!("body: {message}"));
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| bad(rejection.body_text()))?;
        let read = serde_json::from_slice(&bytes);
        read.map(Self).map_err(|error| bad(error.to_string()))
    }
}
