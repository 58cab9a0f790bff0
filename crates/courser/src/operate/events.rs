//! `courser events`: comings and goings of clients, as they happen.

use std::collections::VecDeque;
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
    /// End after so many events; with --no-follow the last so many
    #[arg(short = 'C', long, visible_alias = "limit", value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    output: OutputFlags,
}

/// Runs the command.
pub(crate) fn run(arguments: &EventsArguments) -> Exit {
    arguments
        .server
        .ask(async |client| arguments.run(&client).await)
}

impl EventsArguments {
    fn until(&self) -> Until {
        match self.no_follow || self.count.is_some() {
            true => Until::End,
            false => Until::Interrupted("-C COUNT or --no-follow"),
        }
    }

    async fn run(&self, client: &Client) -> Result<Exit, Stop> {
        let mut shown = Sequence::new(self.output.output(), self.until())?;
        match self.no_follow {
            true => {
                for event in self.newest(client).await? {
                    shown.add(&event, in_words)?;
                }
            }
            false => self.follow(client, &mut shown).await?,
        }
        shown.end()?;
        Ok(Exit::Done)
    }

    /// What the server knows from before, in its order: the last ones where only so many are wanted.
    async fn newest(&self, client: &Client) -> Result<VecDeque<Value>, Stop> {
        let most = self.count.and_then(|count| usize::try_from(count).ok());
        let end = numbers(&client.get("/api/v1/events", &[]).await?);
        let mut newest = VecDeque::new();
        let mut after = "0".to_owned();
        loop {
            let page = self.page(client, Some(&after), PAGE_MAX).await?;
            add_newest(&mut newest, most.unwrap_or(usize::MAX), items(&page));
            let next = next(&page);
            // A page is bounded, also where nothing of it was wanted. What comes after the question is not from before, however fast it
            // comes.
            if is_behind(&numbers(&page), &end) || next == after {
                return Ok(newest);
            }
            after = next;
        }
    }

    /// What happens, until it is as much as is wanted.
    async fn follow(&self, client: &Client, shown: &mut Sequence) -> Result<(), Stop> {
        let mut left = self.count.unwrap_or(u64::MAX);
        let mut after = self.past.then(|| "0".to_owned());
        while left > 0 {
            let page = self.page(client, after.as_deref(), left).await?;
            for event in items(&page) {
                left = left.saturating_sub(1);
                shown.add(event, in_words)?;
            }
            let next = next(&page);
            // Another page may be there already, also behind one of which nothing was wanted.
            let more = after.as_ref().is_some_and(|after| *after != next);
            after = Some(next);
            if left > 0 && !more {
                tokio::time::sleep(LOOK).await;
            }
        }
        Ok(())
    }

    /// At most `limit` events behind a place; without one, only the place where it goes on.
    async fn page(&self, client: &Client, after: Option<&str>, limit: u64) -> Result<Value, Stop> {
        let limit = limit.clamp(1, PAGE_MAX).to_string();
        let mut query = vec![("limit", limit.as_str())];
        query.extend(after.map(|after| ("after", after)));
        query.extend(self.filter.iter().map(|it| ("filter", it.as_str())));
        Ok(client.get("/api/v1/events", &query).await?)
    }
}

fn items(page: &Value) -> &[Value] {
    page["items"].as_array().map_or(&[][..], Vec::as_slice)
}

/// Where the next page begins.
fn next(page: &Value) -> String {
    page["next"].as_str().unwrap_or_default().to_owned()
}

/// Adds what is newer; the oldest ones go where there would be more than `most`.
fn add_newest(newest: &mut VecDeque<Value>, most: usize, events: &[Value]) {
    newest.extend(events.iter().cloned());
    let surplus = newest.len().saturating_sub(most);
    newest.drain(..surplus);
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
    let next = next(page);
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
    fn of_what_was_the_newest_are_kept_over_all_pages() {
        let check = |most, pages: &[&[u64]], expected: &[u64]| {
            let mut newest = VecDeque::new();
            for page in pages {
                let page: Vec<Value> = page.iter().map(|&it| it.into()).collect();
                add_newest(&mut newest, most, &page);
            }
            let found: Vec<u64> = newest.iter().filter_map(Value::as_u64).collect();
            assert_eq!(found, expected, "{most} of {pages:?}");
        };
        check(2, &[&[1, 2, 3]], &[2, 3]);
        check(2, &[&[1, 2, 3], &[], &[4]], &[3, 4]);
        check(9, &[&[1], &[2, 3]], &[1, 2, 3]);
        check(usize::MAX, &[&[1], &[2]], &[1, 2]);
        check(0, &[&[1]], &[]);
    }

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
