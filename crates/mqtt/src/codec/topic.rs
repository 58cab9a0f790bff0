//! Topic names and topic filters: two types, so that a filter is never published to.

use std::fmt;

use super::error::{DecodeError, DecodeErrorKind};
use super::limits::Limits;
use super::text::{self, MqttStr};

/// The name that a message is published to: one character or more, no wildcard, no U+0000.
///
/// v3 [MQTT-3.3.2-1], v3 [MQTT-3.3.2-2], v3 [MQTT-4.7.1-1], v3 [MQTT-4.7.3-1]; v5 [MQTT-3.3.2-1], v5 [MQTT-3.3.2-2],
/// v5 [MQTT-4.7.0-1], v5 [MQTT-4.7.3-1]. Compared byte by byte: nothing is normalised, v5 [MQTT-4.7.3-4].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName<'a>(&'a str);

impl<'a> TopicName<'a> {
    /// Checks a topic name of ours.
    ///
    /// # Errors
    /// [`DecodeErrorKind::TopicNameEmpty`], [`DecodeErrorKind::TopicNameWildcard`], [`DecodeErrorKind::Nul`], and
    /// [`DecodeErrorKind::TopicNameLimit`] above 65,535 bytes.
    pub fn new(name: &'a str) -> Result<Self, DecodeError> {
        if name.len() > usize::from(u16::MAX) {
            return Err(DecodeErrorKind::TopicNameLimit.into());
        }
        check_name_bytes(name.as_bytes())?;
        Ok(Self(name))
    }

    /// The text.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// The levels between the slashes; `"/a"` has two, the first empty.
    pub fn levels(self) -> impl Iterator<Item = &'a str> {
        self.0.split('/')
    }

    #[inline]
    pub(crate) fn check(bytes: &'a [u8], limits: &Limits) -> Result<Self, DecodeErrorKind> {
        if beyond_limits(bytes, limits) {
            return Err(DecodeErrorKind::TopicNameLimit);
        }
        let name = text::utf8(bytes)?;
        check_name_bytes(bytes)?;
        Ok(Self(name))
    }

    /// The same as a plain string of the protocol.
    #[must_use]
    pub const fn text(self) -> MqttStr<'a> {
        MqttStr::from_checked(self.0)
    }
}

#[inline]
fn check_name_bytes(bytes: &[u8]) -> Result<(), DecodeErrorKind> {
    if bytes.is_empty() || text::has_any(bytes, [0, b'+', b'#']) {
        Err(name_fault(bytes))
    } else {
        Ok(())
    }
}

#[cold]
fn name_fault(bytes: &[u8]) -> DecodeErrorKind {
    if bytes.is_empty() {
        DecodeErrorKind::TopicNameEmpty
    } else if bytes.contains(&0) {
        DecodeErrorKind::Nul
    } else {
        DecodeErrorKind::TopicNameWildcard
    }
}

/// Levels are counted only where there are bytes enough to exceed them.
#[inline]
fn beyond_limits(bytes: &[u8], limits: &Limits) -> bool {
    let levels_max = usize::from(limits.topic_levels_max);
    bytes.len() > usize::from(limits.topic_bytes_max)
        || (bytes.len() >= levels_max && levels(bytes) > levels_max)
}

fn levels(bytes: &[u8]) -> usize {
    1 + memchr::memchr_iter(b'/', bytes).count()
}

impl fmt::Debug for TopicName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

impl fmt::Display for TopicName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// What is subscribed to: one character or more, `#` only as the last level, `+` only as a whole level; where it begins with
/// `$share/`, a share name and a filter follow.
///
/// v3 [MQTT-4.7.1-2], v3 [MQTT-4.7.1-3], v3 [MQTT-4.7.3-1]; v5 [MQTT-4.7.1-1], v5 [MQTT-4.7.1-2], v5 [MQTT-4.8.2-1],
/// v5 [MQTT-4.8.2-2]. `$share/` means the same in 3.1.1, where names that begin with `$` are the server's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicFilter<'a> {
    whole: &'a str,
    /// Length of the share name; 0 when the filter is not shared.
    share_name_len: u16,
}

/// The two parts of a shared subscription's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedFilter<'a> {
    /// The share name: one character or more, none of `/`, `+`, `#`.
    pub share_name: &'a str,
    /// The filter that messages are matched against.
    pub filter: &'a str,
}

