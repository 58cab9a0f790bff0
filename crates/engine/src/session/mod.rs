//! Homes of sessions: what of a session outlives its connection, and what the leader keeps beside it.

mod attach;
mod detach;
mod forwards;
mod places;
mod qos2;
mod requests;
mod subscribe;
mod subscriptions;
mod wills;

use std::collections::BTreeMap;

use compact_str::CompactString;
use courser_contract::{
    ClientHash, Epoch, FrontId, GroupRef, MemberConnection, PartitionId, QoS, SessionLimits,
    SessionUid, SubscriptionOptions, Tick, Uptake, WallMs, Will,
};

pub(crate) use self::{
    detach::{LastWords, Plan},
    forwards::FORWARD_AGAIN_MS,
    requests::{Held, Name, OpenRequests, Request, Wanted},
    subscriptions::{Sizes, Subscriptions},
    wills::WillGoes,
};
use crate::{Limits, checkpoint::Saved, entry::ScanState, room::Reserved, stream::Stream};

/// Packet ids of a session's own stream: `1 + seq mod 32767` (M30).
pub(crate) const PACKET_IDS: u64 = 32_767;

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) uid: SessionUid,
    /// Empty in a volatile partition, where nobody asks by name.
    pub(crate) client_id: CompactString,
    /// The user to whom it belongs; none in a volatile partition, and where nobody logs in.
    pub(crate) owner: Option<Box<OwnerName>>,
    pub(crate) epoch: Epoch,
    pub(crate) attached: bool,
    /// The will's end is proposed. The leader's memory: there is room for it here.
    pub(crate) will_forgotten: bool,
    pub(crate) receive_maximum: u16,
    pub(crate) expiry_seconds: u32,
    /// When a detached session ends; none: it is attached, or it never ends by itself.
    pub(crate) ends_at: Option<WallMs>,
    /// Nothing at or above it was sent (M30).
    pub(crate) sent_limit: u64,
    pub(crate) stream: Stream,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) extra: Option<Box<Extra>>,
    /// The leader's memory.
    pub(crate) lead: SessionLead,
    /// Which checkpoint has it; not replicated.
    pub(crate) saved: Saved,
}

/// A user to whom a session belongs. Sessions point to it: where nobody logs in it costs them one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerName(pub(crate) Box<str>);

const _: () = assert!(
    size_of::<Session>() <= 320,
    "tests/memory.rs counts with it"
);

/// What few sessions have.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) will: Option<Box<Will>>,
    /// When the will of a detached session is due.
    pub(crate) will_due: Option<WallMs>,
    /// QoS 2 publishes that wait for their PUBREL, with the hash of topic and payload (M28).
    pub(crate) holds: BTreeMap<u16, u64>,
    /// Scans of retained messages that go on, oldest first (M34).
    pub(crate) scans: BTreeMap<u64, Scan>,
    /// Its entries in [`State::leaves`](crate::state::State::leaves) while it lives; follows from them.
    pub(crate) leaves: Vec<u64>,
}

impl Extra {
    /// Whether there is nothing in it but leaves, which are parts of the state by themselves.
    pub(crate) fn is_of_leaves(&self) -> bool {
        let Self {
            will,
            will_due,
            holds,
            scans,
            leaves: _,
        } = self;
        will.is_none() && will_due.is_none() && holds.is_empty() && scans.is_empty()
    }
}

impl Session {
    /// Drops so many of its subscriptions, holds and scans, once it is gone; how many.
    pub(crate) fn drop_items(&mut self, count: usize) -> usize {
        let mut dropped = self.subscriptions.drop_last(count);
        if let Some(extra) = &mut self.extra {
            while dropped < count && extra.holds.pop_last().is_some() {
                dropped += 1;
            }
            while dropped < count && extra.scans.pop_last().is_some() {
                dropped += 1;
            }
        }
        dropped
    }

    /// Whether a scan of it goes on.
    pub(crate) fn has_scan(&self, number: u64) -> bool {
        let extra = self.extra.as_ref();
        extra.is_some_and(|extra| extra.scans.contains_key(&number))
    }
}

