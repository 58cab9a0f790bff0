//! What answers of the API hold, and imports: bounded for all of them together, so that readers that do not read, and those who send without
//! an end, fill no memory.
//!
//! Invariants:
//! - all answers over TCP that are made or wait to be read hold no more than a part of 32 of `memory.max`, and one that is larger is alone; those
//!   over the socket have as much of their own, so that whoever has the machine is never shut out by others;
//! - over TCP the answers of one principal leave room for those of another: one question of it is made at once, and none while those that it has not
//!   read hold a quarter of the room;
//! - over TCP one principal has no more changes under way at once than [`CHANGES_MAX`], a quarter of the seats: a body may come slowly;
//! - an answer counts until its last byte is with the system, or its connection has ended;
//! - no more questions wait for room than [`WAITING_MAX`], and none longer than [`WAIT_MAX`]: seats of connections are for others too.
//!
//! Imports have as much room of their own, which one takes before a byte of it is read and until it is done: what it may say that it brings,
//! four times.
//!
//! Health and `/metrics`, which are small, need no room, nor does whatever else changes something.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::AppState;
use crate::access::{Caller, Principal};
use crate::error::{ApiError, Code};

/// What an answer may hold while it is made, in pages: rows, twice as many where they are sorted, and their JSON.
const PAGES: usize = 4;
/// What an import may hold, in lengths of its body: the body, its table, the copy that is proposed, and its entry.
const IMPORT_PARTS: usize = 4;
/// Bytes of the least and the largest page.
const PAGE_BYTES: (u64, u64) = (64 * 1024, 4 * 1024 * 1024);
/// Most bytes of all: there need be no more.
const ALL_BYTES_MAX: u64 = 1 << 30;
/// How long a question waits for room.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// How many wait at once.
const WAITING_MAX: usize = 8;
/// Changes of one principal that are under way at once.
const CHANGES_MAX: usize = 16;
/// The part of the room from which on one principal has to read first.
const SHARE: u32 = 4;
/// What room is counted in.
const UNIT: usize = 1024;

/// Bytes of JSON from which on a page ends: a part of 256 of `memory.max`, from 64 KiB to 4 MiB.
pub(crate) fn page_bytes(memory_max: u64) -> usize {
    let bytes = (memory_max / 256).clamp(PAGE_BYTES.0, PAGE_BYTES.1);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Room for answers.
#[derive(Debug)]
pub(crate) struct Answers {
    free: Arc<Semaphore>,
    /// All of it, in [`UNIT`]s.
    all: u32,
    /// What one takes while it is made.
    making: u32,
    waiting: Semaphore,
    /// Who has answers, or asks: no more of them than there are connections.
    askers: Mutex<HashMap<String, Arc<Asker>>>,
}

/// Room for answers over TCP, for those over the socket, and for imports, wherever they come from.
#[derive(Debug)]
pub(crate) struct Rooms {
    network: Arc<Answers>,
    socket: Arc<Answers>,
    imports: Arc<Semaphore>,
}

impl Rooms {
    pub(crate) fn new(memory_max: u64) -> Arc<Self> {
        let network = Answers::new(memory_max);
        Arc::new(Self {
            imports: Arc::new(Semaphore::new(network.all as usize)),
            network,
            socket: Answers::new(memory_max),
        })
    }

    /// Room for an import whose body has so many bytes.
    ///
    /// # Errors
    /// [`Code::NoMemory`] where others have it for longer than somebody waits.
    pub(crate) async fn import_room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        let units = units(bytes.saturating_mul(IMPORT_PARTS)).min(self.network.all);
        let none = "imports hold as much memory as they may";
        self.network.room_of(&self.imports, units, none).await
    }
}

/// What one principal has of the room.
#[derive(Debug)]
struct Asker {
    /// For one question at once.
    turn: Arc<Semaphore>,
    waiting: Semaphore,
    changes: Semaphore,
    /// Of answers that it has not read yet, in [`UNIT`]s.
    held: AtomicU32,
    read: Notify,
}

