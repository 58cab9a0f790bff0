//! The lists of SUBSCRIBE and UNSUBSCRIBE: validated once, walked in place.

use std::fmt;

use crate::codec::error::DecodeErrorKind;
use crate::codec::limits::Limits;
use crate::codec::reader::Reader;
use crate::codec::topic::TopicFilter;
use crate::codec::types::{ProtocolVersion, QoS};

const NO_LOCAL: u8 = 1 << 2;
const RETAIN_AS_PUBLISHED: u8 = 1 << 3;
const RETAIN_HANDLING_SHIFT: u8 = 4;
const RESERVED_V5: u8 = 0b1100_0000;
const RESERVED_V311: u8 = 0b1111_1100;

/// When retained messages are sent for a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum RetainHandling {
    /// 0: on every SUBSCRIBE, v5 [MQTT-3.3.1-9]; also what 3.1.1 does.
    #[default]
    SendOnSubscribe = 0,
    /// 1: only when the subscription is new, v5 [MQTT-3.3.1-10].
    SendIfNew = 1,
    /// 2: never, v5 [MQTT-3.3.1-11].
    DoNotSend = 2,
}

/// Options of one subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscriptionOptions {
    /// Maximum QoS.
    pub qos: QoS,
    /// Not back to its publisher, v5 [MQTT-3.8.3-3]; never on a shared subscription, v5 [MQTT-3.8.3-4].
    pub no_local: bool,
    /// Keep the publisher's RETAIN, v5 [MQTT-3.3.1-13].
    pub retain_as_published: bool,
    /// Retained messages.
    pub retain_handling: RetainHandling,
}

impl SubscriptionOptions {
    /// What 3.1.1 means by a QoS alone.
    #[must_use]
    pub const fn new(qos: QoS) -> Self {
        Self {
            qos,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::SendOnSubscribe,
        }
    }

    /// Whether 3.1.1 can say them.
    #[must_use]
    pub fn fits_v311(self) -> bool {
        self == Self::new(self.qos)
    }

    fn from_byte(byte: u8, version: ProtocolVersion) -> Result<Self, DecodeErrorKind> {
        let qos = QoS::from_number(byte & 0b11);
        match version {
            ProtocolVersion::V311 => match qos {
                Some(qos) if byte & RESERVED_V311 == 0 => Ok(Self::new(qos)),
                _ => Err(DecodeErrorKind::SubscriptionQosV311),
            },
            ProtocolVersion::V5 => {
                if byte & RESERVED_V5 != 0 {
                    return Err(DecodeErrorKind::SubscriptionOptionsReserved);
                }
                Ok(Self {
                    qos: qos.ok_or(DecodeErrorKind::SubscriptionQos)?,
                    no_local: byte & NO_LOCAL != 0,
                    retain_as_published: byte & RETAIN_AS_PUBLISHED != 0,
                    retain_handling: match byte >> RETAIN_HANDLING_SHIFT & 0b11 {
                        0 => RetainHandling::SendOnSubscribe,
                        1 => RetainHandling::SendIfNew,
                        2 => RetainHandling::DoNotSend,
                        _ => return Err(DecodeErrorKind::RetainHandling),
                    },
                })
            }
        }
    }

    /// The options byte of v5.
    #[must_use]
    pub const fn byte(self) -> u8 {
        let mut byte = self.qos.number() | (self.retain_handling as u8) << RETAIN_HANDLING_SHIFT;
        if self.no_local {
            byte |= NO_LOCAL;
        }
        if self.retain_as_published {
            byte |= RETAIN_AS_PUBLISHED;
        }
        byte
    }
}

/// One entry of SUBSCRIBE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// What is subscribed to.
    pub filter: TopicFilter<'a>,
    /// How.
    pub options: SubscriptionOptions,
}

impl<'a> Subscription<'a> {
    fn read(
        reader: &mut Reader<'a>,
        version: ProtocolVersion,
        limits: &Limits,
    ) -> Result<Self, DecodeErrorKind> {
        let filter = TopicFilter::check(reader.binary()?, limits)?;
        let options = SubscriptionOptions::from_byte(reader.u8()?, version)?;
        if options.no_local && filter.shared().is_some() {
            return Err(DecodeErrorKind::NoLocalOnShared);
        }
        Ok(Self { filter, options })
    }
}

/// The entries of a SUBSCRIBE, in order; at least one when decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Subscriptions<'a> {
    block: &'a [u8],
    count: usize,
}

