/* average_files.c - opens the files of an average, pairs their tensors by name, and lists what does not
 * match. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "op/average.h"
#include "op/value_equal.h"

/* -------------------------------------------------------------------------- mismatches */

/* describe - returns "float32 [3, 4]" in A; .ptr NULL: no memory. */
static ckpt_str describe(arena *a, const ckpt_tensor *tensor)
{
    buf text;
    buf_init(&text, SIZE_MAX);
    if (tensor->kind != CKPT_DENSE && tensor->kind != CKPT_NDARRAY)
        buf_printf(&text, "%s ", ckpt_kind_name((ckpt_kind)tensor->kind));
    buf_put_cstr(&text, ckpt_tensor_dtype_name(tensor));
    buf_put_cstr(&text, tensor->has_shape ? " [" : " of unknown shape");
    for (uint32_t k = 0; k < tensor->ndim; k++)
        buf_printf(&text, "%s%" PRIu64, k ? ", " : "", tensor->shape[k]);
    if (tensor->has_shape)
        buf_byte(&text, ']');
    ckpt_str copy = buf_ok(&text) ? arena_str(a, buf_view(&text)) : str_of(NULL, 0);
    buf_free(&text);
    return copy;
}

static ckpt_status add_mismatch(const struct average *average, const struct average_file *other,
                                uint32_t what, ckpt_str name, ckpt_error *err)
{
    ckpt_plan *p = average->p;
    const ckpt_mismatch mismatch = {.what = what,
                                    .name = arena_str(p->a, name),
                                    .path = other->path,
                                    .own_path = average->options->paths[average->options->own]};
    bool ok = mismatch.name.ptr && ARENA_PUSH(p->a, &p->report, mismatches, &mismatch);
    return ok ? CKPT_OK : fail_memory(err);
}

/* add_difference - adds that ROW of OTHER has not the dtype and shape of the plan's tensor OWN. */
static ckpt_status add_difference(const struct average *average, const struct average_file *other,
                                  const struct plan_entry *own, uint32_t row, ckpt_error *err)
{
    struct plan_report *report = &average->p->report;
    const ckpt_tensor left = table_tensor(&average->p->file->table, own->row),
                      right = table_tensor(&other->f->table, row);
    CKPT_TRY(add_mismatch(average, other, CKPT_MISMATCH_FORM, own->name, err));
    ckpt_mismatch *mismatch = &report->mismatches[report->nmismatches - 1];
    mismatch->own_form = describe(average->p->a, &left);
    mismatch->form = describe(average->p->a, &right);
    return mismatch->own_form.ptr && mismatch->form.ptr ? CKPT_OK : fail_memory(err);
}

/* print_mismatch - writes MISMATCH to OUT, of SIZE bytes, as a part of a message. */
static void print_mismatch(const ckpt_mismatch *mismatch, char *out, size_t size)
{
    char name[128];
    (void)ckpt_text_escape(str_first(mismatch->name, 64), name, sizeof name);
    const char *rest = mismatch->name.len > 64 ? "..." : "";
    switch (mismatch->what) {
    case CKPT_MISMATCH_MISSING: (void)snprintf(out, size, "\"%s%s\" is missing", name, rest); break;
    case CKPT_MISMATCH_EXTRA: (void)snprintf(out, size, "\"%s%s\" is only here", name, rest); break;
    case CKPT_MISMATCH_VALUE: (void)snprintf(out, size, "\"%s%s\" has another value", name, rest); break;
    default:
        (void)snprintf(out, size, "\"%s%s\" is %s, not %s", name, rest, mismatch->form.ptr,
                       mismatch->own_form.ptr);
    }
}

/* has_common_name - returns true if a tensor of the plan is in the file of MISMATCH. */
static bool has_common_name(const struct average *average, const ckpt_mismatch *mismatch)
{
    for (size_t k = 0; k < average->nfiles; k++)
        for (size_t i = 0; average->files[k].path == mismatch->path && i < average->p->nentries; i++)
            if (average->files[k].rows && average->files[k].rows[i] != CKPT_NO_TENSOR)
                return true;
    return false;
}

