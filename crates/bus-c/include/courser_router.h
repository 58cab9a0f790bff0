/* In-process message router with MQTT-like keys: C interface of courser-router.
 *
 * Made by cbindgen from crates/bus-c/src/lib.rs; do not edit.
 *
 * Every function may be called from any thread, and from within a handler unless it says otherwise. Text is UTF-8
 * with a length, without a terminating zero. Pointers that are handed out belong to the caller until given to the
 * function that frees them. */

#ifndef COURSER_ROUTER_H
#define COURSER_ROUTER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// What went wrong.
typedef enum CrStatus {
  // Nothing.
  CR_STATUS_OK = 0,
  // A pointer that is needed is null, or a length is too large.
  CR_STATUS_NULL = 1,
  // Text is not UTF-8.
  CR_STATUS_UTF8 = 2,
  // Not a filter: "#" must be the last level, "+" a whole level, and there must be something.
  CR_STATUS_FILTER = 3,
  // Not a key: it is empty, too long, or has a wildcard. Messages are posted to concrete keys only.
  CR_STATUS_KEY = 4,
  // Waiting from within a handler of the same router would never end. The subscription has ended all the same.
  CR_STATUS_WITHIN_HANDLER = 5,
  // No message came in time.
  CR_STATUS_TIMEOUT = 6,
  // A number is out of range.
  CR_STATUS_RANGE = 7,
} CrStatus;

// What happens to a message that finds a ring full: for `cr_subscribe_ring`.
typedef enum CrOverflow {
  // The poster waits.
  CR_OVERFLOW_BLOCK = 0,
  // The message that waits longest is dropped.
  CR_OVERFLOW_DROP_OLDEST = 1,
  // The message is dropped.
  CR_OVERFLOW_DROP_NEWEST = 2,
  // A message replaces the waiting one of the same key.
  CR_OVERFLOW_COALESCE = 3,
} CrOverflow;

// A key: where messages are posted to. Make it once, use it often.
typedef struct CrKey CrKey;

// A message taken out of a ring.
typedef struct CrMessage CrMessage;

// A subscription with a bounded ring, to be taken out by one thread or several.
typedef struct CrRing CrRing;

// A router.
typedef struct CrRouter CrRouter;

// A subscription with a handler.
typedef struct CrSubscription CrSubscription;

// Called for each message, on the poster's thread, from several at once if several post. The number is that of
// the subscription; the route is the key that was posted to. Both pointers are valid during the call only. It must
// not unwind (no C++ exception may leave it).
typedef void (*CrHandler)(void *context,
                          uint64_t subscription,
                          const uint8_t *route,
                          size_t route_len,
                          const uint8_t *data,
                          size_t data_len);

// Called once with a context that no handler will use any more.
typedef void (*CrDrop)(void *context);

// Counters and sizes of a router.
typedef struct CrStats {
  // Messages posted.
  uint64_t posts;
  // Handlers called.
  uint64_t hits;
  // Live subscriptions.
  uint64_t subscriptions;
  // Posts that had to match their key anew.
  uint64_t cache_misses;
} CrStats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// A router without subscriptions. Free it with `cr_router_free`.
struct CrRouter *cr_router_new(void);

// Gives a router back. Subscriptions, rings and keys may still be freed afterwards.
//
// # Safety
// `router` came from `cr_router_new` and is not used any more, or is null.
void cr_router_free(struct CrRouter *router);

// The key of a text. Free it with `cr_key_free`.
//
// # Safety
// `router` is a router, `key` points to `key_len` bytes, `out` may be written.
enum CrStatus cr_key_new(const struct CrRouter *router,
                         const uint8_t *key,
                         size_t key_len,
                         struct CrKey **out);

// Gives a key back.
//
// # Safety
// `key` came from `cr_key_new` and is not used any more, or is null.
void cr_key_free(struct CrKey *key);

