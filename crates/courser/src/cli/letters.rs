//! `-D COMMAND PROPERTY VALUE`, by which Mosquitto's tools take properties of MQTT 5: each is a flag of its own here. How many values there
//! are goes by the property, so it is put into that form before flags are read.

use std::ffi::{OsStr, OsString};

use clap::Args;

use super::headings;

/// For the help alone: the values have become other flags before.
#[derive(Args, Clone, Debug)]
pub(crate) struct PropertyFlag {
    /// A property as Mosquitto's tools take it, as often as wanted: connect session-expiry-interval; of pub publish
    /// payload-format-indicator, message-expiry-interval, content-type, response-topic, correlation-data and user-property NAME VALUE; of sub
    /// subscribe subscription-identifier
    #[arg(short = 'D', num_args = 3, value_names = ["COMMAND", "PROPERTY", "VALUE"], help_heading = headings::PROPERTIES)]
    pub(crate) property: Vec<String>,
}

impl PropertyFlag {
    /// # Errors
    /// When somebody has written it together with another letter.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.property.is_empty() {
            true => Ok(()),
            false => Err("-D stands alone: -D COMMAND PROPERTY VALUE".to_owned()),
        }
    }
}

/// Command, property and the flag that it is, by verb.
const PUB: &[(&str, &str, &str)] = &[
    SESSION_EXPIRY,
    (
        "publish",
        "payload-format-indicator",
        "--payload-format-indicator",
    ),
    ("publish", "message-expiry-interval", "--message-expiry"),
    ("publish", "content-type", "--content-type"),
    ("publish", "response-topic", "--response-topic"),
    ("publish", "correlation-data", "--correlation-data"),
    ("publish", USER_PROPERTY, "--user-property"),
];
const SUB: &[(&str, &str, &str)] = &[
    SESSION_EXPIRY,
    (
        "subscribe",
        "subscription-identifier",
        "--subscription-identifier",
    ),
];
const SESSION_EXPIRY: (&str, &str, &str) = (
    "connect",
    "session-expiry-interval",
    "--session-expiry-interval",
);
/// The one with two values.
const USER_PROPERTY: &str = "user-property";

/// The arguments of the program with each `-D` as the flag that it stands for.
///
/// # Errors
/// For people: there is no such property, or a value is missing.
pub(crate) fn expand(arguments: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let known = match arguments.get(1).and_then(|verb| verb.to_str()) {
        Some("pub") => PUB,
        Some("sub") => SUB,
        _ => return Ok(arguments),
    };
    let mut arguments = arguments.into_iter();
    let mut expanded = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("-D") => expanded.push(flag(known, &mut arguments)?),
            Some("--") => {
                expanded.push(argument);
                expanded.extend(arguments.by_ref());
            }
            _ => expanded.push(argument),
        }
    }
    Ok(expanded)
}

/// The flag of what stands behind `-D`.
fn flag(
    known: &[(&str, &str, &str)],
    arguments: &mut impl Iterator<Item = OsString>,
) -> Result<OsString, String> {
    let mut next = || {
        let argument = arguments.next();
        argument.ok_or_else(|| "-D takes a command, a property and its value".to_owned())
    };
    let (command, property) = (next()?, next()?);
    let fits = |text: &str, given: &OsStr| {
        given
            .to_str()
            .is_some_and(|it| it.eq_ignore_ascii_case(text))
    };
    let found = known
        .iter()
        .find(|it| fits(it.0, &command) && fits(it.1, &property));
    let Some((_, property, flag)) = found else {
        let all: Vec<String> = known
            .iter()
            .map(|it| format!("{} {}", it.0, it.1))
            .collect();
        return Err(format!(
            "-D {} {}: there are {}",
            command.display(),
            property.display(),
            all.join(", ")
        ));
    };
    let mut text = OsString::from(format!("{flag}="));
    if *property == USER_PROPERTY {
        let name = next()?;
        if name.as_encoded_bytes().contains(&b'=') {
            return Err(format!(
                "-D {} {property}: the name of a user property has no = here",
                command.display()
            ));
        }
        text.push(name);
        text.push("=");
    }
    text.push(next()?);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<&str, &str>) {
        let words = line.split_whitespace().map(OsString::from).collect();
        let expanded = expand(words).map(|words| {
            let words: Vec<String> = words
                .into_iter()
                .map(|word| word.into_string().expect("text"))
                .collect();
            words.join(" ")
        });
        let expanded = expanded.as_deref().map_err(String::as_str);
        match expected {
            Ok(_) => assert_eq!(expanded, expected, "{line}"),
            Err(part) => {
                let refused = expanded.expect_err(line);
                assert!(refused.contains(part), "{line}: {refused}");
            }
        }
    }

    #[test]
    fn properties_as_mosquitto_takes_them_are_flags() {
        check(
            "courser pub -D publish content-type text/plain t m",
            Ok("courser pub --content-type=text/plain t m"),
        );
        check(
            "courser pub -D PUBLISH user-property a -1 -D connect session-expiry-interval 9 t m",
            Ok("courser pub --user-property=a=-1 --session-expiry-interval=9 t m"),
        );
        check(
            "courser sub -D subscribe subscription-identifier 7 t/#",
            Ok("courser sub --subscription-identifier=7 t/#"),
        );
        check("courser pub t -- -D", Ok("courser pub t -- -D"));
        check("courser bench -D x", Ok("courser bench -D x"));
    }

    #[test]
    fn a_property_that_there_is_not_names_those_that_there_are() {
        check(
            "courser sub -D subscribe topic-alias 3 t",
            Err(
                "-D subscribe topic-alias: there are connect session-expiry-interval, subscribe sub",
            ),
        );
        check("courser pub -D publish content-type", Err("its value"));
        check("courser pub -D publish user-property a=b c", Err("no ="));
    }
}
