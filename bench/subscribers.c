/* Very many subscribers in one process, for bench/streams.py: opens connections, sends each its request, reads what comes
   and says when. One thread, one epoll set, so that both servers are read by the same program at the same price.

     subscribers PORT COUNT REQUESTS [--initial N] [--posts PORT] [--socket N [--subscribe FILE]]

   REQUESTS holds whole HTTP requests, each followed by a zero byte; connection n sends request n modulo their number.
   --initial N: a connection is ready when so many events with data have come (default 0: with the head of the answer).
   --posts PORT: where `paced` posts, if it isn't where the subscribers are.
   --socket N: a WebSocket; a connection is ready when so many subscriptions are confirmed (0: with the head of the answer).
   What comes afterwards are events, but for what ActionCable's protocol says of itself.
   --subscribe FILE: bytes that are sent after the head, each text after its length in four bytes, the lowest first;
   connection n sends text n modulo their number.

   Prints {"ready":…} and then obeys lines on its standard input, each answered with one line of JSON:
     state                          how many connections are open, how many events came
     round FILE                     sends the requests in FILE, each when the last is answered, and waits for as many events on every
                                    connection; `median` and `p99` say when so many of them had all
     paced RATE WARM CONNECTIONS REQUESTS TARGETS
                                    sends the requests at the fixed rate over so many connections; TARGETS names for
                                    each the subscriber and the count that it raises the badge to. Gives in µs how long after
                                    its scheduled moment each was seen, without the first WARM requests.
   Times are nanoseconds of CLOCK_MONOTONIC. The end of the input ends the program.

   `subscribers --blast PORT COUNT BYTES` is the other end at its barest, to show what this program can take in: it
   accepts COUNT connections, answers each with a head, and at POST sends an event of BYTES bytes to all. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "subscribers_frames.h"
#include "subscribers_system.h"

enum { OPENING_AT_ONCE = 128, LINE_BYTES = 256, EVENTS_AT_ONCE = 512, WAIT_SECONDS = 60 };
enum phase { CONNECTING, HEAD, BODY, CLOSED };
enum kind { SUBSCRIBER, SENDER, INPUT };

struct subscriber {
    enum kind kind;
    int fd;
    enum phase phase;
    int ready, has_data, marks;   /* marks: how much of the mark is matched */
    long count;                   /* the badge of the event that is being read */
    unsigned events, round, round_events;
    unsigned confirmed;           /* its subscriptions */
    struct frames frames;
    int first_post, last_post;    /* its requests that weren't seen yet, as a list */
    unsigned line_length;
    char line[LINE_BYTES];
};

struct sender {
    enum kind kind;
    int fd, busy;
    size_t length;
    char answer[4096];
};

struct post { int64_t at, seen, answered; long count; int next; };

static int epoll = -1, port, post_port, is_socket;   /* where it listens; where it posts */
static unsigned confirmations;
static struct subscriber *subscribers;
static unsigned subscriber_count, opened, ready, closed, round_number, round_wanted = 1, round_seen;
static struct texts requests, subscriptions;
static unsigned initial_events;
static uint64_t events_total, event_bytes;
static int64_t first_at, *had_all;   /* the moments at which the subscribers had all of a round */
static struct post *posts;
static enum kind input_kind = INPUT;

static int connect_socket(int flags, int number) {
    struct sockaddr_in to = loopback(number);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), one = 1;
    if (fd < 0) fail("socket");
    /* Closed with a reset, so that thousands of ports don't wait for two minutes after each measure. */
    struct linger at_once = { 1, 0 };
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) fail("connect");
    return fd;
}

static void watch(int fd, void *of, uint32_t what, int operation) {
    struct epoll_event event = { .events = what, .data.ptr = of };
    if (epoll_ctl(epoll, operation, fd, &event)) fail("epoll_ctl");
}

/* ---- subscribers ---- */

static void open_some(void) {
    while (opened < subscriber_count && opened - ready - closed < OPENING_AT_ONCE) {
        struct subscriber *one = &subscribers[opened++];
        one->fd = connect_socket(SOCK_NONBLOCK, port);
        watch(one->fd, one, EPOLLOUT, EPOLL_CTL_ADD);
    }
}

