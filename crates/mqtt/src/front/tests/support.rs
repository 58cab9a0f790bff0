//! A front with a shell that records, a client that writes packets with the codec, and both sides as lines of text.

use std::collections::VecDeque;
use std::fmt::Write;
use std::rc::Rc;

use courser_contract::{
    Asked, Attached, CloseCause, DeliverFlags, DeliverTo, Delivery, Destinations, Dropped, Epoch,
    FrontEffects, FrontId, GroupRef, HomeRef, Now, PartitionId, Permission, Publish, PubrecCan,
    QoS, Record, RecordView, RequestPart, Routed, Seq, SessionUid, ShardId, Source, Tick, Ticket,
    ToFront, ToHome, WallMs,
};

use crate::codec::{
    self, Connect, Disconnect, Frame, MqttStr, PACKET_BYTES_MAX, Packet, PacketId, Properties,
    PropertiesBuilder, Property, PropertyScope, ProtocolVersion, Puback, Pubcomp, PublishTopic,
    Pubrec, Pubrel, ReasonCode, Receiver, Rules, Split, Subscribe, SubscriptionOptions,
    SubscriptionsBuilder, TopicAlias, TopicFilter, TopicFiltersBuilder, TopicName, Unsubscribe,
};
use crate::front::reasons::of_disconnect;
use crate::front::{Front, FrontConfig, OutputPool, Prepared, PreparedScratch};

pub(super) use ProtocolVersion::{V5, V311};

/// Where the slot of every client id is.
pub(super) const HOME: PartitionId = PartitionId(3);
/// The volatile partition of the front's shard.
pub(super) const VOLATILE: PartitionId = PartitionId::volatile_of(ShardId(0));
/// Home of a durable session.
pub(super) const DURABLE: HomeRef = HomeRef {
    partition: HOME,
    session: SessionUid(5),
};
/// Home of a clean session.
pub(super) const CLEAN: HomeRef = HomeRef {
    partition: VOLATILE,
    session: SessionUid(9),
};
pub(super) const GROUP: GroupRef = GroupRef {
    partition: PartitionId(4),
    group: 77,
};
const FRONT: FrontId = FrontId {
    shard: ShardId(0),
    slot: 1,
    generation: 1,
};

/// Records what the front asks for, as lines.
pub(super) struct Shell {
    pub(super) log: Vec<String>,
    /// Answers to the next publishes; then all are handed over.
    pub(super) routed: VecDeque<Routed>,
    pub(super) destinations: Vec<PartitionId>,
    /// What the client has no right to, as `publish TOPIC`, `receive TOPIC`, `subscribe FILTER`, `share FILTER`.
    pub(super) denied: Vec<String>,
    /// After so many publishes the turn's work is done; none: never.
    pub(super) spent_after: Option<usize>,
    random: u64,
}

impl FrontEffects for Shell {
    fn may(&mut self, asked: Asked<'_>) -> Permission {
        let (right, topic) = match asked {
            Asked::Publish(topic) => ("publish", topic),
            Asked::Receive(topic) => ("receive", topic),
            Asked::Subscribe(filter) => ("subscribe", filter),
            Asked::SubscribeShared(filter) => ("share", filter),
        };
        if self.denied.contains(&format!("{right} {topic}")) {
            Permission::Denied
        } else {
            Permission::Granted
        }
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

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005) + 1;
        self.random
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
            ..
        } => format!(
            "detach {cause:?} expiry={expiry_seconds:?} epoch={}",
            epoch.0
        ),
    }
}

/// A front and the client at its other end.
pub(super) struct Client {
    pub(super) front: Front,
    pub(super) shell: Shell,
    pub(super) now: Now,
    pub(super) version: ProtocolVersion,
    /// Bytes that the front did not take yet.
    pub(super) rest: Vec<u8>,
}

/// What a CONNECT says; the rest is usual.
pub(super) struct Hello<'a> {
    pub(super) client_id: &'a str,
    pub(super) clean_start: bool,
    pub(super) keep_alive_seconds: u16,
    pub(super) properties: &'a [Property<'a>],
    pub(super) will: Option<codec::Will<'a>>,
}

