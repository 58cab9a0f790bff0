//! One publishing connection without its socket: what it writes next, and what it does with answers.

use std::sync::Arc;
use std::time::Duration;

use courser_mqtt::codec::{
    Delivery, EncodeError, Packet, PacketId, Passthrough, Publish, PublishTopic, Pubrel, QoS,
    Receiver, SubscriptionIds, TopicName,
};

use super::plan::{Begin, Pace, Plan, Stop};
use super::result::Latencies;
use super::stamp::{self, Stamp};

/// PUBLISH packets of a run, encoded once for each topic up to the payload; packet id and stamp are written over.
#[derive(Debug)]
pub(crate) struct Templates {
    heads: Vec<Head>,
    /// Rest of each payload behind the stamp, or the whole payload when it has no room for one.
    filler: Vec<u8>,
    checked: bool,
    fan_out: Vec<u64>,
}

#[derive(Debug)]
struct Head {
    bytes: Box<[u8]>,
    packet_id_at: usize,
}

impl Templates {
    pub(crate) fn new(plan: &Plan) -> Result<Self, EncodeError> {
        let checked = plan.is_checked();
        let heads = (0..plan.topics)
            .map(|k| Head::new(plan, &plan.topic(k)))
            .collect::<Result<_, _>>()?;
        let filler = plan.payload_bytes - if checked { stamp::BYTES } else { 0 };
        Ok(Self {
            heads,
            filler: vec![b'x'; filler],
            checked,
            fan_out: (0..plan.topics).map(|k| plan.fan_out(k)).collect(),
        })
    }
}

impl Head {
    fn new(plan: &Plan, topic: &str) -> Result<Self, EncodeError> {
        let packet_id = PacketId::MIN;
        let delivery = match plan.qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce {
                packet_id,
                dup: false,
            },
            QoS::ExactlyOnce => Delivery::ExactlyOnce {
                packet_id,
                dup: false,
            },
        };
        let payload = vec![0; plan.payload_bytes];
        let name = TopicName::new(topic).map_err(|error| EncodeError::Refused(error.kind()))?;
        let packet = Packet::Publish(Publish {
            delivery,
            retain: plan.retain,
            topic: PublishTopic::Name(name),
            message_expiry_interval: None,
            subscription_ids: SubscriptionIds::NONE,
            passthrough: Passthrough::EMPTY,
            payload: &payload,
        });
        let mut bytes = Vec::new();
        packet.encode(&Receiver::new(plan.target.version), &mut bytes)?;
        bytes.truncate(bytes.len() - payload.len());
        let length_bytes = 1 + bytes[1..].iter().take_while(|&&byte| byte >= 0x80).count();
        let packet_id_at = 1 + length_bytes + 2 + topic.len();
        Ok(Self {
            bytes: bytes.into(),
            packet_id_at,
        })
    }
}

/// State of a packet id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    /// PUBLISH is out; QoS 1 waits for PUBACK, QoS 2 for PUBREC.
    Published(u64),
    /// PUBREL is out.
    Released(u64),
}

#[derive(Debug)]
struct Stream {
    id: u32,
    topic: u32,
    next: u64,
}

/// What a publisher counted since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) messages: u64,
    pub(crate) deliveries: u64,
}

/// A publisher.
#[derive(Debug)]
pub(crate) struct Publisher {
    templates: Arc<Templates>,
    qos: QoS,
    streams: Vec<Stream>,
    cursor: usize,
    /// Packet id 1 + index; empty for QoS 0.
    slots: Vec<Slot>,
    next_slot: usize,
    in_flight: usize,
    /// Messages still to send, of a counted run.
    quota: Option<u64>,
    schedule: Option<Schedule>,
    receiver: Receiver,
    refused: u64,
    /// When acknowledgements came and how long each took, in nanoseconds since the start; if they are wanted.
    timeline: Option<Vec<(u64, u64)>>,
}

/// Acknowledgements that a publisher notes one by one at most: 160 MB.
const TIMELINE_MAX: usize = 10_000_000;

/// When this publisher's messages are due in an open loop, in nanoseconds since the start.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    next_ns: f64,
    step_ns: f64,
    from: Begin,
}

