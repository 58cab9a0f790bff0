//! Which connections a verb is for: some by name, those that fit, or all.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use courser_admin::client::{Client, ClientError};

use super::list::{ListFlags, Listing};
use super::server::ServerFlags;
use super::targets::{Chosen, Consent, Deed};
use crate::cli::exit::Exit;

/// Flags of a verb for clients.
#[derive(Args, Debug)]
pub(super) struct Among {
    /// Client ids
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), required_unless_present_any = ["all", "filter"], conflicts_with_all = ["all", "filter"])]
    names: Vec<String>,
    /// All that are connected now
    #[arg(long, conflicts_with = "filter")]
    all: bool,
    /// Those whose field fits, as in `courser client list`; as often as wanted
    #[arg(long, value_name = "CONDITION")]
    filter: Vec<String>,
    #[command(flatten)]
    consent: Consent,
}

impl Among {
    /// Does it to each of them, if it is meant.
    pub(super) fn run(&self, server: &ServerFlags, deed: &Deed) -> Exit {
        if !self.names.is_empty() {
            return self.consent.run(server, deed, Chosen::Named(&self.names));
        }
        let mut found = Vec::new();
        let looked = server.ask(async |client| {
            found = self.find(&client).await?;
            Ok(Exit::Done)
        });
        match looked {
            Exit::Done if found.is_empty() => self.consent.for_nobody(),
            Exit::Done => self.consent.run(server, deed, Chosen::Found(&found)),
            failed => failed,
        }
    }

    /// Client ids of those that are meant; not of those that have not said theirs yet. Only the names of a page are kept.
    async fn find(&self, client: &Client) -> Result<Vec<String>, ClientError> {
        let listing = Listing {
            path: "/api/v1/clients",
            columns: &[],
            own: Vec::new(),
        };
        let mut names = Vec::new();
        let mut cursor = None;
        loop {
            let page = ListFlags::page(&self.filter, cursor);
            let (rows, next) = page.rows(client, &listing).await?;
            let found = rows.iter().filter_map(|row| row["client_id"].as_str());
            names.extend(found.filter(|name| !name.is_empty()).map(str::to_owned));
            if next.is_none() {
                return Ok(names);
            }
            cursor = next;
        }
    }
}
