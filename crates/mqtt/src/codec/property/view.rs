//! Views over validated property blocks: nothing is copied, values are read again when asked for.

use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};

use super::scan::{Seen, read_id, scan};
use super::{PayloadFormat, Property, PropertyScope};
use crate::codec::error::{DecodeError, DecodeErrorKind};
use crate::codec::limits::Limits;
use crate::codec::reader::Reader;
use crate::codec::text::{Binary, MqttStr, Secret};
use crate::codec::topic::TopicName;
use crate::codec::types::{QoS, SubscriptionId};
use crate::codec::varint;

/// A validated property block of one packet; empty in 3.1.1.
///
/// Getters walk the block: O(properties), meant for packets other than PUBLISH. Made by decoding or by
/// [`PropertiesBuilder`](super::PropertiesBuilder).
#[derive(Clone, Copy, Default)]
pub struct Properties<'a> {
    block: &'a [u8],
    scope: Option<PropertyScope>,
}

macro_rules! getters {
    ($($(#[$doc:meta])* $getter:ident, $name:ident -> $type:ty;)*) => {
        impl<'a> Properties<'a> {
            $($(#[$doc])*
            #[must_use]
            pub fn $getter(&self) -> Option<$type> {
                self.iter().find_map(|property| match property {
                    Property::$name(value) => Some(value),
                    _ => None,
                })
            })*
        }
    };
}

getters! {
    /// Payload Format Indicator.
    payload_format_indicator, PayloadFormatIndicator -> PayloadFormat;
    /// Message Expiry Interval in seconds.
    message_expiry_interval, MessageExpiryInterval -> u32;
    /// Content Type.
    content_type, ContentType -> MqttStr<'a>;
    /// Response Topic.
    response_topic, ResponseTopic -> TopicName<'a>;
    /// Correlation Data.
    correlation_data, CorrelationData -> Binary<'a>;
    /// The first Subscription Identifier; the only one in SUBSCRIBE.
    subscription_identifier, SubscriptionIdentifier -> SubscriptionId;
    /// Session Expiry Interval in seconds; `u32::MAX` means never.
    session_expiry_interval, SessionExpiryInterval -> u32;
    /// Assigned Client Identifier.
    assigned_client_identifier, AssignedClientIdentifier -> MqttStr<'a>;
    /// Server Keep Alive in seconds.
    server_keep_alive, ServerKeepAlive -> u16;
    /// Authentication Method.
    authentication_method, AuthenticationMethod -> MqttStr<'a>;
    /// Authentication Data.
    authentication_data, AuthenticationData -> Secret<'a>;
    /// Request Problem Information; absent means true.
    request_problem_information, RequestProblemInformation -> bool;
    /// Will Delay Interval in seconds.
    will_delay_interval, WillDelayInterval -> u32;
    /// Request Response Information; absent means false.
    request_response_information, RequestResponseInformation -> bool;
    /// Response Information.
    response_information, ResponseInformation -> MqttStr<'a>;
    /// Server Reference.
    server_reference, ServerReference -> MqttStr<'a>;
    /// Reason String.
    reason_string, ReasonString -> MqttStr<'a>;
    /// Receive Maximum; absent means 65,535.
    receive_maximum, ReceiveMaximum -> NonZeroU16;
    /// Topic Alias Maximum; absent means 0.
    topic_alias_maximum, TopicAliasMaximum -> u16;
    /// Maximum QoS; absent means 2.
    maximum_qos, MaximumQos -> QoS;
    /// Retain Available; absent means true.
    retain_available, RetainAvailable -> bool;
    /// Maximum Packet Size in bytes; absent means no limit beyond the protocol's.
    maximum_packet_size, MaximumPacketSize -> NonZeroU32;
    /// Wildcard Subscription Available; absent means true.
    wildcard_subscription_available, WildcardSubscriptionAvailable -> bool;
    /// Subscription Identifiers Available; absent means true.
    subscription_identifier_available, SubscriptionIdentifierAvailable -> bool;
    /// Shared Subscription Available; absent means true.
    shared_subscription_available, SharedSubscriptionAvailable -> bool;
}

impl<'a> Properties<'a> {
    /// No properties.
    pub const EMPTY: Self = Self {
        block: &[],
        scope: None,
    };

    /// Checks the bytes of a property block (without its length) for one place.
    ///
    /// # Errors
    /// Any that decoding a packet with this block gives.
    pub fn new(
        block: &'a [u8],
        scope: PropertyScope,
        limits: &Limits,
    ) -> Result<Self, DecodeError> {
        scan(block, scope, limits, |_, _| ())?;
        Ok(Self::from_checked(block, scope))
    }

    pub(crate) const fn from_checked(block: &'a [u8], scope: PropertyScope) -> Self {
        Self {
            block,
            scope: Some(scope),
        }
    }

    /// Reads length and block from a packet.
    pub(crate) fn read(
        reader: &mut Reader<'a>,
        scope: PropertyScope,
        limits: &Limits,
    ) -> Result<(Self, Seen), DecodeErrorKind> {
        let len = reader.varint()?;
        let block = reader.bytes(len as usize)?;
        let seen = scan(block, scope, limits, |_, _| ())?;
        Ok((Self::from_checked(block, scope), seen))
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// The encoded properties, without the length before them.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.block
    }

    /// All properties in the order of the wire.
    #[must_use]
    pub const fn iter(&self) -> PropertyIter<'a> {
        PropertyIter::new(self.block)
    }

    /// Names and values of the user properties, in order: v5 [MQTT-3.3.2-18], v5 [MQTT-3.1.3-10].
    #[must_use]
    pub const fn user_properties(&self) -> UserProperties<'a> {
        UserProperties(self.iter())
    }

    /// Whether the block may stand in this place.
    pub(crate) fn fits(&self, scope: PropertyScope) -> bool {
        self.block.is_empty() || self.scope == Some(scope)
    }
}

/// The same properties in the same order; an empty block is the same everywhere.
impl PartialEq for Properties<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.block == other.block
    }
}

