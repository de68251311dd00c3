/*
 * zip_write.c - a plan as a torch.save archive that torch.load takes in
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
#include "base/store.h"
#include "codec/pickle_read.h"
#include "codec/zip_write.h"
#include "core/elements.h"
#include "core/pour.h"
#include "format/torch/zip.h"
#include "io/fd.h"

#define TOP        "archive"
#define ALIGN      64u
#define MAX_PICKLE (SIZE_MAX / 2)

/* --------------------------------------------------------------------- bytes */

/* The sweep that writes: its item I is w->items[picked ? picked[I] : I]. */
struct copying {
    struct torch_writer *w;
    struct pour pour;
    zip_writer *zw;                /* NULL: nothing is written */
    uint64_t *headers;             /* by item: where each begins in the archive */
    uint32_t *crcs;                /* likewise, of what is written */
    struct convert_tally *tallies; /* likewise; NULL where nothing is cast */
    uint32_t *picked;              /* what a rehearsal has to read; NULL: all */
    size_t n;
};

/* A storage of the archive. */
struct item {
    uint32_t number; /* there */
    struct storage *s;
    const struct torch_cast *cast; /* NULL: as it is */
};

static struct item item_of(const struct copying *g, size_t i)
{
    uint32_t number = g->picked ? g->picked[i] : (uint32_t)i;
    struct storage *s = g->w->items[number];
    return (struct item){number, s, torch_cast_of(g->w, s)};
}

static struct sweep_item sweep_item(void *user, size_t i)
{
    struct copying *g = user;
    return (struct sweep_item){.file = g->w->p->file, .storage = item_of(g, i).s};
}

/* like - where the payload of S lies now, if it may be taken over as it is. */
static uint64_t like(const struct torch_writer *w, const struct storage *s)
{
    bool same = s->src && !s->swap && s->s.nbytes >= ZIP_CLONE_LEAST && !torch_cast_of(w, s);
    if (!same || source_locate(s->src, NULL) != CKPT_OK)
        return CKPT_NO_OFFSET;
    return source_pos(s->src, s->off);
}

/* tell - item NUMBER as a member. */
static void tell(const void *user, size_t number, struct zip_spot *spot)
{
    const struct copying *g = user;
    const struct storage *s = g->w->items[number];
    *spot = (struct zip_spot){.size = torch_zip_bytes(g->w, s),
                              .like = like(g->w, s),
                              .header = g->headers[number],
                              .crc = g->crcs[number]};
    (void)snprintf(spot->name, sizeof spot->name, "data/%zu", number);
}

/* payload_at - where the payload of item NUMBER goes. */
static uint64_t payload_at(const struct copying *g, uint32_t number)
{
    struct zip_spot spot;
    if (!g->zw)
        return 0;
    tell(g, number, &spot);
    return zip_spot_place(g->zw, &spot) ? spot.data : 0; /* it had its place before */
}

/* begin_member - the header of item I. */
static ckpt_status begin_member(struct copying *g, size_t i, struct sweep_run *run, ckpt_error *err)
{
    struct zip_spot spot;
    struct hand *h;
    if (!g->zw)
        return CKPT_OK;
    tell(g, item_of(g, i).number, &spot);
    CKPT_TRY(pour_hand(&g->pour, run, spot.header, &h, err));
    h->text.len = 0;
    CKPT_TRY(zip_spot_header(g->zw, &spot, &h->text, err));
    return outlet_put(&h->out, h->text.data, h->text.len, err);
}

/* end_member - its CRC is known now. */
static ckpt_status end_member(struct copying *g, size_t i, uint32_t crc, struct outlet *o, ckpt_error *err)
{
    unsigned char bytes[4];
    store_u32le(bytes, crc);
    uint32_t number = item_of(g, i).number;
    if (!g->zw)
        return CKPT_OK;
    g->crcs[number] = crc;
    return outlet_patch(o, g->headers[number] + ZIP_LOCAL_CRC, bytes, 4, err); /* bounded: in the archive */
}

