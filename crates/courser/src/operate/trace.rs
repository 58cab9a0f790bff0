//! `courser client trace`: what one client sends and gets, as it happens.

use std::time::{Duration, Instant};

use clap::Args;
use courser_admin::client::{Client, ClientError, escaped};
use serde_json::Value;

use super::print::{Output, OutputFlags, plain, say};
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
    #[arg(short = 'C', long, value_name = "COUNT")]
    count: Option<u64>,
    /// End after this time, with code 27 if lines were still wanted; a number alone is seconds
    #[arg(short = 'W', long, value_name = "DURATION", value_parser = units::duration)]
    wait: Option<Duration>,
    #[command(flatten)]
    output: OutputFlags,
}

impl TraceArguments {
    /// Asks again and again; the server's trace ends a while after the last time.
    pub(super) async fn follow(&self, client: &Client) -> Result<Exit, ClientError> {
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
                    return Ok(Exit::Done);
                }
                left -= 1;
                self.say(line);
            }
            if left == 0 {
                return Ok(Exit::Done);
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(match self.count {
                    Some(_) => Exit::TimedOut,
                    None => Exit::Done,
                });
            }
            // A page is bounded: another one may be there already.
            if lines.is_empty() {
                tokio::time::sleep(LOOK).await;
            }
            after = page["next"].as_str().unwrap_or_default().to_owned();
        }
    }

    fn say(&self, line: &Value) {
        match self.output.output() {
            Output::Table => {
                let text = |name: &str| plain(line[name].as_str().unwrap_or_default());
                let arrow = match line["direction"].as_str() {
                    Some("received") => "<-",
                    Some("sent") => "->",
                    _ => "--",
                };
                say(&format!("{} {arrow} {}\n", text("at"), text("what")));
            }
            Output::Json | Output::Jsonl => Output::Jsonl.value(line),
        }
    }
}