ckpt_status average_fail_if_mismatched(const struct average *average, ckpt_error *err)
{
    enum { MAX_SHOWN = 3 };
    char list[MAX_SHOWN * 200] = "";
    const struct plan_report *report = &average->p->report;
    const ckpt_mismatch *first = report->mismatches;
    size_t in_file = 0, at = 0;
    if (!report->nmismatches)
        return CKPT_OK;
    for (size_t i = 0; i < report->nmismatches; i++) {
        if (report->mismatches[i].path != first->path)
            continue;
        if (in_file++ < MAX_SHOWN && at < sizeof list - 2) {
            at += (size_t)snprintf(list + at, sizeof list - at, "%s", in_file > 1 ? "; " : "");
            print_mismatch(&report->mismatches[i], list + at, sizeof list - at);
            at += strlen(list + at);
        }
    }
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "differs from %s in %zu place%s: %s%s", first->own_path,
               in_file, in_file == 1 ? "" : "s", list, in_file > MAX_SHOWN ? "; ..." : "");
    if (!average->options->root && !has_common_name(average, first))
        error_add_hint(err, "no name is in both; --root auto averages the weights, wherever they are");
    else
        error_add_hint(err, "--json lists all; `ckpt edit` renames, drops and reshapes tensors");
    return name_file_if_failed(CKPT_ELOSSY, first->path, err);
}

/* ------------------------------------------------------------------------------- names */

static bool has_same_form(const ckpt_tensor *left, const ckpt_tensor *right)
{
    bool is_plain = (left->kind == CKPT_DENSE || left->kind == CKPT_NDARRAY) &&
                    (right->kind == CKPT_DENSE || right->kind == CKPT_NDARRAY);
    bool is_same = (is_plain || left->kind == right->kind) && tensor_same_dtype(left, right) &&
                   left->has_shape == right->has_shape && left->ndim == right->ndim;
    for (uint32_t k = 0; is_same && k < left->ndim; k++)
        is_same = left->shape[k] == right->shape[k];
    return is_same;
}

/* is_component - returns true if row ROW is a part of a composite, which has a row of its own. */
static bool is_component(const ckpt_file *f, uint32_t row)
{
    return table_part_of(&f->table, row) != CKPT_NO_TENSOR;
}

/* index_names - makes *OUT, name -> row, of the tensors of P. */
static ckpt_status index_names(const ckpt_plan *p, map **out, ckpt_error *err)
{
    uint32_t old;
    *out = map_new(p->nentries);
    CKPT_TRY_ALLOC(*out, err);
    for (size_t i = 0; i < p->nentries; i++) {
        CKPT_TRY_ALLOC(map_put(*out, p->entries[i].name, p->entries[i].row, &old), err);
        if (old != MAP_NONE)
            return fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "two tensors are called \"%.*s\"",
                        STR_ARG(p->entries[i].name));
    }
    return CKPT_OK;
}

/* match_own - sets the rows of FILE, which OF_NAME has by name, and lists the tensors that FILE lacks or has
 * in another form. */
static ckpt_status match_own(const struct average *average, struct average_file *file, const map *of_name,
                             ckpt_error *err)
{
    const ckpt_plan *p = average->p;
    for (size_t i = 0; i < p->nentries; i++) {
        const struct plan_entry *own = &p->entries[i];
        uint32_t row = map_get(of_name, own->name);
        file->rows[i] = row == MAP_NONE ? CKPT_NO_TENSOR : row;
        if (is_component(p->file, own->row))
            continue;
        if (row == MAP_NONE) {
            CKPT_TRY(add_mismatch(average, file, CKPT_MISMATCH_MISSING, own->name, err));
            continue;
        }
        const ckpt_tensor left = table_tensor(&p->file->table, own->row),
                          right = table_tensor(&file->f->table, row);
        if (!has_same_form(&left, &right))
            CKPT_TRY(add_difference(average, file, own, row, err));
    }
    return CKPT_OK;
}

/* list_extra - lists the tensors of FILE, by its plan THEIRS, that the average's plan lacks. OWN has its
 * names. */
static ckpt_status list_extra(const struct average *average, const struct average_file *file,
                              const ckpt_plan *theirs, const map *own, ckpt_error *err)
{
    for (size_t i = 0; i < theirs->nentries; i++)
        if (!is_component(file->f, theirs->entries[i].row) &&
            map_get(own, theirs->entries[i].name) == MAP_NONE)
            CKPT_TRY(add_mismatch(average, file, CKPT_MISMATCH_EXTRA, theirs->entries[i].name, err));
    return CKPT_OK;
}

