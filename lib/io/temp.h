/* temp.h - a temporary file that replaces its target when it is finished. It has no name if the file system
 * allows that (O_TMPFILE), else the hidden name `.NAME.ckpt-XXXXXX` next to the target, as temporary folders
 * always have. */
#ifndef IO_TEMP_H
#define IO_TEMP_H

#include <stdbool.h>
#include <sys/types.h>

struct temp_name;

struct temp {
    int dir;                /* the target's folder; -1: closed */
    int fd;                 /* read and write, locked while open; -1: closed */
    struct temp_name *name; /* NULL: it has none */
};

/* A folder from which leftovers were removed already. */
struct cleaned_folder {
    bool done;
    dev_t dev;
    ino_t ino;
};

/* temp_open - opens a temporary file for the target BASE in the folder DIR, with MODE & ~umask. Leftovers
 * of crashed runs for the same target are removed, unless DIR is CLEANED_FOLDER, which may be NULL. False:
 * errno. */
bool temp_open(struct temp *t, const char *dir, const char *base, mode_t mode,
               const struct cleaned_folder *cleaned_folder);
/* temp_clean_folder - removes what crashed runs left in DIR for the targets PATHS, in one pass, before many
 * temp_open. If it fails, each temp_open does so for its own target. */
void temp_clean_folder(struct cleaned_folder *t, const char *dir, const char *const *paths, size_t n);
/* temp_place - gives the file the name BASE atomically; fails with EEXIST if BASE exists, unless REPLACE.
 * False: errno, and BASE is unchanged. */
bool temp_place(struct temp *t, const char *base, bool replace);
/* temp_close - closes the file, and removes it if it was not placed. */
void temp_close(struct temp *t);
/* temp_emergency - async-signal-safe: removes every temporary that has a name. */
void temp_emergency(void);

/* A folder of files that replaces its target when all of them are in it. It has no folders in it. */
struct temp_folder {
    int parent;             /* -1: closed */
    int fd;                 /* the folder, locked while open */
    struct temp_name *name; /* NULL: it was placed */
};

/* temp_folder_open - makes a temporary folder for the target BASE in the folder PARENT. Leftovers of
 * crashed runs for the same target are removed. False: errno. */
bool temp_folder_open(struct temp_folder *t, const char *parent, const char *base);
/* temp_folder_name - returns the name of T in its parent folder. */
const char *temp_folder_name(const struct temp_folder *t);
/* temp_folder_place - gives the folder the name BASE atomically; SYNC: after its files were synced to the
 * disk. An empty folder BASE is replaced. If BASE has files, fails with EEXIST unless REPLACE: then the
 * two exchange their names, and the old folder is removed with its files. False: errno, and BASE is
 * unchanged. */
bool temp_folder_place(struct temp_folder *t, const char *base, bool replace, bool sync);
/* temp_folder_close - closes T, and removes the folder with its files, or the one that it replaced. False:
 * that folder is still there. */
bool temp_folder_close(struct temp_folder *t);

#endif
