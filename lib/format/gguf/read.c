/*
 * read.c - reads GGUF (codec/gguf.c has the layout): its tensors, and its key-value pairs as the metadata of
 * the file. Dimensions are stored innermost first; they are reversed here, to the order of torch.
 *
 * A split model is a set of files PREFIX-00001-of-00003.gguf …, each a GGUF of its own with the pairs
 * split.no (from 0), split.count and split.tensors.count; all other pairs are in the first (llama.cpp,
 * gguf-split.cpp). Opening the first part opens the whole set; any other part is opened alone.
 *
 * Refused: what codec/gguf.c refuses; a part that is missing, or whose pairs are of a different set or part
 * number; a number of tensors that is not split.tensors.count; version 1 with bytes after the last tensor.
 * What ggml refuses but can be read is reported by a notice.
 */
#include <inttypes.h>

#include "core/check.h"
#include "format/files/checkpoint_names.h"
#include "format/files/path.h"
#include "format/gguf/gguf.h"
#include "format/parts/part_files.h"
#include "format/recognize.h"
#include "format/registry.h"

#define PARTS_MAX 10000u

static bool probe(const struct probe *p) { return recognize_as(p, SIGN_GGUF); }

/* A file that is being read; of a split model, one part. */
struct gguf_reading {
    ckpt_file *f;
    struct gguf g;
    struct gguf_file *kept; /* what edits need later */
    struct gguf_tensor *tensors;
    size_t n, cap;
    bool is_later_part;                         /* not the first: its pairs are not metadata of the model */
    uint64_t part_number, parts, total_tensors; /* split.no, split.count, split.tensors.count */
};

/* take_split - if P is a split.* pair, sets its field of R. */
static void take_split(struct gguf_reading *r, const struct gguf_pair *p)
{
    uint64_t *field = str_is(p->key, "split.no")              ? &r->part_number
                      : str_is(p->key, "split.count")         ? &r->parts
                      : str_is(p->key, "split.tensors.count") ? &r->total_tensors
                                                              : NULL;
    if (field)
        *field = gguf_get_integer(p, r->g.big_endian);
}

static ckpt_status add_value(struct gguf_reading *r, const struct gguf_pair *p, ckpt_error *err)
{
    ckpt_file *f = r->f;
    ckpt_value *text, *typed, *key = value_str(f->a, p->key);
    CKPT_TRY(gguf_read_value(&r->g, p, f->a, &text, &typed, err));
    if (!f->metadata) {
        f->metadata = value_new(f->a, CKPT_V_DICT, 0);
        f->metadata_values = value_new(f->a, CKPT_V_DICT, 0);
    }
    bool ok = key && f->metadata && value_put(f->a, f->metadata, key, text) && f->metadata_values &&
              value_put(f->a, f->metadata_values, key, typed);
    return ok ? CKPT_OK : fail_memory(err);
}

static ckpt_status take_pair(void *user, const struct gguf_pair *p, ckpt_error *err)
{
    struct gguf_reading *r = user;
    struct gguf_file *kept = r->kept;
    struct gguf_pair pair = *p;
    take_split(r, p);
    if (r->is_later_part)
        return CKPT_OK;
    pair.bytes = NULL; /* those of P are valid in this call only */
    CKPT_TRY_ALLOC(arena_push(r->f->a, &kept->pairs, &kept->n, &kept->cap, &pair, sizeof pair), err);
    return add_value(r, p, err);
}

static ckpt_status take_tensor(void *user, const struct gguf_tensor *t, ckpt_error *err)
{
    struct gguf_reading *r = user;
    return arena_push(r->f->a, &r->tensors, &r->n, &r->cap, t, sizeof *t) ? CKPT_OK : fail_memory(err);
}

