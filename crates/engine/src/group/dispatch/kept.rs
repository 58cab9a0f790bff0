//! Deliveries of QoS 1 that stay with sessions which have left: where a group has no member, nobody else would get them.

use courser_contract::{QoS, Seq};

use super::{Dispatch, Step};
use crate::group::seats::SeatId;
use crate::group::{Fact, Group, Part};

impl Dispatch {
    /// What a session that has ended had kept ended with it, as far as that was committed; else it waits for anyone.
    pub(super) fn end_kept(&mut self, seat: SeatId, facts: &mut Vec<Fact>) {
        let all = self.under_way.iter();
        let kept = all.filter(|(_, at)| at.seat == seat && at.step == Step::Kept);
        let kept: Vec<Seq> = kept.map(|(seq, _)| seq).collect();
        for seq in kept {
            self.end(seq, seat);
            self.returned.insert(seq);
            facts.push(Fact::Unassigned { seq });
        }
    }

    /// Where no member is left, nobody else would get what sessions that have left have at QoS 1: it stays theirs, until they acknowledge it or
    /// end (v3 [MQTT-3.10.4-3], v5 [MQTT-3.10.4-3], v3 [MQTT-4.4.0-1], v5 [MQTT-4.4.0-1]). A part that is closed passes it on (M36).
    pub(super) fn keep_begun(&mut self, group: &Group, facts: &mut Vec<Fact>) {
        if group.has_members() || group.part() == Part::Closed {
            return;
        }
        let all = self.under_way.iter();
        let begun = all.filter(|(_, at)| at.qos == QoS::AtLeastOnce && at.step == Step::Begun);
        let begun: Vec<Seq> = begun.map(|(seq, _)| seq).collect();
        for seq in begun {
            let Some(at) = self.under_way.get_mut(seq) else {
                continue;
            };
            at.step = Step::Kept;
            facts.push(Fact::Assigned {
                seq,
                member: self.seats.get(at.seat).home,
                packet_id: None,
            });
        }
    }
}
