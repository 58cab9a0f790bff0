//! Names for servers, kept in a file of the user. No secret is kept, only files that have one.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;

use serde::{Deserialize, Serialize};

use super::layers::Wrapping;
use super::plain::quoted;
use super::url;

/// For its owner only.
const MODE: u32 = 0o600;

/// A server as it was named: for operators, for messages, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// `http://HOST:PORT`, a socket or a data folder.
    pub(crate) server: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    /// The user that asks it.
    #[serde(default)]
    pub(crate) operator: Option<String>,
    #[serde(default)]
    pub(crate) operator_password_file: Option<PathBuf>,
    pub(crate) mqtt: Option<SavedBroker>,
}

/// Where it takes messages, and who comes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedBroker {
    /// Without password and topic.
    pub(crate) url: String,
    pub(crate) username: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    #[serde(default)]
    pub(crate) wrapping: Wrapping,
}

/// All of them.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contexts {
    /// Which one is meant where none is named.
    pub(crate) used: Option<String>,
    #[serde(rename = "contexts")]
    pub(crate) by_name: BTreeMap<String, Saved>,
}

/// A context that is meant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Meant {
    pub(crate) name: String,
    /// By a flag or a variable; if not, it is the one that is used.
    pub(crate) is_named: bool,
    pub(crate) saved: Saved,
}

/// What a variable of the environment says; an empty one says nothing.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// `$XDG_CONFIG_HOME/courser/contexts.json`, or the one below `~/.config`.
pub(crate) fn path() -> Option<PathBuf> {
    let given = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let folder = given("XDG_CONFIG_HOME").or_else(|| Some(given("HOME")?.join(".config")))?;
    Some(folder.join("courser/contexts.json"))
}

impl Contexts {
    /// Reads the file; none is like an empty one. Passwords in it, which an earlier version kept, are left out, which is said once.
    ///
    /// # Errors
    /// For people: what is wrong with which file.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        static SAID: Once = Once::new();
        let mut contexts = Self::read(path)?;
        let had_one = contexts.leave_passwords_out();
        if !had_one.is_empty() {
            // Until the next change the file is as it was. Who may not change it can only be told.
            let _ = fs::set_permissions(path, fs::Permissions::from_mode(MODE));
            SAID.call_once(|| eprintln!("courser: {}", said_of_passwords(path, &had_one)));
        }
        Ok(contexts)
    }

    fn read(path: &Path) -> Result<Self, String> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        serde_json::from_str(&text).map_err(|error| {
            format!(
                "{} is no list of contexts: correct or remove it: {error}",
                path.display()
            )
        })
    }

    /// Takes passwords out of URLs: the names of those that had one.
    fn leave_passwords_out(&mut self) -> Vec<String> {
        let mut had_one = Vec::new();
        for (name, saved) in &mut self.by_name {
            let of_server = saved.server.as_mut().filter(|it| it.contains("://"));
            let urls = [of_server, saved.mqtt.as_mut().map(|it| &mut it.url)];
            let mut has_one = false;
            for url in urls.into_iter().flatten() {
                if let Some(without) = url::without_password(url) {
                    *url = without;
                    has_one = true;
                }
            }
            if has_one {
                had_one.push(name.clone());
            }
        }
        had_one
    }

    /// Beside it first, then in its place, so that a full disk takes nothing away.
    ///
    /// # Errors
    /// Of the system.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let beside = path.with_extension("new");
        let mut options = fs::OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(MODE)
            .open(&beside)?;
        // One that was left there has its own.
        file.set_permissions(fs::Permissions::from_mode(MODE))?;
        serde_json::to_writer_pretty(&file, self)?;
        file.sync_all()?;
        fs::rename(beside, path)
    }

    fn find(mut self, name: Option<String>) -> Result<Option<Meant>, String> {
        let is_named = name.is_some();
        let Some(name) = name.or(self.used) else {
            return Ok(None);
        };
        match self.by_name.remove(&name) {
            Some(saved) => Ok(Some(Meant {
                name,
                is_named,
                saved,
            })),
            None if is_named => Err(format!(
                "no context \"{name}\": courser context list shows which there are"
            )),
            None => Ok(None),
        }
    }
}

/// What becomes of passwords in the file, and what to do.
fn said_of_passwords(path: &Path, names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| quoted(name)).collect();
    format!(
        "{} has a password in the URL of context {}, which is not used: write it into a file of your own, and add the context again with --replace and \
         --password-file FILE (of an operator: --operator NAME --operator-password-file FILE, or --token-file FILE). The next courser context add, use or remove \
         takes it out of the file",
        path.display(),
        names.join(", ")
    )
}

