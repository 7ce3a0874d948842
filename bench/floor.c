// The floor: what a bare C program on the same two libraries can do. `make bench` holds Campanile against it.
//
// It is written to be quick: one read connection per daemon thread with its statements kept, one row read by primary
// key for the badge, one index range for the list, answers written straight from the row's bytes into one buffer that
// libmicrohttpd takes over without a copy. It knows no tokens, no keys, no limits and no problem documents, sends no
// pushes, and commits every write alone (one fsync each), as a program without a writer queue does.
//
// With --groups it has a writer's queue after all: what waits is written in one transaction. That is no reference for a
// must; it shows how much there is to gain from groups on a machine.
//
//   floor --init FILE                            creates the tables and exits
//   floor [--groups] PORT FILE [full|normal]     serves on 127.0.0.1; PORT 0 takes a free one; prints the port
//
//   GET  /badge?user=U
//   GET  /notifications?user=U&limit=50[&cursor=C]
//   POST /notifications               {"user_id","title","body","category"?,"deep_link"?,"data"?}
//   GET  /healthz
//
// FLOOR_PAGE_SIZE, FLOOR_CACHE_KIB (a connection) and FLOOR_MMAP_MIB in the environment change how SQLite reads.

#define _GNU_SOURCE
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "floor_json.h"

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS users(user_id TEXT PRIMARY KEY, unread_count INTEGER NOT NULL, version INTEGER NOT NULL,"
    "  updated_at INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS notifications(id INTEGER PRIMARY KEY, uuid TEXT NOT NULL, user_id TEXT NOT NULL,"
    "  title TEXT NOT NULL, body TEXT NOT NULL, category TEXT, deep_link TEXT, data TEXT, created_at INTEGER NOT NULL,"
    "  read_at INTEGER, payload TEXT, external_id TEXT, edited_at INTEGER);"
    "CREATE INDEX IF NOT EXISTS by_user ON notifications(user_id, created_at);"
    "CREATE INDEX IF NOT EXISTS unread_by_user ON notifications(user_id) WHERE read_at IS NULL;"
    "CREATE TABLE IF NOT EXISTS deliveries(id INTEGER PRIMARY KEY, notification_id INTEGER NOT NULL,"
    "  user_id TEXT NOT NULL, state TEXT NOT NULL, created_at INTEGER NOT NULL);";

static const char *database_path;

// ---- SQLite: a read connection per thread, one write connection under a mutex ----

static void execute(sqlite3 *db, const char *sql) {
    if (sqlite3_exec(db, sql, NULL, NULL, NULL)) die(sql, sqlite3_errmsg(db));
}

static int setting(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value ? atoi(value) : otherwise;
}

static sqlite3 *open_database(void) {
    sqlite3 *db;
    if (sqlite3_open_v2(database_path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL))
        die(database_path, sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, 5000);
    char pragmas[200];
    snprintf(pragmas, sizeof pragmas, "PRAGMA page_size=%d; PRAGMA journal_mode=WAL; PRAGMA cache_size=-%d; PRAGMA mmap_size=%lld",
             setting("FLOOR_PAGE_SIZE", 4096), setting("FLOOR_CACHE_KIB", 65536), setting("FLOOR_MMAP_MIB", 0) * 1048576LL);
    execute(db, pragmas);
    return db;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL)) die(sql, sqlite3_errmsg(db));
    return statement;
}

static int run(sqlite3_stmt *statement) {
    int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}

