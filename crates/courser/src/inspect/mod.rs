//! `courser inspect`: what is in a file of the data folder, and whether it is damaged: reading alone. What a running server knows of
//! its damage it is asked for.

mod checkpoint;
mod damage;
mod entry;
mod segment;

use std::{
    io::{self, Write},
    path::PathBuf,
};

use clap::{Args, Subcommand};
use courser_broker::with_causes;
use serde_json::Value;

use crate::cli::exit::Exit;
use crate::cli::unwritten;
use crate::repair::Repair;

/// Look into files of the log, and what of a server's data is damaged
///
/// Reads files and changes nothing. Exit code 0: it is whole; 1: something that was durable is damaged, or it is no such
/// file; 2: it cannot be opened; 5: it is not there; 74: it cannot be read.
#[derive(Args, Debug)]
pub(crate) struct Inspect {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// A segment: DATA/log/NNNNNNNNNN.seg
    Segment(Segment),
    /// A checkpoint: DATA/checkpoints/P-INDEX.ckp
    Checkpoint(File),
    /// An entry of a partition, as it stands in the log of a data folder: such as the one that has made the program panic
    Entry(entry::Entry),
    /// What of the data of a running server is damaged, and which sessions and topics that concerns
    Damage(damage::Damage),
    /// A whole data folder that is not served: what is damaged, and which sessions and topics that concerns. Unlike the others it
    /// opens the folder as a start does
    Folder(Folder),
}

/// The file.
#[derive(Args, Debug)]
struct File {
    /// The file
    path: PathBuf,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// A data folder.
#[derive(Args, Debug)]
struct Folder {
    #[command(flatten)]
    file: File,
    /// Name every stream, not the first twenty of a partition
    #[arg(long)]
    all: bool,
}

#[derive(Args, Debug)]
struct Segment {
    #[command(flatten)]
    file: File,
    /// Each record, not each batch alone
    #[arg(long)]
    records: bool,
}

pub(crate) fn run(arguments: &Inspect) -> Exit {
    let stdout = io::stdout().lock();
    let mut out = io::BufWriter::new(stdout);
    let exit = match &arguments.what {
        What::Segment(segment) => segment::run(segment, &mut out),
        What::Checkpoint(file) => checkpoint::run(file, &mut out),
        What::Entry(entry) => entry::run(entry, &mut out),
        What::Damage(damage) => {
            drop(out);
            return damage::run(damage);
        }
        What::Folder(folder) => {
            drop(out);
            let path = folder.file.path.clone();
            let looking = Repair::looking(path, folder.all, folder.file.json);
            return crate::repair::run(&looking);
        }
    };
    match exit.and_then(|exit| out.flush().map(|()| exit)) {
        Ok(exit) => exit,
        // Whoever read what was printed has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => unwritten(&error),
    }
}

/// What is printed of one thing: a line of words, or the fields.
fn print(out: &mut impl Write, json: bool, words: &str, fields: &Value) -> io::Result<()> {
    if json {
        writeln!(out, "{fields}")
    } else {
        writeln!(out, "{words}")
    }
}

/// Says why a file is not looked at.
fn fail(file: &File, exit: Exit, why: &dyn std::error::Error) -> Exit {
    eprintln!("courser: {}: {}", file.path.display(), with_causes(why));
    exit
}

/// "1 entry", "2 entries".
fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
