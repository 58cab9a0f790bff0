//! Opening a log (M44), by subject: what is torn or rotten, what cannot be read, files that are not what they were made, and what a disk
//! refuses.

mod covered;
mod ended;
mod files;
mod heads;
mod lost;
mod recorded;
mod refused;
mod replaced;
mod torn;
mod unreadable;
mod withheld;
