// A line to another server that takes time: what comes in leaves as many microseconds later, both ways. It keeps the order and
// loses nothing. At SIGTERM it says how often clients asked: bursts of bytes that came after the last answer.
//
//   relay PORT HOST TARGET MICROSECONDS
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 512, CHUNK = 65536, QUEUED = 1 << 20 };

struct chunk {
    struct chunk *next;
    uint64_t due;
    size_t count, sent;
    char bytes[];
};

// One way: what was read of `from` and is to be written to `to`.
struct way {
    int from, to, has_ended;
    size_t queued;
    struct chunk *first, *last;
};

struct line {
    struct way ways[2];
    int is_open, is_asking;
};

static struct line lines[CONNECTIONS];
static uint64_t delay, questions;
static volatile sig_atomic_t is_ending;

static void end(int number) {
    (void)number;
    is_ending = 1;
}

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static struct sockaddr_in address(const char *host, const char *port) {
    struct sockaddr_in found = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, host, &found.sin_addr) != 1) fail(host);
    return found;
}

static void prepare(int socket) {
    int one = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(socket, F_SETFL, O_NONBLOCK);
}

static void drop(struct line *line) {
    for (int side = 0; side < 2; side++) {
        for (struct chunk *chunk = line->ways[side].first, *next; chunk; chunk = next) {
            next = chunk->next;
            free(chunk);
        }
        close(line->ways[side].from);
    }
    memset(line, 0, sizeof *line);
}

static void welcome(int listening, const struct sockaddr_in *target) {
    int client = accept(listening, NULL, NULL), server = socket(AF_INET, SOCK_STREAM, 0);
    struct line *line = NULL;
    for (int i = 0; i < CONNECTIONS && !line; i++)
        if (!lines[i].is_open) line = &lines[i];
    if (!line || client < 0 || server < 0 || connect(server, (const struct sockaddr *)target, sizeof *target) < 0) {
        if (client >= 0) close(client);
        if (server >= 0) close(server);
        return;
    }
    prepare(client);
    prepare(server);
    *line = (struct line){.ways = {{.from = client, .to = server}, {.from = server, .to = client}}, .is_open = 1};
}

// Returns 0 when the connection is broken.
static int take(struct line *line, int side) {
    struct way *way = &line->ways[side];
    struct chunk *chunk = malloc(sizeof *chunk + CHUNK);
    if (!chunk) fail("malloc");
    ssize_t count = recv(way->from, chunk->bytes, CHUNK, 0);
    if (count <= 0) {
        int isBroken = count < 0 && errno != EAGAIN && errno != EINTR;
        free(chunk);
        if (count == 0) way->has_ended = 1;
        return !isBroken;
    }
    if (side == 0 && !line->is_asking) questions++;
    line->is_asking = side == 0;
    *chunk = (struct chunk){.due = now() + delay, .count = (size_t)count};
    way->queued += chunk->count;
    if (way->last) way->last->next = chunk; else way->first = chunk;
    way->last = chunk;
    return 1;
}

// Returns 0 when the connection is over.
static int give(struct way *way, uint64_t time) {
    while (way->first && way->first->due <= time) {
        struct chunk *chunk = way->first;
        ssize_t count = send(way->to, chunk->bytes + chunk->sent, chunk->count - chunk->sent, MSG_NOSIGNAL);
        if (count < 0) return errno == EAGAIN || errno == EINTR;
        chunk->sent += (size_t)count;
        way->queued -= (size_t)count;
        if (chunk->sent < chunk->count) return 1;
        way->first = chunk->next;
        if (!way->first) way->last = NULL;
        free(chunk);
    }
    return way->first || !way->has_ended;
}

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "usage: relay PORT HOST TARGET MICROSECONDS\n");
        return 2;
    }
    struct sockaddr_in own = address("127.0.0.1", words[1]), target = address(words[2], words[3]);
    delay = strtoull(words[4], NULL, 10) * 1000;
    int listening = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listening, (struct sockaddr *)&own, sizeof own) < 0 || listen(listening, 128) < 0) fail("listen");
    signal(SIGTERM, end);
    static struct pollfd polled[1 + 2 * CONNECTIONS];
    static int sides[1 + 2 * CONNECTIONS];
    while (!is_ending) {
        uint64_t next = UINT64_MAX, time = now();
        int many = 0;
        polled[many++] = (struct pollfd){.fd = listening, .events = POLLIN};
        for (int i = 0; i < CONNECTIONS; i++) {
            if (!lines[i].is_open) continue;
            for (int side = 0; side < 2; side++) {
                struct way *way = &lines[i].ways[side];
                if (way->first && way->first->due < next) next = way->first->due;
                if (way->has_ended || way->queued >= QUEUED) continue;
                sides[many] = 2 * i + side;
                polled[many++] = (struct pollfd){.fd = way->from, .events = POLLIN};
            }
        }
        // What is due and isn't taken is offered again after a millisecond.
        uint64_t wait = next == UINT64_MAX ? 1000000000u : next > time ? next - time : 1000000u;
        struct timespec timeout = {.tv_sec = (time_t)(wait / 1000000000u), .tv_nsec = (long)(wait % 1000000000u)};
        if (ppoll(polled, (nfds_t)many, &timeout, NULL) < 0 && errno != EINTR) fail("ppoll");
        for (int i = 1; i < many; i++) {
            struct line *line = &lines[sides[i] / 2];
            if (line->is_open && polled[i].revents && !take(line, sides[i] % 2)) drop(line);
        }
        time = now();
        for (int i = 0; i < CONNECTIONS; i++) {
            struct line *line = &lines[i];
            if (line->is_open && (!give(&line->ways[0], time) || !give(&line->ways[1], time))) drop(line);
        }
        if (polled[0].revents) welcome(listening, &target);
    }
    printf("%llu\n", (unsigned long long)questions);
    return 0;
}
