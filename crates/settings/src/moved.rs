//! Keys that have gone: a renamed one works for one major version and warns, a removed one stops the start-up.

/// What has become of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It has this name now.
    #[cfg_attr(not(test), expect(dead_code, reason = "no key has another name yet"))]
    Renamed(&'static str),
    /// It is gone; what to do instead.
    Removed(&'static str),
}

/// A key that is no longer in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    /// The name it had.
    pub(crate) key: &'static str,
    pub(crate) fate: Fate,
}

/// All keys that were ever in a release and are not in the table any more.
pub(crate) const MOVED: &[Moved] = &[Moved {
    key: "log.acknowledge",
    fate: Fate::Removed(
        "messages are acknowledged once they are synced. Less is promised by name only: [[class]] with filter = \"#\" and class = \"relaxed\" \
         is for all sessions and retained messages what \"written\" was",
    ),
}];