impl Publisher {
    /// Publisher `index` of the plan, with the broker's Receive Maximum.
    pub(crate) fn new(
        plan: &Plan,
        templates: Arc<Templates>,
        index: usize,
        receive_maximum: u16,
    ) -> Self {
        let streams = plan.streams_of(index).map(|stream| Stream {
            id: stream as u32,
            topic: plan.topic_of(stream) as u32,
            next: 0,
        });
        let window = match plan.qos {
            QoS::AtMostOnce => 0,
            QoS::AtLeastOnce | QoS::ExactlyOnce => plan.window.min(receive_maximum).into(),
        };
        let publishers = plan.publishers as u64;
        let quota = match plan.stop {
            Stop::After(_) => None,
            Stop::Count(count) => {
                Some(count / publishers + u64::from((index as u64) < count % publishers))
            }
        };
        let schedule = match plan.pace {
            Pace::Closed => None,
            Pace::Open { per_second, from } => Some(Schedule {
                next_ns: index as f64 * 1e9 / per_second,
                step_ns: publishers as f64 * 1e9 / per_second,
                from,
            }),
        };
        Self {
            templates,
            qos: plan.qos,
            streams: streams.collect(),
            cursor: 0,
            slots: vec![Slot::Free; window],
            next_slot: 0,
            in_flight: 0,
            quota,
            schedule,
            receiver: Receiver::new(plan.target.version),
            refused: 0,
            timeline: plan.timeline.then(Vec::new),
        }
    }

