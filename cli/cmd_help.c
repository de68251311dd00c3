#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd.h"
#include "guess.h"

static int run(int n, char **operand);

static const struct opt options[] = {
    {0},
};

const struct cmd cmd_help = {"help", "[COMMAND|formats]", "show the manual of a command", options, 0, 1, run,
                             NULL};

/* Does man(1) know PAGE? Asked without a shell. */
static bool has_page(const char *section, const char *page)
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

static void show_page(const char *section, const char *page)
{
    if (!has_page(section, page))
        return;
    fflush(stdout);
    execlp("man", "man", section, page, (char *)NULL);
}

static int run(int n, char **operand)
{
    char page[64];
    if (n == 0) {
        cmd_overview(stdout);
        return YES;
    }
    if (strcmp(operand[0], "formats") == 0) {
        show_page("7", "ckpt-formats");
        return trouble_text(CKPT_ENOTFOUND, NULL, "make install puts the manual where man looks",
                            "the manual page ckpt-formats(7) is not installed");
    }
    const struct cmd *cmd = cmd_find(operand[0]);
    if (!cmd)
        return guess_command(1, operand);
    snprintf(page, sizeof page, "ckpt-%s", cmd->name);
    show_page("1", page);
    opt_usage(cmd, stdout); /* without the page, the short form */
    return YES;
}
