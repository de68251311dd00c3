/* builder.c - makes a checkpoint from tensors and values that the program adds: rows, storages and a graph as
 * the readers make them, so that plans, digests and diffs work on it. No tensor byte is copied or read here.
 *
 * Its format is not in formats.def, because no file has it; the caller chooses the format of the output.
 *
 * Refused, because no format could hold it or it would be read back as something else: a key that its dict
 * already has or that is not UTF-8; a dtype that cannot be written; a number of bytes that does not match
 * dtype and shape. After a failure, all later calls return the same error. */
#include <stdlib.h>

#include "base/sized.h"
#include "base/utf8.h"
#include "format/builder.h"
#include "format/kit.h"

static const struct format format_built = {.name = "memory", .title = "checkpoint in memory"};

struct ckpt_builder {
    ckpt_file *f;
    struct kit *dicts; /* the open dicts: [0] is the root, and each further dict is in the one before it */
    size_t ndicts, cap_dicts;
    map *rows; /* full name, such as "model.w" -> row */
    uint64_t nbytes;
    ckpt_status status; /* of the first call that failed */
    ckpt_error err;     /* the error of that call */
};

/* return_latched - records ST, the status of this call on BUILDER, if no earlier call failed. Returns the
 * status and error of the first call that failed, or CKPT_OK. */
static ckpt_status return_latched(ckpt_builder *builder, ckpt_status st, ckpt_error *err)
{
    if (builder->status == CKPT_OK && st != CKPT_OK) {
        builder->status = st;
        error_add_file(&builder->err, builder->f->path);
    }
    if (builder->status != CKPT_OK)
        *err = builder->err;
    return builder->status;
}

static struct kit *current_dict(const ckpt_builder *builder) { return &builder->dicts[builder->ndicts - 1]; }

/* copy_text - sets *OUT to a copy of GIVEN in the arena of builder->f. Refuses text that is not UTF-8. */
static ckpt_status copy_text(ckpt_builder *builder, const char *given, ckpt_str *out)
{
    CKPT_REQUIRE(&builder->err, given);
    if (!utf8_check(str_c(given), false, NULL))
        return fail(&builder->err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the text \"%s\" is not UTF-8", given);
    *out = arena_str(builder->f->a, str_c(given));
    return out->ptr ? CKPT_OK : fail_memory(&builder->err);
}

/* begin_entry - sets *KEY to a copy of GIVEN, which must be a new key of the current dict. */
static ckpt_status begin_entry(ckpt_builder *builder, const char *given, ckpt_str *key)
{
    CKPT_TRY(builder->status);
    CKPT_TRY(copy_text(builder, given, key));
    if (map_get(current_dict(builder)->names, *key) == MAP_NONE)
        return CKPT_OK;
    return fail(&builder->err, CKPT_EEXIST, CKPT_NO_OFFSET, "\"%s\" was added before", given);
}

ckpt_status ckpt_builder_new(const char *name, ckpt_builder **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, name);
    ckpt_builder *b = calloc(1, sizeof *b);
    ckpt_status st = b ? file_new(name, NULL, NULL, &b->f, err) : fail_memory(err);
    if (st != CKPT_OK) {
        free(b);
        return st;
    }
    arena_raise_max(b->f->a, UINT64_MAX); /* the names come from the program, not from hostile input */
    b->f->format = &format_built;
    b->rows = map_new(0);
    struct kit *root = b->rows ? arena_append(b->f->a, &b->dicts, &b->ndicts, &b->cap_dicts, sizeof *root)
                               : NULL;
    if (!root || kit_begin(root, b->f, value_new(b->f->a, CKPT_V_DICT, 0), &b->err) != CKPT_OK) {
        ckpt_builder_free(b);
        return fail_memory(err);
    }
    *out = b;
    return CKPT_OK;
}

void ckpt_builder_free(ckpt_builder *builder)
{
    if (!builder)
        return;
    while (builder->ndicts)
        (void)kit_end(&builder->dicts[--builder->ndicts],
                      CKPT_EUSAGE); /* any error, so that no leaf is added */
    map_free(builder->rows);
    file_free(builder->f);
    free(builder);
}

