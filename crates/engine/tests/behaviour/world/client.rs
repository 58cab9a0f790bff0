//! A client with its front: what a protocol crate does, as far as partitions can tell.

use std::collections::{BTreeSet, VecDeque};

use compact_str::CompactString;
use courser_contract::{
    Attach, AttachStage, Attached, ClientHash, ConnectRefusal, DeliverTo, Delivery, DetachCause,
    Epoch, FrontId, GroupRef, GroupRoom, HeldClaim, HomeRef, OutcomeKind, PartitionId, QoS,
    RequestPart, Seq, SessionLimits, Source, SubscribeResult, Subscription, ToFront, ToHome,
    WallMs, Will,
};

use super::{DURABLE, VOLATILE};

/// What a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) qos: QoS,
    pub(crate) source: Option<(Source, Seq)>,
    pub(crate) packet_id: Option<u16>,
    pub(crate) retain: bool,
    pub(crate) duplicate: bool,
    pub(crate) shared: bool,
    pub(crate) identifiers: Vec<u32>,
    pub(crate) expires_at: Option<WallMs>,
}

impl Got {
    pub(crate) fn of(delivery: &Delivery<'_>, to: &DeliverTo) -> Self {
        Self {
            topic: delivery.view.topic.into(),
            payload: String::from_utf8_lossy(delivery.view.payload).into(),
            qos: to.qos,
            source: to.source,
            packet_id: to.packet_id,
            retain: to.flags.retain,
            duplicate: to.flags.duplicate,
            shared: to.flags.shared,
            identifiers: to.identifiers.as_deref().unwrap_or_default().to_vec(),
            expires_at: delivery.view.expires_at,
        }
    }
}

/// How a client connects.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) clean_start: bool,
    pub(crate) expiry_seconds: u32,
    pub(crate) receive_maximum: u16,
    pub(crate) delivery_bytes_max: u32,
    pub(crate) will: Option<Will>,
    /// The user that has logged in.
    pub(crate) owner: Option<Box<str>>,
    /// Of the user.
    pub(crate) limits: SessionLimits,
    /// Sessions that the user may keep.
    pub(crate) user_sessions_max: u32,
    /// Where its client id is.
    pub(crate) place: PartitionId,
}

impl Options {
    /// A durable session that is taken up.
    pub(crate) fn durable() -> Self {
        Self {
            clean_start: false,
            expiry_seconds: 3_600,
            receive_maximum: 10,
            delivery_bytes_max: u32::MAX,
            will: None,
            owner: None,
            limits: SessionLimits::NONE,
            user_sessions_max: u32::MAX,
            place: DURABLE,
        }
    }

    /// A durable session of a user.
    pub(crate) fn of(owner: &str) -> Self {
        Self {
            owner: Some(owner.into()),
            ..Self::durable()
        }
    }

    /// A session that outlives its connection and not the process (M1).
    pub(crate) fn volatile() -> Self {
        Self {
            place: VOLATILE,
            ..Self::durable()
        }
    }

    /// A session that ends with its connection.
    pub(crate) fn clean() -> Self {
        Self {
            clean_start: true,
            expiry_seconds: 0,
            ..Self::durable()
        }
    }
}

/// Acknowledgements of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acks {
    /// At once.
    Auto,
    /// When the test says so.
    Held,
}

pub(crate) struct Client {
    pub(crate) name: CompactString,
    pub(crate) front: Option<FrontId>,
    pub(crate) home: Option<HomeRef>,
    pub(crate) epoch: Epoch,
    pub(crate) claim: Option<Epoch>,
    pub(crate) attached: Option<Attached>,
    pub(crate) refused: Option<ConnectRefusal>,
    pub(crate) taken_over: bool,
    pub(crate) acks: Acks,
    pub(crate) got: Vec<Got>,
    /// Deliveries without an outcome.
    pub(crate) waiting: VecDeque<Got>,
    /// QoS 2 deliveries that were taken and not released, as a client keeps them over connections.
    pub(crate) held: BTreeSet<(Source, Seq)>,
    /// What an application gets: QoS 2 once, the others as they come.
    pub(crate) taken: Vec<Got>,
    pub(crate) released: Vec<(Source, Seq)>,
    pub(crate) suback: Vec<(u16, Vec<SubscribeResult>)>,
    pub(crate) unsuback: Vec<(u16, Vec<bool>)>,
    pub(crate) pubrec: Vec<(u16, courser_contract::Settled, bool)>,
    pub(crate) pubcomp: Vec<(u16, bool)>,
    pub(crate) next_packet_id: u16,
    next_group_id: u16,
    /// Names no packet ids.
    pub(crate) silent: bool,
    /// Its home waits with more retained messages of QoS 0.
    pub(crate) page_untaken: bool,
    /// Groups that have said what they owe.
    pub(crate) owed: Vec<GroupRef>,
    /// What groups could not send again, with packet ids.
    pub(crate) withheld: Vec<(Seq, u16)>,
    /// What groups that it has left do not want packet ids for any more.
    pub(crate) void: Vec<(GroupRef, Option<Seq>)>,
    /// Partitions named as open when the front lets go.
    pub(crate) open: Vec<PartitionId>,
    attach: Option<Box<Attach>>,
}

