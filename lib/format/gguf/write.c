/*
 * write.c - writes a plan as GGUF version 3, little-endian (codec/gguf.c has the layout): the pairs, then the
 * tensors in the order of the plan. Each tensor, also the last one, is padded to the alignment, because ggml
 * requires it.
 *
 * The pairs of a GGUF are written unchanged, but the split.* pairs are left out when parts are merged. The
 * metadata of another format become texts; then general.architecture, by which programs choose what to do
 * with a GGUF, must be given, or be in the metadata. Tensors keep their names and values, so a file of
 * another format does not become one that llama.cpp runs.
 *
 * A file of a set has split.no, split.count and split.tensors.count, and only the first has other pairs.
 *
 * Refused: types that ggml lacks; q8_1, because readers do not agree on its size; more than four dimensions,
 * and names that are too long for ggml or not UTF-8, unless the input is a GGUF that has them.
 */
#include <inttypes.h>

#include "base/utf8.h"
#include "format/flat_write.h"
#include "format/gguf/gguf.h"

#define ARCHITECTURE "general.architecture"

struct gguf_output {
    const struct gguf_file *input; /* NULL: the input is no GGUF */
    struct gguf_pair *pairs;
    size_t n;
    buf header; /* freed when it is written */
};

static const char *find_unfit_reason(const struct flat_writer *writer, const struct flat_item *item)
{
    const struct gguf_output *o = writer->user;
    uint32_t type, max_dims = o->input ? GGUF_DIMENSIONS : GGML_DIMENSIONS;
    if (!gguf_find_type(plan_dtype(writer->p, item->row), &type))
        return "has a type that GGUF lacks";
    if (plan_dtype(writer->p, item->row) == CKPT_DT_Q8_1)
        return "has blocks of 36 bytes for ggml and of 40 for gguf-py until 0.19";
    return flat_get_tensor(writer, item).ndim > max_dims ? "has more than four dimensions" : NULL;
}

ckpt_status gguf_check_name(ckpt_str name, const ckpt_tensor *tensor, bool from_gguf, ckpt_error *err)
{
    if (!from_gguf && !utf8_check(name, false, NULL))
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "the name \"%.*s\" is not UTF-8, which GGUF requires",
                    STR_ARG(name));
    if (name.len <= GGML_NAME_MAX || (from_gguf && tensor->name.len > GGML_NAME_MAX))
        return CKPT_OK;
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "the name \"%.*s\" has {%zu bytes}; ggml and llama.cpp read names of at most {=%u}\n"
                "`ckpt rename` or `ckpt strip` makes it shorter",
                STR_ARG(name), name.len, GGML_NAME_MAX);
}

static bool is_split_key(ckpt_str key)
{
    return str_is(key, "split.no") || str_is(key, "split.count") || str_is(key, "split.tensors.count");
}

static ckpt_status add_pair(struct flat_writer *writer, ckpt_str key, uint32_t type, ckpt_str text,
                            ckpt_error *err)
{
    struct gguf_output *o = writer->user;
    CKPT_TRY_ALLOC(text.ptr, err);
    return gguf_make_pair(writer->p->a, key, type, 0, text, &o->pairs[o->n++], err);
}

static ckpt_status add_number(struct flat_writer *writer, ckpt_str key, uint32_t type, uint64_t count,
                              ckpt_error *err)
{
    return add_pair(writer, key, type, arena_printf(writer->p->a, "%" PRIu64, count), err);
}

static ckpt_status add_split(struct flat_writer *writer, ckpt_error *err)
{
    const struct write_job *job = writer->job;
    CKPT_TRY(add_number(writer, STR_LIT("split.no"), GGUF_U16, job->shard.number, err));
    CKPT_TRY(add_number(writer, STR_LIT("split.count"), GGUF_U16, job->shard.count, err));
    return add_number(writer, STR_LIT("split.tensors.count"), GGUF_I32, job->shard.tensors, err);
}

static void add_input_pairs(struct flat_writer *writer)
{
    struct gguf_output *o = writer->user;
    bool drop_split_keys = writer->p->file->nparts || writer->job->shard.count;
    for (size_t i = 0; i < o->input->n; i++) {
        const struct gguf_pair *pair = &o->input->pairs[i];
        bool replaced = writer->job->opts->architecture && str_is(pair->key, ARCHITECTURE);
        if (replaced || (drop_split_keys && is_split_key(pair->key)))
            continue;
        o->pairs[o->n++] = *pair;
        if (writer->p->casts.to && str_is(pair->key, "general.file_type"))
            plan_notice(writer->p, "general.file_type is still that of the input; `ckpt meta` changes it");
    }
    if (o->input->header.big_endian)
        plan_notice(writer->p, "the input is big-endian, the output is little-endian");
}

