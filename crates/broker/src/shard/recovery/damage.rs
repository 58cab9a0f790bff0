//! What a shard does about damage. At its start partitions are set aside, accepted losses become facts, and what stays stopped is
//! said (M39, M44, M50); later, which streams stop at records that are found to be lost, in the same words.

use courser_cluster::Restored;
use courser_contract::{Dropped, LogIndex, PartitionId, Tick};
use courser_engine::{AsideFilters, LostReference};

use super::making::MadeFor;
use crate::repair::judge::Serves;
use crate::repair::state::{SetAside, StoppedStream, by_stream};
use crate::repair::{Accepted, Fault};
use crate::shard::Shard;
use crate::shard::timers::Timer;

/// Streams of one partition that are named in the log of the process.
const TOLD_MAX: usize = 20;
/// How soon it is said what has stopped, in milliseconds: records of one damage are lost one after the other, and each time that it is
/// said is a walk over all that a partition stores, over so many turns as it takes.
const TELL_MS: u64 = 250;
/// Places of one turn of that walk: some 100 µs.
const SEARCHED_AT_ONCE: usize = 4_096;

/// What is wrong with a partition, or was.
#[derive(Debug)]
pub(crate) enum Damaged {
    /// It is set aside.
    Aside(Fault, AsideFilters),
    /// It serves: losses that were accepted, and entries that are not applied.
    Serves(Serves),
}

impl Shard {
    /// Takes note that a partition begins with nothing, behind an entry.
    pub(super) fn note_begun(&self, id: PartitionId, behind: Option<LogIndex>) {
        if let Some(index) = behind {
            tracing::warn!(event = "state_lost", partition = id.0, index = index.0);
            let accepted = Accepted::State(id, index);
            self.hub.disk_state().damage().accepted(accepted);
        }
    }

    /// Takes note of the loss without which a partition goes on.
    pub(super) fn note_accepted(&mut self, id: PartitionId, serves: &Serves) {
        if let Some(lost) = serves.accepted {
            let (damage, messages) = (lost.to_string(), lost.behind.messages);
            tracing::warn!(event = "entries_lost", partition = id.0, damage, messages);
            self.hub.counters.drop_messages(Dropped::Damaged, messages);
            let accepted = Accepted::Entries(id, damage);
            self.hub.disk_state().damage().accepted(accepted);
        }
    }

    /// Takes note of what is wrong with a partition that is made. What its group is made of, unless it is set aside.
    pub(super) fn note_damage(&mut self, place: usize, fate: MadeFor) -> Option<Restored> {
        let id = self.partitions.at(place).id;
        match fate {
            MadeFor::Aside(fault, filters) => {
                if let Some(checkpoints) = &mut self.checkpoints {
                    checkpoints.exclude(place);
                }
                self.partitions.at(place).damaged = Some(Box::new(Damaged::Aside(fault, filters)));
                None
            }
            MadeFor::Group(restored, serves) => {
                self.note_accepted(id, &serves);
                let has_lost = self.partitions.at(place).has_lost_records();
                if has_lost || !serves.skips.is_empty() {
                    let damaged = Damaged::Serves(serves);
                    self.partitions.at(place).damaged = Some(Box::new(damaged));
                }
                Some(restored)
            }
        }
    }

    /// Partitions that are set aside say so to L1 and to others; that comes in before any CONNECT is taken.
    pub(super) fn set_partitions_aside(&mut self) {
        for place in 0..self.partitions.len() {
            let owned = self.partitions.at(place);
            let id = owned.id;
            let Some(Damaged::Aside(fault, filters)) = owned.damaged.as_deref() else {
                continue;
            };
            let (fault, filters) = (fault.clone(), *filters);
            let aside = self.with_partition(id, |it, now, fx| {
                it.set_aside(now, filters, fx);
                let counts = it.counts();
                SetAside {
                    partition: id,
                    fault,
                    filters,
                    applied: it.applied(),
                    sessions: counts.sessions,
                    retained: counts.retained_messages,
                    queued: counts.queued_messages,
                }
            });
            tracing::error!(event = "set_aside", partition = id.0, why = %aside.fault);
            self.hub.disk_state().damage().set_aside(aside);
        }
    }

