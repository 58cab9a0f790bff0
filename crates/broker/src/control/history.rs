//! What happened to clients of late, on one shard: so that "why was it disconnected" has an answer.
//!
//! Two bounded memories: the last events of all, for those who watch, and the last few of each client id, so that one client that
//! comes and goes without end does not push out what happened to the others. A client that has connected and nothing more is not in
//! the second one: its connection knows since when it is there, and thousands of them cost nothing here.
//!
//! Connections that came with a client id and never got its session are apart ([`refused`]): anybody who may connect can name the client
//! id of somebody else. The newest of them is kept for each, in a memory of the same bound, so that they push out nothing that has happened.
//!
//! What a client was denied is its last one only, beside its events: a client that asks again and again pushes out nothing.
//!
//! Beside its number of events each memory has a bound in bytes, a part of `memory.max`: client ids are as long as clients like.

mod past;
mod refused;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use courser_contract::{CloseCause, WallMs, WhyRefused};
use courser_mqtt::codec::ReasonCode;

use past::Pasts;
use refused::Refused;

/// Events that are kept for those who watch.
const WATCHED_MAX: usize = 1_024;
/// Client ids with events, and as many that were refused; the one that nothing has happened to for the longest time goes first.
const CLIENTS_MAX: usize = 8_192;
/// The part of `memory.max` that the histories of all shards may take, one divided by this. Half of it is for what happened to clients, a
/// quarter for those who were refused, a quarter for those who watch.
const MEMORY_PART: u64 = 32;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// Its session was attached to a connection.
    Connected,
    /// Its connection ended.
    Closed(CloseCause),
    /// It asked for what it has no right to.
    Denied(Deed),
}

/// What a client has no right to do with a topic or filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// To publish there.
    Publish,
    /// To subscribe to it.
    Subscribe,
    /// To share a subscription to it, the filter behind the share name.
    SubscribeShared,
}

impl Deed {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
            Self::SubscribeShared => "subscribe_shared",
        }
    }

    /// The same for people, with what comes before a topic.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Publish => "it may not publish to",
            Self::Subscribe => "it may not subscribe to",
            Self::SubscribeShared => "it may not share a subscription to",
        }
    }
}

/// The same words for the log, which says what they are of, and for who asks what happened.
macro_rules! words_of_refusals {
    ($($Why:ident: $words:literal,)+) => {
        /// Why a client was refused, for people.
        pub(crate) const fn why_words(why: WhyRefused) -> &'static str {
            match why {
                WhyRefused::ByReason => "see the reason code",
                $(WhyRefused::$Why => $words,)+
            }
        }

        const fn refused_words(why: WhyRefused) -> &'static str {
            match why {
                WhyRefused::ByReason => "the server refused the client",
                $(WhyRefused::$Why => concat!("the server refused the client: ", $words),)+
            }
        }

        #[cfg(test)]
        const REFUSALS: &[WhyRefused] = &[WhyRefused::ByReason, $(WhyRefused::$Why,)+];
    };
}

words_of_refusals! {
    WrongPassword: "the user name or the password is wrong",
    DearHash: "the hash of its user's password takes more memory than a login may: set the password anew, or give more memory.max",
    UnknownUser: "no user has the name that it says",
    WrongToken: "the token does not prove who the client is",
    WrongProof: "what it answered does not prove that it is the user that it says",
    NothingShown: "it came with nothing that proves who it is",
    OtherName: "it says another name than its certificate or its token",
    NotAUser: "its user is not there, or is disabled",
    OtherUser: "it logged in again as another user",
    Will: "its user may not publish to the topic of its will",
    OtherOwner: "its client id is that of another user",
    AddressFailed: "too many logins from its address have failed: it waits",
    Crowded: "logins of so many addresses have failed that no more can be remembered: it may come again",
    Full: "too many logins, of its address or of all, wait: it may come again",
    UsersUnknown: "users and roles are not known yet",
    NotServed: "its session is not served at the moment",
    NoAnswer: "its session did not answer in time",
    UserConnections: "its user has as many connections as it may have",
    UserSessions: "its user keeps as many sessions as it may keep: the limit `sessions`",
    ForeignClientId: "the listener gives its user no such client id: client_ids",
    WillRate: "it has published more than it may, and its will counts as a publish",
    Sessions: "there are as many sessions as there may be",
    Memory: "memory is short",
    Disk: "the disk is short of room: clients that have a session come in, with a small will or none",
    NoSuchMethod: "the listener has no such authentication method",
}

