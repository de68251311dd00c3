/* copy_pool.c - see copy_pool.h. An item, or 64 MiB of a large one (core/sweep), is copied by one worker: it
 * reads at most FD_CHUNK bytes straight into its block of output, or first to where they are converted
 * from. Where the file system can share blocks between files, large storages are not copied at all. */
#include "core/copy_pool.h"

#include <stdlib.h>

#include "base/crc32.h"
#include "base/store.h"
#include "core/elements.h"
#include "core/sweep.h"
#include "io/buffered_writer.h"
#include "io/fd.h"
#include "io/pool.h"

/* What one thread has to itself; made when it gets its first item, as few files need all threads. */
struct worker {
    struct buffered_writer out;
    unsigned char *in;    /* FD_CHUNK bytes, where they are converted from, or only summed */
    struct window window; /* over what is read */
    struct conversion conversion;
    buf header;
};

struct copy_pool {
    const struct copy_job *job;
    struct worker *workers;
    unsigned nworkers;
    uint32_t *picked; /* what a rehearsal reads, by item of the sweep; NULL: all */
    size_t n;
};

/* What was written of an item. */
struct copied {
    struct convert_tally tally;
    uint64_t nbytes;
    uint32_t crc; /* where the job wants it */
};

/* What one worker copies of an item, and how far it is. */
struct range {
    const struct copy_pool *p;
    struct worker *w;
    struct sweep_run *run;
    size_t number; /* of the item, in the job */
    struct copy_item item;
    stream *s;           /* of a row */
    uint64_t at, end;    /* bytes of the item as it is read … */
    uint64_t offset;     /* … and where in the sink those from AT on go */
    uint32_t stored_crc; /* of what was read, as stream_crc has it */
    struct copied done;
    const struct conversion *c; /* the worker's; NULL: it is not converted */
};

static struct copy_item item_at(const struct copy_pool *p, size_t i)
{
    return p->job->item(p->job->user, p->picked ? p->picked[i] : i);
}

/* storage_of - what X lies in; NULL: a row without bytes. */
static struct storage *storage_of(const struct copy_pool *p, const struct copy_item *x)
{
    if (x->storage)
        return x->storage;
    struct table *t = &p->job->file->table;
    uint32_t at = t->rows[x->row].t.storage;
    return at == CKPT_NO_STORAGE ? NULL : &t->storages[at];
}

static struct sweep_item sweep_item(void *user, size_t i)
{
    struct copy_pool *p = user;
    struct copy_item x = item_at(p, i);
    return (struct sweep_item){.file = p->job->file, .row = x.row, .storage = x.storage};
}

/* as_written - N bytes that are read, once they are converted. */
static uint64_t as_written(const struct range *r, uint64_t n)
{
    return r->c ? n / r->c->in_width * r->c->out_width : n; /* bounded: the writer laid out all of them */
}

static ckpt_status in_item(const struct copy_item *x, ckpt_status st, ckpt_error *err)
{
    if (st != CKPT_OK && x->name.len)
        fail_where(err, "%.*s", STR_ARG(x->name));
    return st;
}

/* ------------------------------------------------------------------ workers */

static ckpt_status make_input(struct worker *w, ckpt_error *err)
{
    if (!w->in)
        w->in = aligned_alloc(64, FD_CHUNK);
    return w->in ? CKPT_OK : fail_memory(err);
}

/* What is read at once: to IN, which is OUT unless it is converted to that. */
struct chunk {
    unsigned char *in, *out;
    size_t n;
};

/* make_room - for a chunk of at most K->n bytes. */
static ckpt_status make_room(const struct range *r, struct chunk *k, ckpt_error *err)
{
    CKPT_TRY(buffered_space(&r->w->out, &k->out, &k->n, err));
    k->in = k->out;
    if (!r->c)
        return CKPT_OK;
    CKPT_TRY(make_input(r->w, err));
    size_t elements = k->n / r->c->out_width, most = FD_CHUNK / r->c->in_width;
    k->in = r->w->in;
    k->n = (elements < most ? elements : most) * r->c->in_width; /* bounded: FD_CHUNK */
    return CKPT_OK;
}

/* ------------------------------------------------------------------ copying */

/* is_summed - does anyone ask for the CRC-32 of what is stored in R, a storage? */
static bool is_summed(const struct range *r) { return r->p->job->crcs || r->item.storage->has_crc; }

