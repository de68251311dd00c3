/* parallel_rows.c - see parallel_rows.h. A task of the pool is a chunk of a large item, or a group of
 * items: those that share a storage with an unchecked CRC-32, which the first of them checks. */
#include "core/parallel_rows.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/crc32.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "io/pool.h"

#define MIN_PARALLEL_BYTES (8u << 20) /* for fewer bytes a thread costs more than it saves */

/* An item that is a group of its own and is processed in chunks. */
struct chunked_item {
    struct parallel_chunk *chunks;
    uint32_t group, first, n; /* tasks [first, first + n) are its chunks */
    _Atomic uint32_t left;    /* chunks that are not done yet */
};

/* A task of the pool: a group of items, or one chunk of the only item of a group. */
struct task {
    uint32_t group;
    struct chunked_item *chunked; /* NULL: all of the group */
    uint32_t chunk;
};

struct parallel_state {
    const struct parallel_job *job;
    uint32_t *order;  /* items by group; NULL: each is a group of its own */
    uint32_t *starts; /* index in order of each group, and the end; NULL likewise */
    size_t ngroups, ntasks;
    struct chunked_item *chunked_items; /* in the order of their tasks */
    size_t nchunked;
    atomic_bool *ready; /* by item: processed, to be reported; NULL: nothing is reported */
    size_t next;        /* the first item that is not reported */
    _Atomic uint64_t bytes_done;
    uint64_t total;
    bool stopped; /* report or progress returned nonzero */
};

static struct parallel_item get_item(const struct parallel_state *t, size_t i)
{
    return t->job->get_item ? t->job->get_item(t->job->user, i) : t->job->items[i];
}

static uint32_t get_group_begin(const struct parallel_state *t, uint32_t g)
{
    return t->starts ? t->starts[g] : g;
}
static uint32_t get_group_end(const struct parallel_state *t, uint32_t g)
{
    return t->starts ? t->starts[g + 1] : g + 1;
}
/* get_group_item - returns item K in the order of the groups. */
static uint32_t get_group_item(const struct parallel_state *t, uint32_t k)
{
    return t->order ? t->order[k] : k;
}

/* What the callbacks of one task need. */
struct parallel_context {
    struct parallel_state *st;
    struct pool *pool;
    size_t task;
    unsigned worker; /* 0: the calling thread */
};

/* ------------------------------------------------------------------- groups */

struct group_builder {
    uint32_t *parent;          /* by item: an earlier one of its group, or itself if it is the first */
    uint32_t *owner, *other_owner; /* storage -> the first item that reads it */
};

/* find_leader - returns the first item of the group of item I. */
static uint32_t find_leader(uint32_t *parent, uint32_t i)
{
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

/* join_group - joins item I, which reads ROW of F, with the first item that reads the same storage. */
static void join_group(struct group_builder *j, uint32_t *owner, uint32_t i, const ckpt_file *f, uint32_t row)
{
    uint32_t at = f->table.rows[row].t.storage;
    if (at == CKPT_NO_STORAGE || at >= f->table.nstorages)
        return;
    const struct storage *st = &f->table.storages[at];
    if (!st->has_crc || st->crc_checked)
        return;
    if (owner[at] == UINT32_MAX) {
        owner[at] = i;
        return;
    }
    uint32_t a = find_leader(j->parent, owner[at]), b = find_leader(j->parent, i);
    j->parent[a > b ? a : b] = a > b ? b : a;
}

static uint32_t *make_owners(const ckpt_file *f)
{
    size_t n = f ? f->table.nstorages : 0;
    uint32_t *owner = malloc((n + 1) * sizeof *owner);
    for (size_t i = 0; owner && i < n; i++)
        owner[i] = UINT32_MAX;
    return owner;
}

/* list_groups - fills in order and starts: groups by their first item, items in ascending order. */
static ckpt_status list_groups(struct parallel_state *t, uint32_t *parent, ckpt_error *err)
{
    uint32_t n = (uint32_t)t->job->n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t l = find_leader(parent, i);
        t->order[i] = l == i ? (uint32_t)t->ngroups++ : t->order[l];
    }
    t->starts = calloc(t->ngroups + 1, sizeof *t->starts); /* bounded: below n */
    if (!t->starts)
        return fail_memory(err);
    for (uint32_t i = 0; i < n; i++) { /* from here on PARENT is the group of each item */
        parent[i] = t->order[i];
        t->starts[parent[i]]++;
    }
    for (uint32_t g = 0, at = 0; g <= t->ngroups; g++) {
        at += t->starts[g]; /* bounded: n in total */
        t->starts[g] = at;
    }
    for (uint32_t i = n; i-- > 0;) /* starts[g] is the end of group G, and becomes its begin */
        t->order[--t->starts[parent[i]]] = i;
    return CKPT_OK;
}

