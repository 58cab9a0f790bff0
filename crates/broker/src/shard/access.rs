//! Logins and rights on a shard: verdicts of passwords, and what follows when users and roles change.

use std::rc::Rc;

use courser_contract::FrontId;
use courser_mqtt::front::{FrontConfig, Revocation};

use super::Shard;
use super::fronts::Access;
use super::hub::Budget;
use super::ready::Place;
use crate::access::{Gate, Origin, Revoked};
use crate::peer::{Authentication, Peer};

/// Connections that one turn looks at when users and roles have changed.
const REVOKING_MAX: usize = 1_000;

impl Shard {
    /// What a new connection gets by the listener that it came in at.
    pub(super) fn front_door(&self, id: FrontId, peer: &Peer) -> (Rc<FrontConfig>, Gate) {
        let authentication = peer.entrance.authentication;
        let gate = match authentication {
            Authentication::None => Gate::Open,
            Authentication::Accounts => {
                let origin = Origin::of(peer.address.map(|address| address.ip()));
                self.hub.accounts.arrive(id, origin, peer.identity.clone());
                Gate::Shut
            }
        };
        (Rc::clone(self.tuning.front(authentication)), gate)
    }

    /// Takes the table that counts now, and goes on with logins whose password was compared.
    pub(super) fn observe_access(&mut self) {
        self.propose_changes();
        self.hub.accounts.set_now(self.hub.now.tick);
        if self.hub.access.revision() != self.hub.table.revision() {
            self.hub.table = self.hub.access.table();
            self.revoking = Some(0);
        }
        if self.hub.accounts.has_verdict() {
            for (front, step) in self.hub.accounts.take_verdicts() {
                self.with_front(front, |front, now, fx| {
                    front.handle_authenticated(now, step, fx);
                });
            }
        }
        if let Some(from) = self.revoking {
            self.revoking = self.revoke(from);
        }
    }

    /// Ends the connections from a place on that may not go on, a bounded number a turn. Where the next turn goes on.
    fn revoke(&mut self, from: Place) -> Option<Place> {
        let end = self.fronts.places();
        let upto = end.min(from + REVOKING_MAX as Place);
        for place in from..upto {
            let Some(id) = self.fronts.id(place) else {
                continue;
            };
            let Access::Here(connection) = self.fronts.get(id) else {
                continue;
            };
            self.hub.budget.spend(Budget::DELIVERY);
            let Some(revoked) = connection.gate.revoked(&self.hub.table) else {
                continue;
            };
            let how = match revoked {
                Revoked::User => Revocation::EndsSession,
                Revoked::Disabled | Revoked::Will => Revocation::DeletesWill,
                Revoked::Credentials => Revocation::SendsWill,
            };
            self.with_front(id, |front, now, fx| front.handle_revoked(now, how, fx));
        }
        (upto < end).then_some(upto)
    }

    /// Whether a turn would find something here.
    pub(super) fn has_access_work(&self) -> bool {
        self.revoking.is_some()
            || self.has_change()
            || self.hub.accounts.has_verdict()
            || self.hub.access.revision() != self.hub.table.revision()
    }
}
