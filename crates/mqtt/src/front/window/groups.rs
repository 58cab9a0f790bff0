//! Packet ids of shared groups (M31): from 32,768, given by this connection, or by an earlier one and still owed.

use courser_contract::{Epoch, GroupRef, Seq};

use super::Exchange;

/// First packet id of shared groups (M31).
pub(super) const GROUP_IDS_FROM: u16 = 32_768;
const GROUP_IDS: u16 = 32_768;
const GROUP_IDS_MAX: usize = GROUP_IDS as usize;

#[derive(Clone, Copy, Debug)]
pub(super) struct GroupExchange {
    pub(super) group: GroupRef,
    pub(super) seq: Seq,
    pub(super) exchange: Exchange,
}

/// Exchanges of groups under way, by their packet ids.
#[derive(Debug, Default)]
pub(super) struct GroupExchanges {
    /// The first packet id of this connection, as a distance from [`GROUP_IDS_FROM`].
    from: u16,
    /// By their packet ids, counted from `from`: as many as have been under way at once.
    slots: Vec<Option<GroupExchange>>,
    free: Vec<u16>,
    /// Those whose packet ids are not among the slots: an earlier connection gave them.
    earlier: Vec<(u16, GroupExchange)>,
}

/// Where the packet ids of groups begin on a connection that takes a session up.
///
/// What was under way at QoS 1 goes back to its group when a connection ends, but the client may acknowledge it on the next one, since
/// to the client its packet id is in use: v5 [MQTT-2.2.1-4]. So each connection begins elsewhere: by the golden ratio, which keeps
/// numbers in a row apart (Knuth, volume 3, section 6.4).
pub(in crate::front) const fn group_ids_from(epoch: Epoch) -> u16 {
    (epoch.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 49) as u16
}

impl GroupExchanges {
    pub(super) fn new(from: u16) -> Self {
        Self {
            from: from % GROUP_IDS,
            ..Self::default()
        }
    }

    /// Begins elsewhere with what is taken from here on.
    pub(super) fn begin_at(&mut self, from: u16) {
        let earlier = self.iter().map(|(id, entry)| (id, *entry)).collect();
        *self = Self {
            earlier,
            ..Self::new(from)
        };
    }

    pub(super) const fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len() && self.earlier.is_empty()
    }

    /// Whether a packet id is not in use. All may be however small the window is: those of exchanges that are over stay until their
    /// groups have committed that.
    pub(super) const fn has_free_id(&self) -> bool {
        !self.free.is_empty() || self.slots.len() + self.earlier.len() < GROUP_IDS_MAX
    }

    /// How many packet ids are not in use.
    pub(super) const fn free_ids(&self) -> usize {
        GROUP_IDS_MAX + self.free.len() - self.slots.len() - self.earlier.len()
    }

    /// Takes a packet id that is not in use, which there is.
    pub(super) fn begin(&mut self, entry: GroupExchange) -> u16 {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        self.slots[usize::from(slot)] = Some(entry);
        self.packet_id(slot)
    }

    /// A slot more that is not in use, which there is. So there are no two slots of one packet id.
    fn grow(&mut self) -> u16 {
        loop {
            assert!(
                self.slots.len() < GROUP_IDS_MAX,
                "who takes a packet id has asked whether one is free"
            );
            let slot = self.slots.len() as u16;
            let packet_id = self.packet_id(slot);
            let earlier = self.earlier.iter().position(|(id, _)| *id == packet_id);
            self.slots
                .push(earlier.map(|at| self.earlier.swap_remove(at).1));
            if earlier.is_none() {
                return slot;
            }
        }
    }

    /// Puts an exchange at a packet id that is not in use.
    pub(super) fn occupy(&mut self, packet_id: u16, entry: GroupExchange) {
        match self.slot(packet_id) {
            Some(slot) => {
                self.free.retain(|&free| free != slot);
                self.slots[usize::from(slot)] = Some(entry);
            }
            None => self.earlier.push((packet_id, entry)),
        }
    }

    pub(super) fn get(&self, packet_id: u16) -> Option<&GroupExchange> {
        match self.slot(packet_id) {
            Some(slot) => self.slots[usize::from(slot)].as_ref(),
            None => {
                let mut earlier = self.earlier.iter();
                earlier.find_map(|(id, entry)| (*id == packet_id).then_some(entry))
            }
        }
    }

    /// Moves what is under way with a packet id on; with [`Exchange::None`] the packet id is free.
    pub(super) fn set(&mut self, packet_id: u16, next: Exchange) {
        let Some(slot) = self.slot(packet_id) else {
            return self.set_earlier(packet_id, next);
        };
        let place = &mut self.slots[usize::from(slot)];
        let Some(entry) = place else {
            return;
        };
        entry.exchange = next;
        if next == Exchange::None {
            *place = None;
            self.free.push(slot);
        }
    }

    fn set_earlier(&mut self, packet_id: u16, next: Exchange) {
        if let Some(at) = self.earlier.iter().position(|(id, _)| *id == packet_id) {
            self.earlier[at].1.exchange = next;
            if next == Exchange::None {
                self.earlier.swap_remove(at);
            }
        }
    }

    pub(super) fn locate(&self, group: GroupRef, seq: Seq) -> Option<(u16, Exchange)> {
        self.iter()
            .find(|(_, entry)| entry.group == group && entry.seq == seq)
            .map(|(packet_id, entry)| (packet_id, entry.exchange))
    }

    /// Those under way with their packet ids, slots first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &GroupExchange)> {
        let slots = self.slots.iter().zip(0..).filter_map(|(entry, slot)| {
            let entry = entry.as_ref()?;
            Some((self.packet_id(slot), entry))
        });
        slots.chain(self.earlier.iter().map(|(id, entry)| (*id, entry)))
    }

    const fn packet_id(&self, slot: u16) -> u16 {
        GROUP_IDS_FROM + (self.from + slot) % GROUP_IDS
    }

    /// The slot of a packet id, which is at least [`GROUP_IDS_FROM`].
    fn slot(&self, packet_id: u16) -> Option<u16> {
        let slot = packet_id.wrapping_sub(self.from) % GROUP_IDS;
        (usize::from(slot) < self.slots.len()).then_some(slot)
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        for free in &self.free {
            assert!(
                self.slots[usize::from(*free)].is_none(),
                "a free packet id is not under way"
            );
        }
        for (packet_id, _) in &self.earlier {
            assert_eq!(self.slot(*packet_id), None, "a packet id has one place");
        }
        assert!(
            self.iter()
                .all(|(_, entry)| entry.exchange != Exchange::None),
            "what is over has no packet id"
        );
    }
}
