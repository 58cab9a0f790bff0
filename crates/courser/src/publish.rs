//! `courser pub`: sends messages, with the letters of `mosquitto_pub`.

use std::io::{self, BufRead, Read};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use clap::Args;
use courser_client::{Client, ClientError, Message, MessageProperty, Options, QoS, VersionChoice};

use crate::cli::again::Again;
use crate::cli::connection::{Connection, need_five};
use crate::cli::exit::{Exit, fail, usage};
use crate::cli::format;
use crate::cli::headings;
use crate::cli::interrupt::Interrupt;
use crate::cli::letters::PropertyFlag;
use crate::cli::payload::PayloadFlags;
use crate::cli::{topic_and_message, units};

/// No packet is larger than this (v5 section 1.5.5).
const PAYLOAD_BYTES_MAX: usize = 268_435_455;
/// How often the connection is looked at while no line comes.
const LOOK: Duration = Duration::from_millis(100);

/// What an end without a word may mean: 3.1.1 has no answer to a message but that it was taken (v3 section 4.8).
const SILENT: &str = "in MQTT 3.1.1 a broker cannot say that the user may not publish to the topic, and closes the connection; 5.0 says it";

/// Why a line of QoS 2 is not sent again.
const UNKNOWN: &str = "the broker kept no session, so it is not known whether it has taken the last message of QoS 2: -i ID -c keeps one that can tell";

/// Flags of `courser pub`.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Publish {
    /// Topic, unless -t or -L names it
    #[arg(value_name = "TOPIC")]
    topic_argument: Option<String>,
    /// Message, unless -m, -f, -l, -s or -n says where it comes from
    #[arg(value_name = "MESSAGE")]
    message_argument: Option<String>,
    #[command(flatten)]
    connection: Connection,
    /// Topic
    #[arg(short = 't', long)]
    topic: Option<String>,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    written: PayloadFlags,
    /// QoS
    #[arg(short = 'q', long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    /// The message becomes the retained message of its topic
    #[arg(short = 'r', long)]
    retain: bool,
    /// Send the message so many times
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    repeat: u64,
    /// Time between repeats; a number alone is seconds
    #[arg(long, default_value = "0", value_name = "DURATION", value_parser = units::duration)]
    repeat_delay: Duration,
    /// How long the broker may take for each answer, such as an acknowledgement; else code 27. A number alone is seconds
    #[arg(short = 'W', long, default_value = "30s", value_name = "DURATION", value_parser = units::wait)]
    timeout: Duration,
    #[command(flatten)]
    properties: Properties,
    #[command(flatten)]
    property: PropertyFlag,
    /// With -l: end when the connection is lost. Without it: connect again until that works, and go on with the line that was not acknowledged;
    /// one of QoS 2 only in a session that outlives the connection (-c, -x), since it would be a second message in a new one
    #[arg(long)]
    no_reconnect: bool,
    /// Say what is done on standard error
    #[arg(short = 'd', long, help_heading = headings::OUTPUT)]
    debug: bool,
    /// Say nothing, not even errors
    #[arg(long, help_heading = headings::OUTPUT)]
    quiet: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Where the message comes from: at most one of these.
#[derive(Args, Debug)]
#[group(multiple = false)]
struct Source {
    /// Message
    #[arg(short = 'm', long, help_heading = headings::PAYLOAD)]
    message: Option<String>,
    /// File that is the message
    #[arg(short = 'f', long, value_name = "FILE", help_heading = headings::PAYLOAD)]
    file: Option<PathBuf>,
    /// Each line of standard input is a message
    #[arg(short = 'l', long, help_heading = headings::PAYLOAD)]
    stdin_line: bool,
    /// All of standard input is one message
    #[arg(short = 's', long, help_heading = headings::PAYLOAD)]
    stdin_file: bool,
    /// An empty message
    #[arg(short = 'n', long, help_heading = headings::PAYLOAD)]
    null_message: bool,
    /// A message of so many bytes
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = headings::PAYLOAD)]
    payload_size: Option<usize>,
}

