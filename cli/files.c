#include "files.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "walk.h"

struct files_options files;

/* What all calls of the walk share. */
struct reports {
    int (*each)(const char *path);
    enum files_layout layout;
    bool several;        /* may there be more than one file? */
    uint64_t done, left; /* files reported on; files that are no checkpoints */
    int status;
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

static void heading(const struct reports *r, const char *path)
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

static void report(struct reports *r, const char *path)
{
    struct text name = {0};
    files_name_lines(path, r->layout, r->several, &name);
    heading(r, path);
    int one = r->each(path);
    r->status = one > r->status ? one : r->status;
    r->done++;
    files_unname_lines(&name);
}

/* has_suffix - is NAME called like a checkpoint? */
static bool has_suffix(const char *name)
{
    static const char *const suffixes[] = {".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".pt2", ".ptl"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcasecmp(dot, suffixes[i]) == 0)
            return true;
    return false;
}

/* is_checkpoint - by its content; what is called like a checkpoint counts, whatever it holds: an error
 * page in its place is to be reported, not passed over. */
static bool is_checkpoint(const char *path)
{
    ckpt_error err;
    ckpt_file *f;
    if (has_suffix(path))
        return true;
    ckpt_status st = ckpt_open(path, &ui.limits, &f, &err);
    if (st == CKPT_OK)
        ckpt_close(f);
    return st != CKPT_EUNKNOWN && st != CKPT_EUNSUPPORTED;
}

static void visit(void *user, const char *path)
{
    struct reports *r = user;
    if (is_checkpoint(path))
        report(r, path);
    else
        r->left++;
}

static void report_below(struct reports *r, const char *path)
{
    struct walk w = {.file = visit, .user = r};
    uint64_t before = r->done;
    r->left = 0;
    walk(&w, path);
    walk_notices(&w, path);
    if (w.unread)
        r->status = TROUBLE;
    if (r->left)
        notice(path, "%llu file%s no checkpoint%s", (unsigned long long)r->left,
               r->left == 1 ? " is" : "s are", r->left == 1 ? "" : "s");
    if (r->done == before)
        r->status = trouble_text(CKPT_ENOTFOUND, path, NULL, "no checkpoint in this folder");
}

/* holds_checkpoints - is anything in the folder PATH called like a checkpoint? */
static bool holds_checkpoints(const char *path)
{
    DIR *dir = walk_is_folder(path) ? opendir(path) : NULL;
    bool found = false;
    for (struct dirent *e; dir && !found && (e = readdir(dir));)
        found = has_suffix(e->d_name);
    if (dir)
        (void)closedir(dir);
    return found;
}

/* report_operand - of a folder that is no checkpoint by itself each may be meant. */
static void report_operand(struct reports *r, const char *path)
{
    int before = r->status;
    r->status = YES;
    ui.trouble = CKPT_OK;
    report(r, path);
    if ((ui.trouble == CKPT_EUSAGE || ui.trouble == CKPT_EUNKNOWN) && holds_checkpoints(path))
        notice(path, "-r takes every checkpoint in it");
    r->status = before > r->status ? before : r->status;
}

int files_each(int n, char **operand, enum files_layout layout, int (*each)(const char *path))
{
    struct reports r = {.each = each, .layout = layout, .several = n > 1 || files.recursive};
    for (int i = 0; i < n; i++) {
        if (files.recursive && walk_is_folder(operand[i]))
            report_below(&r, operand[i]);
        else
            report_operand(&r, operand[i]);
    }
    return r.status;
}
