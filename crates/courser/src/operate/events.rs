//! `courser events`: comings and goings of clients, as they happen.

use std::time::Duration;

use clap::Args;
use courser_admin::client::Client;
use serde_json::Value;

use super::list::PAGE_MAX;
use super::print::{OutputFlags, plain};
use super::sequence::{Sequence, Until};
use super::server::{ServerFlags, Stop};
use crate::cli::exit::Exit;

/// How often the server is asked.
const LOOK: Duration = Duration::from_millis(500);

/// Flags of `courser events`.
#[derive(Args, Debug)]
pub(crate) struct EventsArguments {
    #[command(flatten)]
    server: ServerFlags,
    /// Also what the server still knows from before
    #[arg(long)]
    past: bool,
    /// Only what the server knows from before; do not wait for more
    #[arg(long)]
    no_follow: bool,
    /// Only events whose field fits: FIELD=PATTERN with * for anything, or !=, <, <=, >, >=; as often as wanted
    #[arg(long, value_name = "CONDITION")]
    filter: Vec<String>,
    /// End after so many events
    #[arg(short = 'C', long, visible_alias = "limit", value_name = "COUNT")]
    count: Option<u64>,
    #[command(flatten)]
    output: OutputFlags,
}

/// Runs the command.
pub(crate) fn run(arguments: &EventsArguments) -> Exit {
    arguments
        .server
        .ask(async |client| arguments.follow(&client).await)
}

impl EventsArguments {
    fn until(&self) -> Until {
        match self.no_follow || self.count.is_some() {
            true => Until::End,
            false => Until::Interrupted("-C COUNT or --no-follow"),
        }
    }

    async fn follow(&self, client: &Client) -> Result<Exit, Stop> {
        let mut shown = Sequence::new(self.output.output(), self.until())?;
        let mut left = self.count.unwrap_or(u64::MAX);
        let mut after = (self.past || self.no_follow).then(|| "0".to_owned());
        let end = if self.no_follow {
            Some(numbers(&client.get("/api/v1/events", &[]).await?))
        } else {
            None
        };
        loop {
            let limit = left.clamp(1, PAGE_MAX).to_string();
            let mut query = vec![("limit", limit.as_str())];
            query.extend(after.iter().map(|after| ("after", after.as_str())));
            query.extend(self.filter.iter().map(|it| ("filter", it.as_str())));
            let page = client.get("/api/v1/events", &query).await?;
            let events = page["items"].as_array().map_or(&[][..], Vec::as_slice);
            for event in events {
                if left == 0 {
                    break;
                }
                left -= 1;
                shown.add(event, in_words)?;
            }
            let next = page["next"].as_str().unwrap_or_default().to_owned();
            // A page is bounded: another one may be there already, also behind one of which nothing was wanted.
            let more = after.as_ref().is_some_and(|after| *after != next);
            after = Some(next);
            // What comes after the question is not from before, however fast it comes.
            let past = end
                .as_ref()
                .is_some_and(|end| is_behind(&numbers(&page), end));
            if left == 0 || (self.no_follow && (past || !more)) {
                shown.end()?;
                return Ok(Exit::Done);
            }
            if !more {
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

fn in_words(event: &Value) -> String {
    let text = |name: &str| plain(event[name].as_str().unwrap_or_default());
    let mut line = format!("{} {} \"{}\"", text("at"), text("event"), text("client_id"));
    if let Some(address) = event["address"].as_str() {
        line += &format!(" {}", plain(address));
    }
    if let Some(cause) = event["cause"].as_str() {
        line += &format!(": {}", plain(cause));
    }
    if let Some(code) = event["reason_code"].as_u64() {
        line += &format!(" (0x{code:02X}, see courser errors 0x{code:02X})");
    }
    line + "\n"
}

/// Where a page ends: a number for each shard.
fn numbers(page: &Value) -> Vec<u64> {
    let next = page["next"].as_str().unwrap_or_default();
    next.split('.').filter_map(|it| it.parse().ok()).collect()
}

/// Whether every shard has come to its end.
fn is_behind(next: &[u64], end: &[u64]) -> bool {
    next.len() == end.len() && next.iter().zip(end).all(|(next, end)| next >= end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_last_when_each_shard_has_come_to_where_it_was() {
        let end = numbers(&serde_json::json!({"next": "4.0.7"}));
        assert_eq!(end, [4, 0, 7]);
        assert!(is_behind(&[4, 0, 7], &end));
        assert!(is_behind(&[9, 1, 7], &end));
        assert!(!is_behind(&[9, 1, 6], &end));
        assert!(!is_behind(&[], &end));
    }
}
