//! The one gate of a client (I11): every front asks here before it publishes, subscribes or delivers.

use courser_access::{
    Identity, Limits, Principal, Quota, Rights, Sharing, Standing, Table, Verdict,
};
use courser_contract::{Asked, Permission, Tick, WillPermission};

use super::Access;
use super::owner::from_owner;

/// What is known of a connection's rights.
#[derive(Debug)]
pub(crate) enum Gate {
    /// Nobody logs in where it came in: everything is allowed.
    Open,
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
    /// How much it may publish, where that is limited.
    quota: Option<Quota>,
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
            Self::Open => Permission::Granted,
            Self::Shut => Permission::Denied,
            Self::Client(client) => client.may(asked, table),
        }
    }

    /// The client has logged in, or has proved anew who it is: what it has left to publish, and its will, stay as they are then.
    pub(crate) fn log_in(&mut self, client_id: &str, who: impl Into<Principal>, table: &Table) {
        let rights = Rights::new(table, Identity::new(client_id, who));
        let (quota, will) = match std::mem::replace(self, Self::Shut) {
            Self::Open | Self::Shut => (Quota::new(rights.limits()), None),
            Self::Client(before) => {
                let quota = Quota::renewed(before.quota, rights.limits());
                (quota, before.will)
            }
        };
        *self = Self::Client(Box::new(Client {
            quota,
            revision: table.revision(),
            will,
            rights,
        }));
    }

    /// Counts what a client has published in one read: whether it has published more than it may by now. With [`Gate::Open`] one
    /// comparison.
    #[inline]
    pub(crate) fn charge(&mut self, now: Tick, messages: u64, bytes: u64) -> bool {
        match self {
            Self::Open | Self::Shut => false,
            Self::Client(client) => client.quota.as_mut().is_some_and(|quota| {
                quota.take(now.0, messages, bytes);
                quota.is_overdrawn(now.0)
            }),
        }
    }

    /// Limits of who has logged in.
    pub(crate) fn limits(&self) -> Limits {
        match self {
            Self::Open | Self::Shut => Limits::default(),
            Self::Client(client) => client.rights.limits(),
        }
    }

    /// Who has logged in.
    pub(crate) fn principal(&self) -> Option<&Principal> {
        match self {
            Self::Open | Self::Shut => None,
            Self::Client(client) => Some(client.rights.who().principal()),
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
        let Self::Client(client) = self else {
            return None;
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
        self.quota = Quota::renewed(self.quota, self.rights.limits());
        self.revision = table.revision();
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
    let Some(who) = from_owner(owner) else {
        return WillPermission::Denied;
    };
    let rights = Rights::new(&access.table(), Identity::new(client_id, who));
    match rights.explain_publish(topic).verdict() {
        Verdict::Allowed => WillPermission::Granted,
        Verdict::Denied => WillPermission::Denied,
    }
}

#[cfg(test)]
mod tests;
