/* folder_walk.h - visits every file below a folder, in an order that does not depend on the disk. */
#ifndef CLI_FOLDER_WALK_H
#define CLI_FOLDER_WALK_H

#include <stdbool.h>
#include <stdint.h>

struct folder_walk {
    uint64_t links, others; /* how many were skipped: symbolic links; sockets, pipes and devices */
    uint64_t unread;        /* folders that could not be opened; an error was printed for each */
    void (*file)(void *user, const char *path);
    /* folder - returns true if the files below PATH are not to be visited. NULL: visit all. */
    bool (*folder)(void *user, const char *path);
    void *user;
};

/* walk_folder - calls file() with PATH itself if it is not a folder, else with each regular file below it:
 * sorted by name in each folder, files before subfolders. */
void walk_folder(struct folder_walk *w, const char *path);
/* is_folder - returns true if PATH is a folder (and not "-"). */
bool is_folder(const char *path);
/* print_skipped - prints a notice of what W skipped below PATH. */
void print_skipped(const struct folder_walk *w, const char *path);

#endif
