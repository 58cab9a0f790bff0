//! The listeners of a process, for people.

use std::sync::Arc;

use courser_settings::ListenerProtocol;

use crate::config::Config;
use crate::doors::OpenDoor;
use crate::listen::Listeners;
use crate::peer::{Authentication, Entrance, ListenerId};

/// One listener, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerRow {
    /// Its name; `mqtt` is that of `mqtt.listen`.
    pub name: String,
    /// What is spoken below MQTT.
    pub protocol: ListenerProtocol,
    /// Addresses with the ports that were chosen, or paths.
    pub places: Vec<String>,
    /// Where clients find it from outside, if the settings say so.
    pub advertised: Option<String>,
    /// How its clients prove who they are.
    pub authentication: Authentication,
    /// Connections that are open.
    pub connections: u64,
    /// How many there may be: its own limit, or that of all listeners together.
    pub connections_max: u64,
}

/// One listener, as it was opened.
#[derive(Clone, Debug)]
pub(crate) struct OpenListener {
    entrance: Arc<Entrance>,
    protocol: ListenerProtocol,
    places: Vec<String>,
}

impl OpenListener {
    /// All that listen anywhere, in the order of the settings.
    pub(crate) fn all(
        entrances: &[Arc<Entrance>],
        plain: &Listeners,
        doors: &[OpenDoor],
        config: &Config,
    ) -> Vec<Self> {
        let open = entrances.iter().map(|entrance| {
            let addresses = plain.addresses.iter().zip(&plain.owners);
            let mine = addresses.filter(|(_, owner)| **owner == entrance.id);
            let doors = doors.iter().filter(|door| *door.name == *entrance.name);
            let own = entrance.id.own(&config.settings);
            Self {
                entrance: Arc::clone(entrance),
                protocol: own.map_or(ListenerProtocol::Mqtt, |own| own.protocol),
                places: mine
                    .map(|(address, _)| address.to_string())
                    .chain(doors.map(|door| door.place.clone()))
                    .collect(),
            }
        });
        open.filter(|one| !one.places.is_empty()).collect()
    }

    /// With what is so now.
    pub(crate) fn row(&self, config: &Config) -> ListenerRow {
        let id: ListenerId = self.entrance.id;
        let all = config.connections_max;
        let most = config.connections_max_at(id).unwrap_or(all).min(all);
        ListenerRow {
            name: self.entrance.name.as_ref().to_owned(),
            protocol: self.protocol,
            places: self.places.clone(),
            advertised: config.mqtt(id).advertised,
            authentication: self.entrance.authentication,
            connections: self.entrance.connections() as u64,
            connections_max: most as u64,
        }
    }
}
