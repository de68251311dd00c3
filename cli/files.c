#include "files.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "folder_walk.h"

struct files_options files;

/* The state of a run over all files of a command. */
struct reports {
    int (*each)(const char *path);
    enum files_layout layout;
    bool several;           /* there may be more than one file */
    uint64_t done, skipped; /* files reported on; files that are not checkpoints */
    int status;             /* the highest exit code so far */
};

void files_name_lines(const char *path, enum files_layout layout, bool several, struct text *name)
{
    bool wanted = files.with_filename || (several && (!ui.tty || layout == FILES_COLUMN));
    if (!wanted || ui.json || files.no_filename)
        return;
    text_name(name, str_of(path));
    text_add(name, layout == FILES_COLUMN ? "\t" : ":");
    ui.prefix = name->ptr;
}

void files_unname_lines(struct text *name)
{
    ui.prefix = "";
    text_free(name);
}

static void print_heading(const struct reports *r, const char *path)
{
    struct text name = {0};
    bool apart = r->layout == FILES_HEADING || r->layout == FILES_BLOCKS;
    if (!apart || !r->several || !ui.tty || ui.json || ui.prefix[0])
        return;
    if (r->done)
        putchar('\n');
    if (r->layout == FILES_BLOCKS || files.no_filename)
        return;
    text_name(&name, str_of(path));
    printf("%s%s:%s\n", style_on(BOLD), name.ptr, style_off(BOLD));
    text_free(&name);
}

static void report_file(struct reports *r, const char *path)
{
    struct text name = {0};
    files_name_lines(path, r->layout, r->several, &name);
    print_heading(r, path);
    int one = r->each(path);
    r->status = one > r->status ? one : r->status;
    r->done++;
    files_unname_lines(&name);
}

/* has_checkpoint_suffix - returns true if NAME has a suffix of checkpoints. */
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
    ckpt_status st = ckpt_open(path, &ui.limits, &f, &err);
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
        r->skipped++;
}

/* visit_folder - reports on the folder PATH and returns true if many ranks wrote it as one checkpoint;
 * otherwise its files are visited. */
static bool visit_folder(void *user, const char *path)
{
    ckpt_error err;
    ckpt_file *f;
    if (ckpt_open(path, &ui.limits, &f, &err) != CKPT_OK)
        return false;
    const char *format = ckpt_file_format(f);
    bool whole = strncmp(format, "hf-", 3) != 0 && !ckpt_write_format(format);
    whole = whole || strcmp(format, "torch-dcp") == 0;
    ckpt_close(f);
    if (whole)
        report_file(user, path);
    return whole;
}

static void report_below(struct reports *r, const char *path)
{
    struct folder_walk w = {.file = visit_file, .folder = visit_folder, .user = r};
    uint64_t before = r->done;
    r->skipped = 0;
    walk_folder(&w, path);
    print_skipped(&w, path);
    if (w.unread)
        r->status = EXIT_TROUBLE;
    if (r->skipped)
        print_notice(path, "%llu file%s no checkpoint%s", (unsigned long long)r->skipped,
                     r->skipped == 1 ? " is" : "s are", r->skipped == 1 ? "" : "s");
    if (r->done == before)
        r->status = report_failure(CKPT_ENOTFOUND, path, NULL, "no checkpoint in this folder");
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
 * a notice that recommends -r. */
static void report_operand(struct reports *r, const char *path)
{
    int before = r->status;
    r->status = EXIT_OK;
    ui.trouble = CKPT_OK;
    report_file(r, path);
    if ((ui.trouble == CKPT_EUSAGE || ui.trouble == CKPT_EUNKNOWN) && has_checkpoints(path))
        print_notice(path, "-r takes every checkpoint in it");
    r->status = before > r->status ? before : r->status;
}

int files_each(int n, char **operand, enum files_layout layout, int (*each)(const char *path))
{
    struct reports r = {.each = each, .layout = layout, .several = n > 1 || files.recursive};
    for (int i = 0; i < n; i++) {
        if (files.recursive && is_folder(operand[i]))
            report_below(&r, operand[i]);
        else
            report_operand(&r, operand[i]);
    }
    return r.status;
}