impl Asker {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            turn: Arc::new(Semaphore::new(1)),
            waiting: Semaphore::new(WAITING_MAX),
            changes: Semaphore::new(CHANGES_MAX),
            held: AtomicU32::new(0),
            read: Notify::new(),
        })
    }

    /// Its turn, once the answers that it has not read hold less than `share`, if that is soon.
    async fn turn(self: &Arc<Self>, share: u32) -> Result<OwnedSemaphorePermit, ApiError> {
        let none = || {
            ApiError::new(
                Code::NoMemory,
                "answers that were not read yet hold the share of who asks",
            )
        };
        let _waits = self.waiting.try_acquire().map_err(|_| none())?;
        let turn = async {
            let turn = Arc::clone(&self.turn).acquire_owned().await;
            while self.held.load(Ordering::Relaxed) >= share {
                self.read.notified().await;
            }
            turn
        };
        match timeout(WAIT_MAX, turn).await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(_)) | Err(_) => Err(none()),
        }
    }
}

/// What an answer holds until all of it is read.
struct Room {
    _units: OwnedSemaphorePermit,
    held: u32,
    asker: Option<Arc<Asker>>,
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(asker) = &self.asker {
            asker.held.fetch_sub(self.held, Ordering::Relaxed);
            asker.read.notify_one();
        }
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

impl Answers {
    pub(crate) fn new(memory_max: u64) -> Arc<Self> {
        let making = PAGES * page_bytes(memory_max);
        let all = usize::try_from((memory_max / 32).min(ALL_BYTES_MAX)).unwrap_or(usize::MAX);
        let all = units(all.max(2 * making));
        Arc::new(Self {
            free: Arc::new(Semaphore::new(all as usize)),
            all,
            making: units(making),
            waiting: Semaphore::new(WAITING_MAX),
            askers: Mutex::default(),
        })
    }

    /// What is known of somebody who asks; those who have nothing any more are forgotten.
    fn asker(&self, name: String) -> Arc<Asker> {
        let mut askers = self.askers.lock().unwrap_or_else(PoisonError::into_inner);
        askers.retain(|_, asker| Arc::strong_count(asker) > 1);
        Arc::clone(askers.entry(name).or_insert_with(Asker::new))
    }

    /// Makes an answer where there is room for it; `name` says whose share it takes, if it takes one.
    async fn answer(
        &self,
        name: Option<String>,
        made: impl Future<Output = Response>,
    ) -> Result<Response, ApiError> {
        let asker = name.map(|name| self.asker(name));
        let turn = match &asker {
            Some(asker) => Some(asker.turn(self.all / SHARE).await?),
            None => None,
        };
        let room = self.room(self.making).await?;
        let answer = self.hold(made.await, room, asker).await;
        drop(turn);
        answer
    }

    /// Makes a change, whose body may not be here yet, unless as many of the same principal are under way as may be.
    async fn change(
        &self,
        name: Option<String>,
        made: impl Future<Output = Response>,
    ) -> Result<Response, ApiError> {
        let asker = name.map(|name| self.asker(name));
        let busy = |_| {
            let message = "as many changes of who asks are under way as may be at once";
            ApiError::new(Code::Busy, message)
        };
        let _one = match &asker {
            Some(asker) => Some(asker.changes.try_acquire().map_err(busy)?),
            None => None,
        };
        Ok(made.await)
    }

    /// Room for so many units, if there is some soon.
    async fn room(&self, units: u32) -> Result<OwnedSemaphorePermit, ApiError> {
        let none = "answers hold as much memory as they may";
        self.room_of(&self.free, units, none).await
    }

    async fn room_of(
        &self,
        free: &Arc<Semaphore>,
        units: u32,
        none: &'static str,
    ) -> Result<OwnedSemaphorePermit, ApiError> {
        if let Ok(room) = Arc::clone(free).try_acquire_many_owned(units) {
            return Ok(room);
        }
        let none = || ApiError::new(Code::NoMemory, none);
        let _waits = self.waiting.try_acquire().map_err(|_| none())?;
        let room = Arc::clone(free).acquire_many_owned(units);
        match timeout(WAIT_MAX, room).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => Err(none()),
        }
    }

