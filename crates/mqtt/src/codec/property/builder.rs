//! Building a property block that is valid by construction.

use std::fmt;

use super::{Properties, Property, PropertyId, PropertyScope, Seen};

/// A property that may not be added to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// It does not belong to this packet.
    #[error("{0:?} does not belong to {1:?}")]
    Misplaced(PropertyId, PropertyScope),
    /// It is there already and may stand only once.
    #[error("{0:?} is there already")]
    Duplicate(PropertyId),
    /// Maximum QoS 2 is said by leaving the property out.
    #[error("Maximum QoS is 0 or 1")]
    MaximumQos,
}

/// Gathers properties for one packet; reusable, its buffer stays.
///
/// # Examples
/// ```
/// use courser_mqtt::codec::{PropertiesBuilder, Property, PropertyScope};
///
/// let mut builder = PropertiesBuilder::new(PropertyScope::Connack);
/// builder.push(Property::TopicAliasMaximum(32))?;
/// assert_eq!(builder.properties().topic_alias_maximum(), Some(32));
/// # Ok::<(), courser_mqtt::codec::PropertyError>(())
/// ```
#[derive(Clone)]
pub struct PropertiesBuilder {
    scope: PropertyScope,
    seen: Seen,
    block: Vec<u8>,
}

impl PropertiesBuilder {
    /// An empty block for one place.
    #[must_use]
    pub const fn new(scope: PropertyScope) -> Self {
        Self {
            scope,
            seen: Seen::none(),
            block: Vec::new(),
        }
    }

    /// Empties the block, for another packet.
    pub fn reset(&mut self, scope: PropertyScope) {
        self.scope = scope;
        self.seen = Seen::none();
        self.block.clear();
    }

    /// Appends one property.
    ///
    /// # Errors
    /// When it does not belong here or is there already; the block is unchanged then.
    pub fn push(&mut self, property: Property<'_>) -> Result<&mut Self, PropertyError> {
        let id = property.id();
        if !id.allowed_in(self.scope) {
            return Err(PropertyError::Misplaced(id, self.scope));
        }
        if self.seen.has(id) && !id.repeatable_in(self.scope) {
            return Err(PropertyError::Duplicate(id));
        }
        if matches!(property, Property::MaximumQos(qos) if qos.number() > 1) {
            return Err(PropertyError::MaximumQos);
        }
        self.seen.add(id);
        property.write(&mut self.block);
        Ok(self)
    }

    /// The block so far.
    #[must_use]
    pub fn properties(&self) -> Properties<'_> {
        Properties::from_checked(&self.block, self.scope)
    }
}

impl fmt::Debug for PropertiesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PropertiesBuilder")
            .field("scope", &self.scope)
            .field("properties", &self.properties())
            .finish()
    }
}
