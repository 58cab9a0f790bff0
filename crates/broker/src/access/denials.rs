//! What the log says of clients that ask for what they have no right to: whose rights are wrong, or who tries, in as many lines as somebody
//! reads.

use std::net::SocketAddr;
use std::time::Instant;

use crate::control::Deed;
use crate::lines::Lines;
use crate::peer::Peer;

/// What a client was denied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denial<'a> {
    pub(crate) client_id: &'a str,
    /// As whom it has logged in.
    pub(crate) user: Option<&'a str>,
    pub(crate) deed: Deed,
    /// Topic name or filter, cut where it is long.
    pub(crate) topic: &'a str,
}

/// The lines of a process.
#[derive(Debug, Default)]
pub(crate) struct Denials(Lines);

impl Denials {
    /// Counts one that is not written: the same has been not long ago.
    pub(super) fn leave_out(&self) {
        self.0.leave_out();
    }

    /// Writes the line unless there have been enough of late; whether it did.
    pub(super) fn tell(&self, denial: &Denial<'_>, peer: Option<&Peer>) -> bool {
        let Some(left_out) = self.0.admit(Instant::now()) else {
            return false;
        };
        let address: Option<SocketAddr> = peer.and_then(|peer| peer.address);
        tracing::warn!(
            event = "denied",
            client_id = denial.client_id,
            user = denial.user,
            action = denial.deed.name(),
            topic = denial.topic,
            address = address.map(tracing::field::display),
            listener = peer.map(|peer| &*peer.entrance.name),
            left_out,
            "a client has no right to what it asked for"
        );
        true
    }
}
