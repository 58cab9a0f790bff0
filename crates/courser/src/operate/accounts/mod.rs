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

use courser_admin::client::Verb;
use serde_json::Value;

use super::print::OutputFlags;
use super::server::ServerFlags;
use super::targets::Consent;
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

/// Shows one thing.
fn show(server: &ServerFlags, path: &str, output: &OutputFlags) -> Exit {
    server.ask(async |client| {
        let found = client.get(path, &[]).await?;
        output.output().value(&found)?;
        Ok(Exit::Done)
    })
}
