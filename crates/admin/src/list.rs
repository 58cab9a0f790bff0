//! Listings: filtered, sorted, limited and paged here, never at the shards and never in the client.
//!
//! Without a sort, a listing is a walk over tables that ends as soon as it has enough; the cursor says where. Sorted, each page is a
//! whole walk that keeps the best so many behind the last row of the page before, so that memory follows the page and not the table.
//! A page ends by rows, and by bytes ([`page_bytes`]), behind one row at least.

mod filter;
mod walk;

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::openapi::schema::{Object, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema};

use crate::answers::page_bytes;
pub(crate) use crate::api::List;
use crate::error::{ApiError, Code};

use filter::Condition;
pub(crate) use walk::{Place, Step, Walk, list, list_here};

/// Rows of a page when nobody says how many.
const LIMIT_DEFAULT: usize = 100;
/// Most rows of a page, which ends before where they are long.
const LIMIT_MAX: usize = 10_000;
/// Conditions of one question.
const CONDITIONS_MAX: usize = 16;

/// What a listing takes.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(
    dead_code,
    reason = "the form of the parameters for the OpenAPI document; they are read one by one"
)]
pub(crate) struct ListParams {
    /// Most rows of the answer, 1 to 10000; 100 when nothing is said. Long rows end it before, with `next`.
    limit: Option<u32>,
    /// `next` of the page before, with the same filter and sort.
    cursor: Option<String>,
    /// `FIELD=PATTERN` with `*` for anything, or `!=`, `<`, `<=`, `>`, `>=`; as often as wanted, and all must hold.
    filter: Option<String>,
    /// A field; with `-` before it the largest first. Costs a look at everything.
    sort: Option<String>,
}

/// What is asked of a listing.
#[derive(Debug, Default)]
pub(crate) struct ListQuery {
    limit: usize,
    cursor: Option<Cursor>,
    conditions: Vec<Condition>,
    sort: Option<Sort>,
    /// Parameters of one listing alone.
    pub(crate) own: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Sort {
    field: String,
    descending: bool,
}

/// Where a page ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Cursor {
    /// A walk: its part, and the place there.
    #[serde(rename = "w")]
    Walk(u16, u32, u32),
    /// The value that is sorted by and the key of the last row.
    #[serde(rename = "s")]
    Sorted(Value, String),
    /// A topic or another name.
    #[serde(rename = "t")]
    Topic(String),
}

impl Cursor {
    /// As text that needs no escaping.
    pub(crate) fn write(&self) -> String {
        let json = serde_json::to_vec(self).expect("a cursor is plain data");
        json.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn read(text: &str) -> Option<Self> {
        if !text.is_ascii() || !text.len().is_multiple_of(2) {
            return None;
        }
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
        let json: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
        serde_json::from_slice(&json?).ok()
    }
}

fn bad(message: String) -> ApiError {
    ApiError::new(Code::BadRequest, message)
}

pub(crate) fn unknown_parameter(name: &str) -> ApiError {
    bad(format!("unknown parameter \"{name}\""))
}

/// The fields of the rows of a listing, as the OpenAPI document has them: also known where there is no row.
struct Columns(Object);

impl Columns {
    fn of<R: PartialSchema>() -> Self {
        match R::schema() {
            RefOr::T(Schema::Object(object)) => Self(object),
            RefOr::T(_) | RefOr::Ref(_) => unreachable!("rows are plain structs"),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.properties.keys().map(String::as_str)
    }

    /// Whether a field is a number where it is anything; none: there is no such field.
    fn is_number(&self, field: &str) -> Option<bool> {
        let is_number = |kind: &Type| matches!(kind, Type::Integer | Type::Number);
        Some(match self.0.properties.get(field)? {
            RefOr::T(Schema::Object(object)) => match &object.schema_type {
                SchemaType::Type(kind) => is_number(kind),
                SchemaType::Array(kinds) => kinds.iter().any(is_number),
                SchemaType::AnyValue => false,
            },
            RefOr::T(_) | RefOr::Ref(_) => false,
        })
    }
}

impl ListQuery {
    /// Reads the parameters of a URL for a listing of `R`; `own` names those of this listing alone.
    pub(crate) fn read<R: PartialSchema>(
        parameters: Vec<(String, String)>,
        own: &[&str],
    ) -> Result<Self, ApiError> {
        Self::read_with::<R>(LIMIT_DEFAULT, parameters, own)
    }

    /// Reads those of what is done to as many as there may be on a page, unless fewer are asked for.
    pub(crate) fn read_most<R: PartialSchema>(
        parameters: Vec<(String, String)>,
        own: &[&str],
    ) -> Result<Self, ApiError> {
        Self::read_with::<R>(LIMIT_MAX, parameters, own)
    }

    /// Reads those of what is neither sorted nor has a cursor: all there may be, unless fewer are asked for.
    pub(crate) fn read_unpaged<R: PartialSchema>(
        parameters: Vec<(String, String)>,
        own: &[&str],
    ) -> Result<Self, ApiError> {
        let mut names = parameters.iter().map(|(name, _)| name.as_str());
        match names.find(|name| matches!(*name, "sort" | "cursor")) {
            Some(name) => Err(unknown_parameter(name)),
            None => Self::read_with::<R>(LIMIT_MAX, parameters, own),
        }
    }

