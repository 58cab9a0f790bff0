//! Topics and filters in questions: what is none of the standard's is never answered as if it were.

use crate::error::{ApiError, Code};

/// Bytes of the longest one: v3 [MQTT-4.7.3-3], v5 [MQTT-4.7.3-3].
const BYTES_MAX: usize = 65_535;

/// That `text`, the value of `parameter`, is a filter that the standard has: wildcards stand alone, and `#` at the end.
pub(super) fn check_filter(parameter: &str, text: &str) -> Result<(), ApiError> {
    let levels: Vec<&str> = text.split('/').collect();
    let last = levels.len() - 1;
    let wrong = |(at, level): (usize, &&str)| match *level {
        "+" => false,
        "#" => at != last,
        level => level.contains(['+', '#', '\0']),
    };
    let is_wrong = text.len() > BYTES_MAX || levels.iter().enumerate().any(wrong);
    if text.is_empty() || is_wrong {
        let message = format!("{parameter}: {text:?} is no topic filter");
        return Err(ApiError::new(Code::BadRequest, message));
    }
    Ok(())
}

/// The same of a topic name: no wildcards (v3 [MQTT-4.7.1-1], v5 [MQTT-4.7.0-1]), and never empty ([MQTT-4.7.3-1] of both).
pub(super) fn check_name(parameter: &str, text: &str) -> Result<(), ApiError> {
    let why = match text {
        "" => "is empty",
        _ if text.contains(['+', '#']) => "has a wildcard",
        _ if text.contains('\0') => "has U+0000 in it",
        _ if text.len() > BYTES_MAX => "is longer than 65,535 bytes",
        _ => return Ok(()),
    };
    let message = format!("{parameter}: {text:?} is no topic name: it {why}");
    Err(ApiError::new(Code::BadRequest, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_filters_are_those_of_the_standard() {
        for (text, name, filter) in [
            ("a/b", true, true),
            ("/", true, true),
            ("$SYS/x", true, true),
            ("a/+", false, true),
            ("#", false, true),
            ("a/#", false, true),
            ("", false, false),
            ("a/#/b", false, false),
            ("a+", false, false),
            ("a\0", false, false),
        ] {
            assert_eq!(check_name("t", text).is_ok(), name, "{text:?}");
            assert_eq!(check_filter("t", text).is_ok(), filter, "{text:?}");
        }
        let long = "a".repeat(BYTES_MAX + 1);
        assert!(check_name("t", &long).is_err() && check_filter("t", &long).is_err());
    }
}
