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
use super::targets::{Consent, Meant, dry_run, is_unchanged};
use crate::cli::exit::Exit;

/// Sends a change and says what was done.
fn send(server: &ServerFlags, verb: Verb, path: &str, body: &Value, output: &OutputFlags) -> Exit {
    server.ask(async |client| {
        let done = client.send(verb, path, body).await?;
        output.output().deeds(&[done])?;
        Ok(Exit::Done)
    })
}

/// Says what a change would do to what a name stands for, in these words. The server is asked, which refuses then what it would refuse.
fn say_would(
    server: &ServerFlags,
    (verb, path, body): (Verb, &str, &Value),
    (deed, name): (&str, &str),
    consent: &Consent,
) -> Exit {
    server.ask(async |client| {
        let asked = client.send(verb, &dry_run(path), body).await?;
        let done = match is_unchanged(&asked) {
            true => Vec::new(),
            false => vec![deed.to_owned()],
        };
        consent.would(&done, name)?;
        Ok(Exit::Done)
    })
}

/// What an answer to such a question says would be another, in words.
fn differences(asked: &Value) -> Vec<String> {
    let (before, after) = (&asked["before"], &asked["after"]);
    let administration = match (&before["administration"], &after["administration"]) {
        (Value::String(before), Value::String(after)) if before != after => {
            Some(format!("set administration from {before} to {after} of"))
        }
        _ => None,
    };
    let added = only_in(&after["roles"], &before["roles"]);
    let added = added.map(|role| format!("give {role} to"));
    let removed = only_in(&before["roles"], &after["roles"]);
    let removed = removed.map(|role| format!("take {role} from"));
    let limits = limits::differences(&before["limits"], &after["limits"]);
    let all = administration.into_iter().chain(added).chain(removed);
    all.chain(limits).collect()
}

/// Texts of a list that another one has not.
fn only_in<'l>(list: &'l Value, other: &'l Value) -> impl Iterator<Item = &'l str> {
    let all = |list: &'l Value| list.as_array().map_or(&[][..], Vec::as_slice).iter();
    let not_there = move |it: &&Value| !all(other).any(|other| other == *it);
    all(list).filter(not_there).filter_map(Value::as_str)
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
    /// Makes it, if that is meant. The server says what would be another, and refuses before anybody is asked what it would refuse.
    fn run(&self, server: &ServerFlags, consent: &Consent) -> Exit {
        server.ask(async |client| {
            let asked = match consent.wants_to_know() && self.depends_on_now(consent) {
                true => {
                    let path = dry_run(self.path);
                    client.send(Verb::Patch, &path, &self.body).await?
                }
                false => Value::Null,
            };
            let now = &asked["before"]["limits"];
            let lowered = limits::lowered(self.quotas, now, self.above);
            match consent
                .ask_meanwhile(self.question(lowered.as_deref()))
                .await?
            {
                Meant::Do => {
                    let done = client.send(Verb::Patch, self.path, &self.body).await?;
                    consent.output().output().deeds(&[done])?;
                }
                Meant::OnlySay => {
                    let mut done = differences(&asked);
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