impl Eq for Properties<'_> {}

impl<'a> IntoIterator for Properties<'a> {
    type Item = Property<'a>;
    type IntoIter = PropertyIter<'a>;

    fn into_iter(self) -> PropertyIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Properties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator over the properties of a block.
#[derive(Clone)]
pub struct PropertyIter<'a> {
    reader: Reader<'a>,
}

impl<'a> PropertyIter<'a> {
    pub(crate) const fn new(block: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(block),
        }
    }

    /// The next property and its bytes. Ends at bytes that no scan has passed rather than panic.
    pub(crate) fn next_with_bytes(&mut self) -> Option<(Property<'a>, &'a [u8])> {
        let before = self.reader.rest();
        let id = read_id(&mut self.reader).ok()?;
        let property = Property::read(id, &mut self.reader).ok()?;
        let taken = before.len() - self.reader.rest().len();
        Some((property, before.get(..taken)?))
    }
}

impl<'a> Iterator for PropertyIter<'a> {
    type Item = Property<'a>;

    fn next(&mut self) -> Option<Property<'a>> {
        self.next_with_bytes().map(|(property, _)| property)
    }
}

/// Iterator over names and values of user properties.
#[derive(Clone)]
pub struct UserProperties<'a>(PropertyIter<'a>);

impl<'a> Iterator for UserProperties<'a> {
    type Item = (MqttStr<'a>, MqttStr<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.find_map(|property| match property {
            Property::UserProperty(name, value) => Some((name, value)),
            _ => None,
        })
    }
}

/// The subscription identifiers of a PUBLISH: found in a property block, or given as a list.
#[derive(Clone, Copy)]
pub struct SubscriptionIds<'a> {
    source: Source<'a>,
}

#[derive(Clone, Copy)]
enum Source<'a> {
    Block(&'a [u8]),
    List(&'a [SubscriptionId]),
}

impl<'a> SubscriptionIds<'a> {
    /// No subscription identifier.
    pub const NONE: Self = Self {
        source: Source::List(&[]),
    };

    /// Identifiers to send, in this order: v5 [MQTT-3.3.4-3], v5 [MQTT-3.3.4-4].
    #[must_use]
    pub const fn new(ids: &'a [SubscriptionId]) -> Self {
        Self {
            source: Source::List(ids),
        }
    }

    pub(crate) const fn in_block(block: &'a [u8]) -> Self {
        Self {
            source: Source::Block(block),
        }
    }

    /// The identifiers in order.
    pub fn iter(&self) -> impl Iterator<Item = SubscriptionId> + use<'a> {
        let (list, block): (&[SubscriptionId], &[u8]) = match self.source {
            Source::Block(block) => (&[], block),
            Source::List(list) => (list, &[]),
        };
        let in_block = PropertyIter::new(block).filter_map(|property| match property {
            Property::SubscriptionIdentifier(id) => Some(id),
            _ => None,
        });
        list.iter().copied().chain(in_block)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Bytes of all as properties.
    pub(crate) fn wire_len(&self) -> usize {
        self.iter().map(|id| 1 + varint::len(id.get())).sum()
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for id in self.iter() {
            Property::SubscriptionIdentifier(id).write(out);
        }
    }
}

impl PartialEq for SubscriptionIds<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for SubscriptionIds<'_> {}

impl fmt::Debug for SubscriptionIds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(SubscriptionId::get))
            .finish()
    }
}
