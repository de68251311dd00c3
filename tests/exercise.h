/* exercise.h - calls every reading function of ckpt.h on an open file, and aborts if a result breaks a rule
 * that holds for any input. For example, each error has a reason, and the stream of a tensor has exactly as
 * many bytes as the tensor. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

#define EXERCISE_BYTES_MAX 65536u /* tensors with more bytes are not read */
#define EXERCISE_ROWS_MAX  256u   /* rows read of each file */

static inline void exercise_abort(const char *what)
{
    fprintf(stderr, "check failed: %s\n", what);
    abort();
}

static inline void exercise_check_error(ckpt_status status, const ckpt_error *err)
{
    char line[1400];
    if (status != err->status)
        exercise_abort("the status returned is not the one in ckpt_error");
    if (!err->what[0])
        exercise_abort("an error has no reason");
    if (strlen(ckpt_error_text(err, line, sizeof line)) == 0 || !ckpt_status_name(status)[0])
        exercise_abort("an error or its status has no text");
}

/* Fields that an error may lack. */
enum { EXERCISE_NO_OFFSET = 1, EXERCISE_NO_WHERE = 2, EXERCISE_NO_HINT = 4, EXERCISE_NO_VALUE = 8 };
/* exercise_optional_fields - returns the fields that an error with STATUS may lack, because they do not apply
 * when no part of the file is at fault. */
static inline unsigned exercise_optional_fields(ckpt_status status)
{
    switch (status) {
    case CKPT_EUNKNOWN: return EXERCISE_NO_OFFSET | EXERCISE_NO_WHERE | EXERCISE_NO_VALUE;
    case CKPT_EUNSUPPORTED:
        return EXERCISE_NO_OFFSET | EXERCISE_NO_WHERE | EXERCISE_NO_HINT | EXERCISE_NO_VALUE;
    case CKPT_ENOTFOUND: return EXERCISE_NO_OFFSET;
    case CKPT_EUSAGE: /* the folder holds several checkpoints */
        return EXERCISE_NO_OFFSET | EXERCISE_NO_WHERE | EXERCISE_NO_VALUE;
    case CKPT_ELIMIT: return EXERCISE_NO_OFFSET | EXERCISE_NO_WHERE | EXERCISE_NO_HINT;
    default: return EXERCISE_NO_HINT;
    }
}

/* exercise_check_refusal - aborts unless ERR, with which opening the file NAME of SIZE bytes failed, has an
 * offset, the part of the file, the values found and allowed, and a hint, except for fields that are optional
 * (exercise_optional_fields). If SIZE is SIZE_MAX, NAME is a folder. */
static inline void exercise_check_refusal(const ckpt_error *err, const char *name, size_t size)
{
    unsigned optional_for_folder = size == SIZE_MAX ? EXERCISE_NO_OFFSET | EXERCISE_NO_WHERE : 0;
    unsigned optional = exercise_optional_fields(err->status) | optional_for_folder;
    char line[1600];
    size_t n = strlen(name);
    bool is_of_name = strncmp(err->file, name, n) == 0;
    bool is_member = is_of_name && err->file[n] == '!'; /* FILE!MEMBER, whose offsets are in the member */
    const char *lacks = !is_of_name || (err->file[n] && !is_member)                         ? "its file"
                        : err->offset == CKPT_NO_OFFSET && !(optional & EXERCISE_NO_OFFSET) ? "an offset"
                        : err->offset != CKPT_NO_OFFSET && !is_member && err->offset > size
                            ? "an offset within the file"
                        : !err->where[0] && !(optional & EXERCISE_NO_WHERE) ? "the part of the file"
                        : !err->hint[0] && !(optional & EXERCISE_NO_HINT)   ? "what to do"
                        : (!err->found[0] || !err->allowed[0]) && !(optional & EXERCISE_NO_VALUE)
                            ? "what was found and what is allowed"
                            : NULL;
    if (!lacks || err->status == CKPT_ENOMEM || err->status == CKPT_EIO) /* not errors of the content */
        return;
    snprintf(line, sizeof line, "the error lacks %s: %s: %s: %s: %s", lacks, ckpt_status_name(err->status),
             err->file, err->where, err->what);
    exercise_abort(line);
}

