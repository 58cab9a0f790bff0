//! Behaviour of partitions as fronts, shards and other partitions see it.

mod aging;
mod aside;
mod authors;
mod checkpoints;
mod cold;
mod forwards;
mod incoming_qos2;
mod leading;
mod limits;
mod listing;
mod lost;
mod no_local;
mod oracle;
mod owners;
mod parts;
mod people;
mod requests;
mod restarts;
mod retained;
mod sessions;
mod shared;
mod sizes;
mod takeover;
mod trimming;
mod wills;
mod world;
