//! Every setting of the broker, declared once.
//!
//! `table.rs` is the one place: name, type, default, range, when a change applies, and what it is for. The parser, the
//! range checks, the list in `--help` and the reference page (`docs/reference/settings.md`) come from it.
//!
//! Raw values first, the checked object second: [`Sources`] collects what the file and the `--set` arguments say,
//! [`Sources::check`] turns it into [`Settings`] or into all errors at once, each with its place. [`Settings`] is then
//! passed down by value; there is no global.
//!
//! ```
//! use courser_settings::{ByteSize, Sources};
//!
//! let settings = Sources::new()
//!     .file("courser.toml", "[mqtt]\npacket_bytes_max = \"2MiB\"\n")
//!     .set("server.shards=2")
//!     .check()?;
//! assert_eq!(settings.mqtt.packet_bytes_max, ByteSize::mib(2));
//! assert_eq!(settings.server.shards, 2);
//!
//! let errors = Sources::new().file("courser.toml", "[mqtt]\npacket_byte_max = 1").check().unwrap_err();
//! assert_eq!(
//!     errors.to_string(),
//!     r#"courser.toml:2:1: unknown key "mqtt.packet_byte_max"; did you mean "mqtt.packet_bytes_max"?"#,
//! );
//! # Ok::<(), courser_settings::Errors>(())
//! ```
#![forbid(unsafe_code)]

#[macro_use]
mod macros;

mod check;
mod error;
mod reference;
mod source;
mod table;
mod value;

pub use error::{Errors, Origin, SettingError};
pub use reference::{help_text, reference_markdown};
pub use source::Sources;
pub use table::{Data, Listeners, Mqtt, Retained, Server, Session, Settings, Sys, table};
pub use value::{Acknowledge, ByteSize, Keep, Overflow, SharedStrategy};

/// When a changed value takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// At the next start.
    Restart,
    /// For connections made after the change.
    NewConnections,
    /// For sessions made after the change.
    NewSessions,
    /// At once.
    AtOnce,
}

impl Applies {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::NewConnections => "new connections",
            Self::NewSessions => "new sessions",
            Self::AtOnce => "at once",
        }
    }
}

/// What the table says of one setting, in the form that people read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The whole name, `section.name`.
    pub key: &'static str,
    /// Kind of value: a word such as `size`.
    pub kind: &'static str,
    /// As it is written in the file.
    pub default: String,
    /// Smallest and largest value, where there is a range.
    pub range: Option<(String, String)>,
    /// When a change takes effect.
    pub applies: Applies,
    /// What it is for.
    pub doc: &'static str,
}
