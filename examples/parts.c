/* parts.c - writes a checkpoint as safetensors in three parts, one after the other, and merges them. Several processes
 * or machines would write one part each.
 *
 *     cc parts.c $(pkg-config --cflags --libs libckpt) -o parts && ./parts checkpoint.pt model.safetensors
 */
#include <inttypes.h>
#include <stdio.h>

#include <ckpt.h>

#define PARTS 3

static ckpt_status write_part(const char *input, const char *output, uint32_t part, ckpt_error *err)
{
    ckpt_file *file = NULL;
    ckpt_plan *plan = NULL;
    ckpt_write_options options = CKPT_INIT(ckpt_write_options);
    ckpt_write_result result = CKPT_INIT(ckpt_write_result);
    options.part = part;
    options.parts = PARTS;
    ckpt_status status = ckpt_open(input, NULL, &file, err);
    if (status == CKPT_OK)
        status = ckpt_plan_new(file, &plan, err);
    if (status == CKPT_OK)
        status = ckpt_plan_root(plan, "auto", err);
    if (status == CKPT_OK)
        status = ckpt_plan_write(plan, output, &options, &result, err);
    if (status == CKPT_OK)
        printf("part %" PRIu32 ": %" PRIu64 " of %" PRIu64 " bytes\n", part, result.part_bytes, result.bytes);
    ckpt_plan_free(plan);
    ckpt_close(file);
    return status;
}

static ckpt_status merge(const char *output, ckpt_error *err)
{
    ckpt_parts *parts;
    ckpt_merge_options options = CKPT_INIT(ckpt_merge_options);
    options.verify = 1;
    ckpt_status status = ckpt_parts_open(output, &parts, err);
    if (status != CKPT_OK)
        return status;
    status = ckpt_parts_merge(parts, &options, err);
    for (size_t i = 0; status == CKPT_OK && i < ckpt_parts_file_count(parts); i++)
        printf("%s\n", ckpt_parts_file_at(parts, i, NULL));
    ckpt_parts_close(parts);
    return status;
}

int main(int argc, char **argv)
{
    ckpt_error err;
    char line[1024];
    ckpt_status status = CKPT_OK;
    if (argc != 3) {
        fputs("usage: parts INPUT OUTPUT\n", stderr);
        return 2;
    }
    for (uint32_t i = 0; status == CKPT_OK && i < PARTS; i++)
        status = write_part(argv[1], argv[2], i, &err);
    if (status == CKPT_OK)
        status = merge(argv[2], &err);
    if (status != CKPT_OK)
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
    return status == CKPT_OK ? 0 : 1;
}
