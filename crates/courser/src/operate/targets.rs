//! Verbs that take something away: they ask at a terminal, want `--yes` elsewhere, and say with `--dry-run` what they would do.

use clap::Args;
use courser_admin::client::{Client, ClientError, Verb, escaped};
use serde_json::{Value, json};

use super::print::{OutputFlags, plain};
use super::server::ServerFlags;
use crate::cli::confirm;
use crate::cli::exit::{Exit, usage};

/// What a destructive verb is for.
#[derive(Args, Debug)]
pub(super) struct Targets {
    /// Names: client ids, topics, users or roles
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Do not ask
    #[arg(short = 'y', long)]
    yes: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputFlags,
}

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// It goes.
    Delete,
    /// It is a user, who stays and may not come in.
    Disable,
}

/// Something that is done to what a name stands for.
pub(super) struct Deed {
    pub(super) path: &'static str,
    pub(super) act: Act,
    /// Where the answer of GET says whether it is there; empty: it is, if there is an answer.
    pub(super) field: &'static str,
    pub(super) what: &'static str,
}

impl Targets {
    pub(super) fn run(&self, server: &ServerFlags, deed: &Deed) -> Exit {
        if !self.dry_run && !self.yes && !confirm(&format!("{} {}", deed.what, self.list())) {
            return usage(&format!(
                "nothing was done: say --yes to {} {}",
                deed.what,
                self.list()
            ));
        }
        server.ask(async |client| {
            let mut done = Vec::new();
            for name in &self.names {
                match self.one(&client, deed, name).await {
                    Ok(what) => done.push(what),
                    Err(error) => {
                        self.say(&done);
                        return Err(error);
                    }
                }
            }
            self.say(&done);
            Ok(Exit::Done)
        })
    }

    async fn one(&self, client: &Client, deed: &Deed, name: &str) -> Result<Value, ClientError> {
        let path = format!("{}/{}", deed.path, escaped(name));
        match (self.dry_run, deed.act) {
            (true, _) => {}
            (false, Act::Delete) => return client.delete(&path).await,
            (false, Act::Disable) => {
                let change = json!({"state": "disabled"});
                return client.send(Verb::Patch, &path, &change).await;
            }
        }
        let found = client.get(&path, &[]).await?;
        let there = deed.field.is_empty() || !found[deed.field].is_null();
        let would = if there {
            deed.what
        } else {
            "nothing to do for"
        };
        Ok(json!({"done": format!("would {would}"), "what": name}))
    }

    fn say(&self, done: &[Value]) {
        if !done.is_empty() {
            self.output.output().rows(done, &["done", "what"]);
        }
    }

    fn list(&self) -> String {
        self.names
            .iter()
            .map(|name| plain(name))
            .collect::<Vec<_>>()
            .join(", ")
    }
}