    /// An answer that holds what it takes, and no longer what it took to make it.
    async fn hold(
        &self,
        response: Response,
        mut room: OwnedSemaphorePermit,
        asker: Option<Arc<Asker>>,
    ) -> Result<Response, ApiError> {
        let bytes = response.body().size_hint().lower();
        let needed = units(usize::try_from(bytes).unwrap_or(usize::MAX)).min(self.all);
        let made = u32::try_from(room.num_permits()).unwrap_or(u32::MAX);
        if needed > made {
            room.merge(self.room(needed - made).await?);
        } else {
            drop(room.split((made - needed) as usize));
        }
        if let Some(asker) = &asker {
            asker.held.fetch_add(needed, Ordering::Relaxed);
        }
        let room = Arc::new(Room {
            _units: room,
            held: needed,
            asker,
        });
        Ok(response.map(|body| Body::new(Held { body, room })))
    }
}

/// Answers what is asked where there is room for the answer.
pub(crate) async fn bounded(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    if !request.method().is_safe() {
        let name = whose_share(&request);
        let change = state.answers.network.change(name, next.run(request)).await;
        return change.unwrap_or_else(IntoResponse::into_response);
    }
    // Whoever has the machine must be able to look who fills the memory.
    let is_away = matches!(
        request.extensions().get::<Caller>(),
        Some(Caller::Network { .. })
    );
    if is_away && state.control.is_memory_full() {
        let message = "memory.max is nearly used up";
        return ApiError::new(Code::NoMemory, message).into_response();
    }
    let name = whose_share(&request);
    let answers = match name {
        Some(_) => &state.answers.network,
        None => &state.answers.socket,
    };
    let answer = answers.answer(name, next.run(request)).await;
    answer.unwrap_or_else(IntoResponse::into_response)
}

/// Whose share an answer takes: that of a user, or of an address for who has no name of its own. None: it asks over the socket.
fn whose_share(request: &Request) -> Option<String> {
    let extensions = request.extensions();
    let address = match extensions.get::<Caller>() {
        Some(Caller::Local { .. }) => return None,
        Some(Caller::Network { address }) => address.ip().to_canonical().to_string(),
        None => String::new(),
    };
    let name = extensions.get::<Principal>().map(|it| it.name.as_str());
    let user = name.filter(|name| name.starts_with("user:"));
    Some(user.map_or(address, str::to_owned))
}

/// A body that has its room until all of it is taken.
struct Held {
    body: Body,
    room: Arc<Room>,
}

/// A piece of one that whoever writes it has.
struct Piece {
    bytes: Bytes,
    _room: Arc<Room>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let room = Arc::clone(&self.room);
        frame.map_ok(|frame| {
            frame.map_data(|bytes| {
                let piece = Piece { bytes, _room: room };
                Bytes::from_owner(piece)
            })
        })
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
    use http_body_util::BodyExt as _;

