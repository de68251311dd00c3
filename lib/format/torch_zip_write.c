/*
 * torch_zip_write.c - a plan as a torch.save archive that torch.load takes in
 * every mode (weights_only, mmap), from 1.6 on.
 *
 *   archive/data.pkl     protocol 2, only what the restricted unpickler accepts
 *                        unless the input holds more
 *   archive/byteorder    "little"
 *   archive/data/<n>     storages 0, 1, 2 … in the order in which the pickle
 *                        first names them, each once and whole
 *   archive/version      "3\n"
 *
 * No .format_version and no .storage_alignment: with them torch >= 2.7 computes
 * where storages lie, by a layout with data descriptors that this is not.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/crc32.h"
#include "codec/zip_write.h"
#include "core/elements.h"
#include "format/torch_zip.h"

#define TOP        "archive"
#define ALIGN      64u
#define CHUNK      (256u * 1024u)
#define MAX_PICKLE (SIZE_MAX / 2)

/* --------------------------------------------------------------------- bytes */

static ckpt_status report(struct torch_writer *w, size_t n, ckpt_error *err)
{
    w->done += n;
    if (w->opts->progress && w->opts->progress(w->opts->user, w->done, w->total))
        return fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    return CKPT_OK;
}

/* Room for one pair of hands: what is read, and what becomes of it. */
struct chunks {
    unsigned char in[CHUNK], out[CHUNK];
};

/* copy_item - the bytes of X to ZW, or nowhere when that is NULL. */
static ckpt_status copy_item(struct torch_writer *w, struct torch_item *x, zip_writer *zw,
                             struct chunks *chunks, ckpt_error *err)
{
    struct storage *s = x->s;
    struct conversion c;
    bool cast = x->cast && conversion_init(&c, x->cast->from, x->cast->to);
    uint32_t crc = 0;
    bool own = s->s.has_crc && (s->swap || cast || !zw); /* else the archive's writer computes it anyway */
    size_t room = cast && c.out_width > c.in_width ? CHUNK / c.out_width * c.in_width : CHUNK;
    source_sequential(s->src);
    /* bounded: n is what is left, at most */
    for (uint64_t at = 0, n; at < s->s.nbytes; at += n) {
        n = s->s.nbytes - at < room ? s->s.nbytes - at : room;
        size_t len = (size_t)n;
        /* bounded: a storage lies inside its source */
        CKPT_TRY(source_read(s->src, s->off + at, chunks->in, len, err));
        if (own)
            crc = crc32_update(crc, chunks->in, len);
        if (s->swap)
            swap_bytes(chunks->in, len, s->swap);
        if (cast) {
            convert_run(&c, chunks->in, len / c.in_width, chunks->out, &x->tally);
            len = len / c.in_width * c.out_width; /* bounded: by room */
        }
        if (zw)
            CKPT_TRY(zip_writer_put(zw, cast ? chunks->out : chunks->in, len, err));
        CKPT_TRY(report(w, (size_t)n, err));
    }
    struct stream_options o = plan_reading(w->p);
    return storage_crc(s, own || !zw ? crc : zip_writer_crc(zw), &o, err);
}

static ckpt_status copy_items(struct torch_writer *w, zip_writer *zw, ckpt_error *err)
{
    struct chunks *chunks = malloc(sizeof *chunks);
    ckpt_status st = chunks ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < w->n; i++) {
        struct torch_item *x = &w->items[i];
        char name[32];
        (void)snprintf(name, sizeof name, "data/%zu", i);
        if (!zw && !x->cast && (!x->s->s.has_crc || x->s->crc_checked))
            continue;
        if (zw)
            st = zip_writer_begin(zw, name, x->nbytes, err);
        if (st == CKPT_OK)
            st = copy_item(w, x, zw, chunks, err);
    }
    free(chunks);
    return st == CKPT_OK ? torch_zip_casts_done(w, err) : st;
}

/* archive_size - of the whole output, from names and sizes alone. */
static ckpt_status archive_size(const struct torch_writer *w, uint64_t *total, ckpt_error *err)
{
    size_t n = w->n + 3, *lens = calloc(n, sizeof *lens);
    uint64_t *sizes = calloc(n, sizeof *sizes);
    bool ok = lens && sizes;
    if (ok) {
        char name[32];
        size_t fixed[3] = {8, 9, 7};
        uint64_t bytes[3] = {w->pickle.len, 6, 2};
        for (size_t i = 0; i < n; i++) {
            bool storage = i >= 2 && i < w->n + 2;
            lens[i] = storage ? (size_t)snprintf(name, sizeof name, "data/%zu", i - 2) : fixed[i < 2 ? i : 2];
            sizes[i] = storage ? w->items[i - 2].nbytes : bytes[i < 2 ? i : 2];
        }
    }
    ckpt_status st = !ok ? fail_memory(err)
                     : zip_writer_size(TOP, ALIGN, n, lens, sizes, total)
                         ? CKPT_OK
                         : fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "an archive of more than 2^64 bytes");
    free(lens);
    free(sizes);
    return st;
}

