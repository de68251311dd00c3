/* walk.h - every file below a folder, in an order that does not depend on the disk. */
#ifndef CLI_WALK_H
#define CLI_WALK_H

#include <stdbool.h>
#include <stdint.h>

struct walk {
    uint64_t links, others; /* symbolic links, and sockets, pipes, devices: left aside */
    uint64_t unread;        /* folders that could not be opened; told */
    void (*file)(void *user, const char *path);
    void *user;
};

/* walk - PATH itself if it is no folder, else every regular file below it, sorted
 * by name in each folder, a file before what a folder of the same place holds. */
void walk(struct walk *w, const char *path);
/* walk_is_folder - would walk look below PATH? */
bool walk_is_folder(const char *path);
/* walk_notices - what W left aside below PATH. */
void walk_notices(const struct walk *w, const char *path);

#endif