    fn read_with<R: PartialSchema>(
        limit_default: usize,
        parameters: Vec<(String, String)>,
        own: &[&str],
    ) -> Result<Self, ApiError> {
        let mut query = Self {
            limit: limit_default,
            ..Self::default()
        };
        for (name, value) in parameters {
            match name.as_str() {
                "limit" => query.limit = limit(&value)?,
                "cursor" => {
                    let cursor = Cursor::read(&value);
                    query.cursor =
                        Some(cursor.ok_or_else(|| bad("the cursor is none of ours".into()))?);
                }
                "filter" if query.conditions.len() == CONDITIONS_MAX => {
                    return Err(bad(format!("more than {CONDITIONS_MAX} filters")));
                }
                "filter" => query.conditions.push(Condition::read(&value).map_err(bad)?),
                "sort" => query.sort = Some(sort(&value)),
                name if own.contains(&name) => query.own.push((name.to_owned(), value)),
                name => return Err(unknown_parameter(name)),
            }
        }
        query.check::<R>()?;
        Ok(query)
    }

    /// Refuses what no row has, also where there is none.
    fn check<R: PartialSchema>(&self) -> Result<(), ApiError> {
        if self.conditions.is_empty() && self.sort.is_none() {
            return Ok(());
        }
        let columns = Columns::of::<R>();
        for condition in &self.conditions {
            condition.check(&columns).map_err(bad)?;
        }
        match &self.sort {
            Some(Sort { field, .. }) if columns.is_number(field).is_none() => {
                Err(bad(filter::unknown(field, columns.names())))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Most rows of the page.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// Whether the order is to be another one than that of a field, the least first.
    pub(crate) fn is_sorted_other_than_by(&self, field: &str) -> bool {
        let sort = self.sort.as_ref();
        sort.is_some_and(|sort| sort.descending || sort.field != field)
    }

    /// Where a walk over topics or names goes on.
    pub(crate) fn topic(&self) -> Result<Option<&str>, ApiError> {
        match &self.cursor {
            None => Ok(None),
            Some(Cursor::Topic(topic)) => Ok(Some(topic)),
            Some(Cursor::Walk(..) | Cursor::Sorted(..)) => Err(stray_cursor()),
        }
    }

    fn walk(&self) -> Result<Option<Place>, ApiError> {
        match &self.cursor {
            None => Ok(None),
            Some(Cursor::Walk(part, first, second)) => Ok(Some((*part, (*first, *second)))),
            Some(Cursor::Topic(_) | Cursor::Sorted(..)) => Err(stray_cursor()),
        }
    }

    fn sorted(&self) -> Result<Option<Key>, ApiError> {
        match &self.cursor {
            None => Ok(None),
            Some(Cursor::Sorted(value, id)) => Ok(Some((value.clone(), id.clone()))),
            Some(Cursor::Topic(_) | Cursor::Walk(..)) => Err(stray_cursor()),
        }
    }

    /// Whether a row is wanted.
    ///
    /// # Errors
    /// When a condition names a field that the row does not have.
    pub(crate) fn wants(&self, row: &impl Serialize) -> Result<bool, ApiError> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let row = fields(row);
        for condition in &self.conditions {
            if !condition.holds(&row).map_err(bad)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn stray_cursor() -> ApiError {
    bad("the cursor is of another listing, or of another sort".into())
}

fn limit(value: &str) -> Result<usize, ApiError> {
    let limit = value
        .parse()
        .ok()
        .filter(|limit| (1..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| {
        bad(format!(
            "limit: expected 1 to {LIMIT_MAX}, found \"{value}\""
        ))
    })
}

fn sort(value: &str) -> Sort {
    let (field, descending) = value
        .strip_prefix('-')
        .map_or((value, false), |field| (field, true));
    Sort {
        field: field.to_owned(),
        descending,
    }
}

/// What is sorted by: the value of the field, then the row's own key.
type Key = (Value, String);

impl Sort {
    fn key(&self, row: &impl Serialize, id: String) -> Result<Key, ApiError> {
        let row = fields(row);
        let value = row.get(&self.field);
        let value = value.ok_or_else(|| {
            let names = row.keys().map(String::as_str);
            bad(filter::unknown(&self.field, names))
        })?;
        Ok((value.clone(), id))
    }

    fn compare(&self, a: &Key, b: &Key) -> Ordering {
        let order = compare(&a.0, &b.0).then_with(|| a.1.cmp(&b.1));
        if self.descending {
            order.reverse()
        } else {
            order
        }
    }
}

/// How full a page is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    rows: usize,
    bytes: usize,
}

impl Fill {
    /// Of an empty page, with room for so many rows and so many bytes of their JSON.
    pub(crate) const fn new(rows: usize, bytes: usize) -> Self {
        Self { rows, bytes }
    }

    /// Takes a row: the first one in any case, whatever its length.
    pub(crate) fn take(&mut self, row: &impl Serialize) {
        self.rows = self.rows.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(json_bytes(row));
    }

    /// Whether no further row has room.
    pub(crate) const fn is_full(self) -> bool {
        self.rows == 0 || self.bytes == 0
    }
}

/// Bytes of a row as JSON, which its fields take no more than.
fn json_bytes(row: &impl Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, row).expect("rows are plain structs");
    count.0
}

/// The fields of a row by name.
fn fields(row: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(row) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => unreachable!("rows are plain structs"),
    }
}

/// Nothing first, then numbers, then the rest as text.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64(), b.as_f64());
            a.partial_cmp(&b).unwrap_or(Ordering::Equal)
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (a, b) => a.to_string().cmp(&b.to_string()),
    }
}

#[cfg(test)]
mod tests;