static void is_ready(struct subscriber *one) {
    if (one->ready) return;
    one->ready = 1;
    ready++;
}

static void close_subscriber(struct subscriber *one) {
    if (one->phase == CLOSED) return;
    close(one->fd);
    one->phase = CLOSED;
    closed++;
}

static void send_whole(int fd, struct text text) {
    /* A fresh socket takes any request whole. */
    if (send(fd, text.bytes, text.length, MSG_NOSIGNAL) != (ssize_t)text.length) fail("send");
}

static void event_ended(struct subscriber *one, int64_t at) {
    one->events++;
    events_total++;
    if (!is_socket && one->events >= initial_events) is_ready(one);
    if (one->round != round_number) {
        one->round = round_number;
        one->round_events = 0;
        if (!first_at) first_at = at;
    }
    if (++one->round_events == round_wanted) had_all[round_seen++] = at;
    /* The badge may have jumped over numbers (changes within 50 ms become one event): all up to it are on the page. */
    while (one->first_post >= 0 && posts[one->first_post].count <= one->count) {
        posts[one->first_post].seen = at;
        one->first_post = posts[one->first_post].next;
    }
}

static void line_ended(struct subscriber *one, int64_t at) {
    one->line[one->line_length < LINE_BYTES ? one->line_length : LINE_BYTES - 1] = 0;
    if (one->line_length == 0) {
        if (one->has_data) event_ended(one, at);
        one->has_data = 0;
    } else if (!strncmp(one->line, "data:", 5)) {
        const char *count = strstr(one->line, "\"count\":");
        one->has_data = 1;
        one->count = count ? atol(count + 8) : 0;
    }
    one->line_length = 0;
}

/* Lines of chunked encoding look like unknown fields and are passed over as such. */
static void body(struct subscriber *one, const char *bytes, size_t length, int64_t at) {
    while (length) {
        const char *end = memchr(bytes, '\n', length);
        size_t part = end ? (size_t)(end - bytes) : length;
        if (one->line_length < LINE_BYTES) {
            size_t room = LINE_BYTES - one->line_length, kept = part < room ? part : room;
            memcpy(one->line + one->line_length, bytes, kept);
            one->line_length += (unsigned)kept;
        }
        if (!end) return;
        line_ended(one, at);
        bytes += part + 1;
        length -= part + 1;
    }
}

/* Looks for a mark in bytes that come in parts. Returns what follows it, or NULL. */
static const char *after_mark(struct subscriber *one, const char *mark, const char *bytes, size_t length) {
    for (size_t n = 0; n < length; n++) {
        one->marks = bytes[n] == mark[one->marks] ? one->marks + 1 : bytes[n] == mark[0];
        if (!mark[one->marks]) return bytes + n + 1;
    }
    return NULL;
}

static void frame_ended(struct subscriber *one, int64_t at) {
    struct frames *frame = &one->frames;
    if (frame_is_closing(frame)) return close_subscriber(one);
    if (!frame_is_text(frame) || frame_begins(frame, "{\"type\":")) return;
    if (frame_ends(frame, "\"reject_subscription\"}")) {
        fprintf(stderr, "subscribers: a subscription was rejected\n");
        exit(1);
    }
    if (frame_ends(frame, "\"confirm_subscription\"}")) {
        if (++one->confirmed == confirmations) is_ready(one);
        return;
    }
    event_bytes += frame->length;
    event_ended(one, at);
}

static void frames_of(struct subscriber *one, const char *bytes, size_t length, int64_t at) {
    while (length && one->phase != CLOSED) {
        size_t taken = take_frame(&one->frames, bytes, length);
        if (frame_is_whole(&one->frames)) {
            frame_ended(one, at);
            next_frame(&one->frames);
        }
        bytes += taken;
        length -= taken;
    }
}

