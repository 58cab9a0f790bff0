//! `courser client redirect`: clients are sent to another server while they are connected.

use clap::Args;

use super::among::Among;
use super::server::ServerFlags;
use super::targets::{Act, Deed};
use crate::cli::exit::Exit;

/// Flags of `courser client redirect`.
#[derive(Args, Debug)]
pub(super) struct Redirection {
    #[command(flatten)]
    among: Among,
    /// Where to; given again, another one to try
    #[arg(long, value_name = "HOST[:PORT]", required = true)]
    to: Vec<String>,
    /// For good (0x9D) rather than for now (0x9C)
    #[arg(long)]
    permanent: bool,
}

impl Redirection {
    /// Runs the command.
    pub(super) fn run(&self, server: &ServerFlags) -> Exit {
        let deed = Deed {
            path: "/api/v1/clients",
            act: Act::Redirect {
                to: self.to.join(" "),
                permanent: self.permanent,
            },
            field: "client",
            what: "send away",
        };
        self.among.run(server, &deed)
    }
}
