//! `retained delete`: messages by their topics, or all that match a filter.

use clap::Args;
use courser_admin::client::{Client, ClientError};
use serde_json::{Value, json};

use super::print::plain;
use super::server::ServerFlags;
use super::targets::{Act, Chosen, Consent, Deed, Meant};
use crate::cli::exit::{Exit, usage};

const PATH: &str = "/api/v1/retained";

/// Which messages are taken away.
#[derive(Args, Debug)]
pub(super) struct RetainedDeletion {
    /// Topics
    #[arg(
        value_name = "TOPIC",
        required_unless_present = "matching",
        conflicts_with = "matching"
    )]
    topics: Vec<String>,
    /// Of all topics that match this filter; the broker's own values under $SYS/ stay
    #[arg(long = "match", value_name = "FILTER")]
    matching: Option<String>,
    #[command(flatten)]
    consent: Consent,
}

impl RetainedDeletion {
    /// Does it, if it is meant.
    pub(super) fn run(&self, server: &ServerFlags) -> Exit {
        match &self.matching {
            Some(filter) => self.run_matching(server, filter),
            None => {
                // No message has such a topic.
                if let Some(filter) = self.topics.iter().find(|it| it.contains(['+', '#'])) {
                    return usage(&format!(
                        "\"{}\" is a filter and no topic: --match FILTER is for all that match one",
                        plain(filter)
                    ));
                }
                let deed = Deed {
                    path: PATH,
                    act: Act::Delete,
                    what: "take away the retained message of",
                };
                self.consent.run(server, &deed, Chosen::Named(&self.topics))
            }
        }
    }

    /// Says how many there are before it is done.
    fn run_matching(&self, server: &ServerFlags, filter: &str) -> Exit {
        let mut found = 0;
        let counted = server.ask(async |client| {
            walk(&client, (filter, Meant::OnlySay), &mut found).await?;
            Ok(Exit::Done)
        });
        if counted != Exit::Done {
            return counted;
        }
        let what = format!("take away {}", named(found, filter));
        let asked = (found > 0).then_some(what.as_str());
        match self.consent.ask_if(asked) {
            Ok(Meant::OnlySay) => self
                .say("would take away", (found, filter))
                .err()
                .unwrap_or(Exit::Done),
            Ok(Meant::Do) => self.take_away(server, filter),
            Err(exit) => exit,
        }
    }

    fn take_away(&self, server: &ServerFlags, filter: &str) -> Exit {
        server.ask(async |client| {
            let mut count = 0;
            let done = walk(&client, (filter, Meant::Do), &mut count).await;
            // What was done is said also where it cannot go on.
            if done.is_ok() || count > 0 {
                self.say("took away", (count, filter))?;
            }
            done?;
            Ok(Exit::Done)
        })
    }

    fn say(&self, done: &str, (count, filter): (u64, &str)) -> Result<(), Exit> {
        let row = json!({"done": done, "what": named(count, filter), "count": count});
        self.consent.output().output().deeds(&[row])
    }
}

fn named(count: u64, filter: &str) -> String {
    match count {
        1 => format!("1 retained message that matches {filter}"),
        count => format!("{count} retained messages that match {filter}"),
    }
}

/// Deletes what matches, as much of it at a time as the server does, or only counts it.
async fn walk(
    client: &Client,
    (filter, meant): (&str, Meant),
    count: &mut u64,
) -> Result<(), ClientError> {
    let dry_run = match meant {
        Meant::OnlySay => "true",
        Meant::Do => "false",
    };
    let mut next: Option<String> = None;
    loop {
        let mut query = vec![("match", filter), ("dry_run", dry_run)];
        query.extend(next.as_deref().map(|next| ("cursor", next)));
        let page: Value = client.delete_with(PATH, &query).await?;
        *count += page["count"].as_u64().unwrap_or(0);
        next = page["next"].as_str().map(str::to_owned);
        if next.is_none() {
            return Ok(());
        }
    }
}
