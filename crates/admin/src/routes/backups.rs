//! Backups: begin one, see how far it is, stop it.

use std::path::PathBuf;

use axum::extract::{Query, State};
use axum::{Extension, Json};
use courser_broker::{BackupError, BackupStage, Status};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::access::Caller;
use crate::api::{Backup, Done};
use crate::error::{ApiError, Code, ErrorBody};

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(backup, begin, stop))
}

/// The last backup that was begun since the start.
#[utoipa::path(get, path = "/api/v1/backup", responses((status = 200, body = Backup), (status = 401, body = ErrorBody)))]
async fn backup(State(state): State<AppState>) -> Json<Backup> {
    Json(state.control.backup().into())
}

/// Begins a backup and answers at once. Over the Unix socket only: the server writes where it is told to.
#[utoipa::path(post, path = "/api/v1/backup",
    params(("folder" = String, Query, description = "a folder of the server's machine, by its whole path: empty, or with backups of this server"),
        ("bytes_per_second" = Option<u64>, Query, description = "instead of what the settings say")),
    responses((status = 200, body = Backup), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn begin(
    State(state): State<AppState>,
    caller: Option<Extension<Caller>>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<Backup>, ApiError> {
    match caller {
        Some(Extension(Caller::Local { .. })) => {}
        Some(Extension(Caller::Network { .. })) | None => {
            return Err(ApiError::new(
                Code::Forbidden,
                "a backup is written where it is told to: begin it on the server's machine, over its socket",
            ));
        }
    }
    let bad = |message: String| ApiError::new(Code::BadRequest, message);
    let (mut folder, mut pace) = (None, None);
    for (name, value) in parameters {
        match name.as_str() {
            "folder" => folder = Some(PathBuf::from(value)),
            "bytes_per_second" => {
                let number: Option<u64> = value.parse().ok().filter(|number| *number > 0);
                pace = Some(number.ok_or_else(|| bad(format!("{value}: bytes per second")))?);
            }
            _ => return Err(bad(format!("unknown parameter \"{name}\""))),
        }
    }
    let folder = folder.ok_or_else(|| bad("folder: where to?".to_owned()))?;
    if state.control.status() != Status::Serving {
        return Err(ApiError::new(Code::Unavailable, "the server is not ready"));
    }
    Ok(Json(state.control.begin_backup(&folder, pace)?.into()))
}

/// Stops the backup that is being made.
#[utoipa::path(delete, path = "/api/v1/backup", responses((status = 200, body = Done), (status = 404, body = ErrorBody)))]
async fn stop(State(state): State<AppState>) -> Result<Json<Done>, ApiError> {
    if !state.control.stop_backup() {
        return Err(ApiError::new(Code::NoBackup, "no backup is being made"));
    }
    Ok(Json(Done {
        done: "stopped".to_owned(),
        what: "backup".to_owned(),
    }))
}

impl From<BackupError> for ApiError {
    fn from(error: BackupError) -> Self {
        let code = match error {
            BackupError::Running => Code::BackupRuns,
            BackupError::NoRoom => Code::BackupNoRoom,
            _ => Code::BackupRefused,
        };
        Self::new(code, error.to_string())
    }
}

/// In a word.
pub(crate) const fn word(stage: BackupStage) -> &'static str {
    match stage {
        BackupStage::None => "none",
        BackupStage::Running => "running",
        BackupStage::Done => "done",
        BackupStage::Failed => "failed",
    }
}
