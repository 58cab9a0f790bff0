//! Room in streams and in the retained store: the leader counts what is committed and what it has proposed (M4), and a full
//! session drops by its policy (M12).

mod coming;
mod passed;

use courser_contract::{
    Append, AppendKey, Dropped, PartitionEffects, PartitionId, RecordView, Refusal, Seq,
    SessionLimits, SessionUid, ToPartition,
};

use crate::{
    DiskRoom, Limits, MemoryRoom, Overflow, Partition, PlantedPartition,
    entry::{Fate, Haste, OutcomeFact, Target},
    ids::{self, Owner},
    retained::RetainedLimits,
    state::State,
    stream::Stream,
};

use self::passed::Staying;
pub(crate) use self::{
    coming::{Coming, Reserved},
    passed::Passed,
};

/// What a partition tells the shard of a publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// All is well.
    #[default]
    Free,
    /// A connected session that gets the message takes messages, and more than half of its room is used: its publisher is faster
    /// than it is, and the shard should stop reading it for a moment before the session's policy has to drop something (M12).
    Slow,
}

/// How full a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    /// Less than half.
    Low,
    /// Half or more, with room.
    High,
    /// Without room.
    Full,
}

/// How long after its last outcome a session counts as one that takes messages, in milliseconds: longer than a client is kept from
/// its processor on a busy machine, and short beside the time in which somebody notices that it has stopped.
const TAKING_MS: u64 = 1_000;