/* share - stored bytes [*FROM, *END) of X, of COUNT that go from FIRST to TO, which the file
 * system lets the output have in common with the input; none where it cannot. */
static void share(struct copying *g, const struct item *x, uint64_t first, uint64_t count, uint64_t to,
                  uint64_t *from, uint64_t *end)
{
    int fd;
    uint64_t at;
    *from = *end = first + count; /* bounded: inside the storage */
    if (!g->zw || x->cast || x->s->swap || count < ZIP_CLONE_LEAST)
        return;
    bool plain = source_extent(x->s->src, x->s->off + first, &fd, &at); /* bounded: inside its source */
    if (!plain || at % SINK_PAGE != to % SINK_PAGE)
        return;
    uint64_t before = (SINK_PAGE - at % SINK_PAGE) % SINK_PAGE, n = (count - before) / SINK_PAGE * SINK_PAGE;
    if (!sink_clone(g->pour.to, to + before, fd, at + before, n)) /* bounded: below count */
        return;
    *from = first + before; /* bounded: below count */
    *end = *from + n;
}

/* sum - the CRC of stored bytes [AT, END) of S, which are where they belong. */
static ckpt_status sum(struct hand *h, struct storage *s, uint64_t at, uint64_t end, uint32_t *crc,
                       struct sweep_run *run, ckpt_error *err)
{
    CKPT_TRY(hand_in(h, err));
    for (size_t n; at < end; at += n) { /* bounded: up to end */
        n = end - at < FD_CHUNK ? (size_t)(end - at) : FD_CHUNK;
        CKPT_TRY(source_read(s->src, s->off + at, h->in, n, err)); /* bounded: inside its source */
        *crc = crc32_update(*crc, h->in, n);
        if (!sweep_moved(run, n))
            return fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    }
    return CKPT_OK;
}

/* drain - COUNT stored bytes of X from FIRST on; *CRC is theirs, out->crc that of what
 * is written. */
static ckpt_status drain(struct copying *g, size_t i, uint64_t first, uint64_t count, struct poured *out,
                         uint32_t *crc, struct sweep_run *run, ckpt_error *err)
{
    struct item x = item_of(g, i);
    struct storage *s = x.s;
    struct conversion room;
    const struct conversion *c = x.cast && conversion_init(&room, x.cast->from, x.cast->to) ? &room : NULL;
    uint64_t to = payload_at(g, x.number);
    struct hand *h;
    to += c ? first / c->in_width * c->out_width : first; /* bounded: inside the archive */
    CKPT_TRY(pour_hand(&g->pour, run, to, &h, err));
    source_sequential(s->src);
    uint64_t shared, shared_end, end = first + count; /* bounded: inside the storage */
    share(g, &x, first, count, to, &shared, &shared_end);
    for (uint64_t at = first; at < end;) {
        unsigned char *space, *in;
        size_t n, len;
        if (at == shared) {
            CKPT_TRY(sum(h, s, at, shared_end, crc, run, err));
            out->crc = *crc;
            at = shared_end;
            CKPT_TRY(outlet_seek(&h->out, to + (at - first), err)); /* bounded: inside the archive */
            continue;
        }
        CKPT_TRY(pour_room(h, c, &space, &n, err));
        uint64_t left = at < shared ? shared - at : end - at;
        n = n < left ? n : (size_t)left;
        if (s->swap > 1 && n > s->swap)
            n -= n % s->swap;
        in = c ? h->in : space;
        CKPT_TRY(window_read(&h->window, s->src, s->off + at, in, n, err)); /* bounded: inside its source */
        *crc = crc32_update(*crc, in, n);
        if (s->swap)
            swap_bytes(in, n, s->swap);
        if (c)
            convert_run(c, in, n / c->in_width, space, &out->tally);
        len = c ? n / c->in_width * c->out_width : n; /* bounded: by pour_room */
        out->crc = c || s->swap ? crc32_update(out->crc, space, len) : *crc;
        outlet_add(&h->out, len);
        at += n; /* bounded: up to end */
        if (!sweep_moved(run, n))
            return fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    }
    return CKPT_OK;
}

