//! What a WebSocket listener takes: path and origins of the start, sizes of now.

use std::sync::{Arc, Mutex, PoisonError};

use courser_settings::{ByteSize, Listener};
use courser_transport::{Origins, WebLimits, WebServer};

use super::may_be_public;
use crate::config::Config;
use crate::live::Live;
use crate::peer::ListenerId;

/// See the module. The lock is taken once a connection.
#[derive(Debug)]
pub(super) struct Web {
    live: Arc<Live>,
    id: ListenerId,
    /// Made of the settings of this version.
    made: Mutex<(u64, Arc<WebServer>)>,
}

impl Web {
    pub(super) fn new(listener: &Listener, id: ListenerId, live: &Arc<Live>) -> Self {
        let origins = origins(listener, &live.get());
        // Before the settings: a change in between is taken once more.
        let version = live.version();
        let server = WebServer {
            path: listener.path.clone(),
            origins,
            limits: limits(id, &live.get()),
        };
        Self {
            live: Arc::clone(live),
            id,
            made: Mutex::new((version, Arc::new(server))),
        }
    }

    /// What a connection gets that comes now.
    pub(super) fn server(&self) -> Arc<WebServer> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.live.version();
        if made.0 != version {
            let server = WebServer {
                limits: limits(self.id, &self.live.get()),
                ..WebServer::clone(&made.1)
            };
            *made = (version, Arc::new(server));
        }
        Arc::clone(&made.1)
    }
}

/// Which pages may connect. Where everybody of this machine is let in, that is not every page that somebody of this machine looks at.
fn origins(listener: &Listener, config: &Config) -> Origins {
    let named = listener.origins.iter();
    let named: Vec<String> = named.map(|it| it.as_str().to_owned()).collect();
    if !named.is_empty() {
        Origins::Only(named)
    } else if may_be_public(&config.settings, listener, config.anonymous) {
        Origins::Any
    } else {
        Origins::Local
    }
}

fn limits(id: ListenerId, config: &Config) -> WebLimits {
    let mqtt = config.mqtt(id);
    let bytes = |size: ByteSize| usize::try_from(size.bytes()).unwrap_or(usize::MAX);
    WebLimits {
        first: bytes(mqtt.connect_bytes_max),
        later: bytes(mqtt.packet_bytes_max),
    }
}
