/* Stands in for the C library's epoll_wait in the whole program: the dynamic linker finds a program's own function before a
   library's, so libmicrohttpd calls this one. Why: HTTPEngine/Server/MicroHTTPD075.swift, "A full round of events".

   A caller that asks for n events must be ready to get fewer; whoever else asks for 128 gets the last of them with its next
   call. */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/epoll.h>

#define FULL_ROUND 128 /* MAX_EVENTS in libmicrohttpd's daemon.c */

int
epoll_wait (int epfd, struct epoll_event *events, int maxevents, int timeout)
{
  return epoll_pwait (epfd, events, maxevents == FULL_ROUND ? FULL_ROUND - 1 : maxevents, timeout, NULL);
}
