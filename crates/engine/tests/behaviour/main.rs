//! Behaviour of partitions as fronts, shards and other partitions see it.

mod forwards;
mod oracle;
mod retained;
mod sessions;
mod shared;
mod world;
