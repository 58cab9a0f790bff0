//! Every setting of the broker, declared once.
//!
//! `table.rs` is the one place: name, type, default, range, when a change applies, and what it is for. The parser, the
//! range checks, the list in `--help` and the reference page (`docs/reference/settings.md`) come from it.
//!
//! Raw values first, the checked object second: [`Sources`] collects what is said by the file ([`Sources::load`]), then by
//! the environment ([`Sources::environment`]), then by arguments ([`Sources::set`]); later ones win.
//! [`Sources::check`] turns it into [`Settings`] or into all errors at once, each with its place, and
//! [`Sources::resolve`] into [`Resolved`], which also knows where each value comes from. [`Settings`] is then passed down
//! by value; there is no global.
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
//!
//! What there may be many of is a list: `[[class]]` in the file, a `Vec` in [`Settings`]. It is declared below `lists` in
//! the table, each field like a setting of a section, but a field without a default must be given:
//!
//! ```text
//! lists {
//!     /// What the list is for.
//!     [[class]] classes: Class by filter, at most 1_024, applies = Restart {
//!         /// What the field is for. It tells the items apart: no two may have the same.
//!         filter: TopicFilter, applies = Restart;
//!         /// A field that may be left out.
//!         class: Durability = Durability::Durable, applies = Restart;
//!     }
//! }
//! ```
//!
//! Items of all files are joined in the order of the files; `--set` gives a list as a whole, in place of the one before.
//!
//! ```
//! use courser_settings::{Durability, Sources};
//!
//! let sources = Sources::new().file("courser.toml", "[[class]]\nfilter = \"sensor/#\"\nclass = \"volatile\"\n");
//! let settings = sources.check()?;
//! assert_eq!(settings.classes[0].filter.as_str(), "sensor/#");
//! assert_eq!(settings.classes[0].class, Durability::Volatile);
//!
//! let sources = Sources::new().set(r#"class=[{ filter = "a/#" }, { filter = "b/#", class = "relaxed" }]"#);
//! assert_eq!(sources.check()?.classes.len(), 2);
//!
//! let errors = Sources::new().file("courser.toml", "[[class]]\nclass = \"durable\"").check().unwrap_err();
//! assert_eq!(errors.to_string(), r#"courser.toml:1:1: [[class]] needs "filter""#);
//! # Ok::<(), courser_settings::Errors>(())
//! ```
#![forbid(unsafe_code)]

#[macro_use]
mod macros;

mod bounded;
mod check;
mod error;
mod json;
mod list;
mod moved;
mod own;
mod reference;
mod resolved;
mod schema;
mod source;
mod table;
mod template;
mod value;

pub use bounded::{open_regular, read_open, read_whole};
pub use check::{LOGIN_ADDRESSES_MAX, memory_least};
pub use error::{Errors, Origin, SettingError};
pub use own::{
    ADDRESS_CONNECTIONS_MAX, ADDRESS_CONNECTS_PER_SECOND, AddressLimit, Spares, is_public,
    listener_key,
};
pub use reference::{help_text, reference_markdown};
pub use resolved::{Change, Effective, Resolved, Shown, as_file};
pub use schema::schema;
pub use source::{Sources, Surroundings};
pub use table::{
    Class, Data, Limits, Listener, Listeners, LoginFailures, Memory, Mqtt, Retained, Server,
    Session, Settings, Sys, Tokens, lists, table,
};
pub use template::template;
pub use value::{
    ByteSize, ClientCertificates, ClientIdPattern, Durability, IdentityFrom, Keep, Landlock,
    ListenerProtocol, LogFormat, LogLevel, Login, Network, Overflow, Placement, SharedStrategy,
    TextError, TlsVersion, TopicFilter, WebOrigin, parse_duration, parse_size, quoted,
};

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
    /// As it is written in the file; empty where the setting may be left out and then has no value. None where it must be
    /// given, which only fields of lists must.
    pub default: Option<String>,
    /// Smallest and largest value, where there is a range.
    pub range: Option<(String, String)>,
    /// When a change takes effect.
    pub applies: Applies,
    /// JSON schema of its values in a file.
    pub schema: serde_json::Value,
    /// What it is for.
    pub doc: &'static str,
}

/// One value of [`Settings`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingValue {
    /// The whole name: `section.name` or `list["identity"].name`.
    pub key: String,
    /// As it is written in the file; empty where it is not set.
    pub value: String,
    /// When a change takes effect.
    pub applies: Applies,
}

/// What the table says of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListSetting {
    /// As in `[[name]]`.
    pub name: &'static str,
    /// The field that tells the items apart.
    pub identity: &'static str,
    /// Most items.
    pub items_max: usize,
    /// When an item more or less takes effect.
    pub applies: Applies,
    /// What it is for.
    pub doc: &'static str,
    /// The settings of an item; their keys begin with the name of the list.
    pub fields: Vec<Setting>,
}
