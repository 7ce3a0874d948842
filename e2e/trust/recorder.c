/*
 * recorder.c: writes down, in one total order, what a program does to its database files and what it
 * acknowledges, so that powerloss.py can rebuild the disk as a power cut at any point may have left it.
 *
 *   cc -shared -fPIC -O2 -Wall -Wextra -o recorder.so recorder.c -ldl -pthread
 *   RECORDER_LOG=/tmp/log RECORDER_PREFIX=/data/campanile.sqlite LD_PRELOAD=./recorder.so program …
 *
 * Recorded: every file whose absolute path starts with RECORDER_PREFIX (the database, -wal, -journal, backups beside
 * it; not -shm, which SQLite maps into memory and rebuilds), the directory they stand in (its fsync is what makes a
 * name durable), the head of every HTTP answer "HTTP/1.1 2xx" given to a socket, and, so that the replayer knows what
 * it answers, the head of every POST, PATCH, PUT and DELETE that came on that socket.
 *
 * The order: one mutex in the process and one flock on the log between processes. A change of a file is written to
 * the log and then made while both are held, so the log's order is the page cache's order. A sync is two records,
 * "begin" and, if it returned 0, "end": only what stands before a "begin" with an "end" is on the disk. An
 * acknowledgement is logged before the bytes are given to the kernel.
 *
 * What would escape the log (a writable shared mapping, fallocate, a failed or short write) is logged as such, and
 * the replayer refuses the whole log. The recorder's own file is written with raw system calls: no recursion.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum record_type {
    RECORD_OPEN = 1,        /* payload: path; flag: OPEN_* */
    RECORD_WRITE = 2,       /* offset, payload: the bytes */
    RECORD_SYNC_BEGIN = 3,  /* offset: serial number of the sync in this process */
    RECORD_SYNC_END = 4,    /* the same serial; only if the sync returned 0 */
    RECORD_TRUNCATE = 5,    /* offset: the new size */
    RECORD_RENAME = 6,      /* payload: old path, NUL, new path */
    RECORD_UNLINK = 7,      /* payload: path */
    RECORD_SEND = 8,        /* payload: the first bytes of a 2xx answer; handle: the socket */
    RECORD_ESCAPED = 9,     /* payload: what happened that the log can't hold */
    RECORD_RANGE_HINT = 10, /* sync_file_range: promises nothing, kept for the reader */
    RECORD_RECEIVE = 11,    /* payload: the first bytes of a POST, PATCH, PUT or DELETE; handle: the socket */
};

enum { OPEN_CREATED = 1, OPEN_TRUNCATED = 2, OPEN_DIRECTORY = 4 };
enum { MAX_FD = 65536, HEAD_BYTES = 1024 };

/* Little endian, 28 bytes, followed by `length` bytes of payload. */
struct __attribute__((packed)) record {
    uint32_t magic;
    uint32_t length;
    uint8_t type;
    uint8_t flag;
    uint16_t reserved;
    uint32_t pid;
    uint32_t handle;
    uint64_t offset;
};
static const uint32_t RECORD_MAGIC = 0x31444352; /* "RCD1" */

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static char prefix[PATH_MAX];
static char directory[PATH_MAX];
static uint32_t next_handle = 1;
static uint64_t next_sync = 1;
static uint32_t handles[MAX_FD]; /* 0: not one of ours. Read without the mutex only by whoever owns the descriptor. */

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) abort();
    return found;
}

__attribute__((constructor)) static void start_recording(void) {
    const char *log = getenv("RECORDER_LOG"), *files = getenv("RECORDER_PREFIX");
    if (log == NULL || files == NULL || files[0] != '/' || strlen(files) >= sizeof prefix) return;
    strcpy(prefix, files);
    strcpy(directory, files);
    char *slash = strrchr(directory, '/');
    slash[slash == directory ? 1 : 0] = '\0';
    log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0) {
        perror("recorder: can't open the log");
        _exit(97);
    }
}

static void lock_order(void) {
    pthread_mutex_lock(&order);
    while (syscall(SYS_flock, log_fd, LOCK_EX) != 0 && errno == EINTR) {}
}

