//! Topic filters of MQTT.

use super::{Mismatch, Raw, STRING_BYTES_MAX, Value};

/// A topic filter: levels between slashes, `+` for one level, `#` for all that follow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicFilter(Box<str>);

impl TopicFilter {
    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// v5 section 4.7: a wildcard stands for whole levels, `#` for the last one only; no empty filter, no U+0000.
fn is_filter(text: &str) -> bool {
    let mut levels = text.split('/').rev();
    let last = levels.next().unwrap_or_default();
    !text.is_empty()
        && text.len() <= STRING_BYTES_MAX
        && !text.contains('\0')
        && (last == "#" || is_level(last))
        && levels.all(is_level)
}

fn is_level(level: &str) -> bool {
    level == "+" || !level.contains(['+', '#'])
}

impl Value for TopicFilter {
    const KIND: &'static str = "topic filter";
    const EXPECTS: &'static str = "a topic filter such as \"a/+/b\" or \"a/#\"";

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        let text = raw.text()?;
        is_filter(text)
            .then(|| Self(text.into()))
            .ok_or(Mismatch::Kind)
    }

    fn show(&self) -> String {
        super::quoted(&self.0)
    }
}
