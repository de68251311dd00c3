/* temp.h - a temporary file or folder that replaces its target when it is finished. A file has no name if
 * the file system allows that (O_TMPFILE). Otherwise it has the hidden name `.NAME.ckpt-XXXXXX` next to the
 * target. Folders always have such a name. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct temp_name;

struct temp {
    int dir;                /* the target's folder; -1: closed */
    int fd;                 /* the file (open for reading and writing) or folder; locked; -1: closed */
    struct temp_name *name; /* NULL: it has none, or was placed */
};

/* A folder from which leftovers were removed already, if DONE. */
struct cleaned_folder {
    bool done;
    dev_t dev;
    ino_t ino;
};

/* temp_open - opens a temporary file for the target BASE in the folder DIR, with MODE & ~umask. Removes
 * leftovers of crashed runs for BASE, unless DIR is CLEANED_FOLDER (may be NULL). False: errno. */
bool temp_open(struct temp *temp, const char *dir, const char *base, mode_t mode,
               const struct cleaned_folder *cleaned_folder);
/* temp_clean_folder - removes what crashed runs left in DIR for the targets PATHS, in one pass, before many
 * temp_open. If it fails, each temp_open removes what was left for its own target. */
void temp_clean_folder(struct cleaned_folder *folder, const char *dir, const char *const *paths,
                       size_t count);
/* temp_place - gives the file the name BASE atomically; fails with EEXIST if BASE exists, unless REPLACE.
 * False: errno, and BASE is unchanged. */
bool temp_place(struct temp *temp, const char *base, bool replace);
/* temp_close - closes a file or folder. Removes it if it was not placed; removes the old folder if it
 * replaced one. False: the folder to be removed is still there. */
bool temp_close(struct temp *temp);
/* temp_emergency - async-signal-safe: removes every temporary that has a name. */
void temp_emergency(void);

/* temp_folder_open - makes a temporary folder for the target BASE in the folder DIR. It is for files, not for
 * other folders. Leftovers of crashed runs for the same target are removed. False: errno. */
bool temp_folder_open(struct temp *temp, const char *dir, const char *base);
/* temp_folder_name - returns the name that the folder TEMP has until it is placed. */
const char *temp_folder_name(const struct temp *temp);
/* temp_folder_place - gives the folder the name BASE atomically; SYNC: syncs it to the disk before. An empty
 * folder BASE is replaced. If BASE has files, fails with EEXIST unless REPLACE: then the two exchange their
 * names, and temp_close removes the old folder. False: errno, and BASE is unchanged. */
bool temp_folder_place(struct temp *temp, const char *base, bool replace, bool sync);

/* temp_target_make - makes the folder PATH, in which files are to be placed. Until temp_close, temp_emergency
 * removes it if it is empty; temp_close removes it if it is empty. False: errno. */
bool temp_target_make(struct temp *temp, const char *path);
