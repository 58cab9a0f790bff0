//! `courser client redirect`: clients are sent to another server while they are connected.

use clap::Args;
use courser_broker::{Redirect, RedirectKind};

use super::among::Among;
use super::server::ServerFlags;
use super::targets::{Act, Deed};
use crate::cli::exit::{Exit, usage};

/// Flags of `courser client redirect`.
#[derive(Args, Debug)]
pub(super) struct Redirection {
    #[command(flatten)]
    among: Among,
    /// Where to; given again, another one to try
    #[arg(long, value_name = "HOST[:PORT]", required = true, value_parser = place)]
    to: Vec<String>,
    /// For good (0x9D) rather than for now (0x9C)
    #[arg(long)]
    permanent: bool,
}

/// One server, as the broker takes it: whoever is asked with `--dry-run` is told the same as without.
fn place(text: &str) -> Result<String, String> {
    if text.contains(' ') {
        return Err("one server: say --to again for another one".to_owned());
    }
    let checked = Redirect::new(RedirectKind::Temporary, text);
    checked
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}

impl Redirection {
    /// Runs the command.
    pub(super) fn run(&self, server: &ServerFlags) -> Exit {
        let all = self.to.join(" ");
        if let Err(error) = Redirect::new(RedirectKind::Temporary, &all) {
            return usage(&format!("--to: {error}"));
        }
        let deed = Deed {
            path: "/api/v1/clients",
            act: Act::Redirect {
                to: all,
                permanent: self.permanent,
            },
            what: "send away",
        };
        self.among.run(server, &deed)
    }
}
