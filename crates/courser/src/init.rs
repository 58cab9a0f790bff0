//! `courser init`: writes a configuration file to begin with, and makes the first account.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use courser_access::UserName;
use courser_broker::{first_administrator, layout, with_causes, write_bootstrap};
use courser_settings::{quoted, template};

use crate::cli::exit::Exit;
use crate::cli::new_file::{take_back, there_already, write};
use crate::cli::print;
use crate::cli::sure::Sure;

/// The file that it writes where none is named.
pub(crate) const FILE: &str = "courser.toml";

/// Flags of `courser init`.
#[derive(Args, Debug)]
pub(crate) struct Init {
    /// File to write; one that is there is left as it is
    #[arg(default_value = FILE, value_name = "FILE")]
    file: PathBuf,
    /// Every setting as a comment with its default, its range and what it is for, instead of the few that people change
    #[arg(long)]
    full: bool,
    /// Ask clients for no accounts and make none: whoever reaches the broker may do everything
    #[arg(long, conflicts_with_all = ["accounts", "admin", "data"])]
    no_accounts: bool,
    /// Ask clients for accounts, which is what is done without this flag as well
    #[arg(long, hide = true)]
    accounts: bool,
    /// Name of the first account: its password is printed once, and its hash goes into the data folder
    #[arg(long, default_value = "admin", value_name = "NAME")]
    admin: String,
    /// Data folder that the file names
    #[arg(long, default_value = "data", value_name = "FOLDER")]
    data: PathBuf,
    #[command(flatten)]
    sure: Sure,
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
# How clients prove who they are: none, accounts or tokens.
# authentication = \"none\"
# Largest packet that a client may send.
# packet_bytes_max = \"1MiB\"

[session]
# Messages that may wait for one absent client.
# queue_messages_max = 100000
";

/// What stands first in both texts for these settings, and is replaced.
const DATA: &str = "# path = \"data\"";
const WITHOUT: &str = "# authentication = \"none\"";
const WITH: &str = "authentication = \"accounts\"";

/// Writes the file, 0600, and says how to go on.
pub(crate) fn run(arguments: &Init) -> Exit {
    let text = if arguments.full {
        template()
    } else {
        SHORT.to_owned()
    };
    if !arguments.no_accounts {
        return with_accounts(arguments, &text);
    }
    let file = &arguments.file;
    match write(file, &text) {
        Ok(()) => print(&format!(
            "wrote {path}\nstart the broker: courser server --config {path}\n",
            path = file.display()
        )),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => there_already(file),
        Err(error) => cannot_write(file, &error),
    }
}

/// The file first: where one is there already, nothing is made. Without an account it is of no use, and goes again.
fn with_accounts(arguments: &Init, text: &str) -> Exit {
    let name = match UserName::new(&arguments.admin) {
        Ok(name) => name,
        Err(error) => {
            eprintln!("courser: --admin: {error}");
            return Exit::Usage;
        }
    };
    // The first part of `NAME:PASSWORD` ends at the first colon, as HTTP has it.
    if name.as_str().contains(':') {
        eprintln!(
            "courser: --admin: {} has a colon: nobody could log in to the admin interface by it",
            name.as_str().escape_debug()
        );
        return Exit::Usage;
    }
    let file = &arguments.file;
    if file.exists() {
        return there_already(file);
    }
    let bootstrap = arguments.data.join(layout::BOOTSTRAP);
    if bootstrap.symlink_metadata().is_ok() {
        eprintln!(
            "courser: {} is there already, with the account of an init before this one: start the broker, which takes it; or remove the file, whose \
             password is of no use then",
            bootstrap.display()
        );
        return Exit::Conflict;
    }
    if has_served(&arguments.data) {
        let what = format!(
            "replace the password of {}, if {} has that account, at the next start",
            name.as_str().escape_debug(),
            arguments.data.display()
        );
        if let Err(exit) = arguments.sure.ask(&what) {
            return exit;
        }
    }
    match write(file, &asking_for_accounts(text, &arguments.data)) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return there_already(file),
        Err(error) => return cannot_write(file, &error),
    }
    let made = first_administrator(name.clone()).and_then(|(table, password)| {
        let path = write_bootstrap(&arguments.data, &table)?;
        Ok((path, password))
    });
    match made {
        Ok((path, password)) => print(&format!(
            "wrote {file}\nwrote {bootstrap}, which the next start takes and deletes\naccount {name}, password {password}\n\
             This password is shown once. Start the broker: courser server --config {file}\n",
            file = file.display(),
            bootstrap = path.display(),
            name = name.as_str().escape_debug(),
            password = &*password,
        )),
        Err(error) => {
            take_back(file);
            eprintln!("courser: {}", with_causes(&error));
            Exit::Refused
        }
    }
}

