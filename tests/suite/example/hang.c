/* A disk that hangs, for LD_PRELOAD. While the file named by COUNTER_HANG exists, all calls that open, read, write, sync or
   remove a spool file will block. They append a byte to the COUNTER_HANG file before they block. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void wait_for(const char *path) {
    const char *hang = getenv("COUNTER_HANG");
    if (!hang || !strstr(path, ".spool") || access(hang, F_OK))
        return;
    int said = syscall(SYS_openat, AT_FDCWD, hang, O_WRONLY | O_APPEND);
    syscall(SYS_write, said, "x", 1);
    syscall(SYS_close, said);
    while (!access(hang, F_OK))
        usleep(10000);
}

static void wait_for_file(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0) {
        path[length] = 0;
        wait_for(path);
    }
}

#define OPEN(name)                                                  \
    int name(const char *path, int flags, ...) {                    \
        va_list rest;                                               \
        va_start(rest, flags);                                      \
        mode_t mode = va_arg(rest, mode_t);                         \
        va_end(rest);                                               \
        wait_for(path);                                             \
        return syscall(SYS_openat, AT_FDCWD, path, flags, mode);    \
    }

#define ON_FILE(result, name, parameters, ...)                      \
    result name parameters {                                        \
        static result(*next) parameters;                            \
        if (!next)                                                  \
            *(void **)&next = dlsym(RTLD_NEXT, #name);              \
        wait_for_file(file);                                        \
        return next(__VA_ARGS__);                                   \
    }

OPEN(open)
OPEN(open64)
ON_FILE(ssize_t, read, (int file, void *to, size_t size), file, to, size)
ON_FILE(ssize_t, write, (int file, const void *from, size_t size), file, from, size)
ON_FILE(ssize_t, pread64, (int file, void *to, size_t size, off64_t at), file, to, size, at)
ON_FILE(ssize_t, pwrite64, (int file, const void *from, size_t size, off64_t at), file, from, size, at)
ON_FILE(int, fsync, (int file), file)
ON_FILE(int, fdatasync, (int file), file)

int unlink(const char *path) {
    wait_for(path);
    return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
