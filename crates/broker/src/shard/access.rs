//! Logins and rights on a shard: verdicts of passwords, and what follows when users and roles change.

mod token_end;

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use courser_access::Table;
use courser_contract::{FrontId, Tick};
use courser_engine::Partition;
use courser_mqtt::front::{FrontConfig, Revocation};

use super::Shard;
use super::budget::Budget;
use super::fronts::Access;
use super::ready::Place;
use super::recovery::Damaged;
use crate::access::{Gate, Owner, Revoked, let_go, limits_of_session};
use crate::peer::{Authentication, Peer};

pub(super) use token_end::TokenEnd;

/// Connections that one turn looks at when users and roles have changed, and that it ends with their tokens.
const REVOKING_MAX: usize = 1_000;

/// Places of sessions that one turn looks at for users that are gone.
const SWEEPING_MAX: u32 = 256;
/// When sessions are looked at again that were coming or going, in milliseconds.
const SWEEP_AGAIN_MS: u64 = 500;

/// The walk over stored sessions after users and roles have changed.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Place of the partition, and of the session in it; none: there is nothing to do.
    at: Option<(usize, u32)>,
    /// Whether something could not be decided in this walk.
    again: bool,
    /// When the next walk begins for its sake.
    next: Option<Tick>,
}

impl Sweep {
    /// Of a shard that begins with this table. One that was published before it is not looked at as a newer one.
    pub(super) fn beginning_with(table: &Table) -> Self {
        Self {
            at: (table.revision() > 0).then_some((0, 0)),
            ..Self::default()
        }
    }

    /// From the beginning.
    fn begin(&mut self) {
        *self = Self {
            at: Some((0, 0)),
            ..Self::default()
        };
    }

    /// The walk is at its end.
    fn end(&mut self, now: Tick) {
        self.at = None;
        self.next = self.again.then(|| now.after_ms(SWEEP_AGAIN_MS));
        self.again = false;
    }

    fn is_due(&mut self, now: Tick) -> bool {
        if self.next.is_some_and(|next| next <= now) {
            self.begin();
        }
        self.at.is_some()
    }

    /// Whether a turn goes on with it.
    pub(super) const fn is_at_work(&self) -> bool {
        self.at.is_some()
    }
}

/// Tells the kept sessions at these places what they may use. One that ends with its connection keeps no client id, and what it was told at
/// its beginning.
fn tell_limits(partition: &mut Partition, places: Range<u32>, table: &Table) {
    for at in places {
        let Some(session) = partition.session_at(at) else {
            continue;
        };
        if !session.client_id().is_empty() {
            let limits = limits_of_session(table, session.owner());
            partition.limit_session_at(at, limits);
        }
    }
}

impl Shard {
    /// What a new connection gets by the listener that it came in at.
    pub(super) fn front_door(&self, id: FrontId, peer: &Peer) -> (Rc<FrontConfig>, Gate) {
        let gate = match peer.entrance.authentication {
            Authentication::None => Gate::open(&self.hub.access.table),
            Authentication::Accounts | Authentication::Tokens => {
                self.hub.access.accounts.arrive(id, peer);
                Gate::Shut
            }
        };
        (Rc::clone(self.tuning.front(peer.entrance.id)), gate)
    }

    /// Takes the table that counts now, and goes on with logins whose password was compared.
    pub(super) fn observe_access(&mut self) {
        self.propose_changes();
        self.hub.access.accounts.set_now(self.hub.now.tick);
        if self.hub.access.process.revision() != self.hub.access.table.revision() {
            self.take_table();
        }
        if self.hub.access.accounts.has_steps() {
            for (front, step) in self.hub.access.accounts.take_steps() {
                self.with_front(front, |front, now, fx| {
                    front.handle_authenticated(now, step, fx);
                });
                self.renew_gate(front);
            }
            self.arm_token_end();
        }
        if let Some(from) = self.revoking {
            // What is committed may leave nothing of a busy turn.
            self.hub.budget.grant(Budget::TURN / 2);
            self.revoking = self.revoke(from);
        }
        if self.sweep.is_due(self.hub.now.tick) {
            self.sweep_sessions();
        }
    }

    /// The table that counts now, and in time what follows from it for those who are here.
    #[cold]
    pub(super) fn take_table(&mut self) {
        let before = std::mem::replace(&mut self.hub.access.table, self.hub.access.process.table());
        if self.hub.access.table.retained() != before.retained() {
            self.limit_partitions();
        }
        if !self.hub.access.table.shares_memory_with(&before) {
            let_go(before);
        }
        self.revoking = Some(0);
        self.sweep.begin();
    }

    /// A client that is attached has shown a newer token: it has the rights of that one from now on.
    fn renew_gate(&mut self, id: FrontId) {
        let Access::Here(connection) = self.fronts.get(id) else {
            return;
        };
        if let (Gate::Client(_), Some((client_id, who))) =
            (&connection.gate, self.hub.access.accounts.take_login(id))
        {
            connection
                .gate
                .log_in(&client_id, who, &self.hub.access.table);
            if let Some(revoked) = connection.gate.revoked(&self.hub.access.table) {
                return self.end_revoked(id, revoked);
            }
            // What the session leaves behind goes by the newer token as well.
            if let Some((owner, limits)) = connection.gate.ownership(&self.hub.access.table) {
                self.with_front(id, |front, _, fx| front.handle_owner(owner, limits, fx));
            }
        }
    }

