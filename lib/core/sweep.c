/* sweep.c - see sweep.h. A task of the pool is a group of items: those whose
 * storages have a CRC-32 that one of them checks for the others; or a part of one. */
#include "core/sweep.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/crc32.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "io/pool.h"

#define SMALL (8u << 20) /* a thread costs more than it saves below */

/* Of its own, in parts. */
struct cut {
    struct sweep_part *parts;
    uint32_t group, first, n; /* tasks [first, first + n) are its parts */
    _Atomic uint32_t left;    /* to be done */
};

/* What a task is: a group of items, or a part of the one of a group. */
struct task {
    uint32_t group;
    struct cut *cut; /* NULL: all of it */
    uint32_t part;
};

struct state {
    const struct sweep *s;
    uint32_t *order;  /* items, group by group; NULL: each is a group of its own */
    uint32_t *starts; /* by group, and behind the last: where in order; NULL likewise */
    size_t ngroups, ntasks;
    struct cut *cuts; /* by their tasks */
    size_t ncuts;
    atomic_bool *ready; /* by item: worked on, waits for done; NULL: nobody does */
    size_t next;        /* first item that done has not seen */
    _Atomic uint64_t moved;
    uint64_t total;
    bool stop; /* done or progress said so */
};

static struct sweep_item item_at(const struct state *t, size_t i)
{
    return t->s->item ? t->s->item(t->s->user, i) : t->s->items[i];
}

static uint32_t group_begin(const struct state *t, uint32_t g) { return t->starts ? t->starts[g] : g; }
static uint32_t group_end(const struct state *t, uint32_t g) { return t->starts ? t->starts[g + 1] : g + 1; }
/* group_item - the item at K of all groups. */
static uint32_t group_item(const struct state *t, uint32_t k) { return t->order ? t->order[k] : k; }

/* What one item reports to. */
struct sweep_run {
    struct state *st;
    struct pool *pool;
    size_t task;
    unsigned worker; /* 0: the calling thread */
};

/* ------------------------------------------------------------------- groups */

struct joins {
    uint32_t *parent;          /* of item */
    uint32_t *owner, *owner_b; /* storage -> first item that looks at it */
};

static uint32_t leader(uint32_t *parent, uint32_t i)
{
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

/* join - item I looks at ROW of F: it belongs to whoever looked at that storage. */
static void join(struct joins *j, uint32_t *owner, uint32_t i, const ckpt_file *f, uint32_t row)
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
    uint32_t a = leader(j->parent, owner[at]), b = leader(j->parent, i);
    j->parent[a > b ? a : b] = a > b ? b : a;
}

static uint32_t *no_owners(const ckpt_file *f)
{
    size_t n = f ? f->table.nstorages : 0;
    uint32_t *owner = malloc((n + 1) * sizeof *owner);
    for (size_t i = 0; owner && i < n; i++)
        owner[i] = UINT32_MAX;
    return owner;
}

/* list_groups - counts, then places: groups by their first item, items in order. */
static ckpt_status list_groups(struct state *t, uint32_t *parent, ckpt_error *err)
{
    uint32_t n = (uint32_t)t->s->n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t l = leader(parent, i);
        t->order[i] = l == i ? (uint32_t)t->ngroups++ : t->order[l];
    }
    t->starts = calloc(t->ngroups + 1, sizeof *t->starts); /* bounded: below n */
    if (!t->starts)
        return fail_memory(err);
    for (uint32_t i = 0; i < n; i++) { /* parent serves as the other array */
        parent[i] = t->order[i];
        t->starts[parent[i]]++;
    }
    for (uint32_t g = 0, at = 0; g <= t->ngroups; g++) {
        at += t->starts[g]; /* bounded: n in all */
        t->starts[g] = at;
    }
    for (uint32_t i = n; i-- > 0;) /* what ends there begins there in the end */
        t->order[--t->starts[parent[i]]] = i;
    return CKPT_OK;
}

static uint64_t item_bytes(const struct sweep_item *x)
{
    if (x->storage)
        return x->storage->s.nbytes;
    uint64_t a = x->file->table.rows[x->row].t.nbytes;
    uint64_t b = x->other ? x->other->table.rows[x->other_row].t.nbytes : 0;
    return checked_add(a, b, &a) ? a : UINT64_MAX;
}

/* -------------------------------------------------------------------- parts */

static uint64_t width_of(const ckpt_file *f, uint32_t row)
{
    const struct dtype_info *d = dtype_info((ckpt_dtype)f->table.rows[row].t.dtype);
    return d->block_elems == 1 ? d->block_bytes : 0;
}

static uint64_t item_elements(const struct sweep_item *x)
{
    return x->storage ? x->storage->s.nbytes : x->file->table.rows[x->row].t.elements;
}

