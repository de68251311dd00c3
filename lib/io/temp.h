/* temp.h - a file that is not there until it is whole: written without a name
 * where the file system can (O_TMPFILE), else as the hidden sibling
 * `.NAME.ckpt-XXXXXX` of its target, and then put in the target's place. */
#ifndef IO_TEMP_H
#define IO_TEMP_H

#include <stdbool.h>
#include <sys/types.h>

struct temp_name;

struct temp {
    int dir;                /* the target's folder; -1: closed */
    int fd;                 /* read and write, locked while it lives; -1: closed */
    struct temp_name *name; /* NULL: it has none */
};

/* A folder that was looked through already. */
struct temp_tidied {
    bool done;
    dev_t dev;
    ino_t ino;
};

/* temp_open - a temporary file beside BASE in the folder DIR, with MODE & ~umask.
 * Those that crashed runs left for the same target are removed, unless DIR is TIDIED,
 * which may be NULL. False: errno. */
bool temp_open(struct temp *t, const char *dir, const char *base, mode_t mode,
               const struct temp_tidied *tidied);
/* temp_tidy - looks once through DIR for what crashed runs left for the files of it among PATHS, before many
 * temp_open. Where it cannot, each of them does. */
void temp_tidy(struct temp_tidied *t, const char *dir, const char *const *paths, size_t n);
/* temp_place - gives it the name BASE at once; an existing file makes that fail
 * with EEXIST unless REPLACE. False: errno, and BASE is as it was. */
bool temp_place(struct temp *t, const char *base, bool replace);
/* temp_close - removes what has not been placed; closes. */
void temp_close(struct temp *t);
/* temp_emergency - async-signal-safe: removes every temporary that has a name. */
void temp_emergency(void);

#endif