    const MIB: usize = 1024 * 1024;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build();
        runtime.expect("a runtime").block_on(future)
    }

    #[test]
    fn pages_and_what_all_answers_hold_follow_the_memory_that_there_is() {
        for (mib, page, all) in [
            (16, MIB / 16, MIB / 2),
            (24, 3 * MIB / 32, 3 * MIB / 4),
            (256, MIB, 8 * MIB),
            (4096, 4 * MIB, 128 * MIB),
        ] {
            assert_eq!(page_bytes(mib << 20), page, "{mib}");
            let answers = Answers::new(mib << 20);
            assert_eq!(answers.all as usize * UNIT, all, "{mib}");
            assert!(2 * answers.making <= answers.all);
        }
        Answers::new(u64::MAX);
    }

    #[test]
    fn an_answer_counts_until_its_last_piece_is_written() {
        block_on(async {
            let answers = Answers::new(256 << 20);
            let free = || answers.free.available_permits();
            let all = free();
            let room = answers.room(answers.making).await.expect("room");
            let response = Response::new(Body::from(vec![0; MIB]));
            let response = answers.hold(response, room, None).await.expect("room");
            assert_eq!(free(), all - MIB / UNIT);
            let mut body = response.into_body();
            assert_eq!(body.size_hint().exact(), Some(MIB as u64));
            let frame = body.frame().await.expect("one").expect("no error");
            let mut bytes = frame.into_data().expect("data");
            drop(body);
            let rest = bytes.split_off(MIB - 1);
            drop(bytes);
            assert_eq!(free(), all - MIB / UNIT);
            drop(rest);
            assert_eq!(free(), all);
        });
    }

    #[test]
    fn who_finds_no_room_for_an_answer_is_refused_in_time_and_few_wait() {
        block_on(async {
            let answers = Answers::new(256 << 20);
            let held = answers.room(answers.all).await.expect("room");
            let mut waiting = Vec::new();
            for _ in 0..WAITING_MAX {
                let answers = Arc::clone(&answers);
                waiting.push(tokio::spawn(async move { answers.room(1).await.is_ok() }));
            }
            tokio::task::yield_now().await;
            let begun = tokio::time::Instant::now();
            let error = answers.room(1).await.expect_err("enough wait");
            assert_eq!(error.code(), Code::NoMemory);
            assert!(begun.elapsed() < WAIT_MAX);
            for waits in waiting {
                assert!(!waits.await.expect("no panic"));
            }
            assert!(begun.elapsed() + Duration::from_millis(1) >= WAIT_MAX);
            drop(held);
            assert!(answers.room(answers.all).await.is_ok());
        });
    }

    #[test]
    fn imports_hold_no_more_than_their_share_and_leave_answers_theirs() {
        block_on(async {
            let rooms = Rooms::new(256 << 20);
            let answers = &rooms.network;
            let large = 32 * MIB;
            let first = rooms.import_room(large).await.expect("it is alone");
            let begun = tokio::time::Instant::now();
            let error = rooms.import_room(64 * 1024).await.expect_err("no room");
            assert_eq!(error.code(), Code::NoMemory);
            assert!(begun.elapsed() + Duration::from_millis(1) >= WAIT_MAX);
            assert!(
                answers.room(answers.all).await.is_ok(),
                "answers have theirs"
            );
            drop(first);
            let mut held = Vec::new();
            while let Ok(Ok(room)) = timeout(WAIT_MAX / 8, rooms.import_room(MIB)).await {
                held.push(room);
            }
            assert_eq!(held.len(), 2, "of 8 MiB each takes four times its length");
        });
    }

    #[test]
    fn an_answer_that_is_larger_than_all_may_be_is_alone() {
        block_on(async {
            let answers = Answers::new(16 << 20);
            let room = answers.room(answers.making).await.expect("room");
            let response = Response::new(Body::from(vec![0; 2 * MIB]));
            let response = answers.hold(response, room, None).await.expect("room");
            assert_eq!(answers.free.available_permits(), 0);
            drop(response);
            assert_eq!(answers.free.available_permits(), answers.all as usize);
        });
    }

    /// A page of an answer that its operator does not read.
    async fn page(answers: &Answers, name: &str) -> Result<Response, ApiError> {
        let made = async { Response::new(Body::from(vec![0; MIB])) };
        answers.answer(Some(name.to_owned()), made).await
    }

    #[test]
    fn who_does_not_read_takes_no_answers_of_others() {
        block_on(async {
            let answers = Answers::new(256 << 20);
            let mut held = Vec::new();
            for _ in 0..2 {
                held.push(page(&answers, "user:slow").await.expect("room"));
            }
            for _ in 0..2 {
                let error = page(&answers, "user:slow").await.expect_err("its share");
                assert_eq!(error.code(), Code::NoMemory);
            }
            for _ in 0..20 {
                assert!(page(&answers, "user:other").await.is_ok());
            }
            held.pop();
            assert!(page(&answers, "user:slow").await.is_ok(), "it has read");
            drop(held);
            drop(answers.asker("third".to_owned()));
            assert_eq!(answers.askers.lock().expect("no panic").len(), 1);
        });
    }

    /// Who is not told that there is room again is refused, and not only late.
    #[test]
    fn who_waits_for_its_share_is_answered_when_it_has_read() {
        block_on(async {
            let answers = Answers::new(256 << 20);
            let first = page(&answers, "user:slow").await.expect("room");
            let _second = page(&answers, "user:slow").await.expect("room");
            let reads = async {
                tokio::task::yield_now().await;
                drop(first);
            };
            let (next, ()) = tokio::join!(page(&answers, "user:slow"), reads);
            assert!(next.is_ok());
        });
    }

    #[test]
    fn the_next_question_waits_until_the_answer_before_has_its_room() {
        block_on(async {
            let answers = Answers::new(256 << 20);
            let others = answers.all - answers.making;
            let others = answers.room(others).await.expect("room");
            let large = async {
                let made = async { Response::new(Body::from(vec![0; 6 * MIB])) };
                let name = Some("user:one".to_owned());
                answers.answer(name, made).await.is_ok()
            };
            let look = async {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                let waiting = WAITING_MAX - answers.waiting.available_permits();
                assert_eq!(waiting, 1, "for room: the large one alone");
                drop(others);
            };
            let next = page(&answers, "user:one");
            let (large, next, ()) = tokio::join!(large, next, look);
            assert!(large && next.is_ok());
        });
    }

    #[test]
    fn who_asks_often_at_once_takes_no_places_of_others() {
        block_on(async {
            let answers = Answers::new(256 << 20);
            let slow = async { std::future::pending().await };
            let never = answers.answer(Some("user:slow".to_owned()), slow);
            let mut more = Vec::new();
            for _ in 0..2 * WAITING_MAX {
                let answers = Arc::clone(&answers);
                more.push(tokio::spawn(async move {
                    let slow = std::future::pending();
                    answers.answer(Some("user:slow".to_owned()), slow).await
                }));
            }
            let others = async {
                for _ in 0..2 * WAITING_MAX {
                    tokio::task::yield_now().await;
                }
                let begun = tokio::time::Instant::now();
                let error = page(&answers, "user:slow").await;
                let error = error.expect_err("enough wait").code();
                assert_eq!(error, Code::NoMemory);
                assert!(begun.elapsed() < WAIT_MAX);
                for _ in 0..20 {
                    assert!(page(&answers, "user:other").await.is_ok());
                }
            };
            tokio::select! {
                biased;
                _ = never => unreachable!("it is not made"),
                () = others => {}
            }
            for more in more {
                more.abort();
            }
        });
    }

    #[test]
    fn who_sends_bodies_slowly_takes_no_seats_of_others() {
        block_on(async {
            let answers = Answers::new(256 << 20);
            let slow = || {
                let answers = Arc::clone(&answers);
                let name = Some("user:slow".to_owned());
                tokio::spawn(async move {
                    let made = std::future::pending();
                    answers.change(name, made).await.map(|_| ())
                })
            };
            let mut all: Vec<_> = (0..CHANGES_MAX).map(|_| slow()).collect();
            tokio::task::yield_now().await;
            let made = async || Response::new(Body::empty());
            for (name, is_made) in [
                (Some("user:slow"), false),
                (Some("user:other"), true),
                (None, true),
            ] {
                let done = answers.change(name.map(str::to_owned), made()).await;
                let refused = done.err().map(|error| error.code());
                assert_eq!(refused, (!is_made).then_some(Code::Busy), "{name:?}");
            }
            let one = all.pop().expect("one");
            one.abort();
            assert!(one.await.is_err(), "it has ended");
            let again = answers.change(Some("user:slow".to_owned()), made()).await;
            assert!(again.is_ok());
            for slow in all {
                slow.abort();
            }
        });
    }

    #[test]
    fn the_socket_has_room_of_its_own() {
        let rooms = Rooms::new(256 << 20);
        block_on(async {
            let _all = rooms.network.room(rooms.network.all).await.expect("room");
            let made = async { Response::new(Body::from(vec![0; MIB])) };
            assert!(rooms.socket.answer(None, made).await.is_ok());
        });
        let asks = |caller: Option<Caller>, name: &str| {
            let mut request = Request::new(Body::empty());
            if let Some(caller) = caller {
                request.extensions_mut().insert(caller);
            }
            request.extensions_mut().insert(Principal {
                name: name.to_owned(),
                administration: courser_access::Administration::Read,
            });
            whose_share(&request)
        };
        let address = "[::ffff:10.0.0.1]:9".parse().expect("an address");
        let away = Some(Caller::Network { address });
        assert_eq!(asks(Some(Caller::Local { uid: 0 }), "uid:0"), None);
        assert_eq!(asks(away, "user:anna").as_deref(), Some("user:anna"));
        assert_eq!(asks(away, "token").as_deref(), Some("10.0.0.1"));
        assert_eq!(asks(None, "token").as_deref(), Some(""));
    }
}
