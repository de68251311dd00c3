/* flat_write.c - see flat_write.h.
 *
 * Writes the entries of the plan. Not written are ties, if the format records them (format/ties), and
 * components, which mean nothing without their composite. Values that are not tensors are reported as
 * dropped. Refused: composites, tensors without bytes, two tensors of one name, what the format refuses. */
#include "format/flat_write.h"

#include <stdio.h>
#include <stdlib.h>

#include "codec/json_scan.h"
#include "core/dequantize.h"
#include "core/view.h"
#include "format/registry.h"
#include "format/salvage.h"
#include "format/ties.h"

ckpt_tensor flat_get_tensor(const struct flat_writer *writer, const struct flat_item *item)
{
    return table_tensor(&writer->p->file->table, item->row);
}

uint64_t flat_item_nbytes(const struct flat_writer *writer, const struct flat_item *item)
{
    uint64_t n = 0;
    (void)plan_nbytes(writer->p, item->row, &n);
    return n;
}

ckpt_status flat_fail_too_large(ckpt_error *err)
{
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "the tensors together have {more} than {=2^64 bytes}");
}

ckpt_status flat_lay_out_item(struct flat_writer *writer, struct flat_item *item, uint64_t align,
                              ckpt_error *err)
{
    uint64_t nbytes, excess = writer->nbytes % align, padding = excess ? align - excess : 0;
    bool ok = checked_add(writer->nbytes, padding, &item->begin) &&
              plan_nbytes(writer->p, item->row, &nbytes) && checked_add(item->begin, nbytes, &writer->nbytes);
    return ok ? CKPT_OK : flat_fail_too_large(err);
}

/* ------------------------------------------------------- what is written */

static const char *find_unfit_reason(const struct flat_writer *writer, const struct flat_item *item)
{
    const struct table *t = &writer->p->file->table;
    ckpt_kind kind = table_kind_of(t, item->row);
    if (kind != CKPT_DENSE && kind != CKPT_NDARRAY)
        return "is not a dense tensor";
    if (!table_has_data(t, item->row) || !table_has_shape(t, item->row))
        return "has no bytes";
    return writer->rules->find_unfit_reason(writer, item);
}

/* find_castable_dtype - returns the dtype that tensors of DT can be cast to for writing, or NULL. */
static const char *find_castable_dtype(const struct flat_writer *writer, ckpt_dtype dt)
{
    if (dequantize_supports(dt))
        return "float32";
    if (dtype_info(dt)->klass != 'f')
        return NULL;
    return dtype_is_foreign(dt) ? "float32" : writer->rules->float_dtype;
}

static ckpt_status refuse_unfit_tensors(const struct flat_writer *writer, const struct flat_item *first,
                                        size_t nothers, ckpt_error *err)
{
    const ckpt_tensor t = flat_get_tensor(writer, first);
    const char *cast = find_castable_dtype(writer, (ckpt_dtype)t.dtype);
    bool torch_keeps = !dtype_is_foreign((ckpt_dtype)t.dtype) &&
                       (t.has_data || !writer->p->file->format->flat);
    char more[48] = "";
    if (nothers)
        (void)snprintf(more, sizeof more, ", and %zu other%s likewise", nothers, nothers == 1 ? "" : "s");
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "%s cannot hold \"%.*s\" (%s, %s): it %s%s",
               writer->rules->format_name, STR_ARG(first->name), ckpt_kind_name((ckpt_kind)t.kind),
               t.dtype ? ckpt_tensor_dtype_name(&t) : "no dtype", find_unfit_reason(writer, first), more);
    if (cast && strcmp(cast, ckpt_tensor_dtype_name(&t)) != 0)
        error_add_hint(err, "--cast '*=%s' makes it a type that %s has", cast, writer->rules->format_name);
    else
        format_hint_leave_out(writer->p->file, &t, first->name, torch_keeps ? "; a .pth output keeps it" : "",
                              err);
    return CKPT_ELOSSY;
}

