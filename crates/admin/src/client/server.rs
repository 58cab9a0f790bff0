//! Where a server is, as people write it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::ADMIN_SOCKET;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// Its Unix socket.
    Socket(PathBuf),
    /// `host:port` of its HTTP.
    Http(String),
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Http(place) => write!(f, "http://{place}"),
        }
    }
}

impl Server {
    /// Reads `http://HOST:PORT`, `HOST:PORT`, the path of a socket, or that of a data folder. A file whose name is like `HOST:PORT` has
    /// `./` or `unix:` before it.
    ///
    /// # Errors
    /// What was expected. Neither a URL that is not taken nor a path with an `@` that is not there are shown: they may have a password in
    /// them.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(place) = text.strip_prefix("http://") {
            let place = place.trim_end_matches('/');
            if place.contains('@') {
                return Err(format!("{NOBODY_IN_IT}: {NAME_A_USER}"));
            }
            return match host_with_port(place) {
                Some(_) => Ok(Self::Http(place.to_owned())),
                None => Err("no host with a port: write http://HOST:PORT".to_owned()),
            };
        }
        if text.contains("://") {
            return Err(format!("unknown server: {EXPECTED}"));
        }
        if text.is_empty() {
            return Err(format!("no server is named: {EXPECTED}"));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::at(Path::new(path)));
        }
        // Without brackets nobody knows which part of an IPv6 address is its port.
        let is_plain = |host: &str| !host.contains([':', '@']) || host.starts_with('[');
        if host_with_port(text).is_some_and(is_plain) {
            return Ok(Self::Http(text.to_owned()));
        }
        let path = Path::new(text);
        if text.contains('@') && !path.exists() {
            return Err(format!(
                "there is no such socket or data folder; {NOBODY_IN_IT}: {NAME_A_USER}"
            ));
        }
        Ok(Self::at(path))
    }

    /// That of a socket, or of a data folder.
    fn at(path: &Path) -> Self {
        Self::Socket(match path.is_dir() {
            true => path.join(ADMIN_SOCKET),
            false => path.to_owned(),
        })
    }
}

/// How a server is named.
const EXPECTED: &str =
    "write HOST:PORT or http://HOST:PORT, or the path of a socket or data folder";
const NOBODY_IN_IT: &str = "who asks is not said in the URL of a server";
const NAME_A_USER: &str = "write http://HOST:PORT, and name a user by --operator";

/// The host of a text that has a port behind it.
fn host_with_port(text: &str) -> Option<&str> {
    let (host, port) = text.rsplit_once(':')?;
    let is_fit = !host.is_empty() && !host.contains(unfit_for_host) && port.parse::<u16>().is_ok();
    is_fit.then_some(host)
}

/// Whether it stands in no name and no address of a host.
const fn unfit_for_host(letter: char) -> bool {
    matches!(letter, '/' | '?' | '#') || letter.is_ascii_whitespace() || letter.is_ascii_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_people_write_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = Server::Socket(folder.path().join("admin.sock"));
        let text = folder.path().to_str().expect("a name in UTF-8");
        assert_eq!(Server::parse(text), Ok(socket.clone()), "a data folder");
        assert_eq!(
            Server::parse(&format!("{text}/admin.sock")),
            Ok(socket.clone())
        );
        assert_eq!(
            Server::parse(&format!("unix:{text}/admin.sock")),
            Ok(socket)
        );
        let http = |place: &str| Ok(Server::Http(place.to_owned()));
        assert_eq!(Server::parse("http://h:1/"), http("h:1"));
        assert_eq!(Server::parse("http://[::1]:1"), http("[::1]:1"));
        for place in ["h:1", "127.0.0.1:18080", "[::1]:1", "a.example:65535"] {
            assert_eq!(Server::parse(place), http(place));
        }
        let path = |path: &str| Ok(Server::Socket(path.into()));
        for file in ["h:x", "h:65536", ":1", "::1", "./h:1", "a/h:1", "h"] {
            assert_eq!(Server::parse(file), path(file));
        }
        assert_eq!(Server::parse("unix:h:1"), path("h:1"));
        assert_eq!(Server::parse("unix:a@b"), path("a@b"));
        let odd = folder.path().join("x@y");
        std::fs::write(&odd, "").expect("written");
        let odd = odd.to_str().expect("a name in UTF-8");
        assert_eq!(Server::parse(odd), path(odd), "it is there");
        for wrong in [
            "http://h",
            "https://h:1",
            "ftp://h:1",
            "http://:1",
            "http://h/x:1",
            "http://h\n:1",
            "",
        ] {
            assert!(Server::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// One was kept in the list of contexts, and a listing printed it.
    #[test]
    fn a_password_in_the_url_of_a_server_is_neither_taken_nor_shown() {
        for text in [
            "http://admin:hunter2@h:1",
            "https://admin:hunter2@h:1",
            "http://admin:hunter2@h",
            "http://admin:hunter2/more@h:1",
            "http://admin:hunter2",
            "admin:hunter2@h:1",
            "admin:hunter2@h",
            "admin:hunter2@h/x",
            "admin:hunter2/more@h:1",
            "admin@hunter2:1",
        ] {
            let said = Server::parse(text).expect_err("not taken");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
