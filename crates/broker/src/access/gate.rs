//! The one gate of a client (I11): every front asks here before it publishes, subscribes or delivers.

use std::sync::Arc;

use courser_access::{Identity, Limits, Principal, Rights, Sharing, Standing, Table, Verdict};
use courser_contract::{
    Asked, Attach, Permission, SessionLimits, Tick, Will, WillPermission, author_of,
};

use super::Access;
use super::meter::Meter;
use super::owner::Owner;
use super::quotas::{Name, Quotas, Whose};

/// What is known of a connection's rights.
#[derive(Debug)]
pub(crate) enum Gate {
    /// Nobody logs in where it came in: everything is allowed, as much of it as domain and settings say.
    Open(Meter),
    /// It has not logged in: nothing is.
    Shut,
    /// It has.
    Client(Box<Client>),
}

/// A client that has logged in.
#[derive(Debug)]
pub(crate) struct Client {
    rights: Rights,
    /// Of the table that they are of.
    revision: u64,
    /// Topic of its will.
    will: Option<Box<str>>,
    /// How much it may publish.
    meter: Meter,
    /// What its retained messages say of it, once it has published one.
    author: Option<Arc<str>>,
}

/// Why a connection may not go on by a newer table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revoked {
    /// Its user is gone: so is its session.
    User,
    /// Its user is disabled.
    Disabled,
    /// Its user has other credentials: it may log in with those.
    Credentials,
    /// It may not publish its will any more.
    Will,
}

impl Gate {
    /// Asks. With [`Gate::Open`] one comparison.
    #[inline]
    pub(crate) fn may(&mut self, asked: Asked<'_>, table: &Table) -> Permission {
        match self {
            Self::Open(_) => Permission::Granted,
            Self::Shut => Permission::Denied,
            Self::Client(client) => client.may(asked, table),
        }
    }

    /// The client has logged in, or has proved anew who it is: what it has left to publish, and its will, stay as they are then.
    pub(crate) fn log_in(&mut self, client_id: &str, who: impl Into<Principal>, table: &Table) {
        let rights = Rights::new(table, Identity::new(client_id, who));
        let (meter, will) = match std::mem::replace(self, Self::Shut) {
            Self::Open(_) | Self::Shut => (Meter::new(rights.limits()), None),
            Self::Client(mut before) => {
                before.meter.renew(rights.limits());
                (before.meter, before.will)
            }
        };
        *self = Self::Client(Box::new(Client {
            meter,
            revision: table.revision(),
            will,
            author: None,
            rights,
        }));
    }

    /// Where nobody logs in.
    pub(crate) fn open(table: &Table) -> Self {
        Self::Open(Meter::new(table.everybody()))
    }

    #[inline]
    fn meter(&self) -> Option<&Meter> {
        match self {
            Self::Shut => None,
            Self::Open(meter) => Some(meter),
            Self::Client(client) => Some(&client.meter),
        }
    }

    /// Counts a message of these parts that a client has published ([`Meter::charge`]): whether it has published more than it may by now. Two comparisons where nothing limits it.
    #[inline]
    pub(crate) fn charge(&self, now: Tick, parts: [&[u8]; 3]) -> bool {
        self.meter().is_some_and(|meter| meter.charge(now, parts))
    }

    /// The same of the will of a client that asks for its session, unless it has published more than it may already.
    pub(crate) fn charge_will(
        &mut self,
        now: Tick,
        quotas: &Quotas,
        name: Name<'_>,
        will: &Will,
    ) -> Permission {
        if self.owes(now, quotas, name) {
            return Permission::Denied;
        }
        let parts = [will.topic.as_bytes(), &will.properties, &will.payload];
        self.charge(now, parts);
        Permission::Granted
    }

