//! `user`, `role`, `domain`, `acl`, `access`: who may come in, and what they may do.

mod acl;
mod domain;
mod limits;
mod role;
mod secret;
mod transfer;
mod user;

pub(crate) use acl::{Acl, run as run_acl};
pub(crate) use domain::{Domains, run as run_domains};
pub(crate) use role::{Roles, run as run_roles};
pub(crate) use transfer::{Access, run as run_access};
pub(crate) use user::{Users, run as run_users};

use courser_admin::client::{Client, Verb};
use serde_json::Value;

use self::limits::{Above, Limit};
use super::print::OutputFlags;
use super::server::ServerFlags;
use super::targets::{Consent, Meant};
use crate::cli::exit::Exit;

/// Sends a change and says what was done.
fn send(server: &ServerFlags, verb: Verb, path: &str, body: &Value, output: &OutputFlags) -> Exit {
    server.ask(async |client| {
        let done = client.send(verb, path, body).await?;
        output.output().deeds(&[done])?;
        Ok(Exit::Done)
    })
}

/// Says what a change would make of what a name stands for, as that is now.
fn say_would(
    server: &ServerFlags,
    (name, path): (&str, &str),
    consent: &Consent,
    would: impl FnOnce(&Value) -> Vec<String>,
) -> Exit {
    server.ask(async |client| {
        let now = client.get(path, &[]).await?;
        consent.would(&would(&now), name)?;
        Ok(Exit::Done)
    })
}

/// A change of somebody who has limits. What it takes away is asked about.
struct Change<'c> {
    /// Of what: user, role or domain.
    kind: &'static str,
    name: &'c str,
    path: &'c str,
    /// What it takes away whatever is there now, as a question.
    takes: Option<String>,
    /// Limits that it changes. Of what may wait, less is asked about.
    quotas: &'c [Limit],
    /// What counts where a limit is taken away.
    above: Above,
    /// As the API takes it.
    body: Value,
}

impl Change<'_> {
    /// Makes it, if that is meant; `would` says what would be another of what is like this now.
    fn run(
        &self,
        server: &ServerFlags,
        consent: &Consent,
        would: impl FnOnce(&Value) -> Vec<String>,
    ) -> Exit {
        server.ask(async |client| {
            let now = match consent.wants_to_know() && self.depends_on_now(consent) {
                true => client.get(self.path, &[]).await?,
                false => Value::Null,
            };
            let lowered = limits::lowered(self.quotas, &now["limits"], self.above);
            match consent
                .ask_meanwhile(self.question(lowered.as_deref()))
                .await?
            {
                Meant::Do => {
                    let done = client.send(Verb::Patch, self.path, &self.body).await?;
                    consent.output().output().deeds(&[done])?;
                }
                Meant::OnlySay => {
                    let mut done = would(&now);
                    done.extend(lowered.map(|_| "drop what waits beyond the limits of".to_owned()));
                    consent.would(&done, self.name)?;
                }
            }
            Ok(Exit::Done)
        })
    }

    /// Whether what it takes away is known only by what is there.
    fn depends_on_now(&self, consent: &Consent) -> bool {
        consent.is_dry_run() || limits::may_drop(self.quotas)
    }

    /// All that is asked about; none: it takes nothing away.
    fn question(&self, lowered: Option<&str>) -> Option<String> {
        let lowered = lowered.map(|lowered| {
            format!(
                "set {lowered} for {} {} and drop what waits beyond that",
                self.kind, self.name
            )
        });
        let all: Vec<_> = self.takes.iter().cloned().chain(lowered).collect();
        (!all.is_empty()).then(|| all.join(" and "))
    }
}

/// Ends a command that changes users, roles or rules.
fn changed(server: &ServerFlags, exit: Exit) -> Exit {
    if exit == Exit::Done {
        note_if_open(server);
    }
    exit
}

/// Says on standard error where users, roles and rules decide nothing.
fn note_if_open(server: &ServerFlags) {
    server.ask(async |client| {
        if is_open(&client).await {
            eprintln!(
                "courser: no listener asks for accounts or tokens: users, roles and rules decide nothing about clients until \
                 mqtt.authentication, or authentication of a [[listener]], is \"accounts\" or \"tokens\""
            );
        }
        Ok(Exit::Done)
    });
}

/// Whether nobody has to log in anywhere. What was done is done: where this is not answered, nothing is said.
async fn is_open(client: &Client) -> bool {
    let every = [("limit", "10000")];
    let asked = client.get("/api/v1/listeners", &every).await;
    let listeners = asked.unwrap_or_default();
    let listeners = listeners["items"].as_array().map_or(&[][..], Vec::as_slice);
    let is_open = |listener: &Value| listener["authentication"] == "none";
    !listeners.is_empty() && listeners.iter().all(is_open)
}

/// Shows one thing.
fn show(server: &ServerFlags, path: &str, output: &OutputFlags) -> Exit {
    server.ask(async |client| {
        let found = client.get(path, &[]).await?;
        output.output().value(&found)?;
        Ok(Exit::Done)
    })
}
