//! Walks over the tables of shards and partitions.

use std::future::Future;

use courser_broker::{AskError, Control};
use serde::Serialize;

use super::{Cursor, Fill, Key, List, ListQuery, Sort, json_bytes, page_bytes};
use crate::error::ApiError;

/// Steps of one unsorted page: then the caller gets what there is, and a cursor.
const STEPS_MAX: usize = 512;

/// A part (a shard or partition) and a place in it.
pub(crate) type Place = (u16, (u32, u32));

/// Rows of one step, each with where to go on behind it; and where the next step begins.
pub(crate) type Step<R> = (Vec<(R, (u32, u32))>, Option<(u32, u32)>);

/// Something that can be walked over.
pub(crate) trait Walk {
    /// What it finds.
    type Row: Serialize;

    /// Shards or partitions, in order.
    fn parts(control: &Control) -> Vec<u16>;

    /// The rows at some places of a part from one on.
    fn step(
        control: &Control,
        part: u16,
        from: (u32, u32),
    ) -> impl Future<Output = Result<Step<Self::Row>, AskError>>;

    /// What tells a row from all others.
    fn id(row: &Self::Row) -> String;
}

/// A page of a listing.
pub(crate) async fn list<W: Walk>(
    control: &Control,
    query: &ListQuery,
) -> Result<List<W::Row>, ApiError> {
    match &query.sort {
        None => walk::<W>(control, query).await,
        Some(sort) => sorted::<W>(control, query, sort).await,
    }
}

/// Rows of a page after which others get a turn of the thread.
const ROWS_AT_ONCE: usize = 1_000;

/// A page of rows that are all at hand, each with its id, in the order of the ids.
pub(crate) async fn list_here<I: AsRef<str>, R: Serialize>(
    control: &Control,
    query: &ListQuery,
    rows: impl Iterator<Item = (I, impl FnOnce() -> R)>,
) -> Result<List<R>, ApiError> {
    let bytes = page_bytes(control.memory_max());
    let mut best = match &query.sort {
        Some(sort) => Some(Best::new(query, sort, bytes)?),
        None => None,
    };
    let after = match &best {
        Some(_) => None,
        None => query.topic()?,
    };
    let mut items = Vec::new();
    let mut fill = Fill::new(query.limit(), bytes);
    let mut last: Option<String> = None;
    for (seen, (id, row)) in rows.enumerate() {
        if seen % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
        let id = id.as_ref();
        if after.is_some_and(|after| id <= after) {
            continue;
        }
        if let Some(best) = &mut best {
            best.offer(row(), id.to_owned())?;
            continue;
        }
        let row = row();
        if !query.wants(&row)? {
            continue;
        }
        if fill.is_full() {
            let next = last.map(|last| Cursor::Topic(last).write());
            return Ok(List { items, next });
        }
        fill.take(&row);
        items.push(row);
        last = Some(id.to_owned());
    }
    Ok(match best {
        Some(best) => best.page(),
        None => List { items, next: None },
    })
}

async fn walk<W: Walk>(control: &Control, query: &ListQuery) -> Result<List<W::Row>, ApiError> {
    let parts = W::parts(control);
    let start = query.walk()?;
    let mut items = Vec::new();
    let mut fill = Fill::new(query.limit(), page_bytes(control.memory_max()));
    let mut steps = 0;
    let cursor = |part, (first, second)| Some(Cursor::Walk(part, first, second).write());
    for part in parts {
        let mut from = match start {
            Some((begin, _)) if part < begin => continue,
            Some((begin, place)) if part == begin => place,
            Some(_) | None => (0, 0),
        };
        loop {
            if steps == STEPS_MAX {
                let next = cursor(part, from);
                return Ok(List { items, next });
            }
            steps += 1;
            let (rows, next) = W::step(control, part, from).await?;
            for (row, behind) in rows {
                if !query.wants(&row)? {
                    continue;
                }
                fill.take(&row);
                items.push(row);
                if fill.is_full() {
                    let next = cursor(part, behind);
                    return Ok(List { items, next });
                }
            }
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
    }
    Ok(List { items, next: None })
}

async fn sorted<W: Walk>(
    control: &Control,
    query: &ListQuery,
    sort: &Sort,
) -> Result<List<W::Row>, ApiError> {
    let mut best = Best::new(query, sort, page_bytes(control.memory_max()))?;
    for part in W::parts(control) {
        let mut from = Some((0, 0));
        while let Some(place) = from {
            let (rows, next) = W::step(control, part, place).await?;
            for (row, _) in rows {
                let id = W::id(&row);
                best.offer(row, id)?;
            }
            from = next;
        }
    }
    Ok(best.page())
}

/// The first so many rows of an order behind a key, and of these the first so many bytes.
pub(crate) struct Best<'a, R> {
    query: &'a ListQuery,
    sort: &'a Sort,
    after: Option<Key>,
    /// Most bytes of the page.
    bytes_max: usize,
    rows: Vec<(Key, R)>,
    /// Bytes of them.
    bytes: usize,
    /// Whether a row was left out that comes behind those.
    more: bool,
}

impl<'a, R: Serialize> Best<'a, R> {
    fn new(query: &'a ListQuery, sort: &'a Sort, bytes_max: usize) -> Result<Self, ApiError> {
        Ok(Self {
            query,
            sort,
            after: query.sorted()?,
            bytes_max,
            rows: Vec::new(),
            bytes: 0,
            more: false,
        })
    }

    fn offer(&mut self, row: R, id: String) -> Result<(), ApiError> {
        if !self.query.wants(&row)? {
            return Ok(());
        }
        let key = self.sort.key(&row, id)?;
        let seen = |after: &Key| self.sort.compare(&key, after).is_le();
        if self.after.as_ref().is_some_and(seen) {
            return Ok(());
        }
        self.bytes += json_bytes(&row);
        self.rows.push((key, row));
        // Sorting once for so many costs a few comparisons a row.
        if self.rows.len() >= 2 * self.query.limit() + 64 || self.bytes >= 2 * self.bytes_max {
            self.cut();
        }
        Ok(())
    }

    fn cut(&mut self) {
        let sort = self.sort;
        self.rows.sort_by(|a, b| sort.compare(&a.0, &b.0));
        let mut fill = Fill::new(self.query.limit(), self.bytes_max);
        let fits = self.rows.iter().take_while(|(_, row)| {
            let has_room = !fill.is_full();
            fill.take(row);
            has_room
        });
        let fits = fits.count();
        self.more |= self.rows.len() > fits;
        self.rows.truncate(fits);
        self.bytes = self.rows.iter().map(|(_, row)| json_bytes(row)).sum();
    }

    fn page(mut self) -> List<R> {
        self.cut();
        let last = self.rows.last().filter(|_| self.more);
        let next = last.map(|((value, id), _)| Cursor::Sorted(value.clone(), id.clone()).write());
        List {
            items: self.rows.into_iter().map(|(_, row)| row).collect(),
            next,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A page of `rows` in an order.
    pub(crate) fn sorted_page<R: Serialize>(
        query: &ListQuery,
        rows: Vec<R>,
        id: fn(&R) -> String,
        bytes: usize,
    ) -> List<R> {
        let sort = query.sort.as_ref().expect("a sort");
        let mut best = Best::new(query, sort, bytes).expect("a cursor of this sort");
        for row in rows {
            let id = id(&row);
            best.offer(row, id).expect("the field is there");
        }
        best.page()
    }
}
