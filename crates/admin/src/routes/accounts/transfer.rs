//! All users, roles and domains at once: out, and in again.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, FromRequestParts, State};
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use axum::{Extension, Json};
use courser_access::{Administration, Command, DomainName, Table};
use tokio::sync::OwnedSemaphorePermit;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{change, convert, table};
use crate::AppState;
use crate::access::Principal;
use crate::api::Imported;
use crate::error::{ApiError, ErrorBody};
use crate::routes::body::{How, IMPORT_BYTES_MAX, Sent};

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(export, import))
        .layer(DefaultBodyLimit::max(IMPORT_BYTES_MAX))
}

/// Memory for an import, until it is done. Before its body in what a route takes, so that nobody sends without it.
struct Room {
    _held: OwnedSemaphorePermit,
}

impl FromRequestParts<AppState> for Room {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let length = parts.headers.get(CONTENT_LENGTH);
        let length = length.and_then(|it| it.to_str().ok()?.parse().ok());
        // Who does not say it may bring as much as there may be. What is larger is refused where it is read.
        let bytes = length.unwrap_or(IMPORT_BYTES_MAX).min(IMPORT_BYTES_MAX);
        let held = state.answers.import_room(bytes).await?;
        Ok(Self { _held: held })
    }
}

/// All users and roles, with hashes of passwords: keep it as you keep those. Not for who may only look.
#[utoipa::path(get, path = "/api/v1/access", responses((status = 200, description = "Users and roles in the form that import takes", body = Object), (status = 403, body = ErrorBody)))]
async fn export(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
) -> Result<Json<Arc<Table>>, ApiError> {
    // Whoever has the hash of somebody's password can guess it, and be that one.
    principal.may(Administration::Full)?;
    let table = table(&state)?;
    tracing::info!(
        event = "access_exported",
        by = principal.name,
        "an operator has taken all users and roles with their hashes"
    );
    Ok(Json(table))
}

/// Replaces all users and roles by those of an export, at once. Whose user is not among them is disconnected.
#[utoipa::path(put, path = "/api/v1/access", params(How), request_body = Object, responses((status = 200, body = Imported), (status = 400, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn import(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
    how: How,
    _room: Room,
    Sent(new): Sent<Table>,
) -> Result<Json<Imported>, ApiError> {
    convert::no_zeros(&new)?;
    let imported = change(&state, how, |before| {
        let imported = difference(before, &new, how.dry_run);
        Ok((Some(Command::Replace(Box::new(new.clone()))), imported))
    })
    .await?;
    if !how.dry_run {
        tracing::info!(
            event = "access_imported",
            by = principal.name,
            "an operator has replaced all users and roles"
        );
    }
    Ok(Json(imported))
}

/// Names that are in the second alone, in both with another value, and in the first alone.
fn compare<'a, N: Ord + 'a, V: 'a>(
    before: impl Iterator<Item = (&'a N, &'a V)>,
    after: impl Iterator<Item = (&'a N, &'a V)>,
    is_same: impl Fn(&V, &V) -> bool,
) -> (u64, u64, u64) {
    let mut before: BTreeMap<&N, &V> = before.collect();
    let (mut added, mut changed) = (0, 0);
    for (name, new) in after {
        match before.remove(name) {
            None => added += 1,
            Some(old) if is_same(old, new) => {}
            Some(_) => changed += 1,
        }
    }
    (added, changed, before.len() as u64)
}

fn difference(before: &Table, after: &Table, dry_run: bool) -> Imported {
    let (users_added, users_changed, users_removed) =
        compare(before.users(), after.users(), |old, new| {
            old.state == new.state
                && old.password == new.password
                && old.scram == new.scram
                && old.roles == new.roles
                && old.limits == new.limits
        });
    let (roles_added, roles_changed, roles_removed) =
        compare(before.roles(), after.roles(), PartialEq::eq);
    let is_changed = |name: &DomainName| before.domain(*name) != after.domain(*name);
    Imported {
        dry_run,
        users_added,
        users_changed,
        users_removed,
        roles_added,
        roles_changed,
        roles_removed,
        domains_changed: DomainName::ALL.iter().filter(|it| is_changed(it)).count() as u64,
    }
}
