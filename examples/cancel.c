/* cancel.c - converts with a progress line, and stops without an output or temporary file when Ctrl-C is pressed.
 *
 *     cc cancel.c $(pkg-config --cflags --libs libckpt) -o cancel && ./cancel large.pt large.safetensors
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include <ckpt.h>

static volatile sig_atomic_t stop;

static void request_stop(int signal_number)
{
    (void)signal_number;
    stop = 1;
}

/* progress - is called on the thread that called ckpt_plan_write. Nonzero stops with CKPT_ECANCELLED. */
static int progress(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    fprintf(stderr, "\r%3" PRIu64 " %%", total ? done / (total / 100 + 1) : 100);
    return stop;
}

static ckpt_status convert(ckpt_file *file, const char *output_path, ckpt_error *err)
{
    ckpt_plan *plan;
    ckpt_write_options options = CKPT_INIT(ckpt_write_options);
    ckpt_status status = ckpt_plan_new(file, &plan, err);
    if (status != CKPT_OK)
        return status;
    options.force = 1;
    options.progress = progress;
    status = ckpt_plan_write(plan, output_path, &options, NULL, err);
    fputc('\n', stderr);
    ckpt_plan_free(plan);
    return status;
}

int main(int argc, char **argv)
{
    ckpt_file *file = NULL;
    ckpt_error err;
    char line[1024];
    if (argc != 3) {
        fputs("usage: cancel INPUT OUTPUT\n", stderr);
        return 2;
    }
    signal(SIGINT, request_stop);
    ckpt_status status = ckpt_open(argv[1], NULL, &file, &err);
    if (status == CKPT_OK)
        status = convert(file, argv[2], &err);
    if (status == CKPT_ECANCELLED)
        fputs("stopped; nothing was written\n", stderr);
    else if (status != CKPT_OK)
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
    ckpt_close(file);
    return status != CKPT_OK;
}