const SHARE_PREFIX: &str = "$share/";

impl<'a> TopicFilter<'a> {
    /// Checks a topic filter.
    ///
    /// # Errors
    /// [`DecodeErrorKind::TopicFilterInvalid`], [`DecodeErrorKind::ShareNameInvalid`], [`DecodeErrorKind::Nul`], and
    /// [`DecodeErrorKind::TopicFilterLimit`] above 65,535 bytes.
    ///
    /// # Examples
    /// ```
    /// use courser_mqtt::codec::TopicFilter;
    ///
    /// let filter = TopicFilter::new("$share/workers/shop/+/orders")?;
    /// let shared = filter.shared().expect("it is shared");
    /// assert_eq!((shared.share_name, shared.filter), ("workers", "shop/+/orders"));
    /// assert!(TopicFilter::new("shop/a#").is_err());
    /// # Ok::<(), courser_mqtt::codec::DecodeError>(())
    /// ```
    pub fn new(filter: &'a str) -> Result<Self, DecodeError> {
        if filter.len() > usize::from(u16::MAX) {
            return Err(DecodeErrorKind::TopicFilterLimit.into());
        }
        if memchr::memchr(0, filter.as_bytes()).is_some() {
            return Err(DecodeErrorKind::Nul.into());
        }
        Ok(Self::parse(filter)?)
    }

    pub(crate) fn check(bytes: &'a [u8], limits: &Limits) -> Result<Self, DecodeErrorKind> {
        if beyond_limits(bytes, limits) {
            return Err(DecodeErrorKind::TopicFilterLimit);
        }
        Self::parse(MqttStr::check(bytes)?.as_str())
    }

    fn parse(whole: &'a str) -> Result<Self, DecodeErrorKind> {
        let Some(shared) = whole.strip_prefix(SHARE_PREFIX) else {
            check_filter(whole)?;
            return Ok(Self {
                whole,
                share_name_len: 0,
            });
        };
        let (share_name, filter) = shared
            .split_once('/')
            .ok_or(DecodeErrorKind::ShareNameInvalid)?;
        if share_name.is_empty() || share_name.contains(['+', '#']) || filter.is_empty() {
            return Err(DecodeErrorKind::ShareNameInvalid);
        }
        check_filter(filter)?;
        Ok(Self {
            whole,
            share_name_len: share_name.len() as u16,
        })
    }

    /// The whole text, `$share/…` included.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.whole
    }

    /// Share name and filter of a shared subscription; `None` for an ordinary one.
    #[must_use]
    pub fn shared(self) -> Option<SharedFilter<'a>> {
        if self.share_name_len == 0 {
            return None;
        }
        let rest = self.whole.get(SHARE_PREFIX.len()..)?;
        let share_name = rest.get(..usize::from(self.share_name_len))?;
        let filter = rest.get(usize::from(self.share_name_len) + 1..)?;
        Some(SharedFilter { share_name, filter })
    }

    /// The text that topic names are matched against, without `$share/…/`.
    #[must_use]
    pub fn match_filter(self) -> &'a str {
        self.shared().map_or(self.whole, |shared| shared.filter)
    }

    /// Whether it has a wildcard.
    #[must_use]
    pub fn has_wildcard(self) -> bool {
        memchr::memchr2(b'+', b'#', self.whole.as_bytes()).is_some()
    }

    /// The same as a plain string of the protocol.
    #[must_use]
    pub const fn text(self) -> MqttStr<'a> {
        MqttStr::from_checked(self.whole)
    }
}

/// Walks the levels in a loop: depth costs time, never stack.
fn check_filter(filter: &str) -> Result<(), DecodeErrorKind> {
    if filter.is_empty() {
        return Err(DecodeErrorKind::TopicFilterInvalid);
    }
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        let last = levels.peek().is_none();
        let sound = match level {
            "+" => true,
            "#" => last,
            _ => memchr::memchr2(b'+', b'#', level.as_bytes()).is_none(),
        };
        if !sound {
            return Err(DecodeErrorKind::TopicFilterInvalid);
        }
    }
    Ok(())
}

impl fmt::Debug for TopicFilter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.whole, f)
    }
}

impl fmt::Display for TopicFilter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.whole)
    }
}
