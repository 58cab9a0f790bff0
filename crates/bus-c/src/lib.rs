//! C interface of courser-router: see `include/courser_router.h`, made by cbindgen from this file.
//!
//! Messages are bytes. Handlers see the poster's bytes in place; a ring gets a copy, one for each message.
// A C interface takes pointers; each use says what the caller promises.
#![allow(unsafe_code)]

use courser_router::{
    Delivered, Handler, Key, Overflow, Ring, RingOptions, Router, Subscription, SubscriptionId,
    SubscriptionRef,
};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// What went wrong.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrStatus {
    /// Nothing.
    Ok = 0,
    /// A pointer that is needed is null, or a length is too large.
    Null = 1,
    /// Text is not UTF-8.
    Utf8 = 2,
    /// Not a filter: "#" must be the last level, "+" a whole level, and there must be something.
    Filter = 3,
    /// Not a key: it is empty, too long, or has a wildcard. Messages are posted to concrete keys only.
    Key = 4,
    /// Waiting from within a handler of the same router would never end. The subscription has ended all the same.
    WithinHandler = 5,
    /// No message came in time.
    Timeout = 6,
    /// A number is out of range.
    Range = 7,
}

/// What happens to a message that finds a ring full: for `cr_subscribe_ring`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrOverflow {
    /// The poster waits.
    Block = 0,
    /// The message that waits longest is dropped.
    DropOldest = 1,
    /// The message is dropped.
    DropNewest = 2,
    /// A message replaces the waiting one of the same key.
    Coalesce = 3,
}

/// Called for each message, on the poster's thread, from several at once if several post. The number is that of
/// the subscription; the route is the key that was posted to. Both pointers are valid during the call only. It must
/// not unwind (no C++ exception may leave it).
pub type CrHandler = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        subscription: u64,
        route: *const u8,
        route_len: usize,
        data: *const u8,
        data_len: usize,
    ),
>;

/// Called once with a context that no handler will use any more.
pub type CrDrop = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// A router.
pub struct CrRouter(Router<Payload>);
/// A key: where messages are posted to. Make it once, use it often.
pub struct CrKey(Key);
/// A subscription with a handler.
pub struct CrSubscription(Subscription);
/// A subscription with a bounded ring, to be taken out by one thread or several.
pub struct CrRing(Ring<Payload>);
/// A message taken out of a ring.
pub struct CrMessage(Delivered<Payload>);

/// Counters and sizes of a router.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct CrStats {
    /// Messages posted.
    pub posts: u64,
    /// Handlers called.
    pub hits: u64,
    /// Live subscriptions.
    pub subscriptions: u64,
    /// Posts that had to match their key anew.
    pub cache_misses: u64,
}

/// Bytes of a message: the poster's own while it posts, a copy in a ring.
enum Payload {
    Lent(*const u8, usize),
    Own(Arc<[u8]>),
}

// SAFETY: lent bytes are only looked at on the poster's thread, within its call; what goes elsewhere is a clone,
// and clones own their bytes.
unsafe impl Send for Payload {}

impl Payload {
    fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: `cr_post` lends bytes of this length for the time of the post.
            Payload::Lent(data, len) => unsafe { slice(*data, *len) },
            Payload::Own(bytes) => bytes,
        }
    }
}

impl Clone for Payload {
    fn clone(&self) -> Self {
        match self {
            Payload::Lent(..) => Payload::Own(Arc::from(self.bytes())),
            Payload::Own(bytes) => Payload::Own(Arc::clone(bytes)),
        }
    }
}

/// A handler written in C, with its context.
struct External {
    call: unsafe extern "C" fn(*mut c_void, u64, *const u8, usize, *const u8, usize),
    drop: CrDrop,
    context: *mut c_void,
}

// SAFETY: the header demands a handler and a context that may be used from any thread.
unsafe impl Send for External {}
// SAFETY: as above, from several at once.
unsafe impl Sync for External {}