/* item_width - of an element, on the side where it is wider; 0: not whole bytes. */
static uint64_t item_width(const struct sweep_item *x)
{
    if (x->storage)
        return 1;
    uint64_t a = width_of(x->file, x->row), b = x->other ? width_of(x->other, x->other_row) : a;
    return !a || !b ? 0 : a > b ? a : b;
}

static bool can_be_cut(const struct sweep_item *x)
{
    if (x->storage)
        return x->storage->src && !x->storage->src->serial;
    return stream_is_run(&x->file->table, x->row) &&
           (!x->other || stream_is_run(&x->other->table, x->other_row));
}

/* part_elements - of item X; 0: it stays whole. */
static uint64_t part_elements(const struct sweep_item *x)
{
    uint64_t width = item_width(x), per = width ? sweep_cut(width) : 0;
    return per && item_elements(x) > per && can_be_cut(x) ? per : 0;
}

/* count_parts - of group G; 1: it stays whole. */
static uint64_t count_parts(const struct state *t, uint32_t g)
{
    if (!t->s->part || group_end(t, g) - group_begin(t, g) != 1)
        return 1;
    struct sweep_item x = item_at(t, group_item(t, group_begin(t, g)));
    uint64_t per = part_elements(&x), n = per ? item_elements(&x) : 1;
    return per ? n / per + (n % per != 0) : 1;
}

static ckpt_status cut(struct state *t, uint32_t group, uint32_t first, uint64_t n, ckpt_error *err)
{
    struct sweep_item x = item_at(t, group_item(t, group_begin(t, group)));
    uint64_t per = part_elements(&x), elements = item_elements(&x);
    struct cut *c = &t->cuts[t->ncuts];
    c->parts = calloc((size_t)n, sizeof *c->parts);
    if (!c->parts)
        return fail_memory(err);
    c->group = group;
    c->first = first;
    c->n = (uint32_t)n;
    atomic_init(&c->left, c->n);
    for (uint32_t i = 0; i < c->n; i++) {
        uint64_t at = i * per; /* bounded: below elements */
        c->parts[i].first = at;
        c->parts[i].count = elements - at < per ? elements - at : per;
    }
    t->ncuts++;
    return CKPT_OK;
}

/* cut_groups - large items on their own become as many tasks as they have parts. */
static ckpt_status cut_groups(struct state *t, ckpt_error *err)
{
    uint64_t tasks = 0;
    size_t cuts = 0;
    for (uint32_t g = 0; g < t->ngroups; g++) {
        uint64_t n = count_parts(t, g);
        cuts += n > 1;
        if (!checked_add(tasks, n, &tasks) || tasks >= UINT32_MAX)
            return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "rows are too large to be read in parts");
    }
    t->ntasks = (size_t)tasks;
    t->cuts = cuts ? calloc(cuts, sizeof *t->cuts) : NULL;
    if (cuts && !t->cuts)
        return fail_memory(err);
    for (uint32_t g = 0, at = 0; cuts && g < t->ngroups; g++) {
        uint64_t n = count_parts(t, g);
        if (n > 1)
            CKPT_TRY(cut(t, g, at, n, err));
        at += (uint32_t)n; /* bounded: tasks */
    }
    return CKPT_OK;
}

/* task_at - what task number I is. */
static struct task task_at(const struct state *t, size_t i)
{
    size_t low = 0, high = t->ncuts;
    while (low < high) { /* the first cut whose tasks come after I */
        size_t mid = low + (high - low) / 2;
        if (t->cuts[mid].first <= i)
            low = mid + 1;
        else
            high = mid;
    }
    struct cut *c = low ? &t->cuts[low - 1] : NULL;
    if (!c)
        return (struct task){.group = (uint32_t)i};
    if (i - c->first < c->n)
        return (struct task){c->group, c, (uint32_t)(i - c->first)};
    return (struct task){.group = c->group + 1 + (uint32_t)(i - c->first - c->n)}; /* bounded: ngroups */
}

static uint64_t part_bytes(const struct sweep_item *x, const struct sweep_part *p)
{
    uint64_t width = x->storage ? 1 : width_of(x->file, x->row);
    width += x->other ? width_of(x->other, x->other_row) : 0;
    return p->count * width; /* bounded: twice SWEEP_PART */
}

/* weigh - the bytes of task I. */
static uint64_t weigh(void *user, size_t i)
{
    const struct state *t = user;
    struct task k = task_at(t, i);
    uint64_t n = 0;
    for (uint32_t at = group_begin(t, k.group); at < group_end(t, k.group); at++) {
        struct sweep_item x = item_at(t, group_item(t, at));
        if (k.cut)
            return part_bytes(&x, &k.cut->parts[k.part]);
        if (!checked_add(n, item_bytes(&x), &n))
            return UINT64_MAX;
    }
    return n;
}

