/* copy_pool.c - see copy_pool.h. An item, or 64 MiB of a large one (core/parallel_rows), is copied by one
 * worker: it reads at most FD_CHUNK bytes at a time straight into its output buffer, or, if they are
 * converted, into an input buffer first. Where the file system can share blocks between files, large
 * storages are not copied at all. */
#include "core/copy_pool.h"

#include <stdlib.h>

#include "base/store.h"
#include "core/elements.h"
#include "core/parallel_rows.h"
#include "io/buffered_writer.h"
#include "io/fd.h"
#include "io/pool.h"

/* The buffers of one thread; allocated for its first item, because few files need all threads. */
struct copy_worker {
    struct buffered_writer out;
    unsigned char *in;    /* FD_CHUNK bytes to be converted, or only checksummed */
    struct window window; /* through which storages are read */
    struct conversion conversion;
    buf header;
};

struct copy_pool {
    const struct copy_job *job;
    struct copy_worker *workers;
    unsigned nworkers;
    uint32_t *picked; /* the items that a dry run reads; NULL: all */
    size_t n;
    bool locates_items; /* each item is located before it is read; else all were */
};

/* The results of copying an item or a chunk of it. */
struct copy_result {
    struct convert_tally tally;
    uint64_t nbytes;
    uint32_t crc; /* CRC-32 of the written bytes, if job->crcs is set */
};

/* The range of an item that one worker copies, and its progress. */
struct copy_range {
    const struct copy_pool *pool;
    struct copy_worker *worker;
    struct parallel_context *run;
    size_t number; /* index of the item in the job */
    struct copy_item item;
    stream *stream;      /* reads the tensor; NULL: ITEM is a storage */
    uint64_t pos, end;   /* bytes [POS, END) of the item, as they are read, are still to be copied */
    uint64_t offset;     /* where in the sink the byte at POS goes */
    uint32_t stored_crc; /* CRC of the stored bytes that were read, see stream_crc */
    struct copy_result result;
    const struct conversion *conversion; /* that of WORKER; NULL: the item is not converted */
};

static struct copy_item get_item(const struct copy_pool *pool, size_t index)
{
    return pool->job->get_item(pool->job->user, pool->picked ? pool->picked[index] : index);
}

/* get_item_storage - returns the storage that has the bytes of ITEM; NULL: a tensor without bytes. */
static struct storage *get_item_storage(const struct copy_pool *pool, const struct copy_item *item)
{
    if (item->storage)
        return item->storage;
    struct table *t = &pool->job->file->table;
    uint32_t at = table_storage_of(t, item->row);
    return at == CKPT_NO_STORAGE ? NULL : &t->storages[at];
}

static struct parallel_item get_parallel_item(void *user, size_t index)
{
    struct copy_pool *p = user;
    struct copy_item x = get_item(p, index);
    return (struct parallel_item){
        .file = p->job->file, .row = x.row, .storage = x.storage, .first = x.first, .count = x.count};
}

static uint64_t converted_size(const struct copy_range *range, uint64_t count)
{
    const struct conversion *c = range->conversion;
    return c ? count / c->unit.in_bytes * c->unit.out_bytes : count;
}

/* name_storage_if_failed - adds the name of the first tensor in STORAGE to ERR if ST is an error and ERR has
 * no name. Returns ST. */
static ckpt_status name_storage_if_failed(const struct copy_pool *pool, const struct storage *storage,
                                          ckpt_status st, ckpt_error *err)
{
    const ckpt_file *f = pool->job->file;
    uint32_t i = 0;
    if (st == CKPT_OK || !f || err->where[0])
        return st;
    const struct table *t = &f->table;
    while (i < t->nrows &&
           (table_storage_of(t, i) == CKPT_NO_STORAGE || &t->storages[table_storage_of(t, i)] != storage))
        i++;
    if (i < t->nrows)
        error_add_where(err, "%.*s", STR_ARG(table_name(t, i)));
    return st;
}

