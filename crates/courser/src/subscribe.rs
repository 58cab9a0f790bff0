//! `courser sub`: prints messages as they come, with the letters of `mosquitto_sub`.

mod printer;

use std::time::{Duration, Instant};

use clap::Args;
use courser_client::{Client, ClientError, Filter, Message, Options, QoS, SessionState};

use crate::cli::again::Again;
use crate::cli::connection::{Connection, need_five};
use crate::cli::exit::{Exit, fail, usage};
use crate::cli::format::{self, Format, Target};
use crate::cli::headings;
use crate::cli::interrupt::Interrupt;
use crate::cli::letters::PropertyFlag;
use crate::cli::payload::PayloadFlags;
use crate::cli::units;
use crate::operate::Until;

pub(crate) use self::printer::{Json, Printer};

/// Flags of `courser sub`.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Subscribe {
    /// Topic filters, beside those of -t and -L
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    #[command(flatten)]
    connection: Connection,
    /// Topic filter, as often as wanted
    #[arg(short = 't', long, value_name = "FILTER")]
    topic: Vec<String>,
    /// Highest QoS of deliveries
    #[arg(short = 'q', long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    /// Print topics too
    #[arg(short = 'v', long, help_heading = headings::OUTPUT)]
    verbose: bool,
    /// How to print a message: %t topic, %p payload, %x payload as hex, %q QoS, %r retained, %l length, %j JSON, %J JSON with
    /// JSON payload, %I time, %U Unix time, %m packet id, %A %C %D %E %F %P %R %S properties of MQTT 5, @X strftime; %10t, %-10t, %010l
    /// widths, %.3t at most three characters
    #[arg(short = 'F', long, value_name = "FORMAT", help_heading = headings::OUTPUT)]
    format: Option<String>,
    /// Messages as JSON: time, topic, qos, retain, payload, encoding (utf-8, or base64 of a payload that is no text), properties
    #[arg(short = 'o', long, value_enum, value_name = "FORM", conflicts_with_all = ["format", "verbose", "no_end_of_line", "payload_format"], help_heading = headings::OUTPUT)]
    output: Option<Json>,
    #[command(flatten)]
    payload: PayloadFlags,
    /// No line end after a message
    #[arg(short = 'N', long, help_heading = headings::OUTPUT)]
    no_end_of_line: bool,
    /// End after so many messages
    #[arg(short = 'C', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time, with code 27 if messages were still wanted; a number alone is seconds
    #[arg(short = 'W', long, value_name = "DURATION", value_parser = units::duration)]
    timeout: Option<Duration>,
    /// Leave out retained messages
    #[arg(short = 'R', long)]
    no_retained: bool,
    /// Only retained messages; ends at the first that is none
    #[arg(long, conflicts_with = "no_retained")]
    retained_only: bool,
    /// Take retained messages that come away from the broker, as -r -n of courser pub does; not those that -T leaves out. Empty messages are
    /// not printed then
    #[arg(long)]
    remove_retained: bool,
    /// Leave out what matches this filter, as often as wanted
    #[arg(short = 'T', long, value_name = "FILTER")]
    filter_out: Vec<String>,
    /// After connecting, unsubscribe from this filter, as often as wanted
    #[arg(short = 'U', long, value_name = "FILTER")]
    unsubscribe: Vec<String>,
    /// End once the broker has answered the subscription
    #[arg(short = 'E')]
    exit_after_subscribe: bool,
    /// End when the connection is lost. Without it: connect again until that works, go on with the session if it was to outlive the
    /// connection (-c, -x), and subscribe again if it was not
    #[arg(long)]
    no_reconnect: bool,
    /// Keep the publisher's RETAIN in deliveries (MQTT 5)
    #[arg(long)]
    retain_as_published: bool,
    /// Not the own messages (MQTT 5)
    #[arg(long)]
    no_local: bool,
    /// Subscription identifier (MQTT 5)
    #[arg(long, value_name = "NUMBER")]
    subscription_identifier: Option<u32>,
    #[command(flatten)]
    property: PropertyFlag,
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

/// What is printed, and how far that has come.
struct Reception {
    printer: Printer,
    /// No message is waited for any longer.
    deadline: Option<Instant>,
    printed: u64,
}

/// Runs the command.
pub(crate) fn run(arguments: &Subscribe) -> Exit {
    let plan = arguments.plan();
    let (options, filters) = match plan {
        Ok(plan) => plan,
        Err(_) if arguments.quiet => return Exit::Usage,
        Err(message) => return usage(&message),
    };
    let printer = match arguments.printer() {
        Ok(printer) => printer,
        Err(exit) => return exit,
    };
    match arguments.print(&options, &filters, printer) {
        Ok(exit) => exit,
        Err(error) if arguments.quiet => Exit::from(&error),
        Err(error) => fail(&error),
    }
}

impl Subscribe {
    fn plan(&self) -> Result<(Options, Vec<Filter>), String> {
        self.property.check()?;
        let (mut options, url_topic) = self.connection.options()?;
        if let Some(timeout) = self.timeout {
            let least = Duration::from_millis(1);
            options.answer_max = timeout.clamp(least, options.answer_max);
        }
        let wanted = [
            ("--retain-as-published", self.retain_as_published),
            ("--no-local", self.no_local),
            (
                "--subscription-identifier",
                self.subscription_identifier.is_some(),
            ),
        ];
        need_five(&mut options, &wanted)?;
        let named = self
            .filters
            .iter()
            .chain(&self.topic)
            .cloned()
            .chain(url_topic);
        let filters: Vec<_> = named
            .map(|filter| Filter {
                filter,
                qos: format::qos(self.qos),
                no_local: self.no_local,
                retain_as_published: self.retain_as_published,
            })
            .collect();
        if filters.is_empty() && self.unsubscribe.is_empty() {
            return Err("no topic filter: courser sub 'FILTER', or -t FILTER".into());
        }
        Ok((options, filters))
    }

