//! Users, roles, rules and domains: what there is, what it decides, and changes of it.
//!
//! A change is read from the table, thought out here, and made only if nobody else has changed the table since; else it is thought out
//! again ([`change`]). So two operators never undo each other's work, and each answer is sent once the change is committed.

mod convert;
mod domains;
mod roles;
mod transfer;
mod users;

use std::time::Duration;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use courser_access::{Command, Refusal, Table};
use courser_broker::ChangeError;
use utoipa_axum::router::OpenApiRouter;

use crate::AppState;
use crate::error::{ApiError, Code};
use crate::routes::body::How;

/// How often a change is thought out again because others came first, and the pause between.
const ATTEMPTS_MAX: usize = 200;
const PAUSE: Duration = Duration::from_millis(5);

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(users::routes())
        .merge(roles::routes())
        .merge(domains::routes())
        .merge(transfer::routes())
}

/// The parameters of a URL.
fn parameters<T>(read: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    match read {
        Ok(Query(parameters)) => Ok(parameters),
        Err(rejection) => Err(bad(rejection.body_text())),
    }
}

fn bad(message: impl std::fmt::Display) -> ApiError {
    ApiError::new(Code::BadRequest, message.to_string())
}

/// The table, if it is known yet.
fn table(state: &AppState) -> Result<std::sync::Arc<Table>, ApiError> {
    if state.control.accounts_serve() {
        Ok(state.control.accounts())
    } else {
        Err(ChangeError::Unavailable.into())
    }
}

/// Makes the change that `think` finds right for the table as it is, or only checks it; what else `think` gives is given back. No
/// command: there is nothing to change.
async fn change<T>(
    state: &AppState,
    how: How,
    mut think: impl FnMut(&Table) -> Result<(Option<Command>, T), ApiError>,
) -> Result<T, ApiError> {
    for _ in 0..ATTEMPTS_MAX {
        let table = table(state)?;
        let (command, told) = think(&table)?;
        let Some(command) = command else {
            return Ok(told);
        };
        if how.dry_run {
            table.check(&command).map_err(ChangeError::Refused)?;
            return Ok(told);
        }
        let changed = state.control.change_accounts(table.revision(), command);
        match changed.await {
            Ok(_) => return Ok(told),
            Err(ChangeError::Overtaken) => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    }
    Err(ChangeError::Overtaken.into())
}

impl From<ChangeError> for ApiError {
    fn from(error: ChangeError) -> Self {
        let code = match &error {
            ChangeError::Refused(refusal) => match refusal {
                Refusal::NoUser(_) => Code::NoUser,
                Refusal::NoRole(_) => Code::NoRole,
                Refusal::RoleInUse { .. } => Code::RoleInUse,
                Refusal::TooMany { .. } => Code::TooMany,
                Refusal::NoRoom { .. } => Code::NoRoom,
                Refusal::DearHash { .. } => Code::DearHash,
                Refusal::Placeholder { .. } => Code::BadRequest,
                Refusal::LastAdministrator => Code::LastAdministrator,
            },
            ChangeError::Unavailable => Code::Unavailable,
            ChangeError::Overtaken => Code::Overtaken,
            ChangeError::Unknown => Code::TimedOut,
        };
        Self::new(code, error.to_string())
    }
}
