//! `mqtt://[user[:password]@]host[:port][/topic]`, as `mosquitto_pub -L` takes it, and the same with `mqtts`, `ws` and `wss`; `unix:///path` of a
//! Unix socket.

use std::path::PathBuf;

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
        return socket(text, rest);
    }
    let scheme = match name {
        "mqtt" => Scheme::Mqtt,
        "mqtts" => Scheme::Mqtts,
        "ws" => Scheme::Ws,
        "wss" => Scheme::Wss,
        _ => {
            return Err(format!(
                "unknown URL \"{text}\": write mqtt://[user[:password]@]host[:port]/topic, or mqtts, ws, wss, or unix:///path"
            ));
        }
    };
    let (authority, topic) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, place) = match authority.rsplit_once('@') {
        Some((login, place)) => (Some(login), place),
        None => (None, authority),
    };
    let (host, port) = split_port(place)?;
    if host.is_empty() {
        return Err(format!("no host in \"{text}\": write mqtt://host/topic"));
    }
    let (username, password) = match login.map(|login| login.split_once(':').unwrap_or((login, "")))
    {
        Some((user, "")) => (Some(user.to_owned()), None),
        Some((user, password)) => (Some(user.to_owned()), Some(password.to_owned())),
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

/// All behind the scheme is the path, so there is neither a user nor a topic in it.
fn socket(text: &str, path: &str) -> Result<Url, String> {
    if !path.starts_with('/') {
        return Err(format!(
            "\"{text}\" names no file: write unix:///path, with the whole path"
        ));
    }
    Ok(Url {
        socket: Some(path.into()),
        ..Url::default()
    })
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
    let port = port
        .parse()
        .map_err(|_| format!("\"{port}\" is no port: 1 to 65535"))?;
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
