//! Who may come in, and what a client may publish and receive.
//!
//! - [`Table`]: users, roles and domains at one moment, changed by [`Command`]s. It is the part of the metadata partition's state that is about
//!   access: [`Table::check`] is asked by the leader, [`Table::apply`] is deterministic and cannot fail.
//! - [`Rights`]: what one client may do, decided from a table and kept by topic. Every path of a message asks it.
//! - [`Quota`]: how much a client may publish.
//! - [`PasswordHash`], [`scram`]: proofs of identity. They take the random bytes and the memory that they need.
//!
//! # Rules
//! A [`Rule`] allows or denies publishing, subscribing, or both, for the topics of a [`TopicPattern`]. What no rule allows is denied.
//! Where an allowing and a denying rule speak of the same topic, the denying one counts, in whatever order they stand and whatever role
//! they come from.
//!
//! - *Publish*, also of a will: the topic.
//! - *Receive*: the topic of each message, live, retained or queued, by the rules for subscribing.
//! - *Subscribe*: the filter as a whole. One allowing rule must cover every topic of it; it is refused when one denying rule does.
//!   Where a denying rule speaks of some of its topics, those are not delivered. A shared subscription has members with different
//!   rights, so there a denying rule that speaks of any of its topics refuses it.
//!
//! Nothing here does I/O or reads a clock, and no answer depends on a random number: one is drawn for the process, under which decisions are
//! kept.
#![forbid(unsafe_code)]

mod command;
mod credential;
mod index;
mod limits;
mod names;
mod pattern;
mod quota;
mod rights;
mod room;
mod rule;
pub mod scram;
mod table;
mod table_bytes;
mod wire;

pub use command::{Command, Refusal};
pub use credential::{
    HashError, HashMemory, HashParseError, PasswordHash, SALT_BYTES, VerifyCost, dummy_hash,
};
pub use limits::{Limits, RetainedLimits};
pub use names::{DomainName, NameError, RoleName, UserName};
pub use pattern::{PatternError, TopicPattern};
pub use quota::{Quota, Rates};
pub use rights::{Decision, Identity, Principal, Rights, Sharing, Standing, Verdict};
pub use room::Room;
pub use rule::{Effect, Rule, RuleError, Scope};
pub use table::{Administration, Domain, Role, Table, User, UserState};
pub use table_bytes::TableBytes;
pub use wire::WireError;
