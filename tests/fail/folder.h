/* folder.h - a folder of small files, and of folders of such, as it is at one time: kept in memory, compared,
 * put back. */
#ifndef FAIL_FOLDER_H
#define FAIL_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define FOLDER_FILES_MAX 24

struct folder_file {
    char name[128];
    struct stat st;
    char *bytes; /* a link's: where it leads */
    size_t size;
    char xattr[32]; /* the value of user.ckpt-test */
};

struct folder {
    struct folder_file file[FOLDER_FILES_MAX];
    size_t n;
};

void folder_free(struct folder *f);
/* folder_take - of PATH, by name; ends the program where it cannot. */
void folder_take(struct folder *f, const char *path);
void folder_empty(const char *path);
/* folder_put - PATH becomes what F is, owners and attributes included. */
void folder_put(const struct folder *f, const char *path);
const struct folder_file *folder_find(const struct folder *f, const char *name);
/* folder_same_file - ATTRIBUTES: mode, owner and extended attribute, too. */
bool folder_same_file(const struct folder_file *a, const struct folder_file *b, bool attributes);
bool folder_same(const struct folder *a, const struct folder *b, bool attributes);
/* folder_tear - PATH stays the file that it is and becomes what a power cut may leave of OLD while
 * NEW is written: some sectors of each, and of a new size some part; SEED 0: all of NEW. */
void folder_tear(const char *path, const struct folder_file *old, const struct folder_file *new,
                 unsigned seed);
/* folder_meddle - PATH, which is as WAS, changed in one of these ways. */
enum { MEDDLE_CUT, MEDDLE_EMPTY, MEDDLE_GROW, MEDDLE_CHANGE, MEDDLE_REPLACE, MEDDLE_WAYS };
struct folder_meddling {
    char path[512];
    int how;
    const struct folder_file *was;
};
void folder_meddle(void *meddling);
/* folder_write - a plain file of these bytes. */
void folder_write(const char *path, const void *bytes, size_t n);

#endif
