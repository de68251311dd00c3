/* parallel_rows.c - see parallel_rows.h. A task of the pool is a chunk of a large item, or a group of items.
 * Items that share a storage with an unchecked CRC are one group, because the first of them checks it. */
#include "core/parallel_rows.h"

#include <stdlib.h>

#include "core/tensor.h"
#include "io/pool.h"

#define ANNOUNCED_BYTES    ((uint64_t)48 << 20) /* that are announced to a server at a time */
#define MIN_PARALLEL_BYTES (8u << 20)           /* for fewer bytes a thread costs more than it saves */

/* An item that is a group of its own and is processed in chunks. */
struct chunked_item {
    struct parallel_chunk *chunks;
    uint32_t group;
    uint32_t first_task, nchunks; /* its chunks are the tasks [first_task, first_task + nchunks) */
    _Atomic uint32_t chunks_left; /* not processed yet */
};

/* A task of the pool: a group of items, or one chunk of the only item of a group. */
struct task {
    uint32_t group;
    struct chunked_item *chunked; /* NULL: the task is all of the group */
    uint32_t chunk;               /* index in chunked->chunks */
};

struct parallel_state {
    const struct parallel_job *job;
    uint32_t *order;  /* the numbers of all items, sorted by group; NULL: each item is a group of its own */
    uint32_t *starts; /* group G is [starts[G], starts[G + 1]) of ORDER; NULL if ORDER is */
    size_t ngroups, ntasks;
    struct chunked_item *chunked_items; /* in the order of their tasks */
    size_t nchunked;
    atomic_bool *is_ready; /* by item: it was processed; NULL: nothing is reported */
    size_t next_report;    /* the first item that is not reported */
    _Atomic uint64_t bytes_done;
    uint64_t total_bytes;
    bool stopped;            /* report or progress returned nonzero */
    uint32_t next_announced; /* place in the order of the groups: items before it were announced */
};

static struct parallel_item get_item(const struct parallel_state *state, size_t index)
{
    return state->job->get_item ? state->job->get_item(state->job->user, index) : state->job->items[index];
}

static uint32_t get_group_begin(const struct parallel_state *state, uint32_t group)
{
    return state->starts ? state->starts[group] : group;
}
static uint32_t get_group_end(const struct parallel_state *state, uint32_t group)
{
    return state->starts ? state->starts[group + 1] : group + 1;
}
/* get_group_item - returns item INDEX in the order of the groups. */
static uint32_t get_group_item(const struct parallel_state *state, uint32_t index)
{
    return state->order ? state->order[index] : index;
}

/* What the callbacks of one task need. */
struct parallel_context {
    struct parallel_state *state;
    struct pool *pool;
    size_t task;
    unsigned worker; /* 0: the calling thread */
};

/* ------------------------------------------------------------------- groups */

struct group_builder {
    uint32_t *parent; /* by item: an earlier item of its group; the item itself if it is the first */
    /* By storage of the items' FILE, and of their OTHER: the first item that reads it. */
    uint32_t *first_reader, *first_reader_of_other;
};

/* find_leader - returns the first item of the group of item INDEX. */
static uint32_t find_leader(uint32_t *parent, uint32_t index)
{
    while (parent[index] != index) {
        parent[index] = parent[parent[index]];
        index = parent[index];
    }
    return index;
}

/* join_group - joins the group of item INDEX, which reads ROW of F, with that of the first item in
 * FIRST_READER that reads the same storage, if the storage has an unchecked CRC. */
static void join_group(struct group_builder *builder, uint32_t *first_reader, uint32_t index,
                       const ckpt_file *f, uint32_t row)
{
    uint32_t number = table_storage_of(&f->table, row);
    if (number == CKPT_NO_STORAGE || number >= f->table.nstorages)
        return;
    const struct storage *storage = &f->table.storages[number];
    if (!storage->has_crc || storage->crc_checked)
        return;
    if (first_reader[number] == UINT32_MAX) {
        first_reader[number] = index;
        return;
    }
    uint32_t a = find_leader(builder->parent, first_reader[number]), b = find_leader(builder->parent, index);
    builder->parent[a > b ? a : b] = a > b ? b : a;
}

