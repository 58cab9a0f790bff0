//! Errors in words.

use std::error::Error;
use std::fmt::Write as _;

/// An error with all its causes, one behind the other.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