/* read_chunk - the next K->n bytes of R, or fewer: K->n is how many. */
static ckpt_status read_chunk(struct range *r, struct chunk *k, ckpt_error *err)
{
    const struct storage *s = r->item.storage;
    uint64_t left = r->end - r->at;
    if (!s)
        return in_item(&r->item, stream_next(r->s, k->in, k->n, &k->n, err), err);
    k->n = k->n < left ? k->n : (size_t)left;
    if (s->swap > 1 && k->n > s->swap)
        k->n -= k->n % s->swap;
    CKPT_TRY(window_read(&r->w->window, s->src, s->off + r->at, k->in, k->n, err)); /* bounded: inside it */
    if (is_summed(r))
        r->stored_crc = crc32_update(r->stored_crc, k->in, k->n);
    if (s->swap)
        swap_bytes(k->in, k->n, s->swap);
    return CKPT_OK;
}

/* wrong_size - R gives N bytes next and nothing more. */
static ckpt_status wrong_size(const struct range *r, size_t n, ckpt_error *err)
{
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "gave %llu bytes instead of %llu",
                (unsigned long long)as_written(r, r->at + n), (unsigned long long)as_written(r, r->end));
}

/* move_on - N bytes of R are where they belong. */
static ckpt_status move_on(struct range *r, uint64_t n, ckpt_error *err)
{
    r->at += n; /* bounded: up to end, as are the next two */
    r->offset += as_written(r, n);
    r->done.nbytes += as_written(r, n);
    return sweep_moved(r->run, n) ? CKPT_OK
                                  : fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
}

/* copy_range - R up to its end. What the sink refuses is no fault of the item, and does not name it. */
static ckpt_status copy_range(struct range *r, ckpt_error *err)
{
    const struct storage *s = r->item.storage;
    bool as_stored = s && !s->swap && !r->c;
    CKPT_TRY(buffered_seek(&r->w->out, r->offset, err));
    while (r->at < r->end) {
        struct chunk k;
        CKPT_TRY(make_room(r, &k, err));
        CKPT_TRY(read_chunk(r, &k, err));
        if (k.n == 0 || k.n > r->end - r->at)
            return in_item(&r->item, wrong_size(r, k.n, err), err);
        size_t len = (size_t)as_written(r, k.n);
        if (r->c)
            convert_run(r->c, k.in, k.n / r->c->in_width, k.out, &r->done.tally);
        if (r->p->job->crcs)
            r->done.crc = as_stored ? r->stored_crc : crc32_update(r->done.crc, k.out, len);
        buffered_add(&r->w->out, len);
        CKPT_TRY(move_on(r, k.n, err));
    }
    return CKPT_OK;
}

/* share_blocks - bytes [*FROM, *END) of R, a storage, that the file system lets the sink have in common with
 * the input; none where it cannot. */
static void share_blocks(const struct range *r, uint64_t *from, uint64_t *end)
{
    const struct storage *s = r->item.storage;
    sink *out = r->p->job->out;
    uint64_t at, n = r->end - r->at;
    int fd;
    *from = *end = r->end;
    if (!out || r->c || s->swap || n < SINK_CLONE_LEAST ||
        !source_extent(s->src, s->off + r->at, &fd, &at) || /* bounded: inside its source */
        at % SINK_PAGE != r->offset % SINK_PAGE)
        return;
    uint64_t before = (SINK_PAGE - at % SINK_PAGE) % SINK_PAGE;
    n = (n - before) / SINK_PAGE * SINK_PAGE;
    if (!sink_clone(out, r->offset + before, fd, at + before, n)) /* bounded: below n */
        return;
    *from = r->at + before; /* bounded: inside R */
    *end = *from + n;
}

/* sum_shared - the CRC-32 of R up to END, which is where it belongs. */
static ckpt_status sum_shared(struct range *r, uint64_t end, ckpt_error *err)
{
    const struct storage *s = r->item.storage;
    CKPT_TRY(r->at < end ? make_input(r->w, err) : CKPT_OK);
    while (r->at < end) {
        size_t n = end - r->at < FD_CHUNK ? (size_t)(end - r->at) : FD_CHUNK;
        CKPT_TRY(source_read(s->src, s->off + r->at, r->w->in, n, err)); /* bounded: inside its source */
        r->done.crc = r->stored_crc = crc32_update(r->stored_crc, r->w->in, n);
        CKPT_TRY(move_on(r, n, err));
    }
    return CKPT_OK;
}

/* copy_storage - copy_range of a storage, without what can be shared. */
static ckpt_status copy_storage(struct range *r, ckpt_error *err)
{
    uint64_t end = r->end, shared_end;
    if (r->at == end)
        return CKPT_OK;
    source_sequential(r->item.storage->src);
    share_blocks(r, &r->end, &shared_end);
    CKPT_TRY(copy_range(r, err));
    CKPT_TRY(is_summed(r) ? sum_shared(r, shared_end, err) : move_on(r, shared_end - r->at, err));
    r->end = end;
    return copy_range(r, err);
}

/* -------------------------------------------------------------------- items */

