/*
 * safetensors_in_place.c - new names in a header of the old length, filled up with
 * the spaces that the format allows behind its JSON. The data stay where they are.
 *
 * __metadata__ stays but for what it says about ties: {"name": "other name"}, where
 * the other name is that of a tensor (transformers and we write that for a shared
 * tensor, of which the file holds one). The other name follows the tensor, the name
 * itself gets the prefix that the tensor got, or loses the one it lost.
 */
#include "base/buf.h"
#include "base/cursor.h"
#include "base/utf8.h"
#include "codec/json_scan.h"
#include "format/safetensors.h"

static size_t common_end(ckpt_str a, ckpt_str b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && a.ptr[a.len - 1 - n] == b.ptr[b.len - 1 - n])
        n++;
    return n;
}

/* follow - *NAME changed at its front as FROM became TO; false: it does not begin so. */
static bool follow(arena *a, ckpt_str from, ckpt_str to, ckpt_str *name)
{
    size_t same = common_end(from, to);
    ckpt_str lost = str_of(from.ptr, from.len - same), got = str_of(to.ptr, to.len - same);
    if (!str_starts(*name, lost))
        return false;
    buf b;
    buf_init(&b, SIZE_MAX / 2);
    buf_str(&b, got);
    buf_str(&b, str_skip(*name, lost.len));
    *name = arena_str(a, buf_view(&b));
    buf_free(&b);
    return name->ptr != NULL;
}

/* put_pair - one pair of __metadata__; TO_OF: old name -> entry of the plan. */
static ckpt_status put_pair(ckpt_plan *p, const map *old, ckpt_str key, ckpt_str text, buf *out,
                            ckpt_error *err)
{
    uint32_t i = map_get(old, text);
    if (i != MAP_NONE && !str_eq(p->entries[i].name, text)) {
        if (!follow(p->a, text, p->entries[i].name, &key)) {
            (void)fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                       "__metadata__ calls \"%.*s\" another name of \"%.*s\"; what that becomes is not clear",
                       STR_ARG(key), STR_ARG(text));
            return CKPT_EUNSUPPORTED;
        }
        text = p->entries[i].name;
    }
    json_quote(out, key);
    buf_byte(out, ':');
    json_quote(out, text);
    return CKPT_OK;
}

static ckpt_status put_metadata(ckpt_plan *p, const map *old, buf *out, ckpt_error *err)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(p->file->metadata, &n);
    buf_text(out, "\"__metadata__\":{");
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str key, text;
        if (!value_text(pairs[i].key, &key) || !value_text(pairs[i].val, &text))
            continue;
        if (i)
            buf_byte(out, ',');
        CKPT_TRY(put_pair(p, old, key, text, out, err));
    }
    buf_byte(out, '}');
    return CKPT_OK;
}

static ckpt_status check_name(ckpt_str name, map *seen, uint32_t i, ckpt_error *err)
{
    uint32_t before;
    if (str_is(name, "__metadata__") || !utf8_check(name, false, NULL))
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "\"%.*s\" is no name that safetensors can hold",
                    STR_ARG(name));
    if (!map_put(seen, name, i, &before))
        return fail_memory(err);
    return before == MAP_NONE ? CKPT_OK
                              : fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "two tensors would be called \"%.*s\"",
                                     STR_ARG(name));
}

static ckpt_status put_header(ckpt_plan *p, uint64_t data, map *old, map *seen, buf *out, ckpt_error *err)
{
    const struct table *t = &p->file->table;
    bool meta = p->file->metadata != NULL;
    for (size_t i = 0; i < p->nentries; i++)
        if (!map_put(old, t->rows[p->entries[i].row].t.name, (uint32_t)i, NULL))
            return fail_memory(err);
    buf_byte(out, '{');
    if (meta)
        CKPT_TRY(put_metadata(p, old, out, err));
    for (size_t i = 0; i < p->nentries; i++) {
        const ckpt_tensor *x = &t->rows[p->entries[i].row].t;
        CKPT_TRY(check_name(p->entries[i].name, seen, (uint32_t)i, err));
        if (i || meta)
            buf_byte(out, ',');
        /* bounded: the reader saw each storage behind the header */
        safetensors_entry(out, p->entries[i].name, x, t->storages[x->storage].off - data);
    }
    buf_byte(out, '}');
    return CKPT_OK;
}

static ckpt_status pad(buf *b, uint64_t room, ckpt_error *err)
{
    if (buf_ok(b) && b->len > room)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "the new header has %zu bytes, the old one %llu: all data would have to move", b->len,
                    (unsigned long long)room);
    while (b->len < room && buf_ok(b))
        buf_byte(b, ' ');
    return buf_ok(b) ? CKPT_OK : fail_memory(err);
}

ckpt_status safetensors_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err)
{
    unsigned char length[8];
    buf b;
    CKPT_TRY(source_read(p->file->src, 0, length, sizeof length, err));
    uint64_t room = load_u64le(length);
    map *old = map_new(p->nentries), *seen = map_new(p->nentries);
    buf_init(&b, SAFETENSORS_MAX_HEADER * 2u);
    /* bounded: the reader saw the header inside the file */
    ckpt_status st = old && seen ? put_header(p, room + 8, old, seen, &b, err) : fail_memory(err);
    map_free(old);
    map_free(seen);
    if (st == CKPT_OK)
        st = pad(&b, room, err);
    ckpt_str bytes = st == CKPT_OK ? arena_str(p->a, buf_view(&b)) : str_of(NULL, 0);
    buf_free(&b);
    CKPT_TRY(st);
    out->old_size = out->new_size = p->file->src->size;
    return bytes.ptr && patches_add(out, 8, bytes) ? CKPT_OK : fail_memory(err);
}
