/*
 * persistent_id.c - parses persistent ids, by which a torch pickle refers to storages, and adds the storages.
 *
 *   ('storage', <class>, key, location, numel)           zip archives
 *   ('storage', <class>, key, location, numel, view)     legacy streams, view =
 *                                    None or (view_key, offset, view_numel)
 *   "('storage', <class 'torch.FloatStorage'>, '0', 'cpu', 108)"  protocol 0,
 *                                    where only text can be a persistent id
 *
 * numel counts elements of the class' dtype, bytes for UntypedStorage. Source:
 * torch/serialization.py, persistent_id of _save and _legacy_save.
 *
 * Pickles without a container have no persistent ids: a storage is a call of torch.storage._load_from_bytes
 * whose argument is a complete legacy stream.
 */
#include <stdio.h>

#include "base/checked.h"
#include "base/utf8.h"
#include "core/check.h"
#include "core/dtype.h"
#include "format/graph/legacy_stream.h"
#include "format/graph/numpy.h"
#include "format/graph/persistent_id.h"

/* parse_key - sets the key of OUT to VALUE: a text, or an int as torch.package writes it. */
static bool parse_key(const ckpt_value *value, struct torch_pid *out)
{
    int64_t i;
    if (value_text(value, &out->key))
        return true;
    if (!value_integer(value, &i))
        return false;
    out->key = str_of(out->digits, (size_t)snprintf(out->digits, sizeof out->digits, "%lld", (long long)i));
    return true;
}

ckpt_status torch_pid_copy_key(arena *a, struct torch_pid *pid, ckpt_error *err)
{
    if (pid->key.ptr == pid->digits)
        pid->key = arena_str(a, pid->key);
    return pid->key.ptr ? CKPT_OK : fail_memory(err);
}

/* parse_view - sets the view of OUT from VALUE: None, or (view_key, offset, view_numel) with an unused
 * key. */
static bool parse_view(const ckpt_value *value, struct torch_pid *out)
{
    if (!value || value->type == CKPT_V_NONE)
        return true;
    out->has_view = value_size(value_item(value, 1), &out->view_offset) &&
                    value_size(value_item(value, 2), &out->view_numel);
    return out->has_view;
}

static bool parse_tuple(const ckpt_value *value, struct torch_pid *out)
{
    ckpt_str tag;
    ckpt_value *const *items = value->u.seq.items;
    if (value->type != CKPT_V_TUPLE || value->u.seq.n < 5 || !value_text(items[0], &tag) ||
        !str_is(tag, "storage"))
        return false;
    const ckpt_value *klass = items[1];
    if (klass->type != CKPT_V_GLOBAL || !parse_key(items[2], out) || !value_size(items[4], &out->numel) ||
        !parse_view(value_item(value, 5), out))
        return false;
    if (!value_text(items[3], &out->location))
        out->location = str_of("", 0);
    out->klass = value_name(klass);
    return true;
}

/* parse_quoted - sets *OUT to the first text in quotes in TEXT from *AT on. Moves *AT to its end. */
static bool parse_quoted(ckpt_str text, size_t *at, ckpt_str *out)
{
    size_t open_quote = str_find(text, STR_LIT("'"), *at);
    size_t close_quote = open_quote == SIZE_MAX ? SIZE_MAX : str_find(text, STR_LIT("'"), open_quote + 1);
    if (close_quote == SIZE_MAX)
        return false;
    *out = str_of(text.ptr + open_quote + 1, close_quote - open_quote - 1);
    *at = close_quote + 1;
    return true;
}

/* parse_decimal - sets *OUT to the number at the start of TEXT, after commas and spaces. */
static bool parse_decimal(ckpt_str text, uint64_t *out)
{
    size_t n = 0;
    while (text.len && (text.ptr[0] == ',' || text.ptr[0] == ' '))
        text = str_skip(text, 1);
    while (n < text.len && text.ptr[n] >= '0' && text.ptr[n] <= '9')
        n++;
    return str_uint(str_of(text.ptr, n), out);
}

static bool parse_text(ckpt_str text, struct torch_pid *out)
{
    size_t at = 0;
    ckpt_str tag, klass;
    if (!str_starts(text, STR_LIT("('storage', <class '")) || !parse_quoted(text, &at, &tag) ||
        !parse_quoted(text, &at, &klass) || !parse_quoted(text, &at, &out->key) ||
        !parse_quoted(text, &at, &out->location) || !parse_decimal(str_skip(text, at), &out->numel))
        return false;
    out->klass = str_after_last(klass, '.');
    return true;
}

bool torch_pid_parse(const ckpt_value *value, struct torch_pid *out)
{
    ckpt_str text;
    *out = (struct torch_pid){0};
    if (value->type != CKPT_V_PERSID)
        return false;
    if (!(value_text(value->u.pid, &text) ? parse_text(text, out) : parse_tuple(value->u.pid, out)))
        return false;
    out->dtype = dtype_by_storage(out->klass);
    return true;
}