/* ------------------------------------------------------------------ workers */

static ckpt_status make_input_buffer(struct copy_worker *worker, ckpt_error *err)
{
    if (!worker->in)
        worker->in = aligned_alloc(64, FD_CHUNK);
    return worker->in ? CKPT_OK : fail_memory(err);
}

/* The buffers of one read: bytes are read into IN, and converted to OUT; without a conversion, IN is OUT. */
struct block {
    unsigned char *in, *out;
    size_t n; /* bytes in IN; before reading: how many fit */
};

/* reserve_block - sets BLOCK to buffers for one read, and BLOCK->n to how many bytes it may read. */
static ckpt_status reserve_block(const struct copy_range *range, struct block *block, ckpt_error *err)
{
    CKPT_TRY(buffered_get_space(&range->worker->out, &block->out, &block->n, err));
    block->in = block->out;
    if (!range->conversion)
        return CKPT_OK;
    CKPT_TRY(make_input_buffer(range->worker, err));
    const struct conversion *c = range->conversion;
    size_t units = block->n / c->unit.out_bytes, max_units = FD_CHUNK / c->unit.in_bytes;
    block->in = range->worker->in;
    block->n = (units < max_units ? units : max_units) * c->unit.in_bytes;
    return CKPT_OK;
}

/* ------------------------------------------------------------------ copying */

/* needs_crc - returns true if the CRC of the stored bytes of RANGE, a storage, is needed. */
static bool needs_crc(const struct copy_range *range)
{
    return range->pool->job->crcs || range->item.storage->has_crc;
}

/* read_elements - reads at most BLOCK->n bytes of RANGE, a tensor, and sets BLOCK->n to how many it has read:
 * whole units of the conversion, or 0 at the end. */
static ckpt_status read_elements(const struct copy_range *range, struct block *block, ckpt_error *err)
{
    size_t room = block->n, got, unit = range->conversion ? range->conversion->unit.in_bytes : 1;
    block->n = 0;
    do {
        CKPT_TRY(stream_next(range->stream, block->in + block->n, room - block->n, &got, err));
        block->n += got;
    } while (got && block->n % unit);
    return CKPT_OK;
}

/* read_block - reads at most the next BLOCK->n bytes of RANGE, and sets BLOCK->n to how many it has read. */
static ckpt_status read_block(struct copy_range *range, struct block *block, ckpt_error *err)
{
    const struct storage *s = range->item.storage;
    uint64_t left = range->end - range->pos;
    if (!s)
        return prefix_where_if_failed(read_elements(range, block, err), range->item.name, err);
    block->n = block->n < left ? block->n : (size_t)left;
    if (s->swap_width > 1 && block->n > s->swap_width)
        block->n -= block->n % s->swap_width;
    uint64_t at = s->off + range->pos;
    range->worker->window.block_end = s->off + range->end;
    ckpt_status st = window_read(&range->worker->window, s->src, at, block->in, block->n, err);
    CKPT_TRY(name_storage_if_failed(range->pool, s, st, err));
    if (needs_crc(range))
        range->stored_crc = crc_update(storage_crc_kind(s), range->stored_crc, block->in, block->n);
    if (s->swap_width)
        swap_bytes(block->in, block->n, s->swap_width);
    return CKPT_OK;
}

/* fail_wrong_size - reports that the next read of RANGE gave COUNT bytes, too many or too few. */
static ckpt_status fail_wrong_size(const struct copy_range *range, size_t count, ckpt_error *err)
{
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "reading it gave %llu bytes, not %llu",
                (unsigned long long)converted_size(range, range->pos + count),
                (unsigned long long)converted_size(range, range->end));
}

static ckpt_status advance_range(struct copy_range *range, uint64_t count, ckpt_error *err)
{
    range->pos += count; /* up to END; the two output sizes: the writer laid out all items */
    range->offset += converted_size(range, count);
    range->result.nbytes += converted_size(range, count);
    return parallel_advance(range->run, count)
               ? CKPT_OK
               : fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
}

