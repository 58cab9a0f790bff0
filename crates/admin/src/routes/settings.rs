//! The settings of the server.

use axum::extract::State;
use axum::{Extension, Json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::access::Principal;
use crate::error::{ApiError, Code, ErrorBody};
use crate::settings::{InForce, Reloaded};

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(in_force))
        .routes(routes!(reload))
}

/// Every setting with its value, its origin and when a change takes effect; and what counts only after a restart. What was drawn from
/// elsewhere by `${…}` is not said.
#[utoipa::path(get, path = "/api/v1/config", responses((status = 200, body = InForce), (status = 401, body = ErrorBody)))]
async fn in_force(State(state): State<AppState>) -> Result<Json<InForce>, ApiError> {
    let Some(reloader) = &state.reloader else {
        let why = "the settings of this server are not known here";
        return Err(ApiError::new(Code::Unavailable, why));
    };
    Ok(Json(InForce::clone(&reloader.in_force())))
}

/// Reads the settings again, as at the start: files, environment, flags; certificates too. All is checked first: what is wrong changes nothing.
#[utoipa::path(post, path = "/api/v1/config/reload", responses((status = 200, body = Reloaded), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn reload(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
) -> Result<Json<Reloaded>, ApiError> {
    let Some(reloader) = &state.reloader else {
        let why = "the settings of this server cannot be read again";
        return Err(ApiError::new(Code::Unavailable, why));
    };
    tracing::info!(
        event = "reload_ordered",
        by = principal.name,
        "an operator wants the settings to be read again"
    );
    Ok(Json(reloader.reload().await?))
}
