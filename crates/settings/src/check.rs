//! Rules between settings, checked after every value is within its own range.
//!
//! What is wrong has the place of the field that is to change: the first of those it is about that somebody has set.

mod addresses;
mod doors;
mod doubts;
mod memory;
#[cfg(test)]
mod tests;

pub use self::doubts::LOGIN_ADDRESSES_MAX;
pub use self::memory::memory_least;
use crate::error::{Origin, SettingError};
use crate::own::listener_key;
use crate::resolved::Resolved;
use crate::table::{Listener, Mqtt, Settings};
use crate::value::{Login, quoted};
use std::collections::BTreeMap;

/// Something that is wrong.
#[derive(Debug)]
struct Fault {
    /// Whose place is named: the first that was set. The last one may be an item as a whole, which always has a place.
    keys: Vec<String>,
    message: String,
}

impl Fault {
    /// A fault of one setting; the message begins with its name.
    fn of(key: &str, fault: &str) -> Self {
        Self {
            keys: vec![key.to_owned()],
            message: format!("{key}: {fault}"),
        }
    }

    /// Its place is this one's where what it is about was not set.
    fn or_at(mut self, key: String) -> Self {
        self.keys.push(key);
        self
    }
}

/// The settings, and what was said of each.
struct View<'a> {
    resolved: &'a Resolved,
    values: BTreeMap<String, String>,
}

impl<'a> View<'a> {
    fn new(resolved: &'a Resolved) -> Self {
        let values = resolved.effective().into_iter();
        Self {
            values: values.map(|it| (it.key, it.value)).collect(),
            resolved,
        }
    }

    const fn settings(&self) -> &'a Settings {
        &self.resolved.settings
    }

    /// A value as it is written in a file; of one that was drawn from elsewhere the text that draws it. Empty: it is not set.
    fn said(&self, key: &str) -> &str {
        self.values.get(key).map_or("", String::as_str)
    }

    /// `key = value`.
    fn given(&self, key: &str) -> String {
        format!("{key} = {}", self.said(key))
    }

    /// A part of a value, unless the value was drawn from elsewhere.
    fn part(&self, key: &str, part: impl ToString) -> String {
        match self.resolved.is_drawn(key) {
            true => self.said(key).to_owned(),
            false => part.to_string(),
        }
    }

    fn error(&self, fault: Fault) -> SettingError {
        let origins = &self.resolved.origins;
        let mut set = fault.keys.iter().filter(|key| origins.contains_key(*key));
        let key = set.next().or(fault.keys.first());
        let origin = key.and_then(|key| origins.get(key));
        SettingError {
            origin: origin.cloned().unwrap_or(Origin::Default),
            message: fault.message,
            key: key.cloned(),
        }
    }
}

/// A field of a `[[listener]]`.
fn field(door: &Listener, name: &str) -> String {
    listener_key(&door.name, name)
}

/// A `[[listener]]` as a whole.
fn item(door: &Listener) -> String {
    format!("listener[{}]", quoted(&door.name))
}

/// What is wrong with values that are each allowed.
pub(crate) fn contradictions(resolved: &Resolved) -> Vec<SettingError> {
    let view = View::new(resolved);
    let settings = view.settings();
    let mut found = size_faults(&view, None, &settings.mqtt);
    found.extend(advertised_fault(&view, None, &settings.mqtt));
    found.extend(addresses::faults(&view));
    found.extend(token_faults(&view));
    found.extend(client_ids_fault(&view, None));
    found.extend(memory::fault(&view));
    for door in &settings.doors {
        found.extend(doors::faults(&view, door));
    }
    found.into_iter().map(|fault| view.error(fault)).collect()
}

/// What is allowed and hardly meant.
pub(crate) fn doubts(resolved: &Resolved) -> Vec<SettingError> {
    let view = View::new(resolved);
    let found = doubts::all(&view).into_iter();
    found.map(|doubt| view.error(doubt)).collect()
}

/// The key of a setting of MQTT at a listener: the listener's own where it has that one.
fn mqtt_key(view: &View<'_>, door: Option<&Listener>, name: &str) -> String {
    let own = door.map(|door| field(door, name));
    own.filter(|key| !view.said(key).is_empty())
        .unwrap_or_else(|| format!("mqtt.{name}"))
}