/// Whether a broker has been started with a data folder: it may have accounts then.
fn has_served(data: &Path) -> bool {
    [layout::NODE, layout::LOG]
        .iter()
        .any(|name| data.join(name).symlink_metadata().is_ok())
}

fn asking_for_accounts(text: &str, data: &Path) -> String {
    let folder = format!("path = {}", quoted(&data.display().to_string()));
    text.replacen(DATA, &folder, 1).replacen(WITHOUT, WITH, 1)
}

fn cannot_write(file: &Path, error: &io::Error) -> Exit {
    eprintln!("courser: cannot write {}: {error}", file.display());
    Exit::Refused
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{Init, SHORT, asking_for_accounts, layout, run};
    use crate::cli::exit::Exit;
    use crate::cli::sure::Sure;
    use courser_settings::{Login, Settings, Sources, template};

    #[test]
    fn accounts_change_two_settings() {
        let mut expected = Settings::default();
        expected.mqtt.authentication = Login::Accounts;
        expected.data.path = "a \"folder\"".into();
        for text in [SHORT, &template()] {
            let text = asking_for_accounts(text, Path::new("a \"folder\""));
            let read = Sources::new().file("courser.toml", &text).check();
            assert_eq!(read.as_ref(), Ok(&expected));
        }
    }

    #[test]
    fn any_name_of_a_folder_is_read_as_it_is() {
        for folder in ["a\u{7f}b", "a\tb\nc", "a\u{301}", "back\\slash", "ü"] {
            let text = asking_for_accounts(SHORT, Path::new(folder));
            let read = Sources::new().file("courser.toml", &text).check();
            let path = read.map(|settings| settings.data.path);
            assert_eq!(path, Ok(PathBuf::from(folder)), "{folder:?}");
        }
    }

    #[test]
    fn i12_an_init_that_cannot_make_the_account_leaves_nothing_that_stops_the_next_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let no_folder = folder.path().join("taken");
        fs::write(&no_folder, "").expect("a file");
        let with = |data: PathBuf| Init {
            file: folder.path().join("courser.toml"),
            full: false,
            no_accounts: false,
            accounts: false,
            admin: "admin".to_owned(),
            data,
            sure: Sure::default(),
        };
        let stopped = with(no_folder);
        assert_eq!(run(&stopped), Exit::Refused);
        assert!(!stopped.file.exists());
        let whole = with(folder.path().join("data"));
        assert_eq!(run(&whole), Exit::Done);
        let read = Sources::new().file(
            "courser.toml",
            &fs::read_to_string(&whole.file).expect("it is there"),
        );
        assert_eq!(read.check().expect("good settings").data.path, whole.data);
    }

    #[test]
    fn an_init_names_no_administrator_who_could_not_log_in() {
        let folder = tempfile::tempdir().expect("a folder");
        let init = init(&folder, "a:b");
        assert_eq!(run(&init), Exit::Usage);
        assert!(!init.file.exists() && !init.data.exists());
    }

    #[test]
    fn an_init_beside_an_account_that_no_start_has_taken_is_a_conflict() {
        let folder = tempfile::tempdir().expect("a folder");
        let init = init(&folder, "admin");
        assert_eq!(run(&init), Exit::Done);
        let bootstrap = init.data.join(layout::BOOTSTRAP);
        let before = fs::read(&bootstrap).expect("it is there");
        fs::remove_file(&init.file).expect("it goes");
        assert_eq!(run(&init), Exit::Conflict);
        assert!(!init.file.exists());
        assert_eq!(fs::read(&bootstrap).expect("it is there"), before);
    }

    fn init(folder: &tempfile::TempDir, admin: &str) -> Init {
        Init {
            file: folder.path().join("courser.toml"),
            full: false,
            no_accounts: false,
            accounts: false,
            admin: admin.to_owned(),
            data: folder.path().join("data"),
            sure: Sure::default(),
        }
    }

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
