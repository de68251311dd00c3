/*
 * write.c - writes the same bytes as the official library for the same tensors.
 *
 * The library sorts tensors by the alignment of their dtype (safetensors_order in dtype.h), then by the bytes
 * of their names (serialize in tensor.rs). Its JSON is compact, begins with __metadata__, has the fields in
 * the order dtype, shape, data_offsets, and is padded with spaces to a multiple of eight. The library writes
 * metadata in the order of a hash table, so its bytes can be matched only if there is one pair; here, pairs
 * have the order of the input, and new pairs are sorted.
 *
 * The pair "format": "pt" is added if there are other pairs (transformers refuses metadata without "format",
 * but reads a file without metadata), or if the input is a file of torch or has nested names.
 *
 * Refused: tensors without bytes of their own, types without a name in the format, two tensors with the
 * same joined name, a tensor named __metadata__ (which the official writer accepts and its reader refuses),
 * names that are not UTF-8.
 */
#include <stdlib.h>

#include "base/store.h"
#include "base/utf8.h"
#include "codec/json_scan.h"
#include "format/flat_write.h"
#include "format/safetensors/safetensors.h"
#include "format/ties.h"

struct header {
    struct plan_pair *meta;
    size_t nmeta;
    buf bytes; /* with length and padding; freed when it is written */
};

static const char *find_unfit_reason(const struct flat_writer *writer, const struct flat_item *item)
{
    const struct dtype_info *d = dtype_info(plan_dtype(writer->p, item->row));
    if (!d->safetensors[0])
        return "has a type that safetensors lacks";
    return d->safetensors_dim_factor > 1 && flat_get_tensor(writer, item).ndim == 0
               ? "has no dimension to count its packed values in"
               : NULL;
}

static ckpt_status check_names(struct flat_writer *writer, ckpt_error *err)
{
    for (size_t i = 0; i < writer->n; i++) {
        ckpt_str name = writer->items[i].name;
        if (str_is(name, "__metadata__"))
            return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                        "a tensor is called __metadata__, which safetensors reserves");
        if (!utf8_check(name, false, NULL))
            return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                        "the name \"%.*s\" is not UTF-8, which safetensors requires", STR_ARG(name));
    }
    return CKPT_OK;
}

static bool has_key(const struct header *header, ckpt_str key)
{
    for (size_t i = 0; i < header->nmeta; i++)
        if (str_eq(header->meta[i].key, key))
            return true;
    return false;
}

static bool may_be_read_as_tie(const struct plan_pair *pair)
{
    return !pair->tie && ties_can_record_name(pair->key);
}

static map *index_item_names(const struct flat_writer *writer)
{
    map *names = map_new(writer->n);
    bool ok = names != NULL;
    for (size_t i = 0; ok && i < writer->n; i++)
        ok = map_put(names, writer->items[i].name, (uint32_t)i, NULL);
    if (ok)
        return names;
    map_free(names);
    return NULL;
}

/* notice_accidental_ties - adds a notice for each of the first COUNT pairs that will be read as a tie but was
 * none in the input, because names changed. */
static ckpt_status notice_accidental_ties(const struct flat_writer *writer, size_t count, ckpt_error *err)
{
    const struct plan_pair *meta = ((const struct header *)writer->user)->meta;
    size_t i = 0;
    while (i < count && !may_be_read_as_tie(&meta[i]))
        i++;
    map *names = i < count ? index_item_names(writer) : NULL;
    if (i < count && !names)
        return fail_memory(err);
    for (; i < count; i++) {
        const struct plan_pair *x = &meta[i];
        if (may_be_read_as_tie(x) && map_get(names, x->text) != MAP_NONE &&
            map_get(names, x->key) == MAP_NONE)
            plan_notice(writer->p, "the text \"%.*s\" of the metadata now reads as a second name of \"%.*s\"",
                        STR_ARG(x->key), STR_ARG(x->text));
    }
    map_free(names);
    return CKPT_OK;
}

/* make_metadata - makes the pairs of the header: those of the input in their order; then, sorted, new ties
 * and `format`. */
