/* What subscribers.c asks of the system: the time, addresses, and files with texts in them. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct text { const char *bytes; size_t length; };
struct texts { struct text *items; size_t count; };

static void fail(const char *what) {
    fprintf(stderr, "subscribers: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static struct sockaddr_in loopback(int number) {
    return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)number),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static struct text read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) fail(path);
    long size = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)size + 1);
    if (!bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size) fail(path);
    fclose(file);
    bytes[size] = 0;
    return (struct text){ bytes, (size_t)size };
}

static struct texts split(struct text all) {
    struct texts found = { NULL, 0 };
    for (const char *at = all.bytes; at < all.bytes + all.length; found.count++) at += strlen(at) + 1;
    found.items = calloc(found.count + 1, sizeof *found.items);
    const char *at = all.bytes;
    for (size_t n = 0; n < found.count; n++) {
        found.items[n] = (struct text){ at, strlen(at) };
        at += strlen(at) + 1;
    }
    return found;
}

/* Texts of any bytes, each after its length in four bytes, the lowest first. */
static struct texts with_lengths(struct text all) {
    struct texts found = { NULL, 0 };
    for (size_t at = 0; at + 4 <= all.length; found.count++) {
        const unsigned char *size = (const unsigned char *)all.bytes + at;
        size_t length = size[0] | size[1] << 8 | size[2] << 16 | (size_t)size[3] << 24;
        found.items = realloc(found.items, (found.count + 1) * sizeof *found.items);
        if (!found.items) fail("memory");
        found.items[found.count] = (struct text){ all.bytes + at + 4, length };
        at += 4 + length;
    }
    return found;
}
