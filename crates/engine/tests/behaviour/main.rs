//! Behaviour of partitions as fronts, shards and other partitions see it.

mod checkpoints;
mod forwards;
mod oracle;
mod retained;
mod sessions;
mod shared;
mod world;
