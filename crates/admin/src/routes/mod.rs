//! All routes.

mod accounts;
pub(crate) mod backups;
mod body;
mod clients;
mod damage;
mod entry;
mod events;
mod health;
mod listeners;
mod metrics;
mod node;
mod page;
mod retained;
mod sessions;
mod settings;
mod topics;
mod trace;

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use tokio::time::timeout;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;

use crate::AppState;
use crate::access;
use crate::answers;
use crate::api::Done;
use crate::error::{ApiError, Code};

/// Longest time for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Says what was done to what, or would be.
fn done(done: &str, what: &impl ToString) -> Json<Done> {
    Json(Done {
        done: done.to_owned(),
        what: what.to_string(),
    })
}

#[derive(OpenApi)]
#[openapi(info(
    title = "Courser",
    description = "The API of one broker. Errors have stable numbers: courser errors CODE."
), modifiers(&Schemes), security(("token" = []), ("user" = [])))]
struct Document;

/// How somebody says who asks.
struct Schemes;

impl Modify for Schemes {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let token = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("The token of DATA/admin.token: it may do everything."));
        let user = HttpBuilder::new()
            .scheme(HttpAuthScheme::Basic)
            .description(Some(
                "A user, as far as `administration` of its roles goes: with `read` GET alone, and no hashes of passwords; with `full` everything.",
            ));
        let components = document.components.get_or_insert_default();
        for (name, scheme) in [("token", token), ("user", user)] {
            components.add_security_scheme(name, SecurityScheme::Http(scheme.build()));
        }
    }
}

/// Routes behind the check of who asks.
fn guarded() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(node::routes())
        .merge(damage::routes())
        .merge(backups::routes())
        .merge(listeners::routes())
        .merge(clients::routes())
        .merge(sessions::routes())
        .merge(retained::routes())
        .merge(events::routes())
        .merge(accounts::routes())
        .merge(settings::routes())
        .merge(trace::routes())
        .merge(metrics::detailed_routes())
}

/// Everything.
pub(crate) fn router(state: AppState) -> Router {
    let (api, document) = guarded().split_for_parts();
    // Whoever may not ask at all is told so before.
    let api = api.layer(middleware::from_fn_with_state(
        state.clone(),
        answers::bounded,
    ));
    let api = api.layer(middleware::from_fn(each_once));
    let api = api.layer(middleware::from_fn_with_state(
        state.clone(),
        access::require,
    ));
    // Made once: whoever asks for them holds nothing of its own.
    let page = Bytes::from(page::html(&document));
    let document = Bytes::from(serde_json::to_vec(&document).unwrap_or_default());
    let open = Router::new()
        .route(
            "/api/v1/openapi.json",
            axum::routing::get(async move || ([("content-type", "application/json")], document)),
        )
        .route(
            "/api",
            axum::routing::get(async move || axum::response::Html(page)),
        )
        .route(
            "/api/page.css",
            axum::routing::get(async || ([("content-type", "text/css")], page::STYLE)),
        )
        .merge(entry::routes())
        .merge(health::routes())
        .merge(metrics::routes(&state));
    api.merge(open)
        .fallback(async || ApiError::new(Code::NoRoute, "there is no such route"))
        .method_not_allowed_fallback(async || {
            ApiError::new(Code::BadMethod, "the route does not take this method")
        })
        .layer(middleware::from_fn(in_time))
        .layer(DefaultBodyLimit::max(body::BODY_BYTES_MAX))
        .with_state(state)
}

/// A parameter that may be said as often as wanted.
const OFTEN: &str = "filter";

/// Refuses a question that says one thing twice: whichever of both counted, the other one would be left out silently.
async fn each_once(
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
    request: Request,
    next: Next,
) -> Response {
    // What cannot be read is refused by the route, in its own words.
    let parameters = query.map_or(Vec::new(), |Query(parameters)| parameters);
    let mut said = BTreeSet::new();
    let twice = parameters
        .iter()
        .find(|(name, _)| name != OFTEN && !said.insert(name.as_str()));
    match twice {
        None => next.run(request).await,
        Some((name, _)) => {
            let message = format!("the parameter \"{}\" is said twice", name.escape_debug());
            ApiError::new(Code::BadRequest, message).into_response()
        }
    }
}

async fn in_time(request: Request, next: Next) -> Response {
    match timeout(ANSWER_MAX, next.run(request)).await {
        Ok(mut response) => {
            let headers = response.headers_mut();
            headers.insert(
                "cache-control",
                axum::http::HeaderValue::from_static("no-store"),
            );
            headers.insert(
                "x-content-type-options",
                axum::http::HeaderValue::from_static("nosniff"),
            );
            headers.insert(
                "content-security-policy",
                axum::http::HeaderValue::from_static("default-src 'none'; style-src 'self'"),
            );
            response
        }
        Err(_) => {
            ApiError::new(Code::TimedOut, "the shards have not answered in time").into_response()
        }
    }
}
