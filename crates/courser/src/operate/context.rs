//! `courser context`: names for servers, so that flags need not be said again and again. No secret is kept, only the file of a token.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use courser_admin::client::Server;
use serde_json::{Map, Value, json};

use super::print::{Output, OutputFlags};
use crate::cli::exit::{Exit, usage};

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
        /// http://HOST:PORT, the path of a socket, or that of a data folder
        #[arg(long, value_name = "SERVER")]
        server: String,
        /// File with its token
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
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

/// A server as it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Saved {
    pub(super) server: String,
    pub(super) token_file: Option<PathBuf>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Contexts {
    used: Option<String>,
    by_name: BTreeMap<String, Saved>,
}

/// `$XDG_CONFIG_HOME/courser/contexts.json`, or the one below `~/.config`.
fn path() -> Option<PathBuf> {
    let given = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let folder = given("XDG_CONFIG_HOME").or_else(|| Some(given("HOME")?.join(".config")))?;
    Some(folder.join("courser/contexts.json"))
}

impl Contexts {
    fn load(path: &Path) -> Result<Self, String> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        Self::parse(&text).ok_or_else(|| {
            format!(
                "{} is no list of contexts: correct or remove it",
                path.display()
            )
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let mut contexts = Self {
            used: value["used"].as_str().map(str::to_owned),
            by_name: BTreeMap::new(),
        };
        for (name, saved) in value["contexts"].as_object()? {
            let saved = Saved {
                server: saved["server"].as_str()?.to_owned(),
                token_file: saved["token_file"].as_str().map(PathBuf::from),
            };
            contexts.by_name.insert(name.clone(), saved);
        }
        Some(contexts)
    }

    fn write(&self) -> Value {
        let contexts: Map<String, Value> = self
            .by_name
            .iter()
            .map(|(name, saved)| {
                let token_file = saved
                    .token_file
                    .as_ref()
                    .map(|file| file.display().to_string());
                (
                    name.clone(),
                    json!({"server": saved.server, "token_file": token_file}),
                )
            })
            .collect();
        json!({"used": self.used, "contexts": contexts})
    }

    /// Beside it first, then in its place, so that a full disk takes nothing away.
    fn save(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let beside = path.with_extension("new");
        let mut options = fs::OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)?;
        serde_json::to_writer_pretty(&file, &self.write())?;
        file.sync_all()?;
        fs::rename(beside, path)
    }
}

/// The server of a name, or the one that is used where none is named.
pub(super) fn find(name: Option<&str>) -> Result<Option<Saved>, String> {
    let contexts = path().map_or_else(|| Ok(Contexts::default()), |path| Contexts::load(&path))?;
    match (name, &contexts.used) {
        (Some(name), _) => match contexts.by_name.get(name) {
            Some(saved) => Ok(Some(saved.clone())),
            None => Err(format!(
                "no context \"{name}\": courser context list shows which there are"
            )),
        },
        (None, Some(used)) => Ok(contexts.by_name.get(used).cloned()),
        (None, None) => Ok(None),
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Context) -> Exit {
    let Some(path) = path() else {
        return usage("there is no place for contexts: set HOME or XDG_CONFIG_HOME");
    };
    let mut contexts = match Contexts::load(&path) {
        Ok(contexts) => contexts,
        Err(message) => return usage(&message),
    };
    match change(&mut contexts, &arguments.verb) {
        Ok(true) => match contexts.save(&path) {
            Ok(()) => Exit::Done,
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
        eprintln!("courser: no context \"{name}\"");
        Exit::NotFound
    };
    match verb {
        Verb::Add {
            name,
            server,
            token_file,
        } => {
            Server::parse(server).map_err(|message| usage(&message))?;
            let saved = Saved {
                server: server.clone(),
                token_file: token_file.clone(),
            };
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
            list(contexts, flags.output());
            return Ok(false);
        }
    }
    Ok(true)
}

fn list(contexts: &Contexts, output: Output) {
    let rows: Vec<Value> = contexts
        .by_name
        .iter()
        .map(|(name, saved)| {
            json!({
                "name": name,
                "server": saved.server,
                "token_file": saved.token_file.as_ref().map(|file| file.display().to_string()),
                "used": contexts.used.as_ref() == Some(name),
            })
        })
        .collect();
    output.rows(&rows, &["name", "server", "token_file", "used"]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_come_back_as_they_were_saved() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("courser/contexts.json");
        let mut contexts = Contexts::load(&path).expect("nothing is nothing");
        assert_eq!(contexts, Contexts::default());
        contexts.used = Some("a".into());
        let saved = Saved {
            server: "http://h:1".into(),
            token_file: Some("t".into()),
        };
        contexts.by_name.insert("a".into(), saved);
        contexts.save(&path).expect("saved");
        assert_eq!(Contexts::load(&path), Ok(contexts));
        fs::write(&path, "{}").expect("written");
        assert!(Contexts::load(&path).is_err());
    }
}