/* ------------------------------------------------------------------------- tensors */

/* check_dtype - refuses a DTYPE that no format holds in a dense tensor. */
static ckpt_status check_dtype(ckpt_builder *builder, uint32_t dtype)
{
    const struct dtype_info *d = dtype < DTYPE_COUNT ? dtype_info((ckpt_dtype)dtype) : NULL;
    CKPT_REQUIRE(&builder->err, d && dtype != CKPT_DT_NONE);
    if (d->klass != 'q' && (d->safetensors[0] || d->storage))
        return CKPT_OK;
    return fail(&builder->err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a tensor of {%s} cannot be written", d->name);
}

static ckpt_status count_bytes(ckpt_builder *builder, const ckpt_builder_tensor *tensor, uint64_t *nbytes)
{
    uint64_t elements;
    if (checked_product(tensor->shape, tensor->ndim, &elements) &&
        dtype_bytes((ckpt_dtype)tensor->dtype, elements, nbytes))
        return CKPT_OK;
    return fail(&builder->err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                "{dtype and shape} take no whole number of bytes below {=2^64}");
}

/* open_bytes - sets *SRC to a source of the bytes of TENSOR, which must be NBYTES: OWN, unless it is NULL. */
static ckpt_status open_bytes(ckpt_builder *builder, const ckpt_builder_tensor *tensor, source *own,
                              uint64_t nbytes, source **src)
{
    CKPT_REQUIRE(&builder->err, !tensor->data || !tensor->callbacks);
    uint64_t given = tensor->nbytes;
    *src = NULL;
    if (own && own->size == nbytes) {
        *src = source_ref(own);
        return CKPT_OK;
    }
    if (tensor->callbacks)
        CKPT_TRY(source_callbacks(tensor->callbacks, src, &builder->err));
    else if (!(*src = source_mem(tensor->data, tensor->nbytes, CKPT_NO_OFFSET)))
        return fail_memory(&builder->err);
    if (tensor->callbacks) {
        given = (*src)->size;
        (*src)->position = CKPT_NO_OFFSET; /* its offsets are not those of a file */
    }
    if (given == nbytes && (tensor->data || tensor->callbacks || !nbytes))
        return CKPT_OK;
    source_unref(*src);
    return fail(
        &builder->err, CKPT_EUSAGE, CKPT_NO_OFFSET, "{%llu bytes} given, dtype and shape take {=%llu}",
        (unsigned long long)(tensor->data || tensor->callbacks ? given : 0), (unsigned long long)nbytes);
}

/* add_row - adds TENSOR to the current dict under KEY, which is new. */
static ckpt_status add_row(ckpt_builder *builder, ckpt_str key, struct kit_tensor *tensor)
{
    uint32_t row = (uint32_t)builder->f->table.nrows;
    tensor->name = key;
    CKPT_TRY(kit_add_tensor(current_dict(builder), tensor));
    return map_put(builder->rows, table_name(&builder->f->table, row), row, NULL)
               ? CKPT_OK
               : fail_memory(&builder->err);
}

static ckpt_status add_tensor(ckpt_builder *builder, ckpt_str key, const ckpt_builder_tensor *given,
                              source *src)
{
    ckpt_builder_tensor t;
    uint64_t nbytes = 0, total;
    CKPT_REQUIRE(&builder->err, given);
    CKPT_TRY(sized_struct_copy_in(given, &t, sizeof t, &builder->err));
    CKPT_REQUIRE(&builder->err, t.shape || !t.ndim);
    CKPT_TRY(check_dtype(builder, t.dtype));
    CKPT_TRY(count_bytes(builder, &t, &nbytes));
    if (!checked_add(builder->nbytes, nbytes, &total))
        return fail(&builder->err, CKPT_EUSAGE, CKPT_NO_OFFSET, "all tensors take {more} than {=2^64 bytes}");
    struct kit_tensor x = {
        .t = {.dtype = (uint16_t)t.dtype, .ndim = t.ndim, .shape = t.shape},
        .nbytes = nbytes,
        .key = arena_printf(builder->f->a, "%zu", builder->f->table.nstorages)}; /* unique, for ties */
    CKPT_TRY(x.key.ptr ? open_bytes(builder, &t, src, nbytes, &x.src) : fail_memory(&builder->err));
    ckpt_status st = add_row(builder, key, &x);
    if (t.callbacks && st == CKPT_OK)
        st = source_finish_opening(x.src, CKPT_OK, false, &builder->err);
    source_unref(x.src);
    builder->nbytes = total;
    return st;
}

ckpt_status builder_add_source(ckpt_builder *builder, const char *key, const ckpt_builder_tensor *tensor,
                               source *src, ckpt_error *err)
{
    ckpt_str name;
    ckpt_status st = begin_entry(builder, key, &name);
    CKPT_THEN(st, prefix_where_if_failed(add_tensor(builder, name, tensor, src), name, &builder->err));
    return return_latched(builder, st, err);
}

ckpt_status ckpt_builder_add_tensor(ckpt_builder *builder, const char *key, const ckpt_builder_tensor *tensor,
                                    ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, builder);
    return builder_add_source(builder, key, tensor, NULL, err);
}