bool graph_is_storage(const ckpt_value *value)
{
    ckpt_str tag;
    if (value_calls(value, "torch.storage", "_load_from_bytes", 1))
        return true;
    if (value->type != CKPT_V_PERSID)
        return false;
    if (value_text(value->u.pid, &tag))
        return str_starts(tag, STR_LIT("('storage'"));
    return value_text(value_item(value->u.pid, 0), &tag) && str_is(tag, "storage");
}

bool torch_storage_bytes(ckpt_dtype dtype, uint64_t numel, uint64_t *out)
{
    *out = numel;
    return dtype_info(dtype)->block_elems != 1 || dtype_bytes(dtype, numel, out);
}

static ckpt_status require_storage_bytes(struct graph *graph, const ckpt_value *value,
                                         const struct storage *storage, ckpt_dtype dtype, uint64_t numel)
{
    uint64_t need;
    if (!torch_storage_bytes(dtype, numel, &need))
        return graph_fail(graph, value, "storage \"%.*s\" of {%llu elements} does not fit {=64 bits}",
                          STR_ARG(storage->key), (unsigned long long)numel);
    if (!storage->src || need <= storage->nbytes)
        return CKPT_OK;
    return fail(graph->err, CKPT_ETRUNCATED, storage_file_offset(storage),
                "storage \"%.*s\" holds {%llu bytes} of {=the %llu} that its %llu elements of %s need\n"
                "the file is damaged; torch before 2.10 reads bytes of other storages here, without an error",
                STR_ARG(storage->key), (unsigned long long)storage->nbytes, (unsigned long long)need,
                (unsigned long long)numel, ckpt_dtype_name(dtype));
}

/* set_location - sets the location of STORAGE to LOCATION, unless it is not UTF-8, as names of devices are.
 * Mostly it is that of the storage before, at the same place in memory. False: no memory. */
static bool set_location(struct table *table, struct storage *storage, ckpt_str location)
{
    const struct storage_extra *last = table->nstorages ? table->storages[table->nstorages - 1].extra : NULL;
    bool is_last = last && last->location.ptr == location.ptr && last->location.len == location.len;
    return (!is_last && !utf8_check(location, false, NULL)) || table_set_location(table, storage, location);
}

/* add_storage_by_key - adds the storage that PID names to the table. In a big-endian archive, a typed storage
 * has its swap width from its class; an untyped one gets it from its first tensor, see rebuild.c. */
static ckpt_status add_storage_by_key(struct graph *graph, const ckpt_value *value,
                                      const struct torch_pid *pid, uint32_t *index)
{
    struct storage s = {0};
    s.key = pid->key;
    s.dtype = (uint8_t)pid->dtype;
    if (!set_location(&graph->f->table, &s, pid->location))
        return fail_memory(graph->err);
    ckpt_status st = graph->input->find_storage(graph->input->user, pid, &s, graph->err);
    if (st != CKPT_OK)
        error_add_position(graph->err, graph_offset(graph, value), str_of("", 0));
    if (st == CKPT_OK)
        st = file_report_fault(graph->f, require_storage_bytes(graph, value, &s, pid->dtype, pid->numel),
                               graph->err);
    if (st != CKPT_OK && graph->f->salvage && st != CKPT_ENOMEM)
        st = table_set_lost(&graph->f->table, &s, graph->err, graph->err);
    if (st == CKPT_OK && graph->input->big_endian && !str_is(pid->klass, "UntypedStorage") &&
        dtype_info(pid->dtype)->swap_bytes > 1)
        s.swap_width = dtype_info(pid->dtype)->swap_bytes;
    if (st != CKPT_OK) {
        source_unref(s.src);
        return st;
    }
    return file_storage_add(graph->f, &s, index, graph->err);
}

static ckpt_status get_storage_by_key(struct graph *graph, const ckpt_value *value,
                                      const struct torch_pid *pid, uint32_t *index)
{
    ckpt_file *f = graph->f;
    CKPT_TRY(file_storage_find(f, pid->key, index, graph->err));
    if (*index != CKPT_NO_STORAGE)
        return file_report_fault(
            f, require_storage_bytes(graph, value, &f->table.storages[*index], pid->dtype, pid->numel),
            graph->err);
    return add_storage_by_key(graph, value, pid, index);
}

