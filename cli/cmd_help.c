#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guess.h"
#include "installed.h"

static const struct opt options[] = {
    {0},
};

const struct cmd cmd_help = {
    "help", "[COMMAND|formats|json|remote|scale]", "show the manual of a command", options, 0, 1, run_help};

/* man_has_page - returns true if man(1) finds PAGE. No shell is involved. */
static bool man_has_page(const char *section, const char *page)
{
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        if (null >= 0) {
            dup2(null, STDIN_FILENO);
            dup2(null, STDOUT_FILENO);
            dup2(null, STDERR_FILENO);
        }
        execlp("man", "man", "-w", section, page, (char *)NULL);
        _exit(127);
    }
    int status;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* add_program_folder - adds the folder of this program, with a slash at the end. Returns false if the system
 * cannot name it. */
static bool add_program_folder(struct text *out)
{
    struct text path = {0};
    bool is_known = installed_path(&path);
    if (is_known)
        text_bytes(out, path.ptr, (size_t)(strrchr(path.ptr, '/') + 1 - path.ptr));
    text_free(&path);
    return is_known;
}

/* find_page_file - sets OUT to the file of PAGE in the installation or source tree of this program. Returns
 * false if there is no such file. */
static bool find_page_file(struct text *out, const char *section, const char *page)
{
    static const struct {
        const char *folder, *suffix;
        bool by_section;
    } places[] = {{"../share/man/man", "", true},
                  {"../share/man/man", ".gz", true},
                  {"../man/man", "", true},
                  {"../man/", "", false}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        text_clear(out);
        if (!add_program_folder(out))
            return false;
        text_addf(out, "%s%s%s%s.%s%s", places[i].folder, places[i].by_section ? section : "",
                  places[i].by_section ? "/" : "", page, section, places[i].suffix);
        if (access(out->ptr, R_OK) == 0)
            return true;
    }
    return false;
}

/* exec_page_viewer - replaces this process by a program that shows PAGE. Returns only if there is no such
 * program or no such page; PATH is then the file of the page, or empty if there is no page. */
static void exec_page_viewer(const char *section, const char *page, struct text *path)
{
    fflush(stdout);
    if (man_has_page(section, page))
        execlp("man", "man", section, page, (char *)NULL);
    if (!find_page_file(path, section, page)) {
        text_clear(path);
        return;
    }
    execlp("man", "man", path->ptr, (char *)NULL);
    execlp("mandoc", "mandoc", ui.tty ? "-a" : print.ascii ? "-Tascii" : "-Tutf8", path->ptr, (char *)NULL);
    execlp("nroff", "nroff", "-mandoc", path->ptr, (char *)NULL);
}

/* is_topic - returns true if NAME is a topic that has a page. */
static bool is_topic(const char *name)
{
    return strcmp(name, "formats") == 0 || strcmp(name, "json") == 0 || strcmp(name, "remote") == 0 ||
           strcmp(name, "scale") == 0;
}

int run_help(int count, char **operand)
{
    struct text path = {0};
    char page[64];
    int status = EXIT_OK;
    if (count == 0) {
        cmd_overview(stdout);
        return EXIT_OK;
    }
    const struct cmd *cmd = cmd_find(operand[0]);
    if (!cmd && !is_topic(operand[0]))
        return report_unknown_command(1, operand);
    snprintf(page, sizeof page, "ckpt-%s", operand[0]);
    exec_page_viewer(cmd ? "1" : "7", page, &path);
    if (cmd) {
        opt_usage(cmd, stdout); /* in place of the page */
        if (path.len)
            print_notice(path.ptr, "there is no man, mandoc or nroff to show this page with");
    } else if (path.len) {
        status = report_failure(CKPT_ENOTFOUND, NULL, path.ptr,
                                "there is no man, mandoc or nroff to show %s(7) with", page);
    } else {
        status = report_failure(CKPT_ENOTFOUND, NULL, "make install puts the manual where man looks",
                                "the manual page %s(7) is not installed", page);
    }
    text_free(&path);
    return status;
}