/* add_texts - adds the metadata of the input, which is not a GGUF, except keys about its own format. */
static ckpt_status add_texts(struct flat_writer *writer, const struct plan_pair *meta, size_t count,
                             ckpt_error *err)
{
    bool is_given = writer->job->opts->architecture != NULL, has_architecture = is_given;
    for (size_t i = 0; i < count; i++) {
        const struct plan_pair *pair = &meta[i];
        bool fits = pair->key.len > 0 && pair->key.len <= GGUF_KEY_MAX;
        bool is_architecture = str_is(pair->key, ARCHITECTURE);
        bool is_about_format = is_split_key(pair->key) || str_is(pair->key, "general.alignment") ||
                               str_is(pair->key, "format");
        if (pair->tie || !fits || is_about_format || (is_architecture && is_given))
            continue;
        CKPT_TRY(add_pair(writer, pair->key, GGUF_STRING, pair->text, err));
        has_architecture = has_architecture || is_architecture;
    }
    return has_architecture
               ? CKPT_OK
               : fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                      "a GGUF needs {=" ARCHITECTURE "}, the input has {none}\n"
                      "`ckpt convert --architecture NAME` gives it; llama.cpp runs only what its own "
                      "converters wrote");
}

static ckpt_status make_pairs(struct flat_writer *writer, ckpt_error *err)
{
    struct gguf_output *o = writer->user;
    const char *name = writer->job->opts->architecture;
    struct plan_pair *meta = NULL;
    size_t n = 0;
    if (!o->input)
        CKPT_TRY(plan_metadata(writer->p, &meta, &n, err));
    size_t room = (o->input ? o->input->n : n) + 4;
    o->pairs = arena_array(writer->p->a, room, sizeof *o->pairs);
    CKPT_TRY_ALLOC(o->pairs, err);
    if (writer->job->shard.number)
        return add_split(writer, err);
    if (name)
        CKPT_TRY(add_pair(writer, STR_LIT(ARCHITECTURE), GGUF_STRING, str_c(name), err));
    if (o->input)
        add_input_pairs(writer);
    else
        CKPT_TRY(add_texts(writer, meta, n, err));
    return writer->job->shard.count ? add_split(writer, err) : CKPT_OK;
}

static ckpt_status make_header(struct flat_writer *writer, ckpt_error *err)
{
    struct gguf_output *o = writer->user;
    buf *b = &o->header;
    buf_put(b, "GGUF\3\0\0\0", 8);
    buf_u64le(b, writer->n);
    buf_u64le(b, o->n);
    for (size_t i = 0; i < o->n; i++)
        CKPT_TRY(gguf_put_pair(o->input, &o->pairs[i], b, err));
    for (size_t i = 0; i < writer->n; i++) {
        const struct flat_item *x = &writer->items[i];
        const ckpt_tensor t = flat_get_tensor(writer, x);
        gguf_put_tensor(b, x->name, &t, plan_dtype(writer->p, x->row), x->begin);
    }
    return buf_ok(b) ? CKPT_OK : fail_memory(err);
}

static ckpt_status lay_out(struct flat_writer *writer, ckpt_error *err)
{
    struct gguf_output *o = writer->user;
    bool has_pairs = o->input && !writer->job->shard.number;
    uint64_t alignment = has_pairs ? o->input->header.alignment : GGUF_ALIGNMENT;
    for (size_t i = 0; i < writer->n; i++) {
        const ckpt_tensor t = flat_get_tensor(writer, &writer->items[i]);
        CKPT_TRY(gguf_check_name(writer->items[i].name, &t, o->input != NULL, err));
        CKPT_TRY(flat_lay_out_item(writer, &writer->items[i], alignment, err));
    }
    CKPT_TRY(make_pairs(writer, err));
    CKPT_TRY(make_header(writer, err));
    writer->data_start = o->header.len;
    bool fits = gguf_round_up(&writer->nbytes, alignment) && gguf_round_up(&writer->data_start, alignment) &&
                checked_add(writer->data_start, writer->nbytes, &writer->size);
    return fits ? CKPT_OK : flat_fail_too_large(err);
}

static ckpt_status put_contents(struct flat_writer *writer, sink *out, ckpt_error *err)
{
    struct gguf_output *o = writer->user;
    uint64_t header = o->header.len;
    CKPT_TRY(sink_write(out, o->header.data, o->header.len, err));
    buf_free(&o->header);
    CKPT_TRY(sink_skip(out, writer->size - header, err));
    if (writer->size >
        header) /* so that the file has its size even if it ends in padding, which is skipped */
        CKPT_TRY(sink_patch(out, writer->size - 1, "", 1, err));
    return flat_copy_items(writer, out, err);
}

ckpt_status gguf_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    static const struct flat_rules rules = {.format_name = "GGUF",
                                            .contents_rule = "GGUF holds tensors and key-value pairs only",
                                            .float_dtype = "float32",
                                            .find_unfit_reason = find_unfit_reason,
                                            .lay_out = lay_out,
                                            .put_contents = put_contents};
    struct gguf_output o = {.input = p->file->format == &format_gguf ? p->file->container : NULL};
    struct flat_writer w = {.p = p, .job = job, .rules = &rules, .user = &o};
    buf_init(&o.header, SIZE_MAX / 2);
    ckpt_status st = flat_write(&w, err);
    buf_free(&o.header);
    return st;
}
