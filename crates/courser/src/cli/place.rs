//! Where a broker is and who comes: the flags of every command that speaks MQTT. Flags go before variables, those before the context.

use std::path::{Path, PathBuf};

use clap::Args;
use courser_client::{Endpoint, Layers};

use super::contexts::{self, SavedBroker, variable};
use super::headings;
use super::layers::Wrapping;
use super::secret;
use super::url::{self, Url};

/// The host where none is named.
const HERE: &str = "127.0.0.1";
/// What TLS and WebSocket call the host behind a Unix socket.
const NAME_HERE: &str = "localhost";

/// How to reach the broker, and as whom.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Place {
    /// Host name or address of the broker; with -h, -p, -L or --unix neither COURSER_URL nor a context counts [default: 127.0.0.1]
    #[arg(short = 'h', long, value_name = "HOST", help_heading = headings::CONNECTION)]
    pub(crate) host: Option<String>,
    /// Port of the broker; none: 1883, with TLS 8883, of WebSocket 8083, with TLS 8084
    #[arg(short = 'p', long, help_heading = headings::CONNECTION)]
    pub(crate) port: Option<u16>,
    /// Everything in one: mqtt://[user[:password]@]host[:port][/topic]; mqtts:// for TLS, ws:// and wss:// for WebSocket; unix:///path for
    /// a Unix socket [variable: COURSER_URL]
    #[arg(short = 'L', long, value_name = "URL", help_heading = headings::CONNECTION)]
    url: Option<String>,
    /// Unix socket of a broker on this machine
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port", "url"], help_heading = headings::CONNECTION)]
    unix: Option<PathBuf>,
    /// A broker that `courser context add --mqtt` has named [variable: COURSER_CONTEXT]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["host", "port", "url", "unix"], help_heading = headings::CONNECTION)]
    context: Option<String>,
    #[command(flatten)]
    wrapping: Wrapping,
    /// User name
    #[arg(short = 'u', long, help_heading = headings::CONNECTION)]
    username: Option<String>,
    /// File whose first line is the password; - is standard input
    #[arg(long, value_name = "FILE", help_heading = headings::CONNECTION)]
    password_file: Option<PathBuf>,
}

/// A place that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) endpoint: Endpoint,
    pub(crate) layers: Layers,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Vec<u8>>,
    /// Of the URL.
    pub(crate) topic: Option<String>,
}

impl Place {
    /// The broker that is meant; `password` is what a flag says.
    ///
    /// # Errors
    /// For people.
    pub(crate) fn find(&self, password: Option<String>) -> Result<Found, String> {
        if let Some((host, port)) = self.host.as_deref().and_then(with_port) {
            return Err(format!(
                "-h is a host without a port: write -h {host} -p {port}"
            ));
        }
        let named = [self.host.is_some(), self.port.is_some(), self.url.is_some()];
        if named.contains(&true) || self.unix.is_some() {
            return self.reach(self.url.as_deref(), None, password);
        }
        // A flag goes before any variable: who names a context must not get another broker.
        let variable = self.context.is_none().then(|| variable("COURSER_URL"));
        if let Some(url) = variable.flatten() {
            return self.reach(Some(&url), None, password);
        }
        let saved = self.saved()?;
        let url = saved.as_ref().map(|saved| saved.url.as_str());
        self.reach(url, saved.as_ref(), password)
    }

    fn saved(&self) -> Result<Option<SavedBroker>, String> {
        match contexts::meant(self.context.as_deref())? {
            None => Ok(None),
            Some(meant) if meant.saved.mqtt.is_none() && meant.is_named => Err(format!(
                "context \"{}\" says nothing of MQTT: add it again with --mqtt URL and --replace",
                meant.name
            )),
            Some(meant) => Ok(meant.saved.mqtt),
        }
    }

    /// Puts flags, a URL and a context together. What a context says of who comes is for its place only.
    fn reach(
        &self,
        url: Option<&str>,
        saved: Option<&SavedBroker>,
        password: Option<String>,
    ) -> Result<Found, String> {
        let mut url = url.map(url::parse).transpose()?.unwrap_or_default();
        url.socket = url.socket.or_else(|| self.unix.clone());
        let wrapping = match saved {
            Some(saved) => self.wrapping.over(&saved.wrapping),
            None => self.wrapping.clone(),
        };
        let password = self.password(&url, saved, password)?;
        let scheme = wrapping.scheme(url.scheme);
        let host = if url.host.is_empty() {
            self.host.as_deref().unwrap_or(HERE).to_owned()
        } else {
            url.host
        };
        let port = url.port.or(self.port).unwrap_or(scheme.port());
        let username = self.username.clone().or(url.username);
        let layers = match &url.socket {
            None => wrapping.layers(scheme, &host, port)?,
            Some(_) => wrapping.layers(scheme, NAME_HERE, scheme.port())?,
        };
        Ok(Found {
            layers,
            endpoint: match url.socket {
                None => Endpoint::Tcp { host, port },
                Some(socket) => Endpoint::Unix(socket),
            },
            username: username.or_else(|| saved?.username.clone()),
            password: password.map(String::into_bytes),
            topic: Some(url.topic).filter(|topic| !topic.is_empty()),
        })
    }