    /// All partitions of the shard serve or are set aside: what was accepted is written, and what has stopped is said.
    pub(super) fn settle_damage(&mut self) {
        for place in 0..self.partitions.len() {
            let owned = self.partitions.at(place);
            let id = owned.id;
            let Some(Damaged::Serves(serves)) = owned.damaged.as_deref() else {
                continue;
            };
            let accepted = serves.records.clone();
            let is_accepted = |index: LogIndex| {
                let mut ranges = accepted.iter();
                ranges.any(|(first, last)| (*first..=*last).contains(&index))
            };
            let all = self.with_partition(id, |it, _, _| it.lost());
            let gone = self.with_partition(id, |it, now, fx| it.accept_loss(now, is_accepted, fx));
            let left: Vec<LostReference> = all
                .into_iter()
                .filter(|lost| gone.binary_search(lost).is_err())
                .collect();
            self.tell_gone(id, &gone);
            self.tell_stopped(id, &left);
            let losses = self.with_partition(id, |it, _, _| it.losses());
            self.partitions.at(place).told_losses = losses;
            if !left.is_empty() {
                self.watch_losses();
            }
        }
    }

    /// From now on it is looked at what has stopped, for as long as something has.
    pub(in crate::shard) fn watch_losses(&mut self) {
        self.watch_losses_from(self.hub.now.tick.after_ms(TELL_MS));
    }

    fn watch_losses_from(&mut self, due: Tick) {
        if let Some(recalls) = &mut self.recalls
            && !std::mem::replace(&mut recalls.watches_losses, true)
        {
            self.timers.insert(due, Timer::LOSSES);
        }
    }

    /// Says what has stopped, and what goes on again, of the first partition where that is new.
    pub(in crate::shard) fn losses_timeout(&mut self) {
        if let Some(recalls) = &mut self.recalls {
            recalls.watches_losses = false;
        }
        let mut watches_on = false;
        for place in 0..self.partitions.len() {
            let owned = self.partitions.at(place);
            let (id, told) = (owned.id, owned.told_losses);
            if matches!(owned.damaged.as_deref(), Some(Damaged::Aside(..))) {
                continue;
            }
            watches_on |= owned.has_lost_records();
            let losses = owned.partition.as_ref().map_or(told, |it| it.losses());
            if losses != told {
                watches_on = true;
                let found = self.with_partition(id, |it, _, _| it.search_lost(SEARCHED_AT_ONCE));
                let Some((losses, lost)) = found else {
                    return self.watch_losses_from(self.hub.now.tick.after_ms(1));
                };
                self.partitions.at(place).told_losses = losses;
                self.tell_stopped(id, &lost);
                break;
            }
        }
        if watches_on {
            self.watch_losses();
        }
    }

    fn tell_gone(&self, id: PartitionId, gone: &[LostReference]) {
        for (at, (stream, _, records)) in by_stream(gone).enumerate() {
            if at < TOLD_MAX {
                tracing::warn!(event = "loss_accepted", partition = id.0, %stream, records);
            }
            let accepted = Accepted::Records(id, stream, records);
            self.hub.disk_state().damage().accepted(accepted);
        }
    }

    fn tell_stopped(&self, id: PartitionId, left: &[LostReference]) {
        let news = self.hub.disk_state().damage().stopped(id, left);
        for stopped in news.iter().take(TOLD_MAX) {
            let StoppedStream {
                stream,
                position,
                records,
                ..
            } = stopped;
            tracing::error!(event = "stream_stopped", partition = id.0, %stream, position, records);
        }
    }
}