impl Default for Hello<'_> {
    fn default() -> Self {
        Self {
            client_id: "c",
            clean_start: true,
            keep_alive_seconds: 0,
            properties: &[],
            will: None,
        }
    }
}

impl Client {
    pub(super) fn new(version: ProtocolVersion, set: impl FnOnce(&mut FrontConfig)) -> Self {
        let mut config = FrontConfig::new(OutputPool::new(1 << 20));
        set(&mut config);
        let now = Now {
            tick: Tick(1_000_000),
            wall: WallMs(50_000_000),
        };
        Self {
            front: Front::new(FRONT, Rc::new(config), now),
            shell: Shell {
                log: Vec::new(),
                routed: VecDeque::new(),
                destinations: vec![HOME],
                denied: Vec::new(),
                spent_after: None,
                random: 1,
            },
            now,
            version,
            rest: Vec::new(),
        }
    }

    /// Attached to a clean session, in the volatile partition.
    pub(super) fn attached(version: ProtocolVersion) -> Self {
        Self::attached_with(version, |_| {}, &Hello::default())
    }

    pub(super) fn attached_with(
        version: ProtocolVersion,
        set: impl FnOnce(&mut FrontConfig),
        hello: &Hello<'_>,
    ) -> Self {
        let mut client = Self::new(version, set);
        client.connects(hello);
        client.told(ToFront::Claimed { epoch: Epoch(7) });
        client.told(attached(CLEAN, 7, false));
        client.effects();
        assert!(client.hears()[0].starts_with("CONNACK 0x00"));
        client
    }

    /// Attached to a durable session.
    pub(super) fn durable(version: ProtocolVersion) -> Self {
        Self::durable_with(version, |_| {})
    }

    pub(super) fn durable_with(
        version: ProtocolVersion,
        set: impl FnOnce(&mut FrontConfig),
    ) -> Self {
        let mut client = Self::new(version, set);
        let expiry = [Property::SessionExpiryInterval(100)];
        client.connects(&Hello {
            clean_start: false,
            properties: if version == V5 { &expiry } else { &[] },
            ..Hello::default()
        });
        client.told(attached(DURABLE, 2, true));
        client.effects();
        client.hears();
        client
    }

    pub(super) fn connects(&mut self, hello: &Hello<'_>) {
        let properties = block(PropertyScope::Connect, hello.properties);
        self.says(&Packet::Connect(Connect {
            version: self.version,
            clean_start: hello.clean_start,
            keep_alive_seconds: hello.keep_alive_seconds,
            properties: properties.properties(),
            client_id: MqttStr::new(hello.client_id).unwrap(),
            will: hello.will,
            user_name: None,
            password: None,
        }));
    }

    pub(super) fn says(&mut self, packet: &Packet<'_>) {
        let bytes = self.encoded(packet);
        self.gives(&bytes);
    }

    pub(super) fn encoded(&self, packet: &Packet<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        packet
            .encode(&Receiver::new(self.version), &mut bytes)
            .unwrap();
        bytes
    }

    /// One read of the socket.
    pub(super) fn gives(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let taken = self
            .front
            .handle_bytes(self.now, &self.rest, &mut self.shell);
        self.rest.drain(..taken);
        self.front.handle_read_end(self.now, &mut self.shell);
        self.front.check();
    }

    pub(super) fn told(&mut self, message: ToFront) {
        self.front
            .handle_message(self.now, message, &mut self.shell);
        self.front.check();
        if self.front.wants_read() && !self.rest.is_empty() {
            self.gives(&[]);
        }
    }

    /// Time passes, timers fire when they are due.
    pub(super) fn passes(&mut self, ms: u64) {
        let end = self.now.tick.after_ms(ms);
        while let Some(at) = self.front.poll_timeout().filter(|&at| at <= end) {
            self.set_tick(at.max(self.now.tick));
            self.front.handle_timeout(self.now, &mut self.shell);
            self.front.check();
        }
        self.set_tick(end);
    }