static uint64_t get_item_bytes(const struct parallel_item *x)
{
    if (x->storage)
        return x->storage->s.nbytes;
    uint64_t a = x->file->table.rows[x->row].t.nbytes;
    uint64_t b = x->other ? x->other->table.rows[x->other_row].t.nbytes : 0;
    return size_add(a, b);
}

/* -------------------------------------------------------------------- chunks */

/* get_element_width - returns the bytes of an element of X's row, or of its other row if SIDE is 1; 0: an
 * element is not whole bytes. */
static uint64_t get_element_width(const struct parallel_item *x, int side)
{
    const ckpt_file *f = side ? x->other : x->file;
    if (x->storage)
        return 1;
    const struct dtype_info *d = dtype_info((ckpt_dtype)f->table.rows[side ? x->other_row : x->row].t.dtype);
    return d->block_elems == 1 ? d->block_bytes : 0;
}

static uint64_t count_item_elements(const struct parallel_item *x)
{
    return x->storage ? x->storage->s.nbytes : x->file->table.rows[x->row].t.elements;
}

/* get_item_width - returns the bytes of an element, of the wider one of two rows; 0: not whole bytes. */
static uint64_t get_item_width(const struct parallel_item *x)
{
    uint64_t a = get_element_width(x, 0), b = x->other ? get_element_width(x, 1) : a;
    return !a || !b ? 0 : a > b ? a : b;
}

static bool can_split(const struct parallel_item *x)
{
    if (x->storage)
        return x->storage->src && !x->storage->src->serial;
    return stream_can_split(&x->file->table, x->row) &&
           (!x->other || stream_can_split(&x->other->table, x->other_row));
}

/* get_chunk_elements - returns the elements of each chunk of X; 0: X is not split. */
static uint64_t get_chunk_elements(const struct parallel_item *x)
{
    uint64_t width = get_item_width(x), per_chunk = width ? parallel_chunk_elements(width) : 0;
    return per_chunk && count_item_elements(x) > per_chunk && can_split(x) ? per_chunk : 0;
}

/* count_chunks - returns the number of chunks of group G; 1: it is not split. */
static uint64_t count_chunks(const struct parallel_state *t, uint32_t g)
{
    if (!t->job->process_chunk || get_group_end(t, g) - get_group_begin(t, g) != 1)
        return 1;
    struct parallel_item x = get_item(t, get_group_item(t, get_group_begin(t, g)));
    uint64_t per_chunk = get_chunk_elements(&x), n = per_chunk ? count_item_elements(&x) : 1;
    return per_chunk ? n / per_chunk + (n % per_chunk != 0) : 1;
}

static ckpt_status split_item(struct parallel_state *t, uint32_t group, uint32_t first, uint64_t n,
                              ckpt_error *err)
{
    struct parallel_item x = get_item(t, get_group_item(t, get_group_begin(t, group)));
    uint64_t per_chunk = get_chunk_elements(&x), elements = count_item_elements(&x);
    struct chunked_item *c = &t->chunked_items[t->nchunked];
    c->chunks = calloc((size_t)n, sizeof *c->chunks);
    if (!c->chunks)
        return fail_memory(err);
    c->group = group;
    c->first = first;
    c->n = (uint32_t)n;
    atomic_init(&c->left, c->n);
    for (uint32_t i = 0; i < c->n; i++) {
        uint64_t at = i * per_chunk; /* bounded: below elements */
        c->chunks[i].first = at;
        c->chunks[i].count = elements - at < per_chunk ? elements - at : per_chunk;
    }
    t->nchunked++;
    return CKPT_OK;
}

