//! The only place that reads clocks.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use courser_contract::{Now, Tick, WallMs};
use courser_engine::WallClock;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Sleep, sleep_until};

use crate::latency::Moment;

/// Milliseconds since the broker's start, and of the day. All shards of a process share the beginning; the time of the day is that of
/// the system without its jumps (M6).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    wall: WallClock,
    /// When it was asked last.
    last: Moment,
    /// Whether it was said that the system's clock is not followed.
    said: bool,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            wall: WallClock::new(Tick(0), system()),
            last: Moment::default(),
            said: false,
        }
    }
}

/// What the system says, with its jumps.
pub(crate) fn system() -> WallMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    WallMs(milliseconds(since.unwrap_or_default()))
}

/// Seconds since 1970 by the system's clock; before that it is 1970.
pub(crate) fn unix_seconds() -> u64 {
    system().0 / 1_000
}

/// Microseconds of CPU that the calling thread has used.
pub(crate) fn thread_cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1_000
}

impl Clock {
    /// This moment. Two calls of the vDSO.
    #[must_use]
    pub(crate) fn now(&mut self) -> Now {
        let since = self.start.elapsed();
        self.last = moment(since);
        let tick = Tick(milliseconds(since));
        let wall = self.wall.read(tick, system());
        Now { tick, wall }
    }

    /// The same moment as the last [`now`](Self::now), finer.
    pub(crate) const fn last(&self) -> Moment {
        self.last
    }

    /// This moment without the time of the day. One call of the vDSO.
    pub(crate) fn tick(&self) -> Tick {
        Tick(milliseconds(self.start.elapsed()))
    }

    /// This moment, finer. One call of the vDSO.
    pub(crate) fn moment(&self) -> Moment {
        moment(self.start.elapsed())
    }

    /// Entries were written up to this moment: it is not earlier now.
    pub(crate) fn begin_at(&mut self, last: WallMs) {
        self.wall.begin_at(last);
    }

    /// How far the system's clock is away, once each time that it is too far to be followed. Milliseconds.
    #[inline]
    pub(crate) fn news(&mut self) -> Option<u64> {
        let apart = self.wall.apart_ms();
        if apart.is_some() == self.said {
            return None;
        }
        self.said = apart.is_some();
        apart
    }

    fn instant(&self, tick: Tick) -> Instant {
        self.start + Duration::from_millis(tick.0)
    }
}

fn moment(since: Duration) -> Moment {
    let seconds = since.as_secs() as u32;
    Moment(
        seconds
            .wrapping_mul(1_000_000)
            .wrapping_add(since.subsec_micros()),
    )
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Wakes a shard's task at the earliest deadline of its wheel. It is set again only when that must be earlier.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    set: Option<Tick>,
}

/// Deadlines further away are looked at again after this many milliseconds.
const SLEEP_MS_MAX: u64 = 24 * 3600 * 1000;

impl Alarm {
    /// Wakes the task of `context` at `deadline`, if there is one.
    pub(crate) fn set(
        &mut self,
        deadline: Option<Tick>,
        now: Tick,
        clock: &Clock,
        context: &mut Context<'_>,
    ) {
        let Some(deadline) = deadline else { return };
        let deadline = deadline.min(now.after_ms(SLEEP_MS_MAX));
        if self.set.is_some_and(|set| set > now && set <= deadline) {
            return;
        }
        // A millisecond later, so that the deadline has passed by the shard's clock when it wakes.
        let instant = clock.instant(deadline.after_ms(1)).into();
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(sleep_until(instant)));
        sleep.as_mut().reset(instant);
        self.set = Some(deadline);
        if sleep.as_mut().poll(context).is_ready() {
            self.set = None;
            context.waker().wake_by_ref();
        }
    }
}
