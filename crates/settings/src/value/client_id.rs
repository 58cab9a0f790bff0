//! Which client ids the clients of a user may have, at a listener.

use super::{Json, Mismatch, Raw, Value, quoted, read_list, schema_of_texts, shown_list};
use std::ops::RangeInclusive;

/// A text that a client id is, with the name of its user for `%u` and any characters, also none, for `*`. Both are parts of their own: a name
/// in which they stand makes no pattern.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientIdPattern {
    text: Box<str>,
    /// What it begins with, and what it ends with behind a `*`, where it has one.
    parts: (Vec<Part>, Option<Vec<Part>>),
}

/// What follows what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Text(Box<str>),
    User,
}

impl Part {
    fn text<'a>(&'a self, user: &'a str) -> &'a str {
        match self {
            Self::Text(text) => text,
            Self::User => user,
        }
    }
}

const EXPECTS: &str =
    "a client id with %u for the user name and at most one *, such as \"%u\" or \"%u-*\"";

impl ClientIdPattern {
    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a client of this user may have this client id.
    #[must_use]
    pub fn matches(&self, client_id: &str, user: &str) -> bool {
        let (begins, ends) = &self.parts;
        let begun = begins
            .iter()
            .try_fold(client_id, |left, part| left.strip_prefix(part.text(user)));
        match (begun, ends) {
            (None, _) => false,
            (Some(left), None) => left.is_empty(),
            (Some(left), Some(ends)) => ends
                .iter()
                .rev()
                .try_fold(left, |left, part| left.strip_suffix(part.text(user)))
                .is_some(),
        }
    }

    fn parse(text: &str) -> Result<Self, Mismatch> {
        let mut halves = text.split('*').map(parts_of);
        let begins = halves.next().flatten().ok_or(Mismatch::Kind)?;
        let ends = match halves.next() {
            Some(ends) => Some(ends.ok_or(Mismatch::Kind)?),
            None => None,
        };
        if text.is_empty() || halves.next().is_some() {
            return Err(Mismatch::Kind);
        }
        Ok(Self {
            text: text.into(),
            parts: (begins, ends),
        })
    }
}

/// None: it has a `%` that is no `%u`, which would be text here and is meant as something else.
fn parts_of(text: &str) -> Option<Vec<Part>> {
    let mut pieces = text.split('%');
    let first = pieces.next().unwrap_or_default();
    let mut parts = vec![Part::Text(first.into())];
    for piece in pieces {
        parts.push(Part::User);
        parts.push(Part::Text(piece.strip_prefix('u')?.into()));
    }
    parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    Some(parts)
}

impl Value for Vec<ClientIdPattern> {
    const KIND: &'static str = "list of client ids";
    const EXPECTS: &'static str = "a list of client ids such as [\"%u\", \"%u-*\"]";

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        read_list(raw, EXPECTS, ClientIdPattern::parse)
    }

    fn show(&self) -> String {
        shown_list(self.iter().map(|pattern| quoted(pattern.as_str())))
    }

    fn schema(_range: Option<&RangeInclusive<Self>>) -> Json {
        schema_of_texts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_id_is_compared_with_the_name_of_its_user() {
        let table = [
            ("%u", "anna", "anna", true),
            ("%u", "anna", "anna2", false),
            ("%u", "anna", "Anna", false),
            ("%u", "", "", true),
            ("%u-*", "anna", "anna-1", true),
            ("%u-*", "anna", "anna-", true),
            ("%u-*", "anna", "anna", false),
            ("%u-*", "anna", "anna-b-1", true),
            ("%u-*", "anna", "bert-1", false),
            ("*@%u", "anna", "phone@anna", true),
            ("*@%u", "anna", "@anna@bert", false),
            ("a*b", "", "ab", true),
            ("a*a", "", "a", false),
            ("%u*%u", "anna", "annanna", false),
            ("%u*%u", "anna", "annaanna", true),
            ("*", "anna", "whatever", true),
            ("plc-%u", "anna", "plc-anna", true),
            // Names are no patterns.
            ("%u", "*", "anna", false),
            ("%u", "*", "*", true),
            ("%u", "%u", "%u", true),
            ("%u-*", "a*", "ab-1", false),
        ];
        for (pattern, user, client_id, expected) in table {
            let read = ClientIdPattern::parse(pattern).expect("a pattern");
            assert_eq!(read.as_str(), pattern);
            let matches = read.matches(client_id, user);
            assert_eq!(matches, expected, "{pattern} {user} {client_id}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["", "**", "a*b*c", "%c", "%", "%U", "%%u", "a%"] {
            assert!(ClientIdPattern::parse(text).is_err(), "{text}");
        }
    }
}
