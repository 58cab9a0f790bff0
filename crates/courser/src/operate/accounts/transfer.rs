//! `courser access`: all users and roles at once; and users out of Mosquitto's files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use courser_access::{PasswordHash, UserName};
use courser_admin::client::{Client, ClientError, Verb};
use serde_json::{Value, json};

use super::changed;
use crate::cli::exit::{Exit, usage};
use crate::cli::new_file::{there_already, write};
use crate::cli::print;
use crate::cli::sure::Sure;
use crate::operate::list::{ListFlags, Listing};
use crate::operate::print::OutputFlags;
use crate::operate::server::ServerFlags;

/// What Mosquitto made before 2.0: one round of SHA-512, so that whoever has the file soon has the passwords.
const OLD_FORMAT: &str = "a hash of Mosquitto before 2.0 ($6$), which is too weak to be kept: set the password of this user anew, here with courser user \
                          add, or there with mosquitto_passwd of 2.0 or later (-H sha512-pbkdf2)";

/// Where users are.
const PATH: &str = "/api/v1/users";

/// Wrong lines of a file of users that are named.
const FAULTS_MAX: usize = 20;

/// All users and roles at once
#[derive(Args, Debug)]
pub(crate) struct Access {
    #[command(flatten)]
    server: ServerFlags,
    #[command(subcommand)]
    verb: AccessVerb,
}

#[derive(Subcommand, Debug)]
enum AccessVerb {
    /// Write all users and roles as JSON, with hashes of passwords
    Export {
        /// File to write, for its owner only; one that is there is left as it is. Without it, or as -: standard output
        file: Option<PathBuf>,
    },
    /// Replace all users and roles by those of an export, at once
    Import {
        /// File to read; - is standard input
        file: PathBuf,
        #[command(flatten)]
        sure: Sure,
        /// Only say what would change
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        output: OutputFlags,
    },
}

/// Runs `courser access`.
pub(crate) fn run(arguments: &Access) -> Exit {
    let server = &arguments.server;
    match &arguments.verb {
        AccessVerb::Export { file } => {
            let file = file.as_deref().filter(|file| file.as_os_str() != "-");
            export(server, file)
        }
        AccessVerb::Import {
            file,
            sure,
            dry_run,
            output,
        } => {
            let table: Value = match read(file).map(|text| serde_json::from_str(&text)) {
                Ok(Ok(table)) => table,
                Ok(Err(error)) => {
                    return usage(&format!("{} is no export: {error}", file.display()));
                }
                Err(message) => return usage(&message),
            };
            if !dry_run
                && let Err(exit) = sure.ask_or(
                    "replace all users and roles",
                    ", or --dry-run to see what would change",
                )
            {
                return exit;
            }
            let path = format!("/api/v1/access?dry_run={dry_run}");
            let exit = server.ask(async |client| {
                let imported = client.send(Verb::Put, &path, &table).await?;
                output.output().value(&imported)?;
                Ok(Exit::Done)
            });
            changed(server, exit)
        }
    }
}

fn export(server: &ServerFlags, file: Option<&Path>) -> Exit {
    server.ask(async |client| {
        let table = client.get("/api/v1/access", &[]).await?;
        let text = serde_json::to_string_pretty(&table).unwrap_or_default() + "\n";
        let Some(file) = file else {
            return Ok(print(&text));
        };
        Ok(match write(file, &text) {
            Ok(()) => Exit::Done,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => there_already(file),
            Err(error) => usage(&format!("cannot write {}: {error}", file.display())),
        })
    })
}

