//! `courser user`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use courser_admin::client::{Verb, escaped};
use serde_json::{Value, json};

use super::limits::{self, Above, Limit};
use super::secret::PasswordFlags;
use super::{Change, changed, say_would, send, show, transfer};
use crate::cli::exit::{Exit, usage};
use crate::operate::list::{ListFlags, Listing};
use crate::operate::print::OutputFlags;
use crate::operate::server::ServerFlags;
use crate::operate::targets::{Act, Consent, Deed, Meant, Targets};

/// Who may come in
#[derive(Args, Debug)]
pub(crate) struct Users {
    #[command(flatten)]
    server: ServerFlags,
    #[command(subcommand)]
    verb: UserVerb,
}

#[derive(Subcommand, Debug)]
enum UserVerb {
    /// Users
    List(ListFlags),
    /// A user, without what it proves itself with
    Show {
        /// User name
        name: String,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Make a user
    Add {
        /// User name
        name: String,
        /// A role that it gets; as often as wanted
        #[arg(long, value_name = "ROLE")]
        role: Vec<String>,
        #[command(flatten)]
        password: PasswordFlags,
        /// It has none, and comes in by a client certificate only
        #[arg(long, conflicts_with_all = ["password_file", "scram"])]
        no_password: bool,
        /// It may not come in until it is enabled
        #[arg(long)]
        disabled: bool,
        /// A limit, as messages_per_second=100; as often as wanted
        #[arg(long = "quota", value_name = "NAME=NUMBER", value_parser = limits::limit)]
        quotas: Vec<Limit>,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Give and take roles and limits; a role that is taken away, and less of what may wait, is asked about
    Set {
        /// User name
        name: String,
        #[command(flatten)]
        change: UserChange,
        #[command(flatten)]
        consent: Consent,
    },
    /// Give another password: who came in with the old one is disconnected and keeps its session
    SetPassword {
        /// User name
        name: String,
        #[command(flatten)]
        password: PasswordFlags,
        #[command(flatten)]
        consent: Consent,
    },
    /// Let a user come in again
    Enable {
        /// User name
        name: String,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Disconnect users and let them in no more; their sessions stay
    Disable(Targets),
    /// Remove users: their connections and sessions end
    Remove(Targets),
    /// Make users of a file of mosquitto_passwd (-H sha512-pbkdf2, its default)
    Import {
        /// The file
        file: PathBuf,
        /// A role that all of them get; as often as wanted
        #[arg(long, value_name = "ROLE")]
        role: Vec<String>,
        /// Leave users that are there as they are, instead of making nobody
        #[arg(long)]
        skip_existing: bool,
        #[command(flatten)]
        output: OutputFlags,
    },
}

/// What becomes of a user.
#[derive(Args, Debug)]
struct UserChange {
    /// A role that it gets; as often as wanted
    #[arg(long, value_name = "ROLE")]
    add_role: Vec<String>,
    /// A role that it loses; as often as wanted
    #[arg(long, value_name = "ROLE")]
    remove_role: Vec<String>,
    /// What `user add` has
    #[arg(long, hide = true, value_parser = no_role)]
    role: Option<String>,
    /// A limit, as messages_per_second=100, or =none to take it away; as often as wanted
    #[arg(long = "quota", value_name = "NAME=NUMBER", value_parser = limits::limit)]
    quotas: Vec<Limit>,
}

/// Who writes `--role` may mean to add one or to have no other.
fn no_role(_: &str) -> Result<String, &'static str> {
    Err("a user that is there gets a role by --add-role and loses one by --remove-role")
}

impl UserChange {
    /// Makes it, if that is meant.
    fn run(&self, server: &ServerFlags, name: &str, consent: &Consent) -> Exit {
        let what = format!("take {} from user {name}", self.remove_role.join(", "));
        let change = Change {
            kind: "user",
            name,
            path: &path(name),
            takes: (!self.remove_role.is_empty()).then_some(what),
            quotas: &self.quotas,
            above: Above::Others,
            body: json!({
                "add_roles": self.add_role,
                "remove_roles": self.remove_role,
                "limits": limits::as_json(&self.quotas),
            }),
        };
        change.run(server, consent)
    }
}

const PATH: &str = "/api/v1/users";

fn path(name: &str) -> String {
    format!("{PATH}/{}", escaped(name))
}

/// Runs `courser user`.
pub(crate) fn run(arguments: &Users) -> Exit {
    let server = &arguments.server;
    match (act(arguments), &arguments.verb) {
        (exit, UserVerb::List(_) | UserVerb::Show { .. }) => exit,
        (exit, _) => changed(server, exit),
    }
}

fn act(arguments: &Users) -> Exit {
    let server = &arguments.server;
    match &arguments.verb {
        UserVerb::List(list) => list.run(
            server,
            &Listing {
                path: PATH,
                columns: &["name", "state", "password", "scram", "roles", "limits"],
                own: Vec::new(),
            },
        ),
        UserVerb::Show { name, output } => show(server, &path(name), output),
        add @ UserVerb::Add { output, .. } => match new_user(add) {
            Ok(user) => send(server, Verb::Post, PATH, &user, output),
            Err(message) => usage(&message),
        },
        UserVerb::Set {
            name,
            change,
            consent,
        } => change.run(server, name, consent),
        UserVerb::SetPassword {
            name,
            password,
            consent,
        } => set_password(server, name, password, consent),
        UserVerb::Enable { name, output } => {
            let change = json!({"state": "enabled"});
            send(server, Verb::Patch, &path(name), &change, output)
        }
        UserVerb::Disable(targets) => targets.run(server, &deed(Act::Disable, "disable the user")),
        UserVerb::Remove(targets) => targets.run(server, &deed(Act::Delete, "remove the user")),
        UserVerb::Import {
            file,
            role,
            skip_existing,
            output,
        } => transfer::mosquitto(server, file, (role, *skip_existing), output),
    }
}

fn set_password(
    server: &ServerFlags,
    name: &str,
    password: &PasswordFlags,
    consent: &Consent,
) -> Exit {
    const REPLACE: &str = "replace the password of";
    let meant = match consent.ask(&format!("{REPLACE} {name}")) {
        Ok(meant) => meant,
        Err(exit) => return exit,
    };
    let text = match meant {
        Meant::Do => password.read(),
        Meant::OnlySay => password.read_if_in_a_file(),
    };
    let text = match text {
        Ok(text) => text,
        Err(message) => return usage(&message),
    };
    let path = format!("{}/password", path(name));
    let new = json!({"password": text, "scram": password.scram()});
    match meant {
        Meant::Do => send(server, Verb::Put, &path, &new, consent.output()),
        Meant::OnlySay => {
            let question = (Verb::Put, path.as_str(), &new);
            say_would(server, question, (REPLACE, name), consent)
        }
    }
}

const fn deed(act: Act, what: &'static str) -> Deed {
    Deed {
        path: PATH,
        act,
        what,
    }
}

fn new_user(add: &UserVerb) -> Result<Value, String> {
    let UserVerb::Add {
        name,
        role,
        password,
        no_password,
        disabled,
        quotas,
        ..
    } = add
    else {
        unreachable!("only a user that is to be added is made");
    };
    let state = if *disabled { "disabled" } else { "enabled" };
    let mut user =
        json!({"name": name, "roles": role, "state": state, "limits": limits::as_json(quotas)});
    if !no_password {
        user["password"] = password.read()?.into();
        user["scram"] = password.scram().into();
    }
    Ok(user)
}
