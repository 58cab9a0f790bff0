//! What the shards are told: the settings in the words of the crates below.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use courser_access::RetainedLimits;
use courser_contract::QoS;
use courser_engine::Limits;
use courser_mqtt::front::{BadReference, Feature, FrontConfig, OutputPool, Redirect, RedirectKind};
use courser_settings::{Durability, Keep, Mqtt, Settings, memory_least};

use crate::access::Backoff;
use crate::memory::{self, MemoryError};
use crate::partition_limits::{Keepers, PartitionLimits};
use crate::peer::{Entrance, ListenerId};
use crate::scant::Scant;
use crate::slots::{Places, Relaxed};

/// Durable partitions besides partition 0, fixed when a data folder is made (M3).
const PARTITIONS: u16 = 16;
/// Batches under way on each link between two shards.
const RING_SLOTS: usize = 8;

/// Whether each shard is bound to a core of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// The scheduler decides.
    #[default]
    Off,
    /// Shard n runs on the n-th core that the process may use.
    Cores,
}

/// Where connections may come in whose clients prove nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// At loopback addresses and Unix sockets.
    #[default]
    ThisMachine,
    /// Anywhere.
    Anywhere,
}

/// What a broker is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses for MQTT over TCP. Port 0: a free one.
    pub listen: Vec<SocketAddr>,
    /// How clients there prove who they are.
    pub authentication: crate::Authentication,
    /// Shards, at least 1.
    pub shards: u16,
    /// Binding of shards to cores.
    pub pinning: Pinning,
    /// Durable partitions besides partition 0, at least 1.
    pub partitions: u16,
    /// Whether there are relaxed ones, which the data folder says.
    pub(crate) relaxed: Relaxed,
    /// Batches under way on each link between two shards, at least 1.
    pub ring_slots: usize,
    /// Connections at once, at most [`connections_cap`](Self::connections_cap).
    pub connections_max: usize,
    /// The most of them that settings may allow later: what descriptors there are.
    pub connections_cap: usize,
    /// Bytes that the process may have allocated.
    pub memory_max: u64,
    /// Where clients may come in that prove nothing. Another place stops the start.
    pub anonymous: Anonymous,
    /// How long a stop waits for outputs and wills.
    pub stop_timeout: Duration,
    /// Everything else, by name.
    pub settings: Settings,
}

