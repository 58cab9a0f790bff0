//! Connections at once, of which those that nobody asks anything on make room.
//!
//! Invariants:
//! - no more connections have a seat than there are;
//! - a connection with a request under way, until its answer has been taken, is closed for nobody;
//! - requests that may take their time are never under way on all of them: an eighth of the seats is for the others;
//! - of the others the one goes first on which nothing was asked or answered for longest: one that never said anything among them.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// One seat of so many has never a request that may take its time.
const KEPT_ONE_OF: usize = 8;

/// How long a request may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// It waits for nobody, and whoever asks neither.
    Moments,
    /// As long as whoever asks takes to send its body, or shards to answer.
    ItsTime,
}

/// All seats of one kind.
#[derive(Debug)]
pub(crate) struct Seats {
    free: Arc<Semaphore>,
    /// For requests that may take their time.
    work: Arc<Semaphore>,
    idle: Mutex<Idle>,
    /// Somebody may make room now.
    became_idle: Notify,
}

#[derive(Debug, Default)]
struct Idle {
    next: u64,
    /// Those on which nothing is under way, the longest idle first, and how each is told to go.
    since: BTreeMap<u64, Arc<Notify>>,
}

/// That of one connection, until it and all [`UnderWay`] of it are dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    go: Arc<Notify>,
    /// Its number among the idle ones.
    idle: Mutex<Option<u64>>,
    _taken: OwnedSemaphorePermit,
}

/// A request is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    seat: Arc<Seat>,
    _work: Option<OwnedSemaphorePermit>,
}

impl Seats {
    pub(crate) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(count)),
            work: Arc::new(Semaphore::new(count - count / KEPT_ONE_OF)),
            idle: Mutex::default(),
            became_idle: Notify::new(),
        })
    }

    /// A seat for a connection that is there. When there is none, the one goes that was idle for longest; when all have requests under
    /// way, the first that has none any more.
    pub(crate) async fn take(self: &Arc<Self>) -> Arc<Seat> {
        let mut taken = Arc::clone(&self.free).try_acquire_owned().ok();
        while taken.is_none() {
            let mut became_idle = std::pin::pin!(self.became_idle.notified());
            became_idle.as_mut().enable();
            let free = Arc::clone(&self.free).acquire_owned();
            taken = if self.send_longest_idle() {
                free.await.ok()
            } else {
                tokio::select! {
                    free = free => free.ok(),
                    () = became_idle => None,
                }
            };
        }
        let seat = Arc::new(Seat {
            seats: Arc::clone(self),
            go: Arc::new(Notify::new()),
            idle: Mutex::new(None),
            _taken: taken.expect("the semaphore is never closed"),
        });
        seat.rest();
        seat
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the longest idle one to go; false when there is none.
    fn send_longest_idle(&self) -> bool {
        let longest = self.idle().since.pop_first();
        if let Some((_, go)) = &longest {
            go.notify_one();
        }
        longest.is_some()
    }
}

impl Seat {
    /// A request begins.
    ///
    /// # Errors
    /// When it may take its time and as many do as may at once: only the answer that says so may be under way then.
    pub(crate) fn begin(self: &Arc<Self>, takes: Takes) -> Result<UnderWay, UnderWay> {
        self.stir();
        let under_way = |work| UnderWay {
            seat: Arc::clone(self),
            _work: work,
        };
        match takes {
            Takes::Moments => Ok(under_way(None)),
            Takes::ItsTime => match Arc::clone(&self.seats.work).try_acquire_owned() {
                Ok(work) => Ok(under_way(Some(work))),
                Err(_) => Err(under_way(None)),
            },
        }
    }

    /// Comes when it is to make room for another one.
    pub(crate) async fn told_to_go(&self) {
        self.go.notified().await;
    }

    /// Nothing is under way any more.
    fn rest(&self) {
        let mut idle = self.seats.idle();
        let number = idle.next;
        idle.next += 1;
        idle.since.insert(number, Arc::clone(&self.go));
        drop(idle);
        *self.number() = Some(number);
        self.seats.became_idle.notify_one();
    }

    fn stir(&self) {
        if let Some(number) = self.number().take() {
            self.seats.idle().since.remove(&number);
        }
    }

    fn number(&self) -> MutexGuard<'_, Option<u64>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.stir();
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.seat.rest();
    }
}

/// The body of an answer, whose request is under way until it has been taken.
pub(crate) struct Answer {
    pub(crate) body: Body,
    pub(crate) _under_way: UnderWay,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(future)
    }

    fn begin(seat: &Arc<Seat>) -> UnderWay {
        seat.begin(Takes::ItsTime).expect("there is room")
    }

    /// Whether it is told to go.
    async fn goes(seat: &Seat) -> bool {
        tokio::select! {
            biased;
            () = seat.told_to_go() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[test]
    fn the_one_that_was_idle_for_longest_makes_room() {
        block_on(async {
            let seats = Seats::new(3);
            let (first, second, third) =
                (seats.take().await, seats.take().await, seats.take().await);
            drop(begin(&first));
            let (fourth, ()) = tokio::join!(seats.take(), async {
                // Nothing was ever asked on it.
                second.told_to_go().await;
                drop(second);
            });
            assert!(!goes(&first).await && !goes(&third).await);
            let (_fifth, ()) = tokio::join!(seats.take(), async {
                third.told_to_go().await;
                drop(third);
            });
            assert!(!goes(&first).await && !goes(&fourth).await);
        });
    }

    #[test]
    fn a_request_that_is_under_way_is_waited_for() {
        block_on(async {
            let seats = Seats::new(2);
            let (first, second) = (seats.take().await, seats.take().await);
            let (busy, busier) = (begin(&first), begin(&second));
            let ((), _third) = tokio::join!(
                async {
                    assert!(!goes(&first).await && !goes(&second).await);
                    tokio::task::yield_now().await;
                    assert!(!goes(&first).await && !goes(&second).await);
                    drop(busier);
                    // It has been answered.
                    second.told_to_go().await;
                    drop(second);
                },
                seats.take(),
            );
            assert!(!goes(&first).await);
            drop(busy);
        });
    }

    #[test]
    fn requests_that_take_their_time_leave_seats_to_the_others() {
        block_on(async {
            let seats = Seats::new(2 * KEPT_ONE_OF);
            let mut taken = Vec::new();
            for _ in 0..2 * KEPT_ONE_OF {
                taken.push(seats.take().await);
            }
            let mut slow: Vec<_> = taken
                .iter()
                .map(|seat| seat.begin(Takes::ItsTime))
                .collect();
            let refused = slow.iter().filter(|slow| slow.is_err()).count();
            assert_eq!(refused, 2);
            // They have been told so; whoever comes next has the seat of one of them.
            slow.retain(Result::is_ok);
            let (next, ()) = tokio::join!(seats.take(), async {
                let last = taken.remove(2 * KEPT_ONE_OF - 2);
                last.told_to_go().await;
            });
            assert!(next.begin(Takes::Moments).is_ok());
            assert!(next.begin(Takes::ItsTime).is_err());
            slow.pop();
            assert!(next.begin(Takes::ItsTime).is_ok());
        });
    }

    #[test]
    fn places_of_connections_that_end_are_free() {
        block_on(async {
            let seats = Seats::new(1);
            for _ in 0..3 {
                let seat = seats.take().await;
                drop(begin(&seat));
                drop(seat);
            }
            assert!(seats.idle().since.is_empty(), "nothing is kept of them");
        });
    }
}
