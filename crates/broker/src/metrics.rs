//! What a shard counts. Plain numbers of one thread, summed when somebody asks.

use courser_contract::{CloseCause, Dropped};
use courser_mqtt::codec::PacketType;
use courser_mqtt::front::PacketNumbers;

/// Types of packets that a client may send, with their numbers.
pub const PACKETS: [(&str, usize); 11] = [
    ("connect", PacketType::Connect as usize),
    ("publish", PacketType::Publish as usize),
    ("puback", PacketType::Puback as usize),
    ("pubrec", PacketType::Pubrec as usize),
    ("pubrel", PacketType::Pubrel as usize),
    ("pubcomp", PacketType::Pubcomp as usize),
    ("subscribe", PacketType::Subscribe as usize),
    ("unsubscribe", PacketType::Unsubscribe as usize),
    ("pingreq", PacketType::Pingreq as usize),
    ("disconnect", PacketType::Disconnect as usize),
    ("auth", PacketType::Auth as usize),
];

/// Versions, in the order of their counters.
pub const VERSIONS: [&str; 2] = ["3.1.1", "5.0"];

/// What has come of logins, where clients have to log in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginCounts {
    /// Who came in.
    pub accepted: u64,
    /// Who did not.
    pub refused: u64,
    /// Of these, who has a password hash that takes more memory than a login may.
    pub dear_hash: u64,
    /// What had to wait for its turn.
    pub queued: u64,
    /// Of these, what did not wait for it: its connection ended, or its time did.
    pub gave_up: u64,
}

impl LoginCounts {
    /// Adds another shard's.
    pub(crate) fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.dear_hash += other.dear_hash;
        self.queued += other.queued;
        self.gave_up += other.gave_up;
    }
}

/// Makes of one table the reasons in the order of their counters, and their words in reports.
macro_rules! dropped {
    ($($why:ident = $name:literal),+ $(,)?) => {
        /// Reasons for which messages were not delivered.
        pub const DROPPED: [Dropped; [$($name),+].len()] = [$(Dropped::$why),+];

        /// The word for a reason in reports.
        #[must_use]
        pub const fn dropped_name(why: Dropped) -> &'static str {
            match why {
                $(Dropped::$why => $name),+
            }
        }
    };
}

dropped![
    NoSubscriber = "no_subscriber",
    QueueFull = "queue_full",
    Expired = "expired",
    TooLarge = "too_large",
    OutputFull = "output_full",
    Offline = "offline",
    Rejected = "rejected",
    RetainedFull = "retained_full",
    Damaged = "damaged",
    Denied = "denied",
    TooOld = "too_old",
    Quota = "quota",
    DiskFull = "disk_full",
    OverLimit = "over_limit",
    AuthorDenied = "author_denied",
];

/// Makes of one table the words for kinds of endings, and which of them is that of a cause.
macro_rules! closes {
    ($($cause:ident $(($fields:tt))? = $name:literal),+ $(,)?) => {
        /// Kinds of endings of connections, in the order of their counters.
        pub const CLOSES: [&str; [$($name),+].len()] = [$($name),+];

        /// The counter of a kind of ending. Reason codes have counters of their own, [`Reasons`].
        #[must_use]
        pub const fn close_index(cause: CloseCause) -> usize {
            enum Place {
                $($cause),+
            }
            let place = match cause {
                $(CloseCause::$cause $(($fields))? => Place::$cause),+
            };
            place as usize
        }
    };
}

closes![
    Disconnect = "disconnect",
    Lost = "lost",
    Fault(..) = "fault",
    KeepAlive = "keep_alive",
    ConnectTimeout = "connect_timeout",
    TakenOver = "taken_over",
    Refused(..) = "refused",
    Administrative = "administrative",
    ServerStops = "server_stops",
    LoginTimeout = "login_timeout",
    LoginWaited = "login_waited",
    Revoked(..) = "revoked",
    ShareRevoked = "share_revoked",
    PublishRefused(..) = "publish_refused",
    PublishTimeout = "publish_timeout",
    Stalled = "stalled",
    Unfinished = "unfinished",
    Panicked = "panicked",
];

/// The first reason code that is an error (v5 section 2.4).
const REASON_FIRST: u8 = 0x80;
/// Counters from there to 0xA2, the last code of MQTT 5.0.
const REASONS: usize = 35;

/// Connections that a fault of the client or a refusal has ended, by reason code; 3.1.1 has the codes of 5.0 here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasons([u64; REASONS]);

impl Default for Reasons {
    fn default() -> Self {
        Self([0; REASONS])
    }
}

