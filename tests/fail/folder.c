/* folder.c - see folder.h. */
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define XATTR "user.ckpt-test"

static void die(const char *what)
{
    fprintf(stderr, "faults: %s: %s\n", what, strerror(errno));
    exit(2);
}

void folder_free(struct folder *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->file[i].bytes);
    f->n = 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct folder_file *)a)->name, ((const struct folder_file *)b)->name);
}

static void read_content(int dir, struct folder_file *f)
{
    if (S_ISDIR(f->st.st_mode)) {
        if (!(f->bytes = calloc(1, 1)))
            die("memory");
        return;
    }
    f->size = (size_t)f->st.st_size;
    f->bytes = malloc(f->size + 1);
    if (!f->bytes)
        die("memory");
    if (S_ISLNK(f->st.st_mode)) {
        if (readlinkat(dir, f->name, f->bytes, f->size + 1) != (ssize_t)f->size)
            die(f->name);
        return;
    }
    int fd = openat(dir, f->name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, f->bytes, f->size) != (ssize_t)f->size)
        die(f->name);
    ssize_t n = fgetxattr(fd, XATTR, f->xattr, sizeof f->xattr - 1);
    f->xattr[n > 0 ? n : 0] = '\0';
    close(fd);
}

static bool is_dots(const char *name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

/* add_entry - adds to F the file or folder at the path NAME, which begins in the open folder ROOT. */
static struct folder_file *add_entry(struct folder *f, int root, const char *name)
{
    struct folder_file *entry = &f->file[f->n];
    if (f->n == FOLDER_FILES_MAX)
        die("too many files");
    memset(entry, 0, sizeof *entry);
    snprintf(entry->name, sizeof entry->name, "%.127s", name);
    if (fstatat(root, entry->name, &entry->st, AT_SYMLINK_NOFOLLOW) != 0)
        die(entry->name);
    read_content(root, entry);
    f->n++;
    return entry;
}

/* add_folder - adds to F all entries of a folder: of ROOT itself if PARENT is "", of the folder NAME in ROOT
 * if PARENT is "NAME/". */
static void add_folder(struct folder *f, int root, const char *parent)
{
    int fd = openat(root, *parent ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d)
        die(parent);
    for (struct dirent *e; (e = readdir(d));) {
        char name[512];
        snprintf(name, sizeof name, "%s%s", parent, e->d_name);
        if (is_dots(e->d_name) || !S_ISDIR(add_entry(f, root, name)->st.st_mode))
            continue;
        if (*parent)
            die("folders in folders");
        snprintf(name, sizeof name, "%s/", e->d_name);
        add_folder(f, root, name);
    }
    closedir(d);
}

void folder_read(struct folder *f, const char *path)
{
    int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        die(path);
    folder_free(f);
    add_folder(f, root, "");
    close(root);
    qsort(f->file, f->n, sizeof *f->file, compare_names);
}

void folder_empty(const char *path)
{
    DIR *d = opendir(path);
    if (!d)
        die(path);
    for (struct dirent *e; (e = readdir(d));) {
        char inner[1024];
        struct stat st;
        if (is_dots(e->d_name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (S_ISDIR(st.st_mode))
            folder_empty(inner);
        if (unlinkat(dirfd(d), e->d_name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) != 0)
            die(e->d_name);
    }
    closedir(d);
}

static void create_entry(const struct folder_file *f, int dir)
{
    if (S_ISDIR(f->st.st_mode)) {
        if (mkdirat(dir, f->name, f->st.st_mode & 07777) != 0)
            die(f->name);
        return;
    }
    if (S_ISLNK(f->st.st_mode)) {
        char to[PATH_MAX];
        snprintf(to, sizeof to, "%.*s", (int)f->size, f->bytes);
        if (symlinkat(to, dir, f->name) != 0)
            die(f->name);
        return;
    }
    struct timespec times[2] = {f->st.st_atim, f->st.st_mtim};
    int fd = openat(dir, f->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, f->bytes, f->size) != (ssize_t)f->size)
        die(f->name);
    if (fchown(fd, f->st.st_uid, f->st.st_gid) != 0 || fchmod(fd, f->st.st_mode & 07777) != 0)
        die(f->name);
    if (f->xattr[0] && fsetxattr(fd, XATTR, f->xattr, strlen(f->xattr), 0) != 0)
        die(f->name);
    futimens(fd, times);
    close(fd);
}

void folder_restore(const struct folder *f, const char *path)
{
    folder_empty(path);
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        die(path);
    for (size_t i = 0; i < f->n; i++)
        create_entry(&f->file[i], dir);
    close(dir);
}

const struct folder_file *folder_find(const struct folder *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->file[i].name, name) == 0)
            return &f->file[i];
    return NULL;
}

