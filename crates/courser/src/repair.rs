//! `courser repair`: what is damaged in a data folder, and what its next start does about it. Offline.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use courser_admin::api::{SetAside, StoppedStream};
use courser_broker::{
    DiskFailure, Examined, Finding, FolderError, Order, RepairError, Standing, Verb, examine,
    repair, with_causes,
};
use courser_contract::PartitionId;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::{self, exit::Exit};

/// Streams of one partition that are named without --all.
const NAMED: usize = 20;

/// Say what is damaged in a data folder, and order what its next start does about it
///
/// Without an order nothing is given up: the damage is said, with the sessions and topics concerned, and with what a start
/// does about it. The folder must not be served. It is opened as a start opens it: a torn end of the log is cut.
///
/// Exit code 0: nothing is damaged, or it is ordered; 1: something is damaged; 2: no data folder, or nothing to do it to; 6:
/// the folder is in use, or an entry is to be tried again without which something was decided.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("order").multiple(false))]
pub(crate) struct Repair {
    /// The data folder
    data: PathBuf,
    /// Go on without what is lost: each loss is counted and said at the next start
    #[arg(long, group = "order")]
    accept_loss: bool,
    /// With --accept-loss: in this partition only
    #[arg(long, value_name = "PARTITION", requires = "accept_loss")]
    partition: Option<u16>,
    /// Apply the entry that made the program panic once more
    #[arg(long, value_name = "PARTITION", group = "order")]
    retry: Option<u16>,
    /// Go on without the entry that made the program panic
    #[arg(long, value_name = "PARTITION", group = "order")]
    skip: Option<u16>,
    /// Refuse no publishes for the sessions of a partition that is set aside: they will not get them
    #[arg(long, value_name = "PARTITION", group = "order")]
    release: Option<u16>,
    /// Name every stream, not the first twenty of a partition
    #[arg(long)]
    all: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

impl Repair {
    /// Only to be told.
    pub(crate) const fn looking(data: PathBuf, all: bool, json: bool) -> Self {
        Self {
            data,
            accept_loss: false,
            partition: None,
            retry: None,
            skip: None,
            release: None,
            all,
            json,
        }
    }

    fn verb(&self) -> Option<Verb> {
        let given = |id: Option<u16>| id.map(PartitionId);
        let accepts = self
            .accept_loss
            .then(|| Verb::AcceptLoss(given(self.partition)));
        let retry = given(self.retry).map(Verb::Retry);
        let skip = given(self.skip).map(Verb::Skip);
        let release = given(self.release).map(Verb::Release);
        accepts.or(retry).or(skip).or(release)
    }
}

pub(crate) fn run(arguments: &Repair) -> Exit {
    let verb = arguments.verb();
    let examined = match verb {
        Some(verb) => repair(&arguments.data, verb),
        None => examine(&arguments.data),
    };
    let examined = match examined {
        Ok(examined) => examined,
        Err(error) => return refused(&error),
    };
    let text = match arguments.json {
        true => lines(&examined),
        false => words(&examined, arguments.all),
    };
    if let Err(exit) = cli::write(text.as_bytes()) {
        return exit;
    }
    let is_left = examined.findings.iter().any(|finding| {
        let mut ends = finding.ends_by().into_iter();
        !ends.all(|order| examined.orders.contains(&order))
    });
    if is_left && verb.is_none() {
        Exit::Refused
    } else {
        Exit::Done
    }
}

fn refused(error: &RepairError) -> Exit {
    eprintln!("courser: {}", with_causes(error));
    match error {
        RepairError::Folder(FolderError::InUse { .. }) | RepairError::Decided { .. } => {
            Exit::Conflict
        }
        RepairError::NoFolder { .. } | RepairError::Nothing { .. } => Exit::Usage,
        RepairError::Read { .. }
        | RepairError::Log(DiskFailure::Io(_))
        | RepairError::Folder(FolderError::Sync { .. }) => Exit::Disk,
        _ => Exit::Refused,
    }
}

fn words(examined: &Examined, all: bool) -> String {
    let mut text = format!("log: {}\n", examined.report);
    for finding in &examined.findings {
        match finding {
            Finding::Aside(aside) => {
                let _ = writeln!(text, "{aside}");
            }
            Finding::Stopped { streams, .. } => {
                let named = if all { streams.len() } else { NAMED };
                for stream in streams.iter().take(named) {
                    let _ = writeln!(text, "{stream}");
                }
                if let Some(more @ 1..) = streams.len().checked_sub(named) {
                    let id = finding.partition().0;
                    let _ = writeln!(text, "and {more} more streams of partition {id} (--all)");
                }
            }
        }
        let orders = finding.ends_by();
        let ordered = orders.iter().all(|order| examined.orders.contains(order));
        let id = finding.partition().0;
        let _ = match (ordered, finding.is_loss()) {
            (true, true) => writeln!(text, "  the next start goes on without it"),
            (true, false) => writeln!(text, "  the next start goes on without the entry"),
            (false, true) => writeln!(
                text,
                "  put the folder back from a backup, or: courser repair DATA --accept-loss --partition {id}"
            ),
            (false, false) => writeln!(
                text,
                "  try again with: courser repair DATA --retry {id}; go on without the entry: courser repair DATA --skip {id}"
            ),
        };
    }
    if examined.findings.is_empty() {
        text.push_str("nothing that is needed is damaged\n");
    }
    for order in &examined.orders {
        let _ = match examined.standing(*order) {
            Standing::Next => writeln!(text, "ordered for the next start: {order}"),
            Standing::Obeyed => writeln!(text, "obeyed, and by each start from now on: {order}"),
            Standing::WhileAside => writeln!(
                text,
                "obeyed by each start while partition {} is set aside for this: {order}",
                order.partition().0
            ),
            Standing::Over => writeln!(text, "good for nothing any more: {order}"),
        };
    }
    text
}

/// A partition that is set aside, as the API tells it, and whether that is a loss.
#[derive(Serialize)]
struct AsideLine {
    is: &'static str,
    #[serde(flatten)]
    aside: SetAside,
    loss: bool,
}

/// A stream that has stopped, as the API tells it, and the orders that end it.
#[derive(Serialize)]
struct StoppedLine<'a> {
    is: &'static str,
    #[serde(flatten)]
    stream: StoppedStream,
    ends_by: &'a [String],
}

fn lines(examined: &Examined) -> String {
    let standing = |order| match examined.standing(order) {
        Standing::Next => "next_start",
        Standing::Obeyed => "obeyed",
        Standing::WhileAside => "while_set_aside",
        Standing::Over => "over",
    };
    let mut text = String::new();
    let mut line = |fields: Value| {
        let _ = writeln!(text, "{fields}");
    };
    line(json!({ "is": "log", "report": examined.report }));
    for finding in &examined.findings {
        match finding {
            Finding::Aside(aside) => line(json!(AsideLine {
                is: "set_aside",
                aside: aside.into(),
                loss: finding.is_loss(),
            })),
            Finding::Stopped { streams, .. } => {
                let ends_by: Vec<String> = finding.ends_by().iter().map(Order::to_string).collect();
                for stream in streams {
                    line(json!(StoppedLine {
                        is: "stopped",
                        stream: stream.into(),
                        ends_by: &ends_by,
                    }));
                }
            }
        }
    }
    for order in &examined.orders {
        line(json!({ "is": "order", "order": order.to_string(), "standing": standing(*order) }));
    }
    text
}