static ckpt_status make_metadata(struct flat_writer *writer, ckpt_error *err)
{
    struct header *h = writer->user;
    ckpt_plan *p = writer->p;
    size_t first_added;
    CKPT_TRY(plan_metadata(p, &h->meta, &h->nmeta, err));
    CKPT_TRY(ties_update_metadata(p, writer->first_alias, &h->meta, &h->nmeta, &first_added, err));
    CKPT_TRY(notice_accidental_ties(writer, first_added, err));
    if ((h->nmeta || !p->file->dots_are_literal || p->file->loading.by) && !has_key(h, STR_LIT("format")))
        h->meta[h->nmeta++] = (struct plan_pair){.key = STR_LIT("format"), .text = STR_LIT("pt")};
    if (h->nmeta > first_added)
        qsort(h->meta + first_added, h->nmeta - first_added, sizeof *h->meta, ties_compare_keys);
    return CKPT_OK;
}

/* An item with the rank of its dtype. compare_ranks cannot look the rank up: it gets only two items. */
struct ranked_item {
    struct flat_item item;
    uint8_t rank;
};

static int compare_ranks(const void *pa, const void *pb)
{
    const struct ranked_item *a = pa, *b = pb;
    return a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank)
                              : str_compare(a->item.name, b->item.name);
}

static ckpt_status assign_offsets(struct flat_writer *writer, ckpt_error *err)
{
    struct ranked_item *r = calloc(writer->n + 1, sizeof *r);
    CKPT_TRY_ALLOC(r, err);
    for (size_t i = 0; i < writer->n; i++)
        r[i] = (struct ranked_item){
            writer->items[i], dtype_info(plan_dtype(writer->p, writer->items[i].row))->safetensors_order};
    qsort(r, writer->n, sizeof *r, compare_ranks);
    ckpt_status st = CKPT_OK;
    for (size_t i = 0; st == CKPT_OK && i < writer->n; i++) {
        writer->items[i] = r[i].item;
        st = flat_lay_out_item(writer, &writer->items[i], 1, err);
    }
    free(r);
    return st;
}

void safetensors_put_entry(buf *out, ckpt_str name, const ckpt_tensor *tensor, ckpt_dtype dtype,
                           uint64_t begin, uint64_t end)
{
    const struct dtype_info *d = dtype_info(dtype);
    char begin_digits[STR_NUMBER_MAX], end_digits[STR_NUMBER_MAX], size_digits[STR_NUMBER_MAX];
    json_quote(out, name);
    BUF_PUT_TEXTS(out, STR_LIT(":{\"dtype\":\""), str_c(d->safetensors), STR_LIT("\",\"shape\":["));
    for (uint32_t k = 0; k < tensor->ndim; k++) {
        uint64_t size =
            tensor->shape[k]; /* of a packed dtype, the last size is written as a count of values */
        if (k + 1 == tensor->ndim && !checked_mul(size, d->safetensors_dim_factor, &size))
            out->failed = true;
        BUF_PUT_TEXTS(out, str_c(k ? "," : ""), format_number(size, size_digits));
    }
    BUF_PUT_TEXTS(out, STR_LIT("],\"data_offsets\":["), format_number(begin, begin_digits), STR_LIT(","),
                  format_number(end, end_digits), STR_LIT("]}"));
}

void safetensors_put_pair(buf *out, ckpt_str key, ckpt_str text, bool first)
{
    if (!first)
        buf_byte(out, ',');
    json_quote(out, key);
    buf_byte(out, ':');
    json_quote(out, text);
}

void safetensors_put_metadata(buf *out, const struct plan_pair *pairs, size_t count)
{
    buf_put_cstr(out, "\"__metadata__\":{");
    for (size_t i = 0; i < count; i++)
        safetensors_put_pair(out, pairs[i].key, pairs[i].text, i == 0);
    buf_byte(out, '}');
}

