//! Acknowledgements of the client, and the outcomes that they become: runs of them are told as one range.

use courser_contract::{FrontEffects, OutcomeKind, Seq, Source, ToHome};

use super::deliver::Outbound;
use super::window::{Exchange, Place, Window, session_packet_id};
use super::{Front, PlantedFront};
use crate::codec::{PacketType, ReasonCode};

/// Outcomes that are not told yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcomes {
    source: Source,
    kind: OutcomeKind,
    first: Seq,
    last: Seq,
}

impl Outcomes {
    /// Whether they are deliveries that are done with.
    pub(super) const fn is_done(&self) -> bool {
        matches!(self.kind, OutcomeKind::Done)
    }
}

impl Front {
    /// PUBACK. One for a packet id that waits for none is passed over: the standards give no answer to it, and it does no harm.
    pub(super) fn handle_puback(
        &mut self,
        packet_id: u16,
        reason: ReasonCode,
        fx: &mut impl FrontEffects,
    ) {
        if let Some(outbound) = &mut self.outbound
            && let Some((place, Exchange::Puback)) = outbound.window.find(packet_id)
        {
            outbound.window.set(packet_id, Exchange::None);
            self.share_place(place, fx);
            self.outcome(place, settled_kind(reason), fx);
        }
    }

    /// PUBREC: v3 [MQTT-4.3.3-1], v5 [MQTT-4.3.3-4]. PUBREL leaves only once the home has stored it (M32).
    pub(super) fn handle_pubrec(
        &mut self,
        packet_id: u16,
        reason: ReasonCode,
        fx: &mut impl FrontEffects,
    ) {
        let found = self
            .outbound
            .as_ref()
            .and_then(|outbound| outbound.window.find(packet_id));
        match found {
            Some((place, Exchange::Pubrec)) => {
                // v5 [MQTT-4.4.0-2]
                let kind = if reason.is_error() {
                    self.end_exchange(packet_id);
                    self.share_place(place, fx);
                    OutcomeKind::Rejected
                } else {
                    let next = match self.config.is_planted(PlantedFront::IdFreeAtPubrec) {
                        true => Exchange::None,
                        false => Exchange::Stored,
                    };
                    self.set_exchange(packet_id, next);
                    OutcomeKind::Received
                };
                self.outcome(place, kind, fx);
            }
            // PUBREL follows when the home has answered.
            Some((_, Exchange::Stored)) => {}
            Some((_, Exchange::Pubcomp | Exchange::PubcompOfEarlier)) => {
                self.send_ack(PacketType::Pubrel, packet_id, ReasonCode::Success);
            }
            // v5 section 3.6.2.1; 3.1.1 gets a plain PUBREL, which lets the client finish.
            Some((
                _,
                Exchange::Puback
                | Exchange::Named
                | Exchange::Held
                | Exchange::Again
                | Exchange::Withheld
                | Exchange::Finished
                | Exchange::FinishedAgain
                | Exchange::None,
            ))
            | None => {
                if !reason.is_error() {
                    self.send_ack(
                        PacketType::Pubrel,
                        packet_id,
                        ReasonCode::PacketIdentifierNotFound,
                    );
                }
            }
        }
    }

    /// PUBCOMP, also one that says that the client does not know the packet id: the exchange is over.
    pub(super) fn handle_pubcomp(&mut self, packet_id: u16, fx: &mut impl FrontEffects) {
        let found = self
            .outbound
            .as_ref()
            .and_then(|outbound| outbound.window.find(packet_id));
        if let Some((place, Exchange::Pubcomp | Exchange::PubcompOfEarlier)) = found {
            self.end_exchange(packet_id);
            self.share_place(place, fx);
            self.outcome(place, OutcomeKind::Done, fx);
        }
    }

