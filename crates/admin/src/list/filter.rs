//! `FIELD=PATTERN` and the like.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::Columns;

/// One condition on a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    field: String,
    operator: Operator,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Like,
    Unlike,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// Longer ones first.
const OPERATORS: [(&str, Operator); 6] = [
    ("!=", Operator::Unlike),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("=", Operator::Like),
    ("<", Operator::Less),
    (">", Operator::More),
];

impl Condition {
    /// Reads one; the operator that comes first counts.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let at = text.find(['=', '<', '>', '!']);
        let (field, rest) = text.split_at(at.unwrap_or(text.len()));
        let found = OPERATORS
            .iter()
            .find_map(|&(word, operator)| Some((operator, rest.strip_prefix(word)?)));
        match found {
            Some((operator, value)) if !field.is_empty() => Ok(Self {
                field: field.to_owned(),
                operator,
                value: value.to_owned(),
            }),
            Some(_) | None => Err(format!(
                "filter: expected FIELD=PATTERN (or !=, <, <=, >, >=), found \"{text}\""
            )),
        }
    }

    /// Whether rows with these fields can be asked about it.
    pub(super) fn check(&self, columns: &Columns) -> Result<(), String> {
        let is_number = columns
            .is_number(&self.field)
            .ok_or_else(|| unknown(&self.field, columns.names()))?;
        match self.operator {
            Operator::Less | Operator::AtMost | Operator::More | Operator::AtLeast if is_number => {
                self.number().map(|_| ())
            }
            Operator::Less | Operator::AtMost | Operator::More | Operator::AtLeast => Ok(()),
            Operator::Like | Operator::Unlike => Ok(()),
        }
    }

    /// Whether it holds for a row.
    pub(super) fn holds(&self, row: &Map<String, Value>) -> Result<bool, String> {
        let value = row
            .get(&self.field)
            .ok_or_else(|| unknown(&self.field, row.keys().map(String::as_str)))?;
        Ok(match self.operator {
            Operator::Like => is_like(&self.value, &text(value)),
            Operator::Unlike => !is_like(&self.value, &text(value)),
            Operator::Less => self.order(value)? == Some(Ordering::Less),
            Operator::AtMost => {
                matches!(self.order(value)?, Some(Ordering::Less | Ordering::Equal))
            }
            Operator::More => self.order(value)? == Some(Ordering::Greater),
            Operator::AtLeast => {
                matches!(
                    self.order(value)?,
                    Some(Ordering::Greater | Ordering::Equal)
                )
            }
        })
    }

    /// How the field stands to the value: numbers as numbers, texts (times too) by their letters; nothing stands nowhere.
    fn order(&self, value: &Value) -> Result<Option<Ordering>, String> {
        match value {
            Value::Null => Ok(None),
            Value::Number(number) => {
                let wanted = self.number()?;
                Ok(number
                    .as_f64()
                    .and_then(|number| number.partial_cmp(&wanted)))
            }
            other => Ok(Some(text(other).as_str().cmp(&self.value))),
        }
    }

    /// What a number is held against.
    fn number(&self) -> Result<f64, String> {
        self.value.parse().map_err(|_| {
            format!(
                "filter: {} is a number, \"{}\" is none",
                self.field, self.value
            )
        })
    }
}

/// What to say about a field that rows do not have.
pub(super) fn unknown<'a>(field: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    format!("unknown field \"{field}\"; there are {}", names.join(", "))
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether a text fits a pattern, in which `*` is anything. At most as many steps as both are long multiplied.
fn is_like(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // The last star and how much it has swallowed.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((at, swallowed)) = star {
            star = Some((at, swallowed + 1));
            p = at + 1;
            t = swallowed + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_star_is_anything_and_the_rest_is_itself() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acb", false),
            ("*b*", "abc", true),
            ("a*b*c", "aXbXbXc", true),
            ("[a]?", "[a]?", true),
            ("[a]?", "ab", false),
            ("ä*", "äö", true),
        ] {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn conditions_are_read_and_hold() {
        let row = json!({"client_id": "car-7", "queued": 12, "ends_at": null, "since": "2026-01-02T00:00:00Z", "will": true});
        let row = row.as_object().expect("an object");
        for (text, expected) in [
            ("client_id=car-*", true),
            ("client_id!=car-*", false),
            ("queued=12", true),
            ("queued>9", true),
            ("queued>=12", true),
            ("queued<12", false),
            ("queued<=12", true),
            ("ends_at=", true),
            ("ends_at>2026", false),
            ("since<2027", true),
            ("will=true", true),
        ] {
            let condition = Condition::read(text).expect("it is one");
            assert_eq!(condition.holds(row), Ok(expected), "{text}");
        }
        for text in ["", "a", "=a", "!a", "a!b"] {
            assert!(Condition::read(text).is_err(), "{text}");
        }
        let holds = |text| Condition::read(text).expect("it is one").holds(row);
        assert!(holds("queued>x").is_err());
        assert!(
            holds("nope=1")
                .expect_err("no such field")
                .contains("client_id")
        );
    }
}