impl<'a> Subscriptions<'a> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        version: ProtocolVersion,
        limits: &Limits,
    ) -> Result<Self, DecodeErrorKind> {
        let block = reader.rest();
        let mut count = 0;
        while !reader.is_empty() {
            Subscription::read(reader, version, limits)?;
            count += 1;
        }
        if count == 0 {
            return Err(DecodeErrorKind::NoTopicFilter);
        }
        Ok(Self { block, count })
    }

    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none, which no valid SUBSCRIBE has.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The entries. Options of 3.1.1 read as [`SubscriptionOptions::new`].
    pub fn iter(&self) -> impl Iterator<Item = Subscription<'a>> + use<'a> {
        // A byte that is valid in 3.1.1 means the same in v5.
        let mut reader = Reader::new(self.block);
        std::iter::from_fn(move || {
            Subscription::read(&mut reader, ProtocolVersion::V5, &Limits::STANDARD).ok()
        })
    }

    /// A part of a list that was decoded before, from the beginning of an entry on.
    pub(crate) const fn from_checked(block: &'a [u8], count: usize) -> Self {
        Self { block, count }
    }

    /// Without its first entry.
    pub(crate) fn split_first(self) -> Option<(Subscription<'a>, Self)> {
        let mut reader = Reader::new(self.block);
        let version = ProtocolVersion::V5;
        let first = Subscription::read(&mut reader, version, &Limits::STANDARD).ok()?;
        let count = self.count.saturating_sub(1);
        Some((first, Self::from_checked(reader.rest(), count)))
    }

    pub(crate) const fn as_bytes(&self) -> &'a [u8] {
        self.block
    }
}

impl fmt::Debug for Subscriptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Gathers the entries of a SUBSCRIBE; reusable.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionsBuilder {
    block: Vec<u8>,
    count: usize,
}

impl SubscriptionsBuilder {
    /// No entries.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            block: Vec::new(),
            count: 0,
        }
    }

    /// Appends one entry.
    pub fn push(&mut self, filter: TopicFilter<'_>, options: SubscriptionOptions) -> &mut Self {
        filter.text().write(&mut self.block);
        self.block.push(options.byte());
        self.count += 1;
        self
    }

    /// The entries so far.
    #[must_use]
    pub fn subscriptions(&self) -> Subscriptions<'_> {
        Subscriptions {
            block: &self.block,
            count: self.count,
        }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.block.clear();
        self.count = 0;
    }
}

/// The filters of an UNSUBSCRIBE, in order; at least one when decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TopicFilters<'a> {
    block: &'a [u8],
    count: usize,
}

impl<'a> TopicFilters<'a> {
    pub(super) fn read(reader: &mut Reader<'a>, limits: &Limits) -> Result<Self, DecodeErrorKind> {
        let block = reader.rest();
        let mut count = 0;
        while !reader.is_empty() {
            TopicFilter::check(reader.binary()?, limits)?;
            count += 1;
        }
        if count == 0 {
            return Err(DecodeErrorKind::NoTopicFilter);
        }
        Ok(Self { block, count })
    }

    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none, which no valid UNSUBSCRIBE has.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The filters.
    pub fn iter(&self) -> impl Iterator<Item = TopicFilter<'a>> + use<'a> {
        let mut reader = Reader::new(self.block);
        std::iter::from_fn(move || {
            TopicFilter::check(reader.binary().ok()?, &Limits::STANDARD).ok()
        })
    }

    /// A part of a list that was decoded before, from the beginning of an entry on.
    pub(crate) const fn from_checked(block: &'a [u8], count: usize) -> Self {
        Self { block, count }
    }

    /// Without its first entry.
    pub(crate) fn split_first(self) -> Option<(TopicFilter<'a>, Self)> {
        let mut reader = Reader::new(self.block);
        let first = TopicFilter::check(reader.binary().ok()?, &Limits::STANDARD).ok()?;
        let count = self.count.saturating_sub(1);
        Some((first, Self::from_checked(reader.rest(), count)))
    }

    pub(crate) const fn as_bytes(&self) -> &'a [u8] {
        self.block
    }
}

impl fmt::Debug for TopicFilters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Gathers the filters of an UNSUBSCRIBE; reusable.
#[derive(Clone, Debug, Default)]
pub struct TopicFiltersBuilder {
    block: Vec<u8>,
    count: usize,
}

impl TopicFiltersBuilder {
    /// No filters.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            block: Vec::new(),
            count: 0,
        }
    }

    /// Appends one filter.
    pub fn push(&mut self, filter: TopicFilter<'_>) -> &mut Self {
        filter.text().write(&mut self.block);
        self.count += 1;
        self
    }

    /// The filters so far.
    #[must_use]
    pub fn filters(&self) -> TopicFilters<'_> {
        TopicFilters {
            block: &self.block,
            count: self.count,
        }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.block.clear();
        self.count = 0;
    }
}