/* add_tie - adds KEY as a second name of the tensor TENSOR_NAME. */
static ckpt_status add_tie(ckpt_builder *builder, const char *key, const char *tensor_name)
{
    ckpt_str name;
    CKPT_TRY(begin_entry(builder, key, &name));
    CKPT_REQUIRE(&builder->err, tensor_name);
    uint32_t row = map_get(builder->rows, str_c(tensor_name));
    if (row == MAP_NONE)
        return fail(&builder->err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no tensor is called \"%s\"", tensor_name);
    const ckpt_tensor t = table_tensor(&builder->f->table, row);
    const struct storage *s = &builder->f->table.storages[t.storage];
    struct kit_tensor x = {.t = {.dtype = t.dtype, .ndim = t.ndim, .shape = t.shape},
                           .src = s->src,
                           .nbytes = s->nbytes,
                           .key = s->key};
    return add_row(builder, name, &x);
}

ckpt_status ckpt_builder_add_tie(ckpt_builder *builder, const char *key, const char *tensor_name,
                                 ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, builder);
    return return_latched(builder, add_tie(builder, key, tensor_name), err);
}

/* -------------------------------------------------------------------------- values */

/* add_leaf - adds a value under KEY with the type and the number of CONTENT. */
static ckpt_status add_leaf(ckpt_builder *builder, const char *key, ckpt_value content, ckpt_error *err)
{
    ckpt_str name;
    CKPT_REQUIRE(err, builder);
    ckpt_status st = begin_entry(builder, key, &name);
    ckpt_value *v = st == CKPT_OK ? value_new(builder->f->a, (ckpt_value_type)content.type, 0) : NULL;
    if (v)
        v->u = content.u;
    return return_latched(builder, st == CKPT_OK ? kit_add_value(current_dict(builder), name, v) : st, err);
}

ckpt_status ckpt_builder_add_none(ckpt_builder *builder, const char *key, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    return add_leaf(builder, key, (ckpt_value){.type = CKPT_V_NONE}, err);
}

ckpt_status ckpt_builder_add_bool(ckpt_builder *builder, const char *key, bool value, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    return add_leaf(builder, key, (ckpt_value){.type = CKPT_V_BOOL, .u.b = value}, err);
}

ckpt_status ckpt_builder_add_int(ckpt_builder *builder, const char *key, int64_t value, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    return add_leaf(builder, key, (ckpt_value){.type = CKPT_V_INT, .u.i = value}, err);
}

ckpt_status ckpt_builder_add_float(ckpt_builder *builder, const char *key, double value, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    return add_leaf(builder, key, (ckpt_value){.type = CKPT_V_FLOAT, .u.f = value}, err);
}

