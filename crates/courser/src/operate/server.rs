//! Which server is asked, and how it ends when that does not answer.

use std::cell::OnceCell;
use std::future::Future;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use courser_admin::client::{Client, ClientError, Credentials, Server};
use courser_admin::error::Code;
use courser_admin::{ADMIN_SOCKET, Token};
use courser_broker::with_causes;

use crate::cli::contexts::{self, variable};
use crate::cli::exit::{Exit, usage};
use crate::cli::headings;
use crate::cli::plain::{plain, plain_lines};
use crate::cli::secret;
use crate::cli::units::wait;

/// Flags of every command that asks a server. Flags go before variables, those before the context.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerFlags {
    /// HOST:PORT, http://HOST:PORT, the path of a socket, or that of a data folder [variable: COURSER_SERVER; default: ./data, else http://127.0.0.1:18080]
    #[arg(long, value_name = "SERVER", global = true, help_heading = headings::CONNECTION)]
    server: Option<String>,
    /// File with the token for HTTP [variable: COURSER_TOKEN_FILE]
    #[arg(long, value_name = "FILE", global = true, help_heading = headings::CONNECTION)]
    token_file: Option<PathBuf>,
    /// User that asks, as far as its roles have administration [variable: COURSER_OPERATOR]; without it the token or the socket says who asks
    #[arg(
        long,
        value_name = "NAME",
        global = true,
        conflicts_with = "token_file",
        help_heading = headings::CONNECTION
    )]
    operator: Option<String>,
    /// File whose first line is the password of that user; - is standard input [variable: COURSER_OPERATOR_PASSWORD_FILE]. Without it
    /// you are asked
    #[arg(long, value_name = "FILE", global = true, help_heading = headings::CONNECTION)]
    operator_password_file: Option<PathBuf>,
    /// A server that `courser context add` has named [variable: COURSER_CONTEXT]
    #[arg(long, value_name = "NAME", global = true, conflicts_with = "server", help_heading = headings::CONNECTION)]
    context: Option<String>,
    /// How long an answer may take; a number alone is seconds
    #[arg(long, value_name = "DURATION", default_value = "35s", global = true, value_parser = wait, help_heading = headings::CONNECTION)]
    timeout: Duration,
    /// Made once: nobody is asked for a password twice.
    #[arg(skip)]
    client: OnceCell<Client>,
}

/// Who asks, as one place says it: flags, variables or a context.
#[derive(Debug, Default)]
struct Asking {
    operator: Option<String>,
    password_file: Option<PathBuf>,
    token_file: Option<PathBuf>,
}

/// Why a command ends before it has done all.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The server says no, or nothing.
    Unanswered(ClientError),
    /// The command has said why.
    Said(Exit),
}

impl From<ClientError> for Stop {
    fn from(error: ClientError) -> Self {
        Self::Unanswered(error)
    }
}

impl From<Exit> for Stop {
    fn from(exit: Exit) -> Self {
        Self::Said(exit)
    }
}

impl ServerFlags {
    /// Whether a flag says that a server is asked: for commands that need none.
    pub(crate) const fn are_given(&self) -> bool {
        self.server.is_some()
            || self.context.is_some()
            || self.token_file.is_some()
            || self.operator.is_some()
            || self.operator_password_file.is_some()
    }

