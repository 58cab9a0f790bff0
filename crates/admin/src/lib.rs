//! What operators use: an HTTP API, metrics and health of a running broker, and the client of that API behind the commands.
//!
//! [`Admin::start`] serves on a thread with a runtime of its own, never on a shard. It knows the broker by its
//! [`Control`] only: questions laid on the desks of the shards, answers in pages.
//!
//! | path | who may |
//! |---|---|
//! | `/healthz`, `/readyz` | anyone who reaches the address |
//! | `/metrics` | anyone on this machine; elsewhere as for the API |
//! | `/api/v1/…` | with the token (`Authorization: Bearer`); over the socket `admin.sock` the user of the broker, and root; users by name and password (`Authorization: Basic`), as far as `administration` of their roles goes |
//! | `/api`, `/api/v1/openapi.json` | anyone who reaches the address: what the API is, nothing of the broker |
//!
//! # Adding routes
//! A module of `routes` has a function `routes() -> OpenApiRouter<AppState>`; `routes::router` merges it behind the check of who
//! asks. Handlers get the [`Principal`](access::Principal) as an extension and answer errors as [`ApiError`](error::ApiError).
#![forbid(unsafe_code)]

pub mod access;
mod answers;
pub mod api;
pub mod client;
mod convert;
pub mod error;
mod list;
pub mod metrics;
mod pace;
mod routes;
mod seats;
mod serve;
pub mod settings;
mod token;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use courser_broker::Control;
use courser_memory::{Component, Scope};
use tokio::sync::watch;

use crate::answers::Rooms;
pub use crate::serve::BindError;
use crate::serve::Listeners;
pub use crate::settings::{InForce, Reloader, Reloads, reloader};
pub use crate::token::{CurrentToken, Token, TokenError};

/// Name of the Unix socket in a data folder.
pub const ADMIN_SOCKET: &str = "admin.sock";

/// Where to serve, and who may ask.
#[derive(Clone, Debug, Default)]
pub struct AdminConfig {
    /// Addresses; port 0: a free one.
    pub listen: Vec<SocketAddr>,
    /// Path of the Unix socket; none: there is no folder for it.
    pub socket: Option<PathBuf>,
    /// File of the token, made when it is not there; none: nobody has a token.
    pub token_file: Option<PathBuf>,
    /// Reads the settings again; none: that cannot be done here.
    pub reloader: Option<Reloader>,
    /// The commit that the program is built of, as far as it is known.
    pub commit: Option<&'static str>,
}

/// Why operators are not served.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// An address or the socket.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The thread or its runtime.
    #[error("cannot start the thread that serves operators")]
    Thread(#[source] io::Error),
}

/// What every handler may use.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) control: Control,
    pub(crate) answers: Arc<Rooms>,
    pub(crate) token: Option<Arc<CurrentToken>>,
    pub(crate) started: Instant,
    pub(crate) reloader: Option<Reloader>,
    pub(crate) commit: Option<&'static str>,
}

/// The thread that serves operators. Ends when it is dropped.
pub struct Admin {
    addresses: Vec<SocketAddr>,
    socket: Option<PathBuf>,
    token: Option<Arc<CurrentToken>>,
    stop: watch::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin")
            .field("addresses", &self.addresses)
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl Admin {
    /// Binds all addresses and the socket, reads or makes the token, and serves from then on.
    ///
    /// # Errors
    /// [`AdminError`]; nothing is left running.
    pub fn start(config: &AdminConfig, control: Control) -> Result<Self, AdminError> {
        let token = config.token_file.as_deref().map(CurrentToken::load);
        let token = token.transpose()?.map(Arc::new);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(AdminError::Thread)?;
        let listeners = {
            let _inside = runtime.enter();
            Listeners::bind(&config.listen, config.socket.as_deref())?
        };
        let addresses = listeners.addresses();
        let state = AppState {
            answers: Rooms::new(control.memory_max()),
            control,
            token: token.clone(),
            started: Instant::now(),
            reloader: config.reloader.clone(),
            commit: config.commit,
        };
        let (stop, stopped) = watch::channel(());
        let thread = thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || {
                let _scope = Scope::enter(Component::Control);
                runtime.block_on(serve::run(listeners, state, stopped))
            })
            .map_err(AdminError::Thread)?;
        Ok(Self {
            addresses,
            socket: config.socket.clone(),
            token,
            stop,
            thread: Some(thread),
        })
    }

    /// Where it listens, with the ports that were chosen.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The token that counts; none: nobody has one.
    #[must_use]
    pub fn token(&self) -> Option<Arc<CurrentToken>> {
        self.token.clone()
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            // Its panic was printed when it happened.
            let _ = thread.join();
        }
        if let Some(socket) = &self.socket {
            // The next start would remove it as well.
            let _ = std::fs::remove_file(socket);
        }
    }
}
