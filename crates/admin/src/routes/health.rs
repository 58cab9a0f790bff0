//! Whether it is alive, and whether it serves.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use courser_broker::Status;

use crate::AppState;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
}

/// 200, or 503 with why not.
async fn ready(State(state): State<AppState>) -> (StatusCode, &'static str) {
    let why = not_ready(&state);
    match why {
        None => (StatusCode::OK, "ready\n"),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    }
}

/// Why it does not serve.
pub(super) fn not_ready(state: &AppState) -> Option<&'static str> {
    if state.control.is_stopping() {
        return Some("draining: the server is being stopped\n");
    }
    match state.control.status() {
        Status::Serving => None,
        Status::Reading => Some("recovering: the log is being read\n"),
        Status::Recovering => Some("recovering: sessions and messages are being made of the log\n"),
        Status::Failed(_) => Some("disk failed: nothing is acknowledged any more\n"),
    }
}