static inline int exercise_count_bytes(void *user, const void *bytes, size_t n)
{
    /* reads the last byte, so that ASan reports a buffer that is too short */
    volatile unsigned char last = n ? ((const unsigned char *)bytes)[n - 1] : 0;
    (void)last;
    *(uint64_t *)user += n;
    return 0;
}

/* exercise_read_row - checks row I, and reads its bytes if they are few. */
static inline void exercise_read_row(ckpt_file *file, uint32_t i)
{
    const ckpt_tensor t = tensor_at(file, i);
    ckpt_error err = {0};
    char text[256];
    uint64_t nread = 0, product = 1;
    ckpt_text_escape(t.name, text, sizeof text);
    if (strlen(t.name.ptr) > t.name.len)
        exercise_abort("a name is not terminated");
    for (uint32_t d = 0; t.has_shape && d < t.ndim; d++)
        product *= t.shape[d];
    if (t.has_shape && product != t.elements)
        exercise_abort("the number of elements is not the product of the shape");
    if (t.storage != CKPT_NO_STORAGE && t.storage >= ckpt_storage_count(file))
        exercise_abort("a tensor refers to a storage that does not exist");
    if (!t.has_data || t.nbytes > EXERCISE_BYTES_MAX)
        return;
    ckpt_status status = ckpt_tensor_stream(file, i, exercise_count_bytes, &nread, &err);
    if (status != CKPT_OK)
        exercise_check_error(status, &err);
    else if (nread != t.nbytes)
        exercise_abort("the stream of a tensor has more or fewer bytes than the tensor");
}

static inline void exercise_show_values(ckpt_file *file)
{
    char text[512];
    for (size_t i = 0; i < ckpt_leaf_count(file) && i < EXERCISE_ROWS_MAX; i++) {
        const ckpt_leaf *leaf = ckpt_leaf_at(file, i);
        ckpt_value_text(leaf->value, 20, text, sizeof text);
        ckpt_value_type_name(leaf->value, text, sizeof text);
    }
    if (ckpt_file_root(file))
        ckpt_value_text(ckpt_file_root(file), 100, text, sizeof text);
    for (size_t i = 0; ckpt_notice_at(file, i); i++)
        if (!ckpt_notice_at(file, i)[0])
            exercise_abort("a notice is empty");
}

/* exercise_dry_run - does a dry run of writing the file to TARGET, with the prefixes of names stripped. */
static inline void exercise_dry_run(ckpt_file *file, const char *target)
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
        exercise_check_error(status, &err);
    ckpt_plan_free(plan);
}

static inline void exercise_file(ckpt_file *file)
{
    ckpt_info info = CKPT_INIT(ckpt_info);
    ckpt_error err = {0};
    ckpt_status status = ckpt_inspect(file, &info, &err);
    if (status != CKPT_OK)
        exercise_check_error(status, &err);
    for (uint32_t i = 0; i < ckpt_tensor_count(file) && i < EXERCISE_ROWS_MAX; i++)
        exercise_read_row(file, i);
    exercise_show_values(file);
    exercise_dry_run(file, "/nonexistent/out.pt");
    exercise_dry_run(file, "/nonexistent/out.safetensors");
}

/* exercise_memory - opens bytes in memory and exercises the file; returns the status of opening it. */
static inline ckpt_status exercise_memory(const void *data, size_t size, const char *name)
{
    ckpt_file *file = NULL;
    ckpt_error err = {0};
    ckpt_status status = ckpt_open_memory(data, size, name, NULL, &file, &err);
    if (status != CKPT_OK) {
        exercise_check_error(status, &err);
        exercise_check_refusal(&err, name, size);
    } else {
        exercise_file(file);
    }
    ckpt_close(file);
    return status;
}

#endif
