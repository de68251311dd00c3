/* installed.c - see installed.h. Other programs are found by their names and never run. */
#include "installed.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"
#include "json.h"
#include "out.h"
#include "print.h"

#define NAME "ckpt"

bool installed_path(struct text *out)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    text_clear(out);
    if (n > 0)
        text_bytes(out, path, (size_t)n);
    return n > 0;
}

/* A program in PATH. */
struct program {
    struct text path;
    bool is_this; /* perhaps by a link */
};

struct programs {
    struct program *list;
    size_t n;
};

/* add_program - adds PATH, which is taken over, to PROGRAMS if it is a program. THIS is the file of this
 * program. */
static void add_program(struct programs *programs, struct text *path, const struct stat *this)
{
    struct stat found;
    if (stat(path->ptr, &found) != 0 || !S_ISREG(found.st_mode) || access(path->ptr, X_OK) != 0) {
        text_free(path);
        return;
    }
    programs->list = mem_make_room(programs->list, programs->n, sizeof *programs->list);
    programs->list[programs->n++] = (struct program){*path, found.st_dev == this->st_dev &&
                                                                found.st_ino == this->st_ino};
}

/* find_programs - finds the programs called `ckpt`, in the order in which a shell looks for them. */
static void find_programs(struct programs *programs, const struct stat *this)
{
    const char *folder = getenv("PATH");
    while (folder) {
        struct text path = {0};
        size_t n = strcspn(folder, ":");
        text_bytes(&path, n ? folder : ".", n ? n : 1); /* an empty entry is the current folder */
        text_add(&path, "/" NAME);
        add_program(programs, &path, this);
        folder = folder[n] ? folder + n + 1 : NULL;
    }
}

/* add_fix - adds the command by which a shell finds this program, whose path is PATH, before others. */
static void add_fix(struct text *out, const char *path)
{
    struct text folder = {0};
    text_bytes(&folder, path, (size_t)(strrchr(path, '/') - path));
    text_add(out, "export PATH=");
    text_shell(out, folder.ptr);
    text_add(out, ":\"$PATH\"");
    text_free(&folder);
}

static void print_install_text(const struct programs *programs, const char *path, bool is_first)
{
    struct text fix = {0};
    add_fix(&fix, path);
    if (!is_first)
        print_text(
            stdout, "%s: 1 problem\n  install  `" NAME "` runs %s\n    fix: %s\n", escape_name(str_c(path)),
            programs->n ? escape_name(str_c(programs->list[0].path.ptr)) : "nothing: it is not in PATH",
            fix.ptr);
    else if (!ui.quiet)
        print_text(stdout, "%s: healthy, version %s, which `" NAME "` runs\n", escape_name(str_c(path)),
                   ckpt_version());
    for (size_t i = 1; i < programs->n && !ui.quiet; i++)
        if (!programs->list[i].is_this)
            print_text(stdout, "  note: install  another program of this name comes later in PATH: %s\n",
                       escape_name(str_c(programs->list[i].path.ptr)));
    text_free(&fix);
}

static void print_install_json(const struct programs *programs, const char *path, bool is_first)
{
    json *document = json_schema("ckpt.install.v1"), *found;
    json_text(document, "program", path);
    json_text(document, "version", ckpt_version());
    json_bool(document, "healthy", is_first);
    found = json_add_array(document, "found");
    for (size_t i = 0; i < programs->n; i++) {
        json *program = json_add_object(found, NULL);
        json_text(program, "path", programs->list[i].path.ptr);
        json_bool(program, "this", programs->list[i].is_this);
    }
    json_line(document, stdout);
}

int installed_examine(void)
{
    struct programs programs = {NULL, 0};
    struct text path = {0};
    struct stat this;
    if (!installed_path(&path) || stat(path.ptr, &this) != 0) {
        text_free(&path);
        return report_failure(CKPT_EIO, NULL, NULL, "/proc/self/exe does not name the file of this program");
    }
    find_programs(&programs, &this);
    bool is_first = programs.n && programs.list[0].is_this;
    if (ui.json)
        print_install_json(&programs, path.ptr, is_first);
    else
        print_install_text(&programs, path.ptr, is_first);
    for (size_t i = 0; i < programs.n; i++)
        text_free(&programs.list[i].path);
    free(programs.list);
    text_free(&path);
    return is_first ? EXIT_OK : EXIT_NO;
}