ckpt_status safetensors_pad_header(buf *out, uint64_t room, bool may_move, ckpt_error *err)
{
    if (buf_ok(out) && out->len > room && !may_move)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "the new header has %zu bytes, the old one %llu: all data would have to move", out->len,
                    (unsigned long long)room);
    while (buf_ok(out) && (out->len < room || (out->len > room && out->len % 8)))
        buf_byte(out, ' ');
    if (out->no_memory)
        return fail_memory(err);
    return buf_ok(out) ? CKPT_OK
                       : fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                              "the header would have more than the %u bytes that the format allows",
                              SAFETENSORS_MAX_HEADER);
}

static ckpt_status make_header(struct flat_writer *writer, ckpt_error *err)
{
    struct header *h = writer->user;
    buf *b = &h->bytes;
    buf_u64le(b, 0);
    buf_byte(b, '{');
    if (h->nmeta)
        safetensors_put_metadata(b, h->meta, h->nmeta);
    for (size_t i = 0; i < writer->n; i++) {
        const struct flat_item *x = &writer->items[i];
        const ckpt_tensor t = flat_get_tensor(writer, x);
        if (i || h->nmeta)
            buf_byte(b, ',');
        uint64_t end = x->begin + flat_item_nbytes(writer, x); /* flat_lay_out_item() added them */
        safetensors_put_entry(b, x->name, &t, plan_dtype(writer->p, x->row), x->begin, end);
    }
    buf_byte(b, '}');
    CKPT_TRY(safetensors_pad_header(b, 0, true, err));
    size_t n = b->len - 8;
    store_u64le(b->data, n);
    if (n > SAFETENSORS_HUB_HEADER)
        plan_notice(writer->p, "the header has %zu bytes; the Hugging Face Hub reads headers up to %u", n,
                    SAFETENSORS_HUB_HEADER);
    return CKPT_OK;
}

/* is_byte_copy - returns true if the file is copied byte for byte: the plan is to rename, but neither a name
 * nor anything else changes. */
static bool is_byte_copy(const ckpt_plan *p)
{
    return p->renaming && !p->renames.n && !p->edits.n && !p->casts.to && !p->root_depth && p->file->src &&
           !p->file->rows_changed && p->file->format->write == safetensors_write &&
           p->nentries == p->file->table.nrows;
}

static ckpt_status lay_out(struct flat_writer *writer, ckpt_error *err)
{
    struct header *h = writer->user;
    CKPT_TRY(check_names(writer, err));
    CKPT_TRY(make_metadata(writer, err));
    CKPT_TRY(assign_offsets(writer, err));
    CKPT_TRY(make_header(writer, err));
    writer->data_start = h->bytes.len;
    writer->size = writer->p->file->src ? writer->p->file->src->size : 0;
    bool fits = is_byte_copy(writer->p) || checked_add(writer->data_start, writer->nbytes, &writer->size);
    return fits ? CKPT_OK : flat_fail_too_large(err);
}

static ckpt_status put_contents(struct flat_writer *writer, sink *out, ckpt_error *err)
{
    struct header *h = writer->user;
    if (is_byte_copy(writer->p))
        return copy_file_tail(writer->p->file, 0, out, writer->job->opts, err);
    CKPT_TRY(sink_write(out, h->bytes.data, h->bytes.len, err));
    buf_free(&h->bytes);
    CKPT_TRY(sink_skip(out, writer->nbytes, err));
    return flat_copy_items(writer, out, err);
}

static void describe(const struct flat_writer *writer, ckpt_str *header, bool *is_copy)
{
    const struct header *h = writer->user;
    *is_copy = is_byte_copy(writer->p);
    if (!*is_copy)
        *header = buf_view(&h->bytes);
}

ckpt_status safetensors_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    static const struct flat_rules rules = {.format_name = "safetensors",
                                            .contents_rule = "safetensors holds tensors only",
                                            .records_ties = true,
                                            .find_unfit_reason = find_unfit_reason,
                                            .lay_out = lay_out,
                                            .put_contents = put_contents,
                                            .describe = describe};
    struct header h = {0};
    struct flat_writer w = {.p = p, .job = job, .rules = &rules, .user = &h};
    buf_init(&h.bytes, SAFETENSORS_MAX_HEADER + 8);
    ckpt_status st = flat_write(&w, err);
    buf_free(&h.bytes);
    return st;
}
