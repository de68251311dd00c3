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

static bool probe(const struct probe *this_probe) { return recognize_as(this_probe, SIGN_GGUF); }

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

/* take_split - if PAIR is a split.* pair, sets its field of READING. */
static void take_split(struct gguf_reading *reading, const struct gguf_pair *pair)
{
    uint64_t *field = str_is(pair->key, "split.no")              ? &reading->part_number
                      : str_is(pair->key, "split.count")         ? &reading->parts
                      : str_is(pair->key, "split.tensors.count") ? &reading->total_tensors
                                                                 : NULL;
    if (field)
        *field = gguf_get_integer(pair, reading->g.big_endian);
}

static ckpt_status add_value(struct gguf_reading *reading, const struct gguf_pair *pair, ckpt_error *err)
{
    ckpt_file *f = reading->f;
    ckpt_value *text, *typed, *key = value_str(f->a, pair->key);
    CKPT_TRY(gguf_read_value(&reading->g, pair, f->a, &text, &typed, err));
    if (!f->metadata) {
        f->metadata = value_new(f->a, CKPT_V_DICT, 0);
        f->metadata_values = value_new(f->a, CKPT_V_DICT, 0);
    }
    bool ok = key && f->metadata && value_put(f->a, f->metadata, key, text) && f->metadata_values &&
              value_put(f->a, f->metadata_values, key, typed);
    return ok ? CKPT_OK : fail_memory(err);
}

static ckpt_status take_pair(void *user, const struct gguf_pair *gguf_pair, ckpt_error *err)
{
    struct gguf_reading *r = user;
    struct gguf_file *kept = r->kept;
    struct gguf_pair pair = *gguf_pair;
    take_split(r, gguf_pair);
    if (r->is_later_part)
        return CKPT_OK;
    pair.bytes = NULL; /* those of GGUF_PAIR are valid in this call only */
    CKPT_TRY_ALLOC(arena_push(r->f->a, &kept->pairs, &kept->n, &kept->cap, &pair, sizeof pair), err);
    return add_value(r, gguf_pair, err);
}

static ckpt_status take_tensor(void *user, const struct gguf_tensor *tensor, ckpt_error *err)
{
    struct gguf_reading *r = user;
    return arena_push(r->f->a, &r->tensors, &r->n, &r->cap, tensor, sizeof *tensor) ? CKPT_OK
                                                                                    : fail_memory(err);
}

static ckpt_status add_tensor(struct kit *kit, const struct gguf *gguf, const struct gguf_tensor *tensor)
{
    uint64_t shape[GGUF_DIMENSIONS];
    struct kit_tensor x = {.name = tensor->name,
                           .t = {.dtype = (uint16_t)tensor->dtype, .ndim = tensor->ndim, .shape = shape},
                           .big_endian = gguf->big_endian,
                           .described_at = tensor->info_offset,
                           .src = gguf->src,
                           .src_offset = gguf->data_offset + tensor->offset,
                           .nbytes = KIT_AS_NEEDED};
    for (uint32_t i = 0; i < tensor->ndim; i++)
        shape[i] = tensor->dims[tensor->ndim - 1 - i];
    return kit_add_tensor(kit, &x);
}

/* note_deviations - adds a notice if ggml refuses the file READING, and one if bytes follow its tensors.
 * Fails if bytes follow the tensors of version 1: the data may have been laid out by other rules, and no
 * program writes such files any more. */
static ckpt_status note_deviations(struct gguf_reading *reading, ckpt_error *err)
{
    const struct gguf *g = &reading->g;
    uint64_t after = g->src->size > g->data_end ? g->src->size - g->data_end : 0;
    if (g->ggml_error.status)
        file_notice(reading->f, "ggml and llama.cpp refuse the file: %s", g->ggml_error.what);
    bool is_padding = reading->n == 0 && after < g->alignment;
    if (after && !is_padding)
        file_notice(reading->f, "%" PRIu64 " byte%s after the last tensor %s ignored", after,
                    after == 1 ? "" : "s", after == 1 ? "is" : "are");
    if (g->version > 1 || !after)
        return CKPT_OK;
    return fail(err, CKPT_EFORMAT, source_pos(g->src, g->data_end),
                "{%" PRIu64 " byte%s} after {=the last tensor} of version 1", after, after == 1 ? "" : "s");
}

static ckpt_status read_file(struct kit *kit, struct gguf_reading *reading, source *src)
{
    ckpt_file *f = reading->f;
    reading->g = (struct gguf){.src = src,
                               .a = f->a,
                               .max_header = f->limits.max_header,
                               .on_pair = take_pair,
                               .on_tensor = take_tensor,
                               .user = reading};
    file_raise_budget(f, src->size < f->limits.max_header ? src->size : f->limits.max_header);
    CKPT_TRY(gguf_read(&reading->g, kit->err));
    CKPT_TRY(note_deviations(reading, kit->err));
    for (size_t i = 0; i < reading->n; i++)
        CKPT_TRY(add_tensor(kit, &reading->g, &reading->tensors[i]));
    return CKPT_OK;
}