/* alloc_first_readers - allocates an array by storage of F. UINT32_MAX: no item reads the storage so far. */
static uint32_t *alloc_first_readers(const ckpt_file *f)
{
    size_t n = f ? f->table.nstorages : 0;
    uint32_t *first_reader = malloc((n + 1) * sizeof *first_reader);
    for (size_t i = 0; first_reader && i < n; i++)
        first_reader[i] = UINT32_MAX;
    return first_reader;
}

/* list_groups - fills state->order and state->starts: groups by their first item, items in ascending
 * order. */
static ckpt_status list_groups(struct parallel_state *state, uint32_t *parent, ckpt_error *err)
{
    uint32_t n = (uint32_t)state->job->n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t leader = find_leader(parent, i);
        state->order[i] = leader == i ? (uint32_t)state->ngroups++
                                      : state->order[leader]; /* at first, the group of I */
    }
    state->starts = calloc(state->ngroups + 1, sizeof *state->starts);
    CKPT_TRY_ALLOC(state->starts, err);
    for (uint32_t i = 0; i < n; i++) { /* from here on PARENT is the group of each item */
        parent[i] = state->order[i];
        state->starts[parent[i]]++;
    }
    for (uint32_t g = 0, at = 0; g <= state->ngroups; g++) {
        at += state->starts[g];
        state->starts[g] = at;
    }
    for (uint32_t i = n; COUNT_DOWN(i);) /* starts[g] is the end of group G, and becomes its begin */
        state->order[--state->starts[parent[i]]] = i;
    return CKPT_OK;
}

/* get_element_width - returns the bytes of an element of ITEM's tensor, or of the other one if SIDE is 1; 0:
 * they are no whole number. */
static uint64_t get_element_width(const struct parallel_item *item, int side)
{
    const ckpt_file *f = side ? item->other : item->file;
    if (item->storage)
        return 1;
    const struct dtype_info *d = dtype_info(table_dtype_of(&f->table, side ? item->other_row : item->row));
    return d->block_elems == 1 ? d->block_bytes : 0;
}

static uint64_t get_item_bytes(const struct parallel_item *item)
{
    if (item->count) /* a range of one tensor, whose size fits */
        return item->count * get_element_width(item, 0);
    if (item->storage)
        return item->storage->nbytes;
    uint64_t a = table_nbytes_of(&item->file->table, item->row);
    uint64_t b = item->other ? table_nbytes_of(&item->other->table, item->other_row) : 0;
    return size_add(a, b);
}

/* -------------------------------------------------------------------- chunks */

static uint64_t count_item_elements(const struct parallel_item *item)
{
    if (item->count)
        return item->count;
    return item->storage ? item->storage->nbytes : table_elements_of(&item->file->table, item->row);
}

/* get_item_width - returns the larger element width of ITEM's one or two tensors; 0 if one of the two is
 * 0. */
static uint64_t get_item_width(const struct parallel_item *item)
{
    uint64_t a = get_element_width(item, 0), b = item->other ? get_element_width(item, 1) : a;
    return !a || !b ? 0 : a > b ? a : b;
}

static bool can_split(const struct parallel_item *item)
{
    if (item->storage)
        return item->storage->src && !item->storage->src->serializes_reads;
    return stream_can_split(&item->file->table, item->row) &&
           (!item->other || stream_can_split(&item->other->table, item->other_row));
}

/* get_chunk_elements - returns the elements of each chunk of ITEM; 0: ITEM is not split. */
static uint64_t get_chunk_elements(const struct parallel_item *item)
{
    uint64_t width = get_item_width(item), per_chunk = width ? parallel_chunk_elements(width) : 0;
    return per_chunk && count_item_elements(item) > per_chunk && can_split(item) ? per_chunk : 0;
}

/* count_chunks - returns the number of chunks of group GROUP; 1: it is not split. */
static uint64_t count_chunks(const struct parallel_state *state, uint32_t group)
{
    if (!state->job->process_chunk || get_group_end(state, group) - get_group_begin(state, group) != 1)
        return 1;
    struct parallel_item x = get_item(state, get_group_item(state, get_group_begin(state, group)));
    uint64_t per_chunk = get_chunk_elements(&x), n = per_chunk ? count_item_elements(&x) : 1;
    return per_chunk ? n / per_chunk + (n % per_chunk != 0) : 1;
}

