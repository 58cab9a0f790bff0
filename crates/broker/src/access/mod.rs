//! Users, roles and rules in the process: one table in partition 0, an immutable copy of it for everybody who asks.
//!
//! ```text
//! admin, first start ─▶ Access::change ─▶ shard 0: Table::check ─▶ entry ─▶ committed ─▶ Table::apply ─▶ copy swapped ─▶ shards
//! ```
//! A change of everything is checked, encoded and applied before it comes to the shard ([`import`]).

mod accounts;
mod authors;
mod backoff;
mod bootstrap;
mod denials;
mod drain;
mod ends;
mod entry;
mod gate;
mod hashing;
mod import;
mod kept;
mod lanes;
mod machine;
mod mailbox;
mod meter;
mod operators;
mod owner;
mod password;
mod presence;
mod quotas;
mod refusals;
mod regulars;
mod saving;
mod shared;
mod throttle;
mod tokens;
mod wanted;

pub(crate) use accounts::{Accounts, Logins, Secret};
pub(crate) use authors::Authors;
pub(crate) use backoff::Backoff;
pub(crate) use denials::{Denial, Denials};
pub(crate) use ends::Ends;
pub(crate) use entry::{VERSION, empty_checkpoint};
pub(crate) use gate::{Gate, Revoked, limits_of_session, may_publish_will};
pub(crate) use hashing::{HashPool, Reply};
pub(crate) use import::let_go;
pub(crate) use machine::Metadata;
pub(crate) use operators::Operators;
pub(crate) use owner::Owner;
pub(crate) use presence::Presence;
pub(crate) use quotas::{Name, Quotas};
pub(crate) use refusals::Refusals;
pub(crate) use throttle::Throttle;
pub(crate) use tokens::TokenKeys;

pub(crate) use bootstrap::take as take_bootstrap;
pub use bootstrap::{BootstrapError, first_administrator, write_bootstrap};
pub use hashing::Credentials;
pub use operators::{LogInError, LoggedIn, MakeError};
pub use shared::{Access, ChangeError};
pub use tokens::TokensError;
