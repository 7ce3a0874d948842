/* libpq, opened when a PostgreSQL database is asked for: a program that keeps its data in SQLite runs where there is no libpq.
   Every function of libpq that is used stands in the list below and is called through a table that `cpostgres_load` fills.
   Swift calls `cpq_NAME` for `PQNAME`. No logic.
   Source of what the functions do: https://www.postgresql.org/docs/15/libpq.html */
#ifndef CAMPANILE_CPOSTGRES_H
#define CAMPANILE_CPOSTGRES_H

#include <stdbool.h>

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#include <postgresql/libpq-fe.h>
#endif

/* F(what it returns, its name without PQ, its parameters, its arguments) */
#define CPOSTGRES_FUNCTIONS(F)                                                                                                  \
  F (PGconn *, connectdbParams, (const char *const *keywords, const char *const *values, int expand), (keywords, values, expand)) \
  F (PQconninfoOption *, conninfoParse, (const char *text, char **error), (text, error))                                        \
  F (void, conninfoFree, (PQconninfoOption *options), (options))                                                                \
  F (void, finish, (PGconn *c), (c))                                                                                            \
  F (void, freemem, (void *memory), (memory))                                                                                   \
  F (ConnStatusType, status, (const PGconn *c), (c))                                                                            \
  F (PGTransactionStatusType, transactionStatus, (const PGconn *c), (c))                                                        \
  F (const char *, parameterStatus, (const PGconn *c, const char *name), (c, name))                                             \
  F (int, serverVersion, (const PGconn *c), (c))                                                                                \
  F (char *, host, (const PGconn *c), (c))                                                                                      \
  F (char *, port, (const PGconn *c), (c))                                                                                      \
  F (int, socket, (const PGconn *c), (c))                                                                                       \
  F (char *, errorMessage, (const PGconn *c), (c))                                                                              \
  F (PGcancel *, getCancel, (PGconn *c), (c))                                                                                   \
  F (void, freeCancel, (PGcancel *cancel), (cancel))                                                                            \
  F (int, cancel, (PGcancel *cancel, char *error, int size), (cancel, error, size))                                             \
  F (PQnoticeReceiver, setNoticeReceiver, (PGconn *c, PQnoticeReceiver receiver, void *arg), (c, receiver, arg))                \
  F (int, setnonblocking, (PGconn *c, int arg), (c, arg))                                                                       \
  F (int, enterPipelineMode, (PGconn *c), (c))                                                                                  \
  F (int, exitPipelineMode, (PGconn *c), (c))                                                                                   \
  F (int, pipelineSync, (PGconn *c), (c))                                                                                       \
  F (int, sendQuery, (PGconn *c, const char *sql), (c, sql))                                                                    \
  F (int, sendPrepare, (PGconn *c, const char *name, const char *sql, int count, const Oid *types), (c, name, sql, count, types)) \
  F (int, sendQueryPrepared,                                                                                                    \
     (PGconn *c, const char *name, int count, const char *const *values, const int *lengths, const int *formats, int format),   \
     (c, name, count, values, lengths, formats, format))                                                                        \
  F (int, flush, (PGconn *c), (c))                                                                                              \
  F (int, consumeInput, (PGconn *c), (c))                                                                                       \
  F (int, isBusy, (PGconn *c), (c))                                                                                             \
  F (PGresult *, getResult, (PGconn *c), (c))                                                                                   \
  F (PGnotify *, notifies, (PGconn *c), (c))                                                                                    \
  F (void, clear, (PGresult *r), (r))                                                                                           \
  F (ExecStatusType, resultStatus, (const PGresult *r), (r))                                                                    \
  F (char *, resultErrorField, (const PGresult *r, int field), (r, field))                                                      \
  F (char *, cmdStatus, (PGresult *r), (r))                                                                                     \
  F (char *, cmdTuples, (PGresult *r), (r))                                                                                     \
  F (int, ntuples, (const PGresult *r), (r))                                                                                    \
  F (char *, getvalue, (const PGresult *r, int row, int column), (r, row, column))                                              \
  F (int, getlength, (const PGresult *r, int row, int column), (r, row, column))                                                \
  F (int, getisnull, (const PGresult *r, int row, int column), (r, row, column))

/* The type of a field is the header's, so the compiler compares the list with it. */
struct cpostgres_table {
#define CPOSTGRES_FIELD(R, NAME, P, A) __typeof__ (PQ##NAME) *NAME;
  CPOSTGRES_FUNCTIONS (CPOSTGRES_FIELD)
#undef CPOSTGRES_FIELD
};

/* Call it only through the functions below, and only after `cpostgres_load` has returned NULL. */
extern struct cpostgres_table cpostgres_table;

/* Opens libpq and fills the table. Call it once, from one thread.
   Returns NULL, or a text that says why it can't; the text stays valid. */
const char *cpostgres_load (void);

/* Returns whether libpq was opened, from any thread. */
bool cpostgres_is_loaded (void);

#define CPOSTGRES_CALL(R, NAME, P, A) static inline R cpq_##NAME P { return cpostgres_table.NAME A; }
CPOSTGRES_FUNCTIONS (CPOSTGRES_CALL)
#undef CPOSTGRES_CALL

/* Macros that Swift can't see: the codes of an error's fields. */
enum { CPQ_SQLSTATE = PG_DIAG_SQLSTATE, CPQ_PRIMARY = PG_DIAG_MESSAGE_PRIMARY, CPQ_SEVERITY = PG_DIAG_SEVERITY_NONLOCALIZED };

#endif
