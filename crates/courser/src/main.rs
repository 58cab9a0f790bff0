//! The `courser` binary: one command a module, nothing of the broker itself.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stderr,
    reason = "errors of a command go to standard error"
)]

mod bench;
mod cli;
mod publish;
mod subscribe;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Message broker for the clients you already have
#[derive(Parser, Debug)]
#[command(name = "courser", version, arg_required_else_help = true)]
struct Courser {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Send messages
    Pub(Box<publish::Publish>),
    /// Print messages as they come
    Sub(Box<subscribe::Subscribe>),
    /// Measure and check a broker under load
    Bench(Box<bench::Bench>),
}

fn main() -> ExitCode {
    match Courser::parse().command {
        Command::Pub(arguments) => publish::run(&arguments).into(),
        Command::Sub(arguments) => subscribe::run(&arguments).into(),
        Command::Bench(arguments) => bench::run(&arguments).into(),
    }
}
