/* The C interface from C: wildcards, overflow of rings, unsubscribing within a handler, threads, wrong arguments.
 * test.sh runs it plain, and under AddressSanitizer with its leak check. */
#include "courser_router.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                             \
    do {                                                                                                             \
        if (!(condition)) {                                                                                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                          \
            exit(1);                                                                                                 \
        }                                                                                                            \
    } while (0)

static const uint8_t *bytes(const char *text) { return (const uint8_t *)text; }

typedef struct {
    CrRouter *router;
    CrSubscription *own;
    int calls;
    int dropped;
    int ends_itself;
    char last[64];
    size_t last_len;
} Context;

static void count(void *context, uint64_t id, const uint8_t *route, size_t route_len, const uint8_t *data,
                  size_t data_len) {
    Context *c = context;
    c->calls++;
    CHECK(id != 0 && route != NULL && route_len != 0);
    CHECK(data_len <= sizeof c->last);
    memcpy(c->last, data, data_len);
    c->last_len = data_len;
    if (c->ends_itself) {
        CHECK(cr_unsubscribe_id(c->router, id));
        CHECK(!cr_unsubscribe_id(c->router, id));
    }
}

static void dropped(void *context) { ((Context *)context)->dropped++; }

static CrSubscription *subscribe(CrRouter *router, const char *filter, Context *context) {
    CrSubscription *made = NULL;
    context->router = router;
    CHECK(cr_subscribe(router, bytes(filter), strlen(filter), count, context, dropped, &made) == CR_STATUS_OK);
    CHECK(cr_subscription_id(made) != 0);
    return made;
}

static CrKey *key(CrRouter *router, const char *text) {
    CrKey *made = NULL;
    CHECK(cr_key_new(router, bytes(text), strlen(text), &made) == CR_STATUS_OK);
    return made;
}

static void post(CrRouter *router, const char *text, const char *data) {
    CrKey *made = key(router, text);
    CHECK(cr_post(router, made, bytes(data), strlen(data)) == CR_STATUS_OK);
    cr_key_free(made);
}

