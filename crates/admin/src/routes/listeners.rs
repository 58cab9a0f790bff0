//! Where clients come in.

use axum::Json;
use axum::extract::{Query, State};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::api::Listener;
use crate::error::{ApiError, ErrorBody};
use crate::list::{List, ListParams, ListQuery, list_here};

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(listeners))
}

/// Listeners by name: where they listen, where clients find them, and how many connections they have.
#[utoipa::path(get, path = "/api/v1/listeners", params(ListParams), responses((status = 200, body = List<Listener>), (status = 400, body = ErrorBody)))]
async fn listeners(
    State(state): State<AppState>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<List<Listener>>, ApiError> {
    let query = ListQuery::read::<Listener>(parameters, &[])?;
    let mut rows = state.control.listeners();
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    let rows = rows
        .into_iter()
        .map(|row| (row.name.clone(), || Listener::from(row)));
    Ok(Json(list_here(&state.control, &query, rows).await?))
}
