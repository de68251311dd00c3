/*
 * write.c - writes the same bytes as the official library for the same tensors.
 *
 * Its order (serialize in tensor.rs): dtype by alignment, which dtype.def has as st_rank, then name by its
 * bytes; compact JSON, __metadata__ first, fields dtype, shape, data_offsets; spaces up to a multiple of
 * eight. The library writes metadata in the order of a hash table, so only one key can be matched byte for
 * byte; here they have the order of the input, and new ones are sorted.
 *
 * `format` is written with any other metadata: transformers refuses a file whose metadata do not have it,
 * but reads one without metadata.
 *
 * Refused: tensors without bytes of their own, types without a name in the format, two tensors with the
 * same joined name, a tensor named __metadata__ (which the official writer accepts and its reader refuses),
 * names that are not UTF-8.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/store.h"
#include "base/text.h"
#include "base/utf8.h"
#include "codec/json_scan.h"
#include "core/copy_pool.h"
#include "core/dtype.h"
#include "format/safetensors/safetensors.h"
#include "format/ties.h"
#include "io/sink.h"

struct writer_item {
    ckpt_str name;
    uint32_t row;
    uint64_t begin; /* of the data, as written */
};

struct safetensors_writer {
    ckpt_plan *p;
    const struct write_job *job;
    const ckpt_write_options *opts; /* of JOB */
    struct writer_item *items;
    size_t n;
    struct convert_tally *tallies; /* by item; NULL where nothing is cast */
    uint64_t data;                 /* bytes of all tensors */
    struct plan_pair *meta;
    size_t nmeta;
    size_t aliases;    /* aliases in the plan before this file */
    buf header;        /* with length and padding; freed when it is written … */
    size_t header_len; /* … and its size */
};

static const ckpt_tensor *get_tensor(const struct safetensors_writer *w, uint32_t row)
{
    return &w->p->file->table.rows[row].t;
}

/* get_written_size - of X as it is written; assign_offsets() checked that they fit 64 bits. */
static uint64_t get_written_size(const struct safetensors_writer *w, const struct writer_item *x)
{
    uint64_t n = 0;
    (void)plan_nbytes(w->p, x->row, &n);
    return n;
}

/* ------------------------------------------------------- what can be held */

/* find_unfit_reason - why a row cannot be written; NULL: it can. */
static const char *find_unfit_reason(const ckpt_tensor *t)
{
    const struct dtype_info *d = dtype_info((ckpt_dtype)t->dtype);
    if (t->kind != CKPT_DENSE && t->kind != CKPT_NDARRAY)
        return "is not a plain tensor";
    if (!d->safetensors)
        return "has a type that safetensors lacks";
    if (!t->has_data || !t->has_shape)
        return "has no bytes";
    return d->st_last_mul > 1 && t->ndim == 0 ? "has no dimension to count its packed values in" : NULL;
}

static ckpt_status refuse_unfit(const struct safetensors_writer *w, const struct plan_entry *first,
                                size_t others, ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(w, first->row);
    char more[48] = "";
    if (others)
        (void)snprintf(more, sizeof more, ", and %zu others likewise", others);
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "safetensors cannot hold \"%.*s\" (%s, %s): it %s%s",
               STR_ARG(first->name), ckpt_kind_name((ckpt_kind)t->kind),
               t->dtype ? ckpt_tensor_dtype_name(t) : "no dtype", find_unfit_reason(t), more);
    char word[SHELL_WORD_MAX];
    fail_hint(err, "--drop %s leaves it out; a .pth output keeps it", shell_glob(first->name, word));
    return CKPT_ELOSSY;
}

/* drop_orphan - *IS: E is a component. If its composite is left out, it is reported as dropped, too. */
static ckpt_status drop_orphan(const struct safetensors_writer *w, const struct plan_entry *e, bool *is,
                               ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(w, e->row);
    *is = t->part_of != CKPT_NO_TENSOR;
    if (!*is || w->p->keep[t->part_of])
        return CKPT_OK;
    const ckpt_path_elem flat = {.str = e->name};
    const ckpt_leaf part = {.name = e->name, .path = &flat, .npath = 1};
    return plan_note_dropped(w->p, &part, "part of a tensor that is left out", err);
}