/* match_plan - pairs the tensors of THEIRS, a plan of FILE, with those of the average's plan. */
static ckpt_status match_plan(const struct average *average, struct average_file *file, ckpt_plan *theirs,
                              const map *own, ckpt_error *err)
{
    map *of_name = NULL;
    if (file->root)
        CKPT_TRY(ckpt_plan_root(theirs, file->root, err));
    CKPT_TRY(plan_update_entries(theirs, err));
    ckpt_status st = index_names(theirs, &of_name, err);
    CKPT_THEN(st, match_own(average, file, of_name, err));
    CKPT_THEN(st, list_extra(average, file, theirs, own, err));
    map_free(of_name);
    return st;
}

static ckpt_status match_file(const struct average *average, struct average_file *file, const map *own,
                              ckpt_error *err)
{
    ckpt_plan *theirs = NULL;
    CKPT_TRY(ckpt_plan_new(file->f, &theirs, err));
    ckpt_status st = match_plan(average, file, theirs, own, err);
    ckpt_plan_free(theirs);
    return name_file_if_failed(st, file->f->path, err);
}

/* open_file - opens file INDEX, unless it is that of the plan, and allocates its rows. */
static ckpt_status open_file(const struct average *average, size_t index, ckpt_error *err)
{
    const ckpt_average_options *o = average->options;
    struct average_file *file = &average->files[index];
    bool is_own = index == o->own;
    file->path = index < o->npaths ? o->paths[index] : o->base;
    file->root = o->root;
    file->rows = arena_array(average->p->a, average->p->nentries, sizeof *file->rows);
    CKPT_TRY_ALLOC(file->rows, err);
    if (!is_own)
        return average->open(average->p, file->path, &file->f, err);
    file->f = average->p->file;
    for (size_t i = 0; i < average->p->nentries; i++)
        file->rows[i] = average->p->entries[i].row;
    return CKPT_OK;
}

ckpt_status average_open_files(struct average *average, ckpt_error *err)
{
    map *own = NULL;
    const ckpt_average_options *o = average->options;
    CKPT_TRY(plan_update_entries(average->p, err));
    average->nfiles = o->npaths + (o->base != NULL);
    average->files = arena_array(average->p->a, average->nfiles, sizeof *average->files);
    CKPT_TRY_ALLOC(average->files, err);
    for (size_t i = 0; i < average->nfiles; i++)
        CKPT_TRY(open_file(average, i, err));
    ckpt_status st = index_names(average->p, &own, err);
    for (size_t i = 0; st == CKPT_OK && i < average->nfiles; i++)
        if (i != o->own)
            st = match_file(average, &average->files[i], own, err);
    map_free(own);
    return st;
}

/* ------------------------------------------------------------- what is not averaged */

/* A tensor whose bytes are compared. */
struct compared {
    stream *stream;
    unsigned char *bytes; /* STREAM_CHUNK of them */
    size_t next, end;     /* those that were read, and are not compared yet */
};

static ckpt_status fill(struct compared *tensor, ckpt_error *err)
{
    if (tensor->next < tensor->end)
        return CKPT_OK;
    tensor->next = 0;
    return stream_next(tensor->stream, tensor->bytes, STREAM_CHUNK, &tensor->end, err);
}

/* compare_streams - sets *SAME to whether LEFT and RIGHT, which are of one size, have the same bytes. */
static ckpt_status compare_streams(struct compared *left, struct compared *right, bool *same, ckpt_error *err)
{
    for (;;) {
        CKPT_TRY(fill(left, err));
        CKPT_TRY(fill(right, err));
        size_t in_left = left->end - left->next, in_right = right->end - right->next;
        size_t count = in_left < in_right ? in_left : in_right;
        *same = memcmp(left->bytes + left->next, right->bytes + right->next, count) == 0;
        if (!count || !*same)
            return CKPT_OK;
        left->next += count;
        right->next += count;
    }
}

static ckpt_status open_compared(ckpt_file *f, uint32_t row, struct compared *out, ckpt_error *err)
{
    const struct stream_options options = {.ignore_crc = f->ignore_crc};
    *out = (struct compared){.bytes = malloc(STREAM_CHUNK)};
    CKPT_TRY_ALLOC(out->bytes, err);
    ckpt_status st = stream_open(&f->table, row, &options, &out->stream, err);
    return name_file_if_failed(st, f->path, err);
}