static ckpt_status split_item(struct parallel_state *state, uint32_t group, uint32_t first_task,
                              uint64_t count, ckpt_error *err)
{
    struct parallel_item x = get_item(state, get_group_item(state, get_group_begin(state, group)));
    uint64_t per_chunk = get_chunk_elements(&x), elements = count_item_elements(&x);
    struct chunked_item *c = &state->chunked_items[state->nchunked];
    c->chunks = calloc((size_t)count, sizeof *c->chunks);
    CKPT_TRY_ALLOC(c->chunks, err);
    c->group = group;
    c->first_task = first_task;
    c->nchunks = (uint32_t)count;
    atomic_init(&c->chunks_left, c->nchunks);
    for (uint32_t i = 0; i < c->nchunks; i++) {
        uint64_t begin = i * per_chunk;
        c->chunks[i].first = x.first + begin;
        c->chunks[i].count = elements - begin < per_chunk ? elements - begin : per_chunk;
    }
    state->nchunked++;
    return CKPT_OK;
}

/* split_groups - splits each large item that is a group of its own into a task per chunk. */
static ckpt_status split_groups(struct parallel_state *state, ckpt_error *err)
{
    uint64_t tasks = 0;
    size_t chunked_items = 0;
    for (uint32_t g = 0; g < state->ngroups; g++) {
        uint64_t n = count_chunks(state, g);
        chunked_items += n > 1;
        if (!checked_add(tasks, n, &tasks) || tasks >= UINT32_MAX)
            return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "the tensors are too large to be read in chunks");
    }
    state->ntasks = (size_t)tasks;
    state->chunked_items = chunked_items ? calloc(chunked_items, sizeof *state->chunked_items) : NULL;
    if (chunked_items && !state->chunked_items)
        return fail_memory(err);
    for (uint32_t g = 0, at = 0; chunked_items && g < state->ngroups; g++) {
        uint64_t n = count_chunks(state, g);
        if (n > 1)
            CKPT_TRY(split_item(state, g, at, n, err));
        at += (uint32_t)n;
    }
    return CKPT_OK;
}

static struct task find_task(const struct parallel_state *state, size_t index)
{
    size_t low = 0, high = state->nchunked;
    while (low < high) { /* the first chunked item whose tasks come after INDEX */
        size_t mid = low + (high - low) / 2;
        if (state->chunked_items[mid].first_task <= index)
            low = mid + 1;
        else
            high = mid;
    }
    struct chunked_item *c = low ? &state->chunked_items[low - 1] : NULL;
    if (!c)
        return (struct task){.group = (uint32_t)index};
    if (index - c->first_task < c->nchunks)
        return (struct task){c->group, c, (uint32_t)(index - c->first_task)};
    return (struct task){.group = c->group + 1 + (uint32_t)(index - c->first_task - c->nchunks)};
}

static uint64_t get_chunk_bytes(const struct parallel_item *item, const struct parallel_chunk *chunk)
{
    uint64_t width = get_element_width(item, 0) + (item->other ? get_element_width(item, 1) : 0);
    return chunk->count * width;
}

static uint64_t get_task_bytes(void *user, size_t index)
{
    const struct parallel_state *state = user;
    struct task task = find_task(state, index);
    uint64_t n = 0;
    for (uint32_t at = get_group_begin(state, task.group); at < get_group_end(state, task.group); at++) {
        struct parallel_item x = get_item(state, get_group_item(state, at));
        if (task.chunked)
            return get_chunk_bytes(&x, &task.chunked->chunks[task.chunk]);
        n = size_add(n, get_item_bytes(&x));
    }
    return n;
}

uint32_t parallel_combine_crc(enum crc_kind kind, const struct parallel_item *item,
                              const struct parallel_chunk *chunks, size_t count, int side)
{
    uint64_t width = get_element_width(item, side);
    uint32_t crc = 0;
    for (size_t i = 0; i < count; i++)
        crc = crc_combine(kind, crc, chunks[i].crc[side], chunks[i].count * width);
    return crc;
}