/* collect_items - the entries to write. Components follow their composite, which is refused first. */
static ckpt_status collect_items(struct safetensors_writer *w, const bool *drop, ckpt_error *err)
{
    const struct plan_entry *first = NULL;
    size_t others = 0;
    for (size_t i = 0; i < w->p->nentries; i++) {
        const struct plan_entry *e = &w->p->entries[i];
        bool part;
        if (drop[i])
            continue;
        CKPT_TRY(drop_orphan(w, e, &part, err));
        if (part)
            continue;
        if (!find_unfit_reason(get_tensor(w, e->row)))
            w->items[w->n++] = (struct writer_item){.name = e->name, .row = e->row};
        else if (first)
            others++;
        else
            first = e;
    }
    return first ? refuse_unfit(w, first, others, err) : CKPT_OK;
}

static ckpt_str make_path_text(struct safetensors_writer *w, const ckpt_tensor *t)
{
    buf b;
    buf_init(&b, 4096);
    for (uint32_t k = 0; k < t->npath; k++) {
        buf_byte(&b, '[');
        if (t->path[k].is_int)
            buf_printf(&b, "%lld", (long long)t->path[k].num);
        else
            json_quote(&b, t->path[k].str);
        buf_byte(&b, ']');
    }
    ckpt_str text = arena_str(w->p->a, buf_view(&b));
    buf_free(&b);
    return text.ptr ? text : str_of("", 0);
}

static ckpt_status fail_collision(struct safetensors_writer *w, const struct plan_entry *a,
                                  const struct plan_entry *b, ckpt_error *err)
{
    ckpt_str pa = make_path_text(w, get_tensor(w, a->row)), pb = make_path_text(w, get_tensor(w, b->row));
    (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "two tensors would both be called \"%.*s\": %.*s and %.*s",
               STR_ARG(a->name), STR_ARG(pa), STR_ARG(pb));
    fail_hint(err, "--root picks one of several mappings, ckpt rename changes one of the names");
    return CKPT_EEXIST;
}

/* check_collisions - among all entries, including ties, whose names are recorded. */
static ckpt_status check_collisions(struct safetensors_writer *w, ckpt_error *err)
{
    const ckpt_plan *p = w->p;
    map *seen = map_new(p->nentries);
    ckpt_status st = seen ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < p->nentries; i++) {
        uint32_t other;
        if (!map_put(seen, p->entries[i].name, (uint32_t)i, &other))
            st = fail_memory(err);
        else if (other != MAP_NONE)
            st = fail_collision(w, &p->entries[other], &p->entries[i], err);
    }
    map_free(seen);
    return st;
}

static ckpt_status check_names(struct safetensors_writer *w, ckpt_error *err)
{
    for (size_t i = 0; i < w->n; i++) {
        ckpt_str name = w->items[i].name;
        if (str_is(name, "__metadata__"))
            return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                        "a tensor is called __metadata__, which safetensors reserves");
        if (!utf8_check(name, false, NULL))
            return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                        "the name \"%.*s\" is not UTF-8, which safetensors requires", STR_ARG(name));
    }
    return CKPT_OK;
}

/* drop_leaves - the format has no place for values that are no tensors. */
static ckpt_status drop_leaves(struct safetensors_writer *w, ckpt_error *err)
{
    ckpt_plan *p = w->p;
    size_t before = p->ndropped;
    for (size_t i = 0; i < p->file->nleaves; i++) {
        const ckpt_leaf *leaf = &p->file->leaves[i];
        if (leaf->npath <= p->root_depth || !plan_below_root(p, leaf->path, leaf->npath))
            continue;
        CKPT_TRY(plan_note_dropped(p, leaf, "not a tensor", err));
    }
    if (p->ndropped == before || !w->opts->strict)
        return CKPT_OK;
    const ckpt_dropped *d = &p->dropped[before];
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
               "\"%.*s\" (%.*s) is not a tensor, nor are %zu others; safetensors holds tensors only",
               STR_ARG(d->name), STR_ARG(d->type), p->ndropped - before - 1);
    fail_hint(err, "without --strict they are left out and listed");
    return CKPT_ELOSSY;
}

