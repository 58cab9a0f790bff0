//! `courser request`: sends a message and prints the answer (request and response of MQTT 5.0).

use std::time::{Duration, Instant};

use clap::Args;
use courser_client::{Client, ClientError, Filter, Message, MessageProperty, Options};
use jiff::Timestamp;

use crate::cli::connection::{Connection, need_five};
use crate::cli::exit::{Exit, fail, usage};
use crate::cli::format::{self, Format, Target};
use crate::cli::headings;
use crate::cli::interrupt::Interrupt;
use crate::cli::payload::PayloadFlags;
use crate::cli::{topic_and_message, units};
use crate::operate::Until;
use crate::subscribe::{Json, Printer};

/// Flags of `courser request`.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Request {
    /// Topic of the question, unless -L names it
    #[arg(value_name = "TOPIC")]
    topic_argument: Option<String>,
    /// The question [default: empty]
    #[arg(value_name = "MESSAGE")]
    message_argument: Option<String>,
    #[command(flatten)]
    connection: Connection,
    /// Topic of the question
    #[arg(short = 't', long)]
    topic: Option<String>,
    /// The question
    #[arg(short = 'm', long, help_heading = headings::PAYLOAD)]
    message: Option<String>,
    /// QoS of question and answer
    #[arg(short = 'q', long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    /// Topic for the answer [default: one that nobody else has]
    #[arg(long, value_name = "TOPIC")]
    response_topic: Option<String>,
    /// Time to wait for the broker and then for answers, with code 27 if one was still wanted; a number alone is seconds
    #[arg(short = 'W', long, default_value = "10s", value_name = "DURATION", value_parser = units::wait)]
    timeout: Duration,
    /// Answers to wait for
    #[arg(short = 'C', long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// How to print an answer, as in courser sub
    #[arg(short = 'F', long, value_name = "FORMAT", help_heading = headings::OUTPUT)]
    format: Option<String>,
    /// Answers as JSON, as in courser sub
    #[arg(short = 'o', long, value_enum, value_name = "FORM", conflicts_with_all = ["format", "payload_format"], help_heading = headings::OUTPUT)]
    output: Option<Json>,
    #[command(flatten)]
    payload: PayloadFlags,
    /// Say what is done on standard error
    #[arg(short = 'd', long, help_heading = headings::OUTPUT)]
    debug: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// What is asked, and where.
struct Question {
    options: Options,
    topic: String,
    payload: Vec<u8>,
    response_topic: String,
    /// What an answer carries back.
    correlation: Vec<u8>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Request) -> Exit {
    let question = match arguments.question() {
        Ok(question) => question,
        Err(message) => return usage(&message),
    };
    match arguments.printer() {
        Ok(printer) => arguments
            .ask(&question, printer)
            .unwrap_or_else(|error| fail(&error)),
        Err(exit) => exit,
    }
}

impl Request {
    fn question(&self) -> Result<Question, String> {
        let (mut options, url_topic) = self.connection.options()?;
        options.answer_max = self.timeout.min(options.answer_max);
        // Response Topic and Correlation Data are properties of 5.0.
        need_five(&mut options, &[("request", true)])?;
        let (topic, message) = topic_and_message(
            self.topic.clone().or(url_topic),
            [&self.topic_argument, &self.message_argument],
            "no topic: courser request TOPIC MESSAGE, or -t TOPIC",
        )?;
        let message = self.message.as_ref().or(message);
        let written = message.cloned().unwrap_or_default().into_bytes();
        let own = own_name();
        Ok(Question {
            options,
            topic,
            payload: self.payload.read(written)?,
            response_topic: self
                .response_topic
                .clone()
                .unwrap_or_else(|| format!("response/{own}")),
            correlation: own.into_bytes(),
        })
    }

    /// How answers are printed.
    fn printer(&self) -> Result<Printer, Exit> {
        if let Some(form) = self.output {
            // There is a last one, or the time is over.
            return Printer::of(form, Until::End);
        }
        let target = Target::of_stdout();
        let format = match &self.format {
            Some(text) => Format::parse(text, true, target).map_err(|message| usage(&message))?,
            None => Format::plain(false, true, target),
        };
        let format = format.with_payloads(&self.payload);
        Ok(Printer::Formatted(Box::new(format)))
    }

    /// Listens first, so that no answer is too fast.
    fn ask(&self, question: &Question, mut printer: Printer) -> Result<Exit, ClientError> {
        let interrupt = Interrupt::watch()?;
        let mut client = Client::connect(&question.options)?;
        interrupt.stops(&client)?;
        let done = self.wait_for_answers(&mut client, question, &mut printer);
        let exit = interrupt.leave(client, done)?;
        Ok(printer.end(exit))
    }

    fn wait_for_answers(
        &self,
        client: &mut Client,
        question: &Question,
        printer: &mut Printer,
    ) -> Result<Exit, ClientError> {
        let filter = Filter {
            filter: question.response_topic.clone(),
            qos: format::qos(self.qos),
            no_local: true,
            retain_as_published: false,
        };
        client.subscribe(&[filter], None)?;
        client.publish(&Message {
            topic: question.topic.clone(),
            payload: question.payload.clone(),
            qos: format::qos(self.qos),
            retain: false,
            duplicate: false,
            packet_id: None,
            properties: vec![
                MessageProperty::ResponseTopic(question.response_topic.clone()),
                MessageProperty::CorrelationData(question.correlation.clone()),
            ],
        })?;
        if self.debug {
            eprintln!("courser: asked on {}", question.topic);
        }
        let deadline = Instant::now() + self.timeout;
        let mut left = self.count;
        while left > 0 {
            let Some(answer) = client.next(Some(deadline))? else {
                eprintln!(
                    "courser: no answer on {} within {} s",
                    question.response_topic,
                    self.timeout.as_secs_f64()
                );
                return Ok(Exit::TimedOut);
            };
            // An answer to another question on the same topic, or one that was kept there.
            if answer.retain || !question.is_answered_by(&answer) {
                continue;
            }
            left -= 1;
            let complain = |why: &str| eprintln!("courser: {why}");
            if let Err(exit) = printer.print(&answer, complain) {
                return Ok(exit);
            }
        }
        Ok(Exit::Done)
    }
}

impl Question {
    /// v5 section 4.10.1: an answer carries the Correlation Data back. One without any is taken on a topic of our own.
    fn is_answered_by(&self, answer: &Message) -> bool {
        let data = answer
            .properties
            .iter()
            .find_map(|property| match property {
                MessageProperty::CorrelationData(data) => Some(data),
                MessageProperty::PayloadIsText(_)
                | MessageProperty::MessageExpiry(_)
                | MessageProperty::ContentType(_)
                | MessageProperty::ResponseTopic(_)
                | MessageProperty::SubscriptionId(_)
                | MessageProperty::TopicAlias(_)
                | MessageProperty::User(..) => None,
            });
        data.is_none_or(|data| *data == self.correlation)
    }
}

/// A name that nobody else has: from the time and the process.
fn own_name() -> String {
    let now = Timestamp::now().as_nanosecond().unsigned_abs();
    format!("{:x}-{:x}", now, std::process::id())
}
