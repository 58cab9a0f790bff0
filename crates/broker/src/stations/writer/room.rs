//! The writer and the room on its disk: who waits for some, what is done meanwhile that gives some, and when it is looked at.

use std::thread;
use std::time::{Duration, Instant};

use courser_engine::DiskRoom;
use courser_log::{Disk, SpaceState, WriteError};

use super::{Clockwork, SYNC_AFTER, Writer};
use crate::stations::orders::OrderReceiver;

/// How often the free space is looked at: while it is short, and while nothing happens that would show it.
const SPACE_LOOK: Duration = Duration::from_millis(200);
/// A batch that has waited for room for so long is worth a line.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// How often a file that could not be removed is tried again at least.
const STUCK_LOOK: Duration = Duration::from_secs(60);

impl<D: Disk> Writer<D> {
    /// Writes the batch. Without room it waits for some: what was ordered is not refused any more (M47). False: nobody is left who waits
    /// for it.
    pub(super) fn write(&mut self) -> Result<bool, WriteError> {
        loop {
            let begun = Instant::now();
            match self.log.write(&mut self.batch) {
                Ok(_) => {
                    self.state.note_write(begun.elapsed());
                    self.ends_waiting();
                    break;
                }
                Err(error) if error.is_final() => return Err(error),
                Err(_) => {
                    self.waits(begun);
                    // A checkpoint that was written meanwhile is what gives room.
                    self.gather();
                    self.take_checkpoints();
                    self.answer_questions()?;
                    self.tell_places();
                    self.look_at_space();
                    self.sync_overdue(Instant::now())?;
                    if self.has_ended() {
                        self.batch.clear();
                        return Ok(false);
                    }
                    if self.takes_less() {
                        continue;
                    }
                    thread::sleep(self.until_next_try());
                    self.take_prepared()?;
                }
            }
        }
        self.batch.clear();
        match self.clockwork {
            Clockwork::Rest | Clockwork::Synced(_) => {
                self.clockwork = Clockwork::Written(Instant::now());
            }
            Clockwork::Written(_) => {}
        }
        Ok(true)
    }

    /// Tells that it waits for room; the log once it has for some time.
    fn waits(&mut self, now: Instant) {
        let since = *self.waits_since.get_or_insert(now);
        self.state.set_waiting(Some(since));
        if now - since >= TOLD_AFTER && !std::mem::replace(&mut self.is_waiting_told, true) {
            tracing::error!(
                event = "log_waits_for_room",
                "the disk has no room for another segment, and the reserve is used up: nothing is acknowledged until there is some"
            );
        }
    }

    fn ends_waiting(&mut self) {
        let Some(since) = self.waits_since.take() else {
            return;
        };
        self.state.set_waiting(None);
        if std::mem::take(&mut self.is_waiting_told) {
            let seconds = since.elapsed().as_secs();
            tracing::info!(
                event = "log_has_room",
                seconds,
                "what waited for room is written"
            );
        }
    }

    /// Fills the batch again with what the segment that is written has room for. False: not even the first of what waits.
    fn takes_less(&mut self) -> bool {
        let left = usize::try_from(self.log.left_in_segment()).unwrap_or(usize::MAX);
        if self.begins_with_piece || left == 0 || self.batch.bytes() <= left {
            return false;
        }
        self.refill(left);
        let takes_some = !self.batch.is_empty();
        if !takes_some {
            self.refill(usize::MAX);
        }
        takes_some
    }

    /// Fills the batch anew, of at most so many bytes.
    fn refill(&mut self, bytes: usize) {
        for pending in &mut self.pending {
            pending.taken = pending.written;
        }
        self.batch.restart(bytes);
        self.fill();
    }

    /// How long a batch without room waits until it is tried again. A sync that comes due meanwhile does not wait for that.
    pub(super) fn until_next_try(&self) -> Duration {
        let most = SPACE_LOOK / 2;
        match self.clockwork {
            Clockwork::Rest | Clockwork::Synced(_) => most,
            Clockwork::Written(since) => SYNC_AFTER.saturating_sub(since.elapsed()).min(most),
        }
    }

    /// Answers orders without a record while others wait for room, which they need none of: by what is told there a shard finishes the checkpoint
    /// that gives some. They wait for a sync alone (M47).
    fn answer_questions(&mut self) -> Result<(), WriteError> {
        let next = |it: &Self| {
            let mut pending = it.pending.iter();
            pending.position(|it| it.order.records.is_empty())
        };
        if next(self).is_none() {
            return Ok(());
        }
        if matches!(self.clockwork, Clockwork::Written(_)) {
            self.clockwork = Clockwork::Synced(self.sync()?);
        }
        if self.state.failure().is_some() {
            return Ok(());
        }
        let mut woken = 0;
        while let Some(at) = next(self) {
            woken |= self.answer_at(at);
        }
        self.wake(woken);
        Ok(())
    }

    /// What finished checkpoints make needless may go before the orders that tell of them are written.
    fn take_checkpoints(&mut self) {
        for pending in &mut self.pending {
            for done in pending.order.checkpoints.drain(..) {
                self.log.set_checkpoint(done.partition, done.at, done.live);
            }
        }
    }

    pub(super) fn look_at_space(&mut self) {
        self.looked = Instant::now();
        self.log.leave_free(self.state.checkpoint_room());
        self.log.refresh_space();
        self.look_ahead();
    }

    pub(super) fn tell_space(&mut self) {
        let room = match self.log.space().state {
            SpaceState::Enough => DiskRoom::Enough,
            SpaceState::Low => DiskRoom::Short,
        };
        self.share_room();
        self.let_go(room);
        if self.state.set_room(room) {
            self.looked = Instant::now();
            // One that sleeps may have what keeps segments (M47). Those that know of it look by themselves when it is over.
            if room == DiskRoom::Short {
                self.wake_shards();
            }
        }
    }

    /// Gives each shard its part of what the disk has above the reserve, without what all of them have under way: else a burst would be let in
    /// that is larger than that (M4).
    pub(super) fn share_room(&mut self) {
        let above = self.log.above_reserve();
        let shards = &mut self.shards[..self.ends_with];
        let under_way: u64 = shards.iter_mut().map(OrderReceiver::under_way).sum();
        let part = above.saturating_sub(under_way) / shards.len().max(1) as u64;
        for shard in shards {
            shard.allow(part);
        }
    }

    /// When to look at the disk where nothing else happens.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let every = match (self.is_short(), self.is_stuck) {
            (true, _) => SPACE_LOOK,
            (false, true) => STUCK_LOOK,
            (false, false) => return None,
        };
        Some(self.looked + every)
    }

    fn is_short(&self) -> bool {
        self.state.wants_room()
    }
}
