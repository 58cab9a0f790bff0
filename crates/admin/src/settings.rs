//! The settings of the process in which operators are served: read again when one of them asks.
//!
//! Whoever owns the settings is elsewhere. It gets the orders by [`Reloads`] and says what came of each; routes give them by [`Reloader`].

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot, watch};
use utoipa::ToSchema;

use crate::error::{ApiError, Code};

/// Orders that may wait.
const WAITING_MAX: usize = 4;

/// One value that is another now, or will be after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingChange {
    /// `section.name`, or `list["identity"].name`.
    pub key: String,
    /// Of the kind that it has in a file; null where it was not set.
    pub before: Value,
    /// The same of what it is now.
    pub after: Value,
    /// `at once`, `new connections`, `new sessions` or `restart`.
    pub applies: String,
}

/// What came of reading the settings again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// In force.
    pub applied: Vec<SettingChange>,
    /// In force after the next start.
    pub needs_restart: Vec<SettingChange>,
    /// Names of those that are as they were.
    pub unchanged: Vec<String>,
    /// Of what is in force now: the same for the same values.
    pub digest: String,
}

/// One setting, as it is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingInForce {
    /// Of the kind that it has in a file; null where it is not set. What was drawn by `${…}` is that text.
    pub value: Value,
    /// Where it was set: `default`, a place in a file, a variable or a flag.
    pub origin: String,
    /// When a change takes effect: `at once`, `new connections`, `new sessions` or `restart`.
    pub applies: String,
}

/// The settings of a running server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InForce {
    /// The same for the same values.
    pub digest: String,
    /// By `section.name` or `list["identity"].name`, in the order of the reference: each a [`SettingInForce`].
    #[schema(value_type = std::collections::BTreeMap<String, SettingInForce>)]
    pub settings: Map<String, Value>,
    /// What the files said when they were last read, and counts after the next start.
    pub needs_restart: Vec<SettingChange>,
}

/// Gives the order to read the settings again. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reloader {
    orders: mpsc::Sender<Reload>,
    in_force: watch::Receiver<Arc<InForce>>,
}

/// Takes the orders.
#[derive(Debug)]
pub struct Reloads {
    orders: mpsc::Receiver<Reload>,
    in_force: watch::Sender<Arc<InForce>>,
}

/// One order.
#[derive(Debug)]
pub struct Reload {
    answer: oneshot::Sender<Result<Reloaded, String>>,
}

/// Both ends, for the settings of the start.
#[must_use]
pub fn reloader(in_force: InForce) -> (Reloader, Reloads) {
    let (give, take) = mpsc::channel(WAITING_MAX);
    let (tell, told) = watch::channel(Arc::new(in_force));
    let reloader = Reloader {
        orders: give,
        in_force: told,
    };
    let reloads = Reloads {
        orders: take,
        in_force: tell,
    };
    (reloader, reloads)
}

impl Reloader {
    /// The digest of the settings that are in force.
    #[must_use]
    pub fn digest(&self) -> String {
        self.in_force().digest.clone()
    }

    /// All of them.
    pub(crate) fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.in_force.borrow())
    }

    /// Has them read again.
    ///
    /// # Errors
    /// [`Code::SettingsWrong`] with all that is wrong, one line each: then nothing has changed.
    pub(crate) async fn reload(&self) -> Result<Reloaded, ApiError> {
        let (answer, answered) = oneshot::channel();
        let stopping = || ApiError::new(Code::Unavailable, "the server is stopping");
        match self.orders.try_send(Reload { answer }) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                return Err(ApiError::new(Code::Busy, "settings are being read already"));
            }
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(stopping()),
        }
        match answered.await {
            Ok(Ok(reloaded)) => Ok(reloaded),
            Ok(Err(wrong)) => Err(ApiError::new(Code::SettingsWrong, wrong)),
            Err(_) => Err(stopping()),
        }
    }
}

impl Reloads {
    /// The next order; never, when nobody can give one any more.
    pub async fn next(&mut self) -> Reload {
        match self.orders.recv().await {
            Some(order) => order,
            None => std::future::pending().await,
        }
    }

    /// What is in force from now on.
    pub fn tell(&self, in_force: InForce) {
        self.in_force.send_replace(Arc::new(in_force));
    }
}

impl Reload {
    /// What came of it; an error is all that is wrong, one line each. Nobody may wait any more.
    pub fn answer(self, result: Result<Reloaded, String>) {
        let _ = self.answer.send(result);
    }
}