static void take(struct subscriber *one, const char *bytes, size_t length, int64_t at) {
    const char *end = bytes + length;
    if (one->phase == HEAD) {
        if (one->line_length < 12) {
            size_t kept = length < 12 - one->line_length ? length : 12 - one->line_length;
            memcpy(one->line + one->line_length, bytes, kept);
            one->line_length += (unsigned)kept;
        }
        bytes = after_mark(one, "\r\n\r\n", bytes, length);
        if (!bytes) return;
        if (memcmp(one->line, is_socket ? "HTTP/1.1 101" : "HTTP/1.1 200", 12)) {
            fprintf(stderr, "subscribers: refused with %.12s\n", one->line);
            exit(1);
        }
        one->phase = BODY;
        one->marks = 0;
        one->line_length = 0;
        if (subscriptions.count) send_whole(one->fd, subscriptions.items[(size_t)(one - subscribers) % subscriptions.count]);
        if (is_socket ? !confirmations : !initial_events) is_ready(one);
    }
    if (is_socket) frames_of(one, bytes, (size_t)(end - bytes), at);
    else body(one, bytes, (size_t)(end - bytes), at);
}

static void serve(struct subscriber *one, uint32_t what) {
    static char buffer[16384];
    if (one->phase == CLOSED) return;
    if (one->phase == CONNECTING && what & EPOLLOUT) {
        send_whole(one->fd, requests.items[(size_t)(one - subscribers) % requests.count]);
        one->phase = HEAD;
        watch(one->fd, one, EPOLLIN, EPOLL_CTL_MOD);
        return;
    }
    /* One read a turn: what is left wakes again, and an event fits into one. */
    ssize_t length = recv(one->fd, buffer, sizeof buffer, 0);
    if (length > 0) take(one, buffer, (size_t)length, now());
    else if (length == 0 || errno != EAGAIN) close_subscriber(one);
}

/* ---- requests ---- */

/* Where the answer's body ends, 0 while it hasn't come. Refusals end the program. */
static size_t answer_length(const struct sender *one) {
    const char *end = memmem(one->answer, one->length, "\r\n\r\n", 4);
    if (!end) return 0;
    if (one->answer[9] != '2') {
        fprintf(stderr, "subscribers: a POST was answered with %.*s\n", (int)one->length, one->answer);
        exit(1);
    }
    const char *field = strcasestr(one->answer, "\r\ncontent-length:");
    return (size_t)(end - one->answer) + 4 + (field && field < end ? strtoul(field + 17, NULL, 10) : 0);
}

/* Reads on; true when the answer is whole and the sender is free again. */
static int answered(struct sender *one) {
    ssize_t length = recv(one->fd, one->answer + one->length, sizeof one->answer - 1 - one->length, 0);
    if (length <= 0) fail("the server closed a POST's connection");
    one->length += (size_t)length;
    one->answer[one->length] = 0;
    size_t whole = answer_length(one);
    if (!whole || one->length < whole) return 0;
    one->length = 0;
    return 1;
}

/* ---- the loop ---- */

static int input_waits, senders_busy;
static int64_t answered_at;
static struct sender *senders;
static int *sent_by;

static void turn(int milliseconds) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(epoll, events, EVENTS_AT_ONCE, milliseconds);
    if (count < 0 && errno != EINTR) fail("epoll_wait");
    for (int n = 0; n < count; n++) {
        enum kind *kind = events[n].data.ptr;
        if (*kind == SUBSCRIBER) serve((struct subscriber *)kind, events[n].events);
        else if (*kind == INPUT) input_waits = 1;
        else if (answered((struct sender *)kind)) {
            struct sender *one = (struct sender *)kind;
            one->busy = 0;
            senders_busy--;
            answered_at = now();
            if (sent_by) posts[sent_by[one - senders]].answered = answered_at;
        }
    }
}

static void open_senders(int count) {
    senders = calloc((size_t)count, sizeof *senders);
    for (int n = 0; n < count; n++) {
        senders[n].kind = SENDER;
        senders[n].fd = connect_socket(0, post_port);
        watch(senders[n].fd, &senders[n], EPOLLIN, EPOLL_CTL_ADD);
    }
}

static void close_senders(int count) {
    for (int n = 0; n < count; n++) close(senders[n].fd);
    free(senders);
    senders = NULL;
}

