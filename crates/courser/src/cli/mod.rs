//! What the client commands share: connection flags, URLs, exit codes.

pub(crate) mod connection;
pub(crate) mod exit;
pub(crate) mod format;
pub(crate) mod url;
