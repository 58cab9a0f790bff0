//! Rules of the front, by behaviour. Statements of the standards are named with their version, rules of the
//! broker as M1 and so on.

mod support;

mod acks;
mod alias;
mod auth;
mod close;
mod connect;
mod deliver;
mod glimpse;
mod groups;
mod held;
mod keepalive;
mod limited;
mod output;
mod publish;
mod publish_qos2;
mod reasons;
mod refused;
mod requests;
mod rights;
mod run;
mod size;
mod splits;
mod subscribe;
mod under_way;
mod user_properties;
