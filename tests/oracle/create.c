/* oracle/create FILE [GLOB]... - builds a checkpoint with ckpt_builder and writes it to FILE, without the
 * tensors that a GLOB matches. created.py checks FILE. It has a dict "model" and some values. The dict has:
 *   - a tensor of shape [3, 4] for each dtype of torch except bool, named after the dtype; if the dtype's
 *     number is odd, the bytes come from a callback, else from memory
 *   - a scalar, an empty tensor, a tie and an empty dict */
#include <stdio.h>

#include <ckpt.h>

/* byte_at - returns byte I of any tensor, as byte_at() of created.py does. */
static unsigned char byte_at(uint64_t i) { return (unsigned char)((i * 37 + 5) % 251); }

static int64_t make_bytes(void *user, uint64_t offset, void *buf, size_t n)
{
    (void)user;
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)buf)[i] = byte_at(offset + i);
    return (int64_t)n;
}

static unsigned char bytes[3 * 4 * 16]; /* of the largest tensor: complex128 */

static void add_tensor(ckpt_builder *b, const char *name, ckpt_dtype dtype, uint32_t ndim,
                       const uint64_t *shape, ckpt_error *err)
{
    ckpt_builder_tensor t = CKPT_INIT(ckpt_builder_tensor);
    ckpt_callbacks callbacks = CKPT_INIT(ckpt_callbacks);
    callbacks.read_at = make_bytes;
    callbacks.size = ckpt_dtype_bits(dtype) / 8;
    for (uint32_t i = 0; i < ndim; i++)
        callbacks.size *= shape[i];
    t.dtype = dtype;
    t.ndim = ndim;
    t.shape = shape;
    if (dtype % 2) {
        t.callbacks = &callbacks;
    } else {
        t.data = bytes;
        t.nbytes = (size_t)callbacks.size;
    }
    ckpt_builder_add_tensor(b, name, &t, err);
}

/* takes_any_bytes - returns whether torch has DTYPE and takes any bytes as its elements. (As bools, torch
 * takes only the bytes 0 and 1.) */
static bool takes_any_bytes(int dtype)
{
    return dtype != CKPT_DT_F6_E2M3 && dtype != CKPT_DT_F6_E3M2 && dtype != CKPT_DT_BOOL;
}

static void add_all(ckpt_builder *b, ckpt_error *err)
{
    static const uint64_t shape[] = {3, 4}, empty[] = {0, 5};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = byte_at(i);
    ckpt_builder_begin_dict(b, "model", err);
    for (int dtype = CKPT_DT_F64; dtype <= CKPT_DT_C128; dtype++)
        if (takes_any_bytes(dtype))
            add_tensor(b, ckpt_dtype_name((ckpt_dtype)dtype), (ckpt_dtype)dtype, 2, shape, err);
    add_tensor(b, "scalar", CKPT_DT_U8, 0, NULL, err);
    add_tensor(b, "empty", CKPT_DT_F32, 2, empty, err);
    ckpt_builder_add_tie(b, "tied", "model.float32", err);
    ckpt_builder_begin_dict(b, "empty_dict", err);
    ckpt_builder_end_dict(b, err);
    ckpt_builder_end_dict(b, err);
    ckpt_builder_add_none(b, "none", err);
    ckpt_builder_add_bool(b, "yes", true, err);
    ckpt_builder_add_int(b, "int", INT64_MIN, err);
    ckpt_builder_add_float(b, "float", 0.1, err);
    ckpt_builder_add_text(b, "text", "tensor \xc3\xa9", err);
    ckpt_builder_add_metadata(b, "author", "oracle", err);
}

int main(int argc, char **argv)
{
    ckpt_builder *b;
    ckpt_file *file = NULL;
    ckpt_plan *plan = NULL;
    ckpt_error err;
    char line[1024];
    if (argc < 2)
        return 2;
    ckpt_status status = ckpt_builder_new("created", &b, &err);
    if (status == CKPT_OK) {
        add_all(b, &err);
        status = ckpt_builder_finish(b, &file, &err);
    }
    if (status == CKPT_OK)
        status = ckpt_plan_new(file, &plan, &err);
    for (int i = 2; status == CKPT_OK && i < argc; i++)
        status = ckpt_plan_drop(plan, argv[i], &err);
    if (status == CKPT_OK)
        status = ckpt_plan_write(plan, argv[1], NULL, NULL, &err);
    if (status != CKPT_OK)
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
    ckpt_plan_free(plan);
    ckpt_close(file);
    return status != CKPT_OK;
}
