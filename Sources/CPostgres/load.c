#include "CPostgres.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>

struct cpostgres_table cpostgres_table;

static char reason[512];
static atomic_bool is_loaded;

bool
cpostgres_is_loaded (void)
{
  return is_loaded;
}

const char *
cpostgres_load (void)
{
  void *library = dlopen ("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf (reason, sizeof reason, "%s", dlerror ());
    return reason;
  }
  is_loaded = true;
#define CPOSTGRES_FIND(R, NAME, P, A)                                                        \
  cpostgres_table.NAME = (__typeof__ (PQ##NAME) *) dlsym (library, "PQ" #NAME);              \
  if (!cpostgres_table.NAME) return "libpq.so.5 is older than 14: it has no PQ" #NAME;
  CPOSTGRES_FUNCTIONS (CPOSTGRES_FIND)
#undef CPOSTGRES_FIND
  return NULL;
}
