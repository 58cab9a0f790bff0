//! The broker itself.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::api::Node;
use crate::error::{ApiError, ErrorBody};
use crate::routes::health::not_ready;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(node))
}

/// What runs and how much it holds.
#[utoipa::path(get, path = "/api/v1/node", responses((status = 200, body = Node), (status = 401, body = ErrorBody)))]
async fn node(State(state): State<AppState>) -> Result<Json<Node>, ApiError> {
    let mut sum = courser_broker::ShardReport::default();
    let mut shards = 0;
    for shard in state.control.shards() {
        sum.add(&state.control.report(shard).await?);
        shards += 1;
    }
    let held = courser_memory::held();
    Ok(Json(Node {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: state.commit.map(str::to_owned),
        state: not_ready(&state).map_or_else(
            || "ready".to_owned(),
            |why| why.text().lines().next().unwrap_or_default().to_owned(),
        ),
        uptime_seconds: state.started.elapsed().as_secs(),
        shards,
        connections: sum.connections,
        sessions: sum.held.sessions,
        subscriptions: sum.held.subscriptions,
        retained_messages: sum.held.retained_messages,
        queued_messages: sum.held.queued_messages,
        messages_received: sum.counters.publishes_received(),
        messages_delivered: sum.counters.publishes_sent,
        messages_dropped: sum.counters.dropped_total(),
        bytes_received: sum.counters.bytes_received,
        bytes_sent: sum.counters.bytes_sent,
        cpu_us: sum.cpu_us,
        memory_held_bytes: held.total(),
        memory_limit_bytes: state.control.memory_max(),
        memory_largest: held.largest().0.to_string(),
        settings_digest: state.reloader.as_ref().map(|it| it.digest()),
    }))
}