impl Reasons {
    /// Counts an ending that has a reason code.
    pub fn count(&mut self, cause: CloseCause) {
        let code = match cause {
            CloseCause::Fault(_)
            | CloseCause::Refused(..)
            | CloseCause::Revoked(_)
            | CloseCause::ShareRevoked
            | CloseCause::PublishRefused(_)
            | CloseCause::PublishTimeout
            | CloseCause::Unfinished => cause.reason_code(),
            // Each has one reason at most, and a counter of its own.
            CloseCause::Disconnect
            | CloseCause::Lost
            | CloseCause::KeepAlive
            | CloseCause::ConnectTimeout
            | CloseCause::LoginTimeout
            | CloseCause::LoginWaited
            | CloseCause::TakenOver
            | CloseCause::Stalled
            | CloseCause::Panicked
            | CloseCause::Administrative
            | CloseCause::ServerStops => None,
        };
        let place = code
            .and_then(|code| code.checked_sub(REASON_FIRST))
            .map(usize::from);
        if let Some(counter) = place.and_then(|place| self.0.get_mut(place)) {
            *counter += 1;
        }
    }

    /// Codes with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (u8, u64)> {
        (REASON_FIRST..).zip(self.0)
    }

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

/// Counters of one shard, all since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sockets accepted.
    pub sockets: u64,
    /// Connections given to another shard with their CONNECT.
    pub sockets_moved: u64,
    /// Sessions attached to a connection: accepted CONNECTs.
    pub connects: u64,
    /// Connections that ended, by [`CLOSES`].
    pub closes: [u64; CLOSES.len()],
    /// Those of them that have a reason code.
    pub reasons: Reasons,
    /// Messages not delivered, by [`DROPPED`].
    pub dropped: [u64; DROPPED.len()],
    /// Sockets closed at once because there were as many as may be.
    pub over_limit: u64,
    /// Times that accepting failed for want of descriptors or memory.
    pub accept_failures: u64,
    /// Bytes read.
    pub bytes_received: u64,
    /// Bytes written.
    pub bytes_sent: u64,
    /// Publishes received, by QoS.
    pub publishes_received_by_qos: [u64; 3],
    /// Bytes of their payloads.
    pub publish_bytes_received: u64,
    /// Deliveries given to fronts, less those that they dropped.
    pub publishes_sent: u64,
    /// Bytes of their payloads.
    pub publish_bytes_sent: u64,
    /// Deliveries that were gathered for many receivers at once.
    pub deliveries_gathered: u64,
    /// Packets received, by version and type.
    pub packets_received: PacketNumbers,
    /// Packets sent, of every type.
    pub packets_sent: u64,
    /// Times that a publisher was not read for a moment because it is faster than a session that gets its messages.
    pub publishers_slowed: u64,
    /// Times that a client was not read for a while because it had published more than its user may.
    pub publishers_over_quota: u64,
    /// Connections that were closed because memory was short and they held much of it without going on.
    pub closed_for_memory: u64,
    /// Connections that were closed because their front panicked (M50): each is a fault of ours.
    pub fronts_panicked: u64,
    /// Times that a partition which is kept began or ceased to be led by this node.
    pub leader_changes: u64,
    /// Turns.
    pub turns: u64,
    /// Longest turn in microseconds of the thread's CPU time.
    pub longest_turn_us: u64,
    /// The longest of what a turn did for a checkpoint, in microseconds of the thread's CPU time.
    pub longest_save_us: u64,
    /// Most connections that closed in one turn.
    pub most_closed_in_turn: u64,
    /// Most connections that were let in in one turn.
    pub most_let_in_in_turn: u64,
    /// Most reads of sockets in one turn.
    pub most_read_in_turn: u64,
    /// Most sockets that were written to at the end of one turn.
    pub most_written_in_turn: u64,
    /// The most messages that one turn has handed to connections.
    pub most_delivered_in_turn: u64,
}

impl Counters {
    /// Counts messages that were not delivered.
    pub const fn drop_messages(&mut self, why: Dropped, messages: u64) {
        self.dropped[why as usize] += messages;
    }

    /// Publishes received, of every QoS.
    #[inline]
    #[must_use]
    pub const fn publishes_received(&self) -> u64 {
        let [qos_0, qos_1, qos_2] = self.publishes_received_by_qos;
        qos_0 + qos_1 + qos_2
    }

    /// Packets received, of every type and both versions.
    #[must_use]
    pub fn packets_received(&self) -> u64 {
        self.packets_received.as_flattened().iter().sum()
    }

