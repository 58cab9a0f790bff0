//! A shell that records what its front asks for, as lines of text.

use std::collections::VecDeque;
use std::fmt::Write;

use courser_contract::{
    Asked, CloseCause, Destinations, Dropped, FrontEffects, PartitionId, Permission, Publish,
    PubrecCan, QoS, RequestPart, Routed, Ticket, ToHome, Will,
};

use super::{HOME, VOLATILE};

/// Records what the front asks for, as lines.
pub(in crate::front::tests) struct Shell {
    pub(in crate::front::tests) log: Vec<String>,
    /// Answers to the next publishes; then all are handed over.
    pub(in crate::front::tests) routed: VecDeque<Routed>,
    pub(in crate::front::tests) destinations: Vec<PartitionId>,
    /// Publishes that were counted, by QoS.
    pub(in crate::front::tests) received: [u32; 3],
    /// Whether nothing new is taken.
    pub(in crate::front::tests) refuses: bool,
    /// What the client has no right to, as `publish TOPIC`, `receive TOPIC`, `subscribe FILTER`, `share FILTER`.
    pub(in crate::front::tests) denied: Vec<String>,
    /// What of it was told, with whom.
    pub(in crate::front::tests) told: Vec<String>,
    /// Whether the client has published more than it may.
    pub(in crate::front::tests) owes: bool,
    /// After so many publishes the turn's work is done; none: never.
    pub(in crate::front::tests) spent_after: Option<usize>,
    random: u64,
}

impl Shell {
    /// One that grants all and hands everything over.
    pub(super) fn new() -> Self {
        Self {
            log: Vec::new(),
            received: [0; 3],
            refuses: false,
            routed: VecDeque::new(),
            destinations: vec![HOME],
            denied: Vec::new(),
            told: Vec::new(),
            owes: false,
            spent_after: None,
            random: 1,
        }
    }
}

/// `publish TOPIC` and the like.
fn right(asked: Asked<'_>) -> String {
    let (right, topic) = match asked {
        Asked::Publish(topic) => ("publish", topic),
        Asked::Receive(topic) => ("receive", topic),
        Asked::Subscribe(filter) => ("subscribe", filter),
        Asked::SubscribeShared(filter) => ("share", filter),
    };
    format!("{right} {topic}")
}

impl FrontEffects for Shell {
    fn may(&mut self, asked: Asked<'_>) -> Permission {
        if self.denied.contains(&right(asked)) {
            Permission::Denied
        } else {
            Permission::Granted
        }
    }

    fn denied(&mut self, client_id: &str, asked: Asked<'_>) {
        self.told.push(format!("{client_id}: {}", right(asked)));
    }

    fn publish(&mut self, publish: &Publish<'_>, ticket: Ticket) -> Routed {
        let mut line = format!("publish {} q{}", publish.topic, publish.qos as u8);
        if publish.retain {
            line.push_str(" retain");
        }
        if let Some(at) = publish.expires_at {
            let _ = write!(line, " expires={}", at.0);
        }
        if !publish.properties.is_empty() {
            let _ = write!(line, " {:02x?}", publish.properties);
        }
        let _ = write!(line, " '{}'", String::from_utf8_lossy(publish.payload));
        if publish.qos != QoS::AtMostOnce {
            let _ = write!(line, " #{}", ticket.0);
        }
        self.log.push(line);
        self.routed
            .pop_front()
            .unwrap_or(Routed::Done { matched: true })
    }

    fn received(&mut self, publish: &Publish<'_>) {
        self.received[publish.qos as usize] += 1;
    }

    fn charge_will(&mut self, client_id: &str, will: &Will) -> Permission {
        self.told.push(format!("{client_id}: will {}", will.topic));
        if self.owes {
            Permission::Denied
        } else {
            Permission::Granted
        }
    }

    fn refuses(&mut self, _: &Destinations) -> bool {
        self.refuses
    }

    fn destinations(&mut self, _: &str, _: bool) -> Destinations {
        self.destinations.iter().copied().collect()
    }

    fn cut(&self, _: PartitionId) -> courser_contract::Cut {
        courser_contract::Cut(0)
    }

    fn home_partition(&self, _: &str) -> PartitionId {
        HOME
    }

    fn volatile_partition(&self) -> PartitionId {
        VOLATILE
    }