static void close_compared(struct compared *tensor)
{
    stream_close(tensor->stream);
    free(tensor->bytes);
}

/* compare_bytes - sets *SAME to whether tensor LEFT of F and tensor RIGHT of OTHER have the same bytes. */
static ckpt_status compare_bytes(ckpt_file *f, uint32_t left, ckpt_file *other, uint32_t right, bool *same,
                                 ckpt_error *err)
{
    struct compared a = {0}, b = {0};
    ckpt_status st = open_compared(f, left, &a, err);
    CKPT_THEN(st, open_compared(other, right, &b, err));
    CKPT_THEN(st, compare_streams(&a, &b, same, err));
    close_compared(&a);
    close_compared(&b);
    return st;
}

/* compare_tensor - sets *SAME to whether entry INDEX of the plan and that of FILE are equal. */
static ckpt_status compare_tensor(const struct average *average, const struct average_file *file,
                                  size_t index, struct value_equal *values, bool *same, ckpt_error *err)
{
    ckpt_file *own = average->p->file;
    uint32_t left = average->p->entries[index].row, right = file->rows[index];
    if (table_has_data(&own->table, left) && table_has_data(&file->f->table, right))
        return compare_bytes(own, left, file->f, right, same, err);
    const ckpt_value *in_own = table_value_of(&own->table, left),
                     *in_other = table_value_of(&file->f->table, right);
    *same = table_has_data(&own->table, left) == table_has_data(&file->f->table, right);
    return *same && in_own && in_other ? numpy_array_equal(values, in_own, in_other, same, err) : CKPT_OK;
}

static ckpt_status compare_tensors(const struct average *average, const struct average_file *file,
                                   const bool *is_averaged, ckpt_error *err)
{
    struct value_equal values = {0};
    bool same = true;
    ckpt_status st = CKPT_OK;
    for (size_t i = 0; st == CKPT_OK && i < average->p->nentries; i++) {
        const struct plan_entry *own = &average->p->entries[i];
        if (is_averaged[i] || is_component(average->p->file, own->row))
            continue;
        st = compare_tensor(average, file, i, &values, &same, err);
        if (st == CKPT_OK && !same)
            st = add_mismatch(average, file, CKPT_MISMATCH_VALUE, own->name, err);
        else if (st != CKPT_OK)
            error_add_where(err, "%.*s", STR_ARG(own->name));
    }
    value_equal_free(&values);
    return st;
}

/* What note_value needs. */
struct value_comparison {
    const struct average *average;
    const struct average_file *file;
    ckpt_status st;
    ckpt_error err;
};

/* note_value - receives a value that differs. */
static int note_value(void *user, const ckpt_diff_value *value)
{
    struct value_comparison *to = user;
    if (value->what != CKPT_DIFF_NOT_COMPARED)
        to->st = add_mismatch(to->average, to->file, CKPT_MISMATCH_VALUE, value->name, &to->err);
    return to->st != CKPT_OK;
}

static ckpt_status compare_values(const struct average *average, const struct average_file *file,
                                  ckpt_error *err)
{
    const ckpt_plan *p = average->p;
    struct value_comparison to = {.average = average, .file = file};
    const ckpt_diff_options o = {.struct_size = sizeof o,
                                 .root_a = p->root_name.len ? p->root_name.ptr : NULL,
                                 .root_b = file->root,
                                 .allow_none = 1};
    if (p->omits_values)
        return CKPT_OK;
    ckpt_status st = ckpt_diff_values(p->file, file->f, &o, note_value, &to, NULL, err);
    if (to.st != CKPT_OK)
        *err = to.err;
    return to.st != CKPT_OK ? to.st : st;
}

ckpt_status average_compare_others(const struct average *average, const bool *is_averaged, ckpt_error *err)
{
    for (size_t k = 0; k < average->nfiles; k++) {
        const struct average_file *file = &average->files[k];
        if (k == average->options->own)
            continue;
        CKPT_TRY(compare_tensors(average, file, is_averaged, err));
        CKPT_TRY(compare_values(average, file, err));
    }
    return CKPT_OK;
}