/// Properties of MQTT 5.
#[derive(Args, Debug)]
struct Properties {
    /// Whether the message is text, 1, or bytes, 0 (MQTT 5)
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1), help_heading = headings::PROPERTIES)]
    payload_format_indicator: Option<u8>,
    /// Time after which the message is of no use (MQTT 5); a number alone is seconds
    #[arg(long, value_name = "DURATION", value_parser = units::whole_seconds::<u32>, help_heading = headings::PROPERTIES)]
    message_expiry: Option<u32>,
    /// Content type (MQTT 5)
    #[arg(long, value_name = "TYPE", help_heading = headings::PROPERTIES)]
    content_type: Option<String>,
    /// Topic for the answer (MQTT 5)
    #[arg(long, value_name = "TOPIC", help_heading = headings::PROPERTIES)]
    response_topic: Option<String>,
    /// What the answer carries back (MQTT 5)
    #[arg(long, value_name = "DATA", help_heading = headings::PROPERTIES)]
    correlation_data: Option<String>,
    /// Name and value, as often as wanted (MQTT 5)
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help_heading = headings::PROPERTIES)]
    user_property: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Properties {
    /// The flags, and which of them are given.
    fn flags(&self) -> [(&'static str, bool); 6] {
        [
            (
                "--payload-format-indicator",
                self.payload_format_indicator.is_some(),
            ),
            ("--message-expiry", self.message_expiry.is_some()),
            ("--content-type", self.content_type.is_some()),
            ("--response-topic", self.response_topic.is_some()),
            ("--correlation-data", self.correlation_data.is_some()),
            ("--user-property", !self.user_property.is_empty()),
        ]
    }

    fn list(&self) -> Vec<MessageProperty> {
        let mut list = Vec::new();
        let is_text = self.payload_format_indicator.map(|it| it == 1);
        list.extend(is_text.map(MessageProperty::PayloadIsText));
        list.extend(self.message_expiry.map(MessageProperty::MessageExpiry));
        list.extend(self.content_type.clone().map(MessageProperty::ContentType));
        list.extend(
            self.response_topic
                .clone()
                .map(MessageProperty::ResponseTopic),
        );
        let data = self.correlation_data.clone().map(String::into_bytes);
        list.extend(data.map(MessageProperty::CorrelationData));
        let pairs = self.user_property.iter().cloned();
        list.extend(pairs.map(|(name, value)| MessageProperty::User(name, value)));
        list
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Publish) -> Exit {
    let (options, topic, payload) = match arguments.what() {
        Ok(what) => what,
        Err(_) if arguments.quiet => return Exit::Usage,
        Err(message) => return usage(&message),
    };
    match arguments.send(&options, &topic, payload) {
        Ok(exit) => exit,
        Err(error) if arguments.quiet => Exit::from(&error),
        Err(error) => {
            let exit = fail(&error);
            if options.version == VersionChoice::V311 && is_hung_up(&error) {
                eprintln!("courser: {SILENT}");
            }
            exit
        }
    }
}

/// Whether the broker has ended the connection without a word.
fn is_hung_up(error: &ClientError) -> bool {
    match error {
        ClientError::Closed => true,
        ClientError::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        ),
        _ => false,
    }
}

/// A message from the command line or a file, or lines still to be read.
enum Payload {
    Whole(Vec<u8>),
    Lines,
}

/// What came from standard input.
enum Said {
    Line(Vec<u8>),
    /// Whoever waits is to look what else has happened.
    Nothing,
    Failed(io::Error),
    End,
}

/// Hands lines over until there are no more, or nobody wants them. A line ends before its newline; all else in it is the message, also a
/// carriage return, as with Mosquitto.
fn read_lines(from: impl BufRead, to: &SyncSender<Said>) {
    for line in from.split(b'\n') {
        let said = match line {
            Ok(line) => Said::Line(line),
            Err(error) => Said::Failed(error),
        };
        if to.send(said).is_err() {
            return;
        }
    }
    // Nobody wants to know.
    let _ = to.send(Said::End);
}

impl Publish {
    fn what(&self) -> Result<(Options, String, Payload), String> {
        self.property.check()?;
        let (mut options, url_topic) = self.connection.options()?;
        options.answer_max = self.timeout;
        need_five(&mut options, &self.properties.flags())?;
        let (topic, message) = topic_and_message(
            self.topic.clone().or(url_topic),
            [&self.topic_argument, &self.message_argument],
            "no topic: courser pub TOPIC MESSAGE, or -t TOPIC",
        )?;
        Ok((options, topic, self.payload(message)?))
    }

    fn payload(&self, argument: Option<&String>) -> Result<Payload, String> {
        let source = &self.source;
        if source.stdin_line {
            return Ok(Payload::Lines);
        }
        if source.null_message {
            return Ok(Payload::Whole(Vec::new()));
        }
        if let Some(bytes) = source.payload_size {
            if bytes > PAYLOAD_BYTES_MAX {
                return Err(format!("no packet has room for {bytes} bytes"));
            }
            return Ok(Payload::Whole(vec![b'x'; bytes]));
        }
        self.written.read(self.whole(argument)?).map(Payload::Whole)
    }

    /// The message as it is written.
    fn whole(&self, argument: Option<&String>) -> Result<Vec<u8>, String> {
        let source = &self.source;
        if source.stdin_file {
            let mut all = Vec::new();
            io::stdin()
                .lock()
                .read_to_end(&mut all)
                .map_err(|error| format!("cannot read standard input: {error}"))?;
            return Ok(all);
        }
        if let Some(file) = &source.file {
            let read = std::fs::read(file);
            return read.map_err(|error| format!("cannot read {}: {error}", file.display()));
        }
        let message = source.message.as_ref().or(argument);
        let message =
            message.ok_or("no message: courser pub TOPIC MESSAGE, or -m, -f, -l, -s, -n")?;
        Ok(message.clone().into_bytes())
    }

    fn send(&self, options: &Options, topic: &str, payload: Payload) -> Result<Exit, ClientError> {
        let interrupt = Interrupt::watch()?;
        let mut client = Client::connect(options)?;
        interrupt.stops(&client)?;
        self.say(&format!("connected, MQTT {}", client.version()));
        let done = match payload {
            Payload::Whole(payload) => self
                .send_whole(&mut client, &interrupt, topic, &payload)
                .map(|()| Exit::Done),
            Payload::Lines => self.send_lines(&mut client, &interrupt, (options, topic)),
        };
        interrupt.leave(client, done)
    }

    fn send_whole(
        &self,
        client: &mut Client,
        interrupt: &Interrupt,
        topic: &str,
        payload: &[u8],
    ) -> Result<(), ClientError> {
        let message = self.message(topic, payload.to_vec());
        for k in 0..self.repeat {
            if k > 0 && !self.repeat_delay.is_zero() {
                interrupt.rest(self.repeat_delay);
            }
            if interrupt.ending().is_some() {
                break;
            }
            client.publish(&message)?;
            self.say_sent(&message);
        }
        Ok(())
    }

    /// Lines are read on a thread of their own: nothing ends a read of standard input before the next line comes.
    fn send_lines(
        &self,
        client: &mut Client,
        interrupt: &Interrupt,
        (options, topic): (&Options, &str),
    ) -> Result<Exit, ClientError> {
        let (lines, said) = mpsc::sync_channel(1);
        let wake = lines.clone();
        // Where there is no room a line waits to be taken, and nobody has to be woken.
        interrupt.wakes(move || wake.try_send(Said::Nothing).unwrap_or_default());
        let reader = thread::Builder::new().name("lines".to_owned());
        reader
            .spawn(move || read_lines(io::stdin().lock(), &lines))
            .map_err(ClientError::Io)?;
        let again = Again {
            options,
            deadline: None,
            is_quiet: self.quiet,
        };
        while interrupt.ending().is_none() {
            match said.recv_timeout(LOOK) {
                Ok(Said::Line(line)) => match self.written.read(line) {
                    Ok(payload) => {
                        let message = self.message(topic, payload);
                        self.send_line(client, &message, (interrupt, again))?;
                    }
                    Err(_) if self.quiet => return Ok(Exit::Usage),
                    Err(message) => return Ok(usage(&message)),
                },
                Ok(Said::Nothing) => {}
                Err(RecvTimeoutError::Timeout) => {
                    let looked = client.look();
                    self.stay(client, looked, (interrupt, again))?;
                }
                Ok(Said::Failed(error)) => return Err(ClientError::Io(error)),
                Ok(Said::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(Exit::Done)
    }

    /// Sends a line, over as many connections as that takes.
    fn send_line(
        &self,
        client: &mut Client,
        message: &Message,
        way: (&Interrupt, Again<'_>),
    ) -> Result<(), ClientError> {
        let mut sent = client.publish(message);
        while sent.is_err() {
            let was_under_way = client.is_under_way();
            self.stay(client, sent, way)?;
            if was_under_way && !client.is_under_way() && message.qos == QoS::ExactlyOnce {
                return Err(ClientError::Io(io::Error::other(UNKNOWN)));
            }
            sent = client.publish_again(message);
        }
        self.say_sent(message);
        Ok(())
    }

    /// Connects again where something has failed because the connection is lost.
    fn stay(
        &self,
        client: &mut Client,
        done: Result<(), ClientError>,
        (interrupt, again): (&Interrupt, Again<'_>),
    ) -> Result<(), ClientError> {
        match done {
            Ok(()) => Ok(()),
            Err(why) if self.no_reconnect => Err(why),
            Err(why) => again.come_back(client, interrupt, why).map(|_| ()),
        }
    }

    fn message(&self, topic: &str, payload: Vec<u8>) -> Message {
        Message {
            topic: topic.to_owned(),
            payload,
            qos: format::qos(self.qos),
            retain: self.retain,
            duplicate: false,
            packet_id: None,
            properties: self.properties.list(),
        }
    }

    fn say_sent(&self, message: &Message) {
        let (bytes, topic) = (message.payload.len(), &message.topic);
        self.say(&format!("sent {bytes} bytes to {topic}, QoS {}", self.qos));
    }

    fn say(&self, what: &str) {
        if self.debug && !self.quiet {
            eprintln!("courser: {what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_without_a_word_is_told_from_others() {
        let io = |kind: io::ErrorKind| ClientError::Io(kind.into());
        for silent in [ClientError::Closed, io(io::ErrorKind::ConnectionReset)] {
            assert!(is_hung_up(&silent), "{silent}");
        }
        for other in [
            ClientError::Protocol(String::new()),
            io(io::ErrorKind::Other),
        ] {
            assert!(!is_hung_up(&other), "{other}");
        }
    }

    #[test]
    fn a_line_keeps_its_carriage_return() {
        let (to, from) = mpsc::sync_channel(8);
        read_lines(&b"a\r\n\nb\rc\r"[..], &to);
        drop(to);
        let lines: Vec<Vec<u8>> = from
            .into_iter()
            .filter_map(|said| match said {
                Said::Line(line) => Some(line),
                Said::Nothing | Said::Failed(_) | Said::End => None,
            })
            .collect();
        assert_eq!(lines, [&b"a\r"[..], b"", b"b\rc\r"]);
    }
}
