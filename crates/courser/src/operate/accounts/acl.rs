//! `courser acl`: rules of roles, and which of them decides.

use clap::{Args, Subcommand, ValueEnum};
use courser_admin::client::Verb;
use serde_json::json;

use super::{changed, note_if_open, role, say_would, send};
use crate::cli::exit::{Exit, usage};
use crate::operate::list::{ListFlags, Listing};
use crate::operate::print::{Output, OutputFlags, plain, say};
use crate::operate::server::ServerFlags;
use crate::operate::targets::{Consent, Meant};

/// Rules of roles
#[derive(Args, Debug)]
pub(crate) struct Acl {
    #[command(flatten)]
    server: ServerFlags,
    #[command(subcommand)]
    verb: AclVerb,
}

/// What a rule speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Messages to a topic, wills too
    Publish,
    /// Subscriptions and every delivery
    Subscribe,
    /// Both
    All,
}

impl Action {
    const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
            Self::All => "all",
        }
    }
}

/// A rule of a role.
#[derive(Args, Debug)]
struct RuleOfRole {
    /// Name of the role
    role: String,
    /// What the rule speaks of
    #[arg(value_enum)]
    action: Action,
    /// Which topics: a filter in which a level may be %c (client id) or %u (user name)
    pattern: String,
    /// It denies, whatever else allows
    #[arg(long)]
    deny: bool,
}

/// What somebody wants to do.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Deed {
    /// Publish to this topic
    #[arg(long, value_name = "TOPIC")]
    publish: Option<String>,
    /// Subscribe to this filter; $share/NAME/FILTER is a shared subscription
    #[arg(long, value_name = "FILTER")]
    subscribe: Option<String>,
    /// Get messages of this topic
    #[arg(long, value_name = "TOPIC")]
    receive: Option<String>,
}

#[derive(Subcommand, Debug)]
enum AclVerb {
    /// Rules of all roles; --filter role=NAME for those of one
    List(ListFlags),
    /// Give a role a rule; one that denies is asked about
    Grant {
        #[command(flatten)]
        rule: RuleOfRole,
        #[command(flatten)]
        consent: Consent,
    },
    /// Take a rule from a role: what it allowed stops at the next message
    Revoke {
        #[command(flatten)]
        rule: RuleOfRole,
        #[command(flatten)]
        consent: Consent,
    },
    /// Say whether a user, or who comes with a token, may do something, and which rule decides: ends with 0 if it may, with 1 if not
    Test {
        /// User name
        #[arg(long)]
        user: String,
        /// A role that the user's token names, as often as wanted: the user need be nowhere else then
        #[arg(long, value_name = "ROLE")]
        role: Vec<String>,
        /// Client id that %c stands for
        #[arg(long, default_value = "", hide_default_value = true)]
        client_id: String,
        #[command(flatten)]
        deed: Deed,
        #[command(flatten)]
        output: OutputFlags,
    },
}

impl RuleOfRole {
    fn text(&self) -> String {
        let effect = if self.deny { "deny" } else { "allow" };
        format!("{effect} {} {}", self.action.name(), self.pattern)
    }

    fn send(&self, server: &ServerFlags, field: &str, output: &OutputFlags) -> Exit {
        let change = json!({field: [self.text()]});
        send(
            server,
            Verb::Patch,
            &role::path(&self.role),
            &change,
            output,
        )
    }

    /// Gives it, if that is meant. What is denied may be what others live on: that is asked about.
    fn grant(&self, server: &ServerFlags, consent: &Consent) -> Exit {
        let what = format!("give \"{}\" to role {}", self.text(), self.role);
        match consent.ask_if(self.deny.then_some(&what)) {
            Ok(Meant::Do) => self.send(server, "add_rules", consent.output()),
            Ok(Meant::OnlySay) => {
                let deed = format!("give \"{}\" to", self.text());
                self.would(server, "add_rules", &deed, consent)
            }
            Err(exit) => exit,
        }
    }

    /// Takes it away, if that is meant.
    fn revoke(&self, server: &ServerFlags, consent: &Consent) -> Exit {
        let what = format!("take \"{}\" from role {}", self.text(), self.role);
        match consent.ask(&what) {
            Ok(Meant::Do) => self.send(server, "remove_rules", consent.output()),
            Ok(Meant::OnlySay) => {
                let deed = format!("take \"{}\" from", self.text());
                self.would(server, "remove_rules", &deed, consent)
            }
            Err(exit) => exit,
        }
    }

    /// Says what would be done.
    fn would(&self, server: &ServerFlags, field: &str, deed: &str, consent: &Consent) -> Exit {
        let change = json!({field: [self.text()]});
        let path = role::path(&self.role);
        let question = (Verb::Patch, path.as_str(), &change);
        say_would(server, question, (deed, &self.role), consent)
    }
}

impl Deed {
    /// As the API asks for it.
    fn query(&self) -> Result<(&'static str, &str), String> {
        match (&self.publish, &self.subscribe, &self.receive) {
            (Some(topic), _, _) => Ok(("publish", topic)),
            (_, Some(filter), _) => match filter.strip_prefix("$share/") {
                None => Ok(("subscribe", filter)),
                Some(shared) => match shared.split_once('/') {
                    Some((name, filter)) if !name.is_empty() && !filter.is_empty() => {
                        Ok(("subscribe_shared", filter))
                    }
                    Some(_) | None => Err("a shared subscription is $share/NAME/FILTER".to_owned()),
                },
            },
            (_, _, Some(topic)) => Ok(("receive", topic)),
            (None, None, None) => Err("say --publish, --subscribe or --receive".to_owned()),
        }
    }
}

/// Runs `courser acl`.
pub(crate) fn run(arguments: &Acl) -> Exit {
    let server = &arguments.server;
    match &arguments.verb {
        AclVerb::List(list) => list.run(
            server,
            &Listing {
                path: "/api/v1/rules",
                columns: &["role", "number", "effect", "action", "topic"],
                own: Vec::new(),
            },
        ),
        AclVerb::Grant { rule, consent } => changed(server, rule.grant(server, consent)),
        AclVerb::Revoke { rule, consent } => changed(server, rule.revoke(server, consent)),
        AclVerb::Test {
            user,
            role,
            client_id,
            deed,
            output,
        } => match deed.query() {
            Ok(asked) => {
                let roles = role.join(",");
                let mut query = vec![("user", user.as_str()), ("client_id", client_id), asked];
                if !role.is_empty() {
                    query.push(("roles", &roles));
                }
                test(server, &query, output.output())
            }
            Err(message) => usage(&message),
        },
    }
}

fn test(server: &ServerFlags, query: &[(&str, &str)], output: Output) -> Exit {
    let mut is_answered = false;
    let exit = server.ask(async |client| {
        let decision = client.get("/api/v1/access/test", query).await?;
        match output {
            Output::Table => {
                let reason = decision["reason"].as_str().unwrap_or_default();
                say(&(plain(reason) + "\n"))?;
            }
            Output::Json | Output::Jsonl => output.value(&decision)?,
        }
        is_answered = true;
        Ok(match decision["allowed"].as_bool() {
            Some(true) => Exit::Done,
            Some(false) | None => Exit::Refused,
        })
    });
    if is_answered {
        note_if_open(server);
    }
    exit
}
