//! Room for more, and the reserve (M47).

use super::Log;
use crate::{config::Planted, disk::Disk};

/// A shortage ends with so many segments above the reserve.
const ENDS_SHORTAGE: u32 = 2;

/// Whether new messages may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceState {
    /// Yes.
    Enough,
    /// What is left is the reserve: for results, votes, releases and acknowledgements. Ends by itself once a segment more
    /// than that is there again.
    Low,
}

/// Room for more, as it was when a segment was last begun, made ready or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes in segments that are ready or hold nothing.
    pub ready_bytes: u64,
    /// Bytes that the disk has besides, without those that are left to checkpoints. None while it has no room for a segment all the same: a
    /// quota, or a file system whose metadata is full, shows nowhere else.
    pub free_bytes: u64,
    /// What follows from both.
    pub state: SpaceState,
}

impl<D: Disk> Log<D> {
    /// Room for more. Cheap: [`Log::refresh_space`] asks the disk.
    #[must_use]
    pub const fn space(&self) -> Space {
        self.space
    }

    /// Bytes of the segment that is written into which batches still go.
    #[must_use]
    pub const fn left_in_segment(&self) -> u64 {
        self.active.bytes - self.active.offset
    }

    /// Bytes of records that have room before the reserve has to pay for them; 0 while room is short. A batch that does not fit into what is
    /// left of a segment leaves that unused, at most a quarter (M45). Half a segment is for what batches take besides.
    #[must_use]
    pub fn above_reserve(&self) -> u64 {
        let segment = self.config.segment_bytes();
        let there = match self.space.state {
            SpaceState::Enough => self.space.ready_bytes.saturating_add(self.space.free_bytes),
            SpaceState::Low => return 0,
        };
        let reserve = u64::from(self.config.reserve_segments) * segment;
        let above = there.saturating_add(self.left_in_segment());
        let above = above.saturating_sub(reserve + segment / 2);
        above - above / 4
    }

    /// Bytes of the disk that segments take: those with batches, those that are ready, those that hold nothing and those that are to be removed, each
    /// of the size that it was made with.
    #[must_use]
    pub fn segments_bytes(&self) -> u64 {
        let written = self.segments.values().map(|segment| segment.bytes);
        let ready = self.ready.iter().map(|ready| ready.bytes);
        // Only files of the present size are used again.
        let free = self.free.len() as u64 * self.config.segment_bytes();
        let going = self.unwanted.iter().chain(&self.stuck);
        let going = going.map(|file| file.bytes);
        written.chain(ready).chain(going).sum::<u64>() + free + self.leaving_bytes
    }

    /// Whether there are files that could not be removed. They are tried again with each segment that is begun and each [`Log::refresh_space`].
    #[must_use]
    pub fn has_stuck(&self) -> bool {
        !self.stuck.is_empty()
    }

    /// Asks the disk for its room. Done by the log whenever a segment changes hands; call it now and then so that space that
    /// others freed or took is seen. A disk that does not answer counts as full.
    pub fn refresh_space(&mut self) -> Space {
        self.prepare_blocked = false;
        self.remove_blocked = false;
        self.measure_space()
    }

    /// Leaves so many bytes of the disk to checkpoints: no segment is made of them. A log that has taken the last block of a disk
    /// gets none back, since what frees segments is a checkpoint. 0 until this is called.
    pub const fn leave_free(&mut self, bytes: u64) {
        self.left_free = bytes;
    }

    /// Whether a segment that is made anew leaves what is to be left, as far as the disk says.
    pub(crate) fn has_room_for_one(&mut self) -> bool {
        let space = self.measure_space();
        let free_bytes = match self.gives_none {
            true => self.said_to_be_free(),
            false => space.free_bytes,
        };
        free_bytes >= self.config.segment_bytes()
    }

    /// Segments that are to be ready. Of a disk that has given none so many that it is asked until it gives one: enough of them end a shortage.
    pub(crate) const fn segments_wanted(&self) -> u32 {
        let (ahead, reserve) = (self.config.ahead_segments, self.config.reserve_segments);
        match self.gives_none && ahead < ENDS_SHORTAGE {
            true => reserve + ENDS_SHORTAGE,
            false => reserve + ahead,
        }
    }

    /// Bytes of the disk that are free, without those that are left to checkpoints.
    fn said_to_be_free(&self) -> u64 {
        let free_bytes = self.disk.free_bytes().unwrap_or(0);
        free_bytes.saturating_sub(self.left_free)
    }

    pub(crate) fn measure_space(&mut self) -> Space {
        let segment = self.config.segment_bytes();
        let held = (self.ready.len() + self.free.len()) as u64;
        let ready_bytes = held * segment;
        let free_bytes = match self.gives_none {
            true => 0,
            false => self.said_to_be_free(),
        };
        let there = ready_bytes.saturating_add(free_bytes);
        let reserve = u64::from(self.config.reserve_segments) * segment;
        let enough = match self.space.state {
            SpaceState::Enough => reserve + segment,
            SpaceState::Low if self.config.has(Planted::LowForEver) => u64::MAX,
            SpaceState::Low => reserve + u64::from(ENDS_SHORTAGE) * segment,
        };
        self.space = Space {
            ready_bytes,
            free_bytes,
            state: if there >= enough {
                SpaceState::Enough
            } else {
                SpaceState::Low
            },
        };
        self.space
    }
}
