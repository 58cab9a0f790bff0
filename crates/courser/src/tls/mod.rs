//! `courser tls`: an authority and certificates of one's own, and what stands in a certificate. Offline: no server is asked.

mod files;
mod key;
mod make;
mod show;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::exit::Exit;
use crate::operate::OutputFlags;

/// Certificates: new-ca, new-cert, show
///
/// For a network of one's own: an authority, and with it certificates of servers and clients (ECDSA P-256). A public name is better
/// served by a public authority. Exit code 1: the authority cannot be used; 5: a file is not there; 6: a file is there already.
#[derive(Args, Debug)]
pub(crate) struct Tls {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Make an authority: FOLDER/ca.pem, which clients trust, and FOLDER/ca.key, which stays secret
    NewCa(NewCa),
    /// Make a certificate of the authority: FOLDER/FILE.pem and FOLDER/FILE.key
    NewCert(NewCert),
    /// Say what stands in certificates
    Show(Show),
}

/// Where files are made.
#[derive(Args, Debug)]
struct Making {
    /// Folder of the authority and of what it makes; it is made if it is not there
    #[arg(long, default_value = "tls", value_name = "FOLDER")]
    folder: PathBuf,
}

#[derive(Args, Debug)]
struct NewCa {
    #[command(flatten)]
    making: Making,
    /// What the authority is called in the certificates that it makes
    #[arg(long, default_value = "Courser authority", value_name = "NAME")]
    name: String,
    /// Days until it ends, at 00:00 UTC, and with it all that it has made
    #[arg(long, default_value_t = 3650, value_parser = days(), value_name = "N")]
    days: u32,
}

#[derive(Args, Debug)]
struct NewCert {
    /// Names and addresses by which clients reach the server; with --client the one name of the client
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    making: Making,
    /// For a client: NAME is its common name, which is who it is where `identity` is not set
    #[arg(long)]
    client: bool,
    /// Days until it ends, at 00:00 UTC and at the latest with the authority
    #[arg(long, default_value_t = 397, value_parser = days(), value_name = "N")]
    days: u32,
    /// Name of the files, without .pem and .key; none: the first NAME
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
}

#[derive(Args, Debug)]
struct Show {
    /// Files of certificates, PEM
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
}

/// A hundred years at most, which every date of a certificate can say.
fn days() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=36_500)
}

pub(crate) fn run(arguments: &Tls) -> Exit {
    match &arguments.verb {
        Verb::NewCa(arguments) => make::new_ca(arguments).into(),
        Verb::NewCert(arguments) => make::new_cert(arguments).into(),
        Verb::Show(arguments) => show::run(arguments),
    }
}
