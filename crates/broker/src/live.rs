//! Settings of a running broker: whoever changes them leaves the new ones here, and each shard takes them at its next turn.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::Config;

/// The present settings and how often they have changed.
#[derive(Debug)]
pub(crate) struct Live {
    version: AtomicU64,
    config: Mutex<Arc<Config>>,
}

impl Live {
    /// Those of the start, version 0.
    pub(crate) fn new(config: Arc<Config>) -> Self {
        Self {
            version: AtomicU64::new(0),
            config: Mutex::new(config),
        }
    }

    /// Other ones.
    pub(crate) fn set(&self, config: Arc<Config>) {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The present ones.
    pub(crate) fn get(&self) -> Arc<Config> {
        Arc::clone(&self.config.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes when the settings do. One load.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}
