//! The one pass that validates a property block.

use super::{Property, PropertyId, PropertyScope};
use crate::codec::error::DecodeErrorKind;
use crate::codec::limits::Limits;
use crate::codec::reader::Reader;

/// Which properties a block had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl Seen {
    pub(crate) const fn none() -> Self {
        Self(0)
    }

    pub(crate) const fn has(self, id: PropertyId) -> bool {
        self.0 & id.bit() != 0
    }

    pub(crate) const fn add(&mut self, id: PropertyId) {
        self.0 |= id.bit();
    }
}

/// Checks every property of `block` and shows each with its bytes to `visit`.
///
/// Refuses what is unknown, misplaced, repeated, of a forbidden value or beyond the limits; and Authentication Data without a
/// method. Each name and value of a pair obeys the string rules, v5 [MQTT-1.5.7-1].
pub(crate) fn scan<'a>(
    block: &'a [u8],
    scope: PropertyScope,
    limits: &Limits,
    mut visit: impl FnMut(Property<'a>, &'a [u8]),
) -> Result<Seen, DecodeErrorKind> {
    let mut reader = Reader::new(block);
    let mut seen = Seen::default();
    let (mut users, mut user_bytes) = (0_u32, 0_usize);
    while !reader.is_empty() {
        let before = reader.rest();
        let id = read_id(&mut reader)?;
        if !id.allowed_in(scope) {
            return Err(DecodeErrorKind::PropertyMisplaced);
        }
        if seen.has(id) && !id.repeatable_in(scope) {
            return Err(DecodeErrorKind::PropertyDuplicate);
        }
        seen.add(id);
        let property = Property::read(id, &mut reader)?;
        let taken = before.len() - reader.rest().len();
        if id == PropertyId::UserProperty {
            users += 1;
            user_bytes += taken;
            if users > u32::from(limits.user_properties_max)
                || user_bytes > limits.user_property_bytes_max as usize
            {
                return Err(DecodeErrorKind::UserPropertiesLimit);
            }
        }
        visit(property, before.get(..taken).unwrap_or_default());
    }
    if seen.has(PropertyId::AuthenticationData) && !seen.has(PropertyId::AuthenticationMethod) {
        return Err(DecodeErrorKind::AuthenticationDataAlone);
    }
    Ok(seen)
}

/// Identifiers are variable byte integers, though all that exist take one byte.
#[inline]
pub(super) fn read_id(reader: &mut Reader<'_>) -> Result<PropertyId, DecodeErrorKind> {
    let id = reader.varint()?;
    u8::try_from(id)
        .ok()
        .and_then(PropertyId::from_byte)
        .ok_or(DecodeErrorKind::PropertyUnknown)
}