static void send_request(struct sender *one, struct text text) {
    one->busy = 1;
    senders_busy++;
    send_whole(one->fd, text);
}

/* Reads in gulps: were it asleep in epoll_wait, each event would wake it, at the sender's expense and dearly in a virtual
   machine. Subscribers elsewhere cost a server nothing of that. */
static void pause_a_moment(void) {
    struct timespec moment = { 0, 300000 };
    nanosleep(&moment, NULL);
}

static void round_of(const char *path) {
    struct text all = read_file(path);
    struct texts texts = split(all);
    size_t done = 0;
    open_senders(1);
    round_number++;
    round_seen = 0;
    round_wanted = (unsigned)texts.count;
    first_at = 0;
    event_bytes = 0;
    int64_t sent = now(), deadline = sent + (int64_t)WAIT_SECONDS * 1000000000;
    while ((round_seen < subscriber_count || done < texts.count || senders_busy) && now() < deadline && !closed) {
        if (done < texts.count && !senders_busy) send_request(senders, texts.items[done++]);
        pause_a_moment();
        turn(0);
    }
    printf("{\"received\":%u,\"closed\":%u,\"bytes\":%llu,\"sent\":%lld,\"answered\":%lld,\"first\":%lld", round_seen, closed,
           (unsigned long long)event_bytes, (long long)sent, (long long)answered_at, (long long)first_at);
    for (int n = 0; n < 3 && round_seen; n++)
        printf(",\"%s\":%lld", (const char *[]){ "median", "p99", "last" }[n],
               (long long)had_all[(size_t[]){ round_seen / 2, round_seen * 99ul / 100, round_seen - 1 }[n]]);
    printf("}\n");
    close_senders(1);
    free(texts.items), free((void *)all.bytes);
}

static void link_post(struct subscriber *one, int number) {
    posts[number].next = -1;
    if (one->first_post < 0) one->first_post = number;
    else posts[one->last_post].next = number;
    one->last_post = number;
}

static void print_paced(int count, int warm) {
    int missing = 0;
    printf("{\"closed\":%u,\"seen\":[", closed);
    const char *between = "";
    for (int n = warm; n < count; n++) {
        if (!posts[n].seen) { missing++; continue; }
        printf("%s%lld", between, (long long)(posts[n].seen - posts[n].at) / 1000);
        between = ",";
    }
    printf("],\"answered\":[");
    between = "";
    for (int n = warm; n < count; n++, between = ",")
        printf("%s%lld", between, (long long)(posts[n].answered - posts[n].at) / 1000);
    printf("],\"missing\":%d}\n", missing);
}

static void paced(double rate, int warm, int connections, const char *path, const char *targets) {
    struct text all = read_file(path), goals = read_file(targets);
    struct texts texts = split(all);
    int count = (int)texts.count, sent = 0, next = 0;
    posts = calloc((size_t)count, sizeof *posts);
    sent_by = calloc((size_t)connections, sizeof *sent_by);
    open_senders(connections);
    char *at = (char *)goals.bytes;
    int64_t start = now() + 50000000, deadline = start + (int64_t)((count / rate + WAIT_SECONDS) * 1e9);
    unsigned *goal = calloc((size_t)count, sizeof *goal);
    for (int n = 0; n < count; n++) {
        goal[n] = (unsigned)strtoul(at, &at, 10);
        posts[n].count = strtol(at, &at, 10);
        posts[n].at = start + (int64_t)(n * 1e9 / rate);
    }
    while (now() < deadline && !closed) {
        while (sent < count && now() >= posts[sent].at && senders_busy < connections) {
            while (senders[next].busy) next = (next + 1) % connections;
            link_post(&subscribers[goal[sent]], sent);
            sent_by[next] = sent;
            send_request(&senders[next], texts.items[sent++]);
        }
        int open = 0;
        if (sent == count) for (unsigned n = 0; n < subscriber_count && !open; n++) open = subscribers[n].first_post >= 0;
        if (sent == count && !open && !senders_busy) break;
        turn(1);
    }
    print_paced(count, warm);
    close_senders(connections);
    free(sent_by), free(posts), free(goal), free(texts.items), free((void *)all.bytes), free((void *)goals.bytes);
    sent_by = NULL;
    posts = NULL;
}

