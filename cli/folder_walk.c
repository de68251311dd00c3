#include "folder_walk.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "out.h"

struct names {
    char **at;
    size_t n, cap;
};

static void add_path(struct names *list, const char *dir, const char *name)
{
    struct text t = {0};
    if (list->n == list->cap) {
        list->cap = list->cap ? list->cap * 2 : 64;
        list->at = mem_grow(list->at, list->cap, sizeof *list->at);
    }
    text_add(&t, dir);
    if (dir[0] && dir[strlen(dir) - 1] != '/')
        text_add(&t, "/");
    text_add(&t, name);
    list->at[list->n++] = t.ptr;
}

static int compare_paths(const void *a, const void *b)
{
    return ckpt_natural_compare(str_of(*(char *const *)a), str_of(*(char *const *)b));
}

static void free_names(struct names *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->at[i]);
    free(list->at);
}

/* list_folder - adds the paths in the folder PATH to OUT, sorted; false if it cannot be opened. */
static bool list_folder(const char *path, struct names *out)
{
    DIR *d = opendir(path);
    if (!d)
        return false;
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            add_path(out, path, e->d_name);
    (void)closedir(d);
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, compare_paths);
    return true;
}

/* visit_folder - calls file() for the files in PATH and pushes its folders on PENDING, the first one on
 * top. */
static void visit_folder(struct folder_walk *w, const char *path, struct names *pending)
{
    struct names here = {0}, below = {0};
    struct stat st;
    if (!list_folder(path, &here)) {
        w->unread++;
        (void)report_failure(CKPT_EIO, path, NULL, "cannot open the folder: %s", strerror(errno));
    }
    for (size_t i = 0; i < here.n; i++) {
        if (lstat(here.at[i], &st) != 0 || S_ISREG(st.st_mode))
            w->file(w->user, here.at[i]); /* file() reports a file that is gone */
        else if (S_ISDIR(st.st_mode))
            add_path(&below, "", here.at[i]);
        else
            ++*(S_ISLNK(st.st_mode) ? &w->links : &w->others);
    }
    for (size_t i = below.n; i-- > 0;)
        add_path(pending, "", below.at[i]);
    free_names(&here);
    free_names(&below);
}

bool is_folder(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

void print_skipped(const struct folder_walk *w, const char *path)
{
    if (w->links)
        print_notice(path, "%llu symbolic link%s not followed", (unsigned long long)w->links,
                     w->links == 1 ? "" : "s");
    if (w->others)
        print_notice(path, "%llu skipped that are not files (pipes, sockets, devices)",
                     (unsigned long long)w->others);
}

void walk_folder(struct folder_walk *w, const char *path)
{
    struct names pending = {0};
    if (!is_folder(path)) {
        w->file(w->user, path);
        return;
    }
    add_path(&pending, "", path);
    while (pending.n) {
        char *next = pending.at[--pending.n];
        if (!w->folder || !w->folder(w->user, next))
            visit_folder(w, next, &pending);
        free(next);
    }
    free(pending.at);
}
