//! The last messages of fronts whose appends are not settled yet (M25).
//!
//! A Detach lets the next connection of the client id in. Sent at once, what that one publishes could overtake what the old
//! one had published to another partition: QoS 1 out of order, or a retained "online" followed by the will's "offline". So
//! the Detach waits until the front's appends are settled, but not for ever: a partition that does not answer is named in
//! its `open`, and the home keeps the order from there.

use courser_contract::{FrontId, PartitionId, Tick, ToHome};

/// How long a Detach waits for the appends of its front, in milliseconds: as long as a publisher waits (M11).
const PATIENCE_MS: u64 = 10_000;

/// A front that ends.
#[derive(Debug)]
pub struct Leaving {
    /// Which.
    pub front: FrontId,
    /// Its publishes that wait.
    waiting: u32,
    /// When its messages go out whatever waits.
    deadline: Tick,
    /// Its last messages, in order.
    pub messages: Vec<(PartitionId, ToHome)>,
}

/// Fronts that ended with publishes waiting. There are few: the list is searched.
#[derive(Debug, Default)]
pub struct LastWords {
    leaving: Vec<Leaving>,
}

impl LastWords {
    /// Holds a message back: its front has `waiting` publishes that are not settled, at least one.
    pub fn hold(
        &mut self,
        now: Tick,
        front: FrontId,
        waiting: u32,
        (to, message): (PartitionId, ToHome),
    ) {
        if let Some(leaving) = self.find(front) {
            self.leaving[leaving].messages.push((to, message));
            return;
        }
        self.leaving.push(Leaving {
            front,
            waiting,
            deadline: now.after_ms(PATIENCE_MS),
            messages: vec![(to, message)],
        });
    }

    /// A publish of `front` is settled. Its messages, when it was the last one.
    pub fn settled(&mut self, front: FrontId) -> Option<Leaving> {
        let at = self.find(front)?;
        let leaving = &mut self.leaving[at];
        leaving.waiting = leaving.waiting.saturating_sub(1);
        (leaving.waiting == 0).then(|| self.leaving.swap_remove(at))
    }

    /// A front whose time is up.
    pub fn overdue(&mut self, now: Tick) -> Option<Leaving> {
        let at = self
            .leaving
            .iter()
            .position(|leaving| leaving.deadline <= now)?;
        Some(self.leaving.swap_remove(at))
    }

    /// The earliest moment at which somebody's time is up.
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        self.leaving.iter().map(|leaving| leaving.deadline).min()
    }

    /// Whether nobody waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.leaving.is_empty()
    }

    fn find(&self, front: FrontId) -> Option<usize> {
        self.leaving
            .iter()
            .position(|leaving| leaving.front == front)
    }
}