    fn set_tick(&mut self, tick: Tick) {
        self.now.wall.0 += tick.0 - self.now.tick.0;
        self.now.tick = tick;
    }

    /// What the shell was asked for since the last call.
    pub(super) fn effects(&mut self) -> Vec<String> {
        std::mem::take(&mut self.shell.log)
    }

    /// Raw bytes that the client received since the last call.
    pub(super) fn receives(&mut self) -> Vec<u8> {
        let output = self.front.output();
        let bytes: Vec<u8> = output.slices().flatten().copied().collect();
        assert_eq!(bytes.len(), output.len());
        output.advance(bytes.len());
        self.front.check();
        bytes
    }

    /// The packets that the client received since the last call.
    pub(super) fn hears(&mut self) -> Vec<String> {
        lines(&self.receives(), self.version)
    }

    pub(super) fn publishes(&mut self, topic: &str, qos: u8, id: u16) {
        let packet = publish(topic, qos, id);
        self.says(&Packet::Publish(packet));
    }

    pub(super) fn pubacks(&mut self, id: u16) {
        self.says(&Packet::Puback(Puback::new(packet_id(id))));
    }

    pub(super) fn pubrecs(&mut self, id: u16) {
        self.says(&Packet::Pubrec(Pubrec::new(packet_id(id))));
    }

    pub(super) fn pubrels(&mut self, id: u16) {
        self.says(&Packet::Pubrel(Pubrel::new(packet_id(id))));
    }

    pub(super) fn pubcomps(&mut self, id: u16) {
        self.says(&Packet::Pubcomp(Pubcomp::new(packet_id(id))));
    }

    pub(super) fn disconnects(&mut self, reason: ReasonCode, properties: &[Property<'_>]) {
        let properties = block(PropertyScope::Disconnect, properties);
        self.says(&Packet::Disconnect(Disconnect {
            reason,
            properties: properties.properties(),
        }));
    }

    pub(super) fn subscribes(
        &mut self,
        id: u16,
        properties: &[Property<'_>],
        filters: &[(&str, SubscriptionOptions)],
    ) {
        let properties = block(PropertyScope::Subscribe, properties);
        let mut builder = SubscriptionsBuilder::new();
        for &(filter, options) in filters {
            builder.push(TopicFilter::new(filter).unwrap(), options);
        }
        self.says(&Packet::Subscribe(Subscribe {
            packet_id: packet_id(id),
            properties: properties.properties(),
            subscriptions: builder.subscriptions(),
        }));
    }

    pub(super) fn unsubscribes(&mut self, id: u16, filters: &[&str]) {
        let mut builder = TopicFiltersBuilder::new();
        for filter in filters {
            builder.push(TopicFilter::new(filter).unwrap());
        }
        self.says(&Packet::Unsubscribe(Unsubscribe {
            packet_id: packet_id(id),
            properties: Properties::EMPTY,
            filters: builder.filters(),
        }));
    }

    /// A routed QoS 0 message.
    pub(super) fn gets(&mut self, view: RecordView<'_>, to: &DeliverTo) {
        let mut scratch = PreparedScratch::default();
        let delivery = Delivery {
            view: &view,
            record: None,
        };
        let mut prepared = Prepared::new(&delivery, self.now, &mut scratch);
        self.front
            .deliver(self.now, &mut prepared, to, &mut self.shell);
        self.front.check();
    }

    /// A stored message.
    pub(super) fn gets_stored(&mut self, view: RecordView<'_>, to: &DeliverTo) {
        let record = Record::copy_of(&view);
        let mut scratch = PreparedScratch::default();
        let delivery = Delivery {
            view: &record.view(),
            record: Some(record.as_ref()),
        };
        let mut prepared = Prepared::new(&delivery, self.now, &mut scratch);
        self.front
            .deliver(self.now, &mut prepared, to, &mut self.shell);
        self.front.check();
    }

    /// QoS 1 messages `first..=last` of the session's stream, with their number as payload.
    pub(super) fn gets_run(&mut self, first: u64, last: u64) {
        for seq in first..=last {
            let payload = seq.to_string();
            let message = view("t", QoS::AtLeastOnce, payload.as_bytes());
            self.gets_stored(message, &to_session(seq, QoS::AtLeastOnce));
        }
    }
}

pub(super) fn attached(home: HomeRef, epoch: u64, present: bool) -> ToFront {
    ToFront::Attached(Attached {
        home,
        epoch: Epoch(epoch),
        present,
        next: Seq(0),
        groups: Vec::new(),
    })
}

pub(super) fn packet_id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}

pub(super) fn block(scope: PropertyScope, properties: &[Property<'_>]) -> PropertiesBuilder {
    let mut builder = PropertiesBuilder::new(scope);
    for &property in properties {
        builder.push(property).unwrap();
    }
    builder
}

pub(super) fn publish(topic: &str, qos: u8, id: u16) -> codec::Publish<'_> {
    let mut packet = codec::Publish::new(TopicName::new(topic).unwrap(), b"x");
    packet.delivery = match qos {
        0 => codec::Delivery::AtMostOnce,
        1 => codec::Delivery::AtLeastOnce {
            packet_id: packet_id(id),
            dup: false,
        },
        _ => codec::Delivery::ExactlyOnce {
            packet_id: packet_id(id),
            dup: false,
        },
    };
    packet
}

pub(super) fn aliased(topic: Option<&str>, alias: u16) -> PublishTopic<'_> {
    let alias = TopicAlias::new(alias).unwrap();
    match topic {
        Some(topic) => PublishTopic::NameAndAlias(TopicName::new(topic).unwrap(), alias),
        None => PublishTopic::Alias(alias),
    }
}