/* drop_orphan - reports ITEM, a component, as dropped if the plan leaves out its composite. */
static ckpt_status drop_orphan(const struct flat_writer *writer, const struct flat_item *item,
                               ckpt_error *err)
{
    if (writer->p->keep[table_part_of(&writer->p->file->table, item->row)])
        return CKPT_OK;
    const ckpt_path_elem flat = {.str = item->name};
    const ckpt_leaf component = {.name = item->name, .path = &flat, .npath = 1};
    return plan_note_dropped(writer->p, &component, "part of a tensor that is left out", err);
}

/* collect_items - adds the entries that are not in DROP as items, and refuses unfit ones. */
static ckpt_status collect_items(struct flat_writer *writer, const bool *drop, ckpt_error *err)
{
    struct flat_item unfit;
    size_t nunfit = 0;
    for (size_t i = 0; i < writer->p->nentries; i++) {
        const struct plan_entry *e = &writer->p->entries[i];
        const struct flat_item x = {.name = e->name, .row = e->row};
        if (drop[i])
            continue;
        if (table_part_of(&writer->p->file->table, x.row) != CKPT_NO_TENSOR)
            CKPT_TRY(drop_orphan(writer, &x, err));
        else if (!find_unfit_reason(writer, &x))
            writer->items[writer->n++] = x;
        else if (nunfit++ == 0)
            unfit = x;
    }
    return nunfit ? refuse_unfit_tensors(writer, &unfit, nunfit - 1, err) : CKPT_OK;
}

/* make_path_text - returns the path of ROW, such as ["model"][0], or empty text if memory ran out. */
static ckpt_str make_path_text(const struct flat_writer *writer, uint32_t row)
{
    const ckpt_tensor t = table_tensor(&writer->p->file->table, row);
    buf b;
    buf_init(&b, 4096);
    for (uint32_t k = 0; k < t.npath; k++) {
        buf_byte(&b, '[');
        if (t.path[k].is_int)
            buf_printf(&b, "%lld", (long long)t.path[k].num);
        else
            json_quote(&b, t.path[k].str);
        buf_byte(&b, ']');
    }
    ckpt_str text = arena_str(writer->p->a, buf_view(&b));
    buf_free(&b);
    return text.ptr ? text : str_of("", 0);
}

static ckpt_status fail_collision(const struct flat_writer *writer, const struct plan_entry *left,
                                  const struct plan_entry *right, ckpt_error *err)
{
    ckpt_str path_a = make_path_text(writer, left->row), path_b = make_path_text(writer, right->row);
    return fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                "two tensors would both be called \"%.*s\": %.*s and %.*s\n"
                "--root picks one of several mappings, ckpt rename changes one of the names",
                STR_ARG(left->name), STR_ARG(path_a), STR_ARG(path_b));
}

/* check_collisions - refuses equal names among all entries, including recorded ties. */
static ckpt_status check_collisions(const struct flat_writer *writer, ckpt_error *err)
{
    const ckpt_plan *p = writer->p;
    map *seen = map_new(p->nentries);
    ckpt_status st = seen ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < p->nentries; i++) {
        uint32_t other;
        if (!map_put(seen, p->entries[i].name, (uint32_t)i, &other))
            st = fail_memory(err);
        else if (other != MAP_NONE)
            st = fail_collision(writer, &p->entries[other], &p->entries[i], err);
    }
    map_free(seen);
    return st;
}

/* drop_leaves - reports values that are not tensors as dropped; with --strict refuses them. */
static ckpt_status drop_leaves(const struct flat_writer *writer, ckpt_error *err)
{
    ckpt_plan *p = writer->p;
    size_t before = p->report.ndropped;
    for (size_t i = 0; i < p->file->nleaves; i++) {
        const ckpt_leaf *leaf = &p->file->leaves[i];
        if (!plan_includes_leaf(p, leaf))
            continue;
        CKPT_TRY(plan_check_droppable(leaf, writer->rules->contents_rule, err));
        CKPT_TRY(plan_note_dropped(p, leaf, "not a tensor", err));
    }
    if (p->report.ndropped == before || !writer->job->opts->strict)
        return CKPT_OK;
    const ckpt_dropped *d = &p->report.dropped[before];
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "\"%.*s\" (%.*s) is not a tensor, nor are %zu others; %s\n"
                "without --strict they are left out and listed",
                STR_ARG(d->name), STR_ARG(d->type), p->report.ndropped - before - 1,
                writer->rules->contents_rule);
}