// Codes that say more than the kind of ending does.
const NOT_AUTHORIZED: u8 = ReasonCode::NotAuthorized.byte();
const QUOTA_EXCEEDED: u8 = ReasonCode::QuotaExceeded.byte();
const USE_ANOTHER_SERVER: u8 = ReasonCode::UseAnotherServer.byte();
const SERVER_MOVED: u8 = ReasonCode::ServerMoved.byte();
const MAXIMUM_CONNECT_TIME: u8 = ReasonCode::MaximumConnectTime.byte();

/// Why a connection ended, for people.
#[must_use]
pub const fn cause_words(cause: CloseCause) -> &'static str {
    match cause {
        CloseCause::Disconnect => "the client said good-bye",
        CloseCause::Lost => "the socket was closed without a word: network, or the client has died",
        CloseCause::Fault(_) => "the client broke a rule of the protocol",
        CloseCause::KeepAlive => "nothing was heard of the client for 1.5 times its keep-alive",
        CloseCause::ConnectTimeout => "no CONNECT came in time",
        CloseCause::LoginTimeout => "the client did not answer its login in time",
        CloseCause::LoginWaited => {
            "the login waited for too long: too many came at once, of its address or of all"
        }
        CloseCause::TakenOver => "another connection came with the same client id",
        CloseCause::Refused(USE_ANOTHER_SERVER, WhyRefused::ByReason) => {
            "the client was sent to another server, for now"
        }
        CloseCause::Refused(SERVER_MOVED, WhyRefused::ByReason) => {
            "the client was sent to another server, for good"
        }
        CloseCause::Refused(QUOTA_EXCEEDED, WhyRefused::ByReason) => {
            "the server refused the client: its will is larger than what may be retained"
        }
        CloseCause::Refused(_, why) => refused_words(why),
        CloseCause::Revoked(MAXIMUM_CONNECT_TIME) => "the token of the client has ended",
        CloseCause::Revoked(_) => "the right of the client to be here was revoked",
        CloseCause::ShareRevoked => {
            "a shared subscription of the client is not allowed any more: its rights have changed"
        }
        CloseCause::PublishRefused(NOT_AUTHORIZED) => {
            "the client published where it may not, which its version of MQTT can be told by the end of the connection alone"
        }
        CloseCause::PublishRefused(_) => {
            "a publish of the client was refused: too large, over a limit, or no room; its version of MQTT can be told by the end of the connection alone"
        }
        CloseCause::PublishTimeout => "a publish of the client could not be stored in time",
        CloseCause::Stalled => "memory was short, and the client did not read what it was sent",
        CloseCause::Unfinished => {
            "memory was short, and the client did not end a large packet that it had begun"
        }
        CloseCause::Panicked => "the server made a fault of its own; its log says more",
        CloseCause::Administrative => "an operator closed the connection",
        CloseCause::ServerStops => "the server was stopped",
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastEvent {
    /// When.
    pub at: WallMs,
    /// Whose; empty before a CONNECT has named it.
    pub client_id: Arc<str>,
    /// What.
    pub what: Happened,
    /// The other end of its socket, where that is known.
    pub address: Option<SocketAddr>,
    /// Of what it was denied: the topic name or filter, cut where it is long.
    pub topic: Option<Arc<str>>,
}

/// What a text takes that others share.
const fn text_bytes(text: &str) -> usize {
    size_of::<[usize; 2]>() + text.len()
}

impl PastEvent {
    /// What it takes with its texts, which are counted as if no other event shared them.
    fn bytes(&self) -> usize {
        let topic = self.topic.as_deref().map_or(0, text_bytes);
        size_of::<Self>() + text_bytes(&self.client_id) + topic
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct History {
    /// Number of the next event of all, and of the next one for those who watch.
    number: u64,
    next: u64,
    watched: VecDeque<PastEvent>,
    watched_bytes: usize,
    watched_bytes_max: usize,
    /// What has happened to sessions.
    clients: Pasts,
    /// Ends of connections that never got one.
    refused: Refused,
}

impl History {
    /// Of one of so many shards of a process that may have so many bytes.
    pub(crate) fn new(memory_max: u64, shards: u16) -> Self {
        let share = memory_max / MEMORY_PART / u64::from(shards.max(1));
        let share = usize::try_from(share).unwrap_or(usize::MAX);
        Self {
            number: 0,
            next: 0,
            watched: VecDeque::new(),
            watched_bytes: 0,
            watched_bytes_max: share / 4,
            clients: Pasts::new(CLIENTS_MAX, share / 2),
            refused: Refused::new(CLIENTS_MAX.min(share / 4 / refused::EACH_BYTES)),
        }
    }

    /// Notes an event. `since` is when the connection that it is of was there, if a session was ever attached to it.
    pub(crate) fn note(&mut self, event: PastEvent, since: Option<WallMs>) {
        let number = self.take_number();
        self.refused.expire(event.at);
        if !event.client_id.is_empty() {
            self.note_of_known(number, &event, since);
        }
        self.show(event);
    }

    /// Whether the same was denied to a client within the last minute. Then it was now: the time of that counts on.
    pub(crate) fn was_denied_of_late(
        &mut self,
        now: WallMs,
        client_id: &str,
        denied: (Deed, &str),
    ) -> bool {
        self.clients.was_denied_of_late(now, client_id, denied)
    }

    /// Notes the last thing that a client was denied, for who asks about the client.
    pub(crate) fn note_denied(&mut self, event: &PastEvent) {
        let number = self.take_number();
        self.clients.note_denied(number, event);
    }

    fn take_number(&mut self) -> u64 {
        let number = self.number;
        self.number += 1;
        number
    }

    /// For those who watch.
    pub(crate) fn show(&mut self, event: PastEvent) {
        self.next += 1;
        self.watched_bytes += event.bytes();
        self.watched.push_back(event);
        while self.watched.len() > WATCHED_MAX || self.watched_bytes > self.watched_bytes_max {
            let gone = self.watched.pop_front();
            self.watched_bytes -= gone.map_or(self.watched_bytes, |gone| gone.bytes());
        }
    }

    /// Begins a client's past with its first connection when that ends, not when it begins.
    fn note_of_known(&mut self, number: u64, event: &PastEvent, since: Option<WallMs>) {
        let is_known = self.clients.knows(&event.client_id);
        match (event.what, since) {
            (Happened::Connected, _) if !is_known => return,
            (Happened::Connected | Happened::Denied(_), _) => {}
            (Happened::Closed(_), None) => return self.refused.note(number, event),
            (Happened::Closed(_), Some(_)) if is_known => {}
            (Happened::Closed(_), Some(at)) => {
                let connected = PastEvent {
                    at,
                    what: Happened::Connected,
                    ..event.clone()
                };
                self.clients.note(number, &connected);
            }
        }
        self.clients.note(number, event);
    }

    /// Memory is short: what anybody can fill without a login is forgotten.
    pub(crate) fn forget_refused(&mut self) {
        self.refused.clear();
    }

    /// The last events of a client id, oldest first.
    pub(crate) fn of_client(&self, client_id: &str) -> Vec<PastEvent> {
        let refused = self.refused.of_client(client_id);
        let mut all: Vec<_> = self.clients.of_client(client_id).chain(refused).collect();
        all.sort_by_key(|(number, _)| *number);
        let name = Arc::from(client_id);
        let past = all.into_iter().map(|(_, past)| past.with(&name));
        let mut all: Vec<_> = past.chain(self.clients.denied(&name)).collect();
        all.sort_by_key(|event| event.at);
        all
    }

    /// Events from number `from` on, at most `limit`, with the number to go on with. `u64::MAX`: none, from now on.
    pub(crate) fn from(&self, from: u64, limit: usize) -> (Vec<PastEvent>, u64) {
        let first = self.next - self.watched.len() as u64;
        let begin = from.clamp(first, self.next);
        let skip = usize::try_from(begin - first).unwrap_or(usize::MAX);
        let events: Vec<_> = self
            .watched
            .iter()
            .skip(skip)
            .take(limit)
            .cloned()
            .collect();
        let next = begin + events.len() as u64;
        (events, next)
    }
}

#[cfg(test)]
mod tests;
