//! From the broker's rows to those of the API.

use courser_broker::{
    Authentication, BackupState, ClientRow, Deed, Direction, Happened, ListenerRow, NodeState,
    PastEvent, RetainedMessage, RetainedRow, SessionPlace, SessionRow, SubscriptionRow, TracedLine,
    cause_words,
};
use courser_contract::{CloseCause, WallMs};
use jiff::Timestamp;

use crate::api::{
    Backup, BackupPartition, Client, Damage, Event, Listener, Retained, RetainedDetail, RottenFile,
    RottenPlace, Session, SetAside, StoppedStream, Subscription, TraceLine,
};
use crate::routes::backups::word;

/// RFC 3339, to the millisecond.
fn time(at: WallMs) -> String {
    let at = i64::try_from(at.0)
        .ok()
        .and_then(|at| Timestamp::from_millisecond(at).ok());
    // What no calendar has is the end of time.
    format!("{:.3}", at.unwrap_or(Timestamp::MAX))
}

fn place(at: SessionPlace) -> String {
    format!("{}/{}", at.partition.0, at.session.0)
}

impl From<ClientRow> for Client {
    fn from(row: ClientRow) -> Self {
        Self {
            client_id: row.client_id.into(),
            version: row.version.map(|version| {
                let name = if version == 5 { "5.0" } else { "3.1.1" };
                name.to_owned()
            }),
            address: row.address.map(|address| address.to_string()),
            listener: row.listener.into(),
            identity: row.identity.map(|identity| identity.to_string()),
            user: row.user.map(Into::into),
            connected_at: time(row.since),
            keep_alive_seconds: row.keep_alive_seconds,
            session: row.session.map(place),
            will: row.has_will,
            output_bytes: row.output_bytes,
            unsettled_publishes: row.unsettled,
        }
    }
}

impl From<ListenerRow> for Listener {
    fn from(row: ListenerRow) -> Self {
        let authentication = match row.authentication {
            Authentication::None => "none",
            Authentication::Accounts => "accounts",
            Authentication::Tokens => "tokens",
        };
        Self {
            name: row.name,
            protocol: row.protocol.name().to_owned(),
            places: row.places,
            advertised: row.advertised,
            authentication: authentication.to_owned(),
            connections: row.connections,
            connections_max: row.connections_max,
        }
    }
}

impl From<TracedLine> for TraceLine {
    fn from(line: TracedLine) -> Self {
        let direction = match line.direction {
            Direction::Received => "received",
            Direction::Sent => "sent",
            Direction::Connection => "connection",
        };
        Self {
            at: time(line.at),
            direction: direction.to_owned(),
            what: line.what,
        }
    }
}

impl From<SessionRow> for Session {
    fn from(row: SessionRow) -> Self {
        Self {
            client_id: row.client_id.into(),
            user: row.user.map(Into::into),
            connected: row.connected,
            durable: !row.at.partition.is_volatile(),
            expiry_seconds: (row.expiry_seconds != u32::MAX).then_some(row.expiry_seconds),
            ends_at: row.ends_at.map(time),
            subscriptions: row.subscriptions,
            queued_messages: row.queued_messages,
            queued_bytes: row.queued_bytes,
            in_flight: row.in_flight,
            will: row.has_will,
            place: place(row.at),
        }
    }
}

impl From<SubscriptionRow> for Subscription {
    fn from(row: SubscriptionRow) -> Self {
        Self {
            client_id: row.client_id.into(),
            filter: row.filter.into(),
            share: row.share.map(Into::into),
            qos: row.qos as u8,
            no_local: row.no_local,
            retain_as_published: row.retain_as_published,
            retain_handling: row.retain_handling as u8,
            identifier: row.identifier,
        }
    }
}

impl From<RetainedRow> for Retained {
    fn from(row: RetainedRow) -> Self {
        Self {
            topic: row.topic.into(),
            qos: row.qos as u8,
            payload_bytes: row.payload_bytes,
            expires_at: row.expires_at.map(time),
            damaged: row.is_lost,
        }
    }
}

impl From<RetainedMessage> for RetainedDetail {
    fn from(message: RetainedMessage) -> Self {
        let cut = (message.payload.len() as u64) < message.row.payload_bytes;
        let Retained {
            topic,
            qos,
            payload_bytes,
            expires_at,
            damaged: _,
        } = message.row.into();
        let text = text(&message.payload, cut);
        let hex = || {
            message
                .payload
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect()
        };
        Self {
            topic,
            qos,
            payload_bytes,
            expires_at,
            payload_hex: text.is_none().then(hex),
            payload: text,
            cut,
        }
    }
}

