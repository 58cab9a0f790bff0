//! What is to be found here, for who has the address alone.

use std::fmt::Write as _;

use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value};

use crate::AppState;

/// What is open to everybody, or says itself who may ask.
const PLACES: [(&str, &str); 5] = [
    ("/api", "all routes of the API"),
    ("/api/v1/openapi.json", "the same for tools"),
    ("/metrics", "metrics in the format of OpenMetrics"),
    ("/healthz", "whether the server is alive"),
    ("/readyz", "whether it serves, and if not, why"),
];

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/", get(async |headers: HeaderMap| entry(&headers)))
}

/// A page; JSON for who asks for it.
fn entry(headers: &HeaderMap) -> Response {
    let accepts = headers.get(header::ACCEPT);
    let accepts = accepts.and_then(|accepts| accepts.to_str().ok());
    match accepts.is_some_and(|kinds| kinds.contains("application/json")) {
        true => {
            let places = PLACES.map(|(path, what)| (path.to_owned(), Value::from(what)));
            Json(Map::from_iter(places)).into_response()
        }
        false => Html(html()).into_response(),
    }
}

fn html() -> String {
    let mut page = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>Courser</title>\
         <link rel=stylesheet href=\"/api/page.css\"><h1>Courser</h1><ul>",
    );
    for (path, what) in PLACES {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n<li><a href=\"{path}\">{path}</a> {what}");
    }
    page + "\n</ul>\n"
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_browser_gets_a_page_and_a_program_json() {
        for (accept, expected) in [
            (None, "text/html; charset=utf-8"),
            (Some("*/*"), "text/html; charset=utf-8"),
            (
                Some("text/html,application/xml;q=0.9"),
                "text/html; charset=utf-8",
            ),
            (Some("application/json"), "application/json"),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(accept.map(|it| (header::ACCEPT, HeaderValue::from_static(it))));
            let answer = entry(&headers);
            assert_eq!(
                answer.headers()[header::CONTENT_TYPE],
                expected,
                "{accept:?}"
            );
        }
        for (path, _) in PLACES {
            assert!(html().contains(&format!("<a href=\"{path}\">")), "{path}");
        }
    }
}
