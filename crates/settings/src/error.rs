//! What is wrong, where, and what would be right.

use std::fmt;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A place in a file; line and column count from 1, the column in characters.
    File {
        /// As it was named by the user.
        name: String,
        /// Line.
        line: usize,
        /// Column.
        column: usize,
    },
    /// A variable of the environment.
    Environment(String),
    /// An argument of the command line, such as `--set` or `--shards`.
    Argument(String),
    /// Nobody set it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::Argument(flag) => f.write_str(flag),
            // Names of variables may hold anything.
            Self::Environment(name) => write!(f, "{}", name.escape_debug()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{origin}: {message}")]
pub struct SettingError {
    /// Where.
    pub origin: Origin,
    /// What, and what would be right.
    pub message: String,
    /// The setting that is wrong, or what was written for one; none where a fault is about a file as a whole.
    pub key: Option<String>,
}

/// All that is wrong, in the order of the places; one line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Errors(pub Vec<SettingError>);

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}