static struct writer {
    pthread_mutex_t lock;
    sqlite3_stmt *begin, *commit, *rollback, *insert, *count, *owe;
    sqlite3 *db;
} writer = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void open_writer(const char *synchronous) {
    sqlite3 *db = writer.db = open_database();
    execute(db, strcmp(synchronous, "normal") ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
    execute(db, schema);
    writer.begin = prepare(db, "BEGIN IMMEDIATE");
    writer.commit = prepare(db, "COMMIT");
    writer.rollback = prepare(db, "ROLLBACK");
    writer.insert = prepare(db, "INSERT INTO notifications(uuid, user_id, title, body, category, deep_link, data, created_at)"
                                " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
    writer.count = prepare(db, "INSERT INTO users VALUES(?1, 1, ?2, ?2) ON CONFLICT(user_id) DO UPDATE SET"
                               " unread_count = unread_count + 1, version = max(version + 1, ?2), updated_at = ?2");
    writer.owe = prepare(db, "INSERT INTO deliveries(notification_id, user_id, state, created_at) VALUES(?1, ?2, 'owed', ?3)");
}

struct reader { sqlite3_stmt *begin, *commit, *badge, *list; size_t last_length; };
static _Thread_local struct reader *thread_reader;

static struct reader *reader(void) {
    if (thread_reader) return thread_reader;
    struct reader *r = calloc(1, sizeof *r);
    if (!r) die("memory", "exhausted");
    sqlite3 *db = open_database();
    execute(db, "PRAGMA query_only=1");
    r->begin = prepare(db, "BEGIN");
    r->commit = prepare(db, "COMMIT");
    r->badge = prepare(db, "SELECT unread_count, version, updated_at FROM users WHERE user_id = ?1");
    r->list = prepare(db, "SELECT uuid, title, body, category, deep_link, data, created_at, read_at, id, payload,"
                          " external_id, edited_at FROM notifications"
                          " WHERE user_id = ?1 AND (created_at, id) < (?2, ?3) ORDER BY created_at DESC, id DESC LIMIT ?4");
    return thread_reader = r;
}

// ---- The answers ----

static void put_column(struct buffer *b, sqlite3_stmt *row, int column) {
    const unsigned char *text = sqlite3_column_text(row, column);
    if (text) put_string(b, text, (size_t)sqlite3_column_bytes(row, column));
    else PUT(b, "null");
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, struct buffer *b) {
    struct MHD_Response *response = MHD_create_response_from_buffer(b->length, b->bytes, MHD_RESPMEM_MUST_FREE);
    if (!response) { free(b->bytes); return MHD_NO; }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result answer_status(struct MHD_Connection *connection, unsigned status) {
    struct buffer b = {0};
    PUT(&b, "{\"status\":");
    put_integer(&b, status);
    PUT(&b, "}");
    return answer(connection, status, &b);
}

static void put_badge(struct buffer *b, struct reader *r, const char *user) {
    sqlite3_bind_text(r->badge, 1, user, -1, SQLITE_STATIC);
    if (sqlite3_step(r->badge) == SQLITE_ROW) {
        int64_t unread = sqlite3_column_int64(r->badge, 0);
        PUT(b, "{\"count\":");
        put_integer(b, unread);
        PUT(b, ",\"unread_count\":");
        put_integer(b, unread);
        PUT(b, ",\"version\":");
        put_integer(b, sqlite3_column_int64(r->badge, 1));
        PUT(b, ",\"updated_at\":");
        put_time(b, sqlite3_column_int64(r->badge, 2));
        PUT(b, "}");
    } else {
        PUT(b, "{\"count\":0,\"unread_count\":0,\"version\":0,\"updated_at\":null}");
    }
    sqlite3_reset(r->badge);
}

static enum MHD_Result get_badge(struct MHD_Connection *connection, const char *user) {
    struct buffer b = {0};
    reserve(&b, 160);
    put_badge(&b, reader(), user);
    return answer(connection, MHD_HTTP_OK, &b);
}

static void put_row(struct buffer *b, sqlite3_stmt *row) {
    PUT(b, "{\"id\":\"");
    put(b, sqlite3_column_text(row, 0), (size_t)sqlite3_column_bytes(row, 0));
    PUT(b, "\",\"title\":");
    put_column(b, row, 1);
    PUT(b, ",\"body\":");
    put_column(b, row, 2);
    // Nothing here has a payload of its own.
    if (sqlite3_column_type(row, 9) == SQLITE_NULL) PUT(b, ",\"subtitle\":null,\"image_url\":null");
    PUT(b, ",\"category\":");
    put_column(b, row, 3);
    PUT(b, ",\"deep_link\":");
    put_column(b, row, 4);
    PUT(b, ",\"data\":");
    const unsigned char *data = sqlite3_column_text(row, 5);
    if (data) put(b, data, (size_t)sqlite3_column_bytes(row, 5));
    else PUT(b, "null");
    PUT(b, ",\"external_id\":");
    put_column(b, row, 10);
    PUT(b, ",\"created_at\":");
    put_time(b, sqlite3_column_int64(row, 6));
    PUT(b, ",\"edited_at\":");
    if (sqlite3_column_type(row, 11) == SQLITE_NULL) PUT(b, "null");
    else put_time(b, sqlite3_column_int64(row, 11));
    PUT(b, ",\"read_at\":");
    if (sqlite3_column_type(row, 7) == SQLITE_NULL) PUT(b, "null");
    else put_time(b, sqlite3_column_int64(row, 7));
    PUT(b, "}");
}

// One row more than the page is asked for: it says whether there is a next page. The transaction makes page and badge
// one state, and saves a pair of locks on the shared memory file.
static enum MHD_Result get_list(struct MHD_Connection *connection, const char *user) {
    const char *asked = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "limit");
    const char *cursor = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "cursor");
    int limit = asked ? atoi(asked) : 50, rows = 0;
    int64_t time = INT64_MAX, id = INT64_MAX;
    if (limit < 1 || limit > 100 || (cursor && sscanf(cursor, "%" SCNd64 "-%" SCNd64, &time, &id) != 2))
        return answer_status(connection, MHD_HTTP_BAD_REQUEST);
    struct reader *r = reader();
    struct buffer b = {0};
    reserve(&b, r->last_length + 4096);
    run(r->begin);
    sqlite3_bind_text(r->list, 1, user, -1, SQLITE_STATIC);
    sqlite3_bind_int64(r->list, 2, time);
    sqlite3_bind_int64(r->list, 3, id);
    sqlite3_bind_int(r->list, 4, limit + 1);
    PUT(&b, "{\"notifications\":[");
    while (sqlite3_step(r->list) == SQLITE_ROW && ++rows <= limit) {
        if (rows > 1) PUT(&b, ",");
        put_row(&b, r->list);
        time = sqlite3_column_int64(r->list, 6);
        id = sqlite3_column_int64(r->list, 8);
    }
    sqlite3_reset(r->list);
    PUT(&b, "],\"next_cursor\":");
    if (rows > limit) {
        PUT(&b, "\"");
        put_integer(&b, time);
        PUT(&b, "-");
        put_integer(&b, id);
        PUT(&b, "\"");
    } else PUT(&b, "null");
    PUT(&b, ",\"badge\":");
    put_badge(&b, r, user);
    run(r->commit);
    PUT(&b, "}");
    r->last_length = b.length;
    return answer(connection, MHD_HTTP_OK, &b);
}

// ---- POST ----

struct post {
    struct buffer body;
    struct field fields[FIELDS];   // they point into the body
    char uuid[37];
    int64_t now;
    int failed;
    // With --groups only.
    struct MHD_Connection *waiting;
    struct post *next;
};

static void make_uuid(char text[37], int64_t now) {
    unsigned char u[16];
    if (getrandom(u + 6, 10, 0) != 10) die("getrandom", "failed");
    for (int i = 0; i < 6; i++) u[i] = (unsigned char)(now >> (40 - 8 * i));
    u[6] = (u[6] & 15) | 0x70;
    u[8] = (u[8] & 63) | 0x80;
    for (int i = 0, at = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
        text[at++] = "0123456789abcdef"[u[i] >> 4];
        text[at++] = "0123456789abcdef"[u[i] & 15];
        text[at] = 0;
    }
}

// The rows of one notification, in the writer's open transaction. The answer is SQLite's code.
static int insert(const struct post *post) {
    static const int columns[FIELDS] = {2, 3, 4, 5, 6, 7};
    const struct field *f = post->fields;
    sqlite3_bind_text(writer.insert, 1, post->uuid, 36, SQLITE_STATIC);
    for (int i = 0; i < FIELDS; i++)
        sqlite3_bind_text(writer.insert, columns[i], f[i].bytes, (int)f[i].length, SQLITE_STATIC);
    sqlite3_bind_int64(writer.insert, 8, post->now);
    sqlite3_bind_text(writer.count, 1, f[USER].bytes, (int)f[USER].length, SQLITE_STATIC);
    sqlite3_bind_int64(writer.count, 2, post->now);
    int failed = run(writer.insert) || run(writer.count);
    if (failed) return failed;
    sqlite3_bind_int64(writer.owe, 1, sqlite3_last_insert_rowid(writer.db));
    sqlite3_bind_text(writer.owe, 2, f[USER].bytes, (int)f[USER].length, SQLITE_STATIC);
    sqlite3_bind_int64(writer.owe, 3, post->now);
    return run(writer.owe);
}

static int finish_transaction(int failed) {
    failed = failed || run(writer.commit);
    if (failed) fprintf(stderr, "floor: insert: %s\n", sqlite3_errmsg(writer.db));
    if (failed && !sqlite3_get_autocommit(writer.db)) run(writer.rollback);
    return failed;
}

// Alone: one transaction, one fsync, on the daemon's thread.
static void write_alone(struct post *post) {
    pthread_mutex_lock(&writer.lock);
    post->failed = finish_transaction(run(writer.begin) || insert(post));
    pthread_mutex_unlock(&writer.lock);
}

// With --groups: a thread that writes what waits, and what comes while it does, in one transaction.
static struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct post *first, **end;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER, .end = &queue.first};
static int in_groups;