    /// Whether how much it may publish is limited.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.meter().is_some_and(Meter::is_limited)
    }

    /// As much is read of its socket at once.
    #[inline]
    pub(crate) fn read_bytes_max(&self) -> usize {
        self.meter().map_or(usize::MAX, Meter::read_bytes_max)
    }

    /// Whether a client that is known has published more than it may by now, on this connection or another one.
    pub(crate) fn owes(&mut self, now: Tick, quotas: &Quotas, name: Name<'_>) -> bool {
        let (meter, user) = match self {
            Self::Shut => return false,
            Self::Open(meter) => (meter, None),
            Self::Client(client) => {
                let client: &mut Client = client;
                let user = client.rights.who().principal().user.as_str();
                (&mut client.meter, Some(user))
            }
        };
        meter.owes(now, quotas, &Whose { user, name })
    }

    /// The client publishes nothing any more on this connection.
    pub(crate) fn end_publishing(&mut self, now: Tick) {
        match self {
            Self::Shut => {}
            Self::Open(meter) => meter.leave(now),
            Self::Client(client) => client.meter.leave(now),
        }
    }

    /// Limits of who has logged in, or of everybody.
    fn limits(&self, table: &Table) -> Limits {
        match self {
            Self::Open(_) | Self::Shut => table.everybody(),
            Self::Client(client) if client.revision == table.revision() => client.rights.limits(),
            Self::Client(client) => client.rights.who().principal().limits(table),
        }
    }

    /// Says in what asks for its session what that may use.
    pub(crate) fn limit(&self, attach: &mut Attach, table: &Table) {
        let limits = self.limits(table);
        attach.limits = session_limits(limits);
        attach.user_sessions_max = limits.sessions.unwrap_or(u32::MAX).max(1);
        let in_flight = limits
            .in_flight
            .map(|most| most.clamp(1, u32::from(u16::MAX)));
        if let Some(Ok(most)) = in_flight.map(u16::try_from) {
            attach.receive_maximum = attach.receive_maximum.min(most);
        }
    }

    /// Who has logged in.
    pub(crate) fn principal(&self) -> Option<&Principal> {
        match self {
            Self::Open(_) | Self::Shut => None,
            Self::Client(client) => Some(client.rights.who().principal()),
        }
    }

    /// To whom its session belongs. None: nobody has logged in.
    pub(crate) fn owner(&self) -> Option<Box<str>> {
        match self {
            Self::Open(_) | Self::Shut => None,
            Self::Client(client) => Some(Owner::of(&client.rights).to_text()),
        }
    }

    /// The same, and what that may use.
    pub(crate) fn ownership(&self, table: &Table) -> Option<(Box<str>, SessionLimits)> {
        let owner = self.owner()?;
        Some((owner, session_limits(self.limits(table))))
    }

    /// What its retained messages say of it. None: nobody has logged in.
    pub(crate) fn author(&mut self) -> Option<Arc<str>> {
        let client: &mut Client = match self {
            Self::Open(_) | Self::Shut => return None,
            Self::Client(client) => client,
        };
        let rights = &client.rights;
        let author = client.author.get_or_insert_with(|| {
            let owner = Owner::of(rights).to_text();
            author_of(rights.who().client_id(), &owner).into()
        });
        Some(Arc::clone(author))
    }

    /// Gives back the memory of what was decided, which is decided again when it is asked for.
    pub(crate) fn forget_decisions(&mut self) {
        if let Self::Client(client) = self {
            client.rights.forget_decisions();
        }
    }

    /// Notes the will that a CONNECT came with.
    pub(crate) fn note_will(&mut self, topic: &str) {
        if let Self::Client(client) = self {
            client.will = Some(topic.into());
        }
    }

    /// Whether it may go on by a newer table.
    pub(crate) fn revoked(&mut self, table: &Table) -> Option<Revoked> {
        let client = match self {
            Self::Shut => return None,
            Self::Open(meter) => {
                meter.renew(table.everybody());
                return None;
            }
            Self::Client(client) => client,
        };
        match client.rights.standing_in(table) {
            Standing::Valid => {}
            Standing::NoUser => return Some(Revoked::User),
            Standing::Disabled => return Some(Revoked::Disabled),
            Standing::OtherCredentials => return Some(Revoked::Credentials),
        }
        client.renew(table);
        let will = client.will.as_deref()?;
        match client.rights.may_publish(will) {
            Verdict::Allowed => None,
            Verdict::Denied => Some(Revoked::Will),
        }
    }
}

impl Client {
    #[inline]
    fn may(&mut self, asked: Asked<'_>, table: &Table) -> Permission {
        if self.revision != table.revision() {
            if self.rights.standing_in(table) != Standing::Valid {
                // Its end is on the way.
                return Permission::Denied;
            }
            self.renew(table);
        }
        let verdict = match asked {
            Asked::Publish(topic) => self.rights.may_publish(topic),
            Asked::Receive(topic) => self.rights.may_receive(topic),
            Asked::Subscribe(filter) => self.rights.may_subscribe(filter, Sharing::Own),
            Asked::SubscribeShared(filter) => self.rights.may_subscribe(filter, Sharing::Shared),
        };
        match verdict {
            Verdict::Allowed => Permission::Granted,
            Verdict::Denied => Permission::Denied,
        }
    }

    #[cold]
    fn renew(&mut self, table: &Table) {
        self.rights = self.rights.renewed(table);
        self.meter.renew(self.rights.limits());
        self.revision = table.revision();
    }
}

/// What a kept session may use by what counts now; `owner` is to whom it belongs, if to anybody.
pub(crate) fn limits_of_session(table: &Table, owner: Option<&str>) -> SessionLimits {
    let owner = owner.and_then(Owner::from_text);
    let limits = owner.map(|owner| owner.principal.limits(table));
    session_limits(limits.unwrap_or_else(|| table.everybody()))
}

/// What of these limits a session's partition holds to. A limit of 0 counts as 1.
fn session_limits(limits: Limits) -> SessionLimits {
    let most = |limit: Option<u32>| limit.unwrap_or(u32::MAX).max(1);
    SessionLimits {
        subscriptions_max: most(limits.subscriptions),
        queued_messages_max: most(limits.queued_messages),
        queued_bytes_max: most(limits.queued_bytes),
        queued_seconds_max: most(limits.queued_seconds),
    }
}

/// Whether a user may publish the will of a session that it has left behind, by what counts now.
pub(crate) fn may_publish_will(
    access: &Access,
    owner: &str,
    client_id: &str,
    topic: &str,
) -> WillPermission {
    if !access.serves() {
        return WillPermission::NotYet;
    }
    let table = access.table();
    let owner = Owner::from_text(owner).filter(|owner| !owner.is_gone(&table));
    let Some(owner) = owner else {
        return WillPermission::Denied;
    };
    let rights = Rights::new(&table, Identity::new(client_id, owner.principal));
    match rights.explain_publish(topic).verdict() {
        Verdict::Allowed => WillPermission::Granted,
        Verdict::Denied => WillPermission::Denied,
    }
}

#[cfg(test)]
mod tests;