static ckpt_status add_storage_in_bytes(struct graph *graph, const ckpt_value *value, uint32_t *index)
{
    source *bytes = NULL;
    char type[64];
    struct storage s = {0};
    CKPT_TRY(graph_open_bytes(graph, value_arg(value, 0), &bytes));
    if (!bytes)
        return graph_fail(graph, value, "torch.storage._load_from_bytes is given {a %s}, it must be {=bytes}",
                          ckpt_value_type_name(value_arg(value, 0), type, sizeof type));
    ckpt_status st = legacy_stream_read_storage(graph->f, bytes, &s, graph->err);
    source_unref(bytes);
    CKPT_TRY(st);
    s.key = arena_printf(graph->f->a, "bytes@%llu", (unsigned long long)value_offset(value));
    CKPT_TRY(table_add_storage(&graph->f->table, &s, index, graph->err));
    return s.key.ptr && map_set_num(graph->f->storages.by_node, ptr_key(value), *index)
               ? CKPT_OK
               : fail_memory(graph->err);
}

/* get_storage_in_bytes - sets *INDEX to the storage of VALUE, a call of _load_from_bytes. Adds it the first
 * time that VALUE is reached. */
static ckpt_status get_storage_in_bytes(struct graph *graph, const ckpt_value *value, uint32_t *index)
{
    ckpt_file *f = graph->f;
    if (!f->storages.by_node && !(f->storages.by_node = map_new(16)))
        return fail_memory(graph->err);
    *index = map_get_num(f->storages.by_node, ptr_key(value));
    return *index == MAP_NONE ? add_storage_in_bytes(graph, value, index) : CKPT_OK;
}

ckpt_status graph_get_storage(struct graph *graph, const ckpt_value *value, uint32_t *index,
                              ckpt_dtype *dtype, uint64_t *numel, uint64_t *view_offset)
{
    struct torch_pid pid;
    char type[64];
    *view_offset = 0;
    if (value_calls(value, "torch.storage", "_load_from_bytes", 1)) {
        CKPT_TRY(get_storage_in_bytes(graph, value, index));
        const struct storage *s = &graph->f->table.storages[*index];
        const struct dtype_info *d = dtype_info(s->dtype);
        *dtype = s->dtype;
        *numel = d->block_elems == 1 ? s->nbytes / d->block_bytes : s->nbytes; /* as torch_storage_bytes */
        return CKPT_OK;
    }
    if (!torch_pid_parse(value, &pid))
        return graph_fail(graph, value,
                          "{a %s} is in the place of {=('storage', class, key, location, numel)}",
                          ckpt_value_type_name(value, type, sizeof type));
    if (pid.dtype == CKPT_DT_NONE)
        return graph_fail(graph, value, "storage {class \"%.*s\"} is none of {=torch's}", STR_ARG(pid.klass));
    CKPT_TRY(torch_pid_copy_key(graph->f->a, &pid, graph->err));
    CKPT_TRY(get_storage_by_key(graph, value, &pid, index));
    *dtype = pid.dtype;
    *numel = pid.has_view ? pid.view_numel : pid.numel;
    *view_offset = pid.view_offset;
    if (pid.has_view && !range_within(pid.view_offset, pid.view_numel, pid.numel))
        return graph_fail(graph, value,
                          "storage view {[%llu, +%llu)} is outside of its storage of {=%llu elements}",
                          (unsigned long long)pid.view_offset, (unsigned long long)pid.view_numel,
                          (unsigned long long)pid.numel);
    return CKPT_OK;
}

ckpt_status graph_add_memory_storage(struct graph *graph, ckpt_str bytes, ckpt_dtype dtype, uint32_t *index)
{
    struct storage s = {.nbytes = bytes.len,
                        .src = source_mem(bytes.ptr, bytes.len, CKPT_NO_OFFSET),
                        .dtype = (uint8_t)dtype};
    return s.src ? table_add_storage(&graph->f->table, &s, index, graph->err) : fail_memory(graph->err);
}

/* ------------------------------------------------------- unreferenced storages */

/* add_unreferenced_storage - adds the storage that VALUE names unless it is in the table. A storage that is
 * not belongs to no row, but to another object. A writer that copies this object needs the storage's
 * bytes. */
static ckpt_status add_unreferenced_storage(struct graph *graph, const ckpt_value *value)
{
    struct torch_pid pid;
    uint32_t index;
    ckpt_dtype dtype;
    uint64_t numel, view_offset;
    if (!torch_pid_parse(value, &pid) || pid.dtype == CKPT_DT_NONE)
        return CKPT_OK;
    CKPT_TRY(file_storage_find(graph->f, pid.key, &index, graph->err));
    if (index != CKPT_NO_STORAGE)
        return CKPT_OK;
    return graph_get_storage(graph, value, &index, &dtype, &numel, &view_offset);
}

ckpt_status graph_add_unreferenced_storages(ckpt_file *f, const struct graph_input *input, ckpt_error *err)
{
    struct graph g = {.f = f, .input = input, .err = err};
    for (size_t i = 0; i < f->npickles; i++)
        for (size_t k = 0; k < f->pickles[i]->npersids; k++)
            CKPT_TRY(add_unreferenced_storage(&g, f->pickles[i]->persids[k]));
    return CKPT_OK;
}