impl Partition {
    /// Whether a publisher must be refused, and as what it is dropped where nobody can be told: a disk that is nearly full (M47), a full retained store, or a full session under
    /// that policy (M12).
    #[inline]
    pub(crate) fn check_room(
        &mut self,
        stored: &[Target],
        (append, can_refuse): (&Append<'_>, bool),
        view: &RecordView<'_>,
    ) -> Result<(), (Refusal, Dropped)> {
        let full = |why| Err((Refusal::QuotaExceeded, why));
        // What waits in an outbox was let in before.
        if self.disk_room_for(view.encoded_len()) == DiskRoom::Short
            && !matches!(append.key, AppendKey::Outbox { .. })
            && (append.keep_retained || !stored.is_empty())
            && !clears_only(append, stored, view)
        {
            self.disk_budget.note_refused();
            return full(Dropped::DiskFull);
        }
        if self.memory_room == MemoryRoom::Short
            && matches!(append.key, AppendKey::Numbered { .. })
            && stored.iter().any(|target| self.is_crowded(target.stream))
        {
            return full(Dropped::QueueFull);
        }
        let limits = &self.config.limits;
        if limits.overflow == Overflow::RefusePublisher
            && can_refuse
            && !self.is_planted(PlantedPartition::Unrefused)
            && self.is_any_full(stored, view.encoded_len() as u64)
        {
            return full(Dropped::QueueFull);
        }
        if append.keep_retained {
            let admitted = self.admit_retained(view);
            admitted.map_err(|refusal| (refusal, Dropped::RetainedFull))?;
        }
        Ok(())
    }

    /// Reserves room for a retained message (M4).
    pub(crate) fn admit_retained(&mut self, view: &RecordView<'_>) -> Result<(), Refusal> {
        let limits = &self.config.limits;
        let limits = RetainedLimits {
            topics: u64::from(limits.retained_messages_max),
            bytes: limits.retained_bytes_max,
        };
        let bytes = u32::try_from(view.encoded_len()).map_err(|_| Refusal::TooLarge)?;
        let kept = (!view.payload.is_empty()).then_some(bytes);
        let store = &self.state.retained;
        let admitted = self.lead.projection.admit(store, limits, view.topic, kept);
        if admitted || self.is_planted(PlantedPartition::RetainedUnbounded) {
            Ok(())
        } else {
            Err(Refusal::QuotaExceeded)
        }
    }

    /// Whether nobody takes from a stream, or less than comes.
    #[cold]
    fn is_crowded(&self, stream: u64) -> bool {
        let is_taken = match ids::owner(stream) {
            Owner::Session => self.state.has_live(stream),
            Owner::Group => {
                let group = self.state.groups.get(stream);
                group.is_some_and(|group| group.lead.dispatch.is_some())
            }
        };
        let waits = |(queue, reserved): (&Stream, Reserved)| {
            waiting(queue, reserved) >= i64::from(MemoryRoom::CROWD_MESSAGES)
                || queue.bytes().saturating_add_signed(reserved.bytes) >= MemoryRoom::CROWD_BYTES
        };
        !is_taken || self.queue(stream).is_some_and(waits)
    }

    /// Whether more waits in a stream than may: a limit was lowered.
    pub(crate) fn is_over(&self, stream: u64) -> bool {
        self.queue(stream).is_some_and(|(queue, reserved)| {
            let most = Most::of(&self.config.limits, self.session_limits(stream));
            waiting(queue, reserved) > i64::from(most.messages)
                || queue.bytes().saturating_add_signed(reserved.bytes) > most.bytes
        })
    }

    /// Whether one of these streams has no room for so many bytes.
    pub(crate) fn is_any_full(&self, targets: &[Target], bytes: u64) -> bool {
        targets
            .iter()
            .any(|target| self.is_full(target.stream, bytes))
    }

    fn is_full(&self, stream: u64, bytes: u64) -> bool {
        self.queue(stream).is_some_and(|(queue, reserved)| {
            let most = Most::of(&self.config.limits, self.session_limits(stream));
            fill(most, queue, reserved, bytes) == Fill::Full
        })
    }

    /// Whether less than half of the room of a stream is used.
    pub(crate) fn is_low(&self, stream: u64) -> bool {
        self.queue(stream).is_some_and(|(queue, reserved)| {
            let most = Most::of(&self.config.limits, self.session_limits(stream));
            fill(most, queue, reserved, 0) == Fill::Low
        })
    }

    /// A message was put into a stream that is half full or more. Unless nobody takes from it, its publisher should slow down.
    #[cold]
    fn note_high(&mut self, stream: u64) {
        let last = match ids::owner(stream) {
            Owner::Session => {
                let session = self.state.sessions.get(stream);
                session.and_then(|session| session.lead.live.map(|live| live.taken_at))
            }
            Owner::Group => {
                let group = self.state.groups.get(stream);
                group.and_then(|group| group.lead.taken_at)
            }
        };
        if last.is_some_and(|at| self.lead.now.tick < at.after_ms(TAKING_MS)) {
            self.lead.pace = Pace::Slow;
        }
    }

    /// Says to the partition of a forward's publisher that it is faster than a session here.
    pub(crate) fn tell_slow(
        &self,
        from: PartitionId,
        session: Option<SessionUid>,
        fx: &mut impl PartitionEffects,
    ) {
        if let (Pace::Slow, Some(session)) = (self.lead.pace, session) {
            fx.send_partition(from, ToPartition::Slow { session });
        }
    }

    /// Another partition says so of a session of this one.
    pub(crate) fn slow_down(&self, session: SessionUid, fx: &mut impl PartitionEffects) {
        let session = self.state.sessions.get(session.0);
        if let Some(live) = session.and_then(|session| session.lead.live.as_ref()) {
            fx.slow_down(live.front);
        }
    }

    /// A stream with what is reserved in it.
    fn queue(&self, stream: u64) -> Option<(&Stream, Reserved)> {
        match ids::owner(stream) {
            Owner::Session => {
                let session = self.state.sessions.get(stream)?;
                Some((&session.stream, session.lead.reserved))
            }
            Owner::Group => {
                let group = self.state.groups.get(stream)?;
                Some((&group.stream, group.lead.reserved))
            }
        }
    }

    /// What the owner of a stream may use, beside what any may.
    fn session_limits(&self, stream: u64) -> SessionLimits {
        match ids::owner(stream) {
            Owner::Session => {
                let session = self.state.sessions.get(stream);
                session.map_or(SessionLimits::NONE, |session| session.lead.limits)
            }
            Owner::Group => SessionLimits::NONE,
        }
    }

    /// Reserves room for a message in a stream, if it has any. A stream that is gone has.
    #[inline]
    fn try_reserve(&mut self, stream: u64, bytes: u64) -> bool {
        let unbounded = self.is_planted(PlantedPartition::Unbounded);
        let limits = &self.config.limits;
        let Some((most, queue, reserved)) = queue_mut(limits, &mut self.state, stream) else {
            return true;
        };
        let fill = fill(most, queue, *reserved, bytes);
        if fill == Fill::Full && !unbounded {
            return false;
        }
        reserved.comes(bytes);
        let coming = &mut self.lead.streams.coming;
        if limits.overflow == Overflow::DropOldest || coming.is_noted() {
            coming.note(stream, bytes);
        }
        if fill == Fill::High {
            self.note_high(stream);
        }
        true
    }

    /// Reserves room in the streams of `targets` for a record of `bytes` bytes. None: all have room; otherwise those that had.
    #[inline]
    pub(crate) fn reserve(
        &mut self,
        targets: &[Target],
        bytes: u64,
        fx: &mut impl PartitionEffects,
    ) -> Option<Vec<Target>> {
        let without = targets
            .iter()
            .position(|target| !self.try_reserve(target.stream, bytes))?;
        self.reserve_some(targets, without, bytes, fx)
    }

    /// The rest of it, from the first stream on that has no room.
    #[cold]
    fn reserve_some(
        &mut self,
        targets: &[Target],
        without: usize,
        bytes: u64,
        fx: &mut impl PartitionEffects,
    ) -> Option<Vec<Target>> {
        let mut fitting = targets[..without].to_vec();
        for target in &targets[without..] {
            let stream = target.stream;
            let fits = self.try_reserve(stream, bytes)
                || (self.make_room(stream, bytes, fx) && self.try_reserve(stream, bytes));
            if fits {
                fitting.push(target.clone());
            } else {
                fx.dropped(Dropped::QueueFull, 1);
            }
        }
        (fitting.len() < targets.len()).then_some(fitting)
    }

    /// Drops the oldest messages that were never sent until `bytes` fit, if that is the policy: first those in the stream, then those on their
    /// way into it, so that of a burst the last ones remain. False: they do not fit.
    fn make_room(&mut self, stream: u64, bytes: u64, fx: &mut impl PartitionEffects) -> bool {
        match self.config.limits.overflow {
            Overflow::DropNewest | Overflow::RefusePublisher => return false,
            Overflow::DropOldest => {}
        }
        // What fits no empty stream makes no room: all that waits would go for nothing.
        let most = Most::of(&self.config.limits, self.session_limits(stream));
        if most.messages == 0 || bytes > most.bytes {
            return false;
        }
        if self.is_kept_out(stream, bytes, most) {
            return false;
        }
        while self.is_full(stream, bytes) {
            match self.oldest_droppable(stream) {
                Some(seq) => self.doom(stream, seq, Fate::Dropped),
                None if self.doom_coming(stream) => {}
                None => return false,
            }
            fx.dropped(Dropped::QueueFull, 1);
        }
        true
    }

    /// Whether the bytes of a message fit not even where all is dropped that may be: what stays leaves too little room. What comes and has no
    /// known size, which is so for a moment after the policy has changed, counts as what may be dropped.
    fn is_kept_out(&mut self, stream: u64, bytes: u64, most: Most) -> bool {
        let oldest = self.oldest_droppable(stream);
        let Some((queue, reserved)) = self.queue(stream) else {
            return false;
        };
        let queued = queue.bytes().saturating_add_signed(reserved.bytes);
        let oldest = oldest.and_then(|seq| queue.get(seq));
        let freed = oldest.map_or(0, |it| u64::from(self.state.records.len_of(it.slot)));
        let Some(below) = self.stays_below(stream) else {
            return false;
        };
        if (queued + bytes).saturating_sub(freed) <= most.bytes {
            return false;
        }
        let mut passed = self.passed(stream);
        let staying = passed.staying_below(below, || self.count_staying(stream, below));
        self.lead.streams.passed.insert(stream, passed);
        staying.bytes + bytes > most.bytes
    }

    /// Above it all messages of a stream may be dropped.
    fn stays_below(&self, stream: u64) -> Option<u64> {
        let from = self.droppable_from(stream)?;
        Some(match ids::owner(stream) {
            Owner::Session => from,
            Owner::Group => {
                let group = self.state.groups.get(stream)?;
                let dispatch = group.lead.dispatch.as_ref();
                dispatch.map_or(from, |it| from.max(it.begun_below().0))
            }
        })
    }

    fn count_staying(&self, stream: u64, below: u64) -> Staying {
        let mut bytes = 0;
        let from = self.droppable_from(stream).unwrap_or(below);
        if let Some((queue, _)) = self.queue(stream) {
            let live = queue.iter().take_while(|(seq, _)| *seq < below);
            for (seq, reference) in live {
                let is_doomed = self.lead.streams.doomed.contains(&(stream, seq));
                if !is_doomed && (seq < from || self.is_begun(stream, seq)) {
                    bytes += u64::from(self.state.records.len_of(reference.slot));
                }
            }
        }
        Staying { below, bytes }
    }

    /// Where what may be dropped of a stream begins.
    fn droppable_from(&self, stream: u64) -> Option<u64> {
        let (queue, _) = self.queue(stream)?;
        Some(match ids::owner(stream) {
            Owner::Session if self.is_planted(PlantedPartition::DroppedUnderWay) => queue.floor(),
            Owner::Session => {
                let session = self.state.sessions.get(stream)?;
                let from = session.sent_below().max(queue.floor());
                // What is on its way out of the log is as good as under way: else those who lag would never get anything.
                from.max(self.asked_to(stream))
            }
            Owner::Group => queue.floor().max(self.asked_to(stream)),
        })
    }

    fn passed(&self, stream: u64) -> Passed {
        let passed = self.lead.streams.passed.get(&stream);
        passed.copied().unwrap_or_default()
    }

    fn oldest_droppable(&mut self, stream: u64) -> Option<u64> {
        let from = self.droppable_from(stream)?;
        let (queue, _) = self.queue(stream)?;
        let planted = self.is_planted(PlantedPartition::DroppedUnderWay);
        let mut passed = self.passed(stream);
        let stays = |seq| {
            let is_begun = !planted && self.is_begun(stream, seq);
            is_begun || self.lead.streams.doomed.contains(&(stream, seq))
        };
        let found = passed.next_droppable(from, |seq| queue.next_live(seq), stays);
        self.lead.streams.passed.insert(stream, passed);
        found
    }

    /// Whether somebody has a message, has begun an exchange for it or has finished it: it stays (M30).
    pub(crate) fn is_begun(&self, stream: u64, seq: u64) -> bool {
        match ids::owner(stream) {
            Owner::Session => {
                let session = self.state.sessions.get(stream);
                session.is_some_and(|session| session.is_owed(seq))
            }
            Owner::Group => self.state.groups.get(stream).is_some_and(|group| {
                group
                    .lead
                    .dispatch
                    .as_ref()
                    .is_some_and(|d| !d.waits(Seq(seq)))
            }),
        }
    }

    /// Proposes the end of a message that was not sent.
    pub(crate) fn doom(&mut self, stream: u64, seq: u64, fate: Fate) {
        let reference = self.queue(stream).and_then(|(queue, _)| queue.get(seq));
        let Some(reference) = reference else {
            return;
        };
        if !self.lead.streams.doomed.insert((stream, seq)) {
            return;
        }
        let bytes = self.state.records.len_of(reference.slot);
        let limits = &self.config.limits;
        if let Some((_, _, reserved)) = queue_mut(limits, &mut self.state, stream) {
            reserved.dooms(bytes);
        }
        self.write_end(stream, seq, fate);
    }

    /// Proposes to drop the oldest message that is on its way into a stream: it ends as soon as it is there, and goes to nobody. It was never
    /// sent, whatever counts as sent after a restart (M30). False: there is none that may be dropped.
    fn doom_coming(&mut self, stream: u64) -> bool {
        let limits = &self.config.limits;
        let Some((_, queue, reserved)) = queue_mut(limits, &mut self.state, stream) else {
            return false;
        };
        let coming = &mut self.lead.streams.coming;
        let Some(seq) = coming.drop_oldest(stream, queue.next(), reserved) else {
            return false;
        };
        let is_new = self.lead.streams.doomed.insert((stream, seq));
        debug_assert!(is_new, "what is proposed to end is not dropped again");
        self.write_end(stream, seq, Fate::Dropped);
        true
    }

    fn write_end(&mut self, stream: u64, seq: u64, fate: Fate) {
        let fact = OutcomeFact {
            stream,
            first: seq,
            last: seq,
            fate,
            sent_limit: 0,
        };
        fact.write(&mut self.gather, Haste::Now);
    }
}

/// A stream with what is reserved in it, and the most that may wait there.
#[inline]
fn queue_mut<'a>(
    limits: &Limits,
    state: &'a mut State,
    stream: u64,
) -> Option<(Most, &'a Stream, &'a mut Reserved)> {
    match ids::owner(stream) {
        Owner::Session => {
            let session = state.sessions.get_mut(stream)?;
            let most = Most::of(limits, session.lead.limits);
            Some((most, &session.stream, &mut session.lead.reserved))
        }
        Owner::Group => {
            let group = state.groups.get_mut(stream)?;
            let most = Most::of(limits, SessionLimits::NONE);
            Some((most, &group.stream, &mut group.lead.reserved))
        }
    }
}

