// Delays the reuse of small allocations. The mock brokers of librdkafka use the address of a member as its
// id, so a member that returns after a session timeout could find its old id in use by a different member,
// and the brokers would abort. Must be preloaded into the brokers.

#include <malloc.h>
#include <pthread.h>
#include <stddef.h>

#define SMALL 256
#define KEPT (1 << 20)

static void *kept[KEPT];
static size_t next;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
extern void __libc_free(void *);

void free(void *object) {
    if (object && malloc_usable_size(object) <= SMALL) {
        pthread_mutex_lock(&lock);
        void *oldest = kept[next];
        kept[next] = object;
        next = (next + 1) % KEPT;
        pthread_mutex_unlock(&lock);
        object = oldest;
    }
    __libc_free(object);
}
