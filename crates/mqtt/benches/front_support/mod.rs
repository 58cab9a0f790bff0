//! Turns of a front as a shard makes them, with a shell that does nothing: for the bench and for the test of allocations.

use std::rc::Rc;

use courser_contract::{
    Asked, Attached, CloseCause, DeliverFlags, DeliverTo, Delivery, Destinations, Dropped, Epoch,
    FrontEffects, FrontId, HomeRef, Now, PartitionId, Permission, Publish, QoS, Record, RecordView,
    Routed, Seq, SessionUid, ShardId, Source, Tick, Ticket, ToFront, ToHome, WallMs,
};
use courser_mqtt::front::{Front, FrontConfig, OutputPool, Prepared, PreparedScratch};

const NOW: Now = Now {
    tick: Tick(1_000),
    wall: WallMs(1_000_000),
};
const ID: FrontId = FrontId {
    shard: ShardId(0),
    slot: 0,
    generation: 0,
};
const TOPIC: &str = "sensor/7/temperature";
const VOLATILE: PartitionId = PartitionId::volatile_of(ShardId(0));
/// Messages of one turn: about what a read of 64 KiB holds.
pub(crate) const TURN: usize = 700;
/// Deliveries under way at once.
pub(crate) const WINDOW: usize = 100;

/// Hands everything over.
#[derive(Debug, Default)]
pub(crate) struct Shell {
    /// What was asked for, so that nothing is optimised away.
    pub(crate) effects: u64,
}

impl FrontEffects for Shell {
    fn may(&mut self, _: Asked<'_>) -> Permission {
        Permission::Granted
    }

    fn publish(&mut self, publish: &Publish<'_>, _: Ticket) -> Routed {
        self.effects += publish.payload.len() as u64;
        Routed::Done { matched: true }
    }

    fn destinations(&mut self, _: &str, _: bool) -> Destinations {
        Destinations::new()
    }

    fn cut(&self, _: PartitionId) -> courser_contract::Cut {
        courser_contract::Cut(0)
    }

    fn home_partition(&self, _: &str) -> PartitionId {
        PartitionId(3)
    }

    fn volatile_partition(&self) -> PartitionId {
        VOLATILE
    }

    fn send_home(&mut self, _: PartitionId, _: ToHome) {
        self.effects += 1;
    }

    fn close(&mut self, cause: CloseCause) {
        panic!("no connection ends here: {cause:?}");
    }

    fn dropped(&mut self, why: Dropped, _: u64) {
        panic!("nothing is dropped here: {why:?}");
    }

    fn assigned_bits(&mut self) -> [u64; 2] {
        [4; 2]
    }
}

/// Attached fronts and what they get.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) shell: Shell,
    fronts: Vec<Front>,
    scratch: PreparedScratch,
    next: u64,
    turn: Vec<u8>,
    acks: Vec<u8>,
    record: Record,
    qos: QoS,
}

impl Bench {
    /// `fronts` attached 3.1.1 fronts; messages of this QoS with payloads of 64 bytes.
    pub(crate) fn new(fronts: usize, qos: QoS) -> Self {
        let config = Rc::new(FrontConfig::new(OutputPool::new(4 << 20)));
        let mut shell = Shell::default();
        let fronts = (0..fronts)
            .map(|_| attach(Rc::clone(&config), &mut shell))
            .collect();
        let payload = [b'x'; 64];
        Self {
            shell,
            fronts,
            scratch: PreparedScratch::default(),
            next: 0,
            turn: publishes(qos, &payload),
            acks: Vec::new(),
            record: Record::copy_of(&RecordView {
                topic: TOPIC,
                properties: &[],
                payload: &payload,
                qos,
                retain: false,
                expires_at: None,
                publisher: None,
                author: None,
            }),
            qos,
        }
    }

    /// One read with [`TURN`] PUBLISH packets, and the write of what answers them.
    pub(crate) fn publish_turn(&mut self) {
        let front = &mut self.fronts[0];
        let taken = front.handle_bytes(NOW, &self.turn, &mut self.shell);
        assert_eq!(taken, self.turn.len());
        front.handle_read_end(NOW, &mut self.shell);
        let written = front.output().len();
        front.output().advance(written);
    }

    /// [`WINDOW`] messages for each front, and the writes of them.
    pub(crate) fn deliver_turn(&mut self) {
        let view = self.record.view();
        for _ in 0..WINDOW {
            let delivery = Delivery {
                view: &view,
                record: Some(self.record.as_ref()),
            };
            let mut prepared = Prepared::new(&delivery, NOW, &mut self.scratch);
            let to = DeliverTo {
                front: ID,
                source: (self.qos != QoS::AtMostOnce).then_some((Source::Session, Seq(self.next))),
                packet_id: None,
                qos: self.qos,
                flags: DeliverFlags::default(),
                identifiers: None,
            };
            self.next += 1;
            for front in &mut self.fronts {
                front.deliver(NOW, &mut prepared, &to, &mut self.shell);
            }
        }
        for front in &mut self.fronts {
            let written = front.output().len();
            assert!(written > 0);
            front.output().advance(written);
        }
    }

    /// PUBACK for all that [`Bench::deliver_turn`] sent.
    pub(crate) fn puback_turn(&mut self) {
        self.acks.clear();
        for seq in self.next - WINDOW as u64..self.next {
            let id = (1 + seq % 32_767) as u16;
            self.acks.extend_from_slice(&[0x40, 2]);
            self.acks.extend_from_slice(&id.to_be_bytes());
        }
        for front in &mut self.fronts {
            let taken = front.handle_bytes(NOW, &self.acks, &mut self.shell);
            assert_eq!(taken, self.acks.len());
            front.handle_read_end(NOW, &mut self.shell);
        }
    }
}

fn attach(config: Rc<FrontConfig>, shell: &mut Shell) -> Front {
    let mut front = Front::new(ID, config, NOW);
    front.handle_bytes(NOW, b"\x10\x0D\x00\x04MQTT\x04\x02\x00\x00\x00\x01c", shell);
    front.handle_message(NOW, ToFront::Claimed { epoch: Epoch(1) }, shell);
    let attached = Attached {
        home: HomeRef {
            partition: VOLATILE,
            session: SessionUid(1),
        },
        epoch: Epoch(1),
        present: false,
        next: Seq(0),
        groups: Vec::new(),
    };
    front.handle_message(NOW, ToFront::Attached(attached), shell);
    let connack = front.output().len();
    front.output().advance(connack);
    front
}

/// For QoS 2 each PUBLISH is followed by its PUBREL.
fn publishes(qos: QoS, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for id in 1..=TURN as u16 {
        let id_len = if qos == QoS::AtMostOnce { 0 } else { 2 };
        bytes.push(0x30 | (qos as u8) << 1);
        bytes.push((2 + TOPIC.len() + id_len + payload.len()) as u8);
        bytes.extend_from_slice(&(TOPIC.len() as u16).to_be_bytes());
        bytes.extend_from_slice(TOPIC.as_bytes());
        if qos != QoS::AtMostOnce {
            bytes.extend_from_slice(&id.to_be_bytes());
        }
        bytes.extend_from_slice(payload);
        if qos == QoS::ExactlyOnce {
            bytes.extend_from_slice(&[0x62, 2]);
            bytes.extend_from_slice(&id.to_be_bytes());
        }
    }
    bytes
}
