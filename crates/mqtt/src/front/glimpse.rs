//! What a CONNECT says that the front has not handled yet: the shell may take the connection to another shard first.

use super::connect::{expiry_asked, split_first};
use super::{Front, Phase};
use crate::codec::{Connect, Split};

/// How long a session lives that a CONNECT asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionSpan {
    /// It ends with its connection.
    Connection,
    /// It may outlive it.
    Kept,
}

/// What decides where a connection is served best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glimpse<'a> {
    /// As the client sent it; empty when it leaves the choice to the server.
    pub client_id: &'a str,
    /// How long its session lives.
    pub span: SessionSpan,
}

impl Front {
    /// Reads ahead in what [`handle_bytes`](Self::handle_bytes) will be given, and changes nothing. `None` once CONNECT was
    /// handled, while it is not whole, and where it is no CONNECT or a bad one: those are for `handle_bytes` to answer. Costs one
    /// decoding of a CONNECT, afterwards one comparison.
    #[must_use]
    #[inline]
    pub fn glimpse<'a>(&self, data: &'a [u8]) -> Option<Glimpse<'a>> {
        match self.phase {
            Phase::AwaitConnect => self.read_ahead(data),
            Phase::Connecting(_) | Phase::Attached | Phase::Closed => None,
        }
    }

    #[cold]
    fn read_ahead<'a>(&self, data: &'a [u8]) -> Option<Glimpse<'a>> {
        let Ok(Split::Whole(frame)) = split_first(data, self.config.connect_bytes_max) else {
            return None;
        };
        let connect = Connect::decode(&frame, &self.config.limits).ok()?;
        let asked = expiry_asked(&connect, &self.config);
        Some(Glimpse {
            client_id: connect.client_id.as_str(),
            span: match asked.min(self.config.session_expiry_max_seconds) {
                0 => SessionSpan::Connection,
                _ => SessionSpan::Kept,
            },
        })
    }
}
