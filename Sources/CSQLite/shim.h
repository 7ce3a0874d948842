#ifndef CAMPANILE_CSQLITE_SHIM_H
#define CAMPANILE_CSQLITE_SHIM_H

/* What Swift can't call itself: functions with variable arguments, and arguments that are macros casting
   a number to a function pointer (SQLITE_STATIC, SQLITE_TRANSIENT). No logic. */

#include <sqlite3.h>

/* sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0): without it every allocation takes one lock of the whole process. */
static inline int csqlite_disable_memory_statistics(void) {
    return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

/* sqlite3_db_config for the settings that take one int. */
static inline int csqlite_db_config(sqlite3 *db, int setting, int value) {
    return sqlite3_db_config(db, setting, value, (int *)0);
}

/* SQLite copies the bytes before the call returns. */
static inline int csqlite_bind_text_copying(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count) {
    return sqlite3_bind_text64(statement, index, (const char *)bytes, count, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static inline int csqlite_bind_blob_copying(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count) {
    return sqlite3_bind_blob64(statement, index, bytes, count, SQLITE_TRANSIENT);
}

/* SQLite keeps the pointer: the bytes must stay where they are until the binding is cleared. */
static inline int csqlite_bind_text_borrowing(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count) {
    return sqlite3_bind_text64(statement, index, (const char *)bytes, count, SQLITE_STATIC, SQLITE_UTF8);
}

static inline int csqlite_bind_blob_borrowing(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count) {
    return sqlite3_bind_blob64(statement, index, bytes, count, SQLITE_STATIC);
}

#endif