bool folder_file_equals(const struct folder_file *a, const struct folder_file *b, enum folder_compare compare)
{
    if (strcmp(a->name, b->name) != 0 || a->size != b->size || memcmp(a->bytes, b->bytes, a->size) != 0 ||
        (a->st.st_mode & S_IFMT) != (b->st.st_mode & S_IFMT))
        return false;
    return compare == FOLDER_CONTENT || (a->st.st_mode == b->st.st_mode && a->st.st_uid == b->st.st_uid &&
                                         a->st.st_gid == b->st.st_gid && strcmp(a->xattr, b->xattr) == 0);
}

bool folder_equals(const struct folder *a, const struct folder *b, enum folder_compare compare)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = folder_file_equals(&a->file[i], &b->file[i], compare);
    return same;
}

void folder_write(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        die(path);
    close(fd);
}

void folder_write_torn(const char *path, const struct folder_file *old, const struct folder_file *new,
                       unsigned seed)
{
    char sector[512];
    unsigned state = seed, new_of_8 = seed % 7 + 1; /* how many of 8 sectors are new, on average */
    size_t size = old->size + (seed % 3 ? (new->size - old->size) / (seed % 3) : 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        die(path);
    for (size_t at = 0; at < new->size; at += sizeof sector) {
        size_t n = new->size - at < sizeof sector ? new->size - at : sizeof sector;
        size_t old_left = at < old->size ? old->size - at : 0;
        state = state * 1103515245 + 12345;
        memset(sector, 0, sizeof sector);
        if (seed == 0 || (state >> 16) % 8 < new_of_8)
            memcpy(sector, new->bytes + at, n);
        else if (old_left)
            memcpy(sector, old->bytes + at, old_left < n ? old_left : n);
        if (pwrite(fd, sector, n, (off_t)at) != (ssize_t)n)
            die(path);
    }
    if (ftruncate(fd, (off_t)(seed ? size : new->size)) != 0)
        die(path);
    close(fd);
}

void folder_modify(void *modification)
{
    const struct folder_modification *m = modification;
    const struct folder_file *old = m->old;
    static const char other[] = "another file altogether";
    char other_path[600], *bytes;
    int fd = open(m->path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        die(m->path);
    switch (m->way) {
    case MODIFY_TRUNCATE: (void)!ftruncate(fd, (off_t)old->size / 2); break;
    case MODIFY_EMPTY: (void)!ftruncate(fd, 0); break;
    case MODIFY_APPEND: (void)!pwrite(fd, other, sizeof other, (off_t)old->size); break;
    case MODIFY_INVERT:
        if (!(bytes = malloc(old->size)))
            die("memory");
        for (size_t i = 0; i < old->size; i++)
            bytes[i] = (char)~old->bytes[i];
        (void)!pwrite(fd, bytes, old->size, 0);
        free(bytes);
        break;
    default: /* MODIFY_REPLACE */
        snprintf(other_path, sizeof other_path, "%s.other", m->path);
        close(fd);
        fd = open(other_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, other, sizeof other) != (ssize_t)sizeof other ||
            rename(other_path, m->path) != 0)
            die(other_path);
    }
    close(fd);
}