/* copy_range - copies RANGE up to its end. Errors of the sink are not faults of the item, and do not name
 * it. */
static ckpt_status copy_range(struct copy_range *range, ckpt_error *err)
{
    const struct storage *s = range->item.storage;
    bool same_crc = s && !s->swap_width && !range->conversion &&
                    !s->is_crc32c; /* of read and written bytes */
    CKPT_TRY(buffered_seek(&range->worker->out, range->offset, err));
    while (range->pos < range->end) {
        struct block k;
        CKPT_TRY(reserve_block(range, &k, err));
        CKPT_TRY(read_block(range, &k, err));
        if (k.n == 0 || k.n > range->end - range->pos)
            return prefix_where_if_failed(fail_wrong_size(range, k.n, err), range->item.name, err);
        size_t len = (size_t)converted_size(range, k.n);
        if (range->conversion)
            convert_run(range->conversion, k.in,
                        k.n / range->conversion->unit.in_bytes * range->conversion->unit.elems, k.out,
                        &range->result.tally);
        if (range->pool->job->crcs)
            range->result.crc = same_crc ? range->stored_crc : crc32_update(range->result.crc, k.out, len);
        buffered_add(&range->worker->out, len);
        CKPT_TRY(advance_range(range, k.n, err));
    }
    return CKPT_OK;
}

/* share_blocks - lets the sink share with the input the blocks of RANGE, a storage, from *FROM to *END. The
 * two are equal if the file system cannot share any. */
static void share_blocks(const struct copy_range *range, uint64_t *from, uint64_t *end)
{
    const struct storage *s = range->item.storage;
    sink *out = range->pool->job->out;
    uint64_t at, n = range->end - range->pos;
    int fd;
    *from = *end = range->end;
    if (!out || range->conversion || s->swap_width || n < SINK_CLONE_LEAST ||
        !source_extent(s->src, s->off + range->pos, &fd, &at) || at % SINK_PAGE != range->offset % SINK_PAGE)
        return;
    uint64_t before = (SINK_PAGE - at % SINK_PAGE) % SINK_PAGE;
    n = (n - before) / SINK_PAGE * SINK_PAGE;
    if (!sink_clone(out, range->offset + before, fd, at + before, n))
        return;
    *from = range->pos + before;
    *end = *from + n;
}

/* compute_shared_crc - reads RANGE up to END, where the blocks are shared, and adds these bytes to its
 * CRCs. */
static ckpt_status compute_shared_crc(struct copy_range *range, uint64_t end, ckpt_error *err)
{
    const struct storage *s = range->item.storage;
    CKPT_TRY(range->pos < end ? make_input_buffer(range->worker, err) : CKPT_OK);
    while (range->pos < end) {
        size_t n = end - range->pos < FD_CHUNK ? (size_t)(end - range->pos) : FD_CHUNK;
        uint64_t from = s->off + range->pos;
        CKPT_TRY(source_read(s->src, from, range->worker->in, n, err));
        range->stored_crc = crc_update(storage_crc_kind(s), range->stored_crc, range->worker->in, n);
        range->result.crc = s->is_crc32c ? crc32_update(range->result.crc, range->worker->in, n)
                                         : range->stored_crc;
        CKPT_TRY(advance_range(range, n, err));
    }
    return CKPT_OK;
}

/* copy_storage - copies a storage as copy_range does, or shares its blocks if the file system can. */
static ckpt_status copy_storage(struct copy_range *range, ckpt_error *err)
{
    uint64_t end = range->end, shared_end;
    if (range->pos == end)
        return CKPT_OK;
    source_advise_sequential(range->item.storage->src);
    share_blocks(range, &range->end, &shared_end);
    CKPT_TRY(copy_range(range, err));
    CKPT_TRY(needs_crc(range) ? compute_shared_crc(range, shared_end, err)
                              : advance_range(range, shared_end - range->pos, err));
    range->end = end;
    return copy_range(range, err);
}