static ckpt_status check_part(const struct gguf_reading *first, const struct gguf_reading *reading,
                              uint64_t number, ckpt_error *err)
{
    if (reading->parts == first->parts && reading->part_number == number - 1 &&
        reading->total_tensors == first->total_tensors)
        return CKPT_OK;
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "is part {%" PRIu64 " of %" PRIu64 " with %" PRIu64 " tensors}, not {=%" PRIu64 " of %" PRIu64
                " with %" PRIu64 "}\n"
                "the files of two sets were mixed: get all parts of one set again",
                reading->part_number + 1, reading->parts, reading->total_tensors, number, first->parts,
                first->total_tensors);
}

/* read_part - reads the file NAME, part NUMBER of the set (from 1), and adds the number of its tensors to
 * *TENSORS. */
static ckpt_status read_part(struct kit *kit, const struct gguf_reading *first, uint64_t number,
                             ckpt_str name, uint64_t *tensors)
{
    struct gguf_reading r = {.f = kit->f, .is_later_part = true};
    ckpt_file *part;
    ckpt_status st = part_file_add(kit->f, name.ptr, name, &part, kit->err);
    if (st != CKPT_OK) {
        error_add_hint(kit->err, "the model has %" PRIu64 " parts: put all of them next to the first",
                       first->parts);
        return st;
    }
    st = read_file(kit, &r, part->src);
    CKPT_THEN(st, check_part(first, &r, number, kit->err));
    error_add_file(st == CKPT_OK ? NULL : kit->err, part->path);
    *tensors += r.n;
    return st;
}

/* report_name - reports that the part READING of a split model has not the name by which it is found. */
static ckpt_status report_name(const struct gguf_reading *reading, ckpt_error *err)
{
    reading->f->leaves_out = true;
    if (!reading->f->check)
        return CKPT_OK;
    (void)fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
               "part {%" PRIu64 "} of a split model is not called {=...-%05" PRIu64 "-of-%05" PRIu64
               ".gguf}\n"
               "rename it, so that loaders find all parts",
               reading->part_number + 1, reading->part_number + 1, reading->parts);
    return file_report_fault_as(reading->f, CHECK_MISSING_SHARD, CKPT_EFORMAT, err);
}

static ckpt_status read_parts(struct kit *kit, const struct gguf_reading *first)
{
    uint64_t tensors = first->n;
    ckpt_file *f = kit->f;
    struct shard_name name;
    if (first->parts > PARTS_MAX)
        return fail(kit->err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                    "split.count is {%" PRIu64 "}; at most {=%u} are read", first->parts, PARTS_MAX);
    if (!shard_name_parse(name_of(f), &name) || name.number != 1 || name.count != first->parts ||
        !str_is(name.ext, ".gguf")) {
        file_notice(f,
                    "part 1 of %" PRIu64 " of a split model, but not called ...-00001-of-%05" PRIu64
                    ".gguf: the other parts were not looked for",
                    first->parts, first->parts);
        return report_name(first, kit->err);
    }
    CKPT_TRY_ALLOC(part_file_set_folder(f), kit->err);
    for (uint64_t i = 2; i <= first->parts; i++) {
        ckpt_str part = shard_name_make(f->a, &name, i);
        ckpt_status st = part.ptr ? read_part(kit, first, i, part, &tensors) : fail_memory(kit->err);
        bool unreadable = f->salvage && (st == CKPT_EIO || st == CKPT_ENOTFOUND);
        CKPT_TRY(file_report_lost(f, unreadable ? CKPT_ETRUNCATED : st, part, kit->err));
    }
    if (tensors == first->total_tensors || f->salvage || f->check)
        return CKPT_OK;
    return fail(kit->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "the parts have {%" PRIu64 " tensors}, split.tensors.count is {=%" PRIu64 "}", tensors,
                first->total_tensors);
}

static ckpt_status read_split_model(struct kit *kit, struct gguf_file *kept)
{
    struct gguf_reading r = {.f = kit->f, .kept = kept};
    CKPT_TRY(read_file(kit, &r, kit->f->src));
    kept->header = r.g;
    if (r.parts > 1 && r.part_number == 0)
        return read_parts(kit, &r);
    if (r.parts <= 1)
        return CKPT_OK;
    file_notice(kit->f,
                "part %" PRIu64 " of %" PRIu64 " of a split model; name the first part to read them all",
                r.part_number + 1, r.parts);
    struct shard_name name;
    bool is_named = shard_name_parse(name_of(kit->f), &name) && name.number - 1 == r.part_number &&
                    name.count == r.parts;
    return is_named ? CKPT_OK : report_name(&r, kit->err);
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
