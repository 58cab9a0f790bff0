//! What one shard's fronts share: settings, the pool of output buffers, a scratch buffer.

use std::cell::RefCell;
use std::num::NonZeroU16;
use std::rc::Rc;

use courser_contract::QoS;

use super::alias::AliasLoad;
use super::auth::{Anonymous, Authentication};
use super::output::OutputPool;
use super::prepared::PreparedScratch;
use super::received::PacketsReceived;
use super::redirect::Redirect;
use super::requests::RequestLoad;
use crate::codec::{BEFORE_CONNECT_BYTES_MAX, Limits};

/// Whether a feature of the protocol is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Feature {
    /// Offered.
    #[default]
    On,
    /// Refused with its own reason code.
    Off,
}

/// Settings of all fronts of a shard. A changed setting is a new value of this type, for new connections.
#[derive(Debug)]
pub struct FrontConfig {
    /// What packets may be like after CONNECT; its packet size is announced as Maximum Packet Size.
    pub limits: Limits,
    /// Largest CONNECT in bytes, fixed header included: it comes before anyone has logged in. Default 16 KiB.
    pub connect_bytes_max: u32,
    /// Milliseconds from the accepted socket to a whole CONNECT and the end of its authentication. Default 5,000.
    pub connect_timeout_ms: u32,
    /// Milliseconds that a home may take to attach before the client is told that the server is unavailable. Default 10,000.
    pub attach_timeout_ms: u32,
    /// Publishes of QoS > 0 that a client may have under way, announced as Receive Maximum. Default 1,024.
    pub receive_maximum: NonZeroU16,
    /// Deliveries of QoS > 0 under way to a client, whatever its own Receive Maximum allows. 1 to 32,767, default 1,024.
    pub window_max: NonZeroU16,
    /// Highest QoS of publishes and subscriptions. Default 2.
    pub maximum_qos: QoS,
    /// Retained messages. Default on.
    pub retain: Feature,
    /// Largest payload that is retained; a RETAIN publish above it is refused. Default: no limit.
    pub retained_payload_bytes_max: usize,
    /// Filters with wildcards. Default on.
    pub wildcards: Feature,
    /// Subscription identifiers. Default on.
    pub subscription_identifiers: Feature,
    /// Shared subscriptions. Default on.
    pub shared_subscriptions: Feature,
    /// Topic aliases that a client may use towards us, announced as Topic Alias Maximum. Default 32.
    pub topic_alias_maximum: u16,
    /// Topic aliases that we use towards a client at most. Default 32.
    pub topic_alias_out_max: u16,
    /// What topic aliases of all fronts of the shard take.
    pub alias_load: AliasLoad,
    /// Longest life of a session after its connection, in seconds; also what 3.1.1 with CleanSession 0 gets. Default 7 days.
    pub session_expiry_max_seconds: u32,
    /// Longest keep-alive; v5 clients that ask for more or for none get this by Server Keep Alive. Default: no limit.
    pub keep_alive_max: Option<NonZeroU16>,
    /// What v5 clients get that ask for Response Information. Default none.
    pub response_information: Option<Box<str>>,
    /// Sends every new client elsewhere. Default none.
    pub redirect: Option<Redirect>,
    /// Filters in one SUBSCRIBE; those above get Quota exceeded. Default 1,024.
    pub filters_max: u16,
    /// Filters in one UNSUBSCRIBE: one with more ends the connection. Default 10,000.
    pub unsubscribe_filters_max: u32,
    /// What all fronts of the shard have asked their homes for.
    pub request_load: RequestLoad,
    /// Bytes of output above which QoS 0 is dropped for this connection and its packets are not read. Default 1 MiB.
    pub output_bytes_max: usize,
    /// Who may come in. Default [`Anonymous`].
    pub authentication: Rc<dyn Authentication>,
    /// Output buffers of the shard.
    pub output_pool: Rc<OutputPool>,
    /// Packets that the fronts of the shard have received, good or bad.
    pub packets_received: PacketsReceived,
    /// A bug, for tests that must find it.
    pub(super) planted: Option<super::PlantedFront>,
    /// For what is put together while one packet is handled.
    pub(super) scratch: RefCell<Vec<u8>>,
    /// For what was held back and is sent to one client.
    pub(super) prepared: RefCell<PreparedScratch>,
}

impl FrontConfig {
    /// The defaults named at the fields.
    #[must_use]
    pub fn new(output_pool: Rc<OutputPool>) -> Self {
        const DEFAULT_WINDOW: NonZeroU16 = NonZeroU16::new(1024).expect("1,024 is not zero");
        Self {
            limits: Limits::DEFAULT,
            connect_bytes_max: BEFORE_CONNECT_BYTES_MAX,
            connect_timeout_ms: 5_000,
            attach_timeout_ms: 10_000,
            receive_maximum: DEFAULT_WINDOW,
            window_max: DEFAULT_WINDOW,
            maximum_qos: QoS::ExactlyOnce,
            retain: Feature::On,
            retained_payload_bytes_max: usize::MAX,
            wildcards: Feature::On,
            subscription_identifiers: Feature::On,
            shared_subscriptions: Feature::On,
            topic_alias_maximum: 32,
            topic_alias_out_max: 32,
            alias_load: AliasLoad::default(),
            session_expiry_max_seconds: 7 * 24 * 3600,
            keep_alive_max: None,
            response_information: None,
            redirect: None,
            filters_max: 1024,
            unsubscribe_filters_max: 10_000,
            request_load: RequestLoad::default(),
            output_bytes_max: 1024 * 1024,
            authentication: Rc::new(Anonymous),
            output_pool,
            packets_received: PacketsReceived::default(),
            planted: None,
            scratch: RefCell::default(),
            prepared: RefCell::default(),
        }
    }
}
