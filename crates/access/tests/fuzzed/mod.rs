//! What the fuzz target `acl_pattern` does with its input.

use courser_access::{Identity, Rule, TopicPattern, UserName};

/// Lines: a pattern, a topic or filter, a client id, a user name. Patterns are read as they are written; what a pattern says of a topic, of
/// a filter as a whole, and of a part of one, fits together.
pub fn acl_pattern(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or("");
    let (pattern, topic, client_id, user) = (line(), line(), line(), line());
    if let Ok(rule) = pattern.parse::<Rule>() {
        assert_eq!(rule.to_string().parse::<Rule>().as_ref(), Ok(&rule));
    }
    let Ok(parsed) = pattern.parse::<TopicPattern>() else {
        return;
    };
    assert_eq!(parsed.to_string(), pattern, "it is written as it was read");
    let Ok(user) = UserName::new(user) else {
        return;
    };
    let who = Identity::new(client_id, user);
    let (matches, covers) = (parsed.matches(topic, &who), parsed.covers(topic, &who));
    if !topic.contains(['+', '#']) {
        assert_eq!(matches, covers, "a filter without wildcards is its topic");
    }
    if covers && topic.parse::<TopicPattern>().is_ok() {
        assert!(parsed.overlaps(topic, &who), "what it covers, it overlaps");
    }
    let strange = |name: &str| name.is_empty() || name.contains(['/', '+', '#']);
    if strange(client_id) && pattern.split('/').any(|level| level == "%c") {
        assert!(!matches && !covers, "such a client id is no level");
    }
}