static ckpt_status compare_side_crc(const struct parallel_item *item, const struct parallel_chunk *chunks,
                                    size_t count, int side, ckpt_error *err)
{
    ckpt_file *f = side ? item->other : item->file;
    struct storage *storage =
        &f->table.storages[table_storage_of(&f->table, side ? item->other_row : item->row)];
    struct stream_options o = tensor_stream_options(f);
    if (!storage->has_crc || storage->crc_checked)
        return CKPT_OK;
    return name_file_if_failed(
        storage_compare_crc(
            storage, parallel_combine_crc(storage_crc_kind(storage), item, chunks, count, side), &o, err),
        f->path, err);
}

ckpt_status parallel_check_crc(const struct parallel_item *item, const struct parallel_chunk *chunks,
                               size_t count, ckpt_error *err)
{
    CKPT_TRY(compare_side_crc(item, chunks, count, 0, err));
    return item->other ? compare_side_crc(item, chunks, count, 1, err) : CKPT_OK;
}

/* ------------------------------------------------------------------- grouping */

/* group_rows - groups the items by the storages with an unchecked CRC that they read. */
static ckpt_status group_rows(struct parallel_state *state, struct group_builder *builder, ckpt_file *file,
                              ckpt_file *other, ckpt_error *err)
{
    uint32_t n = (uint32_t)state->job->n;
    CKPT_TRY_ALLOC(builder->parent && builder->first_reader && builder->first_reader_of_other && state->order,
                   err);
    for (uint32_t i = 0; i < n; i++)
        builder->parent[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        struct parallel_item x = get_item(state, i);
        if (x.storage)
            continue;
        join_group(builder, builder->first_reader, i, file, x.row);
        if (other)
            join_group(builder, other == file ? builder->first_reader : builder->first_reader_of_other, i,
                       other, x.other_row);
    }
    return list_groups(state, builder->parent, err);
}

/* make_groups - makes the groups and their tasks. The items all have the same files, or are all storages. */
static ckpt_status make_groups(struct parallel_state *state, ckpt_error *err)
{
    struct parallel_item x = get_item(state, 0);
    ckpt_status st = CKPT_OK;
    state->ngroups = state->job->n;
    if (!x.storage) {
        struct group_builder g = {calloc(state->job->n + 1, sizeof *g.parent), alloc_first_readers(x.file),
                                  alloc_first_readers(x.other)};
        state->order = calloc(state->job->n, sizeof *state->order);
        state->ngroups = 0;
        st = group_rows(state, &g, x.file, x.other, err);
        free(g.parent);
        free(g.first_reader);
        free(g.first_reader_of_other);
    }
    CKPT_THEN(st, split_groups(state, err));
    for (size_t i = 0; st == CKPT_OK && i < state->ntasks; i++)
        state->total_bytes = size_add(state->total_bytes, get_task_bytes(state, i));
    return st;
}

/* ------------------------------------------------------------------ threads */

/* can_read_parallel - returns true if several threads can read the storages of F. If LOCATE, locates all. */
static bool can_read_parallel(ckpt_file *f, bool locate)
{
    ckpt_error ignored;
    if (!f)
        return true;
    for (size_t i = 0; i < f->table.nstorages; i++)
        if (f->table.storages[i].src && f->table.storages[i].src->serializes_reads)
            return false;
    return !f->ignore_crc && (!locate || table_locate(&f->table, &ignored) == CKPT_OK);
}

/* can_read_storages_parallel - returns true if several threads can read the storages that are items of
 * STATE. */
static bool can_read_storages_parallel(const struct parallel_state *state)
{
    ckpt_error ignored;
    for (size_t i = 0; i < state->job->n; i++) {
        struct parallel_item x = get_item(state, i);
        source *src = x.storage ? x.storage->src : NULL;
        if (src && (src->serializes_reads ||
                    (!state->job->locates_items && source_locate(src, &ignored) != CKPT_OK)))
            return false;
    }
    return true;
}

/* find_block_size - returns how many bytes a thread keeps of a source with blocks, at most; at least 1. */
static uint64_t find_block_size(const struct parallel_state *state)
{
    uint64_t most = 1;
    for (size_t i = 0; i < state->job->n; i++) {
        struct parallel_item x = get_item(state, i);
        uint32_t number = x.storage ? CKPT_NO_STORAGE : table_storage_of(&x.file->table, x.row);
        const struct storage *s = number == CKPT_NO_STORAGE ? x.storage : &x.file->table.storages[number];
        uint64_t size = s && s->src ? s->src->block_size : 0;
        if (size && s->src->larger_is_better && size < PARALLEL_LARGE_BLOCK)
            size = s->src->size < PARALLEL_LARGE_BLOCK ? s->src->size : PARALLEL_LARGE_BLOCK;
        most = size > most ? size : most;
    }
    return most;
}

