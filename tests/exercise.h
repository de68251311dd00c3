/* exercise.h - asks an open file everything a caller can ask, and checks what must hold for any bytes:
 * a failure has a reason, a stream delivers exactly what the row promised. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

#define EXERCISE_STREAM 65536u /* rows up to this many bytes are read */
#define EXERCISE_ROWS   256u   /* and so many rows of a file */

static inline void exercise_broken(const char *what)
{
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

static inline void exercise_error(ckpt_status status, const ckpt_error *err)
{
    char line[1400];
    if (status != err->status)
        exercise_broken("the status returned is not the one in ckpt_error");
    if (!err->what[0])
        exercise_broken("a refusal without a reason");
    if (strlen(ckpt_error_text(err, line, sizeof line)) == 0 || !ckpt_status_name(status)[0])
        exercise_broken("an error without text");
}

/* What an error need not say: where in a file that is another thing altogether, or lacks another file. */
enum { EXERCISE_NO_OFFSET = 1, EXERCISE_NO_WHERE = 2, EXERCISE_NO_HINT = 4, EXERCISE_NO_VALUE = 8 };
static inline unsigned exercise_need_not(ckpt_status status)
{
    switch (status) {
    case CKPT_EUNKNOWN: return EXERCISE_NO_OFFSET | EXERCISE_NO_WHERE | EXERCISE_NO_VALUE;
    case CKPT_EUNSUPPORTED:
        return EXERCISE_NO_OFFSET | EXERCISE_NO_WHERE | EXERCISE_NO_HINT | EXERCISE_NO_VALUE;
    case CKPT_ENOTFOUND: return EXERCISE_NO_OFFSET;
    case CKPT_EUSAGE: /* a folder of several */
        return EXERCISE_NO_OFFSET | EXERCISE_NO_WHERE | EXERCISE_NO_VALUE;
    case CKPT_ELIMIT: return EXERCISE_NO_OFFSET | EXERCISE_NO_WHERE | EXERCISE_NO_HINT;
    default: return EXERCISE_NO_HINT;
    }
}

/* exercise_refusal - why SIZE bytes were not opened as NAME: the file, where in it and in what part, what was
 * found and what is allowed, what to do. SIZE_MAX: NAME is a folder. */
static inline void exercise_refusal(const ckpt_error *err, const char *name, size_t size)
{
    unsigned of_folder = size == SIZE_MAX ? EXERCISE_NO_OFFSET | EXERCISE_NO_WHERE : 0;
    unsigned need_not = exercise_need_not(err->status) | of_folder;
    char line[1600];
    const char *lacks = strcmp(err->file, name) != 0 ? "its file"
                        : err->offset == CKPT_NO_OFFSET && !(need_not & EXERCISE_NO_OFFSET) ? "an offset"
                        : err->offset != CKPT_NO_OFFSET && err->offset > size ? "an offset within the file"
                        : !err->where[0] && !(need_not & EXERCISE_NO_WHERE) ? "the part of the file"
                        : !err->hint[0] && !(need_not & EXERCISE_NO_HINT) ? "what to do"
                        : (!err->found[0] || !err->allowed[0]) && !(need_not & EXERCISE_NO_VALUE)
                            ? "what was found and what is allowed"
                            : NULL;
    if (!lacks || err->status == CKPT_ENOMEM || err->status == CKPT_EIO) /* the bytes are not to blame */
        return;
    snprintf(line, sizeof line, "an error without %s: %s: %s: %s: %s", lacks, ckpt_status_name(err->status),
             err->file, err->where, err->what);
    exercise_broken(line);
}

static inline int exercise_count(void *user, const void *bytes, size_t n)
{
    volatile unsigned char last = n ? ((const unsigned char *)bytes)[n - 1] : 0;
    (void)last;
    *(uint64_t *)user += n;
    return 0;
}

static inline void exercise_row(ckpt_file *file, uint32_t i)
{
    const ckpt_tensor it = tensor_at(file, i), *t = &it;
    ckpt_error err = {0};
    char text[256];
    uint64_t got = 0, product = 1;
    ckpt_text_escape(t->name, text, sizeof text);
    if (strlen(t->name.ptr) > t->name.len)
        exercise_broken("a name is not terminated");
    for (uint32_t d = 0; t->has_shape && d < t->ndim; d++)
        product *= t->shape[d];
    if (t->has_shape && product != t->elements)
        exercise_broken("elements is not the product of the shape");
    if (t->storage != CKPT_NO_STORAGE && t->storage >= ckpt_storage_count(file))
        exercise_broken("a row names a storage that is not there");
    if (!t->has_data || t->nbytes > EXERCISE_STREAM)
        return;
    ckpt_status status = ckpt_tensor_stream(file, i, exercise_count, &got, &err);
    if (status != CKPT_OK)
        exercise_error(status, &err);
    else if (got != t->nbytes)
        exercise_broken("a stream delivered another number of bytes than the row has");
}

static inline void exercise_values(ckpt_file *file)
{
    char text[512];
    for (size_t i = 0; i < ckpt_leaf_count(file) && i < EXERCISE_ROWS; i++) {
        const ckpt_leaf *leaf = ckpt_leaf_at(file, i);
        ckpt_value_text(leaf->value, 20, text, sizeof text);
        ckpt_value_type_name(leaf->value, text, sizeof text);
    }
    if (ckpt_file_root(file))
        ckpt_value_text(ckpt_file_root(file), 100, text, sizeof text);
    for (size_t i = 0; ckpt_notice_at(file, i); i++)
        if (!ckpt_notice_at(file, i)[0])
            exercise_broken("an empty notice");
}

static inline void exercise_plan(ckpt_file *file, const char *target)
{
    ckpt_plan *plan = NULL;
    ckpt_error err = {0};
    ckpt_write_options opts = {.struct_size = sizeof opts, .dry_run = true, .force = true};
    ckpt_write_result res = CKPT_INIT(ckpt_write_result);
    ckpt_status status = ckpt_plan_new(file, &plan, &err);
    if (status == CKPT_OK)
        status = ckpt_plan_strip_auto(plan, &err);
    if (status == CKPT_OK)
        status = ckpt_plan_write(plan, target, &opts, &res, &err);
    if (status != CKPT_OK)
        exercise_error(status, &err);
    ckpt_plan_free(plan);
}

static inline void exercise(ckpt_file *file)
{
    ckpt_info info = CKPT_INIT(ckpt_info);
    ckpt_error err = {0};
    ckpt_status status = ckpt_inspect(file, &info, &err);
    if (status != CKPT_OK)
        exercise_error(status, &err);
    for (uint32_t i = 0; i < ckpt_tensor_count(file) && i < EXERCISE_ROWS; i++)
        exercise_row(file, i);
    exercise_values(file);
    exercise_plan(file, "/nonexistent/out.pt");
    exercise_plan(file, "/nonexistent/out.safetensors");
}

/* exercise_memory - the same over bytes; the status of opening them. */
static inline ckpt_status exercise_memory(const void *data, size_t size, const char *name)
{
    ckpt_file *file = NULL;
    ckpt_error err = {0};
    ckpt_status status = ckpt_open_memory(data, size, name, NULL, &file, &err);
    if (status != CKPT_OK) {
        exercise_error(status, &err);
        exercise_refusal(&err, name, size);
    } else {
        exercise(file);
    }
    ckpt_close(file);
    return status;
}

#endif
