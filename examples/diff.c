/* diff.c - prints which tensors of two checkpoints differ, and by how much. The files may be of different formats.
 *
 *     cc diff.c $(pkg-config --cflags --libs libckpt) -o diff && ./diff before.pt after.safetensors
 */
#include <inttypes.h>
#include <stdio.h>

#include <ckpt.h>

static int print_difference(void *user, const ckpt_diff_event *e)
{
    char name[256];
    (void)user;
    ckpt_text_escape(e->name, name, sizeof name);
    switch (e->what) {
    case CKPT_DIFF_ONLY_A: printf("- %s\n", name); break;
    case CKPT_DIFF_ONLY_B: printf("+ %s\n", name); break;
    case CKPT_DIFF_CHANGED:
        printf("! %s: %" PRIu64 " of %" PRIu64 " numbers differ, by %g at most\n", name, e->differing,
               e->elements, e->max_abs);
        break;
    default: break; /* the same, renamed, and what later versions add */
    }
    return 0;
}

/* compare - compares the weights of A and B, and ignores the prefix that DataParallel adds to their names. */
static ckpt_status compare(ckpt_file *a, ckpt_file *b, uint64_t *differences, ckpt_error *err)
{
    ckpt_diff_options options = CKPT_INIT(ckpt_diff_options);
    ckpt_diff_totals totals = CKPT_INIT(ckpt_diff_totals);
    options.root = "auto";
    options.ignore_prefix = "module.";
    options.allow_none = 1; /* neither file has to have that prefix */
    options.rtol = 1e-6;
    ckpt_status status = ckpt_diff(a, b, &options, print_difference, NULL, &totals, err);
    *differences = totals.changed + totals.only_a + totals.only_b + totals.not_compared;
    return status;
}

int main(int argc, char **argv)
{
    ckpt_file *a = NULL, *b = NULL;
    ckpt_error err;
    char line[1024];
    uint64_t differences = 0;
    if (argc != 3) {
        fputs("usage: diff FILE FILE\n", stderr);
        return 2;
    }
    ckpt_status status = ckpt_open(argv[1], NULL, &a, &err);
    if (status == CKPT_OK)
        status = ckpt_open(argv[2], NULL, &b, &err);
    if (status == CKPT_OK)
        status = compare(a, b, &differences, &err);
    if (status != CKPT_OK)
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
    ckpt_close(a);
    ckpt_close(b);
    return status != CKPT_OK ? 2 : differences != 0;
}
