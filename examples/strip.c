/* strip.c - writes the weights of a training checkpoint, without the prefixes that wrappers add to their names, to a
 * new file, which is in the safetensors format if its name ends in .safetensors.
 *
 *     cc strip.c $(pkg-config --cflags --libs libckpt) -o strip && ./strip checkpoint.pt model.safetensors
 */
#include <inttypes.h>
#include <stdio.h>

#include <ckpt.h>

/* plan_weights - selects the weights and strips their names. Reads no tensor. */
static ckpt_status plan_weights(ckpt_plan *plan, ckpt_error *err)
{
    ckpt_status status = ckpt_plan_root(plan, "auto", err);
    return status == CKPT_OK ? ckpt_plan_strip_auto(plan, err) : status;
}

static ckpt_status write_weights(ckpt_plan *plan, const char *output_path, ckpt_error *err)
{
    ckpt_write_options options = CKPT_INIT(ckpt_write_options);
    ckpt_write_result result = CKPT_INIT(ckpt_write_result);
    options.force = 1; /* replaces an existing output, which stays unchanged if writing fails */
    ckpt_status status = ckpt_plan_write(plan, output_path, &options, &result, err);
    if (status != CKPT_OK)
        return status;
    for (size_t i = 0; i < ckpt_plan_rename_count(plan); i++)
        printf("%s -> %s\n", ckpt_plan_rename_at(plan, i)->from.ptr, ckpt_plan_rename_at(plan, i)->to.ptr);
    for (size_t i = 0; i < result.ndropped; i++)
        printf("left out: %s\n", ckpt_plan_dropped_at(plan, i)->name.ptr);
    printf("%" PRIu64 " tensors written as %s\n", result.tensors, result.format);
    return CKPT_OK;
}

int main(int argc, char **argv)
{
    ckpt_file *file = NULL;
    ckpt_plan *plan = NULL;
    ckpt_error err;
    char line[1024];
    if (argc != 3) {
        fputs("usage: strip INPUT OUTPUT\n", stderr);
        return 2;
    }
    ckpt_status status = ckpt_open(argv[1], NULL, &file, &err);
    if (status == CKPT_OK)
        status = ckpt_plan_new(file, &plan, &err);
    ckpt_close(file); /* the plan keeps the file open */
    if (status == CKPT_OK)
        status = plan_weights(plan, &err);
    if (status == CKPT_OK)
        status = write_weights(plan, argv[2], &err);
    if (status != CKPT_OK)
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
    ckpt_plan_free(plan);
    return status != CKPT_OK;
}
