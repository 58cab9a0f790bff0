//! What a client has asked about filters and has no answer to.

use courser_mqtt::codec::SubscriptionOptions;

/// A SUBSCRIBE or UNSUBSCRIBE under way.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Subscribe(Vec<(String, SubscriptionOptions)>),
    Unsubscribe(String),
}

impl Request {
    fn names(&self, filter: &str) -> bool {
        match self {
            Self::Subscribe(filters) => filters.iter().any(|(known, _)| known == filter),
            Self::Unsubscribe(known) => known == filter,
        }
    }
}

/// Those of one connection, in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(Vec<(u16, Request)>);

impl Requests {
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn has(&self, packet_id: u16) -> bool {
        self.0.iter().any(|(id, _)| *id == packet_id)
    }

    pub(super) fn name(&self, filter: &str) -> bool {
        self.0.iter().any(|(_, request)| request.names(filter))
    }

    pub(super) fn push(&mut self, packet_id: u16, request: Request) {
        self.0.push((packet_id, request));
    }

    /// Takes out what is answered, with the place that it had.
    pub(super) fn answered(&mut self, packet_id: u16) -> Option<(usize, Request)> {
        let place = self.0.iter().position(|(id, _)| *id == packet_id)?;
        Some((place, self.0.remove(place).1))
    }

    /// Whether anything is asked about a filter before and behind the request that was taken out of this place.
    pub(super) fn around(&self, place: usize, filter: &str) -> (bool, bool) {
        let (before, behind) = self.0.split_at(place);
        let any = |of: &[(u16, Request)]| of.iter().any(|(_, request)| request.names(filter));
        (any(before), any(behind))
    }
}