/* split_groups - splits each large item that is a group of its own into a task per chunk. */
static ckpt_status split_groups(struct parallel_state *t, ckpt_error *err)
{
    uint64_t tasks = 0;
    size_t chunked_items = 0;
    for (uint32_t g = 0; g < t->ngroups; g++) {
        uint64_t n = count_chunks(t, g);
        chunked_items += n > 1;
        if (!checked_add(tasks, n, &tasks) || tasks >= UINT32_MAX)
            return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "rows are too large to be read in chunks");
    }
    t->ntasks = (size_t)tasks;
    t->chunked_items = chunked_items ? calloc(chunked_items, sizeof *t->chunked_items) : NULL;
    if (chunked_items && !t->chunked_items)
        return fail_memory(err);
    for (uint32_t g = 0, at = 0; chunked_items && g < t->ngroups; g++) {
        uint64_t n = count_chunks(t, g);
        if (n > 1)
            CKPT_TRY(split_item(t, g, at, n, err));
        at += (uint32_t)n; /* bounded: tasks */
    }
    return CKPT_OK;
}

/* find_task - returns task I. */
static struct task find_task(const struct parallel_state *t, size_t i)
{
    size_t low = 0, high = t->nchunked;
    while (low < high) { /* the first chunked item whose tasks come after I */
        size_t mid = low + (high - low) / 2;
        if (t->chunked_items[mid].first <= i)
            low = mid + 1;
        else
            high = mid;
    }
    struct chunked_item *c = low ? &t->chunked_items[low - 1] : NULL;
    if (!c)
        return (struct task){.group = (uint32_t)i};
    if (i - c->first < c->n)
        return (struct task){c->group, c, (uint32_t)(i - c->first)};
    return (struct task){.group = c->group + 1 + (uint32_t)(i - c->first - c->n)}; /* bounded: ngroups */
}

static uint64_t get_chunk_bytes(const struct parallel_item *x, const struct parallel_chunk *p)
{
    uint64_t width = get_element_width(x, 0) + (x->other ? get_element_width(x, 1) : 0);
    return p->count * width; /* bounded: twice PARALLEL_CHUNK_BYTES */
}

/* get_task_bytes - returns the bytes of task I. */
static uint64_t get_task_bytes(void *user, size_t i)
{
    const struct parallel_state *t = user;
    struct task k = find_task(t, i);
    uint64_t n = 0;
    for (uint32_t at = get_group_begin(t, k.group); at < get_group_end(t, k.group); at++) {
        struct parallel_item x = get_item(t, get_group_item(t, at));
        if (k.chunked)
            return get_chunk_bytes(&x, &k.chunked->chunks[k.chunk]);
        n = size_add(n, get_item_bytes(&x));
    }
    return n;
}

uint32_t parallel_combine_crc(enum crc_kind kind, const struct parallel_item *x,
                              const struct parallel_chunk *chunks, size_t n, int side)
{
    uint64_t width = get_element_width(x, side);
    uint32_t crc = 0;
    for (size_t i = 0; i < n; i++)
        crc = crc_combine(kind, crc, chunks[i].crc[side], chunks[i].count * width); /* bounded: a chunk */
    return crc;
}

static ckpt_status compare_side_crc(const struct parallel_item *x, const struct parallel_chunk *chunks,
                                    size_t n, int side, ckpt_error *err)
{
    ckpt_file *f = side ? x->other : x->file;
    struct storage *st = &f->table.storages[f->table.rows[side ? x->other_row : x->row].t.storage];
    struct stream_options o = tensor_stream_options(f);
    if (!st->has_crc || st->crc_checked)
        return CKPT_OK;
    return name_file_if_failed(
        storage_compare_crc(st, parallel_combine_crc(storage_crc_kind(st), x, chunks, n, side), &o, err),
        f->path, err);
}

ckpt_status parallel_check_crc(const struct parallel_item *x, const struct parallel_chunk *chunks, size_t n,
                               ckpt_error *err)
{
    CKPT_TRY(compare_side_crc(x, chunks, n, 0, err));
    return x->other ? compare_side_crc(x, chunks, n, 1, err) : CKPT_OK;
}

/* ------------------------------------------------------------------- grouping */