static ckpt_status add_tensor(struct kit *k, const struct gguf *g, const struct gguf_tensor *t)
{
    uint64_t shape[GGUF_DIMENSIONS];
    struct kit_tensor x = {.name = t->name,
                           .t = {.dtype = (uint16_t)t->dtype, .ndim = t->ndim, .shape = shape},
                           .big_endian = g->big_endian,
                           .described_at = t->info_offset,
                           .src = g->src,
                           .src_offset = g->data_offset + t->offset,
                           .nbytes = KIT_AS_NEEDED};
    for (uint32_t i = 0; i < t->ndim; i++)
        shape[i] = t->dims[t->ndim - 1 - i];
    return kit_add_tensor(k, &x);
}

/* note_deviations - adds a notice if ggml refuses the file R, and one if bytes follow its tensors. Fails if
 * bytes follow the tensors of version 1: the data may have been laid out by other rules, and no program
 * writes such files any more. */
static ckpt_status note_deviations(struct gguf_reading *r, ckpt_error *err)
{
    const struct gguf *g = &r->g;
    uint64_t after = g->src->size > g->data_end ? g->src->size - g->data_end : 0;
    if (g->ggml_error.status)
        file_notice(r->f, "ggml and llama.cpp refuse the file: %s", g->ggml_error.what);
    bool is_padding = r->n == 0 && after < g->alignment;
    if (after && !is_padding)
        file_notice(r->f, "%" PRIu64 " byte%s after the last tensor %s ignored", after, after == 1 ? "" : "s",
                    after == 1 ? "is" : "are");
    if (g->version > 1 || !after)
        return CKPT_OK;
    return fail(err, CKPT_EFORMAT, source_pos(g->src, g->data_end),
                "{%" PRIu64 " byte%s} after {=the last tensor} of version 1", after, after == 1 ? "" : "s");
}

static ckpt_status read_file(struct kit *k, struct gguf_reading *r, source *src)
{
    ckpt_file *f = r->f;
    r->g = (struct gguf){.src = src,
                         .a = f->a,
                         .max_header = f->limits.max_header,
                         .on_pair = take_pair,
                         .on_tensor = take_tensor,
                         .user = r};
    file_raise_budget(f, src->size < f->limits.max_header ? src->size : f->limits.max_header);
    CKPT_TRY(gguf_read(&r->g, k->err));
    CKPT_TRY(note_deviations(r, k->err));
    for (size_t i = 0; i < r->n; i++)
        CKPT_TRY(add_tensor(k, &r->g, &r->tensors[i]));
    return CKPT_OK;
}

static ckpt_status check_part(const struct gguf_reading *first, const struct gguf_reading *r, uint64_t number,
                              ckpt_error *err)
{
    if (r->parts == first->parts && r->part_number == number - 1 && r->total_tensors == first->total_tensors)
        return CKPT_OK;
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "is part {%" PRIu64 " of %" PRIu64 " with %" PRIu64 " tensors}, not {=%" PRIu64 " of %" PRIu64
                " with %" PRIu64 "}\n"
                "the files of two sets were mixed: get all parts of one set again",
                r->part_number + 1, r->parts, r->total_tensors, number, first->parts, first->total_tensors);
}

/* read_part - reads the file NAME, part NUMBER of the set (from 1), and adds the number of its tensors to
 * *TENSORS. */
static ckpt_status read_part(struct kit *k, const struct gguf_reading *first, uint64_t number, ckpt_str name,
                             uint64_t *tensors)
{
    struct gguf_reading r = {.f = k->f, .is_later_part = true};
    ckpt_file *part;
    ckpt_status st = part_file_add(k->f, name.ptr, name, &part, k->err);
    if (st != CKPT_OK) {
        error_add_hint(k->err, "the model has %" PRIu64 " parts: put all of them next to the first",
                       first->parts);
        return st;
    }
    st = read_file(k, &r, part->src);
    if (st == CKPT_OK)
        st = check_part(first, &r, number, k->err);
    error_add_file(st == CKPT_OK ? NULL : k->err, part->path);
    *tensors += r.n;
    return st;
}

