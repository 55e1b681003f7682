// Keeps the memory of small objects out of use for long after they were freed. librdkafka's brokers in memory take the
// address of a member as its id, so that a member which comes back after its session would meet its own id at another
// member, at which the brokers abort. To be preloaded into them.

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