impl Config {
    /// What `settings` say; 0 shards: one for each core that the process may use.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let shards = match settings.server.shards {
            0 => u16::try_from(cores).unwrap_or(u16::MAX).min(256),
            shards => shards,
        };
        Self {
            listen: settings.mqtt.listen.clone(),
            authentication: settings.mqtt.authentication.into(),
            shards,
            pinning: if settings.server.pin_shards {
                Pinning::Cores
            } else {
                Pinning::Off
            },
            partitions: PARTITIONS,
            relaxed: Relaxed::None,
            ring_slots: RING_SLOTS,
            connections_max: settings.listeners.connections_max as usize,
            connections_cap: usize::MAX,
            memory_max: match settings.memory.max.bytes() {
                0 => memory::default_max(memory_least(&settings, shards).bytes()),
                bytes => bytes,
            },
            anonymous: Anonymous::default(),
            stop_timeout: Duration::from_secs(5),
            settings,
        }
    }

    /// Whether clients are served with the memory that there is, where nobody has said how much of it.
    pub(crate) fn check_memory(&self) -> Result<(), MemoryError> {
        let least = memory_least(&self.settings, self.shards).bytes();
        if self.settings.memory.max.bytes() > 0 || self.memory_max != memory::default_max(least) {
            return Ok(());
        }
        memory::check_default(self.memory_max, least, self.shards)
    }

    /// Where names are.
    pub(crate) fn places(&self) -> Places {
        Places::new(self.partitions, self.shards, self.relaxed)
    }

    /// Whether a class needs relaxed partitions.
    pub(crate) fn wants_relaxed(&self) -> Relaxed {
        let relaxed = |it: &courser_settings::Class| it.class == Durability::Relaxed;
        match self.settings.classes.iter().any(relaxed) {
            true => Relaxed::Made,
            false => Relaxed::None,
        }
    }

    /// These with other settings. What is told apart here from the settings, such as the number of shards, stays as it is,
    /// but for the connections at once.
    pub(crate) fn with(&self, settings: Settings) -> Self {
        Self {
            connections_max: (settings.listeners.connections_max as usize)
                .min(self.connections_cap),
            settings,
            ..self.clone()
        }
    }

    /// Limits of everybody for whom users, roles and domain say nothing.
    pub(crate) fn process_limits(&self) -> courser_access::Limits {
        let limits = &self.settings.limits;
        let given = |most: u32| (most > 0).then_some(most);
        courser_access::Limits {
            messages_per_second: given(limits.messages_per_second),
            bytes_per_second: given(to_u32(limits.bytes_per_second.bytes())),
            connections: given(limits.connections),
            sessions: given(limits.sessions),
            ..courser_access::Limits::default()
        }
    }

    /// How long addresses wait whose logins fail.
    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(&self.settings.login_failures)
    }

    /// What there is for users and roles, and for each of their logins.
    pub(crate) fn room_of_accounts(&self) -> courser_access::Room {
        memory::room_of_accounts(self.memory_max, self.scant().shares().messages)
    }

    /// What there is for what is kept.
    pub(crate) fn scant(&self) -> Scant {
        let least = memory_least(&self.settings, self.shards);
        Scant::new(self.memory_max, least.bytes())
    }

    /// Bytes of messages that wait which may be in memory, of all partitions: without a log there is nowhere else for them.
    fn hot_bytes(&self) -> u64 {
        let share = self.scant().hot();
        match (
            self.settings.data.store,
            self.settings.session.hot_bytes.bytes(),
        ) {
            (Keep::Memory, _) => u64::MAX,
            (Keep::Disk, 0) => share,
            (Keep::Disk, bytes) => bytes.min(share),
        }
    }

    /// The partitions that keep what clients retain.
    fn keepers(&self) -> Keepers {
        let volatile = |it: &courser_settings::Class| it.class == Durability::Volatile;
        Keepers {
            last_logged: self.places().last_logged(),
            volatile: self.settings.classes.iter().any(volatile),
        }
    }

    /// Limits of the partitions; those of retained messages are the domain's where they are smaller.
    pub(crate) fn limits(&self, domain: RetainedLimits) -> PartitionLimits {
        let Settings {
            mqtt,
            session,
            retained,
            ..
        } = &self.settings;
        let logged = u64::from(self.places().last_logged());
        let share = self.scant().retained();
        let retained_bytes = retained.bytes_max.bytes().min(share);
        let retained_bytes = domain.bytes.map_or(retained_bytes, |most| {
            retained_bytes.min(most.max(1).into())
        });
        let messages_max = retained.messages_max;
        let messages_max = domain
            .messages
            .map_or(messages_max, |most| messages_max.min(most.max(1)));
        let node = Limits {
            queue_messages_max: session.queue_messages_max,
            queue_bytes_max: session.queue_bytes_max.bytes(),
            queue_seconds_max: seconds_or_none(session.queue_age_max),
            overflow: overflow(session.overflow),
            subscriptions_max: mqtt.subscriptions_max,
            shared_subscriptions_max: mqtt.shared_subscriptions_max,
            subscription_bytes_max: mqtt.subscription_bytes_max.bytes(),
            outbound_window_max: mqtt.outbound_window_max,
            retained_messages_max: messages_max,
            retained_bytes_max: retained_bytes,
            retained_seconds_max: seconds_or_none(retained.age_max),
            session_expiry_seconds_max: seconds(mqtt.session_expiry_max),
            shared_strategy: strategy(mqtt.shared_strategy),
            hot_bytes: self.hot_bytes() / logged,
            ..Limits::default()
        };
        PartitionLimits::new(node, self.keepers())
    }

    /// The settings of MQTT at a listener.
    pub(crate) fn mqtt(&self, id: ListenerId) -> Mqtt {
        match id.own(&self.settings) {
            None => self.settings.mqtt.clone(),
            Some(listener) => self.settings.mqtt_at(listener),
        }
    }

    /// Bytes of output of one connection, at every listener.
    pub(crate) fn output_bytes_max(&self) -> usize {
        usize::try_from(self.settings.mqtt.output_bytes_max.bytes()).unwrap_or(usize::MAX)
    }

    /// Connections at once at a listener, if it has a limit of its own.
    pub(crate) fn connections_max_at(&self, id: ListenerId) -> Option<usize> {
        let own = id.own(&self.settings)?;
        own.connections_max.map(|most| most as usize)
    }

    /// All listeners that there are to be, `mqtt.listen` first.
    pub(crate) fn entrances(&self) -> Vec<Arc<Entrance>> {
        let settings = &self.settings;
        let doors = settings.doors.iter().enumerate();
        let doors = doors.map(|(at, listener)| Entrance::door(at, listener, settings));
        let mqtt = Entrance::mqtt(self.authentication, settings);
        std::iter::once(mqtt).chain(doors).collect()
    }

    /// What the fronts of one listener on one shard share.
    pub(crate) fn front(&self, id: ListenerId, output_pool: Rc<OutputPool>) -> FrontConfig {
        let mqtt = &self.mqtt(id);
        let mut config = FrontConfig::new(output_pool);
        config.limits.packet_bytes_max = to_u32(mqtt.packet_bytes_max.bytes());
        config.limits.client_id_bytes_max = to_u16(mqtt.client_id_bytes_max.bytes());
        config.limits.topic_bytes_max = to_u16(mqtt.topic_bytes_max.bytes());
        config.limits.topic_levels_max = mqtt.topic_levels_max;
        config.limits.user_properties_max = to_u16(mqtt.user_properties_max.into());
        config.limits.user_property_bytes_max = to_u32(mqtt.user_properties_bytes_max.bytes());
        config.connect_bytes_max = to_u32(mqtt.connect_bytes_max.bytes());
        config.connect_timeout_ms = milliseconds(mqtt.connect_timeout);
        config.receive_maximum = at_least_one(mqtt.receive_maximum);
        config.window_max = at_least_one(mqtt.outbound_window_max);
        config.topic_alias_maximum = mqtt.topic_alias_max;
        config.topic_alias_out_max = mqtt.topic_alias_max;
        config.session_expiry_max_seconds = seconds(mqtt.session_expiry_max);
        config.keep_alive_max = NonZeroU16::new(mqtt.keep_alive_max_seconds);
        let filters_max = u32::from(config.filters_max);
        config.unsubscribe_filters_max = mqtt.subscriptions_max.max(filters_max);
        config.output_bytes_max = self.output_bytes_max();
        config.maximum_qos = qos(mqtt.qos_max);
        config.retain = feature(mqtt.retain_available);
        config.wildcards = feature(mqtt.wildcard_subscriptions_available);
        config.subscription_identifiers = feature(mqtt.subscription_identifiers_available);
        config.shared_subscriptions = feature(mqtt.shared_subscriptions_available);
        let retained = self.settings.retained.payload_bytes_max.bytes();
        config.retained_payload_bytes_max = usize::try_from(retained).unwrap_or(usize::MAX);
        config.response_information = given(&mqtt.response_information);
        // What is no reference sends nobody anywhere; `redirect_of` says so to who starts the broker.
        config.redirect = redirect_of(mqtt).ok().flatten();
        config
    }
}

