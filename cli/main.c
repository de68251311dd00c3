/* main.c - runs the command that is named on the command line. Signals leave no unfinished file; output that
 * cannot be written is an error. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm.h"
#include "edit.h"
#include "guess.h"
#include "progress.h"
#include "ranks.h"
#include "remote.h"

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

void cmd_overview(FILE *stream)
{
    put_text(stream, "usage: ckpt COMMAND [options] FILE…\n"
                     "read, fix, convert and compare deep-learning checkpoints\n\n");
    for (size_t i = 0; cmd_list[i]; i++)
        print_text(stream, "  %-13s%s\n", cmd_list[i]->name, cmd_list[i]->about);
    put_text(stream, "\n  ckpt ls model.pth                            what is inside\n"
                     "  ckpt strip --auto model.pth -o fixed.pth     keys without \"module.\"\n"
                     "  ckpt convert model.pth model.safetensors     another format\n"
                     "  ckpt diff old.pth new.safetensors            what changed\n\n"
                     "`ckpt COMMAND --help` lists options, `ckpt help COMMAND` shows the manual.\n");
}

/* handle_fatal_signal - ends the process as the signal would have, after removing unfinished files. */
static void handle_fatal_signal(int sig)
{
    static const char words[] = "ckpt: interrupted; no unfinished file is left\n";
    static const char stream_words[] = "ckpt: interrupted; the output is incomplete\n";
    static const char part_words[] =
        "ckpt: interrupted; what was written of the part is kept: run it again\n";
    static const char reader_words[] = "ckpt: interrupted\n"; /* of a command without -o */
    bool writes = ui.cmd && opt_find(ui.cmd, "output");
    bool streams = writes && writing.output && strcmp(writing.output, "-") == 0;
    const char *shown = streams ? stream_words : writing.parts ? part_words : writes ? words : reader_words;
    ckpt_emergency_cleanup();
    progress_wipe();
    if (sig == SIGINT && write(STDERR_FILENO, shown, strlen(shown)) < 0)
        sig = SIGTERM;
    signal(sig, SIG_DFL);
    raise(sig);
}

static void handle_usr1(int sig)
{
    (void)sig;
    progress_request_line();
}

static void set_handler(int sig, void (*handler)(int))
{
    struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
    sigemptyset(&act.sa_mask);
    if (sigaction(sig, &act, &old) == 0 && old.sa_handler == SIG_IGN && sig != SIGUSR1)
        sigaction(sig, &old, NULL); /* nohup or the parent made this process ignore it */
}

static bool has_json_option(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

static int run_command(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        cmd_overview(stderr);
        return EXIT_TROUBLE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        cmd_overview(stdout);
        return EXIT_OK;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        print_text(stdout, "ckpt %s\n", ckpt_version());
        return EXIT_OK;
    }
    if (strcmp(word, "-v") == 0)
        return usage_error_suggest("ckpt --version", "unknown option '-v'");
    if (word[0] == '-') {
        char shown[128];
        ckpt_text_escape(str_c(word), shown, sizeof shown);
        return usage_error(NULL, "the command comes first, not '%s'", shown);
    }
    const struct cmd *cmd = ui.cmd = cmd_find(word);
    if (!cmd)
        return report_unknown_command(argc - 1, argv + 1);
    int n, code = opt_parse(cmd, argc - 2, argv + 2, &n);
    if (code != OPT_PARSED)
        return code;
    if (!ranks_take_part(cmd, n, argv + 2))
        return EXIT_OK;
    if (ranks_check_launcher(cmd) != EXIT_OK)
        return EXIT_TROUBLE;
    code = remote_begin(n, argv + 2);
    if (code == EXIT_OK && writing.output && remote_is_url(writing.output))
        return remote_fail_output(writing.output);
    return code == EXIT_OK ? cmd->run(n, argv + 2) : code;
}

/* open_closed_streams - opens /dev/null for each standard stream that is closed: otherwise the next file
 * opened would get its number, and output would go into a checkpoint. /dev/null is opened for the other
 * direction, so that using the stream still fails. Returns false if it cannot be opened. */
static bool open_closed_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    return true;
}

static int fail_closed_streams(void)
{
    return report_failure(CKPT_EIO, NULL, NULL,
                          "a standard stream is closed, and /dev/null cannot be opened");
}

/* raise_open_limit - raises the limit of open files: a set of shards, of which there can be thousands, is
 * read fastest with all of them open. */
static void raise_open_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    static const int fatal_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGXCPU};
    bool are_streams_open = open_closed_streams();
    /* libzip before 1.11 converts the DOS time of each member to local time, for which it reads
     * /etc/localtime. No time is ever shown. */
    setenv("TZ", "UTC0", 0);
    comm_begin(&argc, &argv);
    for (size_t i = 0; i < sizeof fatal_signals / sizeof *fatal_signals; i++)
        set_handler(fatal_signals[i], handle_fatal_signal);
    set_handler(SIGUSR1, handle_usr1);
    signal(SIGXFSZ, SIG_IGN); /* a write past ulimit -f fails with EFBIG, which is reported */
    raise_open_limit();
    ui_init();
    ui.json = print.for_programs = has_json_option(argc, argv);
    remote_cut(argc - 1, argv + 1);
    return ranks_end(finish_output(are_streams_open ? run_command(argc, argv) : fail_closed_streams()));
}