/* group_rows - puts items that read the same storage into one group. */
static ckpt_status group_rows(struct parallel_state *t, struct group_builder *j, ckpt_file *file,
                              ckpt_file *other, ckpt_error *err)
{
    uint32_t n = (uint32_t)t->job->n;
    if (!j->parent || !j->owner || !j->other_owner || !t->order)
        return fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        j->parent[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        struct parallel_item x = get_item(t, i);
        if (x.storage)
            continue;
        join_group(j, j->owner, i, file, x.row);
        if (other)
            join_group(j, other == file ? j->owner : j->other_owner, i, other, x.other_row);
    }
    return list_groups(t, j->parent, err);
}

/* make_groups - groups the items, which all have the same files, or are all storages. */
static ckpt_status make_groups(struct parallel_state *t, ckpt_error *err)
{
    struct parallel_item x = get_item(t, 0);
    ckpt_status st = CKPT_OK;
    t->ngroups = t->job->n;
    if (!x.storage) {
        struct group_builder j = {calloc(t->job->n + 1, sizeof *j.parent), make_owners(x.file),
                                  make_owners(x.other)};
        t->order = calloc(t->job->n, sizeof *t->order);
        t->ngroups = 0;
        st = group_rows(t, &j, x.file, x.other, err);
        free(j.parent);
        free(j.owner);
        free(j.other_owner);
    }
    if (st == CKPT_OK)
        st = split_groups(t, err);
    for (size_t i = 0; st == CKPT_OK && i < t->ntasks; i++)
        t->total = size_add(t->total, get_task_bytes(t, i));
    return st;
}

/* ------------------------------------------------------------------ threads */

/* can_read_parallel - locates all storages of F; returns true if several threads can read them. */
static bool can_read_parallel(ckpt_file *f)
{
    if (!f)
        return true;
    if (f->ignore_crc || table_locate_sources(&f->table, NULL) != CKPT_OK)
        return false;
    for (size_t i = 0; i < f->table.nstorages; i++)
        if (f->table.storages[i].src && f->table.storages[i].src->serial)
            return false;
    return true;
}

/* can_read_storages_parallel - returns true if the storages that T's items read can be read by several
 * threads. */
static bool can_read_storages_parallel(const struct parallel_state *t)
{
    for (size_t i = 0; i < t->job->n; i++) {
        struct parallel_item x = get_item(t, i);
        source *src = x.storage ? x.storage->src : NULL;
        if (src && (src->serial || source_locate(src, NULL) != CKPT_OK))
            return false;
    }
    return true;
}

static unsigned choose_threads(const struct parallel_state *t)
{
    struct parallel_item x = get_item(t, 0);
    unsigned n = pool_threads(t->job->threads);
    if (n == 1 || t->total < MIN_PARALLEL_BYTES || !can_read_parallel(x.file) ||
        !can_read_parallel(x.other) || !can_read_storages_parallel(t))
        return 1;
    return n;
}

/* report_ready_items - reports the items that are ready, in order. */
static void report_ready_items(struct parallel_state *t)
{
    for (; t->ready && !t->stopped && t->next < t->job->n && atomic_load(&t->ready[t->next]); t->next++)
        t->stopped = t->job->report(t->job->user, t->next);
}

static void report_or_cancel(struct parallel_state *t, struct pool *p)
{
    report_ready_items(t);
    if (t->stopped)
        pool_cancel(p);
}

static void show_progress(struct parallel_state *t, struct pool *p)
{
    uint64_t done = atomic_load_explicit(&t->bytes_done, memory_order_relaxed);
    const struct parallel_job *s = t->job;
    done = done < t->total ? done : t->total;
    if (!t->stopped && s->progress && s->progress(s->progress_user, done, t->total))
        t->stopped = true;
    if (t->stopped)
        pool_cancel(p);
}

static void report_while_idle(void *user, struct pool *p)
{
    show_progress(user, p);
    report_or_cancel(user, p);
}

bool parallel_advance(struct parallel_context *run, uint64_t bytes)
{
    atomic_fetch_add_explicit(&run->st->bytes_done, bytes, memory_order_relaxed);
    if (run->worker == 0)
        show_progress(run->st, run->pool);
    return !pool_stopped(run->pool, run->task);
}

