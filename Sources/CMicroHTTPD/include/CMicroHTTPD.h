/* What Swift can't call: libmicrohttpd's variadic functions, and GNU extensions that the Glibc module leaves out.
   No logic. */
#ifndef CMICROHTTPD_SHIM_H
#define CMICROHTTPD_SHIM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <microhttpd.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/* What a daemon is started with. Every callback receives `cls` first. */
struct cmhd_options {
  unsigned int flags;
  unsigned int threads;              /* 1: one loop and no pool */
  unsigned int connection_limit;
  size_t connection_memory;          /* bytes */
  unsigned int inactivity_seconds;   /* 0: none */
  void *cls;
  MHD_AccessHandlerCallback handler;
  MHD_RequestCompletedCallback completed;
  MHD_NotifyConnectionCallback connection;
  void *(*request_line)(void *cls, const char *uri, struct MHD_Connection *connection);
};

static inline struct MHD_Daemon *
cmhd_start (const struct cmhd_options *o)
{
  return MHD_start_daemon (o->flags, 0, NULL, NULL, o->handler, o->cls,
                           MHD_OPTION_THREAD_POOL_SIZE, o->threads,
                           MHD_OPTION_CONNECTION_LIMIT, o->connection_limit,
                           MHD_OPTION_CONNECTION_MEMORY_LIMIT, o->connection_memory,
                           MHD_OPTION_CONNECTION_TIMEOUT, o->inactivity_seconds,
                           MHD_OPTION_STRICT_FOR_CLIENT, 0,
                           MHD_OPTION_NOTIFY_COMPLETED, o->completed, o->cls,
                           MHD_OPTION_NOTIFY_CONNECTION, o->connection, o->cls,
                           MHD_OPTION_URI_LOG_CALLBACK, o->request_line, o->cls,
                           MHD_OPTION_END);
}

/* The connection's socket, or -1. */
static inline int
cmhd_socket (struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return NULL == info ? -1 : info->connect_fd;
}

/* The address of the connection's other end, or NULL. It lives as long as the connection. */
static inline const struct sockaddr *
cmhd_peer (struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  return NULL == info ? NULL : info->client_addr;
}

/* What the connection callback stored for the connection, or NULL. */
static inline void *
cmhd_socket_context (struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return NULL == info ? NULL : info->socket_context;
}

/* Bytes from the method to the end of the empty line after the header section, or 0 before it was received. */
static inline size_t
cmhd_head_size (struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
  return NULL == info ? 0 : info->header_size;
}

/* The status of the queued response, or 0 if there is none. */
static inline unsigned int
cmhd_status (struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (connection, MHD_CONNECTION_INFO_HTTP_STATUS);
  return NULL == info ? 0 : info->http_status;
}

/* accept4(2) */
extern int accept4 (int socket, struct sockaddr *address, socklen_t *length, int flags);

static inline int
cmhd_accept (int socket, struct sockaddr *address, socklen_t *length, int flags)
{
  return accept4 (socket, address, length, flags);
}

/* Looks at what a socket holds without taking it and without waiting. Swift imports the two constants as Int on one
   toolchain set-up and as an enumeration on another. */
static const int cmhd_peek_flags = MSG_PEEK | MSG_DONTWAIT;

/* epoll(7) and eventfd(2), which the Glibc module leaves out. The constants are enumerations in C. */
static const uint32_t cmhd_epoll_in = EPOLLIN;
static const uint32_t cmhd_epoll_out = EPOLLOUT;
static const uint32_t cmhd_epoll_hangup = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
static const uint32_t cmhd_epoll_edges = EPOLLET;

static inline int
cmhd_epoll_create (void)
{
  return epoll_create1 (EPOLL_CLOEXEC);
}

static inline int
cmhd_epoll_add (int epoll, int descriptor, uint32_t events)
{
  struct epoll_event event = { .events = events, .data = { .fd = descriptor } };
  return epoll_ctl (epoll, EPOLL_CTL_ADD, descriptor, &event);
}

static inline int
cmhd_epoll_remove (int epoll, int descriptor)
{
  return epoll_ctl (epoll, EPOLL_CTL_DEL, descriptor, NULL);
}

static inline int
cmhd_eventfd (void)
{
  return eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* How a stream's socket is written to: no signal for a client that is gone, no waiting for a slow one. */
static const int cmhd_send_flags = MSG_NOSIGNAL | MSG_DONTWAIT;

#endif
