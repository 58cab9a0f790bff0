//! Retained messages.

use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use courser_broker::{Control, Page, RetainedRow};
use courser_contract::PartitionId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::access::Principal;
use crate::api::{Done, Retained, RetainedDetail};
use crate::error::{ApiError, Code, ErrorBody};
use crate::list::{Cursor, List, ListParams, ListQuery};

/// How often it is asked whether a change is committed, and how many times.
const LOOK: Duration = Duration::from_millis(10);
const LOOKS_MAX: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(all))
        .routes(routes!(show, delete))
}

/// The messages of one partition, a page at a time.
struct Source {
    partition: PartitionId,
    /// The page that is being taken from, the next row last.
    rows: Vec<RetainedRow>,
    /// Where the next page begins; none: there is none.
    next: Option<Option<Box<str>>>,
}

impl Source {
    /// Sees to it that there is a row, unless there is none left.
    async fn fill(&mut self, control: &Control, filter: &str) -> Result<(), ApiError> {
        while self.rows.is_empty()
            && let Some(after) = self.next.take()
        {
            let Page { rows, next } = control
                .retained(self.partition, filter, after.as_deref())
                .await?;
            self.rows = rows;
            self.rows.reverse();
            self.next = next.map(Some);
        }
        Ok(())
    }
}

/// Topics are ordered level by level, as the partitions have them.
fn order(topic: &str) -> impl Iterator<Item = u8> + '_ {
    topic
        .bytes()
        .map(|byte| if byte == b'/' { 0 } else { byte })
}

/// Retained messages by topic, without their payloads. The order is that of the topics, and `sort` takes only `topic`.
#[utoipa::path(get, path = "/api/v1/retained", params(ListParams, ("match" = Option<String>, Query, description = "Topic filter; all when nothing is said. Topics that begin with $ only match a filter that does")), responses((status = 200, body = List<Retained>), (status = 400, body = ErrorBody)))]
async fn all(
    State(state): State<AppState>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<List<Retained>>, ApiError> {
    let query = ListQuery::read::<Retained>(parameters, &["match"])?;
    if query.is_sorted_other_than_by("topic") {
        return Err(ApiError::new(
            Code::BadRequest,
            "retained messages come in the order of their topics: sort takes only topic",
        ));
    }
    let filter = query.own.last().map_or("#", |(_, filter)| filter.as_str());
    check(filter)?;
    let after = query.topic()?;
    let mut sources: Vec<Source> = state
        .control
        .retained_partitions()
        .map(|partition| Source {
            partition,
            rows: Vec::new(),
            next: Some(after.map(Into::into)),
        })
        .collect();
    let mut items: Vec<Retained> = Vec::new();
    while items.len() < query.limit() {
        for source in &mut sources {
            source.fill(&state.control, filter).await?;
        }
        let heads = sources.iter_mut().filter(|source| !source.rows.is_empty());
        let least = heads.min_by(|a, b| {
            let topic = |source: &Source| {
                source
                    .rows
                    .last()
                    .map(|row| row.topic.clone())
                    .unwrap_or_default()
            };
            order(&topic(a)).cmp(order(&topic(b)))
        });
        let Some(row) = least.and_then(|source| source.rows.pop()) else {
            return Ok(Json(List { items, next: None }));
        };
        let row = Retained::from(row);
        if query.wants(&row)? {
            items.push(row);
        }
    }
    let next = items
        .last()
        .map(|row| Cursor::Topic(row.topic.clone()).write());
    Ok(Json(List { items, next }))
}

/// A filter that the standard has: wildcards stand alone, and `#` at the end.
fn check(filter: &str) -> Result<(), ApiError> {
    let levels: Vec<&str> = filter.split('/').collect();
    let last = levels.len() - 1;
    let wrong = |(at, level): (usize, &&str)| match *level {
        "+" => false,
        "#" => at != last,
        level => level.contains(['+', '#', '\0']),
    };
    if filter.is_empty() || levels.iter().enumerate().any(wrong) {
        let message = format!("match: {filter:?} is no topic filter");
        return Err(ApiError::new(Code::BadRequest, message));
    }
    Ok(())
}

/// A retained message with its payload.
#[utoipa::path(get, path = "/api/v1/retained/{topic}", params(("topic" = String, Path, description = "Topic, percent-encoded with its slashes")), responses((status = 200, body = RetainedDetail), (status = 404, body = ErrorBody)))]
async fn show(
    State(state): State<AppState>,
    Path(topic): Path<String>,
) -> Result<Json<RetainedDetail>, ApiError> {
    let message = state.control.retained_message(&topic).await?;
    Ok(Json(message.ok_or_else(|| unknown(&topic))?.into()))
}

/// Takes a retained message away; subscribers hear nothing of it. Answered once that is committed.
#[utoipa::path(delete, path = "/api/v1/retained/{topic}", params(("topic" = String, Path, description = "Topic, percent-encoded with its slashes")), responses((status = 200, body = Done), (status = 404, body = ErrorBody)))]
async fn delete(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
    Path(topic): Path<String>,
) -> Result<Json<Done>, ApiError> {
    if state.control.retained_message(&topic).await?.is_none() {
        return Err(unknown(&topic));
    }
    state.control.clear_retained(&topic).await?;
    tracing::info!(
        event = "retained_deleted",
        by = principal.name,
        topic,
        "a retained message was taken away by an operator"
    );
    for _ in 0..LOOKS_MAX {
        if state.control.retained_message(&topic).await?.is_none() {
            return Ok(Json(Done {
                done: "deleted".to_owned(),
                what: topic,
            }));
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(ApiError::new(
        Code::TimedOut,
        "the topic still has a retained message, or has another one",
    ))
}

fn unknown(topic: &str) -> ApiError {
    ApiError::new(
        Code::NoRetained,
        format!("{topic:?} has no retained message"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_filters_of_the_standard_are_taken() {
        for good in ["#", "+", "a/#", "a/+/b", "/", "$SYS/#", "+/+"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["", "a#", "#/a", "a+/b", "a/b+", "##"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn topics_are_ordered_level_by_level() {
        let mut topics = ["a b", "a/b", "a", "a/b/c", "a-b"];
        topics.sort_by(|a, b| order(a).cmp(order(b)));
        assert_eq!(topics, ["a", "a/b", "a/b/c", "a b", "a-b"]);
    }
}
