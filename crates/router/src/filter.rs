//! What a filter is, without any trie: the check of its form, and the match of a single one.

use std::fmt;

/// Why a text is no topic filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterError {
    /// A filter has at least one character: v3 [MQTT-4.7.3-1], v5 [MQTT-4.7.3-1].
    Empty,
    /// U+0000 is in no topic and no filter: v3 [MQTT-4.7.3-2], v5 [MQTT-4.7.3-2].
    Nul,
    /// `#` stands alone in the last level: v3 [MQTT-4.7.1-2], v5 [MQTT-4.7.1-1].
    Rest,
    /// `+` fills a whole level: v3 [MQTT-4.7.1-3], v5 [MQTT-4.7.1-2].
    Any,
    /// More than 65,535 bytes: v3 [MQTT-4.7.3-3], v5 [MQTT-4.7.3-3].
    TooLong,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FilterError::Empty => "a topic filter needs at least one character",
            FilterError::Nul => "a topic filter must not contain U+0000",
            FilterError::Rest => "'#' must stand alone in the last level of a topic filter",
            FilterError::Any => "'+' must fill a whole level of a topic filter",
            FilterError::TooLong => "a topic filter has at most 65,535 bytes",
        })
    }
}

impl std::error::Error for FilterError {}

/// Whether `filter` has the form that both MQTT versions demand of a topic filter.
///
/// # Errors
/// The first rule that the text breaks. `$share` is not looked at: that is the caller's syntax.
pub fn check_filter(filter: &str) -> Result<(), FilterError> {
    if filter.is_empty() {
        return Err(FilterError::Empty);
    }
    if filter.len() > usize::from(u16::MAX) {
        return Err(FilterError::TooLong);
    }
    let is_special = |byte: &u8| matches!(byte, b'\0' | b'+' | b'#');
    if !filter.as_bytes().iter().any(is_special) {
        return Ok(());
    }
    let mut levels = split_levels(filter).peekable();
    while let Some(level) = levels.next() {
        if level.contains('\0') {
            return Err(FilterError::Nul);
        }
        if level.contains('#') && (level != "#" || levels.peek().is_some()) {
            return Err(FilterError::Rest);
        }
        if level.contains('+') && level != "+" {
            return Err(FilterError::Any);
        }
    }
    Ok(())
}

/// Why a text is no topic name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopicError {
    /// A topic name has at least one character: v3 [MQTT-4.7.3-1], v5 [MQTT-4.7.3-1].
    Empty,
    /// U+0000 is in no topic and no filter: v3 [MQTT-4.7.3-2], v5 [MQTT-4.7.3-2].
    Nul,
    /// Wildcards are for filters: v3 [MQTT-4.7.1-1], v5 [MQTT-4.7.0-1].
    Wildcard,
    /// More than 65,535 bytes: v3 [MQTT-4.7.3-3], v5 [MQTT-4.7.3-3].
    TooLong,
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TopicError::Empty => "a topic name needs at least one character",
            TopicError::Nul => "a topic name must not contain U+0000",
            TopicError::Wildcard => "a topic name must not contain '+' or '#'",
            TopicError::TooLong => "a topic name has at most 65,535 bytes",
        })
    }
}

impl std::error::Error for TopicError {}

/// Whether `topic` has the form that both MQTT versions demand of a topic name.
///
/// # Errors
/// The first rule that the text breaks.
pub fn check_topic(topic: &str) -> Result<(), TopicError> {
    if topic.is_empty() {
        return Err(TopicError::Empty);
    }
    if topic.len() > usize::from(u16::MAX) {
        return Err(TopicError::TooLong);
    }
    match topic
        .bytes()
        .find(|byte| matches!(byte, b'\0' | b'+' | b'#'))
    {
        None => Ok(()),
        Some(b'\0') => Err(TopicError::Nul),
        Some(_) => Err(TopicError::Wildcard),
    }
}

/// Whether one filter matches one topic name, by the rules of the crate. Linear in the shorter of both.
#[must_use]
pub fn filter_matches(filter: &str, topic: &str) -> bool {
    let begins_with_wildcard = filter == "#" || filter == "+" || filter.starts_with("+/");
    if begins_with_wildcard && topic.starts_with('$') {
        return false;
    }
    let mut levels = split_levels(filter).peekable();
    let mut names = split_levels(topic);
    while let Some(level) = levels.next() {
        if level == "#" && levels.peek().is_none() {
            return true;
        }
        match names.next() {
            Some(name) if level == "+" || level == name => {}
            _ => return false,
        }
    }
    names.next().is_none()
}

/// The levels of a filter or topic. Levels are short: a plain search beats that of the standard library, which is set
/// up anew for each.
#[inline]
pub(crate) fn split_levels(text: &str) -> SplitLevels<'_> {
    SplitLevels(Some(text))
}

pub(crate) struct SplitLevels<'a>(Option<&'a str>);

impl<'a> Iterator for SplitLevels<'a> {
    type Item = &'a str;

    #[inline]
    fn next(&mut self) -> Option<&'a str> {
        let rest = self.0.take()?;
        match rest.as_bytes().iter().position(|&byte| byte == b'/') {
            None => Some(rest),
            Some(at) => {
                self.0 = Some(&rest[at + 1..]);
                Some(&rest[..at])
            }
        }
    }
}