static void unlock_order(void) {
    syscall(SYS_flock, log_fd, LOCK_UN);
    pthread_mutex_unlock(&order);
}

/* One record in one system call. A log that can't be written makes the run worthless: stop loudly. */
static void append(enum record_type type, uint8_t flag, uint32_t handle, uint64_t offset,
                   const struct iovec *payload, int count) {
    struct iovec parts[16];
    struct record head = {.magic = RECORD_MAGIC, .type = (uint8_t)type, .flag = flag,
                          .pid = (uint32_t)getpid(), .handle = handle, .offset = offset};
    size_t length = 0;
    if (count > 15) _exit(98);
    for (int i = 0; i < count; i++) {
        parts[i + 1] = payload[i];
        length += payload[i].iov_len;
    }
    head.length = (uint32_t)length;
    parts[0] = (struct iovec){&head, sizeof head};
    if (syscall(SYS_writev, log_fd, parts, count + 1) != (long)(sizeof head + length)) {
        static const char message[] = "recorder: the log can't be written\n";
        syscall(SYS_write, 2, message, sizeof message - 1);
        _exit(99);
    }
}

static void append_bytes(enum record_type type, uint8_t flag, uint32_t handle, uint64_t offset,
                         const void *bytes, size_t length) {
    struct iovec part = {(void *)bytes, length};
    append(type, flag, handle, offset, &part, 1);
}

static uint32_t handle_of(int fd) {
    return log_fd >= 0 && fd >= 0 && fd < MAX_FD ? handles[fd] : 0;
}

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* The absolute form of a path without resolving links: the scripts pass real paths. */
static bool absolute(int dirfd, const char *path, char out[PATH_MAX]) {
    if (path == NULL) return false;
    if (path[0] == '/') return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
    char base[PATH_MAX / 2];
    if (dirfd == AT_FDCWD) {
        if (getcwd(base, sizeof base) == NULL) return false;
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd);
        ssize_t n = readlink(link, base, sizeof base - 1);
        if (n < 0) return false;
        base[n] = '\0';
    }
    return snprintf(out, PATH_MAX, "%s/%s", base, path) < PATH_MAX;
}

static bool is_recorded(const char *path) {
    return strncmp(path, prefix, strlen(prefix)) == 0 && !ends_with(path, "-shm");
}

/* --- opening and closing ------------------------------------------------------------------------------------- */

static int record_open(int dirfd, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    bool known = log_fd >= 0 && absolute(dirfd, path, full);
    bool is_directory = known && strcmp(full, directory) == 0;
    if (!known || (!is_directory && !is_recorded(full)))
        return (int)syscall(SYS_openat, dirfd, path, flags, mode);
    lock_order();
    bool existed = syscall(SYS_faccessat, AT_FDCWD, full, F_OK) == 0;
    int fd = (int)syscall(SYS_openat, dirfd, path, flags, mode);
    int saved = errno;
    if (fd >= MAX_FD) _exit(96);
    if (fd >= 0) {
        uint8_t flag = (uint8_t)((existed ? 0 : OPEN_CREATED) | (is_directory ? OPEN_DIRECTORY : 0) |
                                 (existed && (flags & O_TRUNC) ? OPEN_TRUNCATED : 0));
        handles[fd] = next_handle++;
        append_bytes(RECORD_OPEN, flag, handles[fd], 0, full, strlen(full));
    }
    unlock_order();
    errno = saved;
    return fd;
}

#define OPEN_WRAPPER(name)                                  \
    int name(const char *path, int flags, ...) {            \
        va_list more;                                       \
        va_start(more, flags);                              \
        mode_t mode = va_arg(more, mode_t);                 \
        va_end(more);                                       \
        return record_open(AT_FDCWD, path, flags, mode);    \
    }
#define OPENAT_WRAPPER(name)                                \
    int name(int dirfd, const char *path, int flags, ...) { \
        va_list more;                                       \
        va_start(more, flags);                              \
        mode_t mode = va_arg(more, mode_t);                 \
        va_end(more);                                       \
        return record_open(dirfd, path, flags, mode);       \
    }
