/* edit_join.c - the verb `join` of `ckpt edit`: the files of a model that tensor-parallel ranks have written
 * have the same names, each with a part of every tensor. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/row_source.h"
#include "io/source.h"
#include "op/edit.h"

#define COMPARED (UINT32_C(64) << 10) /* bytes that are compared at once */

/* check_names - checks that SHARD has the names of F. */
static ckpt_status check_names(ckpt_file *f, ckpt_file *shard, ckpt_error *err)
{
    for (size_t i = 0; i < shard->table.nrows; i++)
        if (file_find_tensor(f, table_name(&shard->table, i)) == CKPT_NO_TENSOR)
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "has \"%.*s\", which %s lacks",
                        STR_ARG(table_name(&shard->table, i)), f->path);
    for (size_t i = 0; i < f->table.nrows; i++)
        if (file_find_tensor(shard, table_name(&f->table, i)) == CKPT_NO_TENSOR)
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "lacks \"%.*s\", which %s has",
                        STR_ARG(table_name(&f->table, i)), f->path);
    return CKPT_OK;
}

ckpt_status edit_open_shards(struct editor *editor, const char *const *paths, size_t count, ckpt_error *err)
{
    ckpt_file *shard, *f = editor->p->file;
    editor->nrows = f->table.nrows;
    editor->is_joined = arena_array(editor->scratch, editor->nrows + 1, sizeof *editor->is_joined);
    CKPT_TRY_ALLOC(editor->is_joined, err);
    for (size_t i = 0; i < count; i++) {
        CKPT_TRY(editor->files->open(editor->p, paths[i], &shard, err));
        CKPT_TRY_ALLOC(ARENA_PUSH(editor->scratch, editor, shards, &shard), err);
        CKPT_TRY(name_file_if_failed(check_names(f, shard, err), shard->path, err));
    }
    return CKPT_OK;
}

ckpt_status edit_check_joined(const struct editor *editor, ckpt_error *err)
{
    ckpt_plan *p = editor->p;
    if (!editor->nshards)
        return CKPT_OK;
    CKPT_TRY(plan_update_entries(p, err));
    for (size_t i = 0; i < p->nentries; i++)
        if (p->entries[i].row < editor->nrows && !editor->is_joined[p->entries[i].row])
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                        "each of the %zu files has \"%.*s\", and no rule joins them\n"
                        "`join NAME dim N` does; `join NAME` if they are equal; `drop NAME` leaves them out",
                        editor->nshards + 1, STR_ARG(p->entries[i].name));
    return CKPT_OK;
}

/* ---------------------------------------------------------------------------- checks */

/* check_form - checks that tensor ROW of SHARD has the dtype of OWN_ROW and, but in dimension DIM, its
 * shape. */
static ckpt_status check_form(const struct editor *editor, const ckpt_file *shard, uint32_t row,
                              uint32_t own_row, int64_t dim, ckpt_error *err)
{
    const ckpt_tensor t = table_tensor(&editor->p->file->table, own_row);
    const ckpt_tensor other = table_tensor(&shard->table, row);
    bool is_alike = tensor_same_dtype(&t, &other) && t.has_shape && other.has_shape && t.ndim == other.ndim;
    for (uint32_t k = 0; is_alike && k < t.ndim; k++)
        is_alike = t.shape[k] == other.shape[k] || (int64_t)k == dim || (int64_t)k == dim + (int64_t)t.ndim;
    return is_alike ? CKPT_OK
                    : edit_fail(editor, own_row, err, "has another dtype or shape in %s", shard->path);
}

