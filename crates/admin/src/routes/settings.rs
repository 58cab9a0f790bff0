//! The settings of the server.

use axum::extract::State;
use axum::{Extension, Json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::access::Principal;
use crate::error::{ApiError, Code, ErrorBody};
use crate::settings::Reloaded;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(reload))
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
