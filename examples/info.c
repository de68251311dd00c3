/* info.c - prints where the weights of a checkpoint are, and the extremes of its tensors.
 *
 *     cc info.c $(pkg-config --cflags --libs libckpt) -o info && ./info checkpoint.pt
 */
#include <inttypes.h>
#include <stdio.h>

#include <ckpt.h>

static ckpt_status print_weights(ckpt_file *f, ckpt_error *err)
{
    ckpt_info info = CKPT_INIT(ckpt_info);
    ckpt_status status = ckpt_inspect(f, &info, err);
    for (size_t i = 0; status == CKPT_OK && i < info.nweights; i++) {
        const ckpt_weights *w = ckpt_weights_at(f, i);
        printf("weights at \"%s\": %" PRIu64 " tensors, %" PRIu64 " numbers\n", w->name.ptr, w->tensors,
               w->elements);
    }
    for (size_t i = 0; status == CKPT_OK && i < info.nwrappers; i++)
        printf("wrapped: keys begin with \"%s\"\n", ckpt_wrapper_at(f, i)->prefix.ptr);
    return status;
}

static ckpt_status print_extremes(ckpt_file *f, ckpt_error *err)
{
    ckpt_stats stats = CKPT_INIT(ckpt_stats);
    char name[256];
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        ckpt_status status = ckpt_stat(f, &i, 1, NULL, &stats, err);
        if (status != CKPT_OK)
            return status;
        ckpt_text_escape(ckpt_tensor_name(f, i), name, sizeof name);
        if (stats.numeric)
            printf("%-40s %g to %g, %" PRIu64 " NaN\n", name, stats.min, stats.max, stats.nan);
    }
    return CKPT_OK;
}

int main(int argc, char **argv)
{
    ckpt_file *f;
    ckpt_error err;
    char line[1024];
    if (argc != 2) {
        fputs("usage: info FILE\n", stderr);
        return 2;
    }
    ckpt_status status = ckpt_open(argv[1], NULL, &f, &err);
    if (status == CKPT_OK)
        status = print_weights(f, &err);
    if (status == CKPT_OK)
        status = print_extremes(f, &err);
    if (status != CKPT_OK)
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
    ckpt_close(f);
    return status != CKPT_OK;
}
