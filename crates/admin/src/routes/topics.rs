//! Topics and filters in questions: what is none of the standard's is never answered as if it were.

use router::TopicError;

use crate::error::{ApiError, Code};

/// That `text`, the value of `parameter`, is a filter that the standard has.
pub(super) fn check_filter(parameter: &str, text: &str) -> Result<(), ApiError> {
    router::check_filter(text).map_err(|_| {
        let message = format!("{parameter}: {text:?} is no topic filter");
        ApiError::new(Code::BadRequest, message)
    })
}

/// The same of a topic name.
pub(super) fn check_name(parameter: &str, text: &str) -> Result<(), ApiError> {
    router::check_topic(text).map_err(|error| {
        let why = match error {
            TopicError::Empty => "is empty",
            TopicError::Wildcard => "has a wildcard",
            TopicError::Nul => "has U+0000 in it",
            TopicError::TooLong => "is longer than 65,535 bytes",
            _ => "has another form",
        };
        let message = format!("{parameter}: {text:?} is no topic name: it {why}");
        ApiError::new(Code::BadRequest, message)
    })
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
        let long = "a".repeat(65_536);
        assert!(check_name("t", &long).is_err() && check_filter("t", &long).is_err());
    }
}
