//! `courser role`.

use clap::{Args, Subcommand, ValueEnum};
use courser_admin::client::{Verb, escaped};
use serde_json::json;

use super::limits::{self, Above, Limit};
use super::{Change, changed, send, show};
use crate::cli::exit::Exit;
use crate::operate::list::{ListFlags, Listing};
use crate::operate::print::OutputFlags;
use crate::operate::server::ServerFlags;
use crate::operate::targets::{Act, Consent, Deed, Targets};

/// What users may do, by role
#[derive(Args, Debug)]
pub(crate) struct Roles {
    #[command(flatten)]
    server: ServerFlags,
    #[command(subcommand)]
    verb: RoleVerb,
}

/// What a role may do with the interface of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Administration {
    /// Nothing
    None,
    /// Look at everything
    Read,
    /// Change everything
    Full,
}

impl Administration {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Full => "full",
        }
    }
}

#[derive(Subcommand, Debug)]
enum RoleVerb {
    /// Roles
    List(ListFlags),
    /// A role with its rules
    Show {
        /// Name of the role
        name: String,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Make a role; courser acl grant gives it rules
    Add {
        /// Name of the role: letters, digits, "." "-" and "_"
        name: String,
        /// What it may do with the interface of operators
        #[arg(long, value_enum, default_value = "none")]
        administration: Administration,
        /// A limit of everybody who has it, as messages_per_second=100; as often as wanted
        #[arg(long = "quota", value_name = "NAME=NUMBER", value_parser = limits::limit)]
        quotas: Vec<Limit>,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Change administration and limits: the former, and less of what may wait, is asked about
    Set {
        /// Name of the role
        name: String,
        #[command(flatten)]
        change: RoleChange,
        #[command(flatten)]
        consent: Consent,
    },
    /// Remove roles that no user has
    Remove(Targets),
}

/// What becomes of a role.
#[derive(Args, Debug)]
struct RoleChange {
    /// What it may do with the interface of operators
    #[arg(long, value_enum)]
    administration: Option<Administration>,
    /// A limit of everybody who has it, or =none to take it away; as often as wanted
    #[arg(long = "quota", value_name = "NAME=NUMBER", value_parser = limits::limit)]
    quotas: Vec<Limit>,
}

impl RoleChange {
    /// Makes it, if that is meant. Less administration can lock operators out, more lets others in: both are asked about.
    fn run(&self, server: &ServerFlags, name: &str, consent: &Consent) -> Exit {
        let administration = self.administration.map(Administration::name);
        let change = Change {
            kind: "role",
            name,
            path: &path(name),
            takes: administration.map(|it| format!("set administration of role {name} to {it}")),
            quotas: &self.quotas,
            above: Above::Others,
            body: json!({
                "administration": administration,
                "limits": limits::as_json(&self.quotas),
            }),
        };
        change.run(server, consent)
    }
}

pub(super) const PATH: &str = "/api/v1/roles";

pub(super) fn path(name: &str) -> String {
    format!("{PATH}/{}", escaped(name))
}

/// Runs `courser role`.
pub(crate) fn run(arguments: &Roles) -> Exit {
    let server = &arguments.server;
    match (act(arguments), &arguments.verb) {
        (exit, RoleVerb::List(_) | RoleVerb::Show { .. }) => exit,
        (exit, _) => changed(server, exit),
    }
}

fn act(arguments: &Roles) -> Exit {
    let server = &arguments.server;
    match &arguments.verb {
        RoleVerb::List(list) => list.run(
            server,
            &Listing {
                path: PATH,
                columns: &["name", "administration", "rules", "limits"],
                own: Vec::new(),
            },
        ),
        RoleVerb::Show { name, output } => show(server, &path(name), output),
        RoleVerb::Add {
            name,
            administration,
            quotas,
            output,
        } => {
            let role = json!({"name": name, "administration": administration.name(), "limits": limits::as_json(quotas)});
            send(server, Verb::Post, PATH, &role, output)
        }
        RoleVerb::Set {
            name,
            change,
            consent,
        } => change.run(server, name, consent),
        RoleVerb::Remove(targets) => targets.run(
            server,
            &Deed {
                path: PATH,
                act: Act::Delete,
                what: "remove the role",
            },
        ),
    }
}