/// A subscription as the home keeps it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Subscribed {
    pub(crate) filter: Box<str>,
    pub(crate) share: Option<Box<Share>>,
    pub(crate) options: SubscriptionOptions,
    pub(crate) identifier: Option<u32>,
}

/// The shared part of a subscription.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) name: Box<str>,
    /// The group, once it has said so; the leader's memory.
    pub(crate) group: Option<GroupRef>,
}

/// A scan of retained messages for one subscription.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) filter: Box<str>,
    /// How far it is in each partition that has answered.
    pub(crate) cursors: BTreeMap<PartitionId, ScanState>,
}

/// What the leader keeps beside a session: nothing of it is replicated.
#[derive(Debug, Default)]
pub(crate) struct SessionLead {
    pub(crate) live: Option<Live>,
    pub(crate) reserved: Reserved,
    /// Those of whom it belongs to, as they were last told.
    pub(crate) limits: SessionLimits,
    /// QoS 2 publishes whose hold or end is proposed: hash, or none for the end.
    pub(crate) proposed_holds: BTreeMap<u16, Option<u64>>,
    /// What the last connection was sent lies below.
    pub(crate) sent_by_last: u64,
    /// What is proposed of its end.
    pub(crate) going: Going,
    /// Whose it is, once it has been attached: a session that ends with its connection keeps no client id.
    pub(crate) publisher: Option<ClientHash>,
    /// It is counted among the sessions that its user keeps.
    pub(crate) has_place: bool,
}

/// What of a session's end is proposed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Going {
    /// Nothing.
    #[default]
    Nowhere,
    /// The end of its attachment: whoever says it again, a front or a new leader, lets nobody go once more.
    Detached,
    /// Its own.
    Ended,
}

/// A connection of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) front: FrontId,
    /// All below has been pushed to the front, or is done.
    pub(crate) pushed: u64,
    /// Below it everything counts as sent before: DUP.
    pub(crate) sent_before: u64,
    /// Pushed and without an outcome.
    pub(crate) under_way: u16,
    /// Most of them.
    pub(crate) window: u16,
    /// The highest limit that is proposed because a delivery waits for it.
    pub(crate) limit_asked: u64,
    /// When it came, or had its last outcome.
    pub(crate) taken_at: Tick,
    /// As in [`Attach`](courser_contract::Attach).
    pub(crate) delivery_bytes_max: u32,
    /// As its front said last.
    pub(crate) uptake: Uptake,
}

impl Live {
    /// Whether one more may be pushed.
    pub(crate) const fn has_room(&self) -> bool {
        self.under_way < self.window
    }
}

/// How fronts know a shared group before it has a number.
pub(crate) fn group_name(share: &str, filter: &str) -> u64 {
    let name = [share, filter].join("\0");
    rapidhash::v3::rapidhash_v3(name.as_bytes())
}

impl Session {
    /// What messages of its client carry of it.
    pub(crate) fn publisher(&self) -> ClientHash {
        let known = self.lead.publisher;
        known.unwrap_or_else(|| ClientHash::of(&self.client_id))
    }

