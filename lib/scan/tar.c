/*
 * tar.c - scans the members of a tar. In an archive of torch 0.1 (layout in format/torch/tar.c), "storages"
 * and "tensors" are pickles with numbers between them, whose lengths are in the pickles.
 */
#include "codec/pickle_read.h"
#include "format/torch/tar.h"
#include "scan/scan.h"

struct torch_member {
    const struct scanned *in;
    arena *a; /* for values of pickles, from which lengths are read */
    uint64_t pos;
    ckpt_error *err;
};

/* scan_next_pickle - scans the pickle at member->pos, and sets *VALUE to its value; NULL: it cannot be
 * read. */
static ckpt_status scan_next_pickle(struct torch_member *member, ckpt_value **value)
{
    uint64_t at = member->pos, next;
    bool stopped;
    ckpt_error why;
    *value = NULL;
    CKPT_TRY(scan_one_pickle(member->in, &member->pos, &stopped, member->err));
    ckpt_status st = stopped ? pickle_read(member->a, member->in->src, at, member->in->src->size, NULL, value,
                                           &next, &why)
                             : CKPT_OK;
    *value = st == CKPT_OK ? *value : NULL;
    if (st != CKPT_ENOMEM || !arena_full(member->a))
        (void)scan_note_system_failure(member->in->x->scan, st, &why);
    return CKPT_OK;
}

/* skip_numbers - skips the numbers after the pickle with the value VALUE. False: they are not complete. */
static bool skip_numbers(struct torch_member *member, const ckpt_value *value, bool is_tensor)
{
    struct torch_tar_numbers n = {.offset = 0};
    ckpt_error why;
    ckpt_status st = value ? torch_tar_read_numbers(member->in->src, value, is_tensor, member->pos, &n, &why)
                           : CKPT_EFORMAT;
    (void)scan_note_system_failure(member->in->x->scan, st, &why);
    if (n.offset)
        member->pos = n.offset + n.nbytes;
    return st == CKPT_OK;
}

/* scan_pickles_and_numbers - scans the member "tensors" or "storages": a count, then as many pickles, each
 * followed by numbers; in "storages", one more pickle. */
static ckpt_status scan_pickles_and_numbers(struct torch_member *member, bool is_tensor,
                                            uint64_t *known_bytes)
{
    ckpt_value *v;
    int64_t n = 0;
    CKPT_TRY(scan_next_pickle(member, &v));
    bool ok = v && value_integer(v, &n) && n >= 0;
    for (int64_t i = 0; ok && i < n; i++) {
        CKPT_TRY(scan_next_pickle(member, &v));
        ok = skip_numbers(member, v, is_tensor);
    }
    if (ok && !is_tensor)
        CKPT_TRY(scan_next_pickle(member, &v));
    if (ok && member->pos == member->in->src->size) {
        *known_bytes += member->in->src->size; /* the sum is at most the size of the file */
        return CKPT_OK;
    }
    return SCAN_FOUND(member->in, SCAN_MALFORMED,
                      member->pos < member->in->src->size ? member->pos : member->in->src->size,
                      "no tensors of torch 0.1 from here on");
}

static ckpt_status scan_torch_member(const struct scanned *in, bool is_tensor, uint64_t *known_bytes,
                                     ckpt_error *err)
{
    struct torch_member m = {.in = in, .a = arena_new((uint64_t)64 << 20), .err = err};
    in->x->depth++;
    ckpt_status st = m.a ? scan_pickles_and_numbers(&m, is_tensor, known_bytes) : fail_memory(err);
    in->x->depth--;
    arena_free(m.a);
    return st;
}

/* What is known of the members of a tar. */
struct tar_context {
    bool is_torch;
    struct scan_chunks *chunks; /* NULL: none */
};