impl From<BackupState> for Backup {
    fn from(state: BackupState) -> Self {
        let partitions = state.partitions.into_iter();
        Self {
            state: word(state.stage).to_owned(),
            id: match state.id {
                0 => String::new(),
                id => format!("{id:016x}"),
            },
            folder: state.folder.display().to_string(),
            number: state.number,
            bytes_total: state.bytes_total,
            bytes_read: state.bytes_read,
            bytes_copied: state.bytes_copied,
            bytes_reused: state.bytes_reused,
            damaged: state.damaged,
            warnings: state.warnings,
            error: state.error,
            partitions: partitions
                .map(|(id, index)| BackupPartition {
                    partition: id.0,
                    index: index.0,
                })
                .collect(),
        }
    }
}

impl From<&courser_broker::SetAside> for SetAside {
    fn from(aside: &courser_broker::SetAside) -> Self {
        let known = |count: u64| aside.knows_what_it_has().then_some(count);
        Self {
            partition: aside.partition.0,
            why: aside.fault.to_string(),
            applied: aside.applied.0,
            refuses: aside.refuses().to_owned(),
            sessions: known(aside.sessions),
            queued_messages: known(aside.queued),
            retained_messages: known(aside.retained),
            ends_by: aside.fault.ends_by(aside.partition).to_string(),
        }
    }
}

impl From<&courser_broker::StoppedStream> for StoppedStream {
    fn from(stopped: &courser_broker::StoppedStream) -> Self {
        Self {
            partition: stopped.partition.0,
            stream: stopped.stream.to_string(),
            position: stopped.position,
            records: stopped.records,
        }
    }
}

impl From<NodeState> for Damage {
    fn from(state: NodeState) -> Self {
        let rotten = state.rotten.into_iter().map(|place| RottenPlace {
            segment: place.segment,
            offset: place.offset,
            what: place.what,
            messages: place.messages,
            streams: place
                .streams
                .iter()
                .map(|(id, stream)| format!("{stream} of partition {}", id.0))
                .collect(),
        });
        let rotten_files = state.rotten_files.iter().map(|it| RottenFile {
            file: it.file.clone(),
            partition: it.partition.map(|id| id.0),
            what: it.what.clone(),
            ends_by: it.ends_by().to_owned(),
        });
        Self {
            rotten: rotten.collect(),
            rotten_files: rotten_files.collect(),
            set_aside: state.set_aside.iter().map(SetAside::from).collect(),
            stopped: state.stopped.iter().map(StoppedStream::from).collect(),
            stopped_places: state.stopped_places,
            accepted: state.accepted.iter().map(ToString::to_string).collect(),
        }
    }
}

/// A payload as text, if it is; one that was cut may have been cut inside a letter.
fn text(payload: &[u8], cut: bool) -> Option<String> {
    match std::str::from_utf8(payload) {
        Ok(text) => Some(text.to_owned()),
        Err(error) if cut && error.error_len().is_none() => {
            let whole = &payload[..error.valid_up_to()];
            std::str::from_utf8(whole).ok().map(str::to_owned)
        }
        Err(_) => None,
    }
}

impl From<PastEvent> for Event {
    fn from(event: PastEvent) -> Self {
        let (name, why, denied) = match event.what {
            Happened::Connected => ("connected", None, None),
            Happened::Closed(cause) => ("disconnected", Some(cause), None),
            Happened::Denied(deed) => ("denied", None, Some(deed)),
        };
        let topic = event.topic.as_deref().map(str::to_owned);
        let words = |deed: Deed| match &topic {
            Some(topic) => format!("{} {topic:?}", deed.words()),
            None => deed.words().to_owned(),
        };
        Self {
            at: time(event.at),
            event: name.to_owned(),
            client_id: String::from(&*event.client_id),
            address: event.address.map(|address| address.to_string()),
            cause: match (why, denied) {
                (Some(cause), _) => Some(cause_words(cause).to_owned()),
                (None, denied) => denied.map(words),
            },
            reason_code: why.and_then(CloseCause::reason_code),
            action: denied.map(|deed| deed.name().to_owned()),
            topic,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_that_was_cut_inside_a_letter_is_still_text() {
        assert_eq!(text("aä".as_bytes(), false).as_deref(), Some("aä"));
        assert_eq!(text(&"aä".as_bytes()[..2], true).as_deref(), Some("a"));
        assert_eq!(
            text(&"aä".as_bytes()[..2], false),
            None,
            "nothing was cut off: it is no text"
        );
        assert_eq!(text(b"\xFFa", true), None);
    }

    #[test]
    fn times_are_readable_whatever_a_client_asked_for() {
        assert_eq!(time(WallMs(1_500)), "1970-01-01T00:00:01.500Z");
        assert_eq!(time(WallMs(u64::MAX)), format!("{:.3}", Timestamp::MAX));
    }
}
