//! The properties of a message that are handed on unchanged, as one block of bytes.

use std::fmt;

use super::scan::scan;
use super::view::PropertyIter;
use super::{PayloadFormat, Property, PropertyScope};
use crate::codec::error::{DecodeError, DecodeErrorKind};
use crate::codec::limits::Limits;

/// Payload Format Indicator, Content Type, Response Topic, Correlation Data and User Properties in the order in which the publisher
/// wrote them.
///
/// Where they stand side by side in the packet, [`Passthrough::as_contiguous`] gives them without a copy, else
/// [`Passthrough::copy_to`] gathers them. That block, in v5 encoding without a length, is what a stored message keeps; it comes back
/// by [`Passthrough::from_block`].
#[derive(Clone, Copy)]
pub struct Passthrough<'a> {
    /// From the first to the last of them; others may stand between when `len` is shorter.
    span: &'a [u8],
    len: u32,
}

impl<'a> Passthrough<'a> {
    /// None of them.
    pub const EMPTY: Self = Self { span: &[], len: 0 };

    /// Checks a block that holds only properties that pass through.
    ///
    /// # Errors
    /// As for decoding a PUBLISH with these properties, and [`DecodeErrorKind::PropertyMisplaced`] for any other property.
    pub fn new(block: &'a [u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut other = false;
        scan(block, PropertyScope::Publish, limits, |property, _| {
            other |= !property.id().passes_through();
        })?;
        if other {
            return Err(DecodeErrorKind::PropertyMisplaced.into());
        }
        Ok(Self::from_block(block))
    }

    /// A block that came from [`Passthrough::as_contiguous`] or [`Passthrough::copy_to`]; not checked again. Other bytes are sent on
    /// as they are and read as no properties: they never panic.
    #[must_use]
    pub const fn from_block(block: &'a [u8]) -> Self {
        Self {
            span: block,
            len: block.len() as u32,
        }
    }

    /// `len` is the sum of those within `span` that pass through.
    pub(crate) const fn from_span(span: &'a [u8], len: u32) -> Self {
        Self { span, len }
    }

    /// Bytes of the block.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The block in place; `None` when others stand between.
    #[must_use]
    pub const fn as_contiguous(&self) -> Option<&'a [u8]> {
        if self.span.len() == self.len as usize {
            Some(self.span)
        } else {
            None
        }
    }

    /// Appends the block.
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        if let Some(block) = self.as_contiguous() {
            out.extend_from_slice(block);
            return;
        }
        let mut properties = PropertyIter::new(self.span);
        while let Some((property, bytes)) = properties.next_with_bytes() {
            if property.id().passes_through() {
                out.extend_from_slice(bytes);
            }
        }
    }

    /// The properties in order.
    pub fn iter(&self) -> impl Iterator<Item = Property<'a>> + use<'a> {
        PropertyIter::new(self.span).filter(|property| property.id().passes_through())
    }

    /// Whether the payload is said to be text.
    #[must_use]
    pub fn payload_format(&self) -> PayloadFormat {
        self.iter()
            .find_map(|property| match property {
                Property::PayloadFormatIndicator(format) => Some(format),
                _ => None,
            })
            .unwrap_or(PayloadFormat::Bytes)
    }
}

impl Default for Passthrough<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for Passthrough<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self.as_contiguous(), other.as_contiguous()) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => self.iter().eq(other.iter()),
        }
    }
}

impl Eq for Passthrough<'_> {}

impl fmt::Debug for Passthrough<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
