//! The log, tested from outside.
//!
//! One program for all of it: each program of tests compiles the log anew for its disk in memory.

mod cleaner;
mod corpus;
mod crashes;
mod every_byte;
#[allow(
    unreachable_pub,
    reason = "the fuzz targets, in another crate, use them too"
)]
mod fuzzed;
mod hold;
mod inspect;
mod m44;
mod m45;
mod planted;
mod real_disk;
mod recall;
mod summaries;
mod support;