impl Handler<Payload> for External {
    fn handle(&self, subscription: SubscriptionRef<'_, Payload>, route: &Key, message: &Payload) {
        let (route, data) = (route.as_str(), message.bytes());
        let id = subscription.id().get();
        // SAFETY: the caller of `cr_subscribe` promised that the handler may be called with its context.
        unsafe {
            (self.call)(
                self.context,
                id,
                route.as_ptr(),
                route.len(),
                data.as_ptr(),
                data.len(),
            )
        };
    }
}

impl Drop for External {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: promised by the caller of `cr_subscribe`; nobody calls the handler any more.
            unsafe { drop(self.context) };
        }
    }
}

/// # Safety
/// `data` is null, or points to `len` bytes that live as long as the result.
unsafe fn slice<'a>(data: *const u8, len: usize) -> &'a [u8] {
    if data.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(data, len) }
}

/// # Safety
/// As for `slice`.
unsafe fn text<'a>(data: *const u8, len: usize) -> Result<&'a str, CrStatus> {
    if data.is_null() || isize::try_from(len).is_err() {
        return Err(CrStatus::Null);
    }
    // SAFETY: passed on.
    std::str::from_utf8(unsafe { slice(data, len) }).map_err(|_| CrStatus::Utf8)
}

/// Hands a new object to the caller.
///
/// # Safety
/// `out` is valid for writing.
unsafe fn give<T>(out: *mut *mut T, made: Result<T, CrStatus>) -> CrStatus {
    match made {
        Ok(made) => {
            // SAFETY: promised by the caller.
            unsafe { *out = Box::into_raw(Box::new(made)) };
            CrStatus::Ok
        }
        Err(status) => status,
    }
}

/// # Safety
/// `object` is null, or was handed out by `give` and is not used any more.
unsafe fn take<T>(object: *mut T) -> Option<Box<T>> {
    // SAFETY: promised by the caller.
    (!object.is_null()).then(|| unsafe { Box::from_raw(object) })
}

/// A router without subscriptions. Free it with `cr_router_free`.
#[unsafe(no_mangle)]
pub extern "C" fn cr_router_new() -> *mut CrRouter {
    Box::into_raw(Box::new(CrRouter(Router::new())))
}

/// Gives a router back. Subscriptions, rings and keys may still be freed afterwards.
///
/// # Safety
/// `router` came from `cr_router_new` and is not used any more, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_router_free(router: *mut CrRouter) {
    // SAFETY: passed on.
    drop(unsafe { take(router) });
}

/// The key of a text. Free it with `cr_key_free`.
///
/// # Safety
/// `router` is a router, `key` points to `key_len` bytes, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_key_new(
    router: *const CrRouter,
    key: *const u8,
    key_len: usize,
    out: *mut *mut CrKey,
) -> CrStatus {
    if router.is_null() || out.is_null() {
        return CrStatus::Null;
    }
    // SAFETY: promised by the caller.
    let (router, text) = unsafe { (&*router, text(key, key_len)) };
    let made = text.and_then(|text| router.0.key(text).map(CrKey).map_err(|_| CrStatus::Key));
    // SAFETY: `out` is not null.
    unsafe { give(out, made) }
}

/// Gives a key back.
///
/// # Safety
/// `key` came from `cr_key_new` and is not used any more, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_key_free(key: *mut CrKey) {
    // SAFETY: passed on.
    drop(unsafe { take(key) });
}

