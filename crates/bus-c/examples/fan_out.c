/* One message to every subscriber whose filter matches. Build: see test.sh. */
#include "courser_router.h"

#include <stdio.h>
#include <string.h>

static void print(void *context, uint64_t subscription, const uint8_t *route, size_t route_len,
                  const uint8_t *data, size_t data_len) {
    (void)subscription;
    printf("%s got %.*s from %.*s\n", (const char *)context, (int)data_len, (const char *)data, (int)route_len,
           (const char *)route);
}

static const uint8_t *bytes(const char *text) { return (const uint8_t *)text; }

int main(void) {
    const char *filters[] = {"sensors/+/temperature", "sensors/kitchen/#", "doors/#"};
    CrSubscription *subscriptions[3];
    CrRouter *router = cr_router_new();
    for (int i = 0; i < 3; i++) {
        if (cr_subscribe(router, bytes(filters[i]), strlen(filters[i]), print, (void *)filters[i], NULL,
                         &subscriptions[i]) != CR_STATUS_OK) {
            return 1;
        }
    }
    const char *name = "sensors/kitchen/temperature";
    CrKey *key;
    if (cr_key_new(router, bytes(name), strlen(name), &key) != CR_STATUS_OK) {
        return 1;
    }
    cr_post(router, key, bytes("21"), 2); /* reaches the first two */
    printf("%llu calls\n", (unsigned long long)cr_stats(router).hits);
    for (int i = 0; i < 3; i++) {
        cr_unsubscribe(subscriptions[i]);
    }
    cr_key_free(key);
    cr_router_free(router);
    return 0;
}
