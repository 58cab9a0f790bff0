//! Durations and sizes in flags: as settings have them, and a number alone is seconds or bytes.

use std::time::Duration;

use courser_settings::{TextError, parse_duration, parse_size};

/// The longest wait that can be asked for.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// `30s`, `1h30m`, or seconds such as `2` and `0.5`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.trim().parse::<f64>() {
        let read = Duration::try_from_secs_f64(seconds);
        return read.map_err(|_| format!("{seconds} is no number of seconds"));
    }
    parse_duration(text).map_err(|error| match error {
        TextError::Kind(_) => {
            "expected a duration such as 30s, 250ms or 1h30m, or seconds".to_owned()
        }
        TextError::Range => error.to_string(),
    })
}

/// How long something is waited for: a duration that is not nothing.
pub(crate) fn wait(text: &str) -> Result<Duration, String> {
    let found = duration(text)?;
    if (Duration::from_millis(1)..=WAIT_MAX).contains(&found) {
        Ok(found)
    } else {
        Err("expected 1ms to 1d".to_owned())
    }
}

/// Time between two questions to a server: at least a second.
pub(crate) fn pause(text: &str) -> Result<Duration, String> {
    let found = wait(text)?;
    if found < Duration::from_secs(1) {
        return Err("expected 1s to 1d".to_owned());
    }
    Ok(found)
}

/// A duration that MQTT has as a number of seconds.
pub(crate) fn whole_seconds<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let found = duration(text)?;
    if found.subsec_nanos() > 0 {
        return Err("expected whole seconds".to_owned());
    }
    T::try_from(found.as_secs()).map_err(|_| TextError::Range.to_string())
}

/// `16MiB`, or a number of bytes.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let read = parse_size(text).map_err(|error| match error {
        TextError::Kind(_) => "expected a size such as 16MiB, or bytes".to_owned(),
        TextError::Range => error.to_string(),
    });
    usize::try_from(read?.bytes()).map_err(|_| TextError::Range.to_string())
}

/// `12.3 MiB`, for people.
pub(crate) fn shown_bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10).min(UNITS.len() as u32);
    let unit = UNITS[power as usize - 1];
    format!(
        "{:.1} {unit}",
        bytes as f64 / (1_u64 << (10 * power)) as f64
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_their_unit() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (3 << 20, "3.0 MiB"),
            (1 << 40, "1.0 TiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(shown_bytes(bytes), expected);
        }
    }

    #[test]
    fn durations_are_as_settings_have_them_and_numbers_are_seconds() {
        let ms = |ms| Ok(Duration::from_millis(ms));
        assert_eq!(duration("2"), ms(2000));
        assert_eq!(duration("0.5"), ms(500));
        assert_eq!(duration("0"), ms(0));
        assert_eq!(duration("250ms"), ms(250));
        assert_eq!(duration("1m30s"), ms(90_000));
        for wrong in ["", "-1", "inf", "NaN", "1e400", "5 minutes", "1.5s", "s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(wait("1ms"), ms(1));
        assert_eq!(wait("1d"), ms(86_400_000));
        for wrong in ["0", "0.0001", "25h"] {
            assert!(wait(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_server_is_not_asked_all_the_time() {
        assert_eq!(pause("1"), Ok(Duration::from_secs(1)));
        assert!(pause("999ms").is_err());
    }

    #[test]
    fn what_mqtt_has_in_seconds_is_whole_and_fits() {
        assert_eq!(whole_seconds::<u16>("60"), Ok(60));
        assert_eq!(whole_seconds::<u16>("5m"), Ok(300));
        assert_eq!(whole_seconds::<u32>("4294967295"), Ok(u32::MAX));
        for wrong in ["0.5", "1500ms", "19h", "-1"] {
            assert!(whole_seconds::<u16>(wrong).is_err(), "{wrong}");
        }
        assert!(whole_seconds::<u32>("4294967296").is_err());
    }

    #[test]
    fn sizes_are_as_settings_have_them_and_numbers_are_bytes() {
        assert_eq!(bytes("128"), Ok(128));
        assert_eq!(bytes("1KiB"), Ok(1024));
        assert_eq!(bytes("2 MB"), Ok(2_000_000));
        for wrong in ["", "-1", "1.5KiB", "1 apple", "99999999TiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