OPEN_WRAPPER(open)
OPEN_WRAPPER(open64)
OPENAT_WRAPPER(openat)
OPENAT_WRAPPER(openat64)
int __open_2(const char *path, int flags) { return record_open(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return record_open(AT_FDCWD, path, flags, 0); }
int creat(const char *path, mode_t mode) { return record_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return record_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* A file made without opening it: recorded like an open whose handle nobody uses. */
static int record_mknod(int dirfd, const char *path, mode_t mode, dev_t device) {
    char full[PATH_MAX];
    if (log_fd < 0 || !absolute(dirfd, path, full) || !is_recorded(full))
        return (int)syscall(SYS_mknodat, dirfd, path, mode, device);
    lock_order();
    int result = (int)syscall(SYS_mknodat, dirfd, path, mode, device);
    int saved = errno;
    if (result == 0) append_bytes(RECORD_OPEN, OPEN_CREATED, next_handle++, 0, full, strlen(full));
    unlock_order();
    errno = saved;
    return result;
}
int mknod(const char *path, mode_t mode, dev_t device) { return record_mknod(AT_FDCWD, path, mode, device); }
int mknodat(int dirfd, const char *path, mode_t mode, dev_t device) { return record_mknod(dirfd, path, mode, device); }

int close(int fd) {
    /* Before the number is free for somebody else's socket. */
    if (handle_of(fd) != 0) handles[fd] = 0;
    return (int)syscall(SYS_close, fd);
}

/* --- writing -------------------------------------------------------------------------------------------------- */

/* What happened that the log can't hold; the replayer stops at it. Called with the order held. */
static void append_escape(uint32_t handle, const char *what) {
    append_bytes(RECORD_ESCAPED, 0, handle, 0, what, strlen(what));
}

static uint64_t position(int fd) {
    if (syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND) return (uint64_t)syscall(SYS_lseek, fd, 0, SEEK_END);
    return (uint64_t)syscall(SYS_lseek, fd, 0, SEEK_CUR);
}

/* offset < 0: at the file's position. */
static ssize_t record_write(int fd, uint32_t handle, const struct iovec *parts, int count, off_t offset) {
    ssize_t wanted = 0;
    for (int i = 0; i < count; i++) wanted += (ssize_t)parts[i].iov_len;
    lock_order();
    uint64_t at = offset < 0 ? position(fd) : (uint64_t)offset;
    append(RECORD_WRITE, 0, handle, at, parts, count);
    ssize_t done = offset < 0 ? syscall(SYS_writev, fd, parts, count)
                              : syscall(SYS_pwritev, fd, parts, count, (long)offset, 0L);
    int saved = errno;
    if (done != wanted) append_escape(handle, "a write failed or was short");
    unlock_order();
    errno = saved;
    return done;
}

static void record_answer(int fd, const struct iovec *parts, size_t count) {
    char head[HEAD_BYTES];
    size_t length = 0;
    if (log_fd < 0 || count == 0 || parts[0].iov_len < 10 || memcmp(parts[0].iov_base, "HTTP/1.", 7) != 0 ||
        ((const char *)parts[0].iov_base)[9] != '2')
        return;
    for (size_t i = 0; i < count && length < sizeof head; i++) {
        size_t room = sizeof head - length, take = parts[i].iov_len < room ? parts[i].iov_len : room;
        memcpy(head + length, parts[i].iov_base, take);
        length += take;
    }
    lock_order();
    append_bytes(RECORD_SEND, 0, (uint32_t)fd, 0, head, length);
    unlock_order();
}

ssize_t write(int fd, const void *bytes, size_t length) {
    struct iovec part = {(void *)bytes, length};
    uint32_t handle = handle_of(fd);
    if (handle != 0) return record_write(fd, handle, &part, 1, -1);
    record_answer(fd, &part, 1);
    return syscall(SYS_write, fd, bytes, length);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    uint32_t handle = handle_of(fd);
    if (handle != 0) return record_write(fd, handle, parts, count, -1);
    if (count > 0) record_answer(fd, parts, (size_t)count);
    return syscall(SYS_writev, fd, parts, count);
}

static ssize_t record_pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    struct iovec part = {(void *)bytes, length};
    uint32_t handle = handle_of(fd);
    if (handle != 0) return record_write(fd, handle, &part, 1, offset);
    return syscall(SYS_pwrite64, fd, bytes, length, offset);
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return record_pwrite(fd, bytes, length, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) { return record_pwrite(fd, bytes, length, at); }

static ssize_t record_pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    uint32_t handle = handle_of(fd);
    if (handle != 0) return record_write(fd, handle, parts, count, offset);
    return syscall(SYS_pwritev, fd, parts, count, (long)offset, 0L);
}
ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at) { return record_pwritev(fd, parts, n, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int n, off_t at) { return record_pwritev(fd, parts, n, at); }

/* --- answers --------------------------------------------------------------------------------------------------- */

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
    struct iovec part = {(void *)bytes, length};
    record_answer(fd, &part, 1);
    return syscall(SYS_sendto, fd, bytes, length, flags, NULL, 0);
}

