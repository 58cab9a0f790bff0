//! `courser client trace`: what one client sends and gets, as it happens.

use std::time::{Duration, Instant};

use clap::Args;
use courser_admin::client::{Client, escaped};
use serde_json::Value;

use super::print::{OutputFlags, plain};
use super::sequence::{Sequence, Until};
use super::server::Stop;
use crate::cli::exit::Exit;
use crate::cli::units;

/// How often the server is asked.
const LOOK: Duration = Duration::from_millis(250);

/// Flags of `courser client trace`.
#[derive(Args, Debug)]
pub(super) struct TraceArguments {
    /// Client id; it may come later
    client_id: String,
    /// End after so many lines
    #[arg(short = 'C', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time, with code 27 if lines were still wanted; a number alone is seconds
    #[arg(short = 'W', long, value_name = "DURATION", value_parser = units::duration)]
    wait: Option<Duration>,
    #[command(flatten)]
    output: OutputFlags,
}

impl TraceArguments {
    /// Asks again and again; the server's trace ends a while after the last time.
    pub(super) async fn follow(&self, client: &Client) -> Result<Exit, Stop> {
        let mut shown = Sequence::new(self.output.output(), self.until())?;
        let path = format!("/api/v1/clients/{}/trace", escaped(&self.client_id));
        let end = self.wait.and_then(|wait| Instant::now().checked_add(wait));
        let mut left = self.count.unwrap_or(u64::MAX);
        let mut after = String::new();
        loop {
            let query = [("after", after.as_str())];
            let query = if after.is_empty() { &[][..] } else { &query };
            let page = client.get(&path, query).await?;
            let lost = page["lost"].as_u64().unwrap_or(0);
            if lost > 0 {
                eprintln!("courser: {lost} lines came too fast and are lost");
            }
            let lines = page["items"].as_array().map_or(&[][..], Vec::as_slice);
            for line in lines {
                if left == 0 {
                    break;
                }
                left -= 1;
                shown.add(line, in_words)?;
            }
            if left == 0 || end.is_some_and(|end| Instant::now() >= end) {
                shown.end()?;
                return Ok(match self.count {
                    Some(_) if left > 0 => Exit::TimedOut,
                    Some(_) | None => Exit::Done,
                });
            }
            // A page is bounded: another one may be there already.
            if lines.is_empty() {
                tokio::time::sleep(LOOK).await;
            }
            after = page["next"].as_str().unwrap_or_default().to_owned();
        }
    }

    fn until(&self) -> Until {
        match self.count.is_some() || self.wait.is_some() {
            true => Until::End,
            false => Until::Interrupted("-C COUNT or -W DURATION"),
        }
    }
}

fn in_words(line: &Value) -> String {
    let text = |name: &str| plain(line[name].as_str().unwrap_or_default());
    let arrow = match line["direction"].as_str() {
        Some("received") => "<-",
        Some("sent") => "->",
        _ => "--",
    };
    format!("{} {arrow} {}\n", text("at"), text("what"))
}
