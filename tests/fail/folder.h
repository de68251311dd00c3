/* folder.h - keeps a copy, in memory, of a folder of small files and of folders of small files. */
#ifndef FAIL_FOLDER_H
#define FAIL_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define FOLDER_FILES_MAX 24

struct folder_file {
    char name[128];
    struct stat st;
    char *bytes; /* the content; of a symbolic link its target */
    size_t size;
    char xattr[32]; /* the value of user.ckpt-test */
};

struct folder {
    struct folder_file file[FOLDER_FILES_MAX];
    size_t n;
};

void folder_free(struct folder *f);
/* folder_read - reads the folder PATH into F, sorted by name, and frees what F held. Like all functions here,
 * it ends the program on an error. */
void folder_read(struct folder *f, const char *path);
void folder_empty(const char *path);
/* folder_restore - makes the folder PATH equal to F, with owners and attributes. */
void folder_restore(const struct folder *f, const char *path);
const struct folder_file *folder_find(const struct folder *f, const char *name);
/* folder_file_equals - returns whether name, type and content of A and B are equal, with ATTRIBUTES also
 * mode, owner and extended attribute. */
bool folder_file_equals(const struct folder_file *a, const struct folder_file *b, bool attributes);
bool folder_equals(const struct folder *a, const struct folder *b, bool attributes);
/* folder_tear - writes to the existing file PATH what a power cut may leave when NEW was being written over
 * OLD: random sectors of each, chosen by SEED, and part of a new size. SEED 0 writes all of NEW. */
void folder_tear(const char *path, const struct folder_file *old, const struct folder_file *new,
                 unsigned seed);
/* folder_modify - modifies the file `path`, whose content is that of `was`, in the way `how`. */
enum { MODIFY_TRUNCATE, MODIFY_EMPTY, MODIFY_APPEND, MODIFY_INVERT, MODIFY_REPLACE, MODIFY_WAYS };
struct folder_modification {
    char path[512];
    int how;
    const struct folder_file *was;
};
void folder_modify(void *modification);
/* folder_write - creates or overwrites the regular file PATH. */
void folder_write(const char *path, const void *bytes, size_t n);

#endif
