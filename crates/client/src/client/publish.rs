//! Messages that a client sends, one after the other.

use courser_mqtt::codec::{Packet, PacketId, Pubrel, QoS, ReasonCode};

use super::wire::refused;
use super::{Answer, Client};
use crate::error::Asked;
use crate::packets::{self, Try};
use crate::{ClientError, Message};

/// A message of QoS 1 or 2 whose acknowledgement has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnderWay {
    packet_id: PacketId,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// PUBLISH was sent.
    Published,
    /// PUBREC has come: the message is the broker's.
    Received,
}

impl Client {
    /// Sends a message and waits for its acknowledgement, if it has one.
    ///
    /// # Errors
    /// When the message cannot be said in MQTT, the broker refuses it or the connection fails.
    pub fn publish(&mut self, message: &Message) -> Result<(), ClientError> {
        let packet_id = self.packet_id();
        self.send_publish(message, packet_id, Try::First)?;
        match message.qos {
            QoS::AtMostOnce => Ok(()),
            QoS::AtLeastOnce | QoS::ExactlyOnce => {
                let step = Step::Published;
                self.settle(message.qos, UnderWay { packet_id, step })
            }
        }
    }

    /// Whether it is not known what became of the last message.
    #[must_use]
    pub const fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Goes on with the message whose [`publish`](Self::publish) a lost connection has ended. In a session that was resumed it keeps its
    /// packet id, so that one of QoS 2 is taken once, v5 [MQTT-4.4.0-1]; in a new one it is a new message.
    ///
    /// # Errors
    /// As there.
    pub fn publish_again(&mut self, message: &Message) -> Result<(), ClientError> {
        let Some(under_way) = self.under_way else {
            return self.publish(message);
        };
        match under_way.step {
            Step::Published => self.send_publish(message, under_way.packet_id, Try::Again)?,
            // Said by what follows.
            Step::Received => {}
        }
        self.settle(message.qos, under_way)
    }

    fn send_publish(
        &mut self,
        message: &Message,
        packet_id: PacketId,
        which: Try,
    ) -> Result<(), ClientError> {
        let mut out = Vec::new();
        packets::publish(message, (packet_id, which), &self.receiver, &mut out)?;
        self.send(&out)
    }

    /// Waits until the message is acknowledged or refused.
    fn settle(&mut self, qos: QoS, under_way: UnderWay) -> Result<(), ClientError> {
        self.under_way = Some(under_way);
        let packet_id = under_way.packet_id;
        let reason = match (qos, under_way.step) {
            (QoS::AtMostOnce | QoS::AtLeastOnce, _) => {
                self.wait_reason(packet_id, Answer::puback)?
            }
            (QoS::ExactlyOnce, Step::Published) => {
                let received = self.wait_reason(packet_id, Answer::pubrec)?;
                match received.is_error() {
                    true => received,
                    false => self.release(packet_id)?,
                }
            }
            (QoS::ExactlyOnce, Step::Received) => match self.release(packet_id)? {
                // Its PUBCOMP was lost with the connection.
                ReasonCode::PacketIdentifierNotFound => ReasonCode::Success,
                reason => reason,
            },
        };
        self.under_way = None;
        if reason.is_error() {
            Err(refused(Asked::Message, reason, ""))
        } else {
            Ok(())
        }
    }

    fn release(&mut self, packet_id: PacketId) -> Result<ReasonCode, ClientError> {
        let step = Step::Received;
        self.under_way = Some(UnderWay { packet_id, step });
        self.send_packet(&Packet::Pubrel(Pubrel::new(packet_id)))?;
        self.wait_reason(packet_id, Answer::pubcomp)
    }

    fn wait_reason(
        &mut self,
        packet_id: PacketId,
        said: fn(&Answer) -> Option<(u16, ReasonCode)>,
    ) -> Result<ReasonCode, ClientError> {
        let of_it = |answer: &Answer| said(answer).filter(|(id, _)| *id == packet_id.get());
        let answer = self.wait(|answer| of_it(answer).is_some())?;
        let reason = of_it(&answer).map(|(_, reason)| reason);
        reason.ok_or_else(|| self.link.timed_out())
    }
}

impl Answer {
    const fn puback(&self) -> Option<(u16, ReasonCode)> {
        match self {
            Self::Puback { packet_id, reason } => Some((*packet_id, *reason)),
            _ => None,
        }
    }

    const fn pubrec(&self) -> Option<(u16, ReasonCode)> {
        match self {
            Self::Pubrec { packet_id, reason } => Some((*packet_id, *reason)),
            _ => None,
        }
    }

    const fn pubcomp(&self) -> Option<(u16, ReasonCode)> {
        match self {
            Self::Pubcomp { packet_id, reason } => Some((*packet_id, *reason)),
            _ => None,
        }
    }
}