ckpt_status ckpt_builder_add_text(ckpt_builder *builder, const char *key, const char *text, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_str name, copy;
    CKPT_REQUIRE(err, builder);
    ckpt_status st = begin_entry(builder, key, &name);
    CKPT_THEN(st, copy_text(builder, text, &copy));
    CKPT_THEN(st, kit_add_value(current_dict(builder), name, value_str(builder->f->a, copy)));
    return return_latched(builder, st, err);
}

static ckpt_status begin_dict(ckpt_builder *builder, const char *key)
{
    ckpt_file *f = builder->f;
    ckpt_str name;
    CKPT_TRY(begin_entry(builder, key, &name));
    if (builder->ndicts >= f->limits.max_depth)
        return fail(&builder->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "{more} than {=%u dicts} in each other",
                    f->limits.max_depth);
    struct kit *dict = arena_append(f->a, &builder->dicts, &builder->ndicts, &builder->cap_dicts,
                                    sizeof *dict);
    CKPT_TRY_ALLOC(dict, &builder->err);
    struct kit *parent = dict - 1;
    CKPT_TRY(kit_begin_mapping(dict, parent, name));
    return map_put(parent->names, name, 0, NULL) ? CKPT_OK : fail_memory(&builder->err);
}

ckpt_status ckpt_builder_begin_dict(ckpt_builder *builder, const char *key, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, builder);
    return return_latched(builder, begin_dict(builder, key), err);
}

ckpt_status ckpt_builder_end_dict(ckpt_builder *builder, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, builder);
    ckpt_status st = builder->status;
    if (st == CKPT_OK && builder->ndicts == 1)
        st = fail(&builder->err, CKPT_EUSAGE, CKPT_NO_OFFSET, "no dict is open");
    else if (st == CKPT_OK)
        st = kit_end(&builder->dicts[--builder->ndicts], CKPT_OK);
    return return_latched(builder, st, err);
}

static ckpt_status add_metadata(ckpt_builder *builder, const char *key, const char *text)
{
    ckpt_file *f = builder->f;
    ckpt_str name, copy;
    CKPT_TRY(builder->status);
    CKPT_TRY(copy_text(builder, key, &name));
    CKPT_TRY(copy_text(builder, text, &copy));
    CKPT_TRY_ALLOC(f->metadata || (f->metadata = value_new(f->a, CKPT_V_DICT, 0)), &builder->err);
    if (value_get(f->metadata, key))
        return fail(&builder->err, CKPT_EEXIST, CKPT_NO_OFFSET, "the metadata have \"%s\" already", key);
    ckpt_value *k = value_str(f->a, name), *v = value_str(f->a, copy);
    return k && v && value_put(f->a, f->metadata, k, v) ? CKPT_OK : fail_memory(&builder->err);
}

ckpt_status ckpt_builder_add_metadata(ckpt_builder *builder, const char *key, const char *text,
                                      ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, builder);
    return return_latched(builder, add_metadata(builder, key, text), err);
}

/* -------------------------------------------------------------------------- finish */

static ckpt_status complete_file(ckpt_builder *builder)
{
    ckpt_file *f = builder->f;
    CKPT_TRY(builder->status);
    if (builder->ndicts > 1)
        return fail(&builder->err, CKPT_EUSAGE, CKPT_NO_OFFSET, "{%zu} dicts were begun and not ended",
                    builder->ndicts - 1);
    builder->ndicts = 0;
    CKPT_TRY(kit_end(builder->dicts, CKPT_OK));
    arena_trim(f->a);
    f->nbytes = builder->nbytes;
    file_set_view_limit(f);
    return table_finish(&f->table, &builder->err);
}

ckpt_status ckpt_builder_finish(ckpt_builder *builder, ckpt_file **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    if (out)
        *out = NULL;
    CKPT_REQUIRE(err, builder);
    ckpt_status st = return_latched(builder,
                                    out ? complete_file(builder) : fail_argument(&builder->err, "out"), err);
    if (st == CKPT_OK) {
        *out = builder->f;
        builder->f = NULL;
    }
    ckpt_builder_free(builder);
    return st;
}
