//! `courser init`: writes a configuration file to begin with.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use courser_settings::template;

use crate::cli::exit::Exit;
use crate::cli::print;

/// Flags of `courser init`.
#[derive(Args, Debug)]
pub(crate) struct Init {
    /// File to write; one that is there is left as it is
    #[arg(default_value = "courser.toml", value_name = "FILE")]
    file: PathBuf,
    /// Every setting as a comment with its default, its range and what it is for, instead of the few that people change
    #[arg(long)]
    full: bool,
}

/// What most people change; the rest has defaults.
const SHORT: &str = "# Settings of Courser. Every setting has a default: this file may be empty.
# All of them with what they are for: `courser init --full`. Check this file: `courser config check --config FILE`.

[data]
# Folder of all files that the broker writes.
# path = \"data\"

[mqtt]
# Addresses that accept MQTT over TCP. Without accounts only this machine may be let in.
# listen = [\"127.0.0.1:1883\", \"[::1]:1883\"]
# Largest packet that a client may send.
# packet_bytes_max = \"1MiB\"

[session]
# Messages that may wait for one absent client.
# queue_messages_max = 100000
";

/// Writes the file, 0600, and says how to go on.
pub(crate) fn run(arguments: &Init) -> Exit {
    let text = if arguments.full {
        template()
    } else {
        SHORT.to_owned()
    };
    let file = &arguments.file;
    match write(file, &text) {
        Ok(()) => print(&format!(
            "wrote {path}\nstart the broker: courser server --config {path}\n",
            path = file.display()
        )),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            eprintln!(
                "courser: {} is there already and is left as it is; name another file",
                file.display()
            );
            Exit::Conflict
        }
        Err(error) => {
            eprintln!("courser: cannot write {}: {error}", file.display());
            Exit::Refused
        }
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::SHORT;
    use courser_settings::{Settings, Sources};

    /// Both as it is and with every key in force it says the defaults.
    #[test]
    fn the_short_file_says_the_defaults() {
        let uncommented: Vec<&str> = SHORT
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.contains(" = ") => rest,
                Some(_) | None => line,
            })
            .collect();
        for text in [SHORT, &uncommented.join("\n")] {
            let read = Sources::new().file("courser.toml", text).check();
            assert_eq!(read, Ok(Settings::default()));
        }
    }
}