static ckpt_status check_not_empty(const struct safetensors_writer *w, ckpt_error *err)
{
    if (w->n || (w->p->file->table.nrows == 0 && w->p->ndropped == 0 && w->p->file->root))
        return CKPT_OK;
    return plan_fail_no_tensors(err);
}

/* --------------------------------------------------------------- metadata */

static bool has_key(const struct safetensors_writer *w, ckpt_str key)
{
    for (size_t i = 0; i < w->nmeta; i++)
        if (str_eq(w->meta[i].key, key))
            return true;
    return false;
}

static bool is_not_tie(const struct plan_pair *x) { return !x->tie && ties_name(x->key); }

/* index_item_names - a map from name to item; NULL: no memory. */
static map *index_item_names(const struct safetensors_writer *w)
{
    map *names = map_new(w->n);
    bool ok = names != NULL;
    for (size_t i = 0; ok && i < w->n; i++)
        ok = map_put(names, w->items[i].name, (uint32_t)i, NULL);
    if (ok)
        return names;
    map_free(names);
    return NULL;
}

/* notice_accidental_ties - a notice for each of the first N texts that will be read as a tie, but was none:
 * it is the name of a tensor now, or its key no longer is. */
static ckpt_status notice_accidental_ties(const struct safetensors_writer *w, size_t n, ckpt_error *err)
{
    size_t i = 0;
    while (i < n && !is_not_tie(&w->meta[i]))
        i++;
    map *names = i < n ? index_item_names(w) : NULL;
    if (i < n && !names)
        return fail_memory(err);
    for (; i < n; i++) {
        const struct plan_pair *x = &w->meta[i];
        if (is_not_tie(x) && map_get(names, x->text) != MAP_NONE && map_get(names, x->key) == MAP_NONE)
            plan_notice(w->p, "the text \"%.*s\" of the metadata now reads as a second name of \"%.*s\"",
                        STR_ARG(x->key), STR_ARG(x->text));
    }
    map_free(names);
    return CKPT_OK;
}

/* make_metadata - the pairs of the input in their order; then new ties, and `format`. */
static ckpt_status make_metadata(struct safetensors_writer *w, ckpt_error *err)
{
    ckpt_plan *p = w->p;
    size_t added;
    CKPT_TRY(plan_metadata(p, &w->meta, &w->nmeta, err));
    CKPT_TRY(ties_metadata(p, w->aliases, &w->meta, &w->nmeta, &added, err));
    CKPT_TRY(notice_accidental_ties(w, added, err));
    if ((w->nmeta || !p->file->flat || p->file->for_torch_load) && !has_key(w, STR_LIT("format")))
        w->meta[w->nmeta++] = (struct plan_pair){.key = STR_LIT("format"), .text = STR_LIT("pt")};
    if (w->nmeta > added)
        qsort(w->meta + added, w->nmeta - added, sizeof *w->meta, ties_by_key);
    return CKPT_OK;
}

/* ----------------------------------------------------------------- layout */

/* qsort has no argument for the table, so the rank goes with the item. */
struct ranked {
    struct writer_item item;
    uint8_t rank;
};

static int compare_ranks(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;
    return a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank)
                              : str_compare(a->item.name, b->item.name);
}

static ckpt_status assign_offsets(struct safetensors_writer *w, ckpt_error *err)
{
    struct ranked *r = calloc(w->n + 1, sizeof *r);
    if (!r)
        return fail_memory(err);
    for (size_t i = 0; i < w->n; i++)
        r[i] = (struct ranked){w->items[i], dtype_info(plan_dtype(w->p, w->items[i].row))->st_rank};
    qsort(r, w->n, sizeof *r, compare_ranks);
    bool ok = true;
    for (size_t i = 0; ok && i < w->n; i++) {
        w->items[i] = r[i].item;
        w->items[i].begin = w->data;
        uint64_t nbytes;
        ok = plan_nbytes(w->p, w->items[i].row, &nbytes) && checked_add(w->data, nbytes, &w->data);
    }
    free(r);
    return ok ? CKPT_OK
              : fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                     "the tensors together have {more} than {=2^64 bytes}");
}

