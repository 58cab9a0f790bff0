//! `courser context`: names for servers, so that flags need not be said again and again. No secret is kept, only files that have one.

use std::path::{self, PathBuf};

use clap::{Args, Subcommand};
use courser_admin::client::Server;
use serde_json::{Value, json};

use super::print::{Output, OutputFlags};
use crate::cli::contexts::{Contexts, Saved, SavedBroker, path as contexts_file};
use crate::cli::exit::{Exit, usage};
use crate::cli::layers::Wrapping;
use crate::cli::plain::quoted;
use crate::cli::url;

/// Names for servers
#[derive(Args, Debug)]
pub(crate) struct Context {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Name a server, and use it from now on if it is the first
    Add {
        /// Its name
        name: String,
        /// In place of a server that has the name; without it that one stays as it is
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        new: Box<New>,
    },
    /// Use a server where none is named
    Use {
        /// Its name
        name: String,
    },
    /// Forget a name
    Remove {
        /// The name
        name: String,
    },
    /// Names and servers
    List(OutputFlags),
}

/// What is kept of a server.
#[derive(Args, Debug)]
struct New {
    /// For operators: HOST:PORT, http://HOST:PORT, the path of a socket, or that of a data folder
    #[arg(long, value_name = "SERVER", required_unless_present = "mqtt")]
    server: Option<String>,
    /// File with its token
    #[arg(long, value_name = "FILE", requires = "server")]
    token_file: Option<PathBuf>,
    /// The user that asks it
    #[arg(
        long,
        value_name = "NAME",
        requires = "server",
        conflicts_with = "token_file"
    )]
    operator: Option<String>,
    /// File whose first line is the password of that user; without it the password is asked for each time
    #[arg(long, value_name = "FILE", requires = "operator")]
    operator_password_file: Option<PathBuf>,
    /// For pub, sub, request, bench and probe: mqtt://[user@]host[:port]; mqtts:// for TLS, ws:// and wss:// for WebSocket;
    /// unix:///path for a Unix socket
    #[arg(long, value_name = "URL")]
    mqtt: Option<String>,
    /// User name for MQTT
    #[arg(short = 'u', long, visible_alias = "user", requires = "mqtt")]
    username: Option<String>,
    /// File whose first line is its password
    #[arg(long, value_name = "FILE", requires = "mqtt")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    wrapping: Wrapping,
}

impl New {
    /// Checked, with files that are found from any folder.
    fn saved(&self) -> Result<Saved, String> {
        let server = self.server.as_deref().map(server).transpose()?;
        let mqtt = match &self.mqtt {
            Some(url) => Some(self.broker(url)?),
            None if self.wrapping == Wrapping::default() => None,
            None => {
                return Err("flags of TLS and WebSocket are for MQTT: say --mqtt URL".to_owned());
            }
        };
        Ok(Saved {
            server,
            token_file: absolute(self.token_file.as_ref())?,
            operator: self.operator.clone(),
            operator_password_file: absolute(self.operator_password_file.as_ref())?,
            mqtt,
        })
    }

    fn broker(&self, text: &str) -> Result<SavedBroker, String> {
        let url = url::parse(text)?;
        if url.password.is_some() {
            return Err(
                "no password is kept: write it into a file, and say --password-file FILE"
                    .to_owned(),
            );
        }
        if !url.topic.is_empty() {
            return Err(
                "a context has no topic: leave out the slash behind the host and what follows it"
                    .to_owned(),
            );
        }
        Ok(SavedBroker {
            url: text.to_owned(),
            username: self.username.clone(),
            password_file: absolute(self.password_file.as_ref())?,
            wrapping: self
                .wrapping
                .anywhere()
                .map_err(|error| error.to_string())?,
        })
    }
}

/// A path as it is from any folder.
fn absolute(file: Option<&PathBuf>) -> Result<Option<PathBuf>, String> {
    let whole = file.map(path::absolute).transpose();
    whole.map_err(|error| error.to_string())
}

