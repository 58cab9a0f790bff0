//! One subscribing connection without its socket: checks what arrives and acknowledges it.

use courser_mqtt::codec::{Delivery, Packet, PacketId, Puback, Pubcomp, Publish, Pubrec, Receiver};

use super::arrivals::{Arrival, Arrivals, Faults, GroupArrivals};
use super::result::Latencies;
use super::stamp::Stamp;

/// Where a subscriber notes what arrived.
#[derive(Debug)]
pub(crate) enum Ledger {
    /// Payloads too short for a stamp: only counted.
    Count,
    /// Alone.
    Alone(Arrivals),
    /// In the group's common ledger, as this member.
    Member(u32),
}

/// A subscriber.
#[derive(Debug)]
pub(crate) struct Subscriber {
    ledger: Ledger,
    /// QoS 2 packet ids between PUBLISH and PUBREL, one bit each; allocated with the first.
    held: Vec<u64>,
    receiver: Receiver,
    /// Stamps before this time are of the warm-up: no latency is noted for them.
    measured_from_ns: u64,
}

impl Subscriber {
    pub(crate) const fn new(ledger: Ledger, receiver: Receiver, measured_from_ns: u64) -> Self {
        Self {
            ledger,
            held: Vec::new(),
            receiver,
            measured_from_ns,
        }
    }

    /// Takes a packet. Returns how many messages arrived for the first time.
    pub(crate) fn handle(
        &mut self,
        packet: &Packet<'_>,
        now_ns: u64,
        group: &mut GroupArrivals,
        latencies: &mut Latencies,
        out: &mut Vec<u8>,
    ) -> Result<u64, String> {
        match packet {
            Packet::Publish(publish) => {
                if !self.acknowledge(publish.delivery, out)? {
                    return Ok(0);
                }
                Ok(self.note(publish, now_ns, group, latencies))
            }
            Packet::Pubrel(pubrel) => {
                self.set_held(pubrel.packet_id, false);
                write(
                    &Packet::Pubcomp(Pubcomp::new(pubrel.packet_id)),
                    &self.receiver,
                    out,
                )
                .map(|()| 0)
            }
            Packet::Pingresp(_) | Packet::Suback(_) => Ok(0),
            Packet::Disconnect(disconnect) => Err(format!(
                "the broker disconnected: {}",
                disconnect.reason.name()
            )),
            other => Err(format!(
                "{} was not expected by a subscriber",
                other.packet_type()
            )),
        }
    }

    /// False for a QoS 2 message that is already here.
    fn acknowledge(&mut self, delivery: Delivery, out: &mut Vec<u8>) -> Result<bool, String> {
        match delivery {
            Delivery::AtMostOnce => Ok(true),
            Delivery::AtLeastOnce { packet_id, .. } => {
                write(&Packet::Puback(Puback::new(packet_id)), &self.receiver, out).map(|()| true)
            }
            Delivery::ExactlyOnce { packet_id, .. } => {
                write(&Packet::Pubrec(Pubrec::new(packet_id)), &self.receiver, out)?;
                Ok(self.set_held(packet_id, true))
            }
        }
    }

    /// Whether the bit changed.
    fn set_held(&mut self, packet_id: PacketId, held: bool) -> bool {
        if self.held.is_empty() {
            self.held = vec![0; 1024];
        }
        let id = usize::from(packet_id.get());
        let (word, bit) = (&mut self.held[id / 64], 1 << (id % 64));
        let was = *word & bit != 0;
        if held {
            *word |= bit;
        } else {
            *word &= !bit;
        }
        was != held
    }

    fn note(
        &mut self,
        publish: &Publish<'_>,
        now_ns: u64,
        group: &mut GroupArrivals,
        latencies: &mut Latencies,
    ) -> u64 {
        if matches!(self.ledger, Ledger::Count) {
            return 1;
        }
        let marked = publish.delivery.dup();
        let arrival = match (Stamp::decode(publish.payload), &mut self.ledger) {
            (_, Ledger::Count) => Arrival::First,
            (Some(stamp), ledger) => {
                let arrival = match ledger {
                    Ledger::Alone(arrivals) => arrivals.note(stamp.stream, stamp.number, marked),
                    Ledger::Member(member) => {
                        group.note(*member, stamp.stream, stamp.number, marked)
                    }
                    Ledger::Count => Arrival::First,
                };
                if arrival == Arrival::First && stamp.sent_ns >= self.measured_from_ns {
                    latencies.note(now_ns.saturating_sub(stamp.sent_ns).max(1));
                }
                arrival
            }
            (None, Ledger::Alone(arrivals)) => {
                arrivals.note_foreign();
                Arrival::Other
            }
            (None, Ledger::Member(_)) => {
                group.note_foreign();
                Arrival::Other
            }
        };
        u64::from(arrival == Arrival::First)
    }

    /// The verdict over what this subscriber alone should have; a member's is in the group's ledger.
    pub(crate) fn faults(&self, sent: impl Iterator<Item = (u32, u64)>) -> Faults {
        match &self.ledger {
            Ledger::Alone(arrivals) => arrivals.faults(sent),
            Ledger::Count | Ledger::Member(_) => Faults::default(),
        }
    }
}

fn write(packet: &Packet<'_>, receiver: &Receiver, out: &mut Vec<u8>) -> Result<(), String> {
    packet
        .encode(receiver, out)
        .map(drop)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
