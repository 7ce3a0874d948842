/* Tells ThreadSanitizer of the locks that it can't see. Swift's Mutex takes and leaves a free lock by an atomic operation in the
   program, which is instrumented; for one that is held it calls these functions of libswiftSynchronization, which isn't. Without
   this, whatever two threads did under a lock that they fought for would look like a race. Preloaded by scripts/sanitize.sh. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

/* Of the program's; absent in one that isn't sanitized. */
extern void __tsan_acquire (void *address) __attribute__ ((weak));
extern void __tsan_release (void *address) __attribute__ ((weak));

/* _MutexHandle._lockSlow(_: UInt32), _tryLockSlow() -> Bool, _unlockSlow(); the address of the lock is `self`. */
#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define TRY_LOCK_SLOW "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define SWIFT __attribute__ ((swiftcall))
#define SELF __attribute__ ((swift_context))

SWIFT void lock_slow (uint32_t thread, SELF void *lock) __asm__ (LOCK_SLOW);
SWIFT _Bool try_lock_slow (SELF void *lock) __asm__ (TRY_LOCK_SLOW);
SWIFT void unlock_slow (SELF void *lock) __asm__ (UNLOCK_SLOW);

static void *
of_the_library (const char *name)
{
  void *function = dlsym (RTLD_NEXT, name);
  if (function == NULL)
    abort ();
  return function;
}

SWIFT void
lock_slow (uint32_t thread, SELF void *lock)
{
  typedef SWIFT void (*lock_function) (uint32_t, SELF void *);
  ((lock_function) of_the_library (LOCK_SLOW)) (thread, lock);
  if (__tsan_acquire)
    __tsan_acquire (lock);
}

SWIFT _Bool
try_lock_slow (SELF void *lock)
{
  typedef SWIFT _Bool (*try_function) (SELF void *);
  _Bool is_taken = ((try_function) of_the_library (TRY_LOCK_SLOW)) (lock);
  if (is_taken && __tsan_acquire)
    __tsan_acquire (lock);
  return is_taken;
}

SWIFT void
unlock_slow (SELF void *lock)
{
  typedef SWIFT void (*unlock_function) (SELF void *);
  if (__tsan_release)
    __tsan_release (lock);
  ((unlock_function) of_the_library (UNLOCK_SLOW)) (lock);
}
