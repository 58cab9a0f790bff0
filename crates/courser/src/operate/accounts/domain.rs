//! `courser domain`.

use clap::{Args, Subcommand};
use courser_admin::client::{Verb, escaped};
use serde_json::json;

use super::limits::{self, Limit};
use super::{send, show};
use crate::cli::exit::Exit;
use crate::operate::list::{ListFlags, Listing};
use crate::operate::print::OutputFlags;
use crate::operate::server::ServerFlags;

/// What lives together, with limits of its own: MQTT is in the domain default
#[derive(Args, Debug)]
pub(crate) struct Domains {
    #[command(flatten)]
    server: ServerFlags,
    #[command(subcommand)]
    verb: DomainVerb,
}

#[derive(Subcommand, Debug)]
enum DomainVerb {
    /// Domains
    List(ListFlags),
    /// A domain with its limits
    Show {
        /// Name of the domain
        name: String,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Change limits
    Set {
        /// Name of the domain
        name: String,
        /// A limit of everybody for whom neither user nor roles say something else, or of what all have retained (retained_messages, retained_bytes); =none takes it away; as often as wanted
        #[arg(long = "quota", value_name = "NAME=NUMBER", value_parser = limits::limit, required = true)]
        quotas: Vec<Limit>,
        #[command(flatten)]
        output: OutputFlags,
    },
}

const PATH: &str = "/api/v1/domains";

/// Runs `courser domain`.
pub(crate) fn run(arguments: &Domains) -> Exit {
    let server = &arguments.server;
    let path = |name: &str| format!("{PATH}/{}", escaped(name));
    match &arguments.verb {
        DomainVerb::List(list) => list.run(
            server,
            &Listing {
                path: PATH,
                columns: &["name", "limits"],
                own: Vec::new(),
            },
        ),
        DomainVerb::Show { name, output } => show(server, &path(name), output),
        DomainVerb::Set {
            name,
            quotas,
            output,
        } => {
            let change = json!({"limits": limits::as_json(quotas)});
            send(server, Verb::Patch, &path(name), &change, output)
        }
    }
}