/* -------------------------------------------------------------------- items */

/* start_range - makes RANGE the range CHUNK of item INDEX (NULL: all of the item), for the worker of this
 * thread. */
static ckpt_status start_range(struct copy_range *range, size_t index, const struct parallel_chunk *chunk,
                               ckpt_error *err)
{
    const struct copy_pool *p = range->pool;
    struct copy_item *x = &range->item;
    range->worker = &p->workers[parallel_worker(range->run)];
    range->number = p->picked ? p->picked[index] : index;
    *x = get_item(p, index);
    bool converts = x->from != x->to &&
                    conversion_init_float_or_q8_0(&range->worker->conversion, x->from, x->to);
    range->conversion = converts ? &range->worker->conversion : NULL;
    const struct table *t = x->storage ? NULL : &p->job->file->table;
    uint64_t width = t ? dtype_info(table_dtype_of(t, x->row))->block_bytes : 1;
    range->pos = chunk ? chunk->first * width : 0;
    range->end = chunk ? range->pos + chunk->count * width
                 : t   ? table_tensor(t, x->row).nbytes
                       : x->storage->nbytes;
    range->offset = x->offset + converted_size(range, range->pos);
    if (range->worker->out.block)
        return CKPT_OK;
    buf_init(&range->worker->header, SIZE_MAX / 2);
    return buffered_open(&range->worker->out, p->job->out, err);
}

/* locate_item - locates the storage of the item of RANGE, if it is in a file. */
static void locate_item(const struct copy_range *range)
{
    ckpt_error ignored;
    const struct storage *s = get_item_storage(range->pool, &range->item);
    if (range->pool->locates_items && s && s->src)
        (void)window_locate(&range->worker->window, s->src, &ignored);
}

/* put_header - writes the header of the item of RANGE, if RANGE begins at the first byte of the item. */
static ckpt_status put_header(const struct copy_range *range, ckpt_error *err)
{
    const struct copy_job *job = range->pool->job;
    buf *b = &range->worker->header;
    if (!job->out || !job->put_header || range->pos)
        return CKPT_OK;
    b->len = 0;
    CKPT_TRY(job->put_header(job->user, range->number, b, err));
    CKPT_TRY(buffered_seek(&range->worker->out, range->offset - b->len, err));
    return buffered_put(&range->worker->out, b->data, b->len, err);
}

/* copy_row - copies CHUNK of a tensor, or all of the tensor if CHUNK is NULL, by a stream. */
static ckpt_status copy_row(struct copy_range *range, const struct parallel_chunk *chunk, ckpt_error *err)
{
    struct table *t = &range->pool->job->file->table;
    struct stream_options o = range->pool->job->read_options;
    o.window = &range->worker->window;
    ckpt_status st = chunk ? stream_open_range(t, range->item.row, chunk->first, chunk->count, o.window,
                                               &range->stream, err)
                           : stream_open(t, range->item.row, &o, &range->stream, err);
    CKPT_TRY(prefix_where_if_failed(st, range->item.name, err));
    st = copy_range(range, err);
    range->stored_crc = stream_crc(range->stream);
    stream_close(range->stream);
    return st;
}

static ckpt_status copy_elements(struct copy_range *range, size_t index, const struct parallel_chunk *chunk,
                                 ckpt_error *err)
{
    CKPT_TRY(start_range(range, index, chunk, err));
    locate_item(range);
    CKPT_TRY(put_header(range, err));
    return range->item.storage ? copy_storage(range, err) : copy_row(range, chunk, err);
}

/* record_stored_crc - records CRC, that of the stored bytes of the item of RANGE, if the item has a COUNT:
 * its storage is checked by the caller. Returns false for another item. */
