#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "find.h"
#include "records.h"
#include "remote.h"

struct files_options files;

struct path_list {
    char **items;
    size_t n;
};

static void add_path(struct path_list *list, const char *dir, const char *name)
{
    struct text t = {0};
    list->items = mem_make_room(list->items, list->n, sizeof *list->items);
    text_add(&t, dir);
    if (dir[0] && dir[strlen(dir) - 1] != '/')
        text_add(&t, "/");
    text_add(&t, name);
    list->items[list->n++] = t.ptr;
}

static int compare_paths(const void *left, const void *right)
{
    return ckpt_natural_compare(str_c(*(char *const *)left), str_c(*(char *const *)right));
}

static void free_paths(struct path_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i]);
    free(list->items);
}

/* is_unfinished - returns true if NAME is that of a folder with parts of an output. */
static bool is_unfinished(const char *name) { return strncmp(name, ".ckpt-", 6) == 0; }

/* list_folder - adds the paths in the folder PATH to OUT, sorted; false if it cannot be opened. */
static bool list_folder(const char *path, struct path_list *out)
{
    DIR *d = opendir(path);
    if (!d)
        return false;
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !is_unfinished(e->d_name))
            add_path(out, path, e->d_name);
    (void)closedir(d);
    if (out->n)
        qsort(out->items, out->n, sizeof *out->items, compare_paths);
    return true;
}

/* skip_link - counts the link PATH, and whether it leads to a file below ROOT, which is visited itself. */
static void skip_link(struct folder_walk *walk, const char *root, const char *path)
{
    char *real_root = realpath(root, NULL), *real_path = realpath(path, NULL);
    size_t n = real_root ? strlen(real_root) : 0;
    bool is_inside = real_root && real_path && strncmp(real_path, real_root, n) == 0 &&
                     (real_path[n] == '/' || real_root[n - 1] == '/');
    free(real_root);
    free(real_path);
    walk->nlinks++;
    walk->nlinks_outside += !is_inside;
}

/* visit_entries - calls walk->visit_file for the files in PATH, below ROOT, and pushes its folders on
 * PENDING, the first one on top. */
static void visit_entries(struct folder_walk *walk, const char *root, const char *path,
                          struct path_list *pending)
{
    struct path_list entries = {0}, folders = {0};
    struct stat st;
    if (!list_folder(path, &entries)) {
        walk->nunread++;
        (void)report_failure(CKPT_EIO, path, NULL, "cannot open the folder: %s", strerror(errno));
    }
    for (size_t i = 0; i < entries.n; i++) {
        if (lstat(entries.items[i], &st) != 0 || S_ISREG(st.st_mode))
            walk->visit_file(walk->user, entries.items[i]); /* which reports a file that is gone */
        else if (S_ISDIR(st.st_mode))
            add_path(&folders, "", entries.items[i]);
        else if (S_ISLNK(st.st_mode))
            skip_link(walk, root, entries.items[i]);
        else
            walk->nothers++;
    }
    for (size_t i = folders.n; i-- > 0;)
        add_path(pending, "", folders.items[i]);
    free_paths(&entries);
    free_paths(&folders);
}