/// The context of a flag, else that of `COURSER_CONTEXT`, else the one that is used.
///
/// # Errors
/// For people: there is none of that name, or the file cannot be read.
pub(crate) fn meant(flag: Option<&str>) -> Result<Option<Meant>, String> {
    let name = flag
        .map(str::to_owned)
        .or_else(|| variable("COURSER_CONTEXT"));
    let contexts = path().map_or_else(|| Ok(Contexts::default()), |path| Contexts::load(&path))?;
    contexts.find(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contexts() -> Contexts {
        let operators = Saved {
            server: Some("http://h:1".into()),
            token_file: Some("t".into()),
            ..Saved::default()
        };
        let messages = Saved {
            mqtt: Some(SavedBroker {
                url: "mqtts://h".into(),
                username: Some("u".into()),
                ..SavedBroker::default()
            }),
            ..Saved::default()
        };
        Contexts {
            used: Some("a".into()),
            by_name: [("a".into(), operators), ("b".into(), messages)].into(),
        }
    }

    #[test]
    fn contexts_come_back_as_they_were_saved() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("courser/contexts.json");
        assert_eq!(Contexts::load(&path), Ok(Contexts::default()));
        contexts().save(&path).expect("saved");
        assert_eq!(Contexts::load(&path), Ok(contexts()));
        let earlier = r#"{"used": null, "contexts": {"b": {"server": "s", "token_file": null, "mqtt": null}}}"#;
        fs::write(&path, earlier).expect("written");
        let read = Contexts::load(&path).expect("one of an earlier version");
        assert_eq!(read.by_name["b"].server.as_deref(), Some("s"));
        fs::write(&path, "{}").expect("written");
        assert!(Contexts::load(&path).is_err());
    }

    /// A context of an earlier version had what was said behind `--mqtt` and `--server`.
    fn with_passwords() -> Contexts {
        let mut contexts = contexts();
        let of = |name: &str| contexts.by_name[name].clone();
        let (mut operators, mut messages) = (of("a"), of("b"));
        operators.server = Some("http://admin:hunter2@h:1".into());
        let mqtt = messages.mqtt.as_mut().expect("it is for MQTT");
        mqtt.url = "mqtts://u:hunter2@h".into();
        let harmless = of("b");
        contexts.by_name = [
            ("a".into(), operators),
            ("b".into(), messages),
            ("c".into(), harmless),
        ]
        .into();
        contexts
    }

    #[test]
    fn a_password_of_an_earlier_version_is_not_used_and_goes_with_the_next_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("contexts.json");
        let mode = |path: &Path| {
            let found = fs::metadata(path).expect("it is there");
            found.permissions().mode() & 0o777
        };
        let text = serde_json::to_string(&with_passwords()).expect("text");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
        let loaded = Contexts::load(&path).expect("contexts");
        assert_eq!(mode(&path), 0o600, "until then nobody else reads it");
        let server = loaded.by_name["a"].server.as_deref();
        assert_eq!(server, Some("http://h:1"));
        let url = |name: &str| loaded.by_name[name].mqtt.as_ref().map(|it| &*it.url);
        assert_eq!(url("b"), Some("mqtts://u@h"), "the user stays");
        assert_eq!(url("c"), Some("mqtts://h"));
        let left = path.with_extension("new");
        fs::write(&left, "of a save that was broken off").expect("written");
        fs::set_permissions(&left, fs::Permissions::from_mode(0o644)).expect("changed");
        loaded.save(&path).expect("saved");
        assert_eq!(mode(&path), 0o600);
        let text = fs::read_to_string(&path).expect("text");
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn what_is_said_of_passwords_names_the_contexts_and_shows_none() {
        let mut contexts = with_passwords();
        let names = contexts.leave_passwords_out();
        assert_eq!(names, ["a", "b"]);
        assert!(contexts.leave_passwords_out().is_empty());
        let said = said_of_passwords(Path::new("/x/contexts.json"), &names);
        assert!(
            said.starts_with(
                "/x/contexts.json has a password in the URL of context \"a\", \"b\", "
            )
        );
        assert!(said.contains("--password-file FILE") && said.contains("--token-file FILE"));
    }

    #[test]
    fn a_name_goes_before_what_is_used() {
        let found = |name: Option<&str>| {
            let meant = contexts().find(name.map(str::to_owned));
            meant.map(|meant| meant.map(|it| (it.name, it.is_named)))
        };
        assert_eq!(found(None), Ok(Some(("a".to_owned(), false))));
        assert_eq!(found(Some("b")), Ok(Some(("b".to_owned(), true))));
        assert!(found(Some("c")).is_err());
    }
}