void safetensors_entry(buf *out, ckpt_str name, const ckpt_tensor *t, ckpt_dtype dtype, uint64_t begin,
                       uint64_t end)
{
    const struct dtype_info *d = dtype_info(dtype);
    json_quote(out, name);
    buf_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", d->safetensors);
    for (uint32_t k = 0; k < t->ndim; k++) {
        uint64_t size = t->shape[k]; /* doubled, a packed one still fits: its bytes do */
        if (k + 1 == t->ndim && !checked_mul(size, d->st_last_mul, &size))
            out->failed = true;
        buf_printf(out, k ? ",%llu" : "%llu", (unsigned long long)size);
    }
    buf_printf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin, (unsigned long long)end);
}

void safetensors_metadata(buf *out, const struct plan_pair *pairs, size_t n)
{
    buf_text(out, "\"__metadata__\":{");
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_byte(out, ',');
        json_quote(out, pairs[i].key);
        buf_byte(out, ':');
        json_quote(out, pairs[i].text);
    }
    buf_byte(out, '}');
}

static ckpt_status make_header(struct safetensors_writer *w, ckpt_error *err)
{
    buf *b = &w->header;
    buf_u64le(b, 0);
    buf_byte(b, '{');
    if (w->nmeta)
        safetensors_metadata(b, w->meta, w->nmeta);
    for (size_t i = 0; i < w->n; i++) {
        if (i || w->nmeta)
            buf_byte(b, ',');
        const struct writer_item *x = &w->items[i];
        safetensors_entry(b, x->name, get_tensor(w, x->row), plan_dtype(w->p, x->row), x->begin,
                          x->begin + get_written_size(w, x)); /* bounded: assign_offsets() added them */
    }
    buf_byte(b, '}');
    while (b->len % 8 && buf_ok(b))
        buf_byte(b, ' ');
    if (b->no_memory)
        return fail_memory(err);
    if (!buf_ok(b))
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "the header would have more than the %u bytes that the format allows",
                    SAFETENSORS_MAX_HEADER);
    size_t n = b->len - 8;
    w->header_len = b->len;
    store_u64le(b->data, n);
    if (n > SAFETENSORS_HUB_HEADER)
        plan_notice(w->p, "the header has %zu bytes; the Hugging Face Hub reads headers up to %u", n,
                    SAFETENSORS_HUB_HEADER);
    return CKPT_OK;
}

/* ------------------------------------------------------------------ bytes */

static struct copy_item get_copy_item(const void *user, size_t i)
{
    const struct safetensors_writer *w = user;
    const struct writer_item *x = &w->items[i];
    return (struct copy_item){.row = x->row,
                              .from = (ckpt_dtype)get_tensor(w, x->row)->dtype,
                              .to = plan_dtype(w->p, x->row),
                              .offset = w->header_len + x->begin, /* bounded: assign_offsets() */
                              .name = x->name};
}

/* copy_tensors - copies the tensors to OUT; NULL: only reads them. */
static ckpt_status copy_tensors(const struct safetensors_writer *w, sink *out, ckpt_error *err)
{
    const struct copy_job job = {.file = w->p->file,
                                 .reading = plan_stream_options(w->p),
                                 .out = out,
                                 .n = w->n,
                                 .item = get_copy_item,
                                 .user = w,
                                 .tallies = w->tallies,
                                 .nbytes = w->data,
                                 .options = w->opts};
    return copy_items(&job, err);
}

/* rehearse_copy - for a dry run: checks checksums, overflow of casts, and the limit of expanded views. */
static ckpt_status rehearse_copy(struct safetensors_writer *w, ckpt_error *err)
{
    struct stream_options o = plan_stream_options(w->p);
    for (size_t i = 0; i < w->n; i++) {
        const ckpt_tensor *t = get_tensor(w, w->items[i].row);
        ckpt_status st = stream_check_limit(&w->p->file->table, t, err);
        if (st != CKPT_OK) {
            fail_where(err, "%.*s", STR_ARG(w->items[i].name));
            return st;
        }
        if (t->dtype == plan_dtype(w->p, w->items[i].row) && t->storage != CKPT_NO_STORAGE)
            CKPT_TRY(storage_check_crc(&w->p->file->table, t->storage, &o, err));
    }
    return copy_tensors(w, NULL, err);
}

