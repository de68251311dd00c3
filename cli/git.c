#include "git.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "out.h"

#define ARGUMENTS_MAX 8

extern char **environ;

static int fail_to_start(int error)
{
    report_failure(CKPT_EIO, NULL, error == ENOENT ? "install git, or add its folder to PATH" : NULL,
                   "git cannot be started: %s", strerror(error));
    return -1;
}

/* start - starts git with its standard output at descriptor FD. Returns an errno. */
static int start(const char *const *arguments, int fd, pid_t *child)
{
    char *argv[ARGUMENTS_MAX + 2] = {(char *)"git"};
    posix_spawn_file_actions_t actions;
    for (size_t i = 0; i < ARGUMENTS_MAX && arguments[i]; i++)
        argv[i + 1] = (char *)(uintptr_t)arguments[i];
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
    if (!error)
        error = posix_spawnp(child, "git", &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* read_all - adds all that FD has to OUT. */
static void read_all(int fd, struct text *out)
{
    char bytes[4096];
    ssize_t got;
    while ((got = read(fd, bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0)
            text_bytes(out, bytes, (size_t)got);
    while (out->len && out->ptr[out->len - 1] == '\n')
        text_cut(out, out->len - 1);
}

int git_run(const char *const *arguments, struct text *out)
{
    int fds[2], status;
    pid_t child;
    if (pipe2(fds, O_CLOEXEC) != 0)
        return fail_to_start(errno);
    int error = start(arguments, fds[1], &child);
    (void)close(fds[1]);
    if (error) {
        (void)close(fds[0]);
        return fail_to_start(error);
    }
    read_all(fds[0], out);
    (void)close(fds[0]);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return fail_to_start(errno);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    report_failure(CKPT_EIO, NULL, NULL, "git was ended by signal %d", WTERMSIG(status));
    return -1;
}