/// Calls `handler` with `context` for each message that is posted to a key that `filter` matches. When nobody uses
/// the context any more, `drop_context` is called with it, unless it is null; also when this fails. End the
/// subscription with `cr_unsubscribe` or `cr_unsubscribe_wait`.
///
/// # Safety
/// `router` is a router, `filter` points to `filter_len` bytes, `out` may be written; `handler` may be called with
/// `context` from any thread, and from several at once, and `drop_context` from any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_subscribe(
    router: *const CrRouter,
    filter: *const u8,
    filter_len: usize,
    handler: CrHandler,
    context: *mut c_void,
    drop_context: CrDrop,
    out: *mut *mut CrSubscription,
) -> CrStatus {
    unsafe extern "C" fn nothing(
        _: *mut c_void,
        _: u64,
        _: *const u8,
        _: usize,
        _: *const u8,
        _: usize,
    ) {
    }
    let external = External {
        call: handler.unwrap_or(nothing),
        drop: drop_context,
        context,
    };
    if router.is_null() || out.is_null() || handler.is_none() {
        return CrStatus::Null;
    }
    // SAFETY: promised by the caller.
    let (router, text) = unsafe { (&*router, text(filter, filter_len)) };
    let made = text.and_then(|text| {
        router
            .0
            .subscribe_handler(text, external)
            .map_err(|_| CrStatus::Filter)
    });
    // SAFETY: `out` is not null.
    unsafe { give(out, made.map(CrSubscription)) }
}

/// The number of a subscription, as its handler sees it; 0 for null.
///
/// # Safety
/// `subscription` is a subscription, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_subscription_id(subscription: *const CrSubscription) -> u64 {
    // SAFETY: promised by the caller.
    unsafe { subscription.as_ref() }.map_or(0, |subscription| subscription.0.id().get())
}

/// Ends a subscription and gives it back. Once this returns no new call starts; running ones may end later.
///
/// # Safety
/// `subscription` came from `cr_subscribe` and is not used any more, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_unsubscribe(subscription: *mut CrSubscription) {
    // SAFETY: passed on.
    drop(unsafe { take(subscription) });
}

/// Ends a subscription, waits until no call runs any more, and gives it back. Its context is dropped then, or soon after:
/// where others that ended before it still wait, with one of the next unsubscriptions. Within a handler of the same
/// router it does not wait and returns `CR_STATUS_WITHIN_HANDLER`.
///
/// # Safety
/// `subscription` came from `cr_subscribe` and is not used any more, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_unsubscribe_wait(subscription: *mut CrSubscription) -> CrStatus {
    // SAFETY: passed on.
    match unsafe { take(subscription) }.map(|subscription| subscription.0.unsubscribe_wait()) {
        None => CrStatus::Null,
        Some(Ok(())) => CrStatus::Ok,
        Some(Err(_)) => CrStatus::WithinHandler,
    }
}

/// Ends a subscription by its number, for use within its handler; its pointer must still be given back. `false` if
/// it has ended before. Linear in the subscriptions of its filter.
///
/// # Safety
/// `router` is a router, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_unsubscribe_id(router: *const CrRouter, id: u64) -> bool {
    // SAFETY: promised by the caller.
    unsafe { router.as_ref() }
        .is_some_and(|router| SubscriptionId::new(id).is_some_and(|id| router.0.unsubscribe(id)))
}

/// Calls every matching handler with the bytes, which are not copied except into rings.
///
/// # Safety
/// `router` is a router, `key` a key, `data` points to `data_len` bytes (or is null, for none).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_post(
    router: *const CrRouter,
    key: *const CrKey,
    data: *const u8,
    data_len: usize,
) -> CrStatus {
    // SAFETY: promised by the caller.
    let (router, key) = unsafe { (router.as_ref(), key.as_ref()) };
    let (Some(router), Some(key)) = (router, key) else {
        return CrStatus::Null;
    };
    if isize::try_from(data_len).is_err() || (data.is_null() && data_len != 0) {
        return CrStatus::Null;
    }
    router.0.post(&key.0, &Payload::Lent(data, data_len));
    CrStatus::Ok
}

