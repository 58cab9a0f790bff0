//! `courser config`: looks at settings, without a server or of one.

use std::path::{Path, PathBuf};

use clap::{Arg, Args, Subcommand, ValueEnum};
use courser_broker::Anonymous;
use courser_settings::{Errors, Resolved, Shown, Sources, schema};
use serde_json::{Map, Value, json};

use crate::cli::exit::{Exit, usage};
use crate::cli::headings;
use crate::cli::print;
use crate::cli::settings::{SettingFlags, fault_json};
use crate::operate::{
    self, OutputFlags, ServerFlags, Side, compare_with_server, say_changes, show_of_server,
};
use crate::preflight::{self, Files};
use crate::reload::{in_force, shown};

/// Flags of `courser config`.
#[derive(Args, Debug)]
pub(crate) struct Config {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Check settings and the files that they name, and print their digest; every error with its place
    Check {
        #[command(flatten)]
        flags: SettingFlags,
        /// Look at no file that the settings name (certificates, keys, tokens): they are those of another machine
        #[arg(long)]
        no_files: bool,
        /// As of `courser server`: anyone who can reach an address may connect
        #[arg(long)]
        insecure_anonymous: bool,
        /// Form of the output; JSON has key, file, line, column and message of each fault
        #[arg(short, long, value_enum, default_value_t, value_name = "FORM", help_heading = headings::OUTPUT)]
        output: Report,
    },
    /// Print every setting with the value that a server would have; with --server or --context, with the one that this server has
    #[command(mut_arg("server", of_flag_alone), mut_arg("context", of_flag_alone))]
    Show {
        #[command(flatten)]
        flags: SettingFlags,
        #[command(flatten)]
        server: ServerFlags,
        /// Say where each value was set
        #[arg(long)]
        origin: bool,
        /// How it is printed
        #[arg(short, long, value_enum, default_value_t = Output::Toml, help_heading = headings::OUTPUT)]
        output: Output,
    },
    /// Have a running server read its settings again: checked whole, then in force without dropping anybody
    Reload(operate::Reload),
    /// Print the JSON schema of the configuration file, for editors
    Schema,
    /// Print what differs from the defaults, or from another file, and when a change to it would apply. With --server or --context: what
    /// that server has; or, beside flags that give settings, what these would change there
    #[command(mut_arg("server", of_flag_alone), mut_arg("context", of_flag_alone))]
    Diff {
        #[command(flatten)]
        flags: SettingFlags,
        #[command(flatten)]
        server: ServerFlags,
        /// The file to compare with [default: no file, so the defaults]
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        #[command(flatten)]
        output: OutputFlags,
    },
}

/// Without these flags no server is asked, whatever variables say and contexts there are.
fn of_flag_alone(argument: Arg) -> Arg {
    match argument.get_id().as_str() {
        "server" => argument.help(
            "Server that is asked: HOST:PORT, http://HOST:PORT, the path of a socket, or that of a data folder",
        ),
        _ => argument.help("The same, by the name that `courser context add` has given it"),
    }
}

/// What a server has is asked of it, and given here is what it would have.
const BOTH: &str = "the settings of a server are its own: without --config, --set and the like, or without --server and --context";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// A configuration file that says the same
    Toml,
    /// One JSON document
    Json,
    /// The same in one line
    Jsonl,
}

impl Output {
    const fn of_server(self) -> operate::Output {
        match self {
            Self::Toml => operate::Output::Table,
            Self::Json => operate::Output::Json,
            Self::Jsonl => operate::Output::Jsonl,
        }
    }
}

/// Form of what a check finds.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Report {
    /// The digest on standard output, or a line for each fault on standard error
    #[default]
    Text,
    /// One JSON document
    Json,
    /// One JSON object a line: the digest, or the faults
    Jsonl,
}

/// Runs one verb.
pub(crate) fn run(arguments: &Config) -> Exit {
    match &arguments.command {
        Verb::Check {
            flags,
            no_files,
            insecure_anonymous,
            output,
        } => {
            let files = match no_files {
                true => Files::PassedOver,
                false => Files::Looked,
            };
            let anonymous = match insecure_anonymous {
                true => Anonymous::Anywhere,
                false => Anonymous::ThisMachine,
            };
            check(flags, anonymous, files, *output)
        }
        Verb::Show {
            flags,
            server,
            origin,
            output,
        } => {
            let shown = if *origin {
                Shown::Origins
            } else {
                Shown::Values
            };
            if server.are_given() {
                return match flags.are_given() {
                    true => usage(BOTH),
                    false => show_of_server(server, shown, output.of_server()),
                };
            }
            with(flags, |resolved| match output {
                Output::Toml => print(&resolved.show(shown)),
                Output::Json => print(&format!("{:#}\n", as_json(resolved, shown))),
                Output::Jsonl => print(&format!("{}\n", as_json(resolved, shown))),
            })
        }
        Verb::Reload(arguments) => operate::run_reload(arguments),
        Verb::Schema => print(&format!("{:#}\n", schema())),
        Verb::Diff {
            flags,
            server,
            from,
            output,
        } => diff(flags, server, from.as_deref(), output),
    }
}