static ckpt_status copy_item(void *user, size_t i, struct sweep_run *run, ckpt_error *err)
{
    struct copying *g = user;
    struct item x = item_of(g, i);
    struct stream_options o = plan_reading(g->w->p);
    struct poured out = {0};
    uint32_t crc = 0;
    CKPT_TRY(begin_member(g, i, run, err));
    if (x.s->s.nbytes)
        CKPT_TRY(drain(g, i, 0, x.s->s.nbytes, &out, &crc, run, err));
    if (g->tallies)
        g->tallies[x.number] = out.tally;
    CKPT_TRY(end_member(g, i, out.crc, &g->pour.hands[sweep_worker(run)].out, err));
    return storage_crc(x.s, crc, &o, err);
}

/* copy_part - leaves nothing in hand: the thread that patches the header may be another. */
static ckpt_status copy_part(void *user, size_t i, struct sweep_part *p, struct sweep_run *run,
                             ckpt_error *err)
{
    struct copying *g = user;
    struct poured *out = p->out = calloc(1, sizeof *out);
    if (!out)
        return fail_memory(err);
    if (p->first == 0)
        CKPT_TRY(begin_member(g, i, run, err));
    CKPT_TRY(drain(g, i, p->first, p->count, out, &p->crc[0], run, err));
    return outlet_flush(&g->pour.hands[sweep_worker(run)].out, err);
}

static ckpt_status join_parts(void *user, size_t i, const struct sweep_part *parts, size_t n, ckpt_error *err)
{
    struct copying *g = user;
    struct item x = item_of(g, i);
    struct sweep_item whole = sweep_item(g, i);
    struct stream_options o = plan_reading(g->w->p);
    struct outlet none = {.to = g->pour.to};
    uint32_t crc = 0;
    for (size_t k = 0; k < n; k++) {
        const struct poured *out = parts[k].out;
        uint64_t len = parts[k].count;
        if (x.cast)
            len = len / (ckpt_dtype_bits(x.cast->from) / 8) * (ckpt_dtype_bits(x.cast->to) / 8);
        crc = crc32_combine(crc, out->crc, len);
        if (g->tallies)
            g->tallies[x.number].overflowed += out->tally.overflowed; /* bounded: elements */
    }
    CKPT_TRY(end_member(g, i, crc, &none, err));
    return storage_crc(x.s, sweep_crc(&whole, parts, n, 0), &o, err);
}

/* lay_out - room for all items in the archive. */
static ckpt_status lay_out(struct copying *g, ckpt_error *err)
{
    size_t n = g->w->n;
    g->headers = calloc(n + 1, sizeof *g->headers);
    g->crcs = calloc(n + 1, sizeof *g->crcs);
    g->tallies = g->w->casts ? calloc(n + 1, sizeof *g->tallies) : NULL;
    if (!g->headers || !g->crcs || (g->w->casts && !g->tallies))
        return fail_memory(err);
    for (size_t i = 0; g->zw && i < n; i++) {
        struct zip_spot spot;
        tell(g, i, &spot);
        CKPT_TRY(zip_writer_skip(g->zw, &spot, err));
        g->headers[i] = spot.header;
    }
    return CKPT_OK;
}

/* pick - those that a rehearsal has to read. */
static ckpt_status pick(struct copying *g, ckpt_error *err)
{
    g->n = g->w->n;
    g->picked = g->zw ? NULL : calloc(g->w->n + 1, sizeof *g->picked);
    if (g->zw)
        return CKPT_OK;
    if (!g->picked)
        return fail_memory(err);
    g->n = 0;
    for (size_t i = 0; i < g->w->n; i++) {
        const struct storage *s = g->w->items[i];
        if (torch_cast_of(g->w, s) || (s->has_crc && !s->crc_checked))
            g->picked[g->n++] = (uint32_t)i;
    }
    return CKPT_OK;
}