static void weigh_all(struct state *t)
{
    for (size_t i = 0; i < t->ntasks; i++)
        if (!checked_add(t->total, weigh(t, i), &t->total))
            t->total = UINT64_MAX;
}

uint32_t sweep_crc(const struct sweep_item *x, const struct sweep_part *parts, size_t n, int side)
{
    uint64_t width = x->storage ? 1 : side ? width_of(x->other, x->other_row) : width_of(x->file, x->row);
    uint32_t crc = 0;
    for (size_t i = 0; i < n; i++)
        crc = crc32_combine(crc, parts[i].crc[side], parts[i].count * width); /* bounded: a part */
    return crc;
}

static ckpt_status check_side(const struct sweep_item *x, const struct sweep_part *parts, size_t n, int side,
                              ckpt_error *err)
{
    ckpt_file *f = side ? x->other : x->file;
    struct storage *st = &f->table.storages[f->table.rows[side ? x->other_row : x->row].t.storage];
    struct stream_options o = tensor_stream_options(f);
    if (!st->has_crc || st->crc_checked)
        return CKPT_OK;
    ckpt_status status = storage_crc(st, sweep_crc(x, parts, n, side), &o, err);
    if (status != CKPT_OK)
        fail_file(err, f->path);
    return status;
}

ckpt_status sweep_check(const struct sweep_item *x, const struct sweep_part *parts, size_t n, ckpt_error *err)
{
    CKPT_TRY(check_side(x, parts, n, 0, err));
    return x->other ? check_side(x, parts, n, 1, err) : CKPT_OK;
}

/* ------------------------------------------------------------------- grouping */

/* join_rows - items that look at one storage belong together. */
static ckpt_status join_rows(struct state *t, struct joins *j, ckpt_file *file, ckpt_file *other,
                             ckpt_error *err)
{
    uint32_t n = (uint32_t)t->s->n;
    if (!j->parent || !j->owner || !j->owner_b || !t->order)
        return fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        j->parent[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        struct sweep_item x = item_at(t, i);
        if (x.storage)
            continue;
        join(j, j->owner, i, file, x.row);
        if (other)
            join(j, other == file ? j->owner : j->owner_b, i, other, x.other_row);
    }
    return list_groups(t, j->parent, err);
}

/* make_groups - all items have the same file, and the same other, or are storages. */
static ckpt_status make_groups(struct state *t, ckpt_error *err)
{
    struct sweep_item x = item_at(t, 0);
    ckpt_status st = CKPT_OK;
    t->ngroups = t->s->n;
    if (!x.storage) {
        struct joins j = {calloc(t->s->n + 1, sizeof *j.parent), no_owners(x.file), no_owners(x.other)};
        t->order = calloc(t->s->n, sizeof *t->order);
        t->ngroups = 0;
        st = join_rows(t, &j, x.file, x.other, err);
        free(j.parent);
        free(j.owner);
        free(j.owner_b);
    }
    if (st == CKPT_OK)
        st = cut_groups(t, err);
    if (st == CKPT_OK)
        weigh_all(t);
    return st;
}

/* ------------------------------------------------------------------ threads */

/* parallel - may storages of F be read by several threads? Where each lies has
 * to be found out before. */
static bool parallel(ckpt_file *f)
{
    if (!f)
        return true;
    if (f->ignore_crc || table_locate(&f->table, NULL) != CKPT_OK)
        return false;
    for (size_t i = 0; i < f->table.nstorages; i++)
        if (f->table.storages[i].src && f->table.storages[i].src->serial)
            return false;
    return true;
}

/* storages_parallel - likewise for items that are storages of any file. */
static bool storages_parallel(const struct state *t)
{
    for (size_t i = 0; i < t->s->n; i++) {
        struct sweep_item x = item_at(t, i);
        source *src = x.storage ? x.storage->src : NULL;
        if (src && (src->serial || source_locate(src, NULL) != CKPT_OK))
            return false;
    }
    return true;
}

static unsigned threads_for(const struct state *t)
{
    struct sweep_item x = item_at(t, 0);
    unsigned n = pool_threads(t->s->threads);
    if (n == 1 || t->total < SMALL || !parallel(x.file) || !parallel(x.other) || !storages_parallel(t))
        return 1;
    return n;
}

/* hand_ready - what is ready goes to done, in order. */
static void hand_ready(struct state *t)
{
    for (; t->ready && !t->stop && t->next < t->s->n && atomic_load(&t->ready[t->next]); t->next++)
        t->stop = t->s->done(t->s->user, t->next);
}

