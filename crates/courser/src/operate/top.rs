//! `courser top`: what the server holds and how much goes through it.

use std::time::{Duration, Instant};

use clap::Args;
use courser_admin::client::Client;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::print::{OutputFlags, is_terminal, plain};
use super::sequence::{Sequence, Until};
use super::server::{ServerFlags, Stop};
use crate::cli::exit::Exit;
use crate::cli::units::{pause, shown_bytes};

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
const RATES: [(&str, &str); 6] = [
    ("messages_received", "received_per_second"),
    ("messages_delivered", "delivered_per_second"),
    ("messages_dropped", "dropped_per_second"),
    ("bytes_received", "bytes_received_per_second"),
    ("bytes_sent", "bytes_sent_per_second"),
    ("cpu_us", "cpu_us_per_second"),
];
/// Microseconds of CPU in a second that are one percent of a core.
const US_A_PERCENT: f64 = 10_000.0;

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
    format!("{before}{}{after}", page(now))
}

/// Rates first, in words. Of the first look there are none yet.
fn page(now: &Value) -> String {
    let text = |name: &str| plain(now[name].as_str().unwrap_or("-"));
    let count = |name: &str| now[name].as_u64().unwrap_or_default();
    let rate = |name: &str| now[name].as_f64();
    let rounded = |name: &str| rate(name).map_or("-".to_owned(), |it| format!("{it:.0}"));
    let bytes = |name: &str| rate(name).map_or("-".to_owned(), |it| shown_bytes(it as u64));
    let cpu = rate("cpu_us_per_second");
    let cpu = cpu.map_or("-".to_owned(), |it| format!("{:.0} %", it / US_A_PERCENT));
    let up = i64::try_from(count("uptime_seconds")).unwrap_or(i64::MAX);
    let up = SignedDuration::from_secs(up);
    let mut page = format!(
        "courser {}, {}, up {up:#}, {} shards\n\n",
        text("version"),
        text("state"),
        count("shards")
    );
    for (name, messages, bytes) in [
        ("", "MESSAGES/S".to_owned(), "BYTES/S".to_owned()),
        (
            "in",
            rounded("received_per_second"),
            bytes("bytes_received_per_second"),
        ),
        (
            "out",
            rounded("delivered_per_second"),
            bytes("bytes_sent_per_second"),
        ),
        ("dropped", rounded("dropped_per_second"), String::new()),
    ] {
        let line = format!("{name:8}{messages:>12}{bytes:>14}");
        page += &format!("{}\n", line.trim_end());
    }
    let held = [
        ("cpu of shards", cpu),
        (
            "memory",
            format!(
                "{} of {}, most of it {}",
                shown_bytes(count("memory_held_bytes")),
                shown_bytes(count("memory_limit_bytes")),
                text("memory_largest")
            ),
        ),
        ("connections", count("connections").to_string()),
        ("sessions", count("sessions").to_string()),
        ("subscriptions", count("subscriptions").to_string()),
        ("retained", count("retained_messages").to_string()),
        ("queued", count("queued_messages").to_string()),
        ("settings", text("settings_digest")),
    ];
    page.push('\n');
    for (name, value) in held {
        page += &format!("{name:15}{value}\n");
    }
    page
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
    fn a_page_has_rates_once_there_are_some() {
        let first = json!({"version": "1.0.0", "state": "ready", "uptime_seconds": 7, "shards": 2, "memory_held_bytes": 3 << 20,
            "memory_limit_bytes": 1 << 30, "memory_largest": "sessions", "connections": 4, "messages_received": 100,
            "bytes_received": 0, "cpu_us": 0, "settings_digest": "00ff"});
        let shown = page(&first);
        assert!(
            shown.starts_with("courser 1.0.0, ready, up 7s, 2 shards\n"),
            "{shown}"
        );
        assert!(
            shown.contains("\nin                 -             -\n"),
            "{shown}"
        );
        assert!(
            shown.contains("3.0 MiB of 1.0 GiB, most of it sessions"),
            "{shown}"
        );
        let mut second = first.clone();
        second["messages_received"] = json!(300);
        second["bytes_received"] = json!(4096);
        second["cpu_us"] = json!(500_000);
        add_rates(&mut second, &first, Duration::from_secs(2));
        let shown = page(&second);
        assert!(
            shown.contains("\nin               100       2.0 KiB\n"),
            "{shown}"
        );
        assert!(shown.contains("cpu of shards  25 %\n"), "{shown}");
    }

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
