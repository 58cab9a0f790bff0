//! `mqtt://[user[:password]@]host[:port][/topic]`, as `mosquitto_pub -L` takes it, and the same with `mqtts`, `ws` and `wss`; `unix:///path` of a
//! Unix socket. User and password may have letters escaped by `%` (RFC 3986, 3.2.1), as they must where these mean something in a URL.
//!
//! What is wrong is never shown: whatever cannot be read as a URL may be a part of somebody's password.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use super::layers::Scheme;

/// Parts of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: Scheme,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    /// Instead of host and port.
    pub(crate) socket: Option<PathBuf>,
    /// Empty where none is named.
    pub(crate) topic: String,
}

/// Reads a URL; the error says what it should look like.
pub(crate) fn parse(text: &str) -> Result<Url, String> {
    let (name, rest) = text.split_once("://").unwrap_or_default();
    if name == "unix" {
        return socket(rest);
    }
    let scheme = match name {
        "mqtt" => Scheme::Mqtt,
        "mqtts" => Scheme::Mqtts,
        "ws" => Scheme::Ws,
        "wss" => Scheme::Wss,
        _ => {
            return Err(
                "unknown URL: write mqtt://[user[:password]@]host[:port]/topic, or mqtts, ws, wss, or unix:///path"
                    .to_owned(),
            );
        }
    };
    let (authority, topic) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, place) = match authority.rsplit_once('@') {
        Some((login, place)) => (Some(login), place),
        None => (None, authority),
    };
    let (host, port) = split_port(place)?;
    if host.is_empty() {
        return Err(format!("no host in the URL: write {name}://host/topic"));
    }
    let (username, password) = match login.map(|login| login.split_once(':').unwrap_or((login, "")))
    {
        Some((user, "")) => (Some(unescaped(user)?), None),
        Some((user, password)) => (Some(unescaped(user)?), Some(unescaped(password)?)),
        None => (None, None),
    };
    Ok(Url {
        scheme,
        username,
        password,
        host: host.to_owned(),
        port,
        socket: None,
        topic: topic.to_owned(),
    })
}

/// A URL without the password that it has; of one that cannot be read, without all that may be a part of one. None: it has none.
pub(crate) fn without_password(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    if scheme == "unix" {
        return None;
    }
    let authority = rest
        .split_once('/')
        .map_or(rest, |(authority, _)| authority);
    let login = authority.rsplit_once('@').map(|(login, _)| login);
    let is_http = scheme == "http" || scheme == "https";
    match login {
        // Who asks a server by HTTP is not said in its URL.
        Some(login) if is_http => Some(format!("{scheme}://{}", &rest[login.len() + 1..])),
        Some(login) => {
            let (user, password) = login.split_once(':')?;
            let place = &rest[login.len()..];
            (!password.is_empty()).then(|| format!("{scheme}://{user}{place}"))
        }
        None if is_http || parse(text).is_err() => {
            let (_, place) = rest.rsplit_once('@')?;
            Some(format!("{scheme}://{place}"))
        }
        None => None,
    }
}

/// Behind the host is something else; it is also what remains of a password with a slash.
const NO_PORT: &str = "no port behind the host of the URL: write mqtt://[user[:password]@]host[:port]/topic with a port of 1 to 65535; in \
                       user and password / is written %2F, and @ %40";

/// All behind the scheme is the path, so there is neither a user nor a topic in it.
fn socket(path: &str) -> Result<Url, String> {
    if !path.starts_with('/') {
        return Err("the URL names no file: write unix:///path, with the whole path".to_owned());
    }
    Ok(Url {
        socket: Some(path.into()),
        ..Url::default()
    })
}

/// A user or a password.
fn unescaped(text: &str) -> Result<String, String> {
    let text = percent_decode_str(text).decode_utf8();
    let text =
        text.map_err(|_| "what is escaped by % in the URL is no text of UTF-8".to_owned())?;
    Ok(text.into_owned())
}