static ckpt_status write_members(struct torch_writer *w, zip_writer *zw, ckpt_error *err)
{
    CKPT_TRY(zip_writer_member(zw, "data.pkl", buf_view(&w->pickle), err));
    CKPT_TRY(zip_writer_member(zw, "byteorder", STR_LIT("little"), err));
    CKPT_TRY(copy_items(w, zw, err));
    CKPT_TRY(zip_writer_member(zw, "version", STR_LIT("3\n"), err));
    return zip_writer_finish(zw, err);
}

/* What was written, read back. */
typedef struct {
    source s;
    sink *out;
} written;

static ckpt_status written_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    return sink_read(((written *)s)->out, off, out, n, err);
}

static void written_close(source *s) { (void)s; }

static const struct source_ops written_ops = {.read_at = written_read, .close = written_close};

/* verify - our own reader must find every member in what was written. */
static ckpt_status verify(const struct torch_writer *w, sink *out, uint64_t size, ckpt_error *err)
{
    written back = {.s = {.ops = &written_ops, .size = size, .base = 0, .refs = 1}, .out = out};
    arena *a = arena_new(UINT64_MAX);
    zip *z = NULL;
    ckpt_status st = a ? zip_open(&back.s, a, &z, err) : fail_memory(err);
    if (st == CKPT_OK && (z->n != w->n + 3 || z->end != size || z->shift))
        st = fail(err, CKPT_EIO, CKPT_NO_OFFSET, "what was written reads back as %zu members instead of %zu",
                  z->n, w->n + 3);
    if (z)
        zip_close(z);
    arena_free(a);
    return st;
}

static ckpt_status write_archive(struct torch_writer *w, sink *out, uint64_t size, ckpt_error *err)
{
    zip_writer *zw;
    CKPT_TRY(sink_reserve(out, size, err));
    CKPT_TRY(zip_writer_new(out, TOP, ALIGN, &zw, err));
    ckpt_status st = write_members(w, zw, err);
    zip_writer_free(zw);
    CKPT_TRY(st);
    if (sink_tell(out) != size)
        return fail(err, CKPT_EIO, CKPT_NO_OFFSET, "the archive has %llu bytes instead of %llu",
                    (unsigned long long)sink_tell(out), (unsigned long long)size);
    CKPT_TRY(verify(w, out, size, err));
    return file_unchanged(w->p->file, err);
}

static ckpt_status emit(struct torch_writer *w, const char *path, uint64_t size, ckpt_error *err)
{
    struct sink_options so = plan_writing(w->p, w->opts);
    so.batch = w->batch;
    sink *out;
    if (w->opts->dry_run)
        return copy_items(w, NULL, err);
    CKPT_TRY(sink_file(path, &so, &out, err));
    ckpt_status st = write_archive(w, out, size, err);
    if (st == CKPT_OK)
        return sink_commit(out, err);
    sink_abort(out);
    return st;
}

/* check_not_empty - a checkpoint may hold no tensor, but not lose all it had. */
static ckpt_status check_not_empty(const ckpt_plan *p, ckpt_error *err)
{
    const ckpt_file *f = p->file;
    bool replaced = f->root && p->root != f->root && p->root_depth == 0;
    if (p->nentries || (f->table.nrows == 0 && !replaced))
        return CKPT_OK;
    (void)fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no tensor is left to write");
    fail_hint(err, "`ckpt ls` lists what the input holds; see --root, --keep and --drop");
    return CKPT_ENOTFOUND;
}

ckpt_status torch_zip_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    struct torch_writer w = {.p = p, .opts = job->opts, .batch = job->batch};
    uint64_t size = 0;
    w.storage_of = map_new(p->file->table.nstorages);
    w.number_of = map_new(p->file->table.nstorages);
    w.cast_of = map_new(0);
    w.rewritten = map_new(0);
    w.left_out = map_new(0);
    buf_init(&w.pickle, MAX_PICKLE);
    bool maps = w.storage_of && w.number_of && w.cast_of && w.rewritten && w.left_out;
    ckpt_status st = maps ? plan_entries(p, err) : fail_memory(err);
    if (st == CKPT_OK)
        st = check_not_empty(p, err);
    if (st == CKPT_OK)
        st = torch_zip_pickle(&w, err);
    if (st == CKPT_OK)
        st = archive_size(&w, &size, err);
    if (st == CKPT_OK)
        st = emit(&w, job->path, size, err);
    if (st == CKPT_OK)
        st = plan_output(p, job->path, err);
    if (st == CKPT_OK) {
        job->result->tensors += p->nentries;
        if (!checked_add(job->result->bytes, size, &job->result->bytes))
            job->result->bytes = UINT64_MAX;
    }
    buf_free(&w.pickle);
    map_free(w.storage_of);
    map_free(w.number_of);
    map_free(w.cast_of);
    map_free(w.rewritten);
    map_free(w.left_out);
    return st;
}
