//! A client that writes packets with the codec to a front, and gets what comes back.

use std::rc::Rc;

use courser_contract::{
    DeliverTo, Delivery, Epoch, Now, QoS, Record, RecordView, Tick, ToFront, WallMs,
};

use super::shell::Shell;
use super::{
    CLEAN, DURABLE, FRONT, V5, attached, block, lines, packet_id, publish, to_session, view,
};
use crate::codec::{
    self, Connect, Disconnect, MqttStr, Packet, Properties, Property, PropertyScope,
    ProtocolVersion, Puback, Pubcomp, Pubrec, Pubrel, ReasonCode, Receiver, Subscribe,
    SubscriptionOptions, SubscriptionsBuilder, TopicFilter, TopicFiltersBuilder, Unsubscribe,
};
use crate::front::{Front, FrontConfig, OutputPool, Prepared, PreparedScratch};

/// A front and the client at its other end.
pub(in crate::front::tests) struct Client {
    pub(in crate::front::tests) front: Front,
    pub(in crate::front::tests) shell: Shell,
    pub(in crate::front::tests) now: Now,
    pub(in crate::front::tests) version: ProtocolVersion,
    /// Bytes that the front did not take yet.
    pub(in crate::front::tests) rest: Vec<u8>,
}

/// What a CONNECT says; the rest is usual.
pub(in crate::front::tests) struct Hello<'a> {
    pub(in crate::front::tests) client_id: &'a str,
    pub(in crate::front::tests) clean_start: bool,
    pub(in crate::front::tests) keep_alive_seconds: u16,
    pub(in crate::front::tests) properties: &'a [Property<'a>],
    pub(in crate::front::tests) will: Option<codec::Will<'a>>,
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
    pub(in crate::front::tests) fn new(
        version: ProtocolVersion,
        set: impl FnOnce(&mut FrontConfig),
    ) -> Self {
        let mut config = FrontConfig::new(OutputPool::new(1 << 20));
        set(&mut config);
        let now = Now {
            tick: Tick(1_000_000),
            wall: WallMs(50_000_000),
        };
        Self {
            front: Front::new(FRONT, Rc::new(config), now),
            shell: Shell::new(),
            now,
            version,
            rest: Vec::new(),
        }
    }

    /// Attached to a clean session, in the volatile partition.
    pub(in crate::front::tests) fn attached(version: ProtocolVersion) -> Self {
        Self::attached_with(version, |_| {}, &Hello::default())
    }

    pub(in crate::front::tests) fn attached_with(
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
    pub(in crate::front::tests) fn durable(version: ProtocolVersion) -> Self {
        Self::durable_with(version, |_| {})
    }

    pub(in crate::front::tests) fn durable_with(
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

    pub(in crate::front::tests) fn connects(&mut self, hello: &Hello<'_>) {
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

    pub(in crate::front::tests) fn says(&mut self, packet: &Packet<'_>) {
        let bytes = self.encoded(packet);
        self.gives(&bytes);
    }

    pub(in crate::front::tests) fn encoded(&self, packet: &Packet<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        packet
            .encode(&Receiver::new(self.version), &mut bytes)
            .unwrap();
        bytes
    }

    /// One read of the socket.
    pub(in crate::front::tests) fn gives(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let taken = self
            .front
            .handle_bytes(self.now, &self.rest, &mut self.shell);
        self.rest.drain(..taken);
        self.front.handle_read_end(self.now, &mut self.shell);
        self.front.check();
    }

    pub(in crate::front::tests) fn told(&mut self, message: ToFront) {
        self.front
            .handle_message(self.now, message, &mut self.shell);
        self.front.check();
        if self.front.wants_read() && !self.rest.is_empty() {
            self.gives(&[]);
        }
    }

    /// Time passes, timers fire when they are due.
    pub(in crate::front::tests) fn passes(&mut self, ms: u64) {
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
    pub(in crate::front::tests) fn effects(&mut self) -> Vec<String> {
        std::mem::take(&mut self.shell.log)
    }

    /// Raw bytes that the client received since the last call.
    pub(in crate::front::tests) fn receives(&mut self) -> Vec<u8> {
        let output = self.front.output();
        let bytes: Vec<u8> = output.slices().flatten().copied().collect();
        assert_eq!(bytes.len(), output.len());
        output.advance(bytes.len());
        self.front.check();
        bytes
    }

    /// The packets that the client received since the last call.
    pub(in crate::front::tests) fn hears(&mut self) -> Vec<String> {
        lines(&self.receives(), self.version)
    }

    pub(in crate::front::tests) fn publishes(&mut self, topic: &str, qos: u8, id: u16) {
        let packet = publish(topic, qos, id);
        self.says(&Packet::Publish(packet));
    }

    pub(in crate::front::tests) fn pubacks(&mut self, id: u16) {
        self.says(&Packet::Puback(Puback::new(packet_id(id))));
    }

    pub(in crate::front::tests) fn pubrecs(&mut self, id: u16) {
        self.says(&Packet::Pubrec(Pubrec::new(packet_id(id))));
    }

    pub(in crate::front::tests) fn pubrels(&mut self, id: u16) {
        self.says(&Packet::Pubrel(Pubrel::new(packet_id(id))));
    }

    pub(in crate::front::tests) fn pubcomps(&mut self, id: u16) {
        self.says(&Packet::Pubcomp(Pubcomp::new(packet_id(id))));
    }

    pub(in crate::front::tests) fn disconnects(
        &mut self,
        reason: ReasonCode,
        properties: &[Property<'_>],
    ) {
        let properties = block(PropertyScope::Disconnect, properties);
        self.says(&Packet::Disconnect(Disconnect {
            reason,
            properties: properties.properties(),
        }));
    }

    pub(in crate::front::tests) fn subscribes(
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

    pub(in crate::front::tests) fn unsubscribes(&mut self, id: u16, filters: &[&str]) {
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
    pub(in crate::front::tests) fn gets(&mut self, view: RecordView<'_>, to: &DeliverTo) {
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
    pub(in crate::front::tests) fn gets_stored(&mut self, view: RecordView<'_>, to: &DeliverTo) {
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
    pub(in crate::front::tests) fn gets_run(&mut self, first: u64, last: u64) {
        for seq in first..=last {
            let payload = seq.to_string();
            let message = view("t", QoS::AtLeastOnce, payload.as_bytes());
            self.gets_stored(message, &to_session(seq, QoS::AtLeastOnce));
        }
    }
}