/* check_equal_bytes - checks that the NBYTES bytes of OWN and OTHER are the same. */
static ckpt_status check_equal_bytes(const struct editor *editor, source *own, source *other, uint64_t nbytes,
                                     uint32_t row, const char *path, ckpt_error *err)
{
    unsigned char *both = malloc(2 * (size_t)COMPARED);
    ckpt_status st = both ? CKPT_OK : fail_memory(err);
    for (uint64_t at = 0; st == CKPT_OK && at < nbytes; at += COMPARED) {
        size_t count = nbytes - at < COMPARED ? (size_t)(nbytes - at) : COMPARED;
        st = source_read(own, at, both, count, err);
        CKPT_THEN(st, source_read(other, at, both + COMPARED, count, err));
        if (st == CKPT_OK && memcmp(both, both + COMPARED, count) != 0)
            st = edit_fail(editor, row, err, "has other values in %s\n`join NAME dim N` joins parts", path);
    }
    free(both);
    return st;
}

/* check_equal - checks that ROW of SHARD is equal to OWN_ROW. */
static ckpt_status check_equal(const struct editor *editor, ckpt_file *shard, uint32_t row, uint32_t own_row,
                               ckpt_error *err)
{
    ckpt_file *f = editor->p->file;
    CKPT_TRY(check_form(editor, shard, row, own_row, INT64_MAX - EDIT_MAX_DIMS, err));
    CKPT_TRY(place_if_failed(row_source_check(f, own_row, err), editor->rule->place, err));
    CKPT_TRY(place_if_failed(row_source_check(shard, row, err), editor->rule->place, err));
    source *own = row_source(f, own_row), *other = row_source(shard, row);
    ckpt_status st = own && other
                         ? check_equal_bytes(editor, own, other, own->size, own_row, shard->path, err)
                         : fail_memory(err);
    source_unref(own);
    source_unref(other);
    return st;
}

/* ------------------------------------------------------------------------------ join */

/* find_parts - sets ROWS[I] to the tensor of shard I that belongs to ROW, and checks that they fit. */
static ckpt_status find_parts(const struct editor *editor, uint32_t row, uint32_t *rows, ckpt_error *err)
{
    const struct rule *rule = editor->rule;
    bool is_cut = rule->given & ARGUMENT_DIM;
    const ckpt_plan *p = editor->p;
    ckpt_str name = table_name(&p->file->table, row);
    if (row >= editor->nrows || map_get_num(p->view_of, table_storage_of(&p->file->table, row)) != MAP_NONE)
        return edit_fail(editor, row, err, "was made or changed by a rule before; `join` comes first");
    for (size_t i = 0; i < editor->nshards; i++) {
        rows[i] = file_find_tensor(editor->shards[i], name);
        if (rows[i] == CKPT_NO_TENSOR)
            return edit_fail(editor, row, err, "is not in %s", editor->shards[i]->path);
        CKPT_TRY(is_cut ? check_form(editor, editor->shards[i], rows[i], row, rule->dim, err)
                        : check_equal(editor, editor->shards[i], rows[i], row, err));
    }
    return CKPT_OK;
}

/* check_dim - checks that ROW, which there is once, has the dimension of the rule. */
static ckpt_status check_dim(const struct editor *editor, uint32_t row, ckpt_error *err)
{
    const int64_t dim = editor->rule->dim, ndim = table_tensor(&editor->p->file->table, row).ndim;
    return !(editor->rule->given & ARGUMENT_DIM) || (dim < ndim && dim >= -ndim)
               ? CKPT_OK
               : edit_fail(editor, row, err, "has no {dimension %" PRId64 "}", dim);
}

ckpt_status edit_join(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    uint32_t row = step->rows[0];
    uint32_t *rows = calloc(editor->nshards + 1, sizeof *rows);
    CKPT_TRY_ALLOC(rows, err);
    ckpt_status st = editor->nshards ? find_parts(editor, row, rows, err) : check_dim(editor, row, err);
    if (st == CKPT_OK && editor->nshards && editor->rule->given & ARGUMENT_DIM)
        st = edit_concat_files(editor, step, editor->shards, rows, editor->nshards, err);
    free(rows);
    if (st == CKPT_OK && row < editor->nrows)
        editor->is_joined[row] = true;
    CKPT_THEN(st, edit_finish(editor, step, 0, str_of("", 0), row, err));
    return st;
}