ssize_t sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size) {
    struct iovec part = {(void *)bytes, length};
    record_answer(fd, &part, 1);
    return syscall(SYS_sendto, fd, bytes, length, flags, to, size);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    record_answer(fd, message->msg_iov, message->msg_iovlen);
    return syscall(SYS_sendmsg, fd, message, flags);
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static ssize_t record_request(int fd, const char *bytes, ssize_t length) {
    static const char *const methods[] = {"POST ", "PATCH ", "PUT ", "DELETE "};
    int saved = errno;
    for (size_t i = 0; log_fd >= 0 && length > 0 && i < sizeof methods / sizeof *methods; i++) {
        size_t size = strlen(methods[i]);
        if ((size_t)length < size || memcmp(bytes, methods[i], size) != 0) continue;
        lock_order();
        append_bytes(RECORD_RECEIVE, 0, (uint32_t)fd, 0, bytes, length < HEAD_BYTES ? (size_t)length : HEAD_BYTES);
        unlock_order();
    }
    errno = saved;
    return length;
}

ssize_t recv(int fd, void *bytes, size_t length, int flags) {
    return record_request(fd, bytes, syscall(SYS_recvfrom, fd, bytes, length, flags, NULL, NULL));
}

ssize_t recvfrom(int fd, void *restrict bytes, size_t length, int flags, struct sockaddr *restrict from,
                 socklen_t *restrict size) {
    return record_request(fd, bytes, syscall(SYS_recvfrom, fd, bytes, length, flags, from, size));
}

ssize_t read(int fd, void *bytes, size_t length) {
    ssize_t done = syscall(SYS_read, fd, bytes, length);
    return handle_of(fd) != 0 ? done : record_request(fd, bytes, done);
}

/* --- syncing, truncating, names ---------------------------------------------------------------------------------- */

static int record_sync(int fd, long number) {
    uint32_t handle = handle_of(fd);
    if (handle == 0) return (int)syscall(number, fd);
    lock_order();
    uint64_t serial = next_sync++;
    append(RECORD_SYNC_BEGIN, 0, handle, serial, NULL, 0);
    unlock_order();
    int result = (int)syscall(number, fd);
    int saved = errno;
    if (result == 0) {
        lock_order();
        append(RECORD_SYNC_END, 0, handle, serial, NULL, 0);
        unlock_order();
    }
    errno = saved;
    return result;
}
int fsync(int fd) { return record_sync(fd, SYS_fsync); }
int fdatasync(int fd) { return record_sync(fd, SYS_fdatasync); }

int sync_file_range(int fd, off64_t offset, off64_t length, unsigned flags) {
    uint32_t handle = handle_of(fd);
    if (handle != 0) {
        lock_order();
        append(RECORD_RANGE_HINT, 0, handle, (uint64_t)offset, NULL, 0);
        unlock_order();
    }
    return (int)syscall(SYS_sync_file_range, fd, offset, length, flags);
}

static int record_truncate(int fd, off_t size) {
    uint32_t handle = handle_of(fd);
    if (handle == 0) return (int)syscall(SYS_ftruncate, fd, size);
    lock_order();
    append(RECORD_TRUNCATE, 0, handle, (uint64_t)size, NULL, 0);
    int result = (int)syscall(SYS_ftruncate, fd, size);
    int saved = errno;
    if (result != 0) append_escape(handle, "ftruncate failed");
    unlock_order();
    errno = saved;
    return result;
}
int ftruncate(int fd, off_t size) { return record_truncate(fd, size); }
int ftruncate64(int fd, off64_t size) { return record_truncate(fd, size); }

static int record_unlink(int dirfd, const char *path, int flags) {
    char full[PATH_MAX];
    if (log_fd < 0 || !absolute(dirfd, path, full) || !is_recorded(full))
        return (int)syscall(SYS_unlinkat, dirfd, path, flags);
    lock_order();
    int result = (int)syscall(SYS_unlinkat, dirfd, path, flags);
    int saved = errno;
    if (result == 0) append_bytes(RECORD_UNLINK, 0, 0, 0, full, strlen(full));
    unlock_order();
    errno = saved;
    return result;
}
int unlink(const char *path) { return record_unlink(AT_FDCWD, path, 0); }
int unlinkat(int dirfd, const char *path, int flags) { return record_unlink(dirfd, path, flags); }
int remove(const char *path) {
    int result = record_unlink(AT_FDCWD, path, 0);
    return result != 0 && errno == EISDIR ? record_unlink(AT_FDCWD, path, AT_REMOVEDIR) : result;
}

static int record_rename(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
    char a[PATH_MAX], b[PATH_MAX];
    if (log_fd < 0 || !absolute(from_fd, from, a) || !absolute(to_fd, to, b) || (!is_recorded(a) && !is_recorded(b)))
        return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
    lock_order();
    int result = (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
    int saved = errno;
    if (result == 0) {
        struct iovec parts[] = {{a, strlen(a) + 1}, {b, strlen(b)}};
        append(RECORD_RENAME, 0, 0, 0, parts, 2);
        /* A file that comes from or goes to where nothing is recorded would have bytes the log doesn't know. */
        if (!is_recorded(a) || !is_recorded(b) || flags != 0) append_escape(0, "a rename across the recorded files");
    }
    unlock_order();
    errno = saved;
    return result;
}
int rename(const char *from, const char *to) { return record_rename(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return record_rename(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    return record_rename(a, from, b, to, flags);
}

/* --- what would bypass the log ------------------------------------------------------------------------------------ */

static void escaped(int fd, const char *what) {
    uint32_t handle = handle_of(fd);
    if (handle == 0) return;
    lock_order();
    append_escape(handle, what);
    unlock_order();
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
    escaped(fd, "fallocate");
    return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}
int fallocate64(int fd, int mode, off64_t offset, off64_t length) { return fallocate(fd, mode, offset, length); }
int posix_fallocate(int fd, off_t offset, off_t length) {
    escaped(fd, "posix_fallocate");
    return REAL(posix_fallocate)(fd, offset, length);
}
int posix_fallocate64(int fd, off64_t offset, off64_t length) { return posix_fallocate(fd, offset, length); }

static int record_link(int from_fd, const char *from, int to_fd, const char *to, int flags) {
    char full[PATH_MAX];
    int result = (int)syscall(SYS_linkat, from_fd, from, to_fd, to, flags);
    int saved = errno;
    if (result == 0 && log_fd >= 0 && absolute(to_fd, to, full) && is_recorded(full)) {
        lock_order();
        append_escape(0, "a hard link to a recorded file");
        unlock_order();
    }
    errno = saved;
    return result;
}
int link(const char *from, const char *to) { return record_link(AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int a, const char *from, int b, const char *to, int flags) { return record_link(a, from, b, to, flags); }

static void *record_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset) {
    if ((flags & MAP_SHARED) && (protection & PROT_WRITE)) escaped(fd, "a writable shared mapping");
    return (void *)syscall(SYS_mmap, at, length, protection, flags, fd, offset);
}
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t off) {
    return record_mmap(at, n, prot, flags, fd, off);
}
void *mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t off) {
    return record_mmap(at, n, prot, flags, fd, off);
}