bool is_folder(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && !remote_is_url(path) && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

void print_skipped(const struct folder_walk *walk, const char *path)
{
    if (walk->nlinks)
        print_notice(path, "%llu symbolic link%s not followed", (unsigned long long)walk->nlinks,
                     walk->nlinks == 1 ? "" : "s");
    if (walk->nothers)
        print_notice(path, "%llu skipped that are not files (pipes, sockets, devices)",
                     (unsigned long long)walk->nothers);
}

void walk_folder(struct folder_walk *walk, const char *path)
{
    struct path_list pending = {0};
    if (!is_folder(path)) {
        walk->visit_file(walk->user, path);
        return;
    }
    add_path(&pending, "", path);
    while (pending.n) {
        char *next = pending.items[--pending.n];
        if (!walk->visit_folder || !walk->visit_folder(walk->user, next))
            visit_entries(walk, path, next, &pending);
        free(next);
    }
    free(pending.items);
}

/* The state of a run over all files of a command. */
struct reports {
    int (*process)(const char *path);
    enum files_layout layout;
    uint64_t nreported, nskipped; /* files reported on; files that are not checkpoints */
    int status;                   /* the highest exit code so far */
};

void files_prefix_lines(const char *path, enum files_layout layout, bool several, struct text *name)
{
    bool wanted = files.with_filename || (several && (!ui.tty || layout == FILES_COLUMN));
    if (!wanted || ui.json || files.no_filename)
        return;
    if (layout == FILES_COLUMN) {
        struct record r = {0};
        record_field_name(&r, str_c(path));
        *name = r.text;
    } else {
        text_name(name, str_c(path));
        text_add(name, ":");
    }
    ui.prefix = name->ptr;
}

void files_unprefix_lines(struct text *name)
{
    ui.prefix = "";
    text_free(name);
}

static void print_heading(const struct reports *reports, const char *path)
{
    bool separated = reports->layout == FILES_HEADING || reports->layout == FILES_BLOCKS;
    if (!separated || !files.several || !ui.tty || ui.json || ui.prefix[0])
        return;
    if (reports->nreported)
        put_text(stdout, "\n");
    if (reports->layout == FILES_BLOCKS || files.no_filename)
        return;
    print_text(stdout, "%s%s:%s\n", style_on(BOLD), escape_name(str_c(path)), style_off(BOLD));
}

static void report_file(struct reports *reports, const char *path)
{
    struct text name = {0};
    files_prefix_lines(path, reports->layout, files.several, &name);
    print_heading(reports, path);
    int code = reports->process(path);
    reports->status = code > reports->status ? code : reports->status;
    reports->nreported++;
    files_unprefix_lines(&name);
}

static bool has_checkpoint_suffix(const char *name)
{
    static const char *const suffixes[] = {".pt",  ".pth", ".bin",  ".ckpt",  ".safetensors", ".pt2",
                                           ".ptl", ".h5",  ".hdf5", ".keras", ".gguf"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcasecmp(dot, suffixes[i]) == 0)
            return true;
    return false;
}

/* is_checkpoint - returns true if PATH is a checkpoint by its content or suffix. The suffix counts because an
 * error page that was saved as model.pt must be reported, not skipped. */
static bool is_checkpoint(const char *path)
{
    ckpt_error err;
    ckpt_file *f;
    if (has_checkpoint_suffix(path))
        return true;
    ckpt_status st = ckpt_open(remote_typed(path), &ui.limits, &f, &err);
    if (st == CKPT_OK)
        ckpt_close(f);
    return st != CKPT_EUNKNOWN && st != CKPT_EUNSUPPORTED;
}

static void visit_file(void *user, const char *path)
{
    struct reports *r = user;
    if (is_checkpoint(path))
        report_file(r, path);
    else
        r->nskipped++;
}

/* visit_folder - if the folder PATH is one checkpoint, as many ranks write it, reports on it and returns
 * true. Otherwise returns false, so that its files are visited. */
static bool visit_folder(void *user, const char *path)
{
    ckpt_error err;
    ckpt_file *f;
    if (ckpt_open(path, &ui.limits, &f, &err) != CKPT_OK)
        return false;
    const char *format = ckpt_file_format(f);
    bool has_shards = strncmp(format, "hf-", 3) == 0; /* each of which is a checkpoint, too */
    bool is_file_format = ckpt_write_format(format) && !ckpt_write_format_is_folder(format);
    bool is_one_checkpoint = !has_shards && !is_file_format;
    ckpt_close(f);
    if (is_one_checkpoint)
        report_file(user, path);
    return is_one_checkpoint;
}

static void report_files_below(struct reports *reports, const char *path)
{
    struct folder_walk walk = {.visit_file = visit_file, .visit_folder = visit_folder, .user = reports};
    uint64_t nreported_before = reports->nreported;
    reports->nskipped = 0;
    walk_folder(&walk, path);
    print_skipped(&walk, path);
    if (walk.nunread)
        reports->status = EXIT_TROUBLE;
    if (reports->nskipped)
        print_notice(path,
                     reports->nskipped == 1 ? "skipped %llu file that is not a checkpoint"
                                            : "skipped %llu files that are not checkpoints",
                     (unsigned long long)reports->nskipped);
    if (reports->nreported == nreported_before)
        reports->status = report_failure(CKPT_ENOTFOUND, path, NULL, "no checkpoint in this folder");
}

/* has_checkpoints - returns true if the name of any file in the folder PATH has a suffix of checkpoints. */
static bool has_checkpoints(const char *path)
{
    DIR *dir = is_folder(path) ? opendir(path) : NULL;
    bool found = false;
    for (struct dirent *e; dir && !found && (e = readdir(dir));)
        found = has_checkpoint_suffix(e->d_name);
    if (dir)
        (void)closedir(dir);
    return found;
}

/* report_operand - reports on PATH. If PATH is a folder with checkpoints, but not a checkpoint itself, prints
 * a hint that recommends -r. */
static void report_operand(struct reports *reports, const char *path)
{
    int status_before = reports->status;
    reports->status = EXIT_OK;
    ui.last_error = CKPT_OK;
    report_file(reports, path);
    if ((ui.last_error == CKPT_EUSAGE || ui.last_error == CKPT_EUNKNOWN) && has_checkpoints(path))
        print_second_hint(path, "-r takes every checkpoint in it");
    reports->status = status_before > reports->status ? status_before : reports->status;
}

static int fail_recursive_url(const char *url)
{
    return report_failure(CKPT_EUSAGE, url,
                          "leave out -r: of a folder with several checkpoints, they are listed",
                          "-r takes local folders, not URLs");
}

int files_each(int count, char **operand, enum files_layout layout, int (*process)(const char *path))
{
    files.several = count > 1 || files.recursive;
    struct reports r = {.process = process, .layout = layout};
    for (int i = 0; i < count; i++) {
        if (files.recursive && remote_is_url(operand[i]))
            r.status = fail_recursive_url(operand[i]);
        else if (files.recursive && is_folder(operand[i]))
            report_files_below(&r, operand[i]);
        else
            report_operand(&r, operand[i]);
    }
    return check_globs_of_all() ? r.status : EXIT_TROUBLE;
}
