//! `courser top`: what the server holds and how much goes through it.

use std::time::{Duration, Instant};

use clap::Args;
use courser_admin::client::Client;
use serde_json::{Value, json};

use super::print::{Output, OutputFlags, is_terminal};
use super::sequence::{Sequence, Until};
use super::server::{ServerFlags, Stop};
use crate::cli::exit::Exit;
use crate::cli::units::pause;

/// Flags of `courser top`.
#[derive(Args, Debug)]
pub(crate) struct Top {
    #[command(flatten)]
    server: ServerFlags,
    /// Time between two looks; a number alone is seconds
    #[arg(short = 'd', long, value_name = "DURATION", default_value = "2s", value_parser = pause)]
    delay: Duration,
    /// End after so many looks
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    output: OutputFlags,
}

/// Numbers that only grow: shown as rates.
const RATES: [(&str, &str); 2] = [
    ("messages_received", "received_per_second"),
    ("messages_delivered", "delivered_per_second"),
];

/// Runs the command.
pub(crate) fn run(arguments: &Top) -> Exit {
    arguments
        .server
        .ask(async |client| arguments.watch(&client).await)
}

impl Top {
    async fn watch(&self, client: &Client) -> Result<Exit, Stop> {
        let until = match self.count {
            Some(_) => Until::End,
            None => Until::Interrupted("-n COUNT"),
        };
        let mut shown = Sequence::new(self.output.output(), until)?;
        let mut before: Option<(Instant, Value)> = None;
        let mut looks = 0;
        loop {
            let mut now = client.get("/api/v1/node", &[]).await?;
            let at = Instant::now();
            let counted = now.clone();
            if let Some((then, before)) = &before {
                add_rates(&mut now, before, at - *then);
            }
            before = Some((at, counted));
            looks += 1;
            shown.add(&now, in_words)?;
            if self.count.is_some_and(|count| looks >= count) {
                shown.end()?;
                return Ok(Exit::Done);
            }
            tokio::time::sleep(self.delay).await;
        }
    }
}

fn in_words(now: &Value) -> String {
    let (before, after) = match is_terminal() {
        true => ("\x1b[H\x1b[2J", ""),
        false => ("", "\n"),
    };
    format!("{before}{}{after}", Output::Table.text(now))
}

fn add_rates(now: &mut Value, before: &Value, span: Duration) {
    for (counter, rate) in RATES {
        if let (Some(new), Some(old)) = (now[counter].as_u64(), before[counter].as_u64()) {
            // A server that was started again begins at 0.
            let grown = new.saturating_sub(old) as f64;
            now[rate] = json!((grown / span.as_secs_f64()).round());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_what_came_in_between() {
        let before = json!({"messages_received": 100, "messages_delivered": 500});
        let mut now = json!({"messages_received": 300, "messages_delivered": 20});
        add_rates(&mut now, &before, Duration::from_secs(2));
        assert_eq!(now["received_per_second"], 100.0);
        assert_eq!(
            now["delivered_per_second"], 0.0,
            "the server was started again"
        );
    }
}
