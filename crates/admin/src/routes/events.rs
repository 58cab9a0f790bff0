//! What happens, for those who watch.

use std::collections::VecDeque;

use axum::Json;
use axum::extract::{Query, State};
use courser_contract::WallMs;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::answers::page_bytes;
use crate::api::{Event, Events};
use crate::error::{ApiError, Code, ErrorBody};
use crate::list::{Fill, ListQuery, unknown_parameter};

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(events))
}

/// What a shard has told, not all of which may be wanted.
struct Part {
    /// With their times, since texts of these are not in their order.
    events: VecDeque<(WallMs, Event)>,
    /// Number of the first of them.
    next: u64,
}

/// Comings and goings of clients. Without `after` only where to go on from now; a shard keeps the last 1024.
#[utoipa::path(get, path = "/api/v1/events", params(("after" = Option<String>, Query, description = "`next` of the answer before; \"0\": all that is kept"), ("filter" = Option<String>, Query, description = "As of the listings; as often as wanted, and all must hold"), ("limit" = Option<u32>, Query, description = "Most events of the answer, 1 to 10000; 10000 when nothing is said")), responses((status = 200, body = Events), (status = 400, body = ErrorBody)))]
async fn events(
    State(state): State<AppState>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<Events>, ApiError> {
    let query = ListQuery::read_unpaged::<Event>(parameters, &["after"])?;
    let after = numbers_after(&query.own)?;
    let mut parts = Vec::new();
    for shard in state.control.shards() {
        let from = match after.as_slice() {
            [] => u64::MAX,
            [0] => 0,
            numbers => numbers.get(usize::from(shard.0)).copied().unwrap_or(0),
        };
        let (events, behind) = state.control.events(shard, from).await?;
        parts.push(Part {
            next: behind - events.len() as u64,
            events: events.into_iter().map(|it| (it.at, it.into())).collect(),
        });
    }
    let fill = Fill::new(query.limit(), page_bytes(state.control.memory_max()));
    let items = take(&mut parts, fill, |event| query.wants(event))?;
    let next: Vec<String> = parts.iter().map(|part| part.next.to_string()).collect();
    let next = next.join(".");
    Ok(Json(Events { items, next }))
}

/// The events that are wanted, by time, as many as the page has room for. What was looked at is taken out of the parts; what comes behind the last one
/// stays there for the next question.
fn take(
    parts: &mut [Part],
    mut fill: Fill,
    wants: impl Fn(&Event) -> Result<bool, ApiError>,
) -> Result<Vec<Event>, ApiError> {
    let mut items = Vec::new();
    while !fill.is_full() {
        let begun = parts.iter_mut().filter(|part| !part.events.is_empty());
        let Some(part) = begun.min_by_key(|part| part.events[0].0) else {
            break;
        };
        let Some((_, event)) = part.events.pop_front() else {
            break;
        };
        part.next += 1;
        if wants(&event)? {
            fill.take(&event);
            items.push(event);
        }
    }
    Ok(items)
}

/// The numbers of `after`, one a shard; none without it.
///
/// # Errors
/// For other parameters and other texts.
pub(super) fn numbers_after(parameters: &[(String, String)]) -> Result<Vec<u64>, ApiError> {
    let mut after = Vec::new();
    for (name, value) in parameters {
        if name != "after" {
            return Err(unknown_parameter(name));
        }
        let numbers: Result<Vec<u64>, _> = value.split('.').map(str::parse).collect();
        after = numbers.map_err(|_| ApiError::new(Code::BadRequest, "after: none of ours"))?;
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: u64, client_id: &str) -> (WallMs, Event) {
        let event = Event {
            at: at.to_string(),
            event: "connected".to_owned(),
            client_id: client_id.to_owned(),
            address: None,
            cause: None,
            reason_code: None,
            action: None,
            topic: None,
        };
        (WallMs(at), event)
    }

    fn parts() -> Vec<Part> {
        let part = |next, times: &[u64], client_id| Part {
            next,
            events: times.iter().map(|&at| event(at, client_id)).collect(),
        };
        vec![
            part(10, &[1, 4, 15], "a"),
            part(0, &[], ""),
            part(7, &[2, 3, 6], "b"),
        ]
    }

    fn check(limit: usize, wanted: &str, expected: &[u64], next: [u64; 3]) {
        let mut parts = parts();
        let wants = |event: &Event| Ok(wanted.contains(&event.client_id));
        let found = take(&mut parts, Fill::new(limit, 1 << 20), wants).expect("a good question");
        let times: Vec<u64> = found.iter().filter_map(|it| it.at.parse().ok()).collect();
        assert_eq!(times, expected, "{limit} of {wanted}");
        let numbers: Vec<u64> = parts.iter().map(|it| it.next).collect();
        assert_eq!(
            numbers, next,
            "{limit} of {wanted}: none is lost, and none comes twice"
        );
    }

    #[test]
    fn events_of_all_shards_come_by_time_and_the_next_question_goes_on_behind_them() {
        check(9, "ab", &[1, 2, 3, 4, 6, 15], [13, 0, 10]);
        check(6, "ab", &[1, 2, 3, 4, 6, 15], [13, 0, 10]);
        check(3, "ab", &[1, 2, 3], [11, 0, 9]);
        check(1, "ab", &[1], [11, 0, 7]);
    }

    #[test]
    fn what_is_not_wanted_is_passed_over() {
        check(9, "b", &[2, 3, 6], [13, 0, 10]);
        check(2, "b", &[2, 3], [11, 0, 9]);
        check(1, "a", &[1], [11, 0, 7]);
        check(2, "a", &[1, 4], [12, 0, 9]);
        check(9, "", &[], [13, 0, 10]);
    }
}
