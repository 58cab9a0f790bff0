//! Commands for operators, over the API of a running server.

mod accounts;
mod among;
mod context;
mod diagnose;
mod errors;
mod events;
mod in_force;
mod list;
mod print;
mod redirect;
mod reload;
mod retained;
mod sequence;
mod server;
mod targets;
mod top;
mod trace;
mod verbs;

pub(crate) use accounts::{
    Access, Acl, Domains, Roles, Users, run_access, run_acl, run_domains, run_roles, run_users,
};
pub(crate) use context::{Context, run as run_context};
pub(crate) use diagnose::{Diagnose, run as run_diagnose};
pub(crate) use errors::{Errors, run as run_errors};
pub(crate) use events::{EventsArguments, run as run_events};
pub(crate) use in_force::{Side, compare_with_server, say_changes, show_of_server};
pub(crate) use print::{Output, OutputFlags, say};
pub(crate) use reload::{Reload, run as run_reload};
pub(crate) use sequence::{Sequence, Until};
pub(crate) use server::{ServerFlags, Stop};
pub(crate) use top::{Top, run as run_top};
pub(crate) use verbs::{
    Clients, Listeners, RetainedMessages, Sessions, Subscriptions, run_clients, run_listeners,
    run_retained, run_sessions, run_subscriptions,
};
