/*
 * in_place.c - writes new names into a header of the old length, padded with the spaces that the format
 * allows after its JSON. The data stay where they are, and __metadata__ is unchanged except for the names
 * in recorded ties (plan_metadata).
 */
#include "base/utf8.h"
#include "format/safetensors/safetensors.h"

static ckpt_status check_name(ckpt_str name, map *seen, uint32_t index, ckpt_error *err)
{
    uint32_t before;
    if (str_is(name, "__metadata__") || !utf8_check(name, false, NULL))
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "\"%.*s\" is not a name that safetensors can hold",
                    STR_ARG(name));
    CKPT_TRY_ALLOC(map_put(seen, name, index, &before), err);
    return before == MAP_NONE ? CKPT_OK
                              : fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "two tensors would be called \"%.*s\"",
                                     STR_ARG(name));
}

static ckpt_status write_header(ckpt_plan *p, uint64_t data_offset, map *seen, buf *out, ckpt_error *err)
{
    const struct table *t = &p->file->table;
    struct plan_pair *pairs;
    size_t n;
    bool meta = p->file->metadata != NULL;
    buf_byte(out, '{');
    CKPT_TRY(plan_metadata(p, &pairs, &n, err));
    if (meta)
        safetensors_put_metadata(out, pairs, n);
    for (size_t i = 0; i < p->nentries; i++) {
        const ckpt_tensor x = table_tensor(t, p->entries[i].row);
        CKPT_TRY(check_name(p->entries[i].name, seen, (uint32_t)i, err));
        if (file_row_is_tie(p->file, p->entries[i].row))
            continue; /* the tie is in the metadata */
        if (i || meta)
            buf_byte(out, ',');
        /* the reader found that each storage begins after the header and ends in the file */
        uint64_t begin = t->storages[x.storage].off - data_offset, end = begin + x.nbytes;
        safetensors_put_entry(out, p->entries[i].name, &x, (ckpt_dtype)x.dtype, begin, end);
    }
    buf_byte(out, '}');
    return CKPT_OK;
}

/* The journal of safetensors_in_place has one patch: the entire header, whose length stays the same. */
bool safetensors_undoes(const ckpt_file *old, const ckpt_file *current, source *now,
                        const struct patches *undo)
{
    ckpt_error ignored;
    unsigned char length[8];
    return undo->n == 1 && undo->patch[0].offset == 8 && undo->new_size == undo->old_size &&
           source_read(now, 0, length, sizeof length, &ignored) == CKPT_OK &&
           undo->patch[0].bytes.len == load_u64le(length) &&
           (!current || table_same_places(&old->table, &current->table)); /* no edit moves the data */
}

ckpt_status safetensors_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err)
{
    unsigned char length[8];
    buf b;
    CKPT_TRY(source_read(p->file->src, 0, length, sizeof length, err));
    uint64_t room = load_u64le(length);
    map *seen = map_new(p->nentries);
    buf_init(&b, SAFETENSORS_MAX_HEADER * 2u);
    /* the reader saw the header inside the file */
    ckpt_status st = seen ? write_header(p, room + 8, seen, &b, err) : fail_memory(err);
    map_free(seen);
    if (st == CKPT_OK)
        st = safetensors_pad_header(&b, room, false, err);
    ckpt_str bytes = st == CKPT_OK ? arena_str(p->a, buf_view(&b)) : str_of(NULL, 0);
    buf_free(&b);
    CKPT_TRY(st);
    out->old_size = out->new_size = p->file->src->size;
    return bytes.ptr && patches_add(out, 8, bytes) ? CKPT_OK : fail_memory(err);
}
