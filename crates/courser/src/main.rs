//! The `courser` binary: one command a module, nothing of the broker itself.
#![forbid(unsafe_code)]
// Comments of flags are their help text, in which brackets are brackets.
#![allow(rustdoc::broken_intra_doc_links)]
#![allow(
    clippy::print_stderr,
    reason = "errors of a command go to standard error"
)]

/// That of the standard library panics when nobody reads standard error any more, and a command would end with 101 instead of its own code.
macro_rules! eprintln {
    ($($text:tt)*) => {{
        // Whoever does not read what went wrong still gets the code for it.
        let _ = std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("{}\n", format_args!($($text)*)),
        );
    }};
}

mod backup;
mod bench;
mod cli;
mod config;
mod init;
mod inspect;
mod logging;
mod operate;
mod operators;
mod preflight;
mod probe;
mod publish;
mod reload;
mod repair;
mod request;
mod server;
mod subscribe;
#[cfg(test)]
mod tests;
mod tls;
mod version;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use courser_memory::Counting;
use tikv_jemallocator::Jemalloc;

/// Counted, so that "allocations per message" and the heap under `$SYS` are measured figures (`docs/adr/0003-runtime.md`).
#[global_allocator]
static ALLOCATOR: Counting<Jemalloc> = Counting::new(Jemalloc);

/// Message broker for the clients you already have
#[derive(Parser, Debug)]
#[command(name = "courser", version, arg_required_else_help = true)]
struct Courser {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run the broker
    Server(server::Server),
    /// Write a configuration file to begin with
    Init(init::Init),
    /// Check, print and compare settings
    Config(Box<config::Config>),
    /// Send messages
    Pub(Box<publish::Publish>),
    /// Print messages as they come
    Sub(Box<subscribe::Subscribe>),
    /// Send a message and print the answer
    Request(Box<request::Request>),
    /// Show what a broker allows, whichever it is
    Probe(Box<probe::Probe>),
    /// Measure and check a broker under load
    Bench(Box<bench::Bench>),
    /// Where clients come in: list
    Listener(operate::Listeners),
    /// Connections: list, show, kick, redirect, trace
    Client(operate::Clients),
    /// Sessions: list, show, delete
    Session(operate::Sessions),
    /// Subscriptions: list
    Subscription(operate::Subscriptions),
    /// Retained messages: list, show, delete
    Retained(operate::RetainedMessages),
    /// Who may come in: list, show, add, set, set-password, enable, disable, remove, import
    User(operate::Users),
    /// What users may do, by role: list, show, add, set, remove
    Role(operate::Roles),
    /// Limits of everybody: list, show, set
    Domain(operate::Domains),
    /// Rules of roles: list, grant, revoke, and test which of them decides
    Acl(operate::Acl),
    /// All users and roles at once: export, import
    Access(operate::Access),
    /// Certificates of one's own: new-ca, new-cert, show
    Tls(tls::Tls),
    /// What the server holds and how much goes through it
    Top(operate::Top),
    /// Comings and goings of clients, as they happen
    Events(operate::EventsArguments),
    /// What the number of an error means, and what to do about it
    Errors(operate::Errors),
    /// What somebody who helps needs to see, in one file
    Diagnose(operate::Diagnose),
    /// Names for servers
    Context(operate::Context),
    /// A script that completes commands and flags in a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Look into files of the log, offline
    Inspect(inspect::Inspect),
    /// Say what is damaged in a data folder, and go on without it
    Repair(repair::Repair),
    /// Copies of the data: create, status, stop, verify, prune
    Backup(backup::Backup),
    /// Make a data folder of a backup
    Restore(backup::Restore),
    /// Which program this is, and what it speaks and writes
    Version(version::Version),
}

fn main() -> ExitCode {
    let arguments = match cli::letters::expand(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(message) => return cli::exit::usage(&message).into(),
    };
    match Courser::parse_from(arguments).command {
        Command::Server(arguments) => server::run(&arguments).into(),
        Command::Init(arguments) => init::run(&arguments).into(),
        Command::Config(arguments) => config::run(&arguments).into(),
        Command::Pub(arguments) => publish::run(&arguments).into(),
        Command::Sub(arguments) => subscribe::run(&arguments).into(),
        Command::Request(arguments) => request::run(&arguments).into(),
        Command::Probe(arguments) => probe::run(&arguments).into(),
        Command::Bench(arguments) => bench::run(&arguments).into(),
        Command::Listener(arguments) => operate::run_listeners(&arguments).into(),
        Command::Client(arguments) => operate::run_clients(&arguments).into(),
        Command::Session(arguments) => operate::run_sessions(&arguments).into(),
        Command::Subscription(arguments) => operate::run_subscriptions(&arguments).into(),
        Command::Retained(arguments) => operate::run_retained(&arguments).into(),
        Command::User(arguments) => operate::run_users(&arguments).into(),
        Command::Role(arguments) => operate::run_roles(&arguments).into(),
        Command::Domain(arguments) => operate::run_domains(&arguments).into(),
        Command::Acl(arguments) => operate::run_acl(&arguments).into(),
        Command::Access(arguments) => operate::run_access(&arguments).into(),
        Command::Tls(arguments) => tls::run(&arguments).into(),
        Command::Top(arguments) => operate::run_top(&arguments).into(),
        Command::Events(arguments) => operate::run_events(&arguments).into(),
        Command::Errors(arguments) => operate::run_errors(&arguments).into(),
        Command::Diagnose(arguments) => operate::run_diagnose(&arguments).into(),
        Command::Context(arguments) => operate::run_context(&arguments).into(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Courser::command(), "courser", &mut script);
            cli::exit::Exit::from(cli::write(&script).map(|_| ())).into()
        }
        Command::Inspect(arguments) => inspect::run(&arguments).into(),
        Command::Repair(arguments) => repair::run(&arguments).into(),
        Command::Backup(arguments) => backup::run(&arguments).into(),
        Command::Restore(arguments) => backup::run_restore(&arguments).into(),
        Command::Version(arguments) => version::run(&arguments).into(),
    }
}