    /// "Received" is stored: PUBREL may leave (M32). For a delivery of an earlier connection: it leaves again,
    /// v3 [MQTT-4.4.0-1], v5 [MQTT-4.4.0-1].
    pub(super) fn handle_release(
        &mut self,
        place: Place,
        given: Option<u16>,
        fx: &mut impl FrontEffects,
    ) {
        let forgets = self.config.is_planted(PlantedFront::PubrelForgotten);
        let outbound = self.outbound_mut();
        let packet_id = match outbound.window.locate(place) {
            Some((packet_id, Exchange::Stored)) => {
                outbound.window.set(packet_id, Exchange::Pubcomp);
                packet_id
            }
            Some((packet_id, Exchange::Withheld)) => {
                outbound.window.set(packet_id, Exchange::PubcompOfEarlier);
                packet_id
            }
            // Committed for an earlier leader of the group, which could not send it.
            Some((_, Exchange::Named)) => match outbound.window.release_named(place, given) {
                Some(packet_id) => packet_id,
                None => {
                    self.outcome(place, OutcomeKind::Done, fx);
                    return self.flush_outcomes(fx);
                }
            },
            // It has left on this connection: v5 [MQTT-4.4.0-1] allows no repeat.
            Some((_, Exchange::Pubcomp | Exchange::PubcompOfEarlier)) => return,
            // A new leader of the group has not heard that it is over (M27).
            Some((packet_id, Exchange::Finished | Exchange::FinishedAgain)) => {
                outbound.window.set(packet_id, Exchange::FinishedAgain);
                self.outcome(place, OutcomeKind::Done, fx);
                return self.flush_outcomes(fx);
            }
            // No PUBREC has come on this connection: nothing can be released.
            Some((
                _,
                Exchange::None
                | Exchange::Held
                | Exchange::Again
                | Exchange::Puback
                | Exchange::Pubrec,
            )) => return,
            None => {
                let owed = match place {
                    (Source::Session, seq) => Some(session_packet_id(seq)),
                    (Source::Group(_), _) => given,
                };
                let Some(packet_id) = owed else { return };
                if forgets {
                    return;
                }
                outbound.window.resume(place, packet_id);
                packet_id
            }
        };
        self.send_ack(PacketType::Pubrel, packet_id, ReasonCode::Success);
    }

    fn end_exchange(&mut self, packet_id: u16) {
        if let Some(outbound) = &mut self.outbound {
            outbound.window.end(packet_id);
        }
    }

    fn set_exchange(&mut self, packet_id: u16, next: Exchange) {
        if let Some(outbound) = &mut self.outbound {
            outbound.window.set(packet_id, next);
        }
    }

    /// Adds an outcome to the run so far, or tells that one and begins another.
    pub(super) fn outcome(
        &mut self,
        (source, seq): Place,
        kind: OutcomeKind,
        fx: &mut impl FrontEffects,
    ) {
        let outbound = self.outbound_mut();
        if let Some(run) = &mut outbound.outcomes
            && run.kind == kind
            && run.source == source
            && run.last.0 + 1 == seq.0
        {
            run.last = seq;
            return;
        }
        self.flush_outcomes(fx);
        self.outbound_mut().outcomes = Some(Outcomes {
            source,
            kind,
            first: seq,
            last: seq,
        });
    }

    pub(super) fn flush_outcomes(&mut self, fx: &mut impl FrontEffects) {
        let Some(run) = self
            .outbound
            .as_mut()
            .and_then(|outbound| outbound.outcomes.take())
        else {
            return;
        };
        let Outcomes {
            source,
            kind,
            first,
            last,
        } = run;
        let home = self.session.home;
        match source {
            Source::Session => fx.send_home(
                home.partition,
                ToHome::Outcome {
                    session: home.session,
                    epoch: self.session.epoch,
                    first,
                    last,
                    kind,
                },
            ),
            Source::Group(group) => fx.send_home(
                group.partition,
                ToHome::GroupOutcome {
                    group: group.group,
                    member: home,
                    front: self.id,
                    first,
                    last,
                    kind,
                },
            ),
        }
    }

    pub(super) fn outbound_mut(&mut self) -> &mut Outbound {
        let (peer, session) = (&self.peer, &self.session);
        let load = &self.config.alias_load;
        self.outbound.get_or_insert_with(|| {
            let window = Window::new(peer.window, session.group_ids_from);
            Box::new(Outbound::new(window, peer.topic_alias_max, load))
        })
    }
}

/// v5 [MQTT-4.4.0-2]: 0x80 and more settle the message too.
const fn settled_kind(reason: ReasonCode) -> OutcomeKind {
    if reason.is_error() {
        OutcomeKind::Rejected
    } else {
        OutcomeKind::Done
    }
}