    /// The client that is meant.
    fn client(&self) -> Result<Client, String> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let client = self.make_client()?;
        Ok(self.client.get_or_init(|| client).clone())
    }

    fn make_client(&self) -> Result<Client, String> {
        // A flag goes before any variable: who names a context must not get another server.
        let named = match (&self.server, &self.context) {
            (None, None) => variable("COURSER_SERVER"),
            (server, _) => server.clone(),
        };
        // The secrets of a context are for its server: another one never gets them.
        let (server, of_context) = match (named, self.saved()?) {
            (Some(server), _) => (Server::parse(&server)?, Asking::default()),
            (None, Some((server, asking))) => (Server::parse(&server)?, asking),
            (None, None) => (usual(), Asking::default()),
        };
        let credentials = self.credentials(of_context)?;
        Ok(Client::new(server, credentials, self.timeout))
    }

    /// What says who asks; none: over a socket it is known, and elsewhere nobody is let in without. No token is taken from a data folder that
    /// happens to be here: whoever listens at an address need not be the server of that folder.
    fn credentials(&self, of_context: Asking) -> Result<Option<Credentials>, String> {
        let flags = Asking {
            operator: self.operator.clone(),
            password_file: self.operator_password_file.clone(),
            token_file: self.token_file.clone(),
        };
        let password_file = flags.password_file.clone();
        let variables = Asking::of_variables();
        let password_file = password_file.or_else(|| variables.password_file.clone());
        let mut places = [flags, variables, of_context].into_iter();
        let asking = places.find(Asking::says).unwrap_or_default();
        if let Some(name) = asking.operator {
            let password = match password_file.or(asking.password_file) {
                Some(file) => secret::from_file(&file)?,
                None if io::stdin().is_terminal() => {
                    secret::typed(&format!("password of {}: ", plain(&name)))?
                }
                None => {
                    return Err(format!(
                        "the password of {name} is needed: --operator-password-file FILE, or - for standard input"
                    ));
                }
            };
            return Credentials::user(&name, &password).map(Some);
        }
        let token = asking.token_file.map(|file| Token::read(&file));
        let token = token.transpose().map_err(|error| with_causes(&error))?;
        Ok(token.map(Credentials::Token))
    }

    /// Server of the context that is meant, and who asks it.
    fn saved(&self) -> Result<Option<(String, Asking)>, String> {
        let Some(meant) = contexts::meant(self.context.as_deref())? else {
            return Ok(None);
        };
        match meant.saved.server {
            None if meant.is_named => Err(format!(
                "context \"{}\" says nothing of the API: add it again with --server SERVER and --replace",
                meant.name
            )),
            server => {
                let asking = Asking {
                    operator: meant.saved.operator,
                    password_file: meant.saved.operator_password_file,
                    token_file: meant.saved.token_file,
                };
                Ok(server.map(|server| (server, asking)))
            }
        }
    }

    /// Asks, and ends the command with what `ask` says or with how it failed.
    pub(crate) fn ask<F>(&self, ask: impl FnOnce(Client) -> F) -> Exit
    where
        F: Future<Output = Result<Exit, Stop>>,
    {
        let client = match self.client() {
            Ok(client) => client,
            Err(message) => return usage(&message),
        };
        let asking = client.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                eprintln!("courser: {error}");
                return Exit::Internal;
            }
        };
        let end = runtime.block_on(async {
            tokio::select! {
                answered = ask(client) => answered.unwrap_or_else(|stop| match stop {
                    Stop::Unanswered(error) => fail(&error, asking.credentials()),
                    Stop::Said(exit) => exit,
                }),
                _ = tokio::signal::ctrl_c() => Exit::Interrupted,
            }
        });
        // A question that nobody has answered keeps nobody here.
        runtime.shutdown_background();
        end
    }
}

impl Asking {
    fn of_variables() -> Self {
        Self {
            operator: variable("COURSER_OPERATOR"),
            password_file: variable("COURSER_OPERATOR_PASSWORD_FILE").map(PathBuf::from),
            token_file: variable("COURSER_TOKEN_FILE").map(PathBuf::from),
        }
    }

    const fn says(&self) -> bool {
        self.operator.is_some() || self.token_file.is_some()
    }
}

/// The data folder here, if a broker serves from it; else the usual address.
fn usual() -> Server {
    let socket = Path::new("data").join(ADMIN_SOCKET);
    if socket.exists() {
        Server::Socket(socket)
    } else {
        Server::Http("127.0.0.1:18080".to_owned())
    }
}

/// What went wrong. What to do about it as the command line has it, where the API speaks of headers and routes.
fn in_words(error: &ClientError, credentials: Option<&Credentials>) -> String {
    const BAD_REQUEST: u16 = Code::BadRequest as u16;
    const UNAUTHORIZED: u16 = Code::Unauthorized as u16;
    let ClientError::Refused { detail, .. } = error else {
        return error.to_string();
    };
    let hint = match detail.code {
        BAD_REQUEST => "--help of the command says what its flags take",
        UNAUTHORIZED if matches!(credentials, Some(Credentials::User(_))) => {
            "look at --operator and --operator-password-file, COURSER_OPERATOR and COURSER_OPERATOR_PASSWORD_FILE, or the context"
        }
        UNAUTHORIZED => {
            "name the server's DATA/admin.token by --token-file, ask over the socket by --server DATA, or log in by --operator NAME"
        }
        _ => &detail.hint,
    };
    format!("{} (error {}): {hint}", detail.message, detail.code)
}

/// Says what went wrong, and the code for it.
fn fail(error: &ClientError, credentials: Option<&Credentials>) -> Exit {
    eprintln!("courser: {}", plain_lines(&in_words(error, credentials)));
    match error {
        // As of MQTT: what answers something else is not there for us.
        ClientError::Connect { .. } | ClientError::Strange { .. } => Exit::CannotConnect,
        ClientError::NoDryRun { .. } => Exit::Refused,
        ClientError::TimedOut { .. } => Exit::TimedOut,
        ClientError::Refused { status, .. } => match status {
            400 => Exit::Usage,
            401 | 403 | 429 => Exit::NotAuthorized,
            404 => Exit::NotFound,
            409 => Exit::Conflict,
            504 => Exit::TimedOut,
            _ => Exit::Refused,
        },
    }
}
