//! Durations: `30s`, `250ms`, `1h30m`, `7d`.

use super::Mismatch;
use std::time::Duration;

/// Largest first.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// In the largest unit that divides it.
pub(super) fn show(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return "0s".to_owned();
    }
    let (name, unit) = UNITS
        .into_iter()
        .find(|(_, unit)| millis.is_multiple_of(u128::from(*unit)))
        .unwrap_or(("ms", 1));
    format!("{}{name}", millis / u128::from(unit))
}

/// Whole numbers, each with its unit, the largest unit first.
pub(super) fn parse(text: &str) -> Result<Duration, Mismatch> {
    let mut left = text.trim();
    let mut millis: u64 = 0;
    let mut units = UNITS.iter();
    while !left.is_empty() || units.len() == UNITS.len() {
        let (number, rest) = left.split_at(left.bytes().take_while(u8::is_ascii_digit).count());
        let (name, rest) = rest.split_at(rest.bytes().take_while(u8::is_ascii_alphabetic).count());
        // The iterator goes on behind the unit that it found: each unit once, in order.
        let (_, unit) = units
            .find(|(unit, _)| *unit == name)
            .ok_or(Mismatch::Kind)?;
        if number.is_empty() {
            return Err(Mismatch::Kind);
        }
        let number: u64 = number.parse().map_err(|_| Mismatch::Range)?;
        let part = number.checked_mul(*unit).ok_or(Mismatch::Range)?;
        millis = millis.checked_add(part).ok_or(Mismatch::Range)?;
        left = rest.trim_start();
    }
    Ok(Duration::from_millis(millis))
}
