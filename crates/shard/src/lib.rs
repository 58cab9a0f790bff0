//! What a shard remembers of what it has sent and waits for, for every shell that runs partitions and fronts: the broker's shards, and
//! those of the simulator.
//!
//! - [`Appends`]: publishes on their way to partitions, numbered until each has answered (M10, M11, M14).
//! - [`LastWords`]: the last messages of fronts whose appends are not settled yet (M25).
//! - [`FenceBook`]: when everything that was matched before a moment is pushed and settled (M34).
//! - [`Rounds`]: which shards use a change of the index already (M38).
//!
//! It knows no ring, socket, clock or thread: what is sent is the shell's, and time is passed in.
#![forbid(unsafe_code)]

mod appends;
mod fences;
mod last_words;
mod rounds;

pub use appends::{Appends, Done, Waiting};
pub use fences::{FenceBook, FenceId, Passed, Watermarks};
pub use last_words::{LastWords, Leaving};
pub use rounds::{RoundId, Rounds};