/// Splits `host:port`, `[v6]:port`, `host` and `[v6]`.
fn split_port(place: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match place
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, "")) => return Ok((host, None)),
        Some((host, port)) => (host, port.strip_prefix(':').unwrap_or(port)),
        None => match place.rsplit_once(':') {
            Some((host, port)) => (host, port),
            None => return Ok((place, None)),
        },
    };
    let port = port.parse().map_err(|_| NO_PORT.to_owned())?;
    Ok((host, Some(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(
        username: Option<&str>,
        password: Option<&str>,
        host: &str,
        port: Option<u16>,
        topic: &str,
    ) -> Url {
        Url {
            scheme: Scheme::Mqtt,
            username: username.map(Into::into),
            password: password.map(Into::into),
            host: host.into(),
            port,
            socket: None,
            topic: topic.into(),
        }
    }

    #[test]
    fn the_forms_of_mosquitto_are_read() {
        for (text, expected) in [
            ("mqtt://h/a/b", url(None, None, "h", None, "a/b")),
            ("mqtt://h:1884/#", url(None, None, "h", Some(1884), "#")),
            ("mqtt://u@h/t", url(Some("u"), None, "h", None, "t")),
            (
                "mqtt://u:p@h:1/t",
                url(Some("u"), Some("p"), "h", Some(1), "t"),
            ),
            (
                "mqtt://u:p:q@[::1]:1/t",
                url(Some("u"), Some("p:q"), "::1", Some(1), "t"),
            ),
            ("mqtt://[::1]/t", url(None, None, "::1", None, "t")),
            ("mqtt://h", url(None, None, "h", None, "")),
            ("mqtt://h:1884/", url(None, None, "h", Some(1884), "")),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for (name, scheme) in [
            ("mqtts", Scheme::Mqtts),
            ("ws", Scheme::Ws),
            ("wss", Scheme::Wss),
        ] {
            let found = parse(&format!("{name}://h:1/a/b")).expect("a URL");
            let expected = url(None, None, "h", Some(1), "a/b");
            assert_eq!(found, Url { scheme, ..expected });
        }
    }

    #[test]
    fn a_socket_has_a_path_and_nothing_else() {
        let found = parse("unix:///run/a b/courser.sock");
        let socket = Some("/run/a b/courser.sock".into());
        let expected = Url {
            socket,
            ..Url::default()
        };
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn user_and_password_are_unescaped() {
        let found = parse("mqtt://a%40b:s3cr%2Fet%3a%25@h/t%20").expect("a URL");
        let expected = url(Some("a@b"), Some("s3cr/et:%"), "h", None, "t%20");
        assert_eq!(found, expected, "a topic is taken as it stands");
        let found = parse("mqtt://u:50%off@h").expect("a URL");
        assert_eq!(found.password.as_deref(), Some("50%off"));
        assert!(parse("mqtt://u:%ff@h").is_err(), "no text");
    }

    #[test]
    fn a_password_is_taken_out_of_a_url_and_nothing_else() {
        for (text, expected) in [
            ("mqtt://u:p@h:1/t", Some("mqtt://u@h:1/t")),
            ("mqtts://u:p:q@[::1]", Some("mqtts://u@[::1]")),
            ("mqtt://u:p@q@h", Some("mqtt://u@h")),
            ("mqtt://:p@h", Some("mqtt://@h")),
            ("mqtt://u:p/more@h", Some("mqtt://h")),
            ("mqttx://u:p@h", Some("mqttx://u@h")),
            ("http://u:p@h:1", Some("http://h:1")),
            ("http://u@h:1", Some("http://h:1")),
            ("http://u:p/more@h:1", Some("http://h:1")),
            ("mqtt://u@h:1/t", None),
            ("mqtt://u:@h", None),
            ("mqtt://h/a@b", None),
            ("mqtt://h:1", None),
            ("http://h:1", None),
            ("unix:///run/u:p@h", None),
            ("/run/u:p@h", None),
        ] {
            assert_eq!(without_password(text).as_deref(), expected, "{text}");
        }
    }

    /// `"s3cr" is no port` went to logs and to whoever looked on.
    #[test]
    fn what_is_no_url_is_not_shown() {
        for text in [
            "mqttx://admin:hunter2@h/t",
            "admin:hunter2@h/t",
            "mqtt://admin:hunter2@/t",
            "mqtt://admin:hunter2/more@h/t",
            "mqtt://admin:hunter2@h:hunter2/t",
            "mqtt://admin:hunter2%ff@h/t",
            "unix://admin:hunter2@h",
        ] {
            let said = parse(text).expect_err("no URL");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn anything_else_says_what_is_wrong() {
        for text in [
            "h/t",
            "http://h/t",
            "mqttss://h/t",
            "mqtt:///t",
            "mqtt://h:x/t",
            "unix://run/x",
            "unix://",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