static void command(char *line) {
    char one[1024], other[1024];
    double rate;
    int warm, connections;
    if (!strncmp(line, "state", 5))
        printf("{\"ready\":%u,\"closed\":%u,\"events\":%llu}\n", ready, closed, (unsigned long long)events_total);
    else if (sscanf(line, "round %1023s", one) == 1) round_of(one);
    else if (sscanf(line, "paced %lf %d %d %1023s %1023s", &rate, &warm, &connections, one, other) == 5)
        paced(rate, warm, connections, one, other);
    else { fprintf(stderr, "subscribers: what is %s\n", line); exit(2); }
    fflush(stdout);
}

/* ---- the barest other end ---- */

static int blast(int count, size_t size) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    static const char done[] = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
    struct sockaddr_in at = loopback(port);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 4096)) fail("listen");
    int *taken = calloc((size_t)count, sizeof *taken);
    char buffer[16384], *event = malloc(size);
    memset(event, 'x', size);
    memcpy(event, "data: {\"count\":1} ", 18);
    memcpy(event + size - 2, "\n\n", 2);
    for (int n = 0; n < count; n++) {
        taken[n] = accept(listener, NULL, NULL);
        if (taken[n] < 0 || recv(taken[n], buffer, sizeof buffer, 0) <= 0) fail("accept");
        setsockopt(taken[n], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        send_whole(taken[n], (struct text){ head, sizeof head - 1 });
    }
    for (;;) {
        int poster = accept(listener, NULL, NULL);
        if (poster < 0) fail("accept");
        if (recv(poster, buffer, sizeof buffer, 0) > 0) {
            for (int n = 0; n < count; n++)
                if (send(taken[n], event, size, MSG_NOSIGNAL) < 0) return 0;
            send_whole(poster, (struct text){ done, sizeof done - 1 });
        }
        close(poster);
    }
}

static void arguments(int count, char **words) {
    port = post_port = atoi(words[1]);
    subscriber_count = (unsigned)atoi(words[2]);
    requests = split(read_file(words[3]));
    for (int n = 4; n + 1 < count; n += 2) {
        if (!strcmp(words[n], "--initial")) initial_events = (unsigned)atoi(words[n + 1]);
        else if (!strcmp(words[n], "--posts")) post_port = atoi(words[n + 1]);
        else if (!strcmp(words[n], "--socket")) is_socket = 1, confirmations = (unsigned)atoi(words[n + 1]);
        else if (!strcmp(words[n], "--subscribe")) subscriptions = with_lengths(read_file(words[n + 1]));
    }
}

int main(int count, char **words) {
    if (count == 5 && !strcmp(words[1], "--blast")) {
        port = atoi(words[2]);
        return blast(atoi(words[3]), (size_t)atoi(words[4]));
    }
    if (count < 4) { fprintf(stderr, "usage: subscribers PORT COUNT REQUESTS [--initial N] [--posts PORT] [--socket N [--subscribe FILE]]\n"); return 2; }
    arguments(count, words);
    subscribers = calloc(subscriber_count, sizeof *subscribers);
    had_all = calloc(subscriber_count, sizeof *had_all);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!subscribers || !had_all || epoll < 0) fail("start");
    for (unsigned n = 0; n < subscriber_count; n++) subscribers[n].first_post = -1;
    watch(0, &input_kind, EPOLLIN, EPOLL_CTL_ADD);
    int64_t start = now(), deadline = start + (int64_t)WAIT_SECONDS * 1000000000;
    while (ready < subscriber_count && !closed && now() < deadline) {
        open_some();
        turn(100);
    }
    printf("{\"ready\":%u,\"closed\":%u,\"nanoseconds\":%lld}\n", ready, closed, (long long)(now() - start));
    fflush(stdout);
    char line[4096];
    for (;;) {
        while (!input_waits) turn(-1);
        input_waits = 0;
        /* One line at a time, each answered before the next is written. */
        if (!fgets(line, sizeof line, stdin)) return 0;
        command(line);
    }
}
