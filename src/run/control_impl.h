/*
 * Where the control socket is; for the two sides of it (control.c,
 * control_call.c). Pure; any thread.
 */
#ifndef RUN_CONTROL_IMPL_H
#define RUN_CONTROL_IMPL_H

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CONTROL_NAME "control"

/**
 * The address of the socket in `dir`. An address has room for about 100
 * bytes: where the path is longer, it goes by the open directory.
 *
 * @param dir_fd `dir`, open; until the address was used.
 */
static inline void
control_path(struct sockaddr_un *sa, const char *dir, int dir_fd)
{
    int n;

    memset(sa, 0, sizeof *sa);
    sa->sun_family = AF_UNIX;
    n = snprintf(sa->sun_path, sizeof sa->sun_path, "%s/%s", dir, CONTROL_NAME);
    if (n < 0 || (size_t)n >= sizeof sa->sun_path)
        (void)snprintf(sa->sun_path, sizeof sa->sun_path, "/proc/self/fd/%d/%s",
                       dir_fd, CONTROL_NAME);
}

#endif