    /// Appends what may be sent now: until the window is full, `messages_max` are written, the quota is used up, nothing more is
    /// due, or `out` has `bytes_max`.
    pub(crate) fn fill(
        &mut self,
        now_ns: u64,
        messages_max: u64,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Sent {
        let mut sent = Sent::default();
        while sent.messages < messages_max && out.len() < bytes_max && self.quota != Some(0) {
            let sent_ns = match &mut self.schedule {
                None => now_ns,
                Some(schedule) if schedule.next_ns > now_ns as f64 => break,
                Some(schedule) => match schedule.from {
                    Begin::Due => schedule.next_ns as u64,
                    Begin::Sending => now_ns,
                },
            };
            let Some(packet_id) = self.take_slot(sent_ns) else {
                break;
            };
            if let Some(schedule) = &mut self.schedule {
                schedule.next_ns += schedule.step_ns;
            }
            if let Some(quota) = &mut self.quota {
                *quota -= 1;
            }
            sent.deliveries += self.write(packet_id, sent_ns, out);
            sent.messages += 1;
        }
        sent
    }

    /// Packet id for the next message, 0 for QoS 0; `None` when the window is full.
    fn take_slot(&mut self, sent_ns: u64) -> Option<u16> {
        if self.qos == QoS::AtMostOnce {
            return Some(0);
        }
        if self.in_flight == self.slots.len() {
            return None;
        }
        while self.slots[self.next_slot] != Slot::Free {
            self.next_slot = (self.next_slot + 1) % self.slots.len();
        }
        let slot = self.next_slot;
        self.slots[slot] = Slot::Published(sent_ns);
        self.in_flight += 1;
        self.next_slot = (slot + 1) % self.slots.len();
        Some(slot as u16 + 1)
    }

    fn write(&mut self, packet_id: u16, sent_ns: u64, out: &mut Vec<u8>) -> u64 {
        let at = self.cursor;
        self.cursor = if at + 1 == self.streams.len() {
            0
        } else {
            at + 1
        };
        let stream = &mut self.streams[at];
        let head = &self.templates.heads[stream.topic as usize];
        let start = out.len();
        out.extend_from_slice(&head.bytes);
        if packet_id > 0 {
            let at = start + head.packet_id_at;
            out[at..at + 2].copy_from_slice(&packet_id.to_be_bytes());
        }
        if self.templates.checked {
            out.extend_from_slice(
                &Stamp {
                    stream: stream.id,
                    number: stream.next,
                    sent_ns,
                }
                .encode(),
            );
        }
        out.extend_from_slice(&self.templates.filler);
        stream.next += 1;
        self.templates.fan_out[stream.topic as usize]
    }

    /// Takes an answer of the broker. Returns how many messages are acknowledged by it.
    pub(crate) fn handle(
        &mut self,
        packet: &Packet<'_>,
        now_ns: u64,
        latencies: &mut Latencies,
        out: &mut Vec<u8>,
    ) -> Result<u64, String> {
        match packet {
            Packet::Puback(ack) if self.qos == QoS::AtLeastOnce => {
                self.refused += u64::from(ack.reason.is_error());
                self.settle(ack.packet_id, now_ns, latencies)
            }
            Packet::Pubrec(ack) if ack.reason.is_error() => {
                self.refused += 1;
                self.settle(ack.packet_id, now_ns, latencies)
            }
            Packet::Pubrec(ack) => self.release(ack.packet_id, out).map(|()| 0),
            Packet::Pubcomp(ack) => self.settle(ack.packet_id, now_ns, latencies),
            Packet::Pingresp(_) => Ok(0),
            Packet::Disconnect(disconnect) => Err(format!(
                "the broker disconnected: {}",
                disconnect.reason.name()
            )),
            other => Err(format!(
                "{} was not expected by a publisher",
                other.packet_type()
            )),
        }
    }

    fn slot(&mut self, packet_id: PacketId) -> Result<&mut Slot, String> {
        let index = usize::from(packet_id.get()) - 1;
        self.slots
            .get_mut(index)
            .filter(|slot| **slot != Slot::Free)
            .ok_or_else(|| format!("packet id {packet_id} was acknowledged and not in use"))
    }

    fn release(&mut self, packet_id: PacketId, out: &mut Vec<u8>) -> Result<(), String> {
        let slot = self.slot(packet_id)?;
        if let Slot::Published(sent_ns) = *slot {
            *slot = Slot::Released(sent_ns);
        }
        let pubrel = Packet::Pubrel(Pubrel::new(packet_id));
        pubrel
            .encode(&self.receiver, out)
            .map_err(|error| error.to_string())?;
        Ok(())
    }

    fn settle(
        &mut self,
        packet_id: PacketId,
        now_ns: u64,
        latencies: &mut Latencies,
    ) -> Result<u64, String> {
        let slot = std::mem::replace(self.slot(packet_id)?, Slot::Free);
        if let Slot::Published(sent_ns) | Slot::Released(sent_ns) = slot {
            let took_ns = now_ns.saturating_sub(sent_ns).max(1);
            latencies.note(took_ns);
            if let Some(timeline) = &mut self.timeline
                && timeline.len() < TIMELINE_MAX
            {
                timeline.push((now_ns, took_ns));
            }
        }
        self.in_flight -= 1;
        Ok(1)
    }

    /// Whether `fill` would write something.
    pub(crate) fn can_send(&self, now_ns: u64) -> bool {
        let has_room = self.qos == QoS::AtMostOnce || self.in_flight < self.slots.len();
        let is_due = self
            .schedule
            .is_none_or(|schedule| schedule.next_ns <= now_ns as f64);
        has_room && is_due && !self.is_done()
    }

    /// How long until the next message is due; `None` without a schedule.
    pub(crate) fn due_in(&self, now_ns: u64) -> Option<Duration> {
        let schedule = self.schedule?;
        Some(Duration::from_nanos(
            (schedule.next_ns - now_ns as f64).max(0.0) as u64,
        ))
    }

    /// Whether all of a counted run is sent.
    pub(crate) fn is_done(&self) -> bool {
        self.quota == Some(0)
    }

    /// Messages without acknowledgement.
    pub(crate) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Acknowledgements one by one: moment and time taken, in nanoseconds since the start. Empty unless the plan wants them.
    pub(crate) fn timeline(&self) -> &[(u64, u64)] {
        self.timeline.as_deref().unwrap_or_default()
    }

    /// Messages that the broker refused.
    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }

    /// How many were sent on each stream.
    pub(crate) fn sent(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.streams.iter().map(|stream| (stream.id, stream.next))
    }
}

#[cfg(test)]
mod tests;
