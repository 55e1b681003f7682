/* Shifts the wall clock by COUNTER_CLOCK_AHEAD seconds via LD_PRELOAD. Other clocks are not changed.
   We can't use libfaketime, because it doesn't work with jemalloc, which reads the time before libfaketime can be
   initialized, and Redis uses jemalloc. The clock is only shifted for selected programs, because others might wait
   for a time of day in the kernel, which doesn't know about the shift. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
extern char *program_invocation_short_name;

static int concerned(void) {
    const char *programs[] = {"suite-", "redis-", "example-app", "axum"};
    for (int i = 0; i < 4; i++)
        if (!strncmp(program_invocation_short_name, programs[i], strlen(programs[i])))
            return 1;
    return 0;
}

static long long ahead_ns(void) {
    static long long ahead = -1;
    if (ahead < 0) {
        if (!environ || !program_invocation_short_name)
            return 0;
        const char *text = getenv("COUNTER_CLOCK_AHEAD");
        ahead = text && concerned() ? (long long)(atof(text) * 1e9) : 0;
    }
    return ahead;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long ns = time->tv_nsec + ahead_ns();
        time->tv_sec += ns / 1000000000;
        time->tv_nsec = ns % 1000000000;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to)
        *to = now.tv_sec;
    return now.tv_sec;
}