/// Messages of a stream, with those that come and without those that are to end.
#[inline]
fn waiting(queue: &Stream, reserved: Reserved) -> i64 {
    i64::from(queue.live()) + i64::from(reserved.messages)
}

/// Whether a message takes a retained one away and stays nowhere itself: that gives room.
#[cold]
fn clears_only(append: &Append<'_>, stored: &[Target], view: &RecordView<'_>) -> bool {
    append.keep_retained && view.payload.is_empty() && stored.is_empty()
}

/// The most that may wait in one stream.
#[derive(Clone, Copy, Debug)]
struct Most {
    messages: u32,
    bytes: u64,
}

impl Most {
    #[inline]
    fn of(any: &Limits, own: SessionLimits) -> Self {
        let own_bytes = match own.queued_bytes_max {
            u32::MAX => u64::MAX,
            bytes => bytes.into(),
        };
        Self {
            messages: any.queue_messages_max.min(own.queued_messages_max),
            bytes: any.queue_bytes_max.min(own_bytes),
        }
    }
}

/// How full a stream is before a message of `bytes` bytes. An empty one that takes it is not filled by its publisher, however little may
/// wait there.
#[inline]
fn fill(most: Most, queue: &Stream, reserved: Reserved, bytes: u64) -> Fill {
    let messages = waiting(queue, reserved);
    let queued = queue.bytes().saturating_add_signed(reserved.bytes);
    let messages_max = i64::from(most.messages);
    if messages < messages_max / 2 && queued + bytes <= most.bytes / 2 {
        Fill::Low
    } else if messages >= messages_max || queued + bytes > most.bytes {
        Fill::Full
    } else if messages <= 0 {
        Fill::Low
    } else {
        Fill::High
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_stream_is_low_where_one_message_is_all_that_may_wait() {
        let filled = |messages, most_bytes, waiting: (i32, i64)| {
            let most = Most {
                messages,
                bytes: most_bytes,
            };
            let reserved = Reserved::of(waiting.0, waiting.1);
            fill(most, &Stream::default(), reserved, 100)
        };
        assert_eq!(filled(1, 1_000, (0, 0)), Fill::Low);
        assert_eq!(filled(1, 1_000, (1, 100)), Fill::Full);
        assert_eq!(filled(2, 1_000, (1, 100)), Fill::High);
        assert_eq!(filled(9, 150, (0, 0)), Fill::Low);
        assert_eq!(filled(9, 99, (0, 0)), Fill::Full);
        assert_eq!(filled(9, 200, (1, 100)), Fill::High);
        assert_eq!(filled(9, 1_000, (1, 100)), Fill::Low);
        assert_eq!(filled(9, 1_000, (4, 400)), Fill::High);
    }
}
