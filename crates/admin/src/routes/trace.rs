//! What one client sends and gets.

use axum::extract::{Query, State};
use axum::{Extension, Json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::access::Principal;
use crate::api::Trace;
use crate::error::{ApiError, Code, ErrorBody};
use crate::routes::body::Named;
use crate::routes::events::numbers_after;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(trace))
}

/// Packets of one client, also of one that comes later. The first question begins the trace; 10 s after the last one it ends. A shard
/// keeps the last 1,000 lines, and traces 16 clients at once.
#[utoipa::path(get, path = "/api/v1/clients/{client_id}/trace", params(("client_id" = String, Path, description = "Client id, percent-encoded"), ("after" = Option<String>, Query, description = "`next` of the answer before")), responses((status = 200, body = Trace), (status = 400, body = ErrorBody), (status = 503, body = ErrorBody)))]
async fn trace(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
    Named(client_id): Named,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<Trace>, ApiError> {
    let after = numbers_after(&parameters)?;
    let from = |shard: courser_contract::ShardId| match after.as_slice() {
        [] => u64::MAX,
        numbers => numbers.get(usize::from(shard.0)).copied().unwrap_or(0),
    };
    let Some(pages) = state.control.trace(&client_id, from).await? else {
        let why = "as many clients are traced as may be at once";
        return Err(ApiError::new(Code::Busy, why));
    };
    // Every shard has heard of it: of a client that comes from here on nothing is missed.
    if after.is_empty() {
        tracing::info!(
            event = "trace_began",
            by = principal.name,
            client_id,
            "an operator watches a client"
        );
    }
    let next: Vec<String> = pages.iter().map(|page| page.next.to_string()).collect();
    let lost = match after.as_slice() {
        [] => 0,
        _ => pages.iter().map(|page| page.lost).sum(),
    };
    let mut lines: Vec<_> = pages.into_iter().flat_map(|page| page.lines).collect();
    lines.sort_by_key(|line| line.at);
    Ok(Json(Trace {
        items: lines.into_iter().map(Into::into).collect(),
        next: next.join("."),
        lost,
    }))
}