static bool keeps_values(const struct flat_writer *writer)
{
    return writer->rules->keeps_values && writer->rules->keeps_values(writer);
}

/* check_not_empty - fails if no tensor is written, unless the input is an empty mapping, or one of values
 * that are written. */
static ckpt_status check_not_empty(const struct flat_writer *writer, ckpt_error *err)
{
    const ckpt_file *f = writer->p->file;
    bool was_empty = f->table.nrows == 0 && writer->p->report.ndropped == 0 && !salvage_left_nothing(f) &&
                     (view_is_empty_mapping(f->root) || (f->root && keeps_values(writer)));
    return writer->n || was_empty ? CKPT_OK : plan_fail_no_tensors(writer->p, err);
}

static ckpt_status choose_items(struct flat_writer *writer, ckpt_error *err)
{
    ckpt_plan *p = writer->p;
    ckpt_ties ties = writer->job->opts->ties;
    if (!writer->rules->records_ties && ties == CKPT_TIES_DROP)
        ties = CKPT_TIES_COPY;
    bool *drop = calloc(p->nentries + 1, sizeof *drop);
    writer->items = calloc(p->nentries + 1, sizeof *writer->items);
    ckpt_status st = drop && writer->items ? CKPT_OK : fail_memory(err);
    CKPT_THEN(st, ties_resolve(p, ties, drop, err));
    CKPT_THEN(st, collect_items(writer, drop, err));
    free(drop);
    CKPT_TRY(st);
    if (!keeps_values(writer)) {
        CKPT_TRY(check_collisions(writer, err));
        CKPT_TRY(drop_leaves(writer, err));
    }
    return check_not_empty(writer, err);
}

/* ------------------------------------------------------------------ bytes */

static struct copy_item get_copy_item(const void *user, size_t index)
{
    const struct flat_writer *w = user;
    const struct flat_item *x = &w->items[index];
    return (struct copy_item){.row = x->row,
                              .from = table_dtype_of(&w->p->file->table, x->row),
                              .to = plan_dtype(w->p, x->row),
                              .offset = w->data_start + x->begin,
                              .name = x->name};
}

ckpt_status flat_copy_items(const struct flat_writer *writer, sink *out, ckpt_error *err)
{
    const struct copy_job job = {.file = writer->p->file,
                                 .read_options = plan_stream_options(writer->p),
                                 .out = out,
                                 .n = writer->n,
                                 .get_item = get_copy_item,
                                 .user = writer,
                                 .crcs = writer->crcs,
                                 .tallies = writer->tallies,
                                 .nbytes = writer->nbytes,
                                 .options = writer->job->opts};
    return copy_items(&job, err);
}

/* rehearse_copy - for a dry run: checks checksums, overflow of casts, and the limit for expanded views. */
static ckpt_status rehearse_copy(const struct flat_writer *writer, ckpt_error *err)
{
    struct stream_options o = plan_stream_options(writer->p);
    for (size_t i = 0; i < writer->n; i++) {
        const ckpt_tensor t = flat_get_tensor(writer, &writer->items[i]);
        ckpt_status st = stream_check_limit(&writer->p->file->table, &t, err);
        if (st != CKPT_OK) {
            error_add_where(err, "%.*s", STR_ARG(writer->items[i].name));
            return st;
        }
        if (t.dtype == plan_dtype(writer->p, writer->items[i].row) && t.storage != CKPT_NO_STORAGE)
            CKPT_TRY(storage_check_crc(&writer->p->file->table, t.storage, &o, err));
    }
    return flat_copy_items(writer, NULL, err);
}