/* start_range - R for the worker of RUN: PART of item I, or all of it if that is NULL. */
static ckpt_status start_range(struct range *r, size_t i, const struct sweep_part *part, ckpt_error *err)
{
    const struct copy_pool *p = r->p;
    struct copy_item *x = &r->item;
    r->w = &p->workers[sweep_worker(r->run)];
    r->number = p->picked ? p->picked[i] : i;
    *x = item_at(p, i);
    bool converts = x->from != x->to && conversion_init(&r->w->conversion, x->from, x->to);
    r->c = converts ? &r->w->conversion : NULL;
    const ckpt_tensor *t = x->storage ? NULL : &p->job->file->table.rows[x->row].t;
    uint64_t width = t ? dtype_info((ckpt_dtype)t->dtype)->block_bytes : 1;
    r->at = part ? part->first * width : 0; /* bounded: inside the item, as is the next */
    r->end = part ? r->at + part->count * width : t ? t->nbytes : x->storage->s.nbytes;
    r->offset = x->offset + as_written(r, r->at);
    if (r->w->out.block)
        return CKPT_OK;
    buf_init(&r->w->header, SIZE_MAX / 2);
    return buffered_open(&r->w->out, p->job->out, err);
}

/* put_header - of R's item, if R begins it. */
static ckpt_status put_header(const struct range *r, ckpt_error *err)
{
    const struct copy_job *job = r->p->job;
    buf *b = &r->w->header;
    if (!job->out || !job->put_header || r->at)
        return CKPT_OK;
    b->len = 0;
    CKPT_TRY(job->put_header(job->user, r->number, b, err));
    CKPT_TRY(buffered_seek(&r->w->out, r->offset - b->len, err)); /* bounded: there is room for it */
    return buffered_put(&r->w->out, b->data, b->len, err);
}

/* copy_row - by a stream of PART, or of all of it if that is NULL. */
static ckpt_status copy_row(struct range *r, const struct sweep_part *part, ckpt_error *err)
{
    struct table *t = &r->p->job->file->table;
    struct stream_options o = r->p->job->reading;
    o.window = &r->w->window;
    ckpt_status st = part ? stream_open_part(t, r->item.row, part->first, part->count, &r->s, err)
                          : stream_open(t, r->item.row, &o, &r->s, err);
    CKPT_TRY(in_item(&r->item, st, err));
    st = copy_range(r, err);
    r->stored_crc = stream_crc(r->s);
    stream_close(r->s);
    return st;
}

static ckpt_status copy_elements(struct range *r, size_t i, const struct sweep_part *part, ckpt_error *err)
{
    CKPT_TRY(start_range(r, i, part, err));
    CKPT_TRY(put_header(r, err));
    return r->item.storage ? copy_storage(r, err) : copy_row(r, part, err);
}

/* end_item - R, all of whose item is copied, by its writer or in parts that were flushed. */
static ckpt_status end_item(const struct range *r, struct buffered_writer *writer, ckpt_error *err)
{
    const struct copy_job *job = r->p->job;
    unsigned char crc[4];
    if (job->crcs)
        job->crcs[r->number] = r->done.crc;
    if (job->tallies)
        job->tallies[r->number] = r->done.tally;
    if (!job->out || !r->item.crc_offset)
        return CKPT_OK;
    store_u32le(crc, r->done.crc);
    return buffered_patch(writer, r->item.crc_offset, crc, sizeof crc, err);
}

static ckpt_status copy_whole(void *user, size_t i, struct sweep_run *run, ckpt_error *err)
{
    struct range r = {.p = user, .run = run};
    CKPT_TRY(copy_elements(&r, i, NULL, err));
    CKPT_TRY(end_item(&r, &r.w->out, err));
    return r.item.storage ? storage_crc(r.item.storage, r.stored_crc, &r.p->job->reading, err) : CKPT_OK;
}

/* copy_part - leaves nothing with its writer where the thread that patches the header may be another. */
static ckpt_status copy_part(void *user, size_t i, struct sweep_part *part, struct sweep_run *run,
                             ckpt_error *err)
{
    struct range r = {.p = user, .run = run};
    struct copied *done = part->out = calloc(1, sizeof *done);
    CKPT_TRY(done ? copy_elements(&r, i, part, err) : fail_memory(err));
    *done = r.done;
    part->crc[0] = r.stored_crc;
    return r.item.crc_offset ? buffered_flush(&r.w->out, err) : CKPT_OK;
}