/// Where these settings, of all listeners or of [one](Settings::mqtt_at), send clients; none: nowhere.
///
/// # Errors
/// What is wrong with `redirect_to`.
pub fn redirect_of(mqtt: &Mqtt) -> Result<Option<Redirect>, BadReference> {
    let kind = if mqtt.redirect_permanently {
        RedirectKind::Permanent
    } else {
        RedirectKind::Temporary
    };
    let given = (!mqtt.redirect_to.is_empty()).then_some(&mqtt.redirect_to);
    given
        .map(|reference| Redirect::new(kind, reference))
        .transpose()
}

const fn feature(available: bool) -> Feature {
    if available { Feature::On } else { Feature::Off }
}

/// The setting has a range; what is above it is the highest.
const fn qos(level: u16) -> QoS {
    match level {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        _ => QoS::ExactlyOnce,
    }
}

/// An empty text is none.
fn given(text: &str) -> Option<Box<str>> {
    (!text.is_empty()).then(|| text.into())
}

const fn overflow(overflow: courser_settings::Overflow) -> courser_engine::Overflow {
    match overflow {
        courser_settings::Overflow::DropNewest => courser_engine::Overflow::DropNewest,
        courser_settings::Overflow::DropOldest => courser_engine::Overflow::DropOldest,
        courser_settings::Overflow::RefusePublisher => courser_engine::Overflow::RefusePublisher,
    }
}

const fn strategy(strategy: courser_settings::SharedStrategy) -> courser_contract::SharedStrategy {
    match strategy {
        courser_settings::SharedStrategy::RoundRobin => {
            courser_contract::SharedStrategy::RoundRobin
        }
        courser_settings::SharedStrategy::Sticky => courser_contract::SharedStrategy::Sticky,
        courser_settings::SharedStrategy::HashTopic => courser_contract::SharedStrategy::HashTopic,
        courser_settings::SharedStrategy::LeastOutstanding => {
            courser_contract::SharedStrategy::LeastOutstanding
        }
    }
}

// The settings have ranges; these end at the widest type.
fn seconds(span: Duration) -> u32 {
    u32::try_from(span.as_secs()).unwrap_or(u32::MAX)
}

/// No time at all stands for no limit; a part of a second counts as one.
fn seconds_or_none(span: Duration) -> u32 {
    match span.is_zero() {
        true => u32::MAX,
        false => seconds(span).max(1),
    }
}

fn milliseconds(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

fn to_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn to_u16(value: u64) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

fn at_least_one(value: u16) -> NonZeroU16 {
    NonZeroU16::new(value).unwrap_or(NonZeroU16::MIN)
}