    fn password(
        &self,
        url: &Url,
        saved: Option<&SavedBroker>,
        flag: Option<String>,
    ) -> Result<Option<String>, String> {
        if flag.is_some() {
            return Ok(flag);
        }
        if let Some(file) = &self.password_file {
            return first_line(file);
        }
        if url.password.is_some() {
            return Ok(url.password.clone());
        }
        // The password of a context is that of its user: another one does not get it.
        let its_user = |saved: &&SavedBroker| {
            let user = url.username.as_ref().or(saved.username.as_ref());
            self.username.is_none() || self.username.as_ref() == user
        };
        match saved.filter(its_user).map(|saved| &saved.password_file) {
            Some(Some(file)) => first_line(file),
            Some(None) | None => Ok(None),
        }
    }
}

/// Host and port of a text that has both. One with more colons is an IPv6 address, unless that stands in brackets.
fn with_port(host: &str) -> Option<(&str, &str)> {
    let (before, port) = host.rsplit_once(':')?;
    let inner = before.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_port = !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit());
    (is_port && (inner.is_some() || !before.contains(':'))).then(|| (inner.unwrap_or(before), port))
}

/// The first line of a file, or of standard input for `-`; an empty one is no password.
fn first_line(file: &Path) -> Result<Option<String>, String> {
    let line = secret::from_file(file)?;
    Ok(Some(line).filter(|line| !line.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(disable_help_flag = true)]
    struct Line {
        #[command(flatten)]
        place: Place,
    }

    /// Where flags and a context lead: the place, user and password.
    fn reached(flags: &[&str], saved: Option<&SavedBroker>) -> String {
        let line = Line::parse_from([&["pub"], flags].concat());
        let url = saved.map(|saved| saved.url.as_str());
        let url = line.place.url.as_deref().or(url);
        let found = line.place.reach(url, saved, None).expect("a place");
        let password = found
            .password
            .map(|it| String::from_utf8(it).expect("text"));
        format!(
            "{} {} {}",
            found.endpoint,
            found.username.as_deref().unwrap_or("-"),
            password.as_deref().unwrap_or("-")
        )
    }

    #[test]
    fn flags_and_urls_name_a_place() {
        for (flags, expected) in [
            (&[][..], "127.0.0.1:1883 - -"),
            (&["-h", "a"], "a:1883 - -"),
            (&["-p", "7"], "127.0.0.1:7 - -"),
            (&["-h", "a", "--ws"], "a:8083 - -"),
            (&["-L", "ws://u:p@b:9/t"], "b:9 u p"),
            (&["-L", "mqtt://u:p@b", "-u", "v", "-p", "3"], "b:3 v p"),
            (&["--unix", "run/x", "-u", "v"], "unix:run/x v -"),
            (&["--unix", "/x", "--ws"], "unix:/x - -"),
            (&["-L", "unix:///run/x"], "unix:/run/x - -"),
        ] {
            assert_eq!(reached(flags, None), expected, "{flags:?}");
        }
    }

    #[test]
    fn a_password_of_a_context_is_for_its_user() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("password");
        fs::write(&file, "secret\nmore\n").expect("written");
        let saved = SavedBroker {
            url: "mqtt://b:9".to_owned(),
            username: Some("u".to_owned()),
            password_file: Some(file),
            ..SavedBroker::default()
        };
        for (flags, expected) in [
            (&[][..], "b:9 u secret"),
            (&["-u", "u"], "b:9 u secret"),
            (&["-u", "v"], "b:9 v -"),
        ] {
            assert_eq!(reached(flags, Some(&saved)), expected, "{flags:?}");
        }
        let in_url = SavedBroker {
            url: "mqtt://w@b:9".to_owned(),
            username: None,
            ..saved
        };
        assert_eq!(reached(&[], Some(&in_url)), "b:9 w secret");
        assert_eq!(reached(&["-u", "u"], Some(&in_url)), "b:9 u -");
    }

    #[test]
    fn a_port_behind_the_host_is_sent_to_its_flag() {
        for (host, expected) in [
            ("127.0.0.1:1883", Some(("127.0.0.1", "1883"))),
            ("broker.example:1", Some(("broker.example", "1"))),
            ("[::1]:1883", Some(("::1", "1883"))),
            ("::1", None),
            ("fe80::1:1883", None),
            ("localhost", None),
            ("a:b", None),
        ] {
            assert_eq!(with_port(host), expected, "{host}");
        }
        let line = Line::parse_from(["pub", "-h", "127.0.0.1:1883"]);
        let said = line
            .place
            .find(None)
            .map(|_| ())
            .expect_err("two things in one");
        assert_eq!(
            said,
            "-h is a host without a port: write -h 127.0.0.1 -p 1883"
        );
    }

    #[test]
    fn a_place_and_a_context_exclude_each_other() {
        for flags in [
            ["-h", "a"],
            ["-p", "1"],
            ["-L", "mqtt://a"],
            ["--unix", "a"],
        ] {
            let line = [&["pub", "--context", "c"], &flags[..]].concat();
            assert!(Line::try_parse_from(line).is_err(), "{flags:?}");
        }
    }
}