static unsigned choose_threads(const struct parallel_state *state)
{
    struct parallel_item x = get_item(state, 0);
    unsigned n = pool_threads(state->job->threads);
    bool locate = !state->job->locates_items;
    if (n == 1 || state->total_bytes < MIN_PARALLEL_BYTES || !can_read_parallel(x.file, locate) ||
        !can_read_parallel(x.other, locate) || !can_read_storages_parallel(state))
        return 1;
    uint64_t most = PARALLEL_BLOCK_BYTES / find_block_size(state);
    return n < most ? n : most ? (unsigned)most : 1;
}

/* report_ready_items - reports the items that are ready, in order. */
static void report_ready_items(struct parallel_state *state)
{
    for (; state->is_ready && !state->stopped && state->next_report < state->job->n &&
           atomic_load(&state->is_ready[state->next_report]);
         state->next_report++)
        state->stopped = state->job->report(state->job->user, state->next_report);
}

static void report_or_cancel(struct parallel_state *state, struct pool *pool)
{
    report_ready_items(state);
    if (state->stopped)
        pool_cancel(pool);
}

/* show_progress - reports the bytes that are done; cancels POOL (NULL: it has ended) if that is wanted. */
static void show_progress(struct parallel_state *state, struct pool *pool)
{
    uint64_t done = atomic_load_explicit(&state->bytes_done, memory_order_relaxed);
    const struct parallel_job *job = state->job;
    done = done < state->total_bytes ? done : state->total_bytes;
    if (!state->stopped && job->progress && job->progress(job->progress_user, done, state->total_bytes))
        state->stopped = true;
    if (state->stopped && pool)
        pool_cancel(pool);
}

static void report_while_idle(void *user, struct pool *pool)
{
    show_progress(user, pool);
    report_or_cancel(user, pool);
}

bool parallel_advance(struct parallel_context *run, uint64_t bytes)
{
    atomic_fetch_add_explicit(&run->state->bytes_done, bytes, memory_order_relaxed);
    if (run->worker == 0)
        show_progress(run->state, run->pool);
    return !pool_task_stopped(run->pool, run->task);
}

static void free_chunks(struct chunked_item *item)
{
    for (uint32_t i = 0; item->chunks && i < item->nchunks; i++)
        free(item->chunks[i].out);
    free(item->chunks);
    item->chunks = NULL;
}

/* set_item_ready - records that item INDEX was processed. On the calling thread, reports all items ready. */
static void set_item_ready(struct parallel_state *state, size_t index, const struct parallel_context *run)
{
    if (state->is_ready)
        atomic_store(&state->is_ready[index], true);
    if (run->worker == 0)
        report_or_cancel(state, run->pool);
}

/* run_chunk - processes a chunk; after the last one of an item, joins all chunks of the item. */
static ckpt_status run_chunk(struct parallel_state *state, const struct task *task,
                             struct parallel_context *run, ckpt_error *err)
{
    struct chunked_item *c = task->chunked;
    size_t i = get_group_item(state, get_group_begin(state, task->group));
    CKPT_TRY(state->job->process_chunk(state->job->user, i, &c->chunks[task->chunk], run, err));
    if (atomic_fetch_sub(&c->chunks_left, 1) > 1)
        return CKPT_OK;
    CKPT_TRY(state->job->join_chunks(state->job->user, i, c->chunks, c->nchunks, err));
    free_chunks(c);
    set_item_ready(state, i, run);
    return CKPT_OK;
}

/* announce_storage - announces that all of STORAGE will be read. Returns its bytes, 0 if they are on no
 * server. */
static uint64_t announce_storage(const struct storage *storage)
{
    if (!storage->src || !storage->src->is_remote)
        return 0;
    source_will_read(storage->src, storage->off, storage->nbytes);
    return storage->nbytes;
}

