/* libmicrohttpd's loop (MHD_epoll, 0.9.75 and later ones) takes at most 128 events from epoll_wait. When it gets just 128, it
   asks for more with the timeout of its first call, which is endless, before it looks at what it has: 128 requests that arrive
   at once wait until someone else says something. It never comes to that if no call gives it 128.

   The dynamic linker finds a program's own function before a library's, so libmicrohttpd calls this one. A caller that asks
   for n events must be ready to get fewer; whoever else asks for 128 gets the last of them with its next call. */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/epoll.h>

#define FULL_ROUND 128 /* MAX_EVENTS in libmicrohttpd's daemon.c */

int
epoll_wait (int epfd, struct epoll_event *events, int maxevents, int timeout)
{
  return epoll_pwait (epfd, events, maxevents == FULL_ROUND ? FULL_ROUND - 1 : maxevents, timeout, NULL);
}
