//! Users.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::{Extension, Json};
use courser_access::{Command, Table, User, UserName};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{bad, change, convert, table};
use crate::AppState;
use crate::access::Principal;
use crate::api::{self, Changed, Done, NewPassword, NewUser, UserChange};
use crate::error::{ApiError, Code, ErrorBody};
use crate::list::{List, ListParams, ListQuery, list_here};
use crate::routes::body::{How, Named, Sent};
use crate::routes::done;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(users, add))
        .routes(routes!(user, set, remove))
        .routes(routes!(set_password))
}

fn unknown(name: &UserName) -> ApiError {
    ApiError::new(Code::NoUser, format!("there is no user {name}"))
}

fn find<'a>(table: &'a Table, name: &UserName) -> Result<&'a Arc<User>, ApiError> {
    table.user(name.as_str()).ok_or_else(|| unknown(name))
}

/// Users, by name.
#[utoipa::path(get, path = "/api/v1/users", params(ListParams), responses((status = 200, body = List<api::User>), (status = 400, body = ErrorBody)))]
async fn users(
    State(state): State<AppState>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<List<api::User>>, ApiError> {
    let query = ListQuery::read::<api::User>(parameters, &[])?;
    let table = table(&state)?;
    let rows = table
        .users()
        .map(|(name, user)| (name.as_str(), move || convert::user(name, user)));
    Ok(Json(list_here(&state.control, &query, rows).await?))
}

/// A user.
#[utoipa::path(get, path = "/api/v1/users/{name}", params(("name" = String, Path, description = "User name, percent-encoded")), responses((status = 200, body = api::User), (status = 404, body = ErrorBody)))]
async fn user(
    State(state): State<AppState>,
    Named(name): Named,
) -> Result<Json<api::User>, ApiError> {
    let name = convert::user_name(&name)?;
    let table = table(&state)?;
    Ok(Json(convert::user(&name, find(&table, &name)?)))
}

/// Makes a user. Without a password it can only come in by a client certificate.
#[utoipa::path(post, path = "/api/v1/users", request_body = NewUser, responses((status = 200, body = Done), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn add(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
    Sent(asked): Sent<NewUser>,
) -> Result<Json<Done>, ApiError> {
    let name = convert::user_name(&asked.name)?;
    exists_not(&*table(&state)?, &name)?;
    let mut user = User {
        state: convert::state(asked.state),
        limits: convert::limits(Default::default(), &asked.limits)?,
        ..User::default()
    };
    for role in &asked.roles {
        user.roles.insert(convert::role_name(role)?);
    }
    match (asked.password, asked.password_hash) {
        (Some(_), Some(_)) => {
            return Err(bad(
                "password and password_hash: one of them says what the other must be",
            ));
        }
        (Some(password), None) => {
            let (hash, scram) = convert::credentials(&state, password, asked.scram).await?;
            user.password = Some(hash);
            user.scram = scram;
        }
        (None, _) if asked.scram => {
            return Err(bad("scram: its keys can only be made of a password"));
        }
        (None, Some(hash)) => user.password = Some(hash.text().parse().map_err(bad)?),
        (None, None) => {}
    }
    change(&state, How::default(), |table| {
        exists_not(table, &name)?;
        Ok((Some(Command::PutUser(name.clone(), user.clone())), ()))
    })
    .await?;
    tracing::info!(
        event = "user_added",
        by = principal.name,
        user = name.as_str(),
        "an operator made a user"
    );
    Ok(done("added", &name))
}

fn exists_not(table: &Table, name: &UserName) -> Result<(), ApiError> {
    match table.user(name.as_str()) {
        None => Ok(()),
        Some(_) => Err(ApiError::new(
            Code::UserExists,
            format!("there is a user {name} already"),
        )),
    }
}

/// Changes state, roles and limits of a user. Who is disabled is disconnected, and a right that is gone counts at the next message.
#[utoipa::path(patch, path = "/api/v1/users/{name}", params(("name" = String, Path, description = "User name, percent-encoded"), How), request_body = UserChange, responses((status = 200, body = Changed), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn set(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    how: How,
    Sent(asked): Sent<UserChange>,
) -> Result<Json<Changed>, ApiError> {
    let name = convert::user_name(&name)?;
    let changed = change(&state, how, |table| {
        let before = find(table, &name)?;
        let mut user = User::clone(before);
        if let Some(state) = asked.state {
            user.state = convert::state(state);
        }
        for role in &asked.add_roles {
            user.roles.insert(convert::role_name(role)?);
        }
        for role in &asked.remove_roles {
            user.roles.remove(&convert::role_name(role)?);
        }
        user.limits = convert::limits(user.limits, &asked.limits)?;
        let [was, is] = [before, &user].map(|user| convert::user(&name, user));
        let command = (user != **before).then(|| Command::PutUser(name.clone(), user));
        Ok((command, convert::changed(how, &name, (was, is))))
    })
    .await?;
    if how.dry_run {
        return Ok(Json(changed));
    }
    tracing::info!(
        event = "user_changed",
        by = principal.name,
        user = name.as_str(),
        "an operator changed a user"
    );
    Ok(Json(changed))
}

/// Gives a user another password, or takes it away. Whoever came in with the old one is disconnected and keeps the session.
#[utoipa::path(put, path = "/api/v1/users/{name}/password", params(("name" = String, Path, description = "User name, percent-encoded"), How), request_body = NewPassword, responses((status = 200, body = Done), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn set_password(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    how: How,
    Sent(asked): Sent<NewPassword>,
) -> Result<Json<Done>, ApiError> {
    let name = convert::user_name(&name)?;
    find(&*table(&state)?, &name)?;
    let (hash, scram) = match asked.password {
        // Nobody is refused a password for what it is: none need be hashed.
        Some(_) if how.dry_run => return Ok(done("would change", &name)),
        Some(password) => {
            let (hash, scram) = convert::credentials(&state, password, asked.scram).await?;
            (Some(hash), scram)
        }
        None if asked.scram => return Err(bad("scram: its keys can only be made of a password")),
        None => (None, None),
    };
    change(&state, how, |table| {
        let mut user = User::clone(find(table, &name)?);
        user.password = hash.clone();
        user.scram = scram.clone();
        Ok((Some(Command::PutUser(name.clone(), user)), ()))
    })
    .await?;
    if how.dry_run {
        return Ok(done("would change", &name));
    }
    tracing::info!(
        event = "user_password_changed",
        by = principal.name,
        user = name.as_str(),
        "an operator changed what a user proves itself with"
    );
    Ok(done("changed", &name))
}

/// Removes a user: its connections end with 0x87, and its sessions.
#[utoipa::path(delete, path = "/api/v1/users/{name}", params(("name" = String, Path, description = "User name, percent-encoded"), How), responses((status = 200, body = Done), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn remove(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    how: How,
) -> Result<Json<Done>, ApiError> {
    let name = convert::user_name(&name)?;
    change(&state, how, |table| {
        find(table, &name)?;
        Ok((Some(Command::RemoveUser(name.clone())), ()))
    })
    .await?;
    if how.dry_run {
        return Ok(done("would remove", &name));
    }
    tracing::info!(
        event = "user_removed",
        by = principal.name,
        user = name.as_str(),
        "an operator removed a user"
    );
    Ok(done("removed", &name))
}
