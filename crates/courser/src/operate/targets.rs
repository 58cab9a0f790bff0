//! Verbs that take something away: they ask at a terminal, want `--yes` elsewhere, and say with `--dry-run` what they would do.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use courser_admin::client::{Client, ClientError, Verb, escaped};
use serde_json::{Value, json};

use super::print::{Output, OutputFlags, say};
use super::server::ServerFlags;
use crate::cli::exit::Exit;
use crate::cli::sure::Sure;

/// What a destructive verb is for.
#[derive(Args, Debug)]
pub(super) struct Targets {
    /// Names: client ids, topics, users or roles
    #[arg(required = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    names: Vec<String>,
    #[command(flatten)]
    consent: Consent,
}

/// Whether it is meant.
#[derive(Args, Debug)]
pub(super) struct Consent {
    #[command(flatten)]
    sure: Sure,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputFlags,
}

/// What the operator has said to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// Yes.
    Do,
    /// `--dry-run`.
    OnlySay,
}

/// How it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// It goes.
    Delete,
    /// It is a user, who stays and may not come in.
    Disable,
    /// It is a client, who is told another server.
    Redirect {
        /// Server Reference.
        to: String,
        /// Whether it should stay there.
        permanent: bool,
    },
}

/// Which ones.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chosen<'n> {
    /// The operator has said their names: one that is not there is an error.
    Named(&'n [String]),
    /// They were found on the server: one that has gone since is left out.
    Found(&'n [String]),
}

/// Something that is done to what a name stands for.
pub(super) struct Deed {
    pub(super) path: &'static str,
    pub(super) act: Act,
    pub(super) what: &'static str,
}

impl Targets {
    pub(super) fn run(&self, server: &ServerFlags, deed: &Deed) -> Exit {
        self.consent.run(server, deed, Chosen::Named(&self.names))
    }
}

impl Consent {
    /// Whether to do it, or to say what would be done.
    ///
    /// # Errors
    /// How the command ends when it is not meant.
    pub(super) fn ask(&self, what: &str) -> Result<Meant, Exit> {
        if self.dry_run {
            return Ok(Meant::OnlySay);
        }
        self.sure.ask(what).map(|()| Meant::Do)
    }

    /// How it is said.
    pub(super) const fn output(&self) -> &OutputFlags {
        &self.output
    }

    /// The same of a change that may take nothing away: then there is no question.
    ///
    /// # Errors
    /// As of [`ask`](Self::ask).
    pub(super) fn ask_if(&self, takes: Option<&str>) -> Result<Meant, Exit> {
        match takes {
            Some(what) => self.ask(what),
            None if self.dry_run => Ok(Meant::OnlySay),
            None => Ok(Meant::Do),
        }
    }

    /// The same between questions to the server: whoever does not answer can end the command by Ctrl-C then too.
    ///
    /// # Errors
    /// As of [`ask`](Self::ask).
    pub(super) async fn ask_meanwhile(&self, takes: Option<String>) -> Result<Meant, Exit> {
        let Some(what) = takes.filter(|_| !self.dry_run) else {
            return self.ask_if(None);
        };
        let sure = self.sure;
        let asked = tokio::task::spawn_blocking(move || sure.ask(&what)).await;
        asked.unwrap_or(Err(Exit::Internal)).map(|()| Meant::Do)
    }

    /// Whether it only says what would be done.
    pub(super) const fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Whether there will be a question or an answer that says what is there now.
    pub(super) const fn wants_to_know(&self) -> bool {
        self.dry_run || !self.sure.is_said()
    }

    /// Says all that would be done to what a name stands for; that may be nothing.
    ///
    /// # Errors
    /// How the command ends when not all can be written.
    pub(super) fn would(&self, done: &[String], name: &str) -> Result<(), Exit> {
        let mut rows: Vec<Value> = done.iter().map(|done| would(done, name)).collect();
        if rows.is_empty() {
            rows.push(would_not(name));
        }
        self.say(&rows)
    }

    /// Does it to each, if it is meant.
    pub(super) fn run(&self, server: &ServerFlags, deed: &Deed, chosen: Chosen<'_>) -> Exit {
        let what = format!("{} {}", deed.what, chosen.list());
        let meant = match self.ask(&what) {
            Ok(meant) => meant,
            Err(exit) => return exit,
        };
        server.ask(async |client| {
            let mut done = Vec::new();
            for name in chosen.names() {
                match one(&client, deed, name, meant).await {
                    Ok(what) => done.push(what),
                    Err(error) if chosen.may_miss(&error) => {}
                    Err(error) => {
                        // What was done is said also where it cannot go on.
                        if !done.is_empty() {
                            self.say(&done)?;
                        }
                        return Err(error.into());
                    }
                }
            }
            self.say(&done)?;
            Ok(Exit::Done)
        })
    }

    /// Says that it is for nobody, so that there is nothing to ask about.
    pub(super) fn for_nobody(&self) -> Exit {
        let said = match self.output.output() {
            Output::Table => say("0 clients\n"),
            Output::Json | Output::Jsonl => self.say(&[]),
        };
        said.into()
    }

    fn say(&self, done: &[Value]) -> Result<(), Exit> {
        self.output.output().deeds(done)
    }
}

/// The server decides what is only asked about too, so that it refuses then what it would refuse.
async fn one(client: &Client, deed: &Deed, name: &str, meant: Meant) -> Result<Value, ClientError> {
    let path = format!("{}/{}", deed.path, escaped(name));
    let path = match &deed.act {
        Act::Delete | Act::Disable => path,
        Act::Redirect { .. } => path + "/redirect",
    };
    let path = match meant {
        Meant::Do => path,
        Meant::OnlySay => dry_run(&path),
    };
    let done = match &deed.act {
        Act::Delete => client.delete(&path).await,
        Act::Disable => {
            let change = json!({"state": "disabled"});
            client.send(Verb::Patch, &path, &change).await
        }
        Act::Redirect { to, permanent } => {
            let elsewhere = json!({"to": to, "permanent": permanent});
            client.send(Verb::Post, &path, &elsewhere).await
        }
    }?;
    Ok(match meant {
        Meant::Do => done,
        Meant::OnlySay if is_unchanged(&done) => would_not(name),
        Meant::OnlySay => would(deed.what, name),
    })
}

/// The same place, of which it is only asked what would be done there.
pub(super) fn dry_run(path: &str) -> String {
    format!("{path}?dry_run=true")
}

/// Whether an answer says that there is nothing to do.
pub(super) fn is_unchanged(done: &Value) -> bool {
    done["done"] == "unchanged"
}

/// A row of the answer.
fn would(done: &str, name: &str) -> Value {
    json!({"done": format!("would {done}"), "what": name})
}

/// The row of what stays as it is.
fn would_not(name: &str) -> Value {
    json!({"done": "nothing to do for", "what": name})
}

impl<'n> Chosen<'n> {
    const fn names(self) -> &'n [String] {
        match self {
            Self::Named(names) | Self::Found(names) => names,
        }
    }

    fn may_miss(self, error: &ClientError) -> bool {
        matches!(self, Self::Found(_)) && matches!(error, ClientError::Refused { status: 404, .. })
    }

    fn list(self) -> String {
        match self {
            Self::Named(names) => names.join(", "),
            Self::Found(names) => format!("what was found: {}", names.len()),
        }
    }
}