/* record_casts - records the casts for the report, in the order of the file. */
static ckpt_status record_casts(const struct flat_writer *writer, ckpt_error *err)
{
    size_t before = writer->p->report.ncasts;
    for (size_t i = 0; i < writer->n; i++) {
        const struct flat_item *x = &writer->items[i];
        const struct table *t = &writer->p->file->table;
        if (table_dtype_of(t, x->row) != plan_dtype(writer->p, x->row))
            CKPT_TRY(plan_note_cast(writer->p, x->name, x->row, table_elements_of(t, x->row),
                                    writer->tallies[i].overflowed, err));
    }
    return writer->job->opts->strict ? plan_check_lossless(writer->p, before, err) : CKPT_OK;
}

static ckpt_status put_output(struct flat_writer *writer, sink *out, ckpt_error *err)
{
    if (!writer->rules->size_unknown)
        CKPT_TRY(sink_reserve(out, writer->size, err));
    CKPT_TRY(writer->rules->put_contents(writer, out, err));
    CKPT_TRY(record_casts(writer, err));
    if (writer->job->has_index) /* then the writer of the shards checks once, after the last */
        return CKPT_OK;
    return file_check_unchanged(writer->p->file, err);
}

static ckpt_status write_output(struct flat_writer *writer, ckpt_error *err)
{
    sink *out;
    writer->tallies = writer->p->casts.to ? calloc(writer->n + 1, sizeof *writer->tallies) : NULL;
    writer->crcs = writer->rules->needs_crcs ? calloc(writer->n + 1, sizeof *writer->crcs) : NULL;
    if ((writer->p->casts.to && !writer->tallies) || (writer->rules->needs_crcs && !writer->crcs))
        return fail_memory(err);
    if (writer->job->opts->dry_run) {
        CKPT_TRY(rehearse_copy(writer, err));
        return record_casts(writer, err);
    }
    CKPT_TRY(plan_open_sink(writer->p, writer->job, &out, err));
    return sink_end(out, put_output(writer, out, err), err);
}

/* describe_output - adds the file to the layout of the job. */
static ckpt_status describe_output(const struct flat_writer *writer, ckpt_error *err)
{
    struct output_layout *layout = writer->job->layout;
    struct layout_file out = {.path = writer->job->path, .size = writer->size};
    ckpt_str header = {0};
    writer->rules->describe(writer, &header, &out.is_copy);
    CKPT_TRY(layout->put_header(layout, header, err));
    if (!out.is_copy) {
        out.items = calloc(writer->n + 1, sizeof *out.items);
        CKPT_TRY_ALLOC(out.items, err);
        out.n = writer->n;
    }
    for (size_t i = 0; i < out.n; i++) {
        const struct flat_item *x = &writer->items[i];
        out.items[i] = (struct layout_item){.name = x->name, .begin = x->begin, .row = x->row};
    }
    return layout->add_file(layout, &out, err);
}

static ckpt_status write_plan(struct flat_writer *writer, ckpt_error *err)
{
    const struct write_job *job = writer->job;
    CKPT_TRY(plan_update_entries(writer->p, err));
    arena_trim(writer->p->a);
    CKPT_TRY(choose_items(writer, err));
    CKPT_TRY(writer->rules->lay_out(writer, err));
    if (job->layout)
        CKPT_TRY(describe_output(writer, err));
    else if (!job->layout_only)
        CKPT_TRY(write_output(writer, err));
    if (job->path)
        CKPT_TRY(plan_note_output(writer->p, job->path, err));
    job->result->tensors += writer->n +
                            (writer->p->report.naliases - writer->first_alias); /* recorded ties count, too */
    job->result->bytes += writer->size;
    return CKPT_OK;
}

ckpt_status flat_write(struct flat_writer *writer, ckpt_error *err)
{
    writer->first_alias = writer->p->report.naliases;
    ckpt_status st = write_plan(writer, err);
    free(writer->items);
    free(writer->crcs);
    free(writer->tallies);
    return st;
}
