//! One line of a role.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{PatternError, TopicPattern};

/// What a rule does with what it speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Allows it.
    Allow,
    /// Denies it, whatever else allows it.
    Deny,
}

/// What a rule speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Messages to a topic, wills too.
    Publish,
    /// Subscriptions, and every delivery.
    Subscribe,
    /// Both.
    All,
}

/// What a client wants to do with a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Publish,
    Receive,
}

impl Scope {
    pub(crate) const fn is_about(self, deed: Deed) -> bool {
        match (self, deed) {
            (Self::All, _) | (Self::Publish, Deed::Publish) | (Self::Subscribe, Deed::Receive) => {
                true
            }
            (Self::Publish, Deed::Receive) | (Self::Subscribe, Deed::Publish) => false,
        }
    }
}

/// One line of a role: `allow publish sensors/%c/#`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Allow or deny.
    pub effect: Effect,
    /// What.
    pub action: Scope,
    /// Which topics.
    pub topic: TopicPattern,
}

impl Rule {
    /// Bytes that it has beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.topic.heap_bytes()
    }
}

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Not three words.
    #[error("a rule is written as: allow|deny publish|subscribe|all TOPIC-PATTERN")]
    Shape,
    /// The topic pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

impl FromStr for Rule {
    type Err = RuleError;

    /// Everything behind the second word is the pattern, since topics may contain spaces.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        let mut words = text.splitn(3, ' ');
        let (Some(effect), Some(action), Some(topic)) = (words.next(), words.next(), words.next())
        else {
            return Err(RuleError::Shape);
        };
        Ok(Self {
            effect: match effect {
                "allow" => Effect::Allow,
                "deny" => Effect::Deny,
                _ => return Err(RuleError::Shape),
            },
            action: match action {
                "publish" => Scope::Publish,
                "subscribe" => Scope::Subscribe,
                "all" => Scope::All,
                _ => return Err(RuleError::Shape),
            },
            topic: topic.parse()?,
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.effect {
            Effect::Allow => "allow",
            Effect::Deny => "deny",
        };
        let action = match self.action {
            Scope::Publish => "publish",
            Scope::Subscribe => "subscribe",
            Scope::All => "all",
        };
        write!(f, "{effect} {action} {}", self.topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in [
            "allow publish sensors/%c/#",
            "deny all $SYS/#",
            "allow subscribe a topic/with spaces",
        ] {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
        for text in [
            "",
            "allow",
            "allow publish",
            "permit publish a",
            "allow read a",
        ] {
            assert_eq!(text.parse::<Rule>(), Err(RuleError::Shape), "{text:?}");
        }
        assert_eq!(
            "deny all a/#/b".parse::<Rule>(),
            Err(RuleError::Pattern(PatternError::HashNotLast))
        );
    }
}