/* report_name - reports that the part R of a split model has not the name by which it is found. */
static ckpt_status report_name(const struct gguf_reading *r, ckpt_error *err)
{
    r->f->leaves_out = true;
    if (!r->f->check)
        return CKPT_OK;
    (void)fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
               "part {%" PRIu64 "} of a split model is not called {=...-%05" PRIu64 "-of-%05" PRIu64
               ".gguf}\n"
               "rename it, so that loaders find all parts",
               r->part_number + 1, r->part_number + 1, r->parts);
    return file_report_fault_as(r->f, CHECK_MISSING_SHARD, CKPT_EFORMAT, err);
}

static ckpt_status read_parts(struct kit *k, const struct gguf_reading *first)
{
    uint64_t tensors = first->n;
    ckpt_file *f = k->f;
    struct shard_name name;
    if (first->parts > PARTS_MAX)
        return fail(k->err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                    "split.count is {%" PRIu64 "}; at most {=%u} are read", first->parts, PARTS_MAX);
    if (!shard_name_parse(name_of(f), &name) || name.number != 1 || name.count != first->parts ||
        !str_is(name.ext, ".gguf")) {
        file_notice(f,
                    "part 1 of %" PRIu64 " of a split model, but not called ...-00001-of-%05" PRIu64
                    ".gguf: the other parts were not looked for",
                    first->parts, first->parts);
        return report_name(first, k->err);
    }
    CKPT_TRY_ALLOC(part_file_set_folder(f), k->err);
    for (uint64_t i = 2; i <= first->parts; i++) {
        ckpt_str part = shard_name_make(f->a, &name, i);
        ckpt_status st = part.ptr ? read_part(k, first, i, part, &tensors) : fail_memory(k->err);
        bool unreadable = f->salvage && (st == CKPT_EIO || st == CKPT_ENOTFOUND);
        CKPT_TRY(file_report_lost(f, unreadable ? CKPT_ETRUNCATED : st, part, k->err));
    }
    if (tensors == first->total_tensors || f->salvage || f->check)
        return CKPT_OK;
    return fail(k->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "the parts have {%" PRIu64 " tensors}, split.tensors.count is {=%" PRIu64 "}", tensors,
                first->total_tensors);
}

static ckpt_status read_split_model(struct kit *k, struct gguf_file *kept)
{
    struct gguf_reading r = {.f = k->f, .kept = kept};
    CKPT_TRY(read_file(k, &r, k->f->src));
    kept->header = r.g;
    if (r.parts > 1 && r.part_number == 0)
        return read_parts(k, &r);
    if (r.parts <= 1)
        return CKPT_OK;
    file_notice(k->f,
                "part %" PRIu64 " of %" PRIu64 " of a split model; name the first part to read them all",
                r.part_number + 1, r.parts);
    struct shard_name name;
    bool is_named = shard_name_parse(name_of(k->f), &name) && name.number - 1 == r.part_number &&
                    name.count == r.parts;
    return is_named ? CKPT_OK : report_name(&r, k->err);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct kit k;
    struct gguf_file *kept = arena_array(f->a, 1, sizeof *kept);
    CKPT_TRY_ALLOC(kept, err);
    format_set_container(f, kept, NULL);
    CKPT_TRY(kit_begin(&k, f, value_new(f->a, CKPT_V_DICT, 0), err));
    ckpt_status st = kit_end(&k, read_split_model(&k, kept));
    if (st != CKPT_OK && !err->file[0])
        error_add_position(err, 0, STR_LIT("header"));
    return st;
}

const struct format format_gguf = {.name = "gguf",
                                   .title = "GGUF",
                                   .suffixes = ".gguf",
                                   .flat = true,
                                   .probe = probe,
                                   .read = read,
                                   .write = gguf_write,
                                   .in_place = gguf_in_place,
                                   .undoes = gguf_undoes,
                                   .write_metadata = gguf_write_metadata};