    fn end_revoked(&mut self, id: FrontId, revoked: Revoked) {
        let how = match revoked {
            Revoked::User => Revocation::EndsSession,
            Revoked::Disabled | Revoked::Will => Revocation::DeletesWill,
            Revoked::Credentials => Revocation::SendsWill,
        };
        self.with_front(id, |front, now, fx| front.handle_revoked(now, how, fx));
    }

    /// Ends connections whose token has ended, a bounded number a turn: the timer of those that are left fires in the next.
    pub(super) fn end_tokens(&mut self) {
        self.token_end.fired();
        for _ in 0..REVOKING_MAX {
            let Some(id) = self.hub.access.accounts.take_ended() else {
                break;
            };
            self.hub.budget.spend(Budget::DELIVERY);
            self.with_front(id, |front, now, fx| {
                front.handle_revoked(now, Revocation::Expires, fx);
            });
            if self.hub.budget.is_spent() {
                break;
            }
        }
        self.arm_token_end();
    }

    /// Arms the timer of the next token that ends. One that fires early looks and is armed again.
    fn arm_token_end(&mut self) {
        if let Some(next) = self.hub.access.accounts.next_end() {
            self.token_end.arm(&mut self.timers, next);
        }
    }

    /// Tells all kept sessions what they may use: once, at the end of a start.
    pub(super) fn limit_kept_sessions(&mut self) {
        let table = self.hub.access.process.table();
        if table.revision() == 0 {
            return;
        }
        for place in 0..self.partitions.len() {
            if let Some(partition) = self.partitions.at(place).partition.as_deref_mut() {
                let all = partition.session_places();
                tell_limits(partition, 0..all, &table);
                self.partitions.touch(place);
            }
        }
    }

    /// Tells sessions that have just got a connection what they may use: what came with their CONNECT is of the table of that moment,
    /// and the sweep over a newer one may have been there before.
    #[cold]
    fn limit_attached(&mut self) {
        for home in std::mem::take(&mut self.hub.access.attached) {
            let table = Arc::clone(&self.hub.access.table);
            if table.revision() == 0 {
                continue;
            }
            let partition = self.owned(home.partition);
            if let Some(session) = partition.session(home.session) {
                let limits = limits_of_session(&table, session.owner());
                partition.limit_session(home.session, limits);
                self.partitions.touch(self.partitions.place(home.partition));
            }
        }
    }

    /// An entry is applied: sessions that it attached.
    #[inline]
    pub(super) fn note_attached(&mut self) {
        if !self.hub.access.attached.is_empty() {
            self.limit_attached();
        }
    }

    /// Ends sessions without a connection whose user is gone, a bounded number a turn; those with a connection end with it. The others are
    /// told their limits.
    fn sweep_sessions(&mut self) {
        let Some((place, from)) = self.sweep.at else {
            return;
        };
        if place >= self.partitions.len() {
            if !self.sweep.again {
                let revision = self.hub.access.table.revision();
                self.hub.access.process.note_swept(self.hub.id, revision);
            }
            return self.sweep.end(self.hub.now.tick);
        }
        let owned = self.partitions.at(place);
        let id = owned.id;
        let aside = matches!(owned.damaged.as_deref(), Some(Damaged::Aside(..)));
        let table = Arc::clone(&self.hub.access.table);
        let partition = self.owned(id);
        if !partition.serves() {
            // One that begins to serve later is looked at then; one that is set aside never does.
            self.sweep.again |= !aside;
            self.sweep.at = Some((place + 1, 0));
            return;
        }
        let places = partition.session_places();
        let end = places.min(from.saturating_add(SWEEPING_MAX));
        // One that nobody can read is nobody's. The session of who came with a token ends when it expires.
        let is_gone =
            |owner: &str| Owner::from_text(owner).is_none_or(|owner| owner.is_gone(&table));
        let ended = self.with_partition(id, |it, now, fx| {
            it.end_sessions(now, from..end, is_gone, fx)
        });
        self.sweep.again |= ended.in_use;
        tell_limits(self.owned(id), from..ended.next, &table);
        self.partitions.touch(place);
        let spent = i64::from(ended.next.saturating_sub(from)) * Budget::ROW;
        self.hub.budget.spend(spent);
        self.handle_local();
        self.sweep.at = Some(if ended.next < places {
            (place, ended.next)
        } else {
            (place + 1, 0)
        });
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
            let Some(revoked) = connection.gate.revoked(&self.hub.access.table) else {
                continue;
            };
            self.end_revoked(id, revoked);
            if self.hub.budget.is_spent() {
                return (place + 1 < end).then_some(place + 1);
            }
        }
        (upto < end).then_some(upto)
    }

    /// Whether a turn would find something here.
    pub(super) fn has_access_work(&self) -> bool {
        self.revoking.is_some()
            || self.sweep.is_at_work()
            || self.has_change()
            || self.hub.access.accounts.has_steps()
            || self.hub.access.process.revision() != self.hub.access.table.revision()
    }
}