pub(super) fn view<'a>(topic: &'a str, qos: QoS, payload: &'a [u8]) -> RecordView<'a> {
    RecordView {
        topic,
        properties: &[],
        payload,
        qos,
        retain: false,
        expires_at: None,
        publisher: None,
        author: None,
    }
}

pub(super) fn to_front(qos: QoS) -> DeliverTo {
    DeliverTo {
        front: FRONT,
        source: None,
        packet_id: None,
        qos,
        flags: DeliverFlags::default(),
        identifiers: None,
    }
}

pub(super) fn to_session(seq: u64, qos: QoS) -> DeliverTo {
    DeliverTo {
        source: Some((Source::Session, Seq(seq))),
        ..to_front(qos)
    }
}

pub(super) fn to_group(seq: u64, qos: QoS) -> DeliverTo {
    DeliverTo {
        source: Some((Source::Group(GROUP), Seq(seq))),
        ..to_front(qos)
    }
}

/// Whole packets of a server, one a line.
pub(super) fn lines(bytes: &[u8], version: ProtocolVersion) -> Vec<String> {
    each(bytes, version, line)
}

/// What `say` makes of each whole packet of a server.
fn each<T>(mut bytes: &[u8], version: ProtocolVersion, say: impl Fn(&Packet<'_>) -> T) -> Vec<T> {
    let mut said = Vec::new();
    while !bytes.is_empty() {
        let Split::Whole(frame) = Frame::split(bytes, PACKET_BYTES_MAX).unwrap() else {
            panic!("the server sends whole packets, here {bytes:02x?}");
        };
        let rules = Rules::from_server(version).with_limits(codec::Limits::STANDARD);
        said.push(say(&Packet::decode(&frame, &rules).unwrap()));
        bytes = &bytes[frame.len()..];
    }
    said
}

fn line(packet: &Packet<'_>) -> String {
    match packet {
        Packet::Connack(connack) => with_properties(
            format!(
                "CONNACK 0x{:02X}{}",
                connack.reason.byte(),
                if connack.session_present {
                    " present"
                } else {
                    ""
                }
            ),
            &connack.properties,
        ),
        Packet::Publish(publish) => publish_line(publish),
        Packet::Puback(ack) => ack_line("PUBACK", ack.packet_id, ack.reason),
        Packet::Pubrec(ack) => ack_line("PUBREC", ack.packet_id, ack.reason),
        Packet::Pubrel(ack) => ack_line("PUBREL", ack.packet_id, ack.reason),
        Packet::Pubcomp(ack) => ack_line("PUBCOMP", ack.packet_id, ack.reason),
        Packet::Suback(ack) => codes_line("SUBACK", ack.packet_id, ack.codes.iter()),
        Packet::Unsuback(ack) => codes_line("UNSUBACK", ack.packet_id, ack.codes.iter()),
        Packet::Pingresp(_) => "PINGRESP".to_owned(),
        Packet::Disconnect(disconnect) => with_properties(
            format!("DISCONNECT 0x{:02X}", disconnect.reason.byte()),
            &disconnect.properties,
        ),
        Packet::Auth(auth) => {
            let properties = &auth.properties;
            format!(
                "AUTH 0x{:02X} {} '{}'",
                auth.reason.byte(),
                properties.authentication_method().unwrap_or_default(),
                properties
                    .authentication_data()
                    .map_or(String::new(), |data| {
                        String::from_utf8_lossy(data.reveal()).into_owned()
                    })
            )
        }
        other => panic!("a server does not send {other:?}"),
    }
}

/// What each packet of a server says in words besides its code, as far as it has room for that.
pub(super) fn texts(bytes: &[u8], version: ProtocolVersion) -> Vec<Option<String>> {
    each(bytes, version, |packet| {
        let properties = match packet {
            Packet::Connack(connack) => &connack.properties,
            Packet::Puback(ack) => &ack.properties,
            Packet::Pubrec(ack) => &ack.properties,
            Packet::Suback(ack) => &ack.properties,
            Packet::Unsuback(ack) => &ack.properties,
            Packet::Disconnect(disconnect) => &disconnect.properties,
            other => panic!("{other:?} refuses nothing"),
        };
        let text = properties.reason_string();
        text.map(|text| text.as_str().to_owned())
    })
}

/// Without the Reason String of a refusal, see [`texts`], or one that says what the reason says anyway.
fn with_properties(mut line: String, properties: &Properties<'_>) -> String {
    let is_connack = line.starts_with("CONNACK");
    let is_usual = |text: &str| {
        let mut all = ReasonCode::ALL.iter();
        all.any(|reason| of_disconnect(*reason) == text)
    };
    let said = |it: &Property<'_>| match it {
        Property::ReasonString(text) => !is_connack && !is_usual(text.as_str()),
        _ => true,
    };
    for property in properties.iter().filter(said) {
        let _ = write!(line, " {property:?}");
    }
    line
}