/* locate - the members that will be read, all at once; what is wrong with one is said when it is. */
static void locate(const struct copying *g)
{
    bool most = g->n >= g->w->p->file->table.nstorages / 4;
    for (size_t i = 0; most && i < g->n; i++) {
        source *src = item_of(g, i).s->src;
        if (i == 0 && src)
            source_sequential(src);
        if (src)
            (void)source_locate(src, NULL);
    }
}

static ckpt_status sweep_items(struct copying *g, ckpt_error *err)
{
    struct sweep s = {.threads = g->w->opts->threads,
                      .item = sweep_item,
                      .work = copy_item,
                      .part = copy_part,
                      .join = join_parts,
                      .progress = pour_progress,
                      .user = g,
                      .progress_user = &g->pour};
    CKPT_TRY(pick(g, err));
    s.n = g->n;
    locate(g);
    CKPT_TRY(sweep_run(&s, err));
    return pour_flush(&g->pour, err);
}

/* copy_items - the storages to OUT by way of G's zw, or nowhere when that is NULL. */
static ckpt_status copy_items(struct copying *g, sink *out, ckpt_error *err)
{
    struct torch_writer *w = g->w;
    ckpt_status st = pour_open(&g->pour, out, w->opts->threads, err);
    g->pour.progress = w->opts->progress;
    g->pour.user = w->opts->user;
    g->pour.total = w->total;
    if (st == CKPT_OK)
        st = lay_out(g, err);
    if (st == CKPT_OK)
        st = sweep_items(g, err);
    pour_close(&g->pour);
    return st == CKPT_OK ? torch_zip_casts_done(w, g->tallies, err) : st;
}

static void copying_free(struct copying *g)
{
    free(g->headers);
    free(g->crcs);
    free(g->tallies);
    free(g->picked);
}

/* archive_size - of the whole output, from names and sizes alone. */
static ckpt_status archive_size(const struct torch_writer *w, uint64_t *total, ckpt_error *err)
{
    struct zip_layout l = {0};
    bool ok = zip_layout_member(&l, TOP, ALIGN, 8, w->pickle.len, CKPT_NO_OFFSET) &&
              zip_layout_member(&l, TOP, ALIGN, 9, 6, CKPT_NO_OFFSET);
    for (size_t i = 0; ok && i < w->n; i++) {
        char name[32];
        int len = snprintf(name, sizeof name, "data/%zu", i);
        const struct storage *s = w->items[i];
        ok = zip_layout_member(&l, TOP, ALIGN, (size_t)len, torch_zip_bytes(w, s), like(w, s));
    }
    ok = ok && zip_layout_member(&l, TOP, ALIGN, 7, 2, CKPT_NO_OFFSET) && zip_layout_size(&l, total);
    return ok ? CKPT_OK : fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "an archive of more than 2^64 bytes");
}