static void enqueue(struct post *post, struct MHD_Connection *connection) {
    MHD_suspend_connection(connection);
    post->waiting = connection;
    post->next = NULL;
    pthread_mutex_lock(&queue.lock);
    if (!queue.first) pthread_cond_signal(&queue.filled);
    *queue.end = post;
    queue.end = &post->next;
    pthread_mutex_unlock(&queue.lock);
}

static struct post *take_all(int patiently) {
    pthread_mutex_lock(&queue.lock);
    while (patiently && !queue.first) pthread_cond_wait(&queue.filled, &queue.lock);
    struct post *all = queue.first;
    queue.first = NULL;
    queue.end = &queue.first;
    pthread_mutex_unlock(&queue.lock);
    return all;
}

static void *write_groups(void *nothing) {
    for (;;) {
        struct post *group = take_all(1), **end = &group;
        int failed = run(writer.begin);
        for (; *end || (*end = take_all(0)); end = &(*end)->next) failed = failed || insert(*end);
        failed = finish_transaction(failed);
        for (struct post *post = group, *next; post; post = next) {
            next = post->next;
            post->failed = failed;
            MHD_resume_connection(post->waiting);
        }
    }
    return nothing;
}

static enum MHD_Result answer_post(struct MHD_Connection *connection, const struct post *post) {
    if (post->failed) return answer_status(connection, MHD_HTTP_INTERNAL_SERVER_ERROR);
    const struct field *f = post->fields;
    struct buffer b = {0};
    reserve(&b, post->body.length + 512);
    PUT(&b, "{\"id\":\"");
    put(&b, post->uuid, 36);
    PUT(&b, "\"");
    for (int i = TITLE; i < FIELDS; i++) {
        PUT(&b, ",\"");
        put(&b, names[i], strlen(names[i]));
        PUT(&b, "\":");
        if (!f[i].bytes) PUT(&b, "null");
        else if (i == DATA) put(&b, f[i].bytes, f[i].length);
        else put_string(&b, (const unsigned char *)f[i].bytes, f[i].length);
    }
    PUT(&b, ",\"created_at\":");
    put_time(&b, post->now);
    PUT(&b, ",\"read_at\":null}");
    return answer(connection, MHD_HTTP_CREATED, &b);
}

