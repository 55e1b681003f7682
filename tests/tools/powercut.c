/* Records the file operations of a program for LD_PRELOAD, so that `tests::powercut` can build the disk after a power cut.
   COUNTER_POWER_FOLDER is the folder to watch, without its subfolders. COUNTER_POWER_JOURNAL is the file to append to. Several
   programs can use the same journal, one after another.

   A mutex is held during an operation and its entry, so the journal has the order of the operations, for all threads. A second
   name in COUNTER_POWER_FILES, the inode number, keeps a file that was removed: its number can't be reused, and a file can be
   restored with the same number. Shared memory (-shm) is not recorded, because nothing expects to find it after a power cut. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum operation { CREATE, WRITE, RESIZE, SYNC, SYNC_NAMES, REMOVE, RENAME, LINK };

/* An entry, followed by `length` bytes: the data of a write, or the names of an operation on names, separated by a slash. */
struct entry {
    uint64_t operation, file, at, length;
};

#define MAX_FILES 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static dev_t device;
static ino_t folder_number, files[MAX_FILES];
static int count, journal = -1;

static int (*real_open)(const char *, int, ...);
static ssize_t (*real_write)(int, const void *, size_t);

static void fail(const char *what) {
    dprintf(2, "powercut: %s\n", what);
    abort();
}

__attribute__((constructor)) static void start(void) {
    *(void **)&real_open = dlsym(RTLD_NEXT, "open64");
    *(void **)&real_write = dlsym(RTLD_NEXT, "write");
    const char *path = getenv("COUNTER_POWER_JOURNAL");
    struct stat status;
    folder = getenv("COUNTER_POWER_FOLDER");
    if (!folder || !path || stat(folder, &status))
        fail("no folder");
    device = status.st_dev;
    folder_number = status.st_ino;
    journal = real_open(path, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
    if (journal < 0)
        fail("no journal");
}

/* Blocks the other threads, so that no operation is performed without an entry when the program exits. */
__attribute__((destructor)) static void stop(void) {
    pthread_mutex_lock(&lock);
}

/* Returns the name of a file in the folder, or NULL for any other path. */
static const char *name_of(const char *path) {
    size_t length = folder ? strlen(folder) : 0;
    if (!length || strncmp(path, folder, length) || path[length] != '/')
        return NULL;
    const char *name = path + length + 1, *suffix = strrchr(name, '-');
    return *name && !strchr(name, '/') && !(suffix && !strcmp(suffix, "-shm")) ? name : NULL;
}

static void append(const void *data, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t wrote = real_write(journal, (const char *)data + done, length - done);
        if (wrote < 0)
            fail("can't write the journal");
        done += wrote;
    }
}

static void record(enum operation operation, ino_t file, uint64_t at, const void *data, size_t length) {
    struct entry entry = {operation, file, at, length};
    append(&entry, sizeof entry);
    append(data, length);
}

static int is_known(ino_t number) {
    for (int i = 0; i < count; i++)
        if (files[i] == number)
            return 1;
    return 0;
}

/* Returns the number of a file that was opened below the folder, or 0. */
static ino_t number_of(int file) {
    struct stat status;
    int error = errno, found = folder && !fstat(file, &status) && status.st_dev == device && is_known(status.st_ino);
    errno = error;
    return found ? status.st_ino : 0;
}

static void begin(void) {
    pthread_mutex_lock(&lock);
}