impl Client {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            front: None,
            home: None,
            epoch: Epoch(0),
            claim: None,
            attached: None,
            refused: None,
            taken_over: false,
            acks: Acks::Auto,
            got: Vec::new(),
            waiting: VecDeque::new(),
            held: BTreeSet::new(),
            taken: Vec::new(),
            released: Vec::new(),
            suback: Vec::new(),
            unsuback: Vec::new(),
            pubrec: Vec::new(),
            pubcomp: Vec::new(),
            next_packet_id: 0,
            next_group_id: 0,
            silent: false,
            page_untaken: false,
            owed: Vec::new(),
            withheld: Vec::new(),
            void: Vec::new(),
            open: Vec::new(),
            attach: None,
        }
    }

    pub(crate) fn connect(&mut self, front: FrontId, options: Options) -> Box<Attach> {
        self.lost();
        self.front = Some(front);
        self.refused = None;
        self.taken_over = false;
        let attach = Box::new(Attach {
            front,
            client_id: self.name.clone(),
            publisher: self.hash(),
            stage: AttachStage::Claim,
            clean_start: options.clean_start,
            expiry_seconds: options.expiry_seconds,
            receive_maximum: options.receive_maximum,
            delivery_bytes_max: options.delivery_bytes_max,
            will: options.will.map(Box::new),
            owner: options.owner,
            limits: options.limits,
            user_sessions_max: options.user_sessions_max,
        });
        self.attach = Some(attach.clone());
        attach
    }

    /// What its messages carry of it.
    pub(crate) fn hash(&self) -> ClientHash {
        ClientHash::of(&self.name)
    }

    /// The front is gone without a word.
    pub(crate) fn lost(&mut self) {
        self.front = None;
        self.home = None;
        self.claim = None;
        self.attached = None;
        self.waiting.clear();
    }

    /// What the front says when a message reaches it.
    pub(crate) fn handle(&mut self, message: ToFront) -> Vec<(PartitionId, ToHome)> {
        match message {
            ToFront::Attached(attached) => {
                self.home = Some(attached.home);
                self.epoch = attached.epoch;
                if !attached.present {
                    self.held.clear();
                }
                self.attached = Some(attached);
                Vec::new()
            }
            ToFront::Claimed { epoch } => {
                self.claim = Some(epoch);
                let mut attach = self.attach.clone().expect("it has asked");
                attach.stage = AttachStage::Open(epoch);
                vec![(VOLATILE, ToHome::Attach(attach))]
            }
            ToFront::ConnectRefused(why) => {
                self.refused = Some(why);
                self.lost();
                Vec::new()
            }
            ToFront::TakenOver => {
                self.taken_over = true;
                self.detach(DetachCause::TakenOver)
            }
            ToFront::Closed(_) => {
                let messages = self.detach(DetachCause::Lost);
                self.lost();
                messages
            }
            ToFront::Subscribed { part, results } => {
                self.suback.push((part.packet_id, results));
                Vec::new()
            }
            ToFront::Unsubscribed { part, existed } => {
                self.unsuback.push((part.packet_id, existed));
                Vec::new()
            }
            ToFront::Received {
                packet_id,
                result,
                matched,
            } => {
                self.pubrec.push((packet_id, result, matched));
                Vec::new()
            }
            ToFront::Released { packet_id, existed } => {
                self.pubcomp.push((packet_id, existed));
                Vec::new()
            }
            ToFront::Name { .. } if self.silent => Vec::new(),
            ToFront::Name { group, seq } => {
                self.next_group_id = self.next_group_id.wrapping_add(1) % 32_768;
                let named = ToHome::Named {
                    group: group.group,
                    member: self.home.expect("it is connected"),
                    front: self.front.expect("it is connected"),
                    seq,
                    packet_id: 32_768 + self.next_group_id,
                };
                vec![(group.partition, named)]
            }
            ToFront::Owed { group, .. } => {
                self.owed.push(group);
                Vec::new()
            }
            ToFront::Withheld { seq, packet_id, .. } => {
                self.withheld.push((seq, packet_id));
                Vec::new()
            }
            ToFront::Void { group, seq } => {
                self.void.push((group, seq));
                Vec::new()
            }
            ToFront::RetainedPage => {
                self.page_untaken = true;
                match self.acks {
                    Acks::Auto => self.take_page(),
                    Acks::Held => Vec::new(),
                }
            }
            ToFront::NothingOwed { .. } | ToFront::Finished { .. } => Vec::new(),
            ToFront::Release { source, seq, .. } => {
                self.held.remove(&(source, seq));
                self.released.push((source, seq));
                vec![self.outcome(source, seq, OutcomeKind::Done)]
            }
        }
    }

    /// The client has read what its home waits for.
    pub(crate) fn take_page(&mut self) -> Vec<(PartitionId, ToHome)> {
        if !std::mem::take(&mut self.page_untaken) {
            return Vec::new();
        }
        let home = self.home.expect("it is connected");
        let session = home.session;
        let epoch = self.epoch;
        vec![(home.partition, ToHome::PageTaken { session, epoch })]
    }

    /// A delivery reaches the client.
    pub(crate) fn take(&mut self, got: Got) -> Vec<(PartitionId, ToHome)> {
        self.got.push(got.clone());
        let new = match got.source {
            Some(source) if got.qos == QoS::ExactlyOnce => self.held.insert(source),
            Some(_) | None => true,
        };
        if new {
            self.taken.push(got.clone());
        }
        if got.source.is_none() {
            return Vec::new();
        }
        self.waiting.push_back(got);
        match self.acks {
            Acks::Auto => self.ack(1),
            Acks::Held => Vec::new(),
        }
    }

    /// PUBACK or PUBREC for the next deliveries.
    pub(crate) fn ack(&mut self, count: usize) -> Vec<(PartitionId, ToHome)> {
        let mut messages = Vec::new();
        for _ in 0..count {
            let Some(got) = self.waiting.pop_front() else {
                break;
            };
            let (source, seq) = got.source.expect("it wants an acknowledgement");
            let kind = match got.qos {
                QoS::AtMostOnce | QoS::AtLeastOnce => OutcomeKind::Done,
                QoS::ExactlyOnce => OutcomeKind::Received,
            };
            messages.push(self.outcome(source, seq, kind));
        }
        messages
    }

    /// Gives back what groups have given.
    pub(crate) fn give_back(&mut self) -> Vec<(PartitionId, ToHome)> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let sources = waiting.map(|got| got.source.expect("it wants an acknowledgement"));
        sources
            .map(|(source, seq)| self.outcome(source, seq, OutcomeKind::Returned))
            .collect()
    }

    /// Says to groups that it has room again.
    pub(crate) fn makes_room(&self) -> Vec<(PartitionId, ToHome)> {
        let member = self.home.expect("it is connected");
        let front = self.front.expect("it is connected");
        let rooms = self.owed.iter().map(|group| {
            let message = ToHome::GroupRoom {
                group: group.group,
                member,
                front,
                room: GroupRoom::Enough,
            };
            (group.partition, message)
        });
        rooms.collect()
    }

    pub(crate) fn outcome(
        &self,
        source: Source,
        seq: Seq,
        kind: OutcomeKind,
    ) -> (PartitionId, ToHome) {
        let home = self.home.expect("it is connected");
        match source {
            Source::Session => {
                let message = ToHome::Outcome {
                    session: home.session,
                    epoch: self.epoch,
                    first: seq,
                    last: seq,
                    kind,
                };
                (home.partition, message)
            }
            Source::Group(group) => {
                let message = ToHome::GroupOutcome {
                    group: group.group,
                    member: home,
                    front: self.front.expect("it is connected"),
                    first: seq,
                    last: seq,
                    kind,
                };
                (group.partition, message)
            }
        }
    }

    pub(crate) fn subscribe(&mut self, subscriptions: Vec<Subscription>) -> (PartitionId, ToHome) {
        let home = self.home.expect("it is connected");
        self.next_packet_id += 1;
        let message = ToHome::Subscribe {
            session: home.session,
            epoch: self.epoch,
            part: RequestPart::whole(self.next_packet_id),
            subscriptions,
        };
        (home.partition, message)
    }

    /// What the front says when it lets go.
    pub(crate) fn detach(&mut self, cause: DetachCause) -> Vec<(PartitionId, ToHome)> {
        let mut messages = Vec::new();
        let claim = self.claim.take();
        if let Some(home) = self.home {
            let message = ToHome::Detach {
                session: home.session,
                epoch: self.epoch,
                cause,
                expiry_seconds: None,
                open: self.open.clone(),
                claim: claim.map(|_| {
                    Box::new(HeldClaim {
                        partition: DURABLE,
                        client_id: self.name.clone(),
                    })
                }),
            };
            messages.push((home.partition, message));
        } else if let Some(epoch) = claim {
            let message = ToHome::Unclaim {
                client_id: self.name.clone(),
                epoch,
                open: self.open.clone(),
            };
            messages.push((DURABLE, message));
        }
        self.lost();
        messages
    }
}
