//! The state machine of a partition: streams, sessions, retained messages.