static bool record_stored_crc(const struct copy_range *range, uint32_t crc)
{
    if (range->item.count && range->pool->job->stored_crcs)
        range->pool->job->stored_crcs[range->number] = crc;
    return range->item.count != 0;
}

/* finish_item - records the results of the item of RANGE, which was copied, and writes its CRC-32 by
 * WRITER. */
static ckpt_status finish_item(const struct copy_range *range, struct buffered_writer *writer,
                               ckpt_error *err)
{
    const struct copy_job *job = range->pool->job;
    unsigned char crc[4];
    if (job->crcs)
        job->crcs[range->number] = range->result.crc;
    if (job->tallies)
        job->tallies[range->number] = range->result.tally;
    if (!job->out || !range->item.crc_offset)
        return CKPT_OK;
    store_u32le(crc, range->result.crc);
    return buffered_patch(writer, range->item.crc_offset, crc, sizeof crc, err);
}

static ckpt_status copy_one_item(void *user, size_t index, struct parallel_context *run, ckpt_error *err)
{
    struct copy_range r = {.pool = user, .run = run};
    struct copy_item x = get_item(user, index);
    const struct parallel_chunk elements = {.first = x.first, .count = x.count};
    CKPT_TRY(copy_elements(&r, index, x.count ? &elements : NULL, err));
    CKPT_TRY(finish_item(&r, &r.worker->out, err));
    if (record_stored_crc(&r, r.stored_crc))
        return CKPT_OK;
    return r.item.storage ? storage_compare_crc(r.item.storage, r.stored_crc, &r.pool->job->read_options, err)
                          : CKPT_OK;
}

/* copy_item_chunk - copies one chunk of item INDEX. Flushes the writer if the header has a CRC-32, because a
 * different thread may patch it. */
static ckpt_status copy_item_chunk(void *user, size_t index, struct parallel_chunk *chunk,
                                   struct parallel_context *run, ckpt_error *err)
{
    struct copy_range r = {.pool = user, .run = run};
    struct copy_result *done = chunk->out = calloc(1, sizeof *done);
    CKPT_TRY(done ? copy_elements(&r, index, chunk, err) : fail_memory(err));
    *done = r.result;
    chunk->crc[0] = r.stored_crc;
    return r.item.crc_offset ? buffered_flush(&r.worker->out, err) : CKPT_OK;
}

static ckpt_status join_item_chunks(void *user, size_t index, const struct parallel_chunk *chunks,
                                    size_t count, ckpt_error *err)
{
    const struct copy_pool *p = user;
    struct parallel_item item = get_parallel_item(user, index);
    struct copy_range r = {
        .pool = p, .number = p->picked ? p->picked[index] : index, .item = get_item(p, index)};
    struct storage *s = get_item_storage(p, &r.item);
    for (size_t k = 0; k < count; k++) {
        const struct copy_result *chunk = chunks[k].out;
        r.result.crc = crc_combine(CRC_32, r.result.crc, chunk->crc, chunk->nbytes);
        r.result.nbytes += chunk->nbytes;
        r.result.tally.overflowed += chunk->tally.overflowed;
    }
    CKPT_TRY(finish_item(&r, &(struct buffered_writer){.to = p->job->out}, err));
    enum crc_kind kind = s ? storage_crc_kind(s) : CRC_32;
    if (record_stored_crc(&r, parallel_combine_crc(kind, &item, chunks, count, 0)))
        return CKPT_OK;
    if (!r.item.storage && (!s->has_crc || s->crc_checked))
        return CKPT_OK;
    uint32_t crc = parallel_combine_crc(kind, &item, chunks, count, 0);
    return prefix_where_if_failed(storage_compare_crc(s, crc, &p->job->read_options, err), r.item.name, err);
}

/* -------------------------------------------------------------------- all items */

