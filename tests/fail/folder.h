/* folder.h - copies a folder to memory. Its files must be small; folders in it may contain only files. */
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
/* folder_restore - makes the folder PATH equal to F, including owners and attributes. */
void folder_restore(const struct folder *f, const char *path);
const struct folder_file *folder_find(const struct folder *f, const char *name);
/* FOLDER_CONTENT: compare names, types and contents. FOLDER_ATTRIBUTES: also modes, owners and extended
 * attributes. */
enum folder_compare { FOLDER_CONTENT, FOLDER_ATTRIBUTES };
bool folder_file_equals(const struct folder_file *a, const struct folder_file *b,
                        enum folder_compare compare);
bool folder_equals(const struct folder *a, const struct folder *b, enum folder_compare compare);
/* folder_write_torn - writes to the existing file PATH what may be left of it if the power is cut while NEW
 * is written over OLD: some sectors of OLD and some of NEW, chosen by SEED, and a size between theirs. SEED 0
 * writes all of NEW. */
void folder_write_torn(const char *path, const struct folder_file *old, const struct folder_file *new,
                       unsigned seed);
enum { MODIFY_TRUNCATE, MODIFY_EMPTY, MODIFY_APPEND, MODIFY_INVERT, MODIFY_REPLACE, MODIFY_WAYS };
struct folder_modification {
    char path[512];
    int way;                       /* MODIFY_TRUNCATE, … */
    const struct folder_file *old; /* the file at `path` before it is modified */
};
/* folder_modify - modifies a file as MODIFICATION, a struct folder_modification, describes. */
void folder_modify(void *modification);
/* folder_write - creates or overwrites the regular file PATH. */
void folder_write(const char *path, const void *bytes, size_t n);

#endif
