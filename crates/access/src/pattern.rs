//! Topic patterns: filters with placeholders that stand for one whole level.

use std::fmt;
use std::str::FromStr;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::Identity;

/// Longest pattern in bytes.
const PATTERN_BYTES_MAX: usize = 1024;
/// Most levels of a pattern.
const LEVELS_MAX: usize = 128;

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing in it.
    #[error("a topic pattern must not be empty")]
    Empty,
    /// Too long.
    #[error("a topic pattern must not be longer than {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    /// Too deep.
    #[error("a topic pattern must not have more than {LEVELS_MAX} levels")]
    TooDeep,
    /// A control character, or one that no topic may have.
    #[error("a topic pattern must not contain the character {0:?}")]
    Character(char),
    /// `+` or `#` beside other characters.
    #[error("`{0}` must stand alone between slashes")]
    WildcardInLevel(char),
    /// `#` before other levels.
    #[error("`#` must be the last level")]
    HashNotLast,
    /// `%c` or `%u` beside other characters.
    #[error("`{0}` stands for a whole level and must stand alone between slashes")]
    PlaceholderInLevel(&'static str),
    /// `$share/…`: rules speak of topics, whoever shares them.
    #[error("a rule speaks of topics: write it without $share/NAME/")]
    Share,
}

/// One level of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Level {
    Literal(CompactString),
    /// `+`
    Any,
    /// `%c`
    ClientId,
    /// `%u`
    UserName,
}

/// Which topics a rule speaks of: a topic filter in which a level may be `%c` (the client id) or `%u` (the user name).
///
/// A placeholder is a level, never a part of one, and is compared with a level, never put into a text: a client id or user name that
/// contains `/`, `+`, `#` or a control character, or is empty, matches no level at all. Wildcards at the beginning do not match topics
/// that begin with `$`, as in subscriptions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TopicPattern {
    levels: Box<[Level]>,
    /// Whether `#` follows.
    hash: bool,
}

/// Where a pattern goes from one level to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// It has no such level, but for `#`.
    End,
    /// This level and no other one.
    Text(&'a str),
    /// Any level, or one that depends on the client.
    Wild,
}

impl TopicPattern {
    /// What it has as a level, from 0.
    pub(crate) fn step(&self, level: usize) -> Step<'_> {
        match self.levels.get(level) {
            None => Step::End,
            Some(Level::Literal(text)) => Step::Text(text),
            Some(Level::Any | Level::ClientId | Level::UserName) => Step::Wild,
        }
    }

    /// Levels, without `#`.
    pub(crate) const fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Bytes that it has beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let beyond = |level: &Level| match level {
            Level::Literal(text) if text.is_heap_allocated() => text.len(),
            Level::Literal(_) | Level::Any | Level::ClientId | Level::UserName => 0,
        };
        size_of_val(&*self.levels) + self.levels.iter().map(beyond).sum::<usize>()
    }
}

impl FromStr for TopicPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        match text.len() {
            0 => return Err(PatternError::Empty),
            len if len > PATTERN_BYTES_MAX => return Err(PatternError::TooLong),
            _ => {}
        }
        if let Some(c) = text.chars().find(|c| c.is_control()) {
            return Err(PatternError::Character(c));
        }
        if text.starts_with("$share/") {
            return Err(PatternError::Share);
        }
        let (front, hash) = match text.strip_suffix('#') {
            None => (Some(text), false),
            Some("") => (None, true),
            Some(front) => match front.strip_suffix('/') {
                Some(front) => (Some(front), true),
                None => return Err(PatternError::WildcardInLevel('#')),
            },
        };
        let levels = match front {
            None => Vec::new(),
            Some(front) => front.split('/').map(level).collect::<Result<Vec<_>, _>>()?,
        };
        if levels.len() > LEVELS_MAX {
            return Err(PatternError::TooDeep);
        }
        Ok(Self {
            levels: levels.into(),
            hash,
        })
    }
}

fn level(text: &str) -> Result<Level, PatternError> {
    match text {
        "+" => Ok(Level::Any),
        "%c" => Ok(Level::ClientId),
        "%u" => Ok(Level::UserName),
        "#" => Err(PatternError::HashNotLast),
        _ if text.contains('+') => Err(PatternError::WildcardInLevel('+')),
        _ if text.contains('#') => Err(PatternError::WildcardInLevel('#')),
        _ if text.contains("%c") => Err(PatternError::PlaceholderInLevel("%c")),
        _ if text.contains("%u") => Err(PatternError::PlaceholderInLevel("%u")),
        _ => Ok(Level::Literal(text.into())),
    }
}

impl Level {
    fn is(&self, text: &str, who: &Identity) -> bool {
        match self {
            Self::Any => true,
            _ => self.text(who) == Some(text),
        }
    }

    /// The one text that it stands for. None: it has none, or many.
    fn text<'a>(&'a self, who: &'a Identity) -> Option<&'a str> {
        match self {
            Self::Literal(literal) => Some(literal),
            Self::Any => None,
            Self::ClientId => who.client_id_level(),
            Self::UserName => who.user_level(),
        }
    }
}

/// Whether other brokers, or whoever writes `%C` for `%c`, would take a level for a placeholder, which is nothing but text here.
fn is_foreign_placeholder(text: &str) -> bool {
    match text.as_bytes() {
        [b'%', letter] => letter.is_ascii_alphabetic(),
        [b'$', b'{', .., b'}'] => true,
        _ => false,
    }
}