static enum MHD_Result accept_post(struct MHD_Connection *connection, struct post *post) {
    if (post->waiting) return answer_post(connection, post);   // resumed
    if (!scan_fields(post->body.bytes, post->body.bytes + post->body.length, post->fields))
        return answer_status(connection, MHD_HTTP_BAD_REQUEST);
    struct timespec clock;
    clock_gettime(CLOCK_REALTIME, &clock);
    post->now = clock.tv_sec * 1000 + clock.tv_nsec / 1000000;
    make_uuid(post->uuid, post->now);
    if (in_groups) {
        enqueue(post, connection);
        return MHD_YES;
    }
    write_alone(post);
    return answer_post(connection, post);
}

// ---- libmicrohttpd: answered in the handler's last call, or the connection would be closed ----

static char seen;   // the state of a request without a body

static enum MHD_Result handle(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_length, void **state) {
    (void)cls;
    (void)version;
    int posting = !strcmp(method, MHD_HTTP_METHOD_POST);
    if (!*state) {
        *state = posting ? calloc(1, sizeof(struct post)) : (void *)&seen;
        return *state ? MHD_YES : MHD_NO;
    }
    if (*upload_length) {
        if (posting) put(&((struct post *)*state)->body, upload, *upload_length);
        *upload_length = 0;
        return MHD_YES;
    }
    if (posting) return strcmp(url, "/notifications") ? answer_status(connection, MHD_HTTP_NOT_FOUND) : accept_post(connection, *state);
    if (!strcmp(url, "/healthz")) return answer_status(connection, MHD_HTTP_OK);
    const char *user = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "user");
    if (user && !strcmp(url, "/badge")) return get_badge(connection, user);
    if (user && !strcmp(url, "/notifications")) return get_list(connection, user);
    return answer_status(connection, MHD_HTTP_NOT_FOUND);
}

static void completed(void *cls, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code) {
    (void)cls;
    (void)connection;
    (void)code;
    if (*state && *state != &seen) {
        free(((struct post *)*state)->body.bytes);
        free(*state);
    }
    *state = NULL;
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "--groups")) {
        in_groups = 1;
        count--;
        arguments++;
    }
    if (count < 3) die("usage", "floor --init FILE | floor [--groups] PORT FILE [full|normal]");
    // No allocation statistics: they'd cost a lock shared by all threads at every allocation.
    sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    database_path = arguments[2];
    open_writer(count > 3 ? arguments[3] : "full");
    if (!strcmp(arguments[1], "--init")) return 0;
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    pthread_t thread;
    if (in_groups && pthread_create(&thread, NULL, write_groups, NULL)) die("the writer's thread", "doesn't start");
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)atoi(arguments[1]))};
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG | (in_groups ? MHD_ALLOW_SUSPEND_RESUME : 0), 0, NULL, NULL, handle, NULL,
        MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT, 4096u, MHD_OPTION_NOTIFY_COMPLETED, completed, NULL,
        cores > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, (unsigned)cores, MHD_OPTION_END);
    if (!daemon) die("libmicrohttpd", "doesn't start");
    printf("%u\n", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    int signal_number;
    sigwait(&stop, &signal_number);
    MHD_stop_daemon(daemon);
    return 0;
}
