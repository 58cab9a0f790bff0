//! `courser probe`: a table of what any MQTT broker allows.

use std::time::Duration;

use clap::Args;
use courser_client::probe::{Known, probe};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::connection::Connection;
use crate::cli::exit::{Exit, fail, usage};
use crate::cli::units;
use crate::operate::OutputFlags;

/// Flags of `courser probe`.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Probe {
    /// The broker, HOST or HOST:PORT, unless -h, -p, -L, --unix or --context name it
    #[arg(value_name = "HOST", conflicts_with_all = ["url", "unix", "context"])]
    place: Option<String>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: OutputFlags,
    /// How long each thing that is tried may take; a number alone is seconds
    #[arg(short = 'W', long, default_value = "5s", value_name = "DURATION", value_parser = units::wait)]
    timeout: Duration,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Runs the command. It publishes, subscribes and keeps a message and a session for a moment, all under a name of its own.
pub(crate) fn run(arguments: &Probe) -> Exit {
    let connection = arguments.connection();
    let mut options = match connection.and_then(|connection| connection.options()) {
        Ok((options, _)) => options,
        Err(message) => return usage(&message),
    };
    options.answer_max = arguments.timeout;
    let name = format!("courser-probe-{:x}", Timestamp::now().as_microsecond());
    match probe(&options, &name) {
        Ok(findings) => {
            let rows: Vec<Value> = findings
                .iter()
                .map(|finding| {
                    let known = match finding.known {
                        Known::Told => "told",
                        Known::Tried => "tried",
                    };
                    json!({"what": finding.what, "found": finding.found, "known": known})
                })
                .collect();
            let output = arguments.output.output();
            output.rows(&rows, &["what", "found", "known"]).into()
        }
        Err(error) => fail(&error),
    }
}

impl Probe {
    /// The flags as if -h and -p had named the place: its name is also the one that TLS and WebSocket ask for.
    fn connection(&self) -> Result<Connection, String> {
        let mut connection = self.connection.clone();
        if let Some(place) = &self.place {
            let (host, port) = host_and_port(place)?;
            connection.place.host = Some(host);
            connection.place.port = port.or(connection.place.port);
        }
        Ok(connection)
    }
}

/// `host`, `host:port`, `[v6]:port`, or a bare IPv6 address.
fn host_and_port(place: &str) -> Result<(String, Option<u16>), String> {
    let (host, given) = match place.rsplit_once(':') {
        Some((host, given)) if !host.contains(':') || host.ends_with(']') => (host, Some(given)),
        Some(_) | None => (place, None),
    };
    let port = given.map(|given| {
        given
            .parse()
            .map_err(|_| format!("\"{given}\" is no port: write HOST or HOST:PORT"))
    });
    let port = port.transpose()?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Probe, host_and_port};

    #[derive(Parser)]
    #[command(disable_help_flag = true)]
    struct Line {
        #[command(flatten)]
        probe: Probe,
    }

    /// A certificate was compared with the name of `-h`, which nobody had given.
    #[test]
    fn tls_asks_for_the_name_of_the_place() {
        let line = Line::parse_from(["probe", "broker.example:8884", "--tls", "-p", "1"]);
        let connection = line.probe.connection().expect("a place");
        assert_eq!(connection.place.host.as_deref(), Some("broker.example"));
        assert_eq!(connection.place.port, Some(8884));
        let line = Line::parse_from(["probe", "broker.example", "-p", "1"]);
        let connection = line.probe.connection().expect("a place");
        assert_eq!(connection.place.port, Some(1));
        assert!(Line::try_parse_from(["probe", "h", "-L", "mqtt://other"]).is_err());
    }

    #[test]
    fn a_broker_is_named_as_people_do() {
        let found = host_and_port;
        let is = |host: &str, port| Ok((host.to_owned(), port));
        assert_eq!(found("h"), is("h", None));
        assert_eq!(found("h:1"), is("h", Some(1)));
        assert_eq!(found("::1"), is("::1", None));
        assert_eq!(found("[::1]:7"), is("::1", Some(7)));
        assert!(found("h:x").is_err());
    }
}
