//! Retained messages.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::{Extension, Json};
use courser_broker::{Control, Page, RetainedRow};
use courser_contract::{PartitionId, is_own_topic};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::access::Principal;
use crate::answers::page_bytes;
use crate::api::{Done, DoneToMany, Retained, RetainedDetail};
use crate::error::{ApiError, Code, ErrorBody};
use crate::list::{Cursor, Fill, List, ListParams, ListQuery};
use crate::routes::body::{How, Named};
use crate::routes::done;
use crate::routes::topics::check_filter;

/// How often it is asked whether a change is committed, and how many times.
const LOOK: Duration = Duration::from_millis(10);
const LOOKS_MAX: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(all, delete_matching))
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
    check_filter("match", filter)?;
    let (found, next) = page(&state.control, &query, filter).await?;
    let items = found.into_iter().map(|(_, row)| row.into()).collect();
    Ok(Json(List { items, next }))
}

/// A page of the messages that match, each with its partition, and the cursor of the next one.
async fn page(
    control: &Control,
    query: &ListQuery,
    filter: &str,
) -> Result<(Vec<(PartitionId, RetainedRow)>, Option<String>), ApiError> {
    let after = query.topic()?;
    let mut sources: Vec<Source> = control
        .retained_partitions()
        .map(|partition| Source {
            partition,
            rows: Vec::new(),
            next: Some(after.map(Into::into)),
        })
        .collect();
    let mut found: Vec<(PartitionId, RetainedRow)> = Vec::new();
    let mut fill = Fill::new(query.limit(), page_bytes(control.memory_max()));
    while !fill.is_full() {
        for source in &mut sources {
            source.fill(control, filter).await?;
        }
        let Some((partition, row)) = take_least(&mut sources) else {
            return Ok((found, None));
        };
        let shown = Retained::from(row.clone());
        if query.wants(&shown)? {
            fill.take(&shown);
            found.push((partition, row));
        }
    }
    let last = found.last().map(|(_, row)| row.topic.to_string());
    Ok((found, last.map(|topic| Cursor::Topic(topic).write())))
}

/// The first of their topics.
fn take_least(sources: &mut [Source]) -> Option<(PartitionId, RetainedRow)> {
    let topic = |source: &Source| {
        let row = source.rows.last();
        row.map(|row| row.topic.clone()).unwrap_or_default()
    };
    let heads = sources.iter_mut().filter(|source| !source.rows.is_empty());
    let least = heads.min_by(|a, b| order(&topic(a)).cmp(order(&topic(b))))?;
    Some((least.partition, least.rows.pop()?))
}

/// A retained message with its payload.
#[utoipa::path(get, path = "/api/v1/retained/{topic}", params(("topic" = String, Path, description = "Topic, percent-encoded with its slashes")), responses((status = 200, body = RetainedDetail), (status = 404, body = ErrorBody), (status = 500, body = ErrorBody)))]
async fn show(
    State(state): State<AppState>,
    Named(topic): Named,
) -> Result<Json<RetainedDetail>, ApiError> {
    let message = state.control.retained_message(&topic).await?;
    let message = message.ok_or_else(|| unknown(&topic))?;
    if message.row.is_lost {
        let message = format!("the retained message of {topic:?} is damaged: the disk has lost it");
        return Err(ApiError::new(Code::RetainedDamaged, message));
    }
    Ok(Json(message.into()))
}

/// Takes a retained message away; subscribers hear nothing of it. Answered once that is committed.
#[utoipa::path(delete, path = "/api/v1/retained/{topic}", params(("topic" = String, Path, description = "Topic, percent-encoded with its slashes"), How), responses((status = 200, body = Done), (status = 404, body = ErrorBody)))]
async fn delete(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
    Named(topic): Named,
    how: How,
) -> Result<Json<Done>, ApiError> {
    let control = &state.control;
    let Some(message) = control.retained_message(&topic).await? else {
        return Err(unknown(&topic));
    };
    if how.dry_run {
        return Ok(done("would delete", &topic));
    }
    let found = [(control.retained_at(&topic), message.row)];
    take_away(control, &found).await?;
    tracing::info!(
        event = "retained_deleted",
        by = principal.name,
        topic,
        "a retained message was taken away by an operator"
    );
    Ok(done("deleted", &topic))
}