/* announce_row - announces that all of ROW of F (may be NULL) will be read. Returns its bytes, 0 if they
 * are on no server. */
static uint64_t announce_row(const ckpt_file *f, uint32_t row)
{
    uint32_t at = f ? table_storage_of(&f->table, row) : CKPT_NO_STORAGE;
    const struct storage *s = at == CKPT_NO_STORAGE ? NULL : &f->table.storages[at];
    return s ? announce_storage(s) : 0;
}

/* announce_items - announces to servers the items from number AT on, as many as may be announced at a time;
 * those that were announced before are read by now. Only a single thread reads from servers. */
static void announce_items(struct parallel_state *state, uint32_t at)
{
    uint64_t bytes = 0;
    if (at < state->next_announced)
        return;
    for (; at < state->job->n && bytes < ANNOUNCED_BYTES; at++) {
        struct parallel_item x = get_item(state, get_group_item(state, at));
        uint64_t n = x.storage ? announce_storage(x.storage) : announce_row(x.file, x.row);
        bytes = size_add(bytes, x.storage ? n : size_add(n, announce_row(x.other, x.other_row)));
        if (bytes == 0)
            return;
    }
    state->next_announced = at;
}

static ckpt_status run_task(void *user, struct pool *pool, size_t number, unsigned worker, ckpt_error *err)
{
    struct parallel_state *state = user;
    struct parallel_context run = {state, pool, number, worker};
    struct task task = find_task(state, number);
    if (task.chunked)
        return run_chunk(state, &task, &run, err);
    for (uint32_t at = get_group_begin(state, task.group); at < get_group_end(state, task.group); at++) {
        size_t i = get_group_item(state, at);
        if (pool_task_stopped(pool, number))
            return CKPT_ECANCELLED;
        announce_items(state, at);
        CKPT_TRY(state->job->process(state->job->user, i, &run, err));
        set_item_ready(state, i, &run);
    }
    return CKPT_OK;
}

/* check_unchanged_files - returns ST, the status of reading, or CKPT_ECHANGED if a file changed meanwhile. */
static ckpt_status check_unchanged_files(const struct parallel_state *state, ckpt_status st, ckpt_error *err)
{
    const ckpt_file *file = NULL, *other = NULL;
    if (st == CKPT_OK && state->job->defers_check)
        return CKPT_OK;
    for (size_t i = 0; i < state->job->n; i++) {
        struct parallel_item x = get_item(state, i);
        ckpt_status new_status = x.file != file ? file_status_after_read(x.file, st, err) : st;
        if (new_status == st && x.other && x.other != other)
            new_status = file_status_after_read(x.other, st, err);
        if (new_status != st)
            return new_status;
        file = x.file;
        other = x.other;
    }
    return st;
}

unsigned parallel_worker(const struct parallel_context *run) { return run->worker; }

static ckpt_status run_all_tasks(struct parallel_state *state, ckpt_error *err)
{
    struct pool_job job = {.n = state->ntasks,
                           .weigh = get_task_bytes,
                           .task = run_task,
                           .idle = report_while_idle,
                           .user = state};
    job.threads = choose_threads(state);
    ckpt_status st = pool_run(&job, err);
    report_ready_items(state); /* after a failure: those before the failed item, as a single thread would */
    if (st == CKPT_OK)
        show_progress(state, NULL); /* however the threads were scheduled, the end is reported */
    if (st == CKPT_OK && state->stopped)
        st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    return check_unchanged_files(state, st, err);
}

ckpt_status parallel_run(const struct parallel_job *job, ckpt_error *err)
{
    struct parallel_state t = {.job = job};
    if (job->n == 0)
        return CKPT_OK;
    if (job->n >= UINT32_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "%zu tensors are too many to be read at once", job->n);
    t.is_ready = job->report ? calloc(job->n, sizeof *t.is_ready) : NULL;
    atomic_init(&t.bytes_done, 0);
    ckpt_status st = t.is_ready || !job->report ? make_groups(&t, err) : fail_memory(err);
    CKPT_THEN(st, run_all_tasks(&t, err));
    for (size_t i = 0; i < t.nchunked; i++)
        free_chunks(&t.chunked_items[i]);
    free(t.chunked_items);
    free(t.order);
    free(t.starts);
    free(t.is_ready);
    return st;
}