    /// The user to whom it belongs.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| &*owner.0)
    }

    /// Whether the end of its attachment, which says when its will and its own end are due, is proposed and not applied yet.
    pub(crate) fn is_detaching(&self) -> bool {
        self.attached && self.lead.going == Going::Detached
    }

    /// When its will is due, if it waits for that.
    pub(crate) fn will_due(&self) -> Option<WallMs> {
        self.extra.as_ref()?.will_due
    }

    /// The part that few sessions have, made when it is first needed.
    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Its connection as groups see it.
    pub(crate) fn member_front(&self) -> Option<MemberConnection> {
        let live = self.lead.live.as_ref()?;
        Some(MemberConnection {
            front: live.front,
            window: self.receive_maximum,
            delivery_bytes_max: live.delivery_bytes_max,
            uptake: live.uptake,
        })
    }

    /// Names of the shared groups that it is a member of.
    pub(crate) fn groups(&self) -> Vec<u64> {
        let shared = self.subscriptions.iter();
        shared
            .filter_map(|s| Some(group_name(s.share_name()?, &s.filter)))
            .collect()
    }

    /// Lets the extra part go when nothing is in it.
    pub(crate) fn tidy_extra(&mut self) {
        let extra = self.extra.as_ref();
        let empty = extra.is_some_and(|it| it.is_of_leaves() && it.leaves.is_empty());
        if empty {
            self.extra = None;
        }
    }

    /// How much it may subscribe to.
    pub(crate) fn subscriptions_max(&self, any: &Limits) -> Sizes {
        Sizes {
            count: any
                .subscriptions_max
                .min(self.lead.limits.subscriptions_max),
            shared: any.shared_subscriptions_max,
            bytes: any.subscription_bytes_max,
        }
    }

    /// Place of a subscription.
    pub(crate) fn find(&self, share: Option<&str>, filter: &str) -> Option<usize> {
        self.subscriptions.find(share, filter)
    }

    /// Whether a message counts as sent and has no end yet: it is owed to the client, and neither dropped nor expired, with or without a front
    /// (M30; v3 [MQTT-4.4.0-1], v5 [MQTT-4.4.0-1], v5 [MQTT-3.3.2-5]).
    pub(crate) fn is_owed(&self, seq: u64) -> bool {
        seq < self.sent_below()
    }

    /// Whether a QoS 2 exchange of `seq` has begun: it ends with PUBREL, also where its message is lost (M30, M44).
    pub(crate) fn is_in_exchange(&self, seq: u64) -> bool {
        let reference = self.stream.get(seq);
        self.is_owed(seq) && reference.is_some_and(|r| crate::look::qos(r.look) == QoS::ExactlyOnce)
    }

    /// Nothing at or above it was ever sent, as far as this leader knows.
    pub(crate) fn sent_below(&self) -> u64 {
        match &self.lead.live {
            Some(live) => live.pushed.max(live.sent_before),
            None => self.sent_limit,
        }
    }

    /// The same of a connection that ends: of what comes from now on nothing was sent to it, however far its limit was ahead of it.
    pub(crate) fn was_sent_below(&self) -> u64 {
        self.sent_below().min(self.stream.next())
    }

    /// Where [`Session::sent_limit`] should be for a front that has been sent all below `pushed` (M30): far enough ahead that
    /// no delivery waits for it while outcomes come, and within the packet ids from the committed floor.
    pub(crate) fn wanted_sent_limit(&self, pushed: u64, window: u16) -> u64 {
        let ahead = pushed.saturating_add(2 * u64::from(window));
        ahead
            .min(self.stream.floor() + PACKET_IDS)
            .max(self.sent_limit)
    }

    /// Asserts what holds between events.
    pub(crate) fn check(&self) {
        self.stream.check();
        self.subscriptions.check();
        assert!(
            self.sent_limit <= self.stream.floor() + PACKET_IDS,
            "packet ids that are in use differ (M30)"
        );
        if let Some(live) = &self.lead.live {
            assert!(self.attached, "only an attached session has a front");
            // Where all has ended without having been sent, a connection begins behind the limit.
            assert!(
                live.pushed <= self.sent_limit.max(self.stream.floor()),
                "nothing is sent at or above the limit (M30)"
            );
            assert!(live.under_way <= live.window, "the window is kept");
        }
        assert!(
            self.ends_at.is_none() || !self.attached,
            "an attached session does not expire"
        );
    }
}

impl Subscribed {
    /// Whether it is the one of this name.
    pub(crate) fn is_named(&self, share: Option<&str>, filter: &str) -> bool {
        &*self.filter == filter && self.share_name() == share
    }

    /// Its share name.
    pub(crate) fn share_name(&self) -> Option<&str> {
        self.share.as_ref().map(|share| &*share.name)
    }
}
