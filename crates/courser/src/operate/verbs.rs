//! `listener`, `client`, `session`, `subscription`, `retained`: what there is, and the end of it.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use courser_admin::client::escaped;
use serde_json::{Value, json};

use super::among::Among;
use super::list::{ListFlags, Listing};
use super::print::{Output, OutputFlags, say};
use super::redirect::Redirection;
use super::retained::RetainedDeletion;
use super::server::ServerFlags;
use super::targets::{Act, Deed, Targets};
use super::trace::TraceArguments;
use crate::cli::exit::Exit;
use crate::cli::payload::{PayloadFlags, bytes_of_hex};

/// Listeners: where clients come in
#[derive(Args, Debug)]
pub(crate) struct Listeners {
    #[command(flatten)]
    server: ServerFlags,
    #[command(subcommand)]
    verb: ListenerVerb,
}

#[derive(Subcommand, Debug)]
enum ListenerVerb {
    /// Where they listen, where clients find them, and how many connections they have
    List(ListFlags),
}

/// Connections
#[derive(Args, Debug)]
pub(crate) struct Clients {
    #[command(flatten)]
    server: ServerFlags,
    #[command(subcommand)]
    verb: ClientVerb,
}

#[derive(Subcommand, Debug)]
enum ClientVerb {
    /// Connections
    List(ListFlags),
    /// A connection, its session, and what happened to the client of late: also why it was disconnected
    Show {
        /// Client id
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        client_id: String,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Close connections; their sessions stay as long as they were to
    Kick(Among),
    /// Send clients to another server: those of 5.0 are told which, those of 3.1.1 are only closed
    Redirect(Redirection),
    /// Packets that a client sends and gets, as they go; neither payloads nor passwords
    Trace(TraceArguments),
}

/// Sessions, with and without a connection
#[derive(Args, Debug)]
pub(crate) struct Sessions {
    #[command(flatten)]
    server: ServerFlags,
    #[command(subcommand)]
    verb: SessionVerb,
}

#[derive(Subcommand, Debug)]
enum SessionVerb {
    /// Sessions
    List(ListFlags),
    /// A session that is kept
    Show {
        /// Client id
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        client_id: String,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// End sessions that have no connection: their wills go out, their messages are dropped
    Delete(Targets),
}

/// Subscriptions
#[derive(Args, Debug)]
pub(crate) struct Subscriptions {
    #[command(flatten)]
    server: ServerFlags,
    #[command(subcommand)]
    verb: SubscriptionVerb,
}

#[derive(Subcommand, Debug)]
enum SubscriptionVerb {
    /// Subscriptions of all sessions
    List(ListFlags),
}

/// Retained messages
#[derive(Args, Debug)]
pub(crate) struct RetainedMessages {
    #[command(flatten)]
    server: ServerFlags,
    #[command(subcommand)]
    verb: RetainedVerb,
}

#[derive(Subcommand, Debug)]
enum RetainedVerb {
    /// Topics that have a retained message, in their order
    #[command(mut_arg("sort", |sort| sort.help("By topic, as they come anyway").value_parser(by_topic)))]
    List {
        /// Only topics that match this filter; one that begins with $ for those of the broker
        #[arg(value_name = "FILTER")]
        matching: Option<String>,
        #[command(flatten)]
        list: ListFlags,
    },
    /// A retained message with its payload
    Show {
        /// Topic
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        topic: String,
        #[command(flatten)]
        payload: PayloadFlags,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Take retained messages away; subscribers hear nothing of it
    Delete(RetainedDeletion),
}

/// The server goes through topics in their order, so that a page costs as much as it is long.
fn by_topic(field: &str) -> Result<String, String> {
    match field {
        "topic" => Ok(field.to_owned()),
        _ => Err("retained messages come in the order of their topics, and in no other: say --sort topic, or sort the lines".to_owned()),
    }
}

/// Runs `courser listener`.
pub(crate) fn run_listeners(arguments: &Listeners) -> Exit {
    let ListenerVerb::List(list) = &arguments.verb;
    list.run(
        &arguments.server,
        &Listing {
            path: "/api/v1/listeners",
            columns: &[
                "name",
                "protocol",
                "places",
                "advertised",
                "authentication",
                "connections",
                "connections_max",
            ],
            own: Vec::new(),
        },
    )
}

/// Runs `courser client`.
pub(crate) fn run_clients(arguments: &Clients) -> Exit {
    match &arguments.verb {
        ClientVerb::List(list) => list.run(
            &arguments.server,
            &Listing {
                path: "/api/v1/clients",
                columns: &[
                    "client_id",
                    "user",
                    "version",
                    "address",
                    "listener",
                    "connected_at",
                    "keep_alive_seconds",
                    "will",
                    "output_bytes",
                ],
                own: Vec::new(),
            },
        ),
        ClientVerb::Show { client_id, output } => arguments.server.ask(async |client| {
            let path = format!("/api/v1/clients/{}", escaped(client_id));
            let found = client.get(&path, &[]).await?;
            show_client(&found, output.output())?;
            Ok(Exit::Done)
        }),
        ClientVerb::Kick(among) => among.run(
            &arguments.server,
            &Deed {
                path: "/api/v1/clients",
                act: Act::Delete,
                what: "close the connection of",
            },
        ),
        ClientVerb::Redirect(redirection) => redirection.run(&arguments.server),
        ClientVerb::Trace(trace) => arguments
            .server
            .ask(async |client| trace.follow(&client).await),
    }
}

/// Runs `courser session`.
pub(crate) fn run_sessions(arguments: &Sessions) -> Exit {
    match &arguments.verb {
        SessionVerb::List(list) => list.run(
            &arguments.server,
            &Listing {
                path: "/api/v1/sessions",
                columns: &[
                    "client_id",
                    "connected",
                    "durable",
                    "subscriptions",
                    "queued_messages",
                    "queued_bytes",
                    "in_flight",
                    "ends_at",
                ],
                own: Vec::new(),
            },
        ),
        SessionVerb::Show { client_id, output } => show(
            &arguments.server,
            "/api/v1/sessions",
            client_id,
            output.output(),
        ),
        SessionVerb::Delete(targets) => targets.run(
            &arguments.server,
            &Deed {
                path: "/api/v1/sessions",
                act: Act::Delete,
                what: "end the session of",
            },
        ),
    }
}

/// Runs `courser subscription`.
pub(crate) fn run_subscriptions(arguments: &Subscriptions) -> Exit {
    let SubscriptionVerb::List(list) = &arguments.verb;
    list.run(
        &arguments.server,
        &Listing {
            path: "/api/v1/subscriptions",
            columns: &["client_id", "filter", "share", "qos", "identifier"],
            own: Vec::new(),
        },
    )
}

/// Runs `courser retained`.
pub(crate) fn run_retained(arguments: &RetainedMessages) -> Exit {
    match &arguments.verb {
        RetainedVerb::List { matching, list } => list.run(
            &arguments.server,
            &Listing {
                path: "/api/v1/retained",
                columns: &["topic", "qos", "payload_bytes", "expires_at"],
                own: matching
                    .iter()
                    .map(|filter| ("match", filter.clone()))
                    .collect(),
            },
        ),
        RetainedVerb::Show {
            topic,
            payload,
            output,
        } => arguments.server.ask(async |client| {
            let path = format!("/api/v1/retained/{}", escaped(topic));
            let mut found = client.get(&path, &[]).await?;
            if let Err(why) = rewrite(&mut found, payload) {
                eprintln!("courser: the payload is {why}");
            }
            output.output().value(&found)?;
            Ok(Exit::Done)
        }),
        RetainedVerb::Delete(deletion) => deletion.run(&arguments.server),
    }
}

/// Puts the payload of a retained message into the form that was asked for. It comes as text or else as hexadecimal digits.
///
/// # Errors
/// Why it is none of that form; then it stays as it is.
fn rewrite(found: &mut Value, payload: &PayloadFlags) -> Result<(), String> {
    let bytes = match (&found["payload"], &found["payload_hex"]) {
        (Value::String(text), _) => text.clone().into_bytes(),
        (_, Value::String(digits)) => bytes_of_hex(digits.as_bytes())?,
        _ => return Ok(()),
    };
    if let Some(text) = payload.show_field(&bytes)? {
        found["payload"] = json!(text);
        found["payload_hex"] = Value::Null;
    }
    Ok(())
}

fn show(server: &ServerFlags, path: &str, name: &str, output: Output) -> Exit {
    server.ask(async |client| {
        let found = client
            .get(&format!("{path}/{}", escaped(name)), &[])
            .await?;
        output.value(&found)?;
        Ok(Exit::Done)
    })
}

/// In parts for people; JSON as it is.
fn show_client(found: &Value, output: Output) -> Result<(), Exit> {
    if output != Output::Table {
        return output.value(found);
    }
    for (part, title) in [("client", "connection"), ("session", "session")] {
        if found[part].is_null() {
            say(&format!("no {title}\n"))?;
        } else {
            say(&format!("{title}:\n"))?;
            output.value(&found[part])?;
        }
    }
    let mut events = found["events"].as_array().cloned().unwrap_or_default();
    for event in &mut events {
        if let Some(code) = event["reason_code"].as_u64() {
            event["reason_code"] = json!(format!("0x{code:02X}"));
        }
    }
    if !events.is_empty() {
        say("\n")?;
        output.rows(&events, &["at", "event", "address", "reason_code", "cause"])?;
    }
    Ok(())
}
