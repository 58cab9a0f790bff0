//! Load on a broker: many connections, measured and checked.
//!
//! A [`Plan`] says who sends what to whom and for how long, [`run()`] does it and returns an [`Outcome`]. Payloads from
//! [`stamp::BYTES`] on carry stream, number and time, so that every delivery is checked for loss, repetition and order while it is
//! timed. In an open loop ([`Pace::Open`]) a latency counts from the moment at which the message was due, however late it could be
//! written: a broker that stalls is not forgiven the messages it did not let in.
//!
//! The machines of publishers and subscribers are pure; `worker` moves their bytes.

mod arrivals;
mod pipe;
mod plan;
pub mod process;
mod publisher;
mod result;
mod run;
pub mod stamp;
mod stored;
mod storm;
mod subscriber;
mod worker;

pub use arrivals::Faults;
pub use plan::{Begin, Pace, Pattern, Plan, PlanError, Stop, Target, Threads};
pub use result::{Acknowledged, Latencies, Outcome, Resources};
pub use run::{LoadError, Progress, Watch, run};
pub use stored::{Phase, StoredOutcome, absent, retained};
pub use storm::{Storm, StormOutcome, storm};