/// Sizes that are larger than others which they are a part of. What is wrong for all is not said for a listener.
fn size_faults(view: &View<'_>, door: Option<&Listener>, mqtt: &Mqtt) -> Vec<Fault> {
    let packet = ("packet_bytes_max", mqtt.packet_bytes_max);
    let connect = ("connect_bytes_max", mqtt.connect_bytes_max);
    let pairs = [
        (("topic_bytes_max", mqtt.topic_bytes_max), packet),
        (connect, packet),
        (("client_id_bytes_max", mqtt.client_id_bytes_max), connect),
    ];
    let too_large = pairs
        .into_iter()
        .filter(|((_, part), (_, whole))| part > whole);
    let mut faults = Vec::new();
    for ((part, _), (whole, _)) in too_large {
        let keys = [part, whole].map(|name| mqtt_key(view, door, name));
        let of_all = keys.iter().all(|key| key.starts_with("mqtt."));
        if door.is_none() || !of_all {
            let [part, whole] = keys.each_ref().map(|key| view.given(key));
            faults.push(Fault {
                keys: keys.into(),
                message: format!("{part} is more than {whole}"),
            });
        }
    }
    faults
}

/// What is wrong with the address that clients know.
fn advertised_fault(view: &View<'_>, door: Option<&Listener>, mqtt: &Mqtt) -> Option<Fault> {
    let address = mqtt.advertised.as_deref()?;
    let key = match door {
        Some(door) => field(door, "advertised"),
        None => "mqtt.advertised".to_owned(),
    };
    let said = view.said(&key);
    if address.is_empty() || address.contains(char::is_whitespace) {
        let fault = format!("expected one HOST or HOST:PORT, found {said}");
        return Some(Fault::of(&key, &fault));
    }
    let itself = mqtt.redirect_to.split_whitespace().any(|to| to == address);
    let redirect = mqtt_key(view, door, "redirect_to");
    itself.then(|| {
        let fault = format!(
            "{} would send clients in a circle: {said} is {key}",
            view.said(&redirect)
        );
        Fault::of(&redirect, &fault)
    })
}

/// Client ids go by the name of a user: where nobody logs in no client has one, and nothing would be refused.
fn client_ids_fault(view: &View<'_>, door: Option<&Listener>) -> Option<Fault> {
    let settings = view.settings();
    let (own, login) = match door {
        None => ("mqtt.client_ids".to_owned(), settings.mqtt.authentication),
        Some(door) => (field(door, "client_ids"), settings.login_at(door)),
    };
    let all = settings.client_ids_at(door);
    let limits = login == Login::None && all.iter().any(|pattern| pattern.as_str() != "*");
    // `mqtt.listen` may be off, and then nobody comes in there.
    let is_there = door.is_some() || !settings.mqtt.listen.is_empty();
    (limits && is_there).then(|| {
        let of_all = door.is_some_and(|door| door.client_ids.is_empty());
        let key = if of_all { "mqtt.client_ids" } else { &own };
        let at = door.map_or("mqtt.listen".to_owned(), item);
        let fault = format!(
            "{} goes by users, and at {at} nobody logs in: set its authentication, or client_ids = [\"*\"] there",
            view.said(key)
        );
        Fault::of(key, &fault)
    })
}

/// What is wrong with `tokens`, where a listener asks for some.
fn token_faults(view: &View<'_>) -> Option<Fault> {
    const CLAIM: &str = "tokens.user_claim";
    const AUDIENCE: &str = "tokens.audience";
    let Settings {
        tokens,
        mqtt,
        doors,
        ..
    } = view.settings();
    if tokens.user_claim.is_empty() {
        let fault = format!("expected the name of a claim, found {}", view.said(CLAIM));
        return Some(Fault::of(CLAIM, &fault));
    }
    let of_all = ("mqtt.authentication".to_owned(), mqtt.authentication);
    let of_doors = doors
        .iter()
        .filter_map(|door| Some((field(door, "authentication"), door.authentication?)));
    let mut all = std::iter::once(of_all).chain(of_doors);
    let (asking, _) = all.find(|(_, login)| *login == Login::Tokens)?;
    let said = view.said(&asking);
    let has_keys =
        tokens.key_set.is_some() || !tokens.public_keys.is_empty() || tokens.secret_file.is_some();
    if !has_keys {
        let fault = format!(
            "{said} needs keys: one of tokens.key_set, tokens.public_keys and tokens.secret_file"
        );
        return Some(Fault::of(&asking, &fault));
    }
    tokens.audience.is_empty().then(|| {
        let fault = format!(
            "found {}, and {} needs one: a token for somebody else must open nothing here",
            view.said(AUDIENCE),
            view.given(&asking)
        );
        Fault::of(AUDIENCE, &fault).or_at(asking)
    })
}