static void hand_on(struct state *t, struct pool *p)
{
    hand_ready(t);
    if (t->stop)
        pool_cancel(p);
}

static void show_progress(struct state *t, struct pool *p)
{
    uint64_t moved = atomic_load_explicit(&t->moved, memory_order_relaxed);
    const struct sweep *s = t->s;
    moved = moved < t->total ? moved : t->total;
    if (!t->stop && s->progress && s->progress(s->progress_user, moved, t->total))
        t->stop = true;
    if (t->stop)
        pool_cancel(p);
}

static void idle(void *user, struct pool *p)
{
    show_progress(user, p);
    hand_on(user, p);
}

bool sweep_moved(struct sweep_run *run, uint64_t bytes)
{
    atomic_fetch_add_explicit(&run->st->moved, bytes, memory_order_relaxed);
    if (run->worker == 0)
        show_progress(run->st, run->pool);
    return !pool_stopped(run->pool, run->task);
}

static void free_parts(struct cut *c)
{
    for (uint32_t i = 0; c->parts && i < c->n; i++)
        free(c->parts[i].out);
    free(c->parts);
    c->parts = NULL;
}

/* item_done - item I is; done may hear of it. */
static void item_done(struct state *t, size_t i, const struct sweep_run *run)
{
    if (t->ready)
        atomic_store(&t->ready[i], true);
    if (run->worker == 0)
        hand_on(t, run->pool);
}

/* do_part - and what follows from the item, if all others are done. */
static ckpt_status do_part(struct state *t, const struct task *k, struct sweep_run *run, ckpt_error *err)
{
    struct cut *c = k->cut;
    size_t i = group_item(t, group_begin(t, k->group));
    CKPT_TRY(t->s->part(t->s->user, i, &c->parts[k->part], run, err));
    if (atomic_fetch_sub(&c->left, 1) > 1)
        return CKPT_OK;
    CKPT_TRY(t->s->join(t->s->user, i, c->parts, c->n, err));
    free_parts(c);
    item_done(t, i, run);
    return CKPT_OK;
}

static ckpt_status task(void *user, struct pool *p, size_t number, unsigned worker, ckpt_error *err)
{
    struct state *t = user;
    struct sweep_run run = {t, p, number, worker};
    struct task k = task_at(t, number);
    if (k.cut)
        return do_part(t, &k, &run, err);
    for (uint32_t at = group_begin(t, k.group); at < group_end(t, k.group); at++) {
        size_t i = group_item(t, at);
        if (pool_stopped(p, number))
            return CKPT_ECANCELLED;
        CKPT_TRY(t->s->work(t->s->user, i, &run, err));
        item_done(t, i, &run);
    }
    return CKPT_OK;
}

/* settled - ST, which came of all the reading: CKPT_OK, if what was read is of one time. */
static ckpt_status settled(const struct state *t, ckpt_status st, ckpt_error *err)
{
    const ckpt_file *file = NULL, *other = NULL;
    for (size_t i = 0; i < t->s->n; i++) {
        struct sweep_item x = item_at(t, i);
        ckpt_status now = x.file != file ? file_settled(x.file, st, err) : st;
        if (now == st && x.other && x.other != other)
            now = file_settled(x.other, st, err);
        if (now != st)
            return now;
        file = x.file;
        other = x.other;
    }
    return st;
}

unsigned sweep_worker(const struct sweep_run *run) { return run->worker; }

static ckpt_status go(struct state *t, ckpt_error *err)
{
    struct pool_job job = {.n = t->ntasks, .weigh = weigh, .task = task, .idle = idle, .user = t};
    job.threads = threads_for(t);
    ckpt_status st = pool_run(&job, err);
    /* Those that were ready last; in front of a failure too, as one thread would. */
    hand_ready(t);
    if (st == CKPT_OK && t->stop)
        st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    return settled(t, st, err);
}

ckpt_status sweep_run(const struct sweep *s, ckpt_error *err)
{
    ckpt_error own;
    struct state t = {.s = s};
    if (s->n == 0)
        return CKPT_OK;
    if (s->n >= UINT32_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "%zu rows are too many to read at once", s->n);
    t.ready = s->done ? calloc(s->n, sizeof *t.ready) : NULL;
    atomic_init(&t.moved, 0);
    ckpt_status st = t.ready || !s->done ? make_groups(&t, err) : fail_memory(err);
    if (st == CKPT_OK)
        st = go(&t, err ? err : &own);
    for (size_t i = 0; i < t.ncuts; i++)
        free_parts(&t.cuts[i]);
    free(t.cuts);
    free(t.order);
    free(t.starts);
    free(t.ready);
    return st;
}
