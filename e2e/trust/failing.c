/*
 * failing.c: makes the disk of one program fail on command, without root and without a special file system.
 *
 *   cc -shared -fPIC -O2 -Wall -Wextra -o failing.so failing.c
 *   FAILING_PREFIX=/data/campanile.sqlite FAILING_SWITCH=/tmp/switch LD_PRELOAD=./failing.so program …
 *
 * While the switch file exists, the calls that it names fail with the errno that it gives for files whose path starts
 * with the prefix (not -shm, which stays in memory): "write=30" (EROFS: the file system was remounted read-only, as
 * the kernel does after an error), "sync=5" (EIO: the disk refused what the page cache held), "checkpoint=5" (the same for
 * the file with the prefix as its name alone: what was copied into it, and not its log). Several may stand there,
 * separated by a space. A refused write or truncation doesn't happen. A refused sync is done nevertheless: what the
 * program may conclude from the error is nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The errno that `call` shall fail with, or 0. */
static int commanded(const char *call) {
    const char *path = getenv("FAILING_SWITCH");
    char text[128];
    if (path == NULL) return 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    if (n <= 0) return 0;
    text[n] = '\0';
    const char *found = strstr(text, call);
    return found != NULL && found[strlen(call)] == '=' ? atoi(found + strlen(call) + 1) : 0;
}

static bool is_ours(int fd, bool alone) {
    const char *prefix = getenv("FAILING_PREFIX");
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = prefix == NULL ? -1 : readlink(link, path, sizeof path - 1);
    if (n < 0) return false;
    path[n] = '\0';
    if (alone) return strcmp(path, prefix) == 0;
    return strncmp(path, prefix, strlen(prefix)) == 0 && (n < 4 || strcmp(path + n - 4, "-shm") != 0);
}

/* True, with errno set, if the call on this file shall fail. errno is left alone otherwise. */
static bool fails(const char *call, int fd) {
    int saved = errno, code = commanded(call);
    bool failing = code != 0 && is_ours(fd, strcmp(call, "checkpoint") == 0);
    errno = failing ? code : saved;
    return failing;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    return fails("write", fd) ? -1 : syscall(SYS_write, fd, bytes, length);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    return fails("write", fd) ? -1 : syscall(SYS_writev, fd, parts, count);
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    return fails("write", fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, length, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) { return pwrite(fd, bytes, length, at); }

int ftruncate(int fd, off_t size) { return fails("write", fd) ? -1 : (int)syscall(SYS_ftruncate, fd, size); }
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

int fsync(int fd) {
    int done = (int)syscall(SYS_fsync, fd);
    return fails("sync", fd) || fails("checkpoint", fd) ? -1 : done;
}
int fdatasync(int fd) {
    int done = (int)syscall(SYS_fdatasync, fd);
    return fails("sync", fd) || fails("checkpoint", fd) ? -1 : done;
}
