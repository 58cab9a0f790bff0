//! What happens once an entry is applied, in the order in which it was asked for.

use courser_contract::{PartitionEffects, ToFront};

use crate::{
    Partition,
    entry::Rare,
    lead::{After, Lead},
};

impl Lead {
    /// A rare fact of this leader is applied.
    pub(crate) fn applied_fact(&mut self, fact: &Rare) {
        if let Rare::SessionOpened { .. } = fact {
            self.registry.reserved -= 1;
        }
    }
}

impl Partition {
    pub(crate) fn run_after(&mut self, after: After, fx: &mut impl PartitionEffects) {
        match after {
            After::Attached(attaching) => self.attached(&attaching, fx),
            After::Claimed {
                client_id,
                front,
                epoch,
            } => self.claimed(&client_id, front, epoch, fx),
            After::Detached {
                client_id,
                session,
                open,
            } => self.detached(client_id, session, &open, fx),
            After::WillForwarded {
                client_id,
                forwards,
            } => self.will_forwarded(&client_id, forwards),
            After::Subscribed(subscribing) => self.subscribed(*subscribing, fx),
            After::TakenBack(subscribing) => self.answer_subscribe(*subscribing, fx),
            After::Unsubscribed(unsubscribing, session, held) => {
                self.unsubscribed(*unsubscribing, (session, &held), fx);
            }
            After::Held(holding) => self.held(holding, fx),
            After::Released {
                front,
                session,
                packet_id,
            } => {
                self.released(session, packet_id);
                let message = ToFront::Released {
                    packet_id,
                    existed: true,
                };
                fx.send_front(front, message);
            }
            After::Send(to, message) => fx.send_partition(to, *message),
            After::Leave(to, leave) => self.leave_begun(to, *leave, fx),
            After::GroupJoined(group, join) => self.group_joined(group, &join, fx),
            After::GroupLeft(group, leaver) => self.group_left(Some(group), leaver, fx),
            After::GroupParted(group, leaver) => self.group_parted(group, leaver, fx),
            After::GroupOwed {
                group,
                member,
                front,
            } => self.group_owed(group, member, front, fx),
            After::GroupFact(group, fact) => self.group_fact(group, &fact, fx),
            After::GroupNews(group, news) => self.group_news(group, &news, fx),
            After::Heir(group) => self.heir_made(group, fx),
            After::Inherited { group, from, next } => self.inherited(group, (from, next), fx),
            After::Closed(group) => self.part_closed(group, fx),
            After::Scan(scan) => self.answer_scan(&scan, fx),
            After::TermBegun(began) => self.term_begun(began, fx),
        }
    }
}