fn ack_line(name: &str, id: PacketId, reason: ReasonCode) -> String {
    match reason {
        ReasonCode::Success => format!("{name} {id}"),
        _ => format!("{name} {id} 0x{:02X}", reason.byte()),
    }
}

fn codes_line(name: &str, id: PacketId, codes: impl Iterator<Item = ReasonCode>) -> String {
    let codes: Vec<String> = codes.map(|code| format!("{:02X}", code.byte())).collect();
    format!("{name} {id} {}", codes.join(" "))
        .trim_end()
        .to_owned()
}

fn publish_line(publish: &codec::Publish<'_>) -> String {
    let mut line = format!(
        "PUBLISH {:?}",
        publish.topic.name().map_or("", |n| n.as_str())
    );
    if let Some(alias) = publish.topic.alias() {
        let _ = write!(line, " alias={}", alias.get());
    }
    let _ = write!(line, " q{}", publish.delivery.qos().number());
    if let Some(id) = publish.delivery.packet_id() {
        let _ = write!(line, " id={id}");
    }
    if publish.delivery.dup() {
        line.push_str(" dup");
    }
    if publish.retain {
        line.push_str(" retain");
    }
    if let Some(seconds) = publish.message_expiry_interval {
        let _ = write!(line, " expiry={seconds}");
    }
    for id in publish.subscription_ids.iter() {
        let _ = write!(line, " sub={}", id.get());
    }
    for property in publish.passthrough.iter() {
        let _ = write!(line, " {property:?}");
    }
    let _ = match publish.payload.len() {
        0..=32 => write!(line, " '{}'", String::from_utf8_lossy(publish.payload)),
        len => write!(line, " {len} bytes"),
    };
    line
}