/* pick_items - picks all items or, for a dry run, those that it reads. */
static ckpt_status pick_items(struct copy_pool *pool, ckpt_error *err)
{
    const struct copy_job *job = pool->job;
    pool->n = job->n;
    if (job->out)
        return CKPT_OK;
    pool->picked = calloc(job->n + 1, sizeof *pool->picked);
    CKPT_TRY_ALLOC(pool->picked, err);
    pool->n = 0;
    for (size_t i = 0; i < job->n; i++) {
        struct copy_item x = job->get_item(job->user, i);
        if (x.from != x.to || (x.storage && x.storage->has_crc && !x.storage->crc_checked))
            pool->picked[pool->n++] = (uint32_t)i;
    }
    return CKPT_OK;
}

/* locate_storages - locates all storages at once if many of them will be read. Returns false if they are
 * stored unchanged in a file: then each one is located when it is read, because both are read by the same
 * window. A storage that cannot be located is reported when it is read. */
static bool locate_storages(const struct copy_pool *pool)
{
    ckpt_error ignored;
    int fd;
    uint64_t at;
    struct table *t = pool->job->file ? &pool->job->file->table : NULL;
    if (!t || pool->n == 0 || pool->n < t->nstorages / 4)
        return true;
    struct copy_item x = get_item(pool, 0);
    const struct storage *s = get_item_storage(pool, &x);
    if (s && s->src)
        source_advise_sequential(s->src);
    if (s && s->src && source_extent(s->src, s->off, &fd, &at))
        return false;
    (void)table_locate(t, &ignored);
    return true;
}

/* report_progress - scales the bytes read so far to the bytes to be written. */
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

static ckpt_status run_pool(struct copy_pool *pool, ckpt_error *err)
{
    pool->locates_items = !locate_storages(pool);
    struct parallel_job s = {.defers_check = true,
                             .n = pool->n,
                             .locates_items = pool->locates_items,
                             .threads = pool->job->options->threads,
                             .get_item = get_parallel_item,
                             .process = copy_one_item,
                             .process_chunk = copy_item_chunk,
                             .join_chunks = join_item_chunks,
                             .progress = report_progress,
                             .user = pool,
                             .progress_user = pool};
    CKPT_TRY(parallel_run(&s, err));
    for (unsigned i = 0; i < pool->nworkers; i++)
        if (pool->workers[i].out.block)
            CKPT_TRY(buffered_flush(&pool->workers[i].out, err));
    return CKPT_OK;
}

ckpt_status copy_items(const struct copy_job *job, ckpt_error *err)
{
    struct copy_pool p = {.job = job, .nworkers = pool_threads(job->options->threads)};
    p.workers = calloc(p.nworkers, sizeof *p.workers);
    ckpt_status st = p.workers ? pick_items(&p, err) : fail_memory(err);
    size_t share = PARALLEL_BLOCK_BYTES / p.nworkers;
    for (unsigned i = 0; p.workers && i < p.nworkers; i++)
        p.workers[i].window.max_block = share < PARALLEL_LARGE_BLOCK ? PARALLEL_LARGE_BLOCK : share;
    CKPT_THEN(st, run_pool(&p, err));
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

static struct copy_item get_only_item(const void *user, size_t index)
{
    (void)index;
    return *(const struct copy_item *)user;
}

ckpt_status copy_file_tail(ckpt_file *f, uint64_t from, sink *out, const ckpt_write_options *opts,
                           ckpt_error *err)
{
    struct storage tail = {.src = f->src, .off = from, .nbytes = f->src->size - from};
    const struct copy_item item = {.storage = &tail, .offset = sink_tell(out)};
    const struct copy_job job = {
        .out = out, .n = 1, .get_item = get_only_item, .user = &item, .nbytes = tail.nbytes, .options = opts};
    CKPT_TRY(sink_skip(out, tail.nbytes, err));
    CKPT_TRY(copy_items(&job, err));
    return file_check_unchanged(f, err);
}