static ckpt_status scan_tar_member(const struct scanned *in, const struct tar_entry *entry,
                                   const struct tar_context *context, uint64_t *known_inside, ckpt_error *err)
{
    struct scanned at = *in, member = *in; /* the place in the archive; the member itself */
    bool is_chunk = false;
    uint64_t known_bytes = 0;
    ckpt_str name = str_after_last(entry->name, '/');
    CKPT_TRY(scan_join_names(in, entry->name, &at.where, err));
    CKPT_TRY(scan_check_member_name(&at, entry->data, entry->name));
    if (entry->type == '1' || entry->type == '2') /* hard link, symbolic link */
        return SCAN_FOUND(&at, SCAN_ARCHIVE_LINK, entry->data,
                          "a link; whoever unpacks it may write elsewhere");
    if (entry->type != '0' && entry->type != '7' && entry->size) /* neither kind of regular file */
        return SCAN_FOUND(&at, SCAN_NOT_OPENED, entry->data, "a member of type '%c'", entry->type);
    if (entry->size == 0)
        return CKPT_OK;
    member.where = at.where;
    CKPT_TRY(source_slice(in->src, entry->data, entry->size, &member.src, err));
    in->x->scan->result->members++;
    ckpt_status st = scan_hash_member(&member, 0, NULL, err);
    if (st == CKPT_OK && context->chunks)
        st = scan_is_chunk(context->chunks, entry->name, &is_chunk, err);
    bool storages = str_is(name, "storages"), tensors = str_is(name, "tensors");
    CKPT_THEN(st, context->is_torch && (storages || tensors)
                      ? scan_torch_member(&member, tensors, &known_bytes, err)
                      : scan_bytes(&member, is_chunk ? SCAN_CHUNK : SCAN_MEMBER, &known_bytes, err));
    if (known_bytes >= entry->size)
        *known_inside += entry->size;
    source_unref(member.src);
    return st;
}

/* check_padding - reports and scans bytes other than zeros in [FROM, TO), which is padding. */
static ckpt_status check_padding(const struct scanned *in, uint64_t from, uint64_t to, ckpt_error *err)
{
    unsigned char chunk[4096];
    size_t n, i = 0;
    to = to < in->src->size ? to : in->src->size;
    for (n = 0; from < to; from += n) {
        n = to - from < sizeof chunk ? (size_t)(to - from) : sizeof chunk;
        CKPT_TRY(source_read(in->src, from, chunk, n, err));
        for (i = 0; i < n && chunk[i] == 0; i++)
            ;
        if (i < n)
            break;
    }
    if (from >= to)
        return CKPT_OK;
    from += i;
    CKPT_TRY(SCAN_FOUND(in, SCAN_MALFORMED, from, "bytes that belong to no member, where a tar has zeros"));
    return scan_stray_bytes(in, from, to, err);
}

ckpt_status scan_tar(const struct scanned *in, uint64_t *known_bytes, ckpt_error *err)
{
    struct scanner *x = in->x;
    struct tar_entry *list;
    size_t n = 0;
    uint64_t known_inside = 0, payload_bytes = 0;
    ckpt_error why;
    x->format = x->depth ? x->format : "tar";
    if (x->depth >= x->scan->opts->max_depth)
        return scan_found(x->scan, SCAN_NOT_OPENED, in->where, NULL, CKPT_NO_OFFSET,
                          "an archive nested too deep");
    ckpt_status st = tar_list(in->src, x->a, false, &list, &n, &why);
    if (scan_note_system_failure(x->scan, st, &why)) {
        *err = why;
        return st;
    }
    if (st != CKPT_OK)
        return scan_found(x->scan, SCAN_MALFORMED, in->where, NULL, CKPT_NO_OFFSET, "tar: %s", why.what);
    bool has_dcp_metadata = false, has_arrays = false;
    struct tar_context context = {.chunks = NULL};
    context.is_torch = torch_tar_find(list, n, "storages") && torch_tar_find(list, n, "tensors") &&
                       torch_tar_find(list, n, "pickle");
    uint64_t end = 0, block_end;
    for (size_t i = 0; i < n; i++)
        has_arrays |= scan_is_array_metadata(list[i].name);
    if (has_arrays)
        CKPT_TRY(scan_chunks_open(x, in->src, &context.chunks, err));
    for (size_t i = 0; st == CKPT_OK && i < n; i++) {
        has_dcp_metadata |= scan_has_siblings(list[i].name);
        payload_bytes += list[i].size; /* members are in the source, one after the other */
        st = scan_tar_member(in, &list[i], &context, &known_inside, err);
        end = list[i].data + list[i].size;
        block_end = end + (512 - end % 512) % 512; /* at most a block after the end of the source */
        CKPT_THEN(st, check_padding(in, end, block_end, err));
        end = block_end;
    }
    scan_chunks_close(context.chunks, x);
    CKPT_THEN(st, check_padding(in, end, in->src->size, err));
    if (st == CKPT_OK && has_dcp_metadata)
        st = scan_dcp_in_archive(in, err);
    /* known_inside is the size of some of the members, which are inside the source */
    *known_bytes += in->src->size - (payload_bytes - known_inside);
    return st == CKPT_OK && context.is_torch ? scan_check_format(in, "torch-tar", NULL, err) : st;
}
