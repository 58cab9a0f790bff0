//! Limits of a user: data, not configuration. What is not set is the process's own default.

use serde::{Deserialize, Serialize};

/// What one client of a user may use. `None`: not limited here; the settings of the process apply in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Messages a second that it may publish, with a burst of one second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_second: Option<u32>,
    /// Bytes a second that it may publish, payload and topic, with a burst of one second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u32>,
    /// Subscriptions of its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscriptions: Option<u32>,
}

impl Limits {
    /// The smaller of both, each by itself.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        fn smaller(a: Option<u32>, b: Option<u32>) -> Option<u32> {
            match (a, b) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        }
        Self {
            messages_per_second: smaller(self.messages_per_second, other.messages_per_second),
            bytes_per_second: smaller(self.bytes_per_second, other.bytes_per_second),
            subscriptions: smaller(self.subscriptions, other.subscriptions),
        }
    }
}