static void wildcards(void) {
    static const struct {
        const char *filter, *key;
        int hit;
    } cases[] = {
        {"a/b", "a/b", 1},     {"a/b", "a/c", 0},    {"a/+", "a/b", 1},      {"a/+", "a", 0},
        {"a/#", "a", 1},       {"a/#", "a/b/c", 1},  {"#", "a/b", 1},        {"#", "$SYS/x", 0},
        {"+/x", "$SYS/x", 0},  {"$SYS/#", "$SYS", 1}, {"a//b", "a//b", 1},   {"a/+/b", "a//b", 1},
        {"+/+/+", "a/b/c", 1}, {"/a", "a", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CrRouter *router = cr_router_new();
        Context context = {0};
        CrSubscription *made = subscribe(router, cases[i].filter, &context);
        post(router, cases[i].key, "hello");
        if (context.calls != cases[i].hit) {
            fprintf(stderr, "%s on %s: %d\n", cases[i].filter, cases[i].key, context.calls);
            exit(1);
        }
        CHECK(!cases[i].hit || (context.last_len == 5 && memcmp(context.last, "hello", 5) == 0));
        CHECK(cr_unsubscribe_wait(made) == CR_STATUS_OK);
        CHECK(context.dropped == 1);
        post(router, cases[i].key, "again");
        CHECK(context.calls == cases[i].hit);
        CHECK(cr_stats(router).posts == 2 && cr_stats(router).subscriptions == 0);
        cr_router_free(router);
    }
}

static void wrong_arguments(void) {
    CrRouter *router = cr_router_new();
    CrKey *made_key = NULL;
    CrSubscription *made = NULL;
    CrRing *ring = NULL;
    Context context = {0};
    CHECK(cr_key_new(router, bytes("a/+"), 3, &made_key) == CR_STATUS_KEY && made_key == NULL);
    CHECK(cr_key_new(router, bytes(""), 0, &made_key) == CR_STATUS_KEY);
    CHECK(cr_key_new(router, bytes("\xff"), 1, &made_key) == CR_STATUS_UTF8);
    CHECK(cr_key_new(NULL, bytes("a"), 1, &made_key) == CR_STATUS_NULL);
    CHECK(cr_key_new(router, NULL, 1, &made_key) == CR_STATUS_NULL);
    CHECK(cr_subscribe(router, bytes("a#"), 2, count, &context, dropped, &made) == CR_STATUS_FILTER && made == NULL);
    CHECK(context.dropped == 1); /* also when it fails */
    CHECK(cr_subscribe(router, bytes("a"), 1, NULL, &context, NULL, &made) == CR_STATUS_NULL);
    CHECK(cr_subscribe_ring(router, bytes("a"), 1, 0, CR_OVERFLOW_BLOCK, &ring) == CR_STATUS_RANGE);
    CHECK(cr_subscribe_ring(router, bytes("a"), 1, 1, 99, &ring) == CR_STATUS_RANGE);
    CHECK(cr_post(router, NULL, NULL, 0) == CR_STATUS_NULL);
    CHECK(cr_unsubscribe_wait(NULL) == CR_STATUS_NULL);
    CHECK(!cr_unsubscribe_id(router, 0) && !cr_unsubscribe_id(router, UINT64_MAX) && !cr_unsubscribe_id(router, 1));
    CHECK(cr_ring_dropped(NULL) == 0 && cr_message_data(NULL, NULL) == NULL);
    cr_key_free(NULL);
    cr_unsubscribe(NULL);
    cr_ring_free(NULL);
    cr_message_free(NULL);
    cr_router_free(NULL);
    cr_router_free(router);
}

/* Ten numbers into a ring for four; what is left. */
static void ring_overflow(void) {
    static const struct {
        uint32_t overflow;
        const char *left;
        uint64_t dropped;
    } cases[] = {
        {CR_OVERFLOW_DROP_OLDEST, "6789", 6},
        {CR_OVERFLOW_DROP_NEWEST, "0123", 6},
        {CR_OVERFLOW_COALESCE, "9", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CrRouter *router = cr_router_new();
        CrRing *ring = NULL;
        CHECK(cr_subscribe_ring(router, bytes("n/+"), 3, 4, cases[i].overflow, &ring) == CR_STATUS_OK);
        for (char n = '0'; n <= '9'; n++) {
            char data[2] = {n, 0}; /* gone after the post: the ring must have a copy */
            post(router, "n/x", data);
        }
        CHECK(cr_ring_dropped(ring) == cases[i].dropped);
        CrMessage *message = NULL;
        for (const char *expected = cases[i].left; *expected; expected++) {
            size_t len = 0;
            CHECK(cr_ring_recv(ring, 0, &message) == CR_STATUS_OK);
            const uint8_t *data = cr_message_data(message, &len);
            CHECK(len == 1 && data[0] == (uint8_t)*expected);
            const uint8_t *route = cr_message_route(message, &len);
            CHECK(len == 3 && memcmp(route, "n/x", 3) == 0);
            cr_message_free(message);
        }
        CHECK(cr_ring_recv(ring, 1, &message) == CR_STATUS_TIMEOUT);
        post(router, "n/x", "left in the ring");
        cr_router_free(router); /* the ring still lives */
        CHECK(cr_ring_recv(ring, 0, &message) == CR_STATUS_OK);
        cr_message_free(message);
        cr_ring_free(ring);
    }
}

static void within_a_handler(void) {
    CrRouter *router = cr_router_new();
    Context once = {.ends_itself = 1}, always = {0};
    CrSubscription *a = subscribe(router, "a", &once), *b = subscribe(router, "a", &always);
    post(router, "a", "1");
    post(router, "a", "2");
    CHECK(once.calls == 1 && always.calls == 2);
    CHECK(cr_stats(router).subscriptions == 1);
    cr_unsubscribe(a);
    CHECK(cr_unsubscribe_wait(b) == CR_STATUS_OK);
    CHECK(once.dropped == 1 && always.dropped == 1);
    cr_router_free(router);
}

static CrSubscription *waits_for;
static CrStatus waited;

static void wait_within(void *context, uint64_t id, const uint8_t *route, size_t route_len, const uint8_t *data,
                        size_t data_len) {
    (void)context, (void)id, (void)route, (void)route_len, (void)data, (void)data_len;
    waited = cr_unsubscribe_wait(waits_for);
}

static void waiting_within_a_handler(void) {
    CrRouter *router = cr_router_new();
    Context other = {0};
    CrSubscription *made = NULL;
    waits_for = subscribe(router, "b", &other);
    CHECK(cr_subscribe(router, bytes("a"), 1, wait_within, NULL, NULL, &made) == CR_STATUS_OK);
    post(router, "a", "");
    CHECK(waited == CR_STATUS_WITHIN_HANDLER);
    cr_unsubscribe(made);
    cr_router_free(router);
    CHECK(other.dropped == 1);
}

static void *post_many(void *router) {
    for (int i = 0; i < 1000; i++) {
        post(router, i % 2 ? "t/1" : "t/2", "message");
    }
    return NULL;
}

static void threads(void) {
    CrRouter *router = cr_router_new();
    CrRing *ring = NULL;
    CHECK(cr_subscribe_ring(router, bytes("t/#"), 3, 8, CR_OVERFLOW_BLOCK, &ring) == CR_STATUS_OK);
    Context comes_and_goes = {0}; /* outlives the router, which drops the last ones */
    int began = 0;
    pthread_t posters[3];
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&posters[i], NULL, post_many, router) == 0);
    }
    for (int i = 0; i < 3000; i++) {
        CrMessage *message = NULL;
        CHECK(cr_ring_recv(ring, 60000, &message) == CR_STATUS_OK);
        cr_message_free(message);
        if (i % 10 == 0) { /* comes and goes while others post */
            cr_unsubscribe(subscribe(router, i % 20 ? "other/+" : "t/none", &comes_and_goes));
            began++;
        }
    }
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_join(posters[i], NULL) == 0);
    }
    CHECK(cr_ring_dropped(ring) == 0 && cr_stats(router).hits == 3000);
    cr_ring_free(ring);
    cr_router_free(router);
    CHECK(comes_and_goes.dropped == began && comes_and_goes.calls == 0);
}

typedef struct {
    const char *name;
    void (*run)(void);
} Test;

static const Test tests[] = {
    {"wildcards", wildcards},
    {"wrong_arguments", wrong_arguments},
    {"ring_overflow", ring_overflow},
    {"within_a_handler", within_a_handler},
    {"waiting_within_a_handler", waiting_within_a_handler},
    {"threads", threads},
};

/* Says what ran in the words of cargo's test runner, which CI counts. The first check that fails ends it all. */
int main(void) {
    size_t count = sizeof tests / sizeof tests[0];
    for (size_t i = 0; i < count; i++) {
        tests[i].run();
        printf("test %s ... ok\n", tests[i].name);
    }
    printf("test result: ok. %zu passed; 0 failed\n", count);
    return 0;
}
