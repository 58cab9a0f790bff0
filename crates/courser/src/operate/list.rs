//! Listings: pages of the server, put together.

use std::time::Duration;

use clap::Args;
use courser_admin::client::{Client, ClientError};
use serde_json::{Value, json};

use super::print::{Output, is_terminal, say_on};
use super::server::{ServerFlags, Stop};
use crate::cli::exit::{Exit, usage};
use crate::cli::headings;
use crate::cli::plain::plain;
use crate::cli::units::pause;

/// Flags of every listing.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListFlags {
    /// Only rows whose field fits: FIELD=PATTERN with * for anything, or !=, <, <=, >, >=; as often as wanted
    #[arg(long, value_name = "CONDITION", help_heading = headings::LISTING)]
    filter: Vec<String>,
    /// By this field; -FIELD has the largest first
    #[arg(long, value_name = "FIELD", allow_hyphen_values = true, help_heading = headings::LISTING)]
    sort: Option<String>,
    /// Most rows
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..), help_heading = headings::LISTING)]
    limit: u64,
    /// Behind the last row of an earlier listing
    #[arg(long, value_name = "CURSOR", help_heading = headings::LISTING)]
    cursor: Option<String>,
    /// Again and again, with so much time between; a number alone is seconds
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "2s", value_parser = pause, help_heading = headings::LISTING)]
    watch: Option<Duration>,
    #[command(flatten)]
    output: super::print::OutputFlags,
}

/// Most rows that the server gives at once.
pub(super) const PAGE_MAX: u64 = 10_000;

/// What is listed, and how a table of it looks.
pub(super) struct Listing {
    pub(super) path: &'static str,
    pub(super) columns: &'static [&'static str],
    pub(super) own: Vec<(&'static str, String)>,
}

impl ListFlags {
    /// Lists, once or again and again.
    pub(super) fn run(&self, server: &ServerFlags, listing: &Listing) -> Exit {
        if self.watch.is_some() && self.output.output() == Output::Json {
            return usage(
                "-o json is one document, and --watch makes one after the other: say -o jsonl for one listing a line",
            );
        }
        server.ask(async |client| {
            loop {
                let exit = self.once(&client, listing).await?;
                let Some(pause) = self.watch else {
                    return Ok(exit);
                };
                tokio::time::sleep(pause).await;
            }
        })
    }

    /// All pages come before the first row is printed: a listing that fails prints nothing.
    async fn once(&self, client: &Client, listing: &Listing) -> Result<Exit, Stop> {
        let (rows, next) = self.rows(client, listing).await?;
        if self.watch.is_some() && is_terminal() {
            say_on("\x1b[H\x1b[2J")?;
        }
        match self.output.output() {
            // Else nobody could tell where one listing ends.
            Output::Jsonl if self.watch.is_some() => {
                say_on(&Output::Jsonl.text(&json!({"items": rows, "next": next})))?;
            }
            output @ (Output::Table | Output::Jsonl) => {
                say_on(&output.text_of_rows(&rows, listing.columns))?;
            }
            Output::Json => Output::Json.value(&json!({"items": rows, "next": next}))?,
        }
        if let (Output::Table, Some(next)) = (self.output.output(), next) {
            eprintln!("courser: there is more: --limit N, or --cursor {next}");
        }
        let mut exit = Exit::Done;
        for row in rows.iter().filter(|row| row["damaged"] == true) {
            let topic = plain(row["topic"].as_str().unwrap_or_default());
            eprintln!(
                "courser: DAMAGED: the retained message of {topic} is lost, and nothing of it is shown"
            );
            exit = Exit::Refused;
        }
        Ok(exit)
    }

    /// As much as the server gives at once of the rows that fit, behind a cursor.
    pub(super) fn page(filter: &[String], cursor: Option<String>) -> Self {
        Self {
            filter: filter.to_vec(),
            sort: None,
            limit: PAGE_MAX,
            cursor,
            watch: None,
            output: super::print::OutputFlags::default(),
        }
    }

    /// Pages until there are enough rows. A page may be empty although there is more.
    pub(super) async fn rows(
        &self,
        client: &Client,
        listing: &Listing,
    ) -> Result<(Vec<Value>, Option<String>), ClientError> {
        let mut rows: Vec<Value> = Vec::new();
        let mut next = self.cursor.clone();
        loop {
            let limit = (self.limit - rows.len() as u64).min(PAGE_MAX).to_string();
            let mut query = vec![("limit", limit.as_str())];
            query.extend(self.filter.iter().map(|filter| ("filter", filter.as_str())));
            query.extend(self.sort.iter().map(|sort| ("sort", sort.as_str())));
            query.extend(
                listing
                    .own
                    .iter()
                    .map(|(name, value)| (*name, value.as_str())),
            );
            query.extend(next.iter().map(|next| ("cursor", next.as_str())));
            let page = client.get(listing.path, &query).await?;
            rows.extend(page["items"].as_array().into_iter().flatten().cloned());
            next = page["next"].as_str().map(str::to_owned);
            if next.is_none() || rows.len() as u64 >= self.limit {
                return Ok((rows, next));
            }
        }
    }
}
