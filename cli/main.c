/* main.c - picks the command, keeps the process well-behaved: signals leave no
 * file behind, output that could not be written is an error. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "guess.h"
#include "progress.h"

const struct cmd *const cmd_list[] = {
#define CMD(name) &cmd_##name,
#include "cmds.def"
#undef CMD
    NULL,
};

const struct cmd *cmd_find(const char *name)
{
    for (size_t i = 0; cmd_list[i]; i++)
        if (strcmp(cmd_list[i]->name, name) == 0)
            return cmd_list[i];
    return NULL;
}

void cmd_overview(FILE *to)
{
    fputs("usage: ckpt COMMAND [options] FILE…\n"
          "read, fix, convert and compare deep-learning checkpoints\n\n",
          to);
    for (size_t i = 0; cmd_list[i]; i++)
        fprintf(to, "  %-12s%s\n", cmd_list[i]->name, cmd_list[i]->about);
    fputs("\n  ckpt ls model.pth                            what is inside\n"
          "  ckpt strip --auto model.pth -o fixed.pth     keys without \"module.\"\n"
          "  ckpt convert model.pth model.safetensors     another format\n"
          "  ckpt diff old.pth new.safetensors            what changed\n\n"
          "`ckpt COMMAND --help` lists options, `ckpt help COMMAND` shows the manual.\n",
          to);
}

/* Ends the process the way the signal would have, without leaving half a file. */
static void on_end(int sig)
{
    static const char words[] = "ckpt: interrupted; no unfinished file is left\n";
    ckpt_emergency_cleanup();
    progress_wipe();
    if (sig == SIGINT && write(STDERR_FILENO, words, sizeof words - 1) < 0)
        sig = SIGTERM;
    signal(sig, SIG_DFL);
    raise(sig);
}

static void on_usr1(int sig)
{
    (void)sig;
    progress_request();
}

static void handle(int sig, void (*handler)(int))
{
    struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
    sigemptyset(&act.sa_mask);
    if (sigaction(sig, &act, &old) == 0 && old.sa_handler == SIG_IGN && sig != SIGUSR1)
        sigaction(sig, &old, NULL); /* nohup, or a parent that wants EPIPE */
}

static bool wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

static int run(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        cmd_overview(stderr);
        return TROUBLE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        cmd_overview(stdout);
        return YES;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("ckpt %s\n", ckpt_version());
        return YES;
    }
    if (strcmp(word, "-v") == 0)
        return usage_answer("ckpt --version", "unknown option '-v'");
    if (word[0] == '-') {
        char shown[128];
        ckpt_text_escape(str_of(word), shown, sizeof shown);
        return usage_error(NULL, "the command comes first, not '%s'", shown);
    }
    const struct cmd *cmd = cmd_find(word);
    if (!cmd)
        return guess_command(argc - 1, argv + 1);
    int n, code = opt_parse(cmd, argc - 2, argv + 2, &n);
    return code >= 0 ? code : cmd->run(n, argv + 2);
}

/* hold_streams - a file that is opened gets the lowest number that is free: were one of the three
 * closed, what is meant for it would go into a checkpoint, or an archive's spool. Opened for the other
 * direction, it stays as good as closed. */
static bool hold_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    return true;
}

/* open_many - a set of shards is read fastest with all of them open, and there are sets of thousands. */
static void open_many(void)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur == most.rlim_max)
        return;
    most.rlim_cur = most.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &most);
}

int main(int argc, char **argv)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGXCPU};
    bool held = hold_streams();
    /* libzip before 1.11 turns DOS times into local time, one look at
     * /etc/localtime per entry; we never show a time. */
    setenv("TZ", "UTC0", 0);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        handle(ends[i], on_end);
    handle(SIGUSR1, on_usr1);
    signal(SIGXFSZ, SIG_IGN); /* a write past ulimit -f fails with EFBIG, which is told */
    open_many();
    ui_init();
    ui.json = wants_json(argc, argv);
    if (!held)
        return trouble_text(CKPT_EIO, NULL, NULL,
                            "a standard stream is closed, and /dev/null cannot be opened");
    return finish_output(run(argc, argv));
}
