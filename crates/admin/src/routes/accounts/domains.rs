//! Domains: what lives together, with limits of its own.

use axum::extract::{Query, State};
use axum::{Extension, Json};
use courser_access::{Command, DomainName};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{change, convert, table};
use crate::AppState;
use crate::access::Principal;
use crate::api::{self, Changed, DomainChange};
use crate::error::{ApiError, Code, ErrorBody};
use crate::list::{List, ListParams, ListQuery, list_here};
use crate::routes::body::{How, Named, Sent};

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(domains))
        .routes(routes!(domain, set))
}

fn find(text: &str) -> Result<DomainName, ApiError> {
    DomainName::new(text).ok_or_else(|| {
        let message = format!("there is no domain {}", text.escape_debug());
        ApiError::new(Code::NoDomain, message)
    })
}

/// Domains, by name.
#[utoipa::path(get, path = "/api/v1/domains", params(ListParams), responses((status = 200, body = List<api::Domain>), (status = 400, body = ErrorBody)))]
async fn domains(
    State(state): State<AppState>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<List<api::Domain>>, ApiError> {
    let query = ListQuery::read::<api::Domain>(parameters, &[])?;
    let table = table(&state)?;
    let rows = DomainName::ALL.into_iter().map(|name| {
        let domain = table.domain(name);
        (name.as_str(), move || convert::domain(name, domain))
    });
    Ok(Json(list_here(&state.control, &query, rows).await?))
}

/// A domain.
#[utoipa::path(get, path = "/api/v1/domains/{name}", params(("name" = String, Path, description = "Name of the domain")), responses((status = 200, body = api::Domain), (status = 404, body = ErrorBody)))]
async fn domain(
    State(state): State<AppState>,
    Named(name): Named,
) -> Result<Json<api::Domain>, ApiError> {
    let name = find(&name)?;
    Ok(Json(convert::domain(name, table(&state)?.domain(name))))
}

/// Changes limits of a domain: of everybody in it for whom neither user nor roles say something else, and of what all of them have retained.
#[utoipa::path(patch, path = "/api/v1/domains/{name}", params(("name" = String, Path, description = "Name of the domain"), How), request_body = DomainChange, responses((status = 200, body = Changed), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn set(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    how: How,
    Sent(asked): Sent<DomainChange>,
) -> Result<Json<Changed>, ApiError> {
    let name = find(&name)?;
    let changed = change(&state, how, |table| {
        let before = table.domain(name);
        let after = convert::domain_changed(before, &asked.limits)?;
        let [was, is] = [before, after].map(|domain| convert::domain(name, domain));
        let command = (after != before).then_some(Command::PutDomain(name, after));
        Ok((command, convert::changed(how, &name, (was, is))))
    })
    .await?;
    if how.dry_run {
        return Ok(Json(changed));
    }
    tracing::info!(
        event = "domain_changed",
        by = principal.name,
        domain = name.as_str(),
        "an operator changed a domain"
    );
    Ok(Json(changed))
}
