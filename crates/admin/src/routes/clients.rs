//! Connections.

use std::sync::Arc;

use axum::Extension;
use axum::Json;
use axum::extract::{Query, State};
use courser_broker::{AskError, ClientRow, Control, Happened, PastEvent, Redirect, RedirectKind};
use courser_contract::ShardId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::access::Principal;
use crate::api::{Client, ClientDetail, Done, Elsewhere};
use crate::error::{ApiError, Code, ErrorBody};
use crate::list::{List, ListParams, ListQuery, Step, Walk, list};
use crate::routes::body::{How, Named, Sent};
use crate::routes::done;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(clients))
        .routes(routes!(client, kick))
        .routes(routes!(redirect))
}

/// All connections.
pub(super) struct Clients;

impl Walk for Clients {
    type Row = Client;

    fn parts(control: &Control) -> Vec<u16> {
        control.shards().map(|shard| shard.0).collect()
    }

    async fn step(
        control: &Control,
        part: u16,
        from: (u32, u32),
    ) -> Result<Step<Client>, AskError> {
        let page = control.clients(ShardId(part), from.0).await?;
        let rows = page.rows.into_iter().map(|row| {
            let behind = row.front.slot + 1;
            (row.into(), (behind, 0))
        });
        Ok((rows.collect(), page.next.map(|next| (next, 0))))
    }

    fn id(row: &Client) -> String {
        format!(
            "{}\0{}",
            row.client_id,
            row.address.as_deref().unwrap_or_default()
        )
    }
}

/// Connections.
#[utoipa::path(get, path = "/api/v1/clients", params(ListParams), responses((status = 200, body = List<Client>), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody)))]
async fn clients(
    State(state): State<AppState>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<List<Client>>, ApiError> {
    let query = ListQuery::read::<Client>(parameters, &[])?;
    Ok(Json(list::<Clients>(&state.control, &query).await?))
}

/// A connection, its session, and what happened to the client id of late; also of one that is gone.
#[utoipa::path(get, path = "/api/v1/clients/{client_id}", params(("client_id" = String, Path, description = "Client id, percent-encoded")), responses((status = 200, body = ClientDetail), (status = 404, body = ErrorBody)))]
async fn client(
    State(state): State<AppState>,
    Named(client_id): Named,
) -> Result<Json<ClientDetail>, ApiError> {
    let row = state.control.client(&client_id).await?;
    let session = state.control.session(&client_id).await?;
    let mut events = state.control.history(&client_id).await?;
    if let Some(row) = &row {
        add_connected(&mut events, row);
    }
    let detail = ClientDetail {
        client: row.map(Into::into),
        session: session.map(Into::into),
        events: events.into_iter().map(Into::into).collect(),
    };
    if detail.client.is_none() && detail.session.is_none() && detail.events.is_empty() {
        return Err(unknown(&client_id));
    }
    Ok(Json(detail))
}

/// That a client has come is kept of none that nothing else has happened to: its connection knows it.
fn add_connected(events: &mut Vec<PastEvent>, row: &ClientRow) {
    let is_there = |event: &PastEvent| event.what == Happened::Connected && event.at >= row.since;
    if row.session.is_none() || events.iter().any(is_there) {
        return;
    }
    let place = events.partition_point(|event| event.at < row.since);
    let connected = PastEvent {
        at: row.since,
        client_id: Arc::from(&*row.client_id),
        what: Happened::Connected,
        address: row.address,
        topic: None,
    };
    events.insert(place, connected);
}

/// Closes a connection: a 5.0 client is told 0x98. Its session stays as long as it was to.
#[utoipa::path(delete, path = "/api/v1/clients/{client_id}", params(("client_id" = String, Path, description = "Client id, percent-encoded"), How), responses((status = 200, body = Done), (status = 404, body = ErrorBody)))]
async fn kick(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
    Named(client_id): Named,
    how: How,
) -> Result<Json<Done>, ApiError> {
    if how.dry_run {
        return would(&state, "would kick", &client_id).await;
    }
    if !state.control.kick(&client_id).await? {
        return Err(unknown(&client_id));
    }
    tracing::info!(
        event = "client_kicked",
        by = principal.name,
        client_id,
        "a connection was closed by an operator"
    );
    Ok(done("kicked", &client_id))
}

/// Sends a client to another server: a 5.0 client is told 0x9C or 0x9D and where to, a 3.1.1 client is only closed.
#[utoipa::path(post, path = "/api/v1/clients/{client_id}/redirect", params(("client_id" = String, Path, description = "Client id, percent-encoded"), How), request_body = Elsewhere, responses((status = 200, body = Done), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn redirect(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
    Named(client_id): Named,
    how: How,
    Sent(elsewhere): Sent<Elsewhere>,
) -> Result<Json<Done>, ApiError> {
    let kind = if elsewhere.permanent {
        RedirectKind::Permanent
    } else {
        RedirectKind::Temporary
    };
    let redirect = Redirect::new(kind, &elsewhere.to)
        .map_err(|error| ApiError::new(Code::BadRequest, format!("to: {error}")))?;
    if how.dry_run {
        return would(&state, "would redirect", &client_id).await;
    }
    if !state.control.redirect(&client_id, redirect).await? {
        return Err(unknown(&client_id));
    }
    tracing::info!(
        event = "client_redirected",
        by = principal.name,
        client_id,
        to = elsewhere.to,
        permanent = elsewhere.permanent,
        "a client was sent to another server by an operator"
    );
    Ok(done("redirected", &client_id))
}

/// What a dry run says of a connection, if it is there.
async fn would(state: &AppState, said: &str, client_id: &str) -> Result<Json<Done>, ApiError> {
    match state.control.client(client_id).await? {
        Some(_) => Ok(done(said, &client_id)),
        None => Err(unknown(client_id)),
    }
}

fn unknown(client_id: &str) -> ApiError {
    ApiError::new(
        Code::NoClient,
        format!("no connection has the client id {client_id:?}"),
    )
}
