/* Replaces the C library's epoll_wait for the whole program; nothing here is called by name. epoll.c says why. */
