//! `courser domain`.

use clap::{Args, Subcommand};
use courser_admin::client::escaped;
use serde_json::json;

use super::limits::{self, Above, Limit};
use super::{Change, show};
use crate::cli::exit::Exit;
use crate::operate::list::{ListFlags, Listing};
use crate::operate::print::OutputFlags;
use crate::operate::server::ServerFlags;
use crate::operate::targets::Consent;

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
    /// Change limits; less of what may wait is asked about
    Set {
        /// Name of the domain
        name: String,
        /// A limit of everybody for whom neither user nor roles say something else, or of what all have retained (retained_messages, retained_bytes); =none takes it away; as often as wanted
        #[arg(long = "quota", value_name = "NAME=NUMBER", value_parser = limits::limit, required = true)]
        quotas: Vec<Limit>,
        #[command(flatten)]
        consent: Consent,
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
            consent,
        } => {
            let change = Change {
                kind: "domain",
                name,
                path: &path(name),
                takes: None,
                quotas,
                above: Above::Settings,
                body: json!({"limits": limits::as_json(quotas)}),
            };
            change.run(server, consent)
        }
    }
}