    /// Messages that were not delivered for whatever reason but that nobody wanted them.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        let unwanted = self.dropped[Dropped::NoSubscriber as usize];
        self.dropped.iter().sum::<u64>() - unwanted
    }

    /// Those that are single numbers, by their names in the last line of a broker's log.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("sockets", self.sockets),
            ("sockets_moved", self.sockets_moved),
            ("sessions_attached", self.connects),
            ("connections_over_limit", self.over_limit),
            ("accept_failures", self.accept_failures),
            ("bytes_received", self.bytes_received),
            ("bytes_sent", self.bytes_sent),
            ("packets_received", self.packets_received()),
            ("packets_sent", self.packets_sent),
            ("publishes_received", self.publishes_received()),
            ("publishes_sent", self.publishes_sent),
            ("deliveries_gathered", self.deliveries_gathered),
            ("publishers_slowed", self.publishers_slowed),
            ("publishers_over_quota", self.publishers_over_quota),
            ("closed_for_memory", self.closed_for_memory),
            ("fronts_panicked", self.fronts_panicked),
            ("leader_changes", self.leader_changes),
            ("turns", self.turns),
            ("longest_turn_us", self.longest_turn_us),
            ("longest_save_us", self.longest_save_us),
            ("most_closed_in_turn", self.most_closed_in_turn),
            ("most_let_in_in_turn", self.most_let_in_in_turn),
            ("most_read_in_turn", self.most_read_in_turn),
            ("most_written_in_turn", self.most_written_in_turn),
            ("most_delivered_in_turn", self.most_delivered_in_turn),
        ]
        .into_iter()
    }

    /// Adds another shard's.
    pub(crate) fn add(&mut self, other: &Self) {
        // Each by its name: one that is forgotten does not compile.
        let Self {
            sockets,
            sockets_moved,
            connects,
            closes,
            ref reasons,
            dropped,
            over_limit,
            accept_failures,
            bytes_received,
            bytes_sent,
            publishes_received_by_qos,
            publish_bytes_received,
            publishes_sent,
            publish_bytes_sent,
            deliveries_gathered,
            packets_received,
            packets_sent,
            publishers_slowed,
            publishers_over_quota,
            closed_for_memory,
            fronts_panicked,
            leader_changes,
            turns,
            longest_turn_us,
            longest_save_us,
            most_closed_in_turn,
            most_let_in_in_turn,
            most_read_in_turn,
            most_written_in_turn,
            most_delivered_in_turn,
        } = *other;
        let pairs = [
            (&mut self.sockets, sockets),
            (&mut self.sockets_moved, sockets_moved),
            (&mut self.leader_changes, leader_changes),
            (&mut self.connects, connects),
            (&mut self.over_limit, over_limit),
            (&mut self.accept_failures, accept_failures),
            (&mut self.bytes_received, bytes_received),
            (&mut self.bytes_sent, bytes_sent),
            (&mut self.publish_bytes_received, publish_bytes_received),
            (&mut self.publishes_sent, publishes_sent),
            (&mut self.publish_bytes_sent, publish_bytes_sent),
            (&mut self.deliveries_gathered, deliveries_gathered),
            (&mut self.packets_sent, packets_sent),
            (&mut self.publishers_slowed, publishers_slowed),
            (&mut self.publishers_over_quota, publishers_over_quota),
            (&mut self.closed_for_memory, closed_for_memory),
            (&mut self.fronts_panicked, fronts_panicked),
            (&mut self.turns, turns),
        ];
        for (mine, theirs) in pairs {
            *mine += theirs;
        }
        for (mine, theirs) in self.closes.iter_mut().zip(closes) {
            *mine += theirs;
        }
        self.reasons.add(reasons);
        let by_qos = self.publishes_received_by_qos.iter_mut();
        for (mine, theirs) in by_qos.zip(publishes_received_by_qos) {
            *mine += theirs;
        }
        for (mine, theirs) in self.dropped.iter_mut().zip(dropped) {
            *mine += theirs;
        }
        let mine = self.packets_received.as_flattened_mut().iter_mut();
        for (mine, theirs) in mine.zip(packets_received.as_flattened()) {
            *mine += theirs;
        }
        self.longest_turn_us = self.longest_turn_us.max(longest_turn_us);
        self.longest_save_us = self.longest_save_us.max(longest_save_us);
        self.most_closed_in_turn = self.most_closed_in_turn.max(most_closed_in_turn);
        self.most_let_in_in_turn = self.most_let_in_in_turn.max(most_let_in_in_turn);
        self.most_read_in_turn = self.most_read_in_turn.max(most_read_in_turn);
        self.most_written_in_turn = self.most_written_in_turn.max(most_written_in_turn);
        self.most_delivered_in_turn = self.most_delivered_in_turn.max(most_delivered_in_turn);
    }
}

// The number of a reason is the place of its counter.
const _: () = {
    let mut at = 0;
    while at < DROPPED.len() {
        assert!(DROPPED[at] as usize == at);
        at += 1;
    }
};
