//! What happens, for those who watch.

use axum::Json;
use axum::extract::{Query, State};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::api::{Event, Events};
use crate::error::{ApiError, Code, ErrorBody};

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(events))
}

/// Comings and goings of clients. Without `after` only where to go on from now; a shard keeps the last 1024.
#[utoipa::path(get, path = "/api/v1/events", params(("after" = Option<String>, Query, description = "`next` of the answer before; \"0\": all that is kept")), responses((status = 200, body = Events), (status = 400, body = ErrorBody)))]
async fn events(
    State(state): State<AppState>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<Events>, ApiError> {
    let after = numbers_after(parameters)?;
    let mut found = Vec::new();
    let mut next = Vec::new();
    for shard in state.control.shards() {
        let from = match after.as_slice() {
            [] => u64::MAX,
            [0] => 0,
            numbers => numbers.get(usize::from(shard.0)).copied().unwrap_or(0),
        };
        let (events, behind) = state.control.events(shard, from).await?;
        found.extend(events);
        next.push(behind.to_string());
    }
    found.sort_by_key(|event| event.at);
    Ok(Json(Events {
        items: found.into_iter().map(Event::from).collect(),
        next: next.join("."),
    }))
}

/// The numbers of `after`, one a shard; none without it.
///
/// # Errors
/// For other parameters and other texts.
pub(super) fn numbers_after(parameters: Vec<(String, String)>) -> Result<Vec<u64>, ApiError> {
    let mut after = Vec::new();
    for (name, value) in parameters {
        if name != "after" {
            return Err(ApiError::new(
                Code::BadRequest,
                format!("unknown parameter \"{name}\""),
            ));
        }
        let numbers: Result<Vec<u64>, _> = value.split('.').map(str::parse).collect();
        after = numbers.map_err(|_| ApiError::new(Code::BadRequest, "after: none of ours"))?;
    }
    Ok(after)
}
