//! The page of the API: all routes with what they say, made from the OpenAPI document; nothing of it runs.

use std::fmt::Write as _;

use serde_json::Value;
use utoipa::openapi::OpenApi;

/// How the page looks. A file of its own: nothing within a page may say how it looks, so what gets into one cannot either.
pub(super) const STYLE: &str = "body{font:16px/1.5 system-ui;max-width:60em;margin:2em auto;padding:0 1em}code{font-weight:bold}\
     @media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}}";

/// The page. What the document says is escaped.
pub(super) fn html(document: &OpenApi) -> String {
    let document = serde_json::to_value(document).unwrap_or_default();
    let mut page = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>Courser API</title>\
         <link rel=stylesheet href=\"/api/page.css\">\
         <h1>Courser API</h1><p>Send <code>Authorization: Bearer TOKEN</code> with the token of <code>DATA/admin.token</code>, or \
         <code>Authorization: Basic</code> with name and password of a user whose role has <code>administration</code> (<code>read</code>: GET \
         alone, and no hashes), or use the socket <code>DATA/admin.sock</code>. The document for tools is <a href=\"/api/v1/openapi.json\">openapi.json</a>.<dl>",
    );
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, what) in methods.as_object().into_iter().flatten() {
            let text = what["summary"].as_str().or(what["description"].as_str());
            let _ = write!(
                page,
                "<dt><code>{} {}</code><dd>{}{}",
                method.to_uppercase(),
                escape(path),
                escape(text.unwrap_or_default()),
                parameters(&what["parameters"]),
            );
        }
    }
    page.push_str("</dl>");
    page
}

fn parameters(parameters: &Value) -> String {
    let mut list = String::new();
    for parameter in parameters.as_array().into_iter().flatten() {
        let (name, text) = (
            parameter["name"].as_str(),
            parameter["description"].as_str(),
        );
        let _ = write!(
            list,
            "<li><code>{}</code> {}",
            escape(name.unwrap_or_default()),
            escape(text.unwrap_or_default())
        );
    }
    if list.is_empty() {
        list
    } else {
        format!("<ul>{list}</ul>")
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