/// Takes away the retained messages of all topics that match a filter, at most `limit` of them (10000 when nothing is said) behind a
/// cursor; `next` is the cursor of the others. Subscribers hear nothing of it, and the broker's own values under $SYS/ stay. Answered
/// once that is committed.
#[utoipa::path(delete, path = "/api/v1/retained", params(("match" = String, Query, description = "Topic filter; # for all, but those that begin with $"), ("limit" = Option<u32>, Query, description = "Most messages, 1 to 10000"), ("cursor" = Option<String>, Query, description = "`next` of the answer before, with the same filters"), ("filter" = Option<String>, Query, description = "As of the listing; as often as wanted, and all must hold"), ("dry_run" = Option<bool>, Query, description = "Only count them")), responses((status = 200, body = DoneToMany), (status = 400, body = ErrorBody)))]
async fn delete_matching(
    State(state): State<AppState>,
    Extension(principal): Extension<Principal>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<DoneToMany>, ApiError> {
    let query = ListQuery::read_most::<Retained>(parameters, &["match", "dry_run"])?;
    if query.is_sorted_other_than_by("topic") {
        let message = "what is deleted comes in the order of its topics: sort takes only topic";
        return Err(ApiError::new(Code::BadRequest, message));
    }
    let own = |name| query.own.iter().rev().find(|(own, _)| own == name);
    let Some((_, filter)) = own("match") else {
        let message = "match: say of which topics, # for all";
        return Err(ApiError::new(Code::BadRequest, message));
    };
    let is_meant = match own("dry_run").map_or("false", |(_, value)| value) {
        "false" => true,
        "true" => false,
        other => {
            let message = format!("dry_run: expected true or false, found {other:?}");
            return Err(ApiError::new(Code::BadRequest, message));
        }
    };
    check_filter("match", filter)?;
    if is_own_topic(filter) {
        let message = "match: what is under $SYS/ are values of the broker itself, which stay";
        return Err(ApiError::new(Code::BadRequest, message));
    }
    let (found, next) = page(&state.control, &query, filter).await?;
    if is_meant {
        take_away(&state.control, &found).await?;
    }
    if is_meant && !found.is_empty() {
        tracing::info!(
            event = "retained_deleted",
            by = principal.name,
            topic_filter = filter,
            count = found.len(),
            "retained messages were taken away by an operator"
        );
    }
    Ok(Json(DoneToMany {
        done: if is_meant { "deleted" } else { "would delete" }.to_owned(),
        what: filter.clone(),
        count: found.len() as u64,
        next,
    }))
}

/// Takes messages away, and waits until that is committed.
async fn take_away(
    control: &Control,
    found: &[(PartitionId, RetainedRow)],
) -> Result<(), ApiError> {
    let mut parts: BTreeMap<PartitionId, Vec<&RetainedRow>> = BTreeMap::new();
    for (partition, row) in found {
        parts.entry(*partition).or_default().push(row);
    }
    for (partition, rows) in &parts {
        let topics: Vec<&str> = rows.iter().map(|row| &*row.topic).collect();
        control.clear_retained(*partition, &topics).await?;
    }
    // They go in their order: with the last one all have gone.
    for (partition, rows) in &parts {
        if let Some(last) = rows.last() {
            until_gone(control, *partition, last).await?;
        }
    }
    Ok(())
}

/// Waits until the topic has no retained message any more, or another one.
async fn until_gone(
    control: &Control,
    partition: PartitionId,
    row: &RetainedRow,
) -> Result<(), ApiError> {
    for _ in 0..LOOKS_MAX {
        let now = control.retained_in(partition, &row.topic).await?;
        if now.is_none_or(|now| now.row.address != row.address) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    let message = format!("{:?} still has its retained message", row.topic);
    Err(ApiError::new(Code::TimedOut, message))
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
            assert!(check_filter("match", good).is_ok(), "{good}");
        }
        for bad in ["", "a#", "#/a", "a+/b", "a/b+", "##"] {
            assert!(check_filter("match", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn topics_are_ordered_level_by_level() {
        let mut topics = ["a b", "a/b", "a", "a/b/c", "a-b"];
        topics.sort_by(|a, b| order(a).cmp(order(b)));
        assert_eq!(topics, ["a", "a/b", "a/b/c", "a b", "a-b"]);
    }
}