static ckpt_status write_members(struct copying *g, sink *out, ckpt_error *err)
{
    struct torch_writer *w = g->w;
    zip_writer *zw = g->zw;
    CKPT_TRY(zip_writer_member(zw, "data.pkl", buf_view(&w->pickle), err));
    buf_free(&w->pickle);
    CKPT_TRY(zip_writer_member(zw, "byteorder", STR_LIT("little"), err));
    CKPT_TRY(copy_items(g, out, err));
    CKPT_TRY(zip_writer_member(zw, "version", STR_LIT("3\n"), err));
    return zip_writer_finish(zw, tell, g, err);
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

/* same_member - is entry I what was to be written? */
static ckpt_status same_member(void *user, size_t i, const struct zip_entry *e, ckpt_error *err)
{
    static const char *const fixed[] = {"data.pkl", "byteorder", "version"};
    const struct copying *g = user;
    size_t n = g->w->n;
    struct zip_spot spot = {.size = i == 1 ? 6 : 2, .crc = e->crc, .header = e->header};
    if (i >= 2 && i < n + 2)
        tell(g, i - 2, &spot);
    else
        (void)snprintf(spot.name, sizeof spot.name, "%s", fixed[i < 2 ? i : 2]);
    ckpt_str name = e->name;
    bool same = str_starts(name, STR_LIT(TOP "/")) && str_is(str_skip(name, sizeof TOP), spot.name) &&
                e->method == ZIP_STORED && e->header == spot.header && e->crc == spot.crc &&
                (i == 0 || e->csize == spot.size);
    return same ? CKPT_OK
                : fail(err, CKPT_EIO, e->header, "what was written reads back as another member than \"%s\"",
                       spot.name);
}

/* verify - our own reader must find every member in what was written. */
static ckpt_status verify(struct copying *g, sink *out, uint64_t size, ckpt_error *err)
{
    written back = {.s = {.ops = &written_ops, .size = size, .base = 0, .refs = 1}, .out = out};
    size_t n;
    CKPT_TRY(zip_walk(&back.s, same_member, g, &n, err));
    return n == g->w->n + 3
               ? CKPT_OK
               : fail(err, CKPT_EIO, CKPT_NO_OFFSET,
                      "what was written reads back as %zu members instead of %zu", n, g->w->n + 3);
}

static ckpt_status write_archive(struct copying *g, sink *out, uint64_t size, ckpt_error *err)
{
    CKPT_TRY(sink_reserve(out, size, err));
    CKPT_TRY(zip_writer_new(out, TOP, ALIGN, &g->zw, err));
    ckpt_status st = write_members(g, out, err);
    zip_writer_free(g->zw);
    CKPT_TRY(st);
    if (sink_tell(out) != size)
        return fail(err, CKPT_EIO, CKPT_NO_OFFSET, "the archive has %llu bytes instead of %llu",
                    (unsigned long long)sink_tell(out), (unsigned long long)size);
    CKPT_TRY(verify(g, out, size, err));
    return file_unchanged(g->w->p->file, err);
}

static ckpt_status write_file(struct copying *g, const char *path, uint64_t size, ckpt_error *err)
{
    struct sink_options so = plan_writing(g->w->p, g->w->opts);
    so.batch = g->w->batch;
    sink *out;
    CKPT_TRY(sink_file(path, &so, &out, err));
    ckpt_status st = write_archive(g, out, size, err);
    if (st == CKPT_OK)
        return sink_commit(out, err);
    sink_abort(out);
    return st;
}

static ckpt_status emit(struct torch_writer *w, const char *path, uint64_t size, ckpt_error *err)
{
    struct copying g = {.w = w};
    ckpt_status st = w->opts->dry_run ? copy_items(&g, NULL, err) : write_file(&g, path, size, err);
    copying_free(&g);
    return st;
}

/* check_not_empty - a checkpoint may hold no tensor, but not lose all it had. */
static ckpt_status check_not_empty(const ckpt_plan *p, size_t tensors, ckpt_error *err)
{
    const ckpt_file *f = p->file;
    if (tensors || (f->table.nrows == 0 && !plan_root_is_module(p)))
        return CKPT_OK;
    (void)fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no tensor is left to write");
    fail_hint(err, "`ckpt ls` lists what the input holds; see --root, --keep and --drop");
    return CKPT_ENOTFOUND;
}

/* approve - shows the plan's own judge, if it has one, what is about to be written. */
static ckpt_status approve(const struct torch_writer *w, ckpt_error *err)
{
    ckpt_file *f = NULL;
    uint64_t next;
    if (!w->p->approve)
        return CKPT_OK;
    source *src = source_mem(w->pickle.data, w->pickle.len, CKPT_NO_OFFSET);
    CKPT_TRY(src ? file_new(w->p->file->path, src, &w->p->file->limits, &f, err) : fail_memory(err));
    struct pickle_facts *facts = file_pickle(f, str_of("", 0));
    ckpt_status st = facts ? pickle_read(f->a, src, 0, src->size, facts, &f->root, &next, err)
                           : fail_memory(err);
    f->torch_load = true;
    if (st == CKPT_OK)
        st = w->p->approve(f, err);
    file_free(f);
    return st;
}

/* drop_metadata - a torch file has no place for the texts of a safetensors header or an index: all but
 * "format", which is about that format, and ties, which it has as such. */
static ckpt_status drop_metadata(ckpt_plan *p, bool strict, ckpt_error *err)
{
    struct plan_pair *pairs;
    size_t n, before = p->ndropped;
    CKPT_TRY(plan_metadata(p, &pairs, &n, err));
    for (size_t i = 0; i < n; i++) {
        if (pairs[i].tie || str_is(pairs[i].key, "format"))
            continue;
        const ckpt_path_elem path[] = {{.str = STR_LIT("__metadata__")}, {.str = pairs[i].key}};
        ckpt_str name = arena_printf(p->a, "__metadata__.%.*s", STR_ARG(pairs[i].key));
        CKPT_TRY(name.ptr ? CKPT_OK : fail_memory(err));
        ckpt_leaf leaf = {.path = path, .npath = 2, .name = name, .value = pairs[i].value};
        CKPT_TRY(plan_dropped(p, &leaf, "metadata: a torch file has no place for it", err));
    }
    if (p->ndropped == before || !strict)
        return CKPT_OK;
    char more[48] = "";
    if (p->ndropped - before > 1)
        (void)snprintf(more, sizeof more, " and %zu more", p->ndropped - before - 1);
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "a torch file has no place for metadata: \"%.*s\"%s",
               STR_ARG(p->dropped[before].name), more);
    fail_hint(err, "without --strict they are left out and listed");
    return CKPT_ELOSSY;
}

