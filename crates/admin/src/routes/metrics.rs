//! `/metrics`.

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::middleware;
use axum::response::IntoResponse;
use axum::routing::get;

use crate::error::ApiError;
use crate::metrics::{CONTENT_TYPE, Snapshot, encode};
use crate::routes::health::not_ready;
use crate::{AppState, access};

pub(super) fn routes(state: &AppState) -> Router<AppState> {
    let guard = middleware::from_fn_with_state(state.clone(), access::require_elsewhere);
    Router::new().route("/metrics", get(metrics)).layer(guard)
}

async fn metrics(State(state): State<AppState>) -> Result<impl IntoResponse, ApiError> {
    let ready = not_ready(&state).is_none();
    let snapshot = Snapshot::take(&state.control, ready).await?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], encode(snapshot)))
}
