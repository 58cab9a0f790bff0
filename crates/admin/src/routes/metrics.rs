//! `/metrics` and `/metrics/detailed`.

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware;
use axum::response::IntoResponse;
use axum::routing::get;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::clients::Clients;
use super::sessions::Sessions;
use crate::api::{Client, Session};
use crate::error::{ApiError, Code, ErrorBody};
use crate::list::{ListParams, ListQuery, list};
use crate::metrics::detailed::{ByListener, Detailed};
use crate::metrics::{Format, Snapshot, encode};
use crate::routes::health::not_ready;
use crate::{AppState, access};

pub(super) fn routes(state: &AppState) -> Router<AppState> {
    let guard = middleware::from_fn_with_state(state.clone(), access::require_elsewhere);
    Router::new().route("/metrics", get(metrics)).layer(guard)
}

async fn metrics(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ApiError> {
    let format = Format::wanted(&headers);
    let ready = not_ready(&state).is_none();
    let snapshot = Snapshot::take(&state, ready).await?;
    let text = format.of(encode(snapshot));
    Ok(([(header::CONTENT_TYPE, format.content_type())], text))
}

/// Rows of an answer, where nobody says how many: a scraper asks for all of them.
const ROWS: &str = "10000";

pub(super) fn detailed_routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(detailed))
}

/// Figures of single clients, sessions or listeners, in OpenMetrics text; `filter`, `sort`, `limit` and `cursor` are those of the
/// listings of clients and sessions. Where there are more than so many, the header `Link` names the next page.
#[utoipa::path(get, path = "/metrics/detailed", params(("family" = String, Query, description = "`clients`, `sessions` or `listeners`"), ListParams), responses((status = 200, description = "OpenMetrics text", body = String), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody)))]
async fn detailed(
    State(state): State<AppState>,
    asking: HeaderMap,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<impl IntoResponse, ApiError> {
    let format = Format::wanted(&asking);
    let again = again(&parameters);
    let mut family = None;
    let mut asked = Vec::new();
    for (name, value) in parameters {
        match name.as_str() {
            "family" => family = Some(value),
            _ => asked.push((name, value)),
        }
    }
    if asked.iter().all(|(name, _)| name != "limit") {
        asked.push(("limit".to_owned(), ROWS.to_owned()));
    }
    let control = &state.control;
    let (figures, next) = match family.as_deref() {
        Some("clients") => {
            let page = list::<Clients>(control, &ListQuery::read::<Client>(asked, &[])?).await?;
            (Detailed::clients(page.items), page.next)
        }
        Some("sessions") => {
            let page = list::<Sessions>(control, &ListQuery::read::<Session>(asked, &[])?).await?;
            (Detailed::sessions(page.items), page.next)
        }
        Some("listeners") => (by_listener(&state, &asked).await?, None),
        Some(_) | None => {
            let message = "family: expected clients, sessions or listeners";
            return Err(ApiError::new(Code::BadRequest, message));
        }
    };
    let mut headers = HeaderMap::new();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    let figures = match next {
        None => figures,
        Some(next) => {
            let link = HeaderValue::try_from(format!("<?{again}cursor={next}>; rel=\"next\""));
            headers.insert(header::LINK, link.expect("it is ASCII, without controls"));
            figures.cut()
        }
    };
    Ok((headers, format.of(figures.encode())))
}

/// What is escaped in a question: all but what no URL gives a meaning (RFC 3986, 2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The same question for another page: all of it but the cursor, with `&` behind each part.
fn again(parameters: &[(String, String)]) -> String {
    let mut question = String::new();
    for (name, value) in parameters {
        if name != "cursor" {
            question.push_str(&format!(
                "{}={}&",
                utf8_percent_encode(name, ESCAPED),
                utf8_percent_encode(value, ESCAPED)
            ));
        }
    }
    question
}

/// A walk over all connections.
async fn by_listener(state: &AppState, asked: &[(String, String)]) -> Result<Detailed, ApiError> {
    let filters = asked.iter().filter(|(name, _)| name == "filter").cloned();
    let mut parameters: Vec<_> = filters.collect();
    if let Some((stray, _)) = asked
        .iter()
        .find(|(name, _)| name != "filter" && name != "limit")
    {
        let message = format!("{}: not for listeners", stray.escape_debug());
        return Err(ApiError::new(Code::BadRequest, message));
    }
    parameters.push(("limit".to_owned(), ROWS.to_owned()));
    let mut sum = ByListener::default();
    let mut cursor = None;
    loop {
        let from = cursor.map(|cursor| ("cursor".to_owned(), cursor));
        let asked = parameters.iter().cloned().chain(from).collect();
        let page = list::<Clients>(&state.control, &ListQuery::read::<Client>(asked, &[])?).await?;
        sum.add(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(sum.detailed());
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Uri;

    use super::*;

    #[test]
    fn the_next_page_is_of_the_same_question() {
        let asked = [
            ("family", "clients"),
            ("filter", "client_id=a&b >;\"ü*"),
            ("cursor", "77"),
            ("filter", "user!=x%2B+"),
            ("sort", "-client_id"),
            ("limit", "3"),
        ];
        let asked = asked.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let again = again(&asked);
        assert!(
            again.starts_with("family=clients&filter=client_id%3Da%26b%20%3E%3B%22%C3%BC%2A&"),
            "{again}"
        );
        let uri: Uri = format!("/?{again}cursor=78").parse().unwrap();
        let Query(read) = Query::<Vec<(String, String)>>::try_from_uri(&uri).unwrap();
        let mut expected = asked.to_vec();
        expected.remove(2);
        expected.push(("cursor".to_owned(), "78".to_owned()));
        assert_eq!(read, expected);
    }
}