/* record_casts - records the casts for the report, in the order of the file. */
static ckpt_status record_casts(const struct safetensors_writer *w, ckpt_error *err)
{
    size_t before = w->p->ncasts;
    for (size_t i = 0; i < w->n; i++) {
        const struct writer_item *x = &w->items[i];
        const ckpt_tensor *t = get_tensor(w, x->row);
        if (t->dtype != plan_dtype(w->p, x->row))
            CKPT_TRY(plan_note_cast(w->p, x->name, x->row, t->elements, w->tallies[i].overflowed, err));
    }
    return w->opts->strict ? plan_check_lossless(w->p, before, err) : CKPT_OK;
}

/* is_copy - should names change, and none did? Then the file is copied byte for byte. */
static bool is_copy(const ckpt_plan *p)
{
    return p->renaming && !p->nrenames && !p->nedits && !p->cast && !p->root_depth && p->file->src &&
           p->file->format->write == safetensors_write && p->nentries == p->file->table.nrows;
}

static ckpt_status write_contents(struct safetensors_writer *w, sink *out, ckpt_error *err)
{
    uint64_t size;
    if (is_copy(w->p)) {
        CKPT_TRY(sink_reserve(out, w->p->file->src->size, err));
        return copy_file_tail(w->p->file, 0, out, w->opts, err);
    }
    CKPT_TRY(checked_add(w->header_len, w->data, &size)
                 ? sink_reserve(out, size, err)
                 : fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "more than 2^64 bytes"));
    CKPT_TRY(sink_write(out, w->header.data, w->header.len, err));
    buf_free(&w->header);
    CKPT_TRY(sink_skip(out, w->data, err));
    CKPT_TRY(copy_tensors(w, out, err));
    CKPT_TRY(record_casts(w, err));
    return file_unchanged(w->p->file, err);
}

static ckpt_status write_file(struct safetensors_writer *w, ckpt_error *err)
{
    sink *out;
    CKPT_TRY(plan_open_sink(w->p, w->job, &out, err));
    return sink_end(out, write_contents(w, out, err), err);
}

static ckpt_status write_output(struct safetensors_writer *w, ckpt_error *err)
{
    if (!w->opts->dry_run)
        return write_file(w, err);
    CKPT_TRY(rehearse_copy(w, err));
    return record_casts(w, err);
}

static ckpt_status prepare_header(struct safetensors_writer *w, ckpt_error *err)
{
    ckpt_plan *p = w->p;
    bool *drop = calloc(p->nentries + 1, sizeof *drop);
    w->items = calloc(p->nentries + 1, sizeof *w->items);
    w->aliases = p->naliases;
    ckpt_status st = drop && w->items ? ties_resolve(p, w->opts->ties, drop, err) : fail_memory(err);
    if (st == CKPT_OK)
        st = collect_items(w, drop, err);
    free(drop);
    CKPT_TRY(st);
    CKPT_TRY(check_collisions(w, err));
    CKPT_TRY(check_names(w, err));
    CKPT_TRY(drop_leaves(w, err));
    CKPT_TRY(check_not_empty(w, err));
    CKPT_TRY(make_metadata(w, err));
    CKPT_TRY(assign_offsets(w, err));
    w->tallies = p->cast ? calloc(w->n + 1, sizeof *w->tallies) : NULL;
    return p->cast && !w->tallies ? fail_memory(err) : make_header(w, err);
}

ckpt_status safetensors_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    struct safetensors_writer w = {.p = p, .job = job, .opts = job->opts};
    CKPT_TRY(plan_update_entries(p, err));
    arena_trim(p->a);
    buf_init(&w.header, SAFETENSORS_MAX_HEADER + 8);
    ckpt_status st = prepare_header(&w, err);
    if (st == CKPT_OK && !job->layout_only)
        st = write_output(&w, err);
    if (st == CKPT_OK && job->path)
        st = plan_note_output(p, job->path, err);
    if (st == CKPT_OK) {
        job->result->tensors += w.n + (p->naliases - w.aliases); /* recorded ties are rows, too */
        /* bounded: they were written */
        job->result->bytes += is_copy(p) ? p->file->src->size : w.header_len + w.data;
    }
    buf_free(&w.header);
    free(w.items);
    free(w.tallies);
    return st;
}
