//! Sessions that a user keeps are counted over all partitions of a node, by the shell: each that has a client id and an owner has one place.
//!
//! A place is taken before the session's entry is proposed, and is then, in this order:
//! - the client id's ([`Client::place`](crate::lead::Client)), while the entry is under way
//! - the session's ([`SessionLead::has_place`](super::SessionLead)), until its end is proposed or this partition is no longer led here
//! - the client id's again where its own next session takes it over: whoever begins anew needs no further one, and nobody else gets between
//!
//! A new leader counts the sessions that it finds.

use courser_contract::{Attach, PartitionEffects, Permission, SessionUid};

use super::Going;
use crate::Partition;

impl Partition {
    /// Whether the user of a connection may keep the session that it asks for. Asked when it comes, so that nobody is displaced by who is
    /// refused then; where others of the user come meanwhile, [`Self::has_place`] still refuses it.
    pub(super) fn may_be_kept(&self, attach: &Attach, fx: &mut impl PartitionEffects) -> bool {
        let Some(owner) = attach.owner.as_deref() else {
            return true;
        };
        let client = self.lead.registry.clients.get(&attach.client_id);
        let stored = self.state.by_client.get(&attach.client_id);
        let stored = stored.and_then(|uid| self.state.sessions.get(*uid));
        let stored = stored.filter(|session| session.lead.going != Going::Ended);
        let has_place = client.is_some_and(|client| client.place)
            || stored.is_some_and(|session| session.lead.has_place);
        let is_kept = attach.expiry_seconds > 0 || (stored.is_some() && !attach.clean_start);
        has_place
            || !is_kept
            || fx.may_keep_session(owner, attach.user_sessions_max) == Permission::Granted
    }

    /// Whether there is a place for the session of a connection: handed on by another one, kept for its client id, or taken now.
    pub(super) fn has_place(
        &self,
        attach: &Attach,
        handed_on: bool,
        fx: &mut impl PartitionEffects,
    ) -> bool {
        let Some(owner) = attach.owner.as_deref() else {
            return true;
        };
        let client = self.lead.registry.clients.get(&attach.client_id);
        handed_on
            || client.is_some_and(|client| client.place)
            || fx.keep_session(owner, attach.user_sessions_max) == Permission::Granted
    }

    pub(super) fn session_has_place(&self, uid: SessionUid) -> bool {
        let session = self.state.sessions.get(uid.0);
        session.is_some_and(|session| session.lead.has_place)
    }

    /// A session ends for one that its own client begins anew: takes its place for that, if that is kept.
    pub(super) fn hands_place_on(&mut self, uid: SessionUid, attach: &Attach) -> bool {
        let session = self.state.sessions.get_mut(uid.0);
        let is_kept = attach.expiry_seconds > 0 && attach.owner.is_some();
        session.is_some_and(|session| is_kept && std::mem::take(&mut session.lead.has_place))
    }

    /// The same where its client waits already while the connection before lets go of it, and with that ends it.
    pub(super) fn hand_place_to_waiting(&mut self, uid: SessionUid, client_id: &str) {
        if let Some(client) = self.lead.registry.clients.get_mut(client_id)
            && let Some(waiting) = &client.waiting
            && waiting.attach.expiry_seconds > 0
            && waiting.attach.owner.is_some()
            && let Some(session) = self.state.sessions.get_mut(uid.0)
            && std::mem::take(&mut session.lead.has_place)
        {
            client.place = true;
        }
    }

    /// A session ends.
    pub(super) fn give_place_back(&mut self, uid: SessionUid, fx: &mut impl PartitionEffects) {
        if let Some(session) = self.state.sessions.get_mut(uid.0)
            && std::mem::take(&mut session.lead.has_place)
            && let Some(owner) = session.owner()
        {
            fx.forget_session(owner);
        }
    }

    /// Who waited with a place has gone, or keeps no session.
    pub(super) fn give_waiting_place_back(
        &mut self,
        client_id: &str,
        fx: &mut impl PartitionEffects,
    ) {
        if let Some(client) = self.lead.registry.clients.get_mut(client_id)
            && std::mem::take(&mut client.place)
            && let Some(owner) = client.owner.as_deref()
        {
            fx.forget_session(owner);
        }
    }

    /// This partition leads from now on.
    pub(crate) fn count_kept(&mut self, fx: &mut impl PartitionEffects) {
        for number in self.state.sessions.sorted() {
            let session = self.state.sessions.get_mut(number).expect("it was listed");
            if !session.client_id.is_empty()
                && let Some(owner) = session.owner()
            {
                // Those that are there stay, however many they are.
                let _ = fx.keep_session(owner, u32::MAX);
                session.lead.has_place = true;
            }
        }
    }
}
