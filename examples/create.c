/* create.c - writes a checkpoint from scratch: a tensor in memory, a large tensor that is computed while it is
 * written, a tied tensor, and the values that a trainer stores next to the weights.
 *
 *     cc create.c $(pkg-config --cflags --libs libckpt) -o create && ./create new.pt && ./create new.safetensors
 */
#include <inttypes.h>
#include <stdio.h>

#include <ckpt.h>

#define ROWS    UINT64_C(1000)
#define COLUMNS UINT64_C(256)

static const float bias[4] = {0.5f, -0.5f, 1.0f, 0.0f}; /* assumes a little-endian machine */

/* make_table - sets byte I of the table to I modulo 251. It may be called from several threads. */
static int64_t make_table(void *user, uint64_t offset, void *buf, size_t n)
{
    unsigned char *bytes = buf;
    (void)user;
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)((offset + i) % 251);
    return (int64_t)n;
}

/* add_model - adds a dict of two tensors, one of which has a second name. */
static void add_model(ckpt_builder *b, ckpt_error *err)
{
    const uint64_t bias_shape[] = {4}, table_shape[] = {ROWS, COLUMNS};
    ckpt_callbacks table_source = CKPT_INIT(ckpt_callbacks);
    ckpt_builder_tensor small = CKPT_INIT(ckpt_builder_tensor), large = CKPT_INIT(ckpt_builder_tensor);
    small.dtype = CKPT_DT_F32;
    small.ndim = 1;
    small.shape = bias_shape;
    small.data = bias;
    small.nbytes = sizeof bias;
    table_source.size = ROWS * COLUMNS;
    table_source.read_at = make_table;
    large.dtype = CKPT_DT_U8;
    large.ndim = 2;
    large.shape = table_shape;
    large.callbacks = &table_source;
    ckpt_builder_begin_dict(b, "model", err);
    ckpt_builder_add_tensor(b, "fc.bias", &small, err);
    ckpt_builder_add_tensor(b, "emb.weight", &large, err);
    ckpt_builder_add_tie(b, "head.weight", "model.emb.weight", err);
    ckpt_builder_end_dict(b, err);
}

/* create - builds *FILE in memory. Checks only ckpt_builder_finish, because it returns the error of the first call
 * that failed. */
static ckpt_status create(const char *name, ckpt_file **file, ckpt_error *err)
{
    ckpt_builder *b;
    ckpt_status status = ckpt_builder_new(name, &b, err);
    if (status != CKPT_OK)
        return status;
    add_model(b, err);
    ckpt_builder_add_int(b, "epoch", 3, err);
    ckpt_builder_add_float(b, "lr", 0.001, err);
    ckpt_builder_add_text(b, "optimizer", "adam", err);
    ckpt_builder_add_metadata(b, "author", "create.c", err);
    return ckpt_builder_finish(b, file, err);
}

int main(int argc, char **argv)
{
    ckpt_file *file = NULL;
    ckpt_plan *plan = NULL;
    ckpt_error err;
    ckpt_write_options options = CKPT_INIT(ckpt_write_options);
    ckpt_write_result result = CKPT_INIT(ckpt_write_result);
    char line[1024];
    if (argc != 2) {
        fputs("usage: create FILE\n", stderr);
        return 2;
    }
    options.force = 1;
    ckpt_status status = create(argv[1], &file, &err);
    if (status == CKPT_OK)
        status = ckpt_plan_new(file, &plan, &err);
    if (status == CKPT_OK)
        status = ckpt_plan_write(plan, argv[1], &options, &result, &err);
    if (status == CKPT_OK)
        printf("%" PRIu64 " tensors as %s, %zu entries left out\n", result.tensors, result.format,
               result.ndropped);
    else
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
    ckpt_plan_free(plan);
    ckpt_close(file);
    return status != CKPT_OK;
}
