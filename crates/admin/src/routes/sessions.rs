//! Sessions and their subscriptions.

use std::time::Duration;

use axum::extract::{Query, State};
use axum::{Extension, Json};
use courser_broker::{AskError, Control, Ended, SubscriptionStop};
use courser_contract::PartitionId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::access::Principal;
use crate::api::{Done, Session, Subscription};
use crate::error::{ApiError, Code, ErrorBody};
use crate::list::{List, ListParams, ListQuery, Step, Walk, list};
use crate::routes::body::{How, Named};
use crate::routes::done;

/// How often it is asked whether a change is committed, and how many times.
const LOOK: Duration = Duration::from_millis(10);
const LOOKS_MAX: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(sessions))
        .routes(routes!(session, delete))
        .routes(routes!(subscriptions))
}

fn partitions(control: &Control) -> Vec<u16> {
    control
        .session_partitions()
        .map(|partition| partition.0)
        .collect()
}

/// All sessions.
pub(super) struct Sessions;

impl Walk for Sessions {
    type Row = Session;

    fn parts(control: &Control) -> Vec<u16> {
        partitions(control)
    }

    async fn step(
        control: &Control,
        part: u16,
        from: (u32, u32),
    ) -> Result<Step<Session>, AskError> {
        let page = control.sessions(PartitionId(part), from.0).await?;
        let rows = page.rows.into_iter().map(|row| {
            let behind = row.behind;
            (row.into(), (behind, 0))
        });
        Ok((rows.collect(), page.next.map(|next| (next, 0))))
    }

    fn id(row: &Session) -> String {
        row.place.clone()
    }
}

struct Subscriptions;

impl Walk for Subscriptions {
    type Row = Subscription;

    fn parts(control: &Control) -> Vec<u16> {
        partitions(control)
    }

    async fn step(
        control: &Control,
        part: u16,
        from: (u32, u32),
    ) -> Result<Step<Subscription>, AskError> {
        let from = SubscriptionStop {
            session: from.0,
            done: from.1,
        };
        let page = control.subscriptions(PartitionId(part), from).await?;
        let rows = page.rows.into_iter().map(|row| {
            let behind = (row.behind.session, row.behind.done);
            (row.into(), behind)
        });
        Ok((
            rows.collect(),
            page.next.map(|next| (next.session, next.done)),
        ))
    }

    fn id(row: &Subscription) -> String {
        [
            &row.client_id,
            row.share.as_deref().unwrap_or_default(),
            &row.filter,
        ]
        .join("\0")
    }
}

/// Sessions, with and without a connection.
#[utoipa::path(get, path = "/api/v1/sessions", params(ListParams), responses((status = 200, body = List<Session>), (status = 400, body = ErrorBody)))]
async fn sessions(
    State(state): State<AppState>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<List<Session>>, ApiError> {
    let query = ListQuery::read::<Session>(parameters, &[])?;
    Ok(Json(list::<Sessions>(&state.control, &query).await?))
}

/// Subscriptions of all sessions.
#[utoipa::path(get, path = "/api/v1/subscriptions", params(ListParams), responses((status = 200, body = List<Subscription>), (status = 400, body = ErrorBody)))]
async fn subscriptions(
    State(state): State<AppState>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<List<Subscription>>, ApiError> {
    let query = ListQuery::read::<Subscription>(parameters, &[])?;
    Ok(Json(list::<Subscriptions>(&state.control, &query).await?))
}

/// The session of a client id: the one that is kept for it, or that of its connection.
#[utoipa::path(get, path = "/api/v1/sessions/{client_id}", params(("client_id" = String, Path, description = "Client id, percent-encoded")), responses((status = 200, body = Session), (status = 404, body = ErrorBody)))]
async fn session(
    State(state): State<AppState>,
    Named(client_id): Named,
) -> Result<Json<Session>, ApiError> {
    let row = state.control.session(&client_id).await?;
    Ok(Json(row.ok_or_else(|| unknown(&client_id))?.into()))
}

/// Ends a session that has no connection: its will goes out, its messages are dropped. Answered once that is committed.
#[utoipa::path(delete, path = "/api/v1/sessions/{client_id}", params(("client_id" = String, Path, description = "Client id, percent-encoded"), How), responses((status = 200, body = Done), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn delete(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
    Named(client_id): Named,
    how: How,
) -> Result<Json<Done>, ApiError> {
    let Some(before) = state.control.session(&client_id).await? else {
        return Err(unknown(&client_id));
    };
    if how.dry_run {
        return match before.connected {
            true => Err(in_use(&client_id)),
            false => Ok(done("would delete", &client_id)),
        };
    }
    match state.control.end_session(&client_id).await? {
        Ended::Proposed => {}
        Ended::Unknown => return Err(unknown(&client_id)),
        Ended::InUse => return Err(in_use(&client_id)),
        Ended::Unavailable => {
            return Err(ApiError::new(Code::Unavailable, "the server is not ready"));
        }
    }
    tracing::info!(
        event = "session_deleted",
        by = principal.name,
        client_id,
        "a session was ended by an operator"
    );
    for _ in 0..LOOKS_MAX {
        let now = state.control.session(&client_id).await?;
        // Another one may have come meanwhile: it is not this one.
        if now.is_none_or(|now| now.at != before.at) {
            return Ok(done("deleted", &client_id));
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(ApiError::new(
        Code::TimedOut,
        "the end of the session is not committed yet",
    ))
}

fn in_use(client_id: &str) -> ApiError {
    let message =
        format!("the session of {client_id:?} has a connection, or one is coming or going");
    ApiError::new(Code::SessionInUse, message)
}

fn unknown(client_id: &str) -> ApiError {
    ApiError::new(
        Code::NoSession,
        format!("no session is kept for the client id {client_id:?}"),
    )
}
