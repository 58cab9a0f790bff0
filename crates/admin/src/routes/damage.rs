//! What is damaged.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::api::Damage;
use crate::error::ErrorBody;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(damage))
}

/// What of the data is damaged, and which sessions, groups and topics that concerns. Complete once the server is ready.
#[utoipa::path(get, path = "/api/v1/damage", responses((status = 200, body = Damage), (status = 401, body = ErrorBody)))]
async fn damage(State(state): State<AppState>) -> Json<Damage> {
    Json(state.control.damage().into())
}
