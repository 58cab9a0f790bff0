//! Clients that ask for what they have no right to, for whoever looks into it.

use std::borrow::Cow;
use std::sync::Arc;

use courser_contract::{Asked, FrontId};

use super::budget::Budget;
use super::hub::{Hub, Watch};
use crate::access::Denial;
use crate::control::{Deed, Happened, PastEvent};

/// Bytes of a topic name or filter that are kept and written: one may have 65,535.
const TOPIC_BYTES_MAX: usize = 512;

impl Hub {
    /// Notes what a client was denied, once a minute for the same, and writes as many of these as somebody reads.
    #[cold]
    pub(super) fn tell_denied(
        &mut self,
        front: FrontId,
        (client_id, user): (&str, Option<&str>),
        asked: Asked<'_>,
    ) {
        let (deed, topic) = match asked {
            Asked::Publish(topic) => (Deed::Publish, topic),
            Asked::Subscribe(filter) => (Deed::Subscribe, filter),
            Asked::SubscribeShared(filter) => (Deed::SubscribeShared, filter),
            Asked::Receive(_) => return,
        };
        self.budget.spend(Budget::ROW);
        let accounts = &self.access.accounts;
        let topic = cut(topic);
        let at = self.now.wall;
        let Watch { history, traces } = &mut self.watch;
        traces.note(self.now, client_id, || {
            format!("{} {topic:?}", deed.words())
        });
        if history.was_denied_of_late(at, client_id, (deed, &topic)) {
            return accounts.leave_out_denial();
        }
        let event = PastEvent {
            at,
            client_id: client_id.into(),
            what: Happened::Denied(deed),
            address: accounts.address_of(front),
            topic: Some(Arc::from(&*topic)),
        };
        history.note_denied(&event);
        let denial = Denial {
            client_id,
            user,
            deed,
            topic: &topic,
        };
        if accounts.tell_denied(front, &denial) {
            history.show(event);
        }
    }
}

/// The beginning of a topic, and a sign that it is not the whole.
fn cut(topic: &str) -> Cow<'_, str> {
    if topic.len() <= TOPIC_BYTES_MAX {
        return Cow::Borrowed(topic);
    }
    let end = topic.floor_char_boundary(TOPIC_BYTES_MAX);
    Cow::Owned(format!("{}…", &topic[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_topic_is_cut_between_letters() {
        let long = "ä".repeat(TOPIC_BYTES_MAX);
        let short = cut(&long);
        assert_eq!(short, format!("{}…", "ä".repeat(TOPIC_BYTES_MAX / 2)));
        assert_eq!(cut(&long[..TOPIC_BYTES_MAX]), long[..TOPIC_BYTES_MAX]);
    }
}
