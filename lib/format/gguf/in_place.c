/* in_place.c - edits names or pairs in the header of a GGUF and does not move its data: the new header must
 * end before the data, with less padding than the alignment. */
#include <inttypes.h>

#include "format/gguf/gguf.h"
#include "format/metadata.h"

#define FIXED_SIZE 16u /* magic, version and number of tensors, which stay the same */

static ckpt_status put_pairs(const struct gguf_file *edited, buf *out, ckpt_error *err)
{
    if (edited->header.big_endian || edited->header.version == 1)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "the file is {%s}; only {=little-endian files of version 2 or 3} are edited in place",
                    edited->header.big_endian ? "big-endian" : "of version 1");
    buf_u64le(out, edited->n);
    for (size_t i = 0; i < edited->n; i++)
        CKPT_TRY(gguf_put_pair(edited, &edited->pairs[i], out, err));
    return CKPT_OK;
}

/* pad_header - pads OUT, a header without its first FIXED_SIZE bytes, up to where the data of GGUF begin. */
static ckpt_status pad_header(const struct gguf_file *gguf, buf *out, ckpt_error *err)
{
    uint64_t end = FIXED_SIZE + (uint64_t)out->len, room = gguf->header.data_offset - FIXED_SIZE,
             filled = end;
    bool fits = (!gguf->header.ntensors || gguf_round_up(&filled, gguf->header.alignment)) &&
                filled == gguf->header.data_offset;
    if (buf_ok(out) && !fits)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "the new header has %" PRIu64 " bytes, the old one %" PRIu64
                    ": all data would have to move",
                    end, gguf->header.header_end);
    while (buf_ok(out) && out->len < room)
        buf_byte(out, 0);
    return buf_ok(out) ? CKPT_OK : fail_memory(err);
}

/* An edit in place replaces one range, which ends where the data begin, and moves no tensor. So does its
 * undo. */
bool gguf_undoes(const ckpt_file *old, const ckpt_file *current, source *now, const struct patches *undo)
{
    const struct gguf_file *gguf = old->container;
    (void)now;
    return undo->n == 1 && undo->patch[0].offset == FIXED_SIZE && undo->new_size == undo->old_size &&
           undo->patch[0].bytes.len == gguf->header.data_offset - FIXED_SIZE &&
           (!current || table_same_places(&old->table, &current->table));
}

static ckpt_status put_tensors(const ckpt_plan *p, const struct gguf_file *gguf, buf *out, ckpt_error *err)
{
    const struct table *t = &p->file->table;
    for (size_t i = 0; i < p->nentries; i++) {
        const struct plan_entry *e = &p->entries[i];
        const ckpt_tensor x = table_tensor(t, e->row);
        CKPT_TRY(gguf_check_name(e->name, &x, true, err));
        /* the reader found each storage after the header */
        gguf_put_tensor(out, e->name, &x, (ckpt_dtype)x.dtype,
                        t->storages[x.storage].off - gguf->header.data_offset);
    }
    return CKPT_OK;
}

ckpt_status gguf_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err)
{
    const struct gguf_file *gguf = p->file->container;
    buf b;
    if (p->file->nparts)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "the names are in {%zu files}; {=one} is edited in place", p->file->nparts + 1);
    buf_init(&b, SIZE_MAX / 2);
    ckpt_status st = put_pairs(gguf, &b, err);
    CKPT_THEN(st, put_tensors(p, gguf, &b, err));
    CKPT_THEN(st, pad_header(gguf, &b, err));
    ckpt_str bytes = st == CKPT_OK ? arena_str(p->a, buf_view(&b)) : str_of(NULL, 0);
    buf_free(&b);
    CKPT_TRY(st);
    out->old_size = out->new_size = p->file->src->size;
    return bytes.ptr && patches_add(out, FIXED_SIZE, bytes) ? CKPT_OK : fail_memory(err);
}

static const struct gguf_pair *find_pair(const struct gguf_file *gguf, ckpt_str key)
{
    for (size_t i = 0; i < gguf->n; i++)
        if (str_eq(gguf->pairs[i].key, key))
            return &gguf->pairs[i];
    return NULL;
}

/* make_pair - makes the next pair of EDITED from PAIR; the caller counts it. WAS is the pair with the key of
 * PAIR in the file; NULL: the file has none, and EDITED must not have one. */
static ckpt_status make_pair(ckpt_file *f, const ckpt_pair *pair, const struct gguf_pair *was,
                             struct gguf_file *edited, ckpt_error *err)
{
    ckpt_str key = pair->key;
    uint32_t type = was ? was->type : GGUF_STRING, element = was ? was->element_type : 0;
    CKPT_TRY(metadata_check_text(pair, err));
    if (!was)
        gguf_take_type(&key, &type, &element);
    if (key.len == 0 || key.len > GGUF_KEY_MAX)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a key of {%zu bytes}; {=1 to %u} are allowed", key.len,
                    GGUF_KEY_MAX);
    if (!was && find_pair(edited, key))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%.*s\" has a type already: leave out {:TYPE}",
                    STR_ARG(key));
    return gguf_make_pair(f->a, key, type, element, pair->text, &edited->pairs[edited->n], err);
}

