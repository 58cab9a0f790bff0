//! The flags by which `pub`, `sub`, `request` and `probe` come to a broker: Mosquitto's letters.

use std::io::{self, BufRead};
use std::net::IpAddr;

use clap::{Args, ValueEnum};
use courser_client::{Options, VersionChoice, Will};

use super::headings;
use super::place::Place;
use super::units::whole_seconds;

/// Which MQTT to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Version {
    /// 5.0, or 3.1.1 with a broker that has no 5.0.
    #[default]
    Auto,
    /// 5.0 and nothing else.
    #[value(name = "5", aliases = ["mqttv5", "v5", "5.0"])]
    V5,
    /// 3.1.1 and nothing else.
    #[value(name = "311", aliases = ["mqttv311", "v311", "3.1.1", "4"])]
    V311,
}

/// Speaks 5.0 and nothing else where one of these is wanted, which 3.1.1 would leave out without a word.
///
/// # Errors
/// For people: 3.1.1 was asked for, and the first of them.
pub(crate) fn need_five(options: &mut Options, wanted: &[(&str, bool)]) -> Result<(), String> {
    let Some((what, _)) = wanted.iter().find(|(_, is_wanted)| *is_wanted) else {
        return Ok(());
    };
    match options.version {
        VersionChoice::V311 => Err(format!("{what} needs MQTT 5")),
        VersionChoice::Auto | VersionChoice::V5 => {
            options.version = VersionChoice::V5;
            Ok(())
        }
    }
}

/// How to reach the broker and who is there.
#[derive(Args, Clone, Debug)]
pub(crate) struct Connection {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Password; "-" reads it from standard input, so that it stands in no list of processes
    #[arg(
        short = 'P',
        long,
        value_name = "PASSWORD",
        conflicts_with = "password_file",
        help_heading = headings::CONNECTION
    )]
    pub(crate) pw: Option<String>,
    /// Client id; none: the broker assigns one
    #[arg(short = 'i', long, value_name = "ID", help_heading = headings::CONNECTION)]
    pub(crate) id: Option<String>,
    /// Client id that begins so, with the number of this process behind it
    #[arg(short = 'I', long, value_name = "PREFIX", conflicts_with = "id", help_heading = headings::CONNECTION)]
    pub(crate) id_prefix: Option<String>,
    /// Address of this machine to come from
    #[arg(short = 'A', long, value_name = "ADDRESS", conflicts_with = "unix", help_heading = headings::CONNECTION)]
    pub(crate) bind: Option<IpAddr>,
    /// Keep-alive, 0: none; a number alone is seconds
    #[arg(short = 'k', long, default_value = "60", value_name = "DURATION", value_parser = whole_seconds::<u16>, help_heading = headings::CONNECTION)]
    pub(crate) keepalive: u16,
    /// MQTT version
    #[arg(
        short = 'V',
        long,
        value_enum,
        default_value = "auto",
        value_name = "VERSION",
        help_heading = headings::CONNECTION
    )]
    pub(crate) protocol_version: Version,
    /// Keep the session when the connection ends (needs --id)
    #[arg(short = 'c', long, requires = "id", help_heading = headings::CONNECTION)]
    pub(crate) disable_clean_session: bool,
    /// How long the session outlives the connection (MQTT 5); a number alone is seconds
    #[arg(short = 'x', long, value_name = "DURATION", value_parser = whole_seconds::<u32>, help_heading = headings::CONNECTION)]
    pub(crate) session_expiry_interval: Option<u32>,
    /// Topic of the will
    #[arg(long, value_name = "TOPIC", help_heading = headings::WILL)]
    pub(crate) will_topic: Option<String>,
    /// Message of the will
    #[arg(
        long,
        value_name = "MESSAGE",
        requires = "will_topic",
        default_value = "",
        help_heading = headings::WILL
    )]
    pub(crate) will_payload: String,
    /// QoS of the will
    #[arg(long, value_name = "QOS", help_heading = headings::WILL, requires = "will_topic", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub(crate) will_qos: u8,
    /// The will becomes the retained message of its topic
    #[arg(long, requires = "will_topic", help_heading = headings::WILL)]
    pub(crate) will_retain: bool,
}

impl Connection {
    /// Checked options, and the topic of the URL if there is one.
    pub(crate) fn options(&self) -> Result<(Options, Option<String>), String> {
        let found = self.place.find(self.password()?)?;
        let will = self.will_topic.as_ref().map(|topic| Will {
            topic: topic.clone(),
            payload: self.will_payload.clone().into_bytes(),
            qos: super::format::qos(self.will_qos),
            retain: self.will_retain,
        });
        let expiry_when_kept = if self.disable_clean_session {
            u32::MAX
        } else {
            0
        };
        let mut options = Options {
            layers: found.layers,
            bind: self.bind,
            endpoint: found.endpoint,
            version: match self.protocol_version {
                Version::Auto => VersionChoice::Auto,
                Version::V5 => VersionChoice::V5,
                Version::V311 => VersionChoice::V311,
            },
            client_id: self.client_id(),
            clean_start: !self.disable_clean_session,
            session_expiry: self.session_expiry_interval.unwrap_or(expiry_when_kept),
            keep_alive: self.keepalive,
            username: found.username,
            password: found.password,
            will,
            ..Options::default()
        };
        let expiry = self.session_expiry_interval.is_some();
        need_five(&mut options, &[("--session-expiry-interval", expiry)])?;
        Ok((options, found.topic))
    }

    fn client_id(&self) -> String {
        match (&self.id, &self.id_prefix) {
            (Some(id), _) => id.clone(),
            (None, Some(prefix)) => format!("{prefix}{}", std::process::id()),
            (None, None) => String::new(),
        }
    }

    /// What the flag says.
    fn password(&self) -> Result<Option<String>, String> {
        if self.pw.as_deref() != Some("-") {
            return Ok(self.pw.clone());
        }
        let mut line = String::new();
        io::stdin()
            .lock()
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
        Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
    }
}
