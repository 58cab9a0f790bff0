//! Verbs that take something away or write over it: they ask at a terminal, and want `--yes` elsewhere.

use std::io::{self, BufRead, IsTerminal};

use clap::Args;

use super::exit::{Exit, usage};
use super::plain::plain;

/// Whether it is meant.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Sure {
    /// Do not ask
    #[arg(short = 'y', long)]
    yes: bool,
}

impl Sure {
    /// Whether it was said, so that nothing is asked.
    pub(crate) const fn is_said(self) -> bool {
        self.yes
    }

    /// Asks whether to do `what`, unless that was said.
    ///
    /// # Errors
    /// How the command ends when the answer is no, or nobody can be asked.
    pub(crate) fn ask(self, what: &str) -> Result<(), Exit> {
        self.ask_or(what, "")
    }

    /// The same with what else may be said.
    ///
    /// # Errors
    /// As of `ask`.
    pub(crate) fn ask_or(self, what: &str, other: &str) -> Result<(), Exit> {
        if self.yes || confirm(what) {
            return Ok(());
        }
        Err(usage(&format!(
            "nothing was done: say --yes to {}{other}",
            plain(what)
        )))
    }
}

/// Asks the person at the terminal; where there is none, the answer is no.
fn confirm(question: &str) -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    eprint!("{}? [y/N] ", plain(question));
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).is_ok() && matches!(line.trim(), "y" | "yes")
}