/* Returns the result of an operation that was performed since `begin`. */
static long end(long result) {
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

static void opened(int file, const char *path, const char *name, int existed) {
    struct stat status;
    if (fstat(file, &status))
        fail("no status");
    if (!is_known(status.st_ino)) {
        if (count == MAX_FILES)
            fail("too many files");
        files[count++] = status.st_ino;
    }
    if (existed)
        return;
    char kept[4096];
    snprintf(kept, sizeof kept, "%s/%llu", getenv("COUNTER_POWER_FILES"), (unsigned long long)status.st_ino);
    int (*real_link)(const char *, const char *);
    *(void **)&real_link = dlsym(RTLD_NEXT, "link");
    if (real_link(path, kept))
        fail("can't keep a file");
    record(CREATE, status.st_ino, 0, name, strlen(name));
}

static int open_file(const char *path, int flags, mode_t mode) {
    if (!real_open)
        *(void **)&real_open = dlsym(RTLD_NEXT, "open64");
    const char *name = name_of(path);
    if (!name)
        return real_open(path, flags, mode);
    begin();
    int existed = !access(path, F_OK), file = real_open(path, flags, mode);
    if (file >= 0) {
        opened(file, path, name, existed);
        if (existed && flags & O_TRUNC)
            record(RESIZE, number_of(file), 0, "", 0);
    }
    return end(file);
}

#define OPEN(function)                                       \
    int function(const char *path, int flags, ...) {         \
        va_list rest;                                        \
        va_start(rest, flags);                               \
        mode_t mode = va_arg(rest, mode_t);                  \
        va_end(rest);                                        \
        return open_file(path, flags, mode);                 \
    }

OPEN(open)
OPEN(open64)

/* Defines a function that performs `entry` if the next function of this name succeeds. */
#define ON_SUCCESS(type, function, parameters, arguments, entry)    \
    type function parameters {                                      \
        static type(*next) parameters;                              \
        if (!next)                                                  \
            *(void **)&next = dlsym(RTLD_NEXT, #function);          \
        begin();                                                    \
        type result = next arguments;                               \
        int error = errno;                                          \
        if (result >= 0) {                                          \
            entry;                                                  \
        }                                                           \
        errno = error;                                              \
        return end(result);                                         \
    }

static void wrote(int file, off64_t at, const void *data, ssize_t length) {
    ino_t number = file == journal ? 0 : number_of(file);
    if (number)
        record(WRITE, number, at, data, length);
}

static void synced(int file) {
    struct stat status;
    ino_t number = number_of(file);
    if (number)
        record(SYNC, number, 0, "", 0);
    else if (folder && !fstat(file, &status) && status.st_dev == device && status.st_ino == folder_number)
        record(SYNC_NAMES, 0, 0, "", 0);
}

static void resized(int file, off64_t size) {
    ino_t number = number_of(file);
    if (number)
        record(RESIZE, number, size, "", 0);
}

static void renamed(enum operation operation, const char *from, const char *to) {
    const char *old = name_of(from), *new = name_of(to);
    if (!old && !new)
        return;
    char names[8192];
    int length = snprintf(names, sizeof names, "%s/%s", old ? old : "", new ? new : "");
    record(operation, 0, 0, names, length);
}

static void removed(const char *path) {
    const char *name = name_of(path);
    if (name)
        record(REMOVE, 0, 0, name, strlen(name));
}

/* `lseek64` returns the position after the write. */
ON_SUCCESS(ssize_t, write, (int file, const void *data, size_t size), (file, data, size),
           if (number_of(file)) wrote(file, lseek64(file, 0, SEEK_CUR) - result, data, result))
ON_SUCCESS(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at),
           wrote(file, at, data, result))
ON_SUCCESS(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at),
           wrote(file, at, data, result))
ON_SUCCESS(int, ftruncate, (int file, off_t size), (file, size), resized(file, size))
ON_SUCCESS(int, ftruncate64, (int file, off64_t size), (file, size), resized(file, size))
ON_SUCCESS(int, fsync, (int file), (file), synced(file))
ON_SUCCESS(int, fdatasync, (int file), (file), synced(file))
ON_SUCCESS(int, unlink, (const char *path), (path), removed(path))
ON_SUCCESS(int, rename, (const char *from, const char *to), (from, to), renamed(RENAME, from, to))
ON_SUCCESS(int, link, (const char *from, const char *to), (from, to), renamed(LINK, from, to))