/// Puts matching messages into a ring for `capacity` of them; `overflow` is one of `CrOverflow`. End it with `cr_ring_free`.
///
/// # Safety
/// `router` is a router, `filter` points to `filter_len` bytes, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_subscribe_ring(
    router: *const CrRouter,
    filter: *const u8,
    filter_len: usize,
    capacity: usize,
    overflow: u32,
    out: *mut *mut CrRing,
) -> CrStatus {
    if router.is_null() || out.is_null() {
        return CrStatus::Null;
    }
    if capacity == 0 || capacity > 1 << 30 {
        return CrStatus::Range;
    }
    let all = [
        Overflow::Block,
        Overflow::DropOldest,
        Overflow::DropNewest,
        Overflow::Coalesce,
    ];
    let Some(&overflow) = all.get(overflow as usize) else {
        return CrStatus::Range;
    };
    let options = RingOptions::new(capacity, overflow);
    // SAFETY: promised by the caller.
    let (router, text) = unsafe { (&*router, text(filter, filter_len)) };
    let made = text.and_then(|text| {
        router
            .0
            .subscribe_ring(text, options)
            .map_err(|_| CrStatus::Filter)
    });
    // SAFETY: `out` is not null.
    unsafe { give(out, made.map(CrRing)) }
}

/// Takes the message that waits longest; waits up to `timeout_ms` milliseconds for one. Free it with
/// `cr_message_free`.
///
/// # Safety
/// `ring` is a ring, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_ring_recv(
    ring: *const CrRing,
    timeout_ms: u64,
    out: *mut *mut CrMessage,
) -> CrStatus {
    // SAFETY: promised by the caller.
    let Some(ring) = (unsafe { ring.as_ref() }) else {
        return CrStatus::Null;
    };
    if out.is_null() {
        return CrStatus::Null;
    }
    let taken = ring
        .0
        .recv_timeout(Duration::from_millis(timeout_ms))
        .map(CrMessage);
    // SAFETY: `out` is not null.
    unsafe { give(out, taken.ok_or(CrStatus::Timeout)) }
}

/// Messages that were dropped because the ring was full; 0 for null.
///
/// # Safety
/// `ring` is a ring, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_ring_dropped(ring: *const CrRing) -> u64 {
    // SAFETY: promised by the caller.
    unsafe { ring.as_ref() }.map_or(0, |ring| ring.0.dropped())
}

/// Ends the subscription of a ring, and gives it back with what waits in it. Posters that wait for room go on.
///
/// # Safety
/// `ring` came from `cr_subscribe_ring` and is not used any more, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_ring_free(ring: *mut CrRing) {
    // SAFETY: passed on.
    drop(unsafe { take(ring) });
}

/// The bytes of a message, valid until it is freed.
///
/// # Safety
/// `message` is a message; `len` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_message_data(message: *const CrMessage, len: *mut usize) -> *const u8 {
    // SAFETY: promised by the caller.
    unsafe {
        message
            .as_ref()
            .map_or(std::ptr::null(), |message| lend(message.0.1.bytes(), len))
    }
}

/// The key that a message was posted to, valid until the message is freed.
///
/// # Safety
/// `message` is a message; `len` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_message_route(message: *const CrMessage, len: *mut usize) -> *const u8 {
    // SAFETY: promised by the caller.
    unsafe {
        message.as_ref().map_or(std::ptr::null(), |message| {
            lend(message.0.0.as_str().as_bytes(), len)
        })
    }
}

/// # Safety
/// `len` is null or may be written.
unsafe fn lend(bytes: &[u8], len: *mut usize) -> *const u8 {
    if !len.is_null() {
        // SAFETY: promised by the caller.
        unsafe { *len = bytes.len() };
    }
    bytes.as_ptr()
}

/// Gives a message back.
///
/// # Safety
/// `message` came from `cr_ring_recv` and is not used any more, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_message_free(message: *mut CrMessage) {
    // SAFETY: passed on.
    drop(unsafe { take(message) });
}

/// Counters and sizes; zeros for null.
///
/// # Safety
/// `router` is a router, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cr_stats(router: *const CrRouter) -> CrStats {
    // SAFETY: promised by the caller.
    unsafe { router.as_ref() }.map_or_else(CrStats::default, |router| {
        let stats = router.0.stats();
        CrStats {
            posts: stats.posts,
            hits: stats.hits,
            subscriptions: stats.subscriptions as u64,
            cache_misses: stats.cache_misses,
        }
    })
}