/// A server as it is from any folder.
fn server(text: &str) -> Result<String, String> {
    let server = Server::parse(text)?;
    if let Server::Http(_) = server {
        return Ok(server.to_string());
    }
    let path = text.strip_prefix("unix:").unwrap_or(text);
    let path = path::absolute(path).map_err(|error| error.to_string())?;
    Ok(path.display().to_string())
}

/// Runs the command.
pub(crate) fn run(arguments: &Context) -> Exit {
    let Some(path) = contexts_file() else {
        return usage("there is no place for contexts: set HOME or XDG_CONFIG_HOME");
    };
    let mut contexts = match Contexts::load(&path) {
        Ok(contexts) => contexts,
        Err(message) => return usage(&message),
    };
    let before = contexts.used.clone();
    match change(&mut contexts, &arguments.verb) {
        Ok(true) => match contexts.save(&path) {
            Ok(()) => {
                if matches!(arguments.verb, Verb::Use { .. }) || contexts.used != before {
                    tell_used(&contexts);
                }
                Exit::Done
            }
            Err(error) => {
                eprintln!("courser: cannot write {}: {error}", path.display());
                Exit::Refused
            }
        },
        Ok(false) => Exit::Done,
        Err(exit) => exit,
    }
}

/// Whether there is something to save.
fn change(contexts: &mut Contexts, verb: &Verb) -> Result<bool, Exit> {
    let unknown = |name: &str| {
        eprintln!("courser: no context {}", quoted(name));
        Exit::NotFound
    };
    match verb {
        Verb::Add { name, replace, new } => {
            if name.is_empty() || name.contains(char::is_control) {
                return Err(usage("a context has a name, without control characters"));
            }
            let saved = new.saved().map_err(|message| usage(&message))?;
            if !replace && contexts.by_name.contains_key(name) {
                eprintln!(
                    "courser: there is a context \"{name}\" already, and it is left as it is; --replace puts the new one in its place"
                );
                return Err(Exit::Conflict);
            }
            contexts.by_name.insert(name.clone(), saved);
            contexts.used.get_or_insert_with(|| name.clone());
        }
        Verb::Use { name } => {
            if !contexts.by_name.contains_key(name) {
                return Err(unknown(name));
            }
            contexts.used = Some(name.clone());
        }
        Verb::Remove { name } => {
            contexts.by_name.remove(name).ok_or_else(|| unknown(name))?;
            contexts.used.take_if(|used| used == name);
        }
        Verb::List(flags) => {
            list(contexts, flags.output())?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whom commands ask from now on is not to be a surprise. There is nothing to choose from where no context is left.
fn tell_used(contexts: &Contexts) {
    match &contexts.used {
        Some(name) => {
            let name = quoted(name);
            eprintln!("courser: context {name} is used from now on where no server is named");
        }
        None if contexts.by_name.is_empty() => {}
        None => eprintln!("courser: no context is used now; courser context use NAME has one used"),
    }
}

fn list(contexts: &Contexts, output: Output) -> Result<(), Exit> {
    let rows: Vec<Value> = contexts
        .by_name
        .iter()
        .map(|(name, saved)| {
            let mqtt = saved.mqtt.as_ref();
            json!({
                "name": name,
                "server": saved.server,
                "token_file": saved.token_file,
                "operator": saved.operator,
                "operator_password_file": saved.operator_password_file,
                "mqtt": mqtt.map(|it| &it.url),
                "username": mqtt.and_then(|it| it.username.as_ref()),
                "password_file": mqtt.and_then(|it| it.password_file.as_ref()),
                "used": contexts.used.as_ref() == Some(name),
            })
        })
        .collect();
    let columns = [
        "name",
        "server",
        "token_file",
        "operator",
        "mqtt",
        "username",
        "used",
    ];
    output.rows(&rows, &columns)
}