/* forget_nodes - what only the pickle needed, before the items are copied. */
static void forget_nodes(struct torch_writer *w)
{
    map_free(w->storage_of);
    map_free(w->rewritten);
    map_free(w->left_out);
    w->storage_of = w->rewritten = w->left_out = NULL;
}

ckpt_status torch_zip_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    size_t n = p->file->table.nstorages, tensors = plan_count(p);
    struct torch_writer w = {.p = p, .opts = job->opts, .batch = job->batch};
    uint64_t size = 0;
    w.storage_of = map_new(0);
    w.items = arena_grow(p->a, NULL, 0, &w.cap, n, sizeof *w.items);
    w.cast_of = map_new(0);
    w.rewritten = map_new(0);
    w.left_out = map_new(0);
    buf_init(&w.pickle, MAX_PICKLE);
    bool ok = w.storage_of && w.items && w.cast_of && w.rewritten && w.left_out;
    ckpt_status st = ok ? check_not_empty(p, tensors, err) : fail_memory(err);
    if (st == CKPT_OK && p->file->metadata && !job->has_index)
        st = drop_metadata(p, job->opts->strict, err);
    arena_trim(p->a);
    if (st == CKPT_OK)
        st = torch_zip_pickle(&w, err);
    forget_nodes(&w);
    if (st == CKPT_OK)
        st = approve(&w, err);
    if (st == CKPT_OK)
        st = archive_size(&w, &size, err);
    if (st == CKPT_OK && !job->layout_only)
        st = emit(&w, job->path, size, err);
    if (st == CKPT_OK)
        st = plan_output(p, job->path, err);
    if (st == CKPT_OK) {
        job->result->tensors += tensors;
        if (!checked_add(job->result->bytes, size, &job->result->bytes))
            job->result->bytes = UINT64_MAX;
    }
    buf_free(&w.pickle);
    map_free(w.cast_of);
    return st;
}