    fn send_home(&mut self, partition: PartitionId, message: ToHome) {
        let to = if partition == VOLATILE {
            "volatile".to_owned()
        } else {
            partition.0.to_string()
        };
        self.log.push(format!("{to}: {}", to_home(&message)));
    }

    fn close(&mut self, cause: CloseCause) {
        self.log.push(format!("close {cause:?}"));
    }

    fn dropped(&mut self, why: Dropped, messages: u64) {
        self.log.push(format!("dropped {why:?} {messages}"));
    }

    fn assigned_bits(&mut self) -> [u64; 2] {
        [(); 2].map(|()| {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005) + 1;
            self.random
        })
    }

    fn is_spent(&self) -> bool {
        let publishes = self.log.iter().filter(|line| line.starts_with("publish"));
        self.spent_after
            .is_some_and(|most| publishes.count() >= most)
    }
}

/// Its packet id, and the place of its first filter when others are before it.
fn part_name(part: RequestPart) -> String {
    match part.first {
        0 => part.packet_id.to_string(),
        first => format!("{} from {first}", part.packet_id),
    }
}

fn to_home(message: &ToHome) -> String {
    match message {
        ToHome::Attach(attach) => {
            let mut line = format!(
                "attach {:?} {} clean={} expiry={} max={}",
                attach.stage,
                attach.client_id,
                attach.clean_start,
                attach.expiry_seconds,
                attach.receive_maximum
            );
            if let Some(will) = &attach.will {
                let _ = write!(
                    line,
                    " will={} q{} retain={} delay={} expiry={:?} {:02x?} '{}'",
                    will.topic,
                    will.qos as u8,
                    will.retain,
                    will.delay_seconds,
                    will.expiry_seconds,
                    will.properties,
                    String::from_utf8_lossy(&will.payload)
                );
            }
            line
        }
        ToHome::Unclaim {
            client_id, epoch, ..
        } => format!("unclaim {client_id} epoch={}", epoch.0),
        ToHome::Subscribe {
            part,
            subscriptions,
            ..
        } => {
            let mut line = format!("subscribe {}", part_name(*part));
            for one in subscriptions {
                let share = one.share.as_ref().map(|share| format!(" share={share}"));
                let id = one.identifier.map(|id| format!(" id={id}"));
                let o = &one.options;
                let _ = write!(
                    line,
                    " [{} q{} nl={} rap={} {:?}{}{}]",
                    one.filter,
                    o.qos as u8,
                    o.no_local,
                    o.retain_as_published,
                    o.retain_handling,
                    share.unwrap_or_default(),
                    id.unwrap_or_default()
                );
            }
            line
        }
        ToHome::Unsubscribe { part, filters, .. } => {
            format!("unsubscribe {} {filters:?}", part_name(*part))
        }
        ToHome::PageTaken { .. } => "PageTaken".to_owned(),
        ToHome::Uptake { uptake, .. } => format!("uptake {uptake:?}"),
        ToHome::Outcome {
            first, last, kind, ..
        } => format!("outcome {}..={} {kind:?}", first.0, last.0),
        ToHome::Owned { owner, .. } => format!("owned {owner}"),
        ToHome::Named {
            group,
            seq,
            packet_id,
            ..
        } => format!("group {group} named {} {packet_id}", seq.0),
        ToHome::GroupRoom { group, room, .. } => format!("group {group} room {room:?}"),
        ToHome::GroupOutcome {
            group,
            first,
            last,
            kind,
            ..
        } => format!("group {group} outcome {}..={} {kind:?}", first.0, last.0),
        ToHome::PublishQos2 { publish, .. } => {
            let view = publish.record.view();
            format!(
                "publish_qos2 {} {} '{}' to {:?}{}",
                publish.packet_id,
                view.topic,
                String::from_utf8_lossy(view.payload),
                publish.destinations.iter().map(|p| p.0).collect::<Vec<_>>(),
                match publish.pubrec {
                    PubrecCan::Refuse => "",
                    PubrecCan::OnlyAccept => ", not to be refused",
                }
            )
        }
        ToHome::Release { packet_id, .. } => format!("release {packet_id}"),
        ToHome::Detach {
            cause,
            expiry_seconds,
            epoch,
            claim,
            ..
        } => {
            let claim = claim.as_deref();
            let claim = claim.map(|it| format!(" claim={}", it.client_id));
            format!(
                "detach {cause:?} expiry={expiry_seconds:?} epoch={}{}",
                epoch.0,
                claim.unwrap_or_default()
            )
        }
    }
}
