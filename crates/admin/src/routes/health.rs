//! Whether it is alive, and whether it serves.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::routing::get;
use courser_broker::Status;
use courser_contract::PartitionId;

use crate::AppState;

/// Of more than so many partitions only the number is told.
const NAMED_MAX: usize = 16;
/// A full disk, or memory that is used up, that gives room again within so long, as a checkpoint does, is none that anybody need look at.
const NO_ROOM_MIN: Duration = Duration::from_secs(5);

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
}

/// 200, or 503 with why not. Who asks for `/readyz?partial` is told 200 also while partitions are set aside: the others serve.
async fn ready(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> (StatusCode, Cow<'static, str>) {
    let partial = query.as_deref() == Some("partial");
    match not_ready(&state) {
        None => (StatusCode::OK, "ready\n".into()),
        Some(Unready::SetAside(text)) if partial => (StatusCode::OK, text.into()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why.text()),
    }
}

/// Why it does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unready {
    /// Nobody is served: why.
    All(&'static str),
    /// Nothing that is kept is acknowledged: for so long the disk has had no room for it.
    NoRoom(Duration),
    /// Nobody comes in: for so long memory has been used up.
    NoMemory(Duration),
    /// Partitions are set aside, the others serve: which, and why.
    SetAside(String),
}

impl Unready {
    /// For people.
    pub(super) fn text(self) -> Cow<'static, str> {
        match self {
            Self::All(why) => why.into(),
            Self::NoRoom(waits) => no_room(waits).into(),
            Self::NoMemory(waits) => no_memory(waits).into(),
            Self::SetAside(text) => text.into(),
        }
    }
}

/// Why it does not serve, or not all.
pub(super) fn not_ready(state: &AppState) -> Option<Unready> {
    if state.control.is_stopping() {
        return Some(Unready::All("draining: the server is being stopped\n"));
    }
    match state.control.status() {
        Status::Serving => {
            let waits = state.control.waits_for_room();
            if let Some(waits) = waits.filter(|it| *it >= NO_ROOM_MIN) {
                return Some(Unready::NoRoom(waits));
            }
            let waits = state.control.waits_for_memory();
            if let Some(waits) = waits.filter(|it| *it >= NO_ROOM_MIN) {
                return Some(Unready::NoMemory(waits));
            }
            let all = state.control.damage().set_aside;
            let named = all.iter().map(|it| (it.partition, it.fault.to_string()));
            (!all.is_empty()).then(|| Unready::SetAside(set_aside(named)))
        }
        Status::Reading => Some(Unready::All("recovering: the log is being read\n")),
        Status::Recovering => Some(Unready::All(
            "recovering: sessions and messages are being made of the log\n",
        )),
        Status::Failed(_) => Some(Unready::All(
            "disk failed: nothing is acknowledged any more\n",
        )),
    }
}

fn no_room(waits: Duration) -> String {
    format!(
        "disk full: for {} s nothing has been acknowledged, and no room has come back\nends by: room on the disk, or fewer messages that wait (docs/operations/disk.md)\n",
        waits.as_secs()
    )
}

fn no_memory(waits: Duration) -> String {
    format!(
        "memory full: for {} s every connection has been closed as soon as it came\nends by: fewer clients, users or messages that wait, or more memory.max (docs/limits.md)\n",
        waits.as_secs()
    )
}

/// Numbers of partitions and why they are set aside: nothing of clients, since anyone may ask.
fn set_aside(all: impl ExactSizeIterator<Item = (PartitionId, String)>) -> String {
    let more = all.len().saturating_sub(NAMED_MAX);
    let mut text = format!("set aside: {} partitions; the others serve\n", all.len());
    for (id, why) in all.take(NAMED_MAX) {
        let _ = writeln!(text, "partition {}: {why}", id.0);
    }
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
    text.push_str("ends by: courser repair DATA, with the server stopped\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m47_who_waits_for_room_says_for_how_long() {
        let text = Unready::NoRoom(Duration::from_millis(7_900)).text();
        assert!(text.starts_with("disk full: for 7 s nothing has been acknowledged"));
        assert!(text.contains("\nends by: room on the disk"));
    }

    #[test]
    fn who_has_no_memory_left_says_for_how_long() {
        let text = Unready::NoMemory(Duration::from_millis(6_100)).text();
        assert!(text.starts_with("memory full: for 6 s every connection"));
        assert!(text.contains("\nends by: fewer clients"));
    }

    #[test]
    fn m50_who_is_not_ready_says_which_partitions_and_why() {
        let named = |count| {
            let all: Vec<_> = (1..=count)
                .map(|number| (PartitionId(number), format!("why {number}")))
                .collect();
            set_aside(all.into_iter())
        };
        assert_eq!(
            named(1),
            "set aside: 1 partitions; the others serve\npartition 1: why 1\nends by: courser repair DATA, with the server stopped\n"
        );
        let text = named(20);
        assert!(text.starts_with("set aside: 20 partitions") && text.contains("\nand 4 more\n"));
        assert!(text.contains("\npartition 16: why 16\n") && !text.contains("partition 17"));
    }
}
