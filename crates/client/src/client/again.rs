//! A connection in the place of one that was lost.
//!
//! A session has two sides (v5 section 4.1). The client's own are the packet ids of the QoS 2 messages that it has got and whose PUBREL has not
//! come, without which a message that the broker sends again would be taken twice; and the message that is under way. They are
//! carried over when the broker still has its side, and are of no use when it has not.

use courser_mqtt::codec::ProtocolVersion;

use super::Client;
use crate::{ClientError, Options, VersionChoice};

/// What the broker had of a client's session when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Nothing: there are no subscriptions.
    New,
    /// All of it, also what came meanwhile.
    Resumed,
}

impl SessionState {
    pub(super) const fn of(is_present: bool) -> Self {
        match is_present {
            true => Self::Resumed,
            false => Self::New,
        }
    }
}

impl Client {
    /// Connects again with the options of the first time, and takes up the session if it was to outlive its connection. Until that works the
    /// client is as it was.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_again(&mut self, options: &Options) -> Result<SessionState, ClientError> {
        let mut client = Self::connect(&self.coming_back(options))?;
        client.assigned_client_id = client
            .assigned_client_id
            .or_else(|| self.assigned_client_id.take());
        match client.session {
            SessionState::New => {}
            SessionState::Resumed => {
                client.held = std::mem::take(&mut self.held);
                client.under_way = self.under_way;
                client.next_packet_id = self.next_packet_id;
            }
        }
        *self = client;
        Ok(self.session)
    }

    /// The version is known by now: a broker that stops while it is asked would be taken for one that does not have it.
    fn coming_back(&self, options: &Options) -> Options {
        let (version, is_kept) = match self.version() {
            ProtocolVersion::V5 => (VersionChoice::V5, options.session_expiry > 0),
            ProtocolVersion::V311 => (VersionChoice::V311, !options.clean_start),
        };
        let mut again = options.clone();
        again.version = version;
        if is_kept {
            again.clean_start = false;
            if let Some(assigned) = &self.assigned_client_id
                && again.client_id.is_empty()
            {
                again.client_id.clone_from(assigned);
            }
        }
        again
    }
}