static ckpt_status join_parts(void *user, size_t i, const struct sweep_part *parts, size_t n, ckpt_error *err)
{
    const struct copy_pool *p = user;
    struct sweep_item whole = sweep_item(user, i);
    struct range r = {.p = p, .number = p->picked ? p->picked[i] : i, .item = item_at(p, i)};
    struct storage *s = storage_of(p, &r.item);
    for (size_t k = 0; k < n; k++) {
        const struct copied *part = parts[k].out;
        r.done.crc = crc32_combine(r.done.crc, part->crc, part->nbytes);
        r.done.nbytes += part->nbytes; /* bounded: laid out, and so many elements */
        r.done.tally.overflowed += part->tally.overflowed;
    }
    CKPT_TRY(end_item(&r, &(struct buffered_writer){.to = p->job->out}, err));
    if (!r.item.storage && (!s->has_crc || s->crc_checked))
        return CKPT_OK;
    return in_item(&r.item, storage_crc(s, sweep_crc(&whole, parts, n, 0), &p->job->reading, err), err);
}

/* -------------------------------------------------------------------- joined */

/* pick_items - all, or those that a rehearsal reads. */
static ckpt_status pick_items(struct copy_pool *p, ckpt_error *err)
{
    const struct copy_job *job = p->job;
    p->n = job->n;
    if (job->out)
        return CKPT_OK;
    p->picked = calloc(job->n + 1, sizeof *p->picked);
    if (!p->picked)
        return fail_memory(err);
    p->n = 0;
    for (size_t i = 0; i < job->n; i++) {
        struct copy_item x = job->item(job->user, i);
        if (x.from != x.to || (x.storage && x.storage->has_crc && !x.storage->crc_checked))
            p->picked[p->n++] = (uint32_t)i;
    }
    return CKPT_OK;
}

/* locate_storages - if most will be read, all at once; what is wrong with one is found when it is read. */
static void locate_storages(const struct copy_pool *p)
{
    struct table *t = p->job->file ? &p->job->file->table : NULL;
    if (!t || p->n == 0 || p->n < t->nstorages / 4)
        return;
    struct copy_item x = item_at(p, 0);
    const struct storage *s = storage_of(p, &x);
    if (s && s->src)
        source_sequential(s->src);
    (void)table_locate(t, NULL);
}

/* report_progress - of what is written, by how much of what is read has been. */
static int report_progress(void *user, uint64_t done, uint64_t total)
{
    const struct copy_job *job = ((const struct copy_pool *)user)->job;
    const ckpt_write_options *o = job->options;
    if (!o->progress)
        return 0;
    if (total != job->nbytes)
        done = total ? (uint64_t)((double)done / (double)total * (double)job->nbytes) : 0;
    return o->progress(o->user, done < job->nbytes ? done : job->nbytes, job->nbytes);
}

static ckpt_status run_pool(struct copy_pool *p, ckpt_error *err)
{
    struct sweep s = {.n = p->n,
                      .threads = p->job->options->threads,
                      .item = sweep_item,
                      .work = copy_whole,
                      .part = copy_part,
                      .join = join_parts,
                      .progress = report_progress,
                      .user = p,
                      .progress_user = p};
    locate_storages(p);
    CKPT_TRY(sweep_run(&s, err));
    for (unsigned i = 0; i < p->nworkers; i++)
        if (p->workers[i].out.block)
            CKPT_TRY(buffered_flush(&p->workers[i].out, err));
    return CKPT_OK;
}

ckpt_status copy_items(const struct copy_job *job, ckpt_error *err)
{
    struct copy_pool p = {.job = job, .nworkers = pool_threads(job->options->threads)};
    p.workers = calloc(p.nworkers, sizeof *p.workers);
    ckpt_status st = p.workers ? pick_items(&p, err) : fail_memory(err);
    if (st == CKPT_OK)
        st = run_pool(&p, err);
    for (unsigned i = 0; p.workers && i < p.nworkers; i++) {
        buffered_close(&p.workers[i].out);
        free(p.workers[i].in);
        window_close(&p.workers[i].window);
        buf_free(&p.workers[i].header);
    }
    free(p.workers);
    free(p.picked);
    return st;
}

static struct copy_item only_item(const void *user, size_t i)
{
    (void)i;
    return *(const struct copy_item *)user;
}

ckpt_status copy_rest(ckpt_file *f, uint64_t from, sink *out, const ckpt_write_options *o, ckpt_error *err)
{
    struct storage rest = {.src = f->src, .off = from, .s.nbytes = f->src->size - from};
    const struct copy_item item = {.storage = &rest, .offset = sink_tell(out)};
    const struct copy_job job = {.out = out,
                                 .n = 1,
                                 .item = only_item,
                                 .user = &item,
                                 .nbytes = rest.s.nbytes,
                                 .options = o};
    CKPT_TRY(sink_skip(out, rest.s.nbytes, err));
    CKPT_TRY(copy_items(&job, err));
    return file_unchanged(f, err);
}