fn read(file: &Path) -> Result<String, String> {
    let text = if file.as_os_str() == "-" {
        io::read_to_string(io::stdin())
    } else {
        fs::read_to_string(file)
    };
    text.map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// Users of a file of `mosquitto_passwd`. The whole file must be in its form before anybody is made: a line that is not must not become
/// a user with another password than its own, or with none.
///
/// # Errors
/// What is wrong, a line each: the first [`FAULTS_MAX`], and how many more there are.
fn users_of(text: &str) -> Result<Vec<(UserName, PasswordHash)>, Vec<String>> {
    let lines = text.lines().zip(1..);
    let lines = lines.filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    let (mut users, mut faults, mut more) = (Vec::new(), Vec::new(), 0);
    let mut seen = BTreeMap::new();
    for (line, number) in lines {
        let user = user_of(line).and_then(|user| match seen.insert(user.0.clone(), number) {
            None => Ok(user),
            Some(before) => Err(format!(
                "{} stands in line {before} already",
                user.0.as_str()
            )),
        });
        match user {
            Ok(user) => users.push(user),
            Err(_) if faults.len() == FAULTS_MAX => more += 1,
            Err(what) => faults.push(format!("line {number}: {what}")),
        }
    }
    if more > 0 {
        faults.push(format!("{more} more lines are wrong"));
    }
    match faults.is_empty() {
        true => Ok(users),
        false => Err(faults),
    }
}

/// The user of one line.
fn user_of(line: &str) -> Result<(UserName, PasswordHash), String> {
    let (name, hash) = line.split_once(':').ok_or("expected NAME:HASH")?;
    let name = UserName::new(name).map_err(|error| error.to_string())?;
    if hash.starts_with("$6$") {
        return Err(OLD_FORMAT.to_owned());
    }
    let hash: PasswordHash = hash.parse().map_err(|error| format!("{error}"))?;
    Ok((name, hash))
}

/// All users that the server has.
async fn users_there(client: &Client) -> Result<BTreeSet<String>, ClientError> {
    let listing = Listing {
        path: PATH,
        columns: &[],
        own: Vec::new(),
    };
    let (mut names, mut cursor) = (BTreeSet::new(), None);
    loop {
        let page = ListFlags::page(&[], cursor);
        let (rows, next) = page.rows(client, &listing).await?;
        let of_page = rows.iter().filter_map(|row| row["name"].as_str());
        names.extend(of_page.map(str::to_owned));
        if next.is_none() {
            return Ok(names);
        }
        cursor = next;
    }
}

/// Takes those away that are there already. Where that is not wanted, what to say of them.
fn without_those_there(
    users: &mut Vec<(UserName, PasswordHash)>,
    there: &BTreeSet<String>,
    skip_existing: bool,
) -> Result<(), String> {
    let is_there = |name: &UserName| there.contains(name.as_str());
    let known: Vec<&str> = users
        .iter()
        .filter(|(name, _)| is_there(name))
        .map(|(name, _)| name.as_str())
        .collect();
    if !known.is_empty() && !skip_existing {
        let named = known[..known.len().min(FAULTS_MAX)].join(", ");
        let more = match known.len().saturating_sub(FAULTS_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        return Err(format!(
            "{named}{more}: there already; nobody was made. With --skip-existing they stay as they are, and the others are made"
        ));
    }
    users.retain(|(name, _)| !is_there(name));
    Ok(())
}

/// Makes users of such a file, with these roles, and leaves who is there already if that is wanted.
pub(super) fn mosquitto(
    server: &ServerFlags,
    file: &Path,
    (roles, skip_existing): (&[String], bool),
    output: &OutputFlags,
) -> Exit {
    let mut users = match read(file).and_then(|text| {
        users_of(&text).map_err(|faults| {
            let place = file.display();
            let faults = faults.iter().map(|what| format!("{place}: {what}"));
            format!("{}; nobody was made", faults.collect::<Vec<_>>().join("\n"))
        })
    }) {
        Ok(users) => users,
        Err(message) => return usage(&message),
    };
    server.ask(async |client| {
        let there = users_there(&client).await?;
        if let Err(message) = without_those_there(&mut users, &there, skip_existing) {
            eprintln!("courser: {}: {message}", file.display());
            return Ok(Exit::Conflict);
        }
        let mut done = Vec::new();
        let mut end = Ok(Exit::Done);
        for (name, hash) in &users {
            let user = json!({"name": name, "password_hash": hash, "roles": roles});
            match client.send(Verb::Post, PATH, &user).await {
                Ok(made) => done.push(made),
                Err(error) => {
                    end = Err(error.into());
                    break;
                }
            }
        }
        if !done.is_empty() || end.is_ok() {
            output.output().deeds(&done)?;
        }
        end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$7$101$SEGJaNNC6hi4EC5Y$o6QJe/KGTZTkjSoAhtYpTZRBoXB5H6iFPFDnFw4ZEoP/Bpwjuua87cl1AjmQvpnrwwO2GJ1lPXmIVF1LsAv8iQ==";

    #[test]
    fn a_hash_of_an_old_mosquitto_says_what_to_do() {
        let old = "anna:$6$c2FsdHNhbHRzYWw=$aGFzaA==\n";
        let faults = users_of(old).expect_err("it is not taken");
        let [fault] = &faults[..] else {
            panic!("{faults:?}");
        };
        assert!(
            fault.contains("line 1: a hash of Mosquitto before 2.0"),
            "{fault}"
        );
        assert!(fault.contains("courser user add"), "{fault}");
    }

    #[test]
    fn cve_2018_12551_a_malformed_line_makes_nobody() {
        let good = format!("# a comment\n\nanna:{HASH}\nben:{HASH}\n");
        let users = users_of(&good).expect("it is in its form");
        let names: Vec<&str> = users.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["anna", "ben"]);
        for (line, place) in [
            ("carl", 3),
            ("carl:", 3),
            ("carl:plain", 3),
            (":$7$101$c2FsdA==$aGFzaA==", 3),
            ("ca\u{7}rl:$7$101$c2FsdA==$aGFzaA==", 3),
        ] {
            let text = format!("anna:{HASH}\nben:{HASH}\n{line}\n");
            let refused = users_of(&text).expect_err(line);
            assert_eq!(refused.len(), 1, "{refused:?}");
            assert!(
                refused[0].starts_with(&format!("line {place}: ")),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn a_name_that_stands_twice_makes_nobody() {
        let refused = users_of(&format!("anna:{HASH}\nben:{HASH}\nanna:{HASH}\n"));
        let refused = refused.expect_err("nobody knows which one is meant");
        assert_eq!(refused, ["line 3: anna stands in line 1 already"]);
    }

    #[test]
    fn who_is_there_already_is_left_out_or_nobody_is_made() {
        let all = users_of(&format!("anna:{HASH}\nben:{HASH}\n")).expect("it is in its form");
        let there: BTreeSet<String> = ["anna".to_owned(), "carl".to_owned()].into();
        let mut users = all.clone();
        let refused = without_those_there(&mut users, &there, false).expect_err("anna is there");
        assert!(
            refused.starts_with("anna: there already; nobody"),
            "{refused}"
        );
        assert!(refused.contains("--skip-existing"), "{refused}");
        assert_eq!(without_those_there(&mut users, &there, true), Ok(()));
        assert_eq!(users, all[1..]);
    }

    #[test]
    fn every_wrong_line_of_a_file_is_named() {
        let text = format!("anna\nben:{HASH}\n\ncarl:plain\n");
        let refused = users_of(&text).expect_err("two lines are wrong");
        assert_eq!(refused[0], "line 1: expected NAME:HASH");
        assert!(refused[1].starts_with("line 4: a password hash is"));
        assert_eq!(refused.len(), 2);
        let refused = users_of(&"anna\n".repeat(FAULTS_MAX + 3)).expect_err("all are wrong");
        assert_eq!(refused.len(), FAULTS_MAX + 1);
        assert_eq!(refused[FAULTS_MAX], "3 more lines are wrong");
    }
}