// Calls `handler` with `context` for each message that is posted to a key that `filter` matches. When nobody uses
// the context any more, `drop_context` is called with it, unless it is null; also when this fails. End the
// subscription with `cr_unsubscribe` or `cr_unsubscribe_wait`.
//
// # Safety
// `router` is a router, `filter` points to `filter_len` bytes, `out` may be written; `handler` may be called with
// `context` from any thread, and from several at once, and `drop_context` from any.
enum CrStatus cr_subscribe(const struct CrRouter *router,
                           const uint8_t *filter,
                           size_t filter_len,
                           CrHandler handler,
                           void *context,
                           CrDrop drop_context,
                           struct CrSubscription **out);

// The number of a subscription, as its handler sees it; 0 for null.
//
// # Safety
// `subscription` is a subscription, or null.
uint64_t cr_subscription_id(const struct CrSubscription *subscription);

// Ends a subscription and gives it back. Once this returns no new call starts; running ones may end later.
//
// # Safety
// `subscription` came from `cr_subscribe` and is not used any more, or is null.
void cr_unsubscribe(struct CrSubscription *subscription);

// Ends a subscription, waits until no call runs any more, and gives it back. Its context is dropped then, or soon after:
// where others that ended before it still wait, with one of the next unsubscriptions. Within a handler of the same
// router it does not wait and returns `CR_STATUS_WITHIN_HANDLER`.
//
// # Safety
// `subscription` came from `cr_subscribe` and is not used any more, or is null.
enum CrStatus cr_unsubscribe_wait(struct CrSubscription *subscription);

// Ends a subscription by its number, for use within its handler; its pointer must still be given back. `false` if
// it has ended before. Linear in the subscriptions of its filter.
//
// # Safety
// `router` is a router, or null.
bool cr_unsubscribe_id(const struct CrRouter *router,
                       uint64_t id);

// Calls every matching handler with the bytes, which are not copied except into rings.
//
// # Safety
// `router` is a router, `key` a key, `data` points to `data_len` bytes (or is null, for none).
enum CrStatus cr_post(const struct CrRouter *router,
                      const struct CrKey *key,
                      const uint8_t *data,
                      size_t data_len);

// Puts matching messages into a ring for `capacity` of them; `overflow` is one of `CrOverflow`. End it with `cr_ring_free`.
//
// # Safety
// `router` is a router, `filter` points to `filter_len` bytes, `out` may be written.
enum CrStatus cr_subscribe_ring(const struct CrRouter *router,
                                const uint8_t *filter,
                                size_t filter_len,
                                size_t capacity,
                                uint32_t overflow,
                                struct CrRing **out);

// Takes the message that waits longest; waits up to `timeout_ms` milliseconds for one. Free it with
// `cr_message_free`.
//
// # Safety
// `ring` is a ring, `out` may be written.
enum CrStatus cr_ring_recv(const struct CrRing *ring, uint64_t timeout_ms, struct CrMessage **out);

// Messages that were dropped because the ring was full; 0 for null.
//
// # Safety
// `ring` is a ring, or null.
uint64_t cr_ring_dropped(const struct CrRing *ring);

// Ends the subscription of a ring, and gives it back with what waits in it. Posters that wait for room go on.
//
// # Safety
// `ring` came from `cr_subscribe_ring` and is not used any more, or is null.
void cr_ring_free(struct CrRing *ring);

// The bytes of a message, valid until it is freed.
//
// # Safety
// `message` is a message; `len` may be written.
const uint8_t *cr_message_data(const struct CrMessage *message, size_t *len);

// The key that a message was posted to, valid until the message is freed.
//
// # Safety
// `message` is a message; `len` may be written.
const uint8_t *cr_message_route(const struct CrMessage *message, size_t *len);

// Gives a message back.
//
// # Safety
// `message` came from `cr_ring_recv` and is not used any more, or is null.
void cr_message_free(struct CrMessage *message);

// Counters and sizes; zeros for null.
//
// # Safety
// `router` is a router, or null.
struct CrStats cr_stats(const struct CrRouter *router);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* COURSER_ROUTER_H */
