//! What a shard holds, against the limits that it was given (I9).

use courser_engine::{Limits, Partition, SessionView};

use super::Shard;

/// QoS above 0 and answers go on into an output up to so many bytes of a connection whose client does not read (M23).
const OUTPUT_OWN_BYTES: usize = 64 * 1024;
/// One more packet may come where there is room for a byte, and the answers to what was read before.
const OUTPUT_SLACK_BYTES: usize = 16 * 1024;

impl Shard {
    /// Other limits for all that is here.
    pub(crate) fn set_limits(&mut self, limits: &Limits) {
        for owned in self.partitions.values_mut() {
            owned.partition.set_limits(limits.clone());
        }
    }

    /// What is above its limit; none: nothing.
    pub(crate) fn above_limits(
        &mut self,
        limits: &Limits,
        output_bytes_max: usize,
    ) -> Option<String> {
        let partitions = self.partitions.iter();
        let above = partitions
            .filter_map(|(id, owned)| {
                let text = partition_above(&owned.partition, limits)?;
                Some(format!("I9: partition {}: {text}", id.0))
            })
            .next();
        above.or_else(|| self.output_above(output_bytes_max.max(OUTPUT_OWN_BYTES)))
    }

    fn output_above(&mut self, most: usize) -> Option<String> {
        let outputs = self.fronts.iter_mut();
        let mut held = outputs.map(|(conn, it)| (conn, it.front.output().len()));
        let (conn, bytes) = held.find(|(_, bytes)| *bytes > most + OUTPUT_SLACK_BYTES)?;
        Some(format!(
            "I9: the output of conn {conn} has {bytes} bytes, above {most}"
        ))
    }
}

fn partition_above(partition: &Partition, limits: &Limits) -> Option<String> {
    let counts = partition.counts();
    let places = 0..partition.session_places();
    let mut sessions = places.filter_map(|place| partition.session_at(place));
    above(&[
        ("sessions", counts.sessions, limits.sessions_max.into()),
        (
            "retained messages",
            counts.retained_messages,
            limits.retained_messages_max.into(),
        ),
        (
            "bytes of retained messages",
            counts.retained_bytes,
            limits.retained_bytes_max,
        ),
        (
            "forwards",
            counts.outbox_messages,
            limits.outbox_messages_max.into(),
        ),
    ])
    .or_else(|| sessions.find_map(|session| session_above(&session, limits)))
}

fn session_above(session: &SessionView<'_>, limits: &Limits) -> Option<String> {
    let (messages, bytes) = session.queued();
    let found = above(&[
        (
            "messages that wait",
            messages.into(),
            limits.queue_messages_max.into(),
        ),
        ("bytes of messages that wait", bytes, limits.queue_bytes_max),
        (
            "deliveries under way",
            session.under_way().into(),
            limits.outbound_window_max.into(),
        ),
        (
            "subscriptions",
            session.subscription_count() as u64,
            limits.subscriptions_max.into(),
        ),
    ])?;
    Some(format!("{} has {found}", session.client_id()))
}

/// The first of some things of which there are more than there may be.
fn above(held: &[(&str, u64, u64)]) -> Option<String> {
    let (what, is, most) = held.iter().find(|(_, is, most)| is > most)?;
    Some(format!("{is} {what}, above {most}"))
}