impl TopicPattern {
    /// The first level that reads like a placeholder and is none: a rule with it would hold for the topics that have this very text, and
    /// for nobody's own.
    #[must_use]
    pub fn foreign_placeholder(&self) -> Option<&str> {
        self.levels.iter().find_map(|level| match level {
            Level::Literal(text) if is_foreign_placeholder(text) => Some(text.as_str()),
            Level::Literal(_) | Level::Any | Level::ClientId | Level::UserName => None,
        })
    }

    /// Whether it speaks of this topic name. Cost: the levels of both.
    #[must_use]
    pub fn matches(&self, topic: &str, who: &Identity) -> bool {
        if self.is_barred_by_dollar(topic) {
            return false;
        }
        let mut levels = self.levels.iter();
        for text in topic.split('/') {
            match levels.next() {
                Some(level) if level.is(text, who) => {}
                Some(_) => return false,
                None => return self.hash,
            }
        }
        // `a/#` is for `a` too, v5 section 4.7.1.2.
        levels.next().is_none()
    }

    /// Whether it speaks of every topic that this filter matches. Cost: the levels of both.
    #[must_use]
    pub fn covers(&self, filter: &str, who: &Identity) -> bool {
        if self.is_barred_by_dollar(filter) {
            return false;
        }
        // Every topic has a first level, so `+/#` and `#` are the same.
        if filter == "#" && self.hash && *self.levels == [Level::Any] {
            return true;
        }
        // No topic is empty, so `/#` and `/+/#` are the same.
        let filter = if filter == "/#" { "/+/#" } else { filter };
        let mut levels = self.levels.iter();
        for text in filter.split('/') {
            match (text, levels.next()) {
                (_, None) => return self.hash,
                ("#", Some(_)) => return false,
                (_, Some(Level::Any)) => {}
                ("+", Some(_)) => return false,
                (text, Some(level)) if level.is(text, who) => {}
                (_, Some(_)) => return false,
            }
        }
        levels.next().is_none()
    }

    /// Whether there is a topic that both it and this filter match. Cost: the levels of both.
    #[must_use]
    pub fn overlaps(&self, filter: &str, who: &Identity) -> bool {
        let is_barred = self.is_barred_by_dollar(filter) || self.bars_by_dollar(filter, who);
        if is_barred || self.meets_in_no_topic(filter) {
            return false;
        }
        let mut levels = self.levels.iter();
        for text in filter.split('/') {
            match (text, levels.next()) {
                ("#", Some(level)) => {
                    // What is left of the pattern must be able to match something.
                    return std::iter::once(level)
                        .chain(levels)
                        .all(|level| level.matches_something(who));
                }
                (_, None) => return self.hash || text == "#",
                ("+", Some(level)) if level.matches_something(who) => {}
                ("+", Some(_)) => return false,
                (text, Some(level)) if level.is(text, who) => {}
                (_, Some(_)) => return false,
            }
        }
        levels.next().is_none()
    }

    /// Whether both match the empty text and nothing else: that is no topic (v3 [MQTT-4.7.3-1], v5 [MQTT-4.7.3-1]).
    fn meets_in_no_topic(&self, filter: &str) -> bool {
        match (&self.levels[..], self.hash) {
            ([Level::Literal(text)], true) => text.is_empty() && filter == "+",
            ([Level::Any], false) => filter == "/#",
            _ => false,
        }
    }

    /// v3 [MQTT-4.7.2-1], v5 [MQTT-4.7.2-1]: a wildcard at the beginning is not for `$` topics. Nor is a placeholder.
    fn is_barred_by_dollar(&self, filter: &str) -> bool {
        let wild = match self.levels.first() {
            None => self.hash,
            // What a client calls itself opens no `$` topics either.
            Some(Level::Any | Level::ClientId | Level::UserName) => true,
            Some(Level::Literal(_)) => false,
        };
        wild && filter.starts_with('$')
    }

    /// The same the other way round: a filter that begins with a wildcard is not for topics of a pattern that begins with `$`.
    fn bars_by_dollar(&self, filter: &str, who: &Identity) -> bool {
        let wild = filter.starts_with(['+', '#']);
        let first = self.levels.first().and_then(|level| level.text(who));
        wild && first.is_some_and(|text| text.starts_with('$'))
    }
}

impl Level {
    fn matches_something(&self, who: &Identity) -> bool {
        matches!(self, Self::Any) || self.text(who).is_some()
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, level) in self.levels.iter().enumerate() {
            if at > 0 {
                f.write_str("/")?;
            }
            f.write_str(match level {
                Level::Literal(text) => text,
                Level::Any => "+",
                Level::ClientId => "%c",
                Level::UserName => "%u",
            })?;
        }
        match (self.hash, self.levels.is_empty()) {
            (false, _) => Ok(()),
            (true, true) => f.write_str("#"),
            (true, false) => f.write_str("/#"),
        }
    }
}

impl TryFrom<String> for TopicPattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        text.parse()
    }
}

impl From<TopicPattern> for String {
    fn from(pattern: TopicPattern) -> Self {
        pattern.to_string()
    }
}

#[cfg(test)]
mod tests;