/* edit_pair - adds PAIR to EDITED. A pair of the file with the same key and text stays unchanged; one with
 * the same key and a different text keeps its type. *NEXT is the pair of the file that is compared first. */
static ckpt_status edit_pair(ckpt_file *f, const ckpt_pair *pair, size_t *next, struct gguf_file *edited,
                             ckpt_error *err)
{
    const struct gguf_file *gguf = f->container;
    bool is_next = *next < gguf->n && str_eq(gguf->pairs[*next].key, pair->key);
    const struct gguf_pair *old_pair = is_next ? &gguf->pairs[*next] : find_pair(gguf, pair->key);
    ckpt_pair old;
    *next = old_pair ? (size_t)(old_pair - gguf->pairs) + 1 : *next;
    if (old_pair && ckpt_metadata_at(f, *next - 1, &old) && str_eq(old.text, pair->text))
        edited->pairs[edited->n] = *old_pair;
    else
        CKPT_TRY(make_pair(f, pair, old_pair, edited, err));
    edited->n++;
    return CKPT_OK;
}

/* set_alignment - sets the alignment of EDITED to that in its pairs, or to the default. */
static ckpt_status set_alignment(struct gguf_file *edited, ckpt_error *err)
{
    const struct gguf_pair *p = find_pair(edited, STR_LIT("general.alignment"));
    if (!p)
        edited->header.alignment = GGUF_ALIGNMENT;
    if (!p || !p->bytes) /* a pair without bytes is that of the file, unchanged */
        return CKPT_OK;
    uint64_t n = edited->header.alignment = p->type == GGUF_U32 ? gguf_get_integer(p, false) : 0;
    bool power = n && (n & (n - 1)) == 0;
    return power ? CKPT_OK
                 : fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                        "general.alignment is {%" PRIu64 "}, which is not {=a power of two}", n);
}

static ckpt_status edit_pairs(ckpt_file *f, const struct metadata_job *job, struct gguf_file *edited,
                              ckpt_error *err)
{
    size_t next = 0;
    *edited = *(const struct gguf_file *)f->container;
    edited->n = 0;
    edited->pairs = arena_array(f->a, job->n, sizeof *edited->pairs);
    CKPT_TRY_ALLOC(edited->pairs, err);
    for (size_t i = 0; i < job->n; i++)
        CKPT_TRY(edit_pair(f, &job->pairs[i], &next, edited, err));
    return set_alignment(edited, err);
}

/* make_header - makes the header for an edit in place: the pairs of EDITED, and the tensor infos as they
 * are. */
static ckpt_status make_header(const struct gguf_file *original, const struct gguf_file *edited, buf *out,
                               ckpt_error *err)
{
    uint64_t from = original->n ? original->pairs[original->n - 1].end_offset
                                : FIXED_SIZE + 8, /* 8: the number of pairs */
        n = original->header.header_end - from;
    CKPT_TRY(put_pairs(edited, out, err));
    unsigned char *infos = buf_extend(out, (size_t)n);
    CKPT_TRY(infos ? source_read(original->header.src, from, infos, (size_t)n, err) : fail_memory(err));
    return pad_header(edited, out, err);
}

/* write_copy - writes a copy of F with the pairs in f->container, and sets job->length. */
static ckpt_status write_copy(ckpt_file *f, struct metadata_job *job, ckpt_error *err)
{
    const struct gguf_file *gguf = f->container;
    ckpt_write_result result = {0};
    const struct write_job copy_job = {.path = job->path, .opts = job->opts, .result = &result};
    ckpt_plan *p;
    const char *notice;
    CKPT_TRY(ckpt_plan_new(f, &p, err));
    ckpt_status st = gguf_write(p, &copy_job, err);
    for (size_t i = 0; (notice = ckpt_plan_notice_at(p, i)); i++)
        file_notice(f, "%s", notice);
    ckpt_plan_free(p);
    job->length = result.bytes;
    for (size_t i = 0; st == CKPT_OK && i < f->table.nrows; i++) {
        uint64_t n = table_tensor(&f->table, i).nbytes;
        (void)gguf_round_up(&n, gguf->header.alignment);
        job->length -= n;
    }
    return st;
}

ckpt_status gguf_write_metadata(ckpt_file *f, struct metadata_job *job, ckpt_error *err)
{
    struct gguf_file edited, *original = f->container;
    CKPT_TRY(edit_pairs(f, job, &edited, err));
    buf_init(&job->header, SIZE_MAX / 2);
    if (!job->path) {
        job->at = FIXED_SIZE;
        if (edited.header.alignment != original->header.alignment)
            return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                        "another alignment: all data would have to move");
        CKPT_TRY(make_header(original, &edited, &job->header, err));
        job->length = FIXED_SIZE + job->header.len;
        return CKPT_OK;
    }
    f->container = &edited;
    ckpt_status st = write_copy(f, job, err);
    f->container = original;
    return st;
}
