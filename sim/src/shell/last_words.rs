//! The last messages of fronts whose appends are not settled yet (M25).

use std::collections::BTreeMap;

use courser_contract::{FrontId, PartitionId, Tick, ToHome};

/// How long a Detach waits for the appends of its front, in milliseconds.
const PATIENCE_MS: u64 = 10_000;

type Words = Vec<(PartitionId, ToHome)>;

#[derive(Debug)]
struct Leaving {
    waiting: u32,
    deadline: Tick,
    messages: Words,
}

/// Fronts that ended with publishes waiting.
#[derive(Debug, Default)]
pub(crate) struct LastWords(BTreeMap<FrontId, Leaving>);

impl LastWords {
    pub(crate) fn hold(
        &mut self,
        now: Tick,
        front: FrontId,
        waiting: u32,
        message: (PartitionId, ToHome),
    ) {
        let leaving = self.0.entry(front).or_insert_with(|| Leaving {
            waiting,
            deadline: now.after_ms(PATIENCE_MS),
            messages: Vec::new(),
        });
        leaving.messages.push(message);
    }

    /// A publish of `front` is settled: its messages, when it was the last one.
    pub(crate) fn settled(&mut self, front: FrontId) -> Words {
        let Some(leaving) = self.0.get_mut(&front) else {
            return Vec::new();
        };
        leaving.waiting = leaving.waiting.saturating_sub(1);
        if leaving.waiting > 0 {
            return Vec::new();
        }
        self.0
            .remove(&front)
            .map_or_else(Vec::new, |leaving| leaving.messages)
    }

    /// Fronts whose time is up.
    pub(crate) fn overdue(&mut self, now: Tick) -> Vec<(FrontId, Words)> {
        let late = self.0.extract_if(.., |_, leaving| leaving.deadline <= now);
        late.map(|(front, leaving)| (front, leaving.messages))
            .collect()
    }

    pub(crate) fn deadline(&self) -> Option<Tick> {
        self.0.values().map(|leaving| leaving.deadline).min()
    }
}