fn diff(
    flags: &SettingFlags,
    server: &ServerFlags,
    from: Option<&Path>,
    output: &OutputFlags,
) -> Exit {
    if server.are_given() && flags.are_given() {
        return match from {
            Some(_) => usage(
                "a server is compared with the file of --from, or with what --config, --set and the like say, not with both",
            ),
            None => with(flags, |after| {
                compare_with_server(server, Side::After(in_force(after, Vec::new())), output)
            }),
        };
    }
    let before = match from {
        Some(path) => Sources::new().load("--from", path).resolve(),
        None => Sources::new().resolve(),
    };
    match before {
        Ok(before) if server.are_given() => {
            compare_with_server(server, Side::Before(in_force(&before, Vec::new())), output)
        }
        Ok(before) => with(flags, |after| {
            let changes: Vec<_> = before.changes(after).into_iter().map(shown).collect();
            say_changes(&changes, output).into()
        }),
        Err(errors) => usage(&errors.to_string()),
    }
}

fn warn(resolved: &Resolved) {
    for warning in resolved.warnings.iter().chain(&resolved.doubts) {
        eprintln!("courser: warning: {warning}");
    }
}

fn with(flags: &SettingFlags, act: impl FnOnce(&Resolved) -> Exit) -> Exit {
    match flags.resolve() {
        Ok(resolved) => {
            warn(&resolved);
            act(&resolved)
        }
        Err(errors) => usage(&errors.to_string()),
    }
}

fn check(flags: &SettingFlags, anonymous: Anonymous, files: Files, report: Report) -> Exit {
    let checked = flags.resolve().and_then(|resolved| {
        warn(&resolved);
        if files != Files::PassedOver {
            let doubts = preflight::missing(&resolved).into_iter();
            for doubt in doubts.chain(preflight::doubtful(&resolved)) {
                eprintln!("courser: warning: {doubt}");
            }
        }
        match preflight::faults(&resolved, anonymous, files) {
            faults if faults.is_empty() => Ok(resolved.digest()),
            faults => Err(Errors(faults)),
        }
    });
    match (report, &checked) {
        (Report::Text, Ok(digest)) => {
            let right = match files {
                Files::Looked | Files::LookedConfined => "the settings are right",
                Files::PassedOver => "the settings are right, and no file was looked at",
            };
            print(&format!("{right}; digest {digest}\n"))
        }
        (Report::Text, Err(errors)) => usage(&errors.to_string()),
        (Report::Json | Report::Jsonl, _) => {
            let found = checked.as_ref().err().map_or(Exit::Done, |_| Exit::Usage);
            print(&as_report(&checked, report)).or(found)
        }
    }
}

/// What a check found, for programs.
fn as_report(checked: &Result<String, Errors>, report: Report) -> String {
    let faults: Vec<Value> = match checked {
        Ok(_) => Vec::new(),
        Err(errors) => errors.0.iter().map(fault_json).collect(),
    };
    match (report, checked) {
        (Report::Jsonl, Ok(digest)) => format!("{}\n", json!({ "digest": digest })),
        (Report::Jsonl, Err(_)) => faults.iter().map(|fault| format!("{fault}\n")).collect(),
        (Report::Text | Report::Json, checked) => {
            let digest = checked.as_ref().ok();
            format!("{:#}\n", json!({ "digest": digest, "faults": faults }))
        }
    }
}

/// Numbers and lists are ones of JSON; sizes, durations and the like are texts, as in a file.
fn as_json(resolved: &Resolved, shown: Shown) -> Value {
    let settings: Map<String, Value> = resolved
        .effective()
        .into_iter()
        .map(|value| {
            let mut entry = json!({ "value": value.json() });
            match shown {
                Shown::Values => {}
                Shown::Origins => entry["origin"] = value.origin.to_string().into(),
            }
            (value.key, entry)
        })
        .collect();
    json!({ "digest": resolved.digest(), "settings": settings })
}
