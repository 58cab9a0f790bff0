//! Origins of web pages, as browsers send them.

use super::{Json, Mismatch, Raw, Value, quoted, read_list, schema_of_texts, shown_list};
use std::ops::RangeInclusive;

/// Scheme, host and port of a web page as a browser writes them (RFC 6454 6.2), or `null`, which it writes where a page has none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WebOrigin(Box<str>);

const EXPECTS: &str = "an origin as browsers send it, such as \"https://example.org\", \"http://localhost:8080\" or \"null\"";

impl WebOrigin {
    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(text: &str) -> Result<Self, Mismatch> {
        if is_origin(text) {
            return Ok(Self(text.into()));
        }
        Err(match meant(text) {
            Some(meant) => Mismatch::Near {
                expects: EXPECTS,
                meant,
            },
            None => Mismatch::Kind,
        })
    }
}

/// Whether a browser could send it: anything else would be compared with what comes and never be the same.
fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else {
        return text == "null";
    };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase())
        && scheme
            .chars()
            .all(|it| matches!(it, 'a'..='z' | '0'..='9' | '+' | '-' | '.'));
    // Pages of files have no host, and some browsers send this.
    let is_file = text == "file://";
    let (host, port) = split_port(authority);
    let is_port = match port {
        Some(port) => {
            port.parse::<u16>()
                .is_ok_and(|number| number.to_string() == port)
                && usual_port(scheme) != Some(port)
        }
        None => true,
    };
    is_scheme && is_port && (is_file || is_host(host))
}

fn is_host(host: &str) -> bool {
    match host.strip_prefix('[') {
        Some(address) => address
            .strip_suffix(']')
            .and_then(|address| address.parse::<std::net::Ipv6Addr>().ok())
            .is_some_and(|address| format!("[{address}]") == host),
        None => {
            let is_part = |it| matches!(it, 'a'..='z' | '0'..='9' | '-' | '_' | '.');
            !host.is_empty() && host.chars().all(is_part)
        }
    }
}

/// Host, and port where there is one.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (authority, None),
    }
}

/// The port that a browser leaves out.
fn usual_port(scheme: &str) -> Option<&'static str> {
    match scheme {
        "http" => Some("80"),
        "https" => Some("443"),
        _ => None,
    }
}

/// The origin of a page whose address somebody has written.
fn meant(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    let (scheme, rest) = text.split_once("://").unwrap_or(("https", &text));
    // WebSocket addresses are those of the broker; the page is at one of HTTP.
    let scheme = match scheme {
        "ws" => "http",
        "wss" => "https",
        other => other,
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = match split_port(authority) {
        (host, Some(port)) if port.is_empty() || usual_port(scheme) == Some(port) => host,
        _ => authority,
    };
    let meant = format!("{scheme}://{authority}");
    is_origin(&meant).then_some(meant)
}

impl Value for Vec<WebOrigin> {
    const KIND: &'static str = "list of origins";
    const EXPECTS: &'static str = "a list of origins such as [\"https://example.org\"]";

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        read_list(raw, EXPECTS, WebOrigin::parse)
    }

    fn show(&self) -> String {
        shown_list(self.iter().map(|origin| quoted(origin.as_str())))
    }

    fn schema(_range: Option<&RangeInclusive<Self>>) -> Json {
        schema_of_texts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_what_a_browser_sends() {
        for text in [
            "https://dash.example.org",
            "http://localhost:8080",
            "https://example.org:8443",
            "http://127.0.0.1",
            "https://[2001:db8::1]:8443",
            "https://xn--bcher-kva.example",
            "capacitor://localhost",
            "chrome-extension://abcdefghijklmnop",
            "file://",
            "null",
        ] {
            let read = WebOrigin::parse(text).map(|origin| origin.as_str().to_owned());
            assert_eq!(read.as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_no_browser_sends_is_refused_with_what_is_meant() {
        let table = [
            (
                "https://dash.example.org/",
                Some("https://dash.example.org"),
            ),
            (
                "https://dash.example.org/a?b#c",
                Some("https://dash.example.org"),
            ),
            ("HTTPS://Dash.Example.org", Some("https://dash.example.org")),
            ("https://example.org:443", Some("https://example.org")),
            ("http://example.org:80/", Some("http://example.org")),
            ("https://example.org:", Some("https://example.org")),
            ("dash.example.org", Some("https://dash.example.org")),
            ("localhost:8080", Some("https://localhost:8080")),
            (" https://example.org", Some("https://example.org")),
            ("wss://example.org/mqtt", Some("https://example.org")),
            ("", None),
            ("*", None),
            ("https://", None),
            ("https://*.example.org", None),
            ("https://example.org:99999", None),
            ("https://a:b@example.org", None),
            ("https://bücher.example", None),
            ("https://[::1", None),
        ];
        for (text, expected) in table {
            let found = match WebOrigin::parse(text) {
                Err(Mismatch::Near { meant, .. }) => Some(meant),
                Err(Mismatch::Kind) => None,
                other => panic!("{text}: {other:?}"),
            };
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