static void free_chunks(struct chunked_item *c)
{
    for (uint32_t i = 0; c->chunks && i < c->n; i++)
        free(c->chunks[i].out);
    free(c->chunks);
    c->chunks = NULL;
}

/* set_item_ready - makes item I, which is processed, ready to be reported. */
static void set_item_ready(struct parallel_state *t, size_t i, const struct parallel_context *run)
{
    if (t->ready)
        atomic_store(&t->ready[i], true);
    if (run->worker == 0)
        report_or_cancel(t, run->pool);
}

/* run_chunk - processes a chunk, and after the last chunk of an item joins them. */
static ckpt_status run_chunk(struct parallel_state *t, const struct task *k, struct parallel_context *run,
                             ckpt_error *err)
{
    struct chunked_item *c = k->chunked;
    size_t i = get_group_item(t, get_group_begin(t, k->group));
    CKPT_TRY(t->job->process_chunk(t->job->user, i, &c->chunks[k->chunk], run, err));
    if (atomic_fetch_sub(&c->left, 1) > 1)
        return CKPT_OK;
    CKPT_TRY(t->job->join_chunks(t->job->user, i, c->chunks, c->n, err));
    free_chunks(c);
    set_item_ready(t, i, run);
    return CKPT_OK;
}

static ckpt_status run_task(void *user, struct pool *p, size_t number, unsigned worker, ckpt_error *err)
{
    struct parallel_state *t = user;
    struct parallel_context run = {t, p, number, worker};
    struct task k = find_task(t, number);
    if (k.chunked)
        return run_chunk(t, &k, &run, err);
    for (uint32_t at = get_group_begin(t, k.group); at < get_group_end(t, k.group); at++) {
        size_t i = get_group_item(t, at);
        if (pool_stopped(p, number))
            return CKPT_ECANCELLED;
        CKPT_TRY(t->job->process(t->job->user, i, &run, err));
        set_item_ready(t, i, &run);
    }
    return CKPT_OK;
}

/* check_unchanged_files - returns ST, the status of reading, or CKPT_ECHANGED if a file changed meanwhile. */
static ckpt_status check_unchanged_files(const struct parallel_state *t, ckpt_status st, ckpt_error *err)
{
    const ckpt_file *file = NULL, *other = NULL;
    if (st == CKPT_OK && t->job->defers_check)
        return CKPT_OK;
    for (size_t i = 0; i < t->job->n; i++) {
        struct parallel_item x = get_item(t, i);
        ckpt_status now = x.file != file ? file_status_after_read(x.file, st, err) : st;
        if (now == st && x.other && x.other != other)
            now = file_status_after_read(x.other, st, err);
        if (now != st)
            return now;
        file = x.file;
        other = x.other;
    }
    return st;
}

unsigned parallel_worker(const struct parallel_context *run) { return run->worker; }

static ckpt_status run_all_tasks(struct parallel_state *t, ckpt_error *err)
{
    struct pool_job job = {
        .n = t->ntasks, .weigh = get_task_bytes, .task = run_task, .idle = report_while_idle, .user = t};
    job.threads = choose_threads(t);
    ckpt_status st = pool_run(&job, err);
    /* the last items; after a failure, those before the failed one, as a single thread would */
    report_ready_items(t);
    if (st == CKPT_OK && t->stopped)
        st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    return check_unchanged_files(t, st, err);
}

ckpt_status parallel_run(const struct parallel_job *s, ckpt_error *err)
{
    ckpt_error own;
    struct parallel_state t = {.job = s};
    if (s->n == 0)
        return CKPT_OK;
    if (s->n >= UINT32_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "%zu rows are too many to read at once", s->n);
    t.ready = s->report ? calloc(s->n, sizeof *t.ready) : NULL;
    atomic_init(&t.bytes_done, 0);
    ckpt_status st = t.ready || !s->report ? make_groups(&t, err) : fail_memory(err);
    if (st == CKPT_OK)
        st = run_all_tasks(&t, err ? err : &own);
    for (size_t i = 0; i < t.nchunked; i++)
        free_chunks(&t.chunked_items[i]);
    free(t.chunked_items);
    free(t.order);
    free(t.starts);
    free(t.ready);
    return st;
}