    /// How messages are printed.
    fn printer(&self) -> Result<Printer, Exit> {
        if let Some(form) = self.output {
            let ends = self.count.is_some() || self.timeout.is_some() || self.exit_after_subscribe;
            let until = match ends {
                true => Until::End,
                false => Until::Interrupted("-C COUNT or -W DURATION"),
            };
            return Printer::of(form, until);
        }
        let target = Target::of_stdout();
        let format = match &self.format {
            Some(text) => Format::parse(text, !self.no_end_of_line, target),
            None => Ok(Format::plain(self.verbose, !self.no_end_of_line, target)),
        };
        match format {
            Ok(format) => Ok(Printer::Formatted(Box::new(
                format.with_payloads(&self.payload),
            ))),
            Err(_) if self.quiet => Err(Exit::Usage),
            Err(message) => Err(usage(&message)),
        }
    }

    fn print(
        &self,
        options: &Options,
        filters: &[Filter],
        printer: Printer,
    ) -> Result<Exit, ClientError> {
        // What is too far for the clock never comes.
        let deadline = self
            .timeout
            .and_then(|timeout| Instant::now().checked_add(timeout));
        let interrupt = Interrupt::watch()?;
        let mut client = Client::connect(options)?;
        interrupt.stops(&client)?;
        self.say(&format!("connected, MQTT {}", client.version()));
        let mut reception = Reception {
            printer,
            deadline,
            printed: 0,
        };
        let done = self.subscribe(&mut client, filters).and_then(|()| {
            let again = Again {
                options,
                deadline,
                is_quiet: self.quiet,
            };
            self.receive(&mut client, filters, &mut reception, (&interrupt, again))
        });
        let exit = interrupt.leave(client, done)?;
        Ok(reception.printer.end(exit))
    }

    fn subscribe(&self, client: &mut Client, filters: &[Filter]) -> Result<(), ClientError> {
        if !self.unsubscribe.is_empty() {
            client.unsubscribe(&self.unsubscribe)?;
        }
        if !filters.is_empty() {
            client.subscribe(filters, self.subscription_identifier)?;
            self.say(&format!("subscribed to {} filter(s)", filters.len()));
        }
        Ok(())
    }

    /// Prints what comes, by one connection after the other.
    fn receive(
        &self,
        client: &mut Client,
        filters: &[Filter],
        reception: &mut Reception,
        (interrupt, again): (&Interrupt, Again<'_>),
    ) -> Result<Exit, ClientError> {
        let mut is_subscribed = true;
        loop {
            let subscribed = match is_subscribed {
                true => Ok(()),
                false => self.subscribe(client, filters),
            };
            is_subscribed |= subscribed.is_ok();
            let why = match subscribed.and_then(|()| self.print_messages(client, reception)) {
                Err(why) if !self.no_reconnect => why,
                done => return done,
            };
            match again.come_back(client, interrupt, why)? {
                Some(SessionState::Resumed) => {}
                Some(SessionState::New) => is_subscribed = false,
                None => return Ok(Exit::TimedOut),
            }
        }
    }

    fn print_messages(
        &self,
        client: &mut Client,
        reception: &mut Reception,
    ) -> Result<Exit, ClientError> {
        let wanted = if self.exit_after_subscribe {
            Some(0)
        } else {
            self.count
        };
        while wanted.is_none_or(|count| reception.printed < count) {
            let Some(message) = client.next(reception.deadline)? else {
                return Ok(Exit::TimedOut);
            };
            if self.retained_only && !message.retain {
                break;
            }
            if self.leaves_out(&message) || self.is_removal(&message) {
                continue;
            }
            if message.retain && self.no_retained {
                self.remove(client, &message)?;
                continue;
            }
            let complain = |why: &str| {
                if !self.quiet {
                    eprintln!("courser: {why}");
                }
            };
            if let Err(exit) = reception.printer.print(&message, complain) {
                return Ok(exit);
            }
            reception.printed += 1;
            self.remove(client, &message)?;
        }
        Ok(Exit::Done)
    }

    fn leaves_out(&self, message: &Message) -> bool {
        let mut filters = self.filter_out.iter();
        filters.any(|filter| courser_client::matches(filter, &message.topic))
    }

    /// Whether it took a retained message away: what this command has sent comes back to it.
    fn is_removal(&self, message: &Message) -> bool {
        self.remove_retained && message.payload.is_empty()
    }

    /// Takes a retained message away, where that is wanted.
    fn remove(&self, client: &mut Client, message: &Message) -> Result<(), ClientError> {
        if !(self.remove_retained && message.retain) {
            return Ok(());
        }
        client.publish(&Message {
            topic: message.topic.clone(),
            payload: Vec::new(),
            qos: QoS::AtLeastOnce,
            retain: true,
            duplicate: false,
            packet_id: None,
            properties: Vec::new(),
        })
    }

    fn say(&self, what: &str) {
        if self.debug && !self.quiet {
            eprintln!("courser: {what}");
        }
    }
}
