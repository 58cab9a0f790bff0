//! The `courser` binary: one command a module, nothing of the broker itself.
#![forbid(unsafe_code)]
// Comments of flags are their help text, in which brackets are brackets.
#![allow(rustdoc::broken_intra_doc_links)]
#![allow(
    clippy::print_stderr,
    reason = "errors of a command go to standard error"
)]

mod bench;
mod cli;
mod config;
mod init;
mod inspect;
mod operators;
mod publish;
mod reload;
mod repair;
mod server;
mod subscribe;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
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
    /// Measure and check a broker under load
    Bench(Box<bench::Bench>),
    /// Look into files of the log, offline
    Inspect(inspect::Inspect),
    /// Say what is damaged in a data folder, and go on without it
    Repair(repair::Repair),
}

fn main() -> ExitCode {
    match Courser::parse().command {
        Command::Server(arguments) => server::run(&arguments).into(),
        Command::Init(arguments) => init::run(&arguments).into(),
        Command::Config(arguments) => config::run(&arguments).into(),
        Command::Pub(arguments) => publish::run(&arguments).into(),
        Command::Sub(arguments) => subscribe::run(&arguments).into(),
        Command::Bench(arguments) => bench::run(&arguments).into(),
        Command::Inspect(arguments) => inspect::run(&arguments).into(),
        Command::Repair(arguments) => repair::run(&arguments).into(),
    }
}
