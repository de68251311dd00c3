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

struct group {
    uint32_t first, count; /* of order */
    uint32_t cut, part;    /* of cuts, and which of its parts; cut NOT_CUT: whole items */
};

#define NOT_CUT UINT32_MAX

/* An item in parts. */
struct cut {
    struct sweep_part *parts;
    uint32_t n;
    _Atomic uint32_t left; /* to be done */
};

struct state {
    const struct sweep *s;
    uint32_t *order; /* items, group by group */
    struct group *groups;
    uint64_t *weights;
    size_t ngroups;
    struct cut *cuts;
    size_t ncuts;
    atomic_bool *ready; /* by item: worked on, waits for done */
    size_t next;        /* first item that done has not seen */
    _Atomic uint64_t moved;
    uint64_t total;
    bool stop; /* done or progress said so */
};

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
    if (!st->s.has_crc || st->crc_checked)
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
static void list_groups(struct state *t, uint32_t *parent)
{
    uint32_t n = (uint32_t)t->s->n, at = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t l = leader(parent, i);
        if (l == i)
            t->groups[t->ngroups++] = (struct group){.cut = NOT_CUT};
        t->order[i] = l == i ? (uint32_t)t->ngroups - 1 : t->order[l];
        t->groups[t->order[i]].count++;
    }
    for (size_t g = 0; g < t->ngroups; g++) {
        t->groups[g].first = at;
        at += t->groups[g].count;
        t->groups[g].count = 0;
    }
    for (uint32_t i = 0; i < n; i++) /* parent serves as the other array */
        parent[i] = t->order[i];
    for (uint32_t i = 0; i < n; i++) {
        struct group *g = &t->groups[parent[i]];
        t->order[g->first + g->count++] = i;
    }
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
static uint64_t count_parts(const struct state *t, const struct group *g)
{
    const struct sweep_item *x = &t->s->items[t->order[g->first]];
    uint64_t per = t->s->part && g->count == 1 ? part_elements(x) : 0;
    uint64_t n = per ? item_elements(x) : 1;
    return per ? n / per + (n % per != 0) : 1;
}

static ckpt_status cut(struct state *t, struct group *out, uint64_t n, ckpt_error *err)
{
    struct group g = *out;
    const struct sweep_item *x = &t->s->items[t->order[g.first]];
    uint64_t per = part_elements(x), elements = item_elements(x);
    struct cut *c = &t->cuts[t->ncuts];
    c->parts = calloc((size_t)n, sizeof *c->parts);
    if (!c->parts)
        return fail_memory(err);
    c->n = (uint32_t)n;
    atomic_init(&c->left, c->n);
    for (uint32_t i = 0; i < c->n; i++) {
        uint64_t first = i * per; /* bounded: below elements */
        c->parts[i].first = first;
        c->parts[i].count = elements - first < per ? elements - first : per;
        out[i] = (struct group){g.first, 1, (uint32_t)t->ncuts, i};
    }
    t->ncuts++;
    return CKPT_OK;
}

/* cut_groups - large items on their own become as many groups as they have parts. */
static ckpt_status cut_groups(struct state *t, ckpt_error *err)
{
    uint64_t tasks = 0;
    size_t cuts = 0, at = 0;
    for (size_t g = 0; g < t->ngroups; g++) {
        uint64_t n = count_parts(t, &t->groups[g]);
        cuts += n > 1;
        if (!checked_add(tasks, n, &tasks) || tasks >= NOT_CUT)
            return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "rows are too large to be read in parts");
    }
    struct group *groups = calloc((size_t)tasks + 1, sizeof *groups);
    t->cuts = calloc(cuts + 1, sizeof *t->cuts);
    if (!groups || !t->cuts) {
        free(groups);
        return fail_memory(err);
    }
    ckpt_status st = CKPT_OK;
    for (size_t g = 0; st == CKPT_OK && g < t->ngroups; g++) {
        uint64_t n = count_parts(t, &t->groups[g]);
        groups[at] = t->groups[g];
        if (n > 1)
            st = cut(t, groups + at, n, err);
        at += (size_t)n;
    }
    free(t->groups);
    t->groups = groups;
    t->ngroups = (size_t)tasks;
    return st;
}

static uint64_t part_bytes(const struct sweep_item *x, const struct sweep_part *p)
{
    uint64_t width = x->storage ? 1 : width_of(x->file, x->row);
    width += x->other ? width_of(x->other, x->other_row) : 0;
    return p->count * width; /* bounded: twice SWEEP_PART */
}

static uint64_t group_bytes(const struct state *t, const struct group *g)
{
    uint64_t n = 0;
    if (g->cut != NOT_CUT)
        return part_bytes(&t->s->items[t->order[g->first]], &t->cuts[g->cut].parts[g->part]);
    for (uint32_t k = 0; k < g->count; k++)
        if (!checked_add(n, item_bytes(&t->s->items[t->order[g->first + k]]), &n))
            return UINT64_MAX;
    return n;
}

static ckpt_status weigh(struct state *t, ckpt_error *err)
{
    t->weights = calloc(t->ngroups + 1, sizeof *t->weights);
    for (size_t g = 0; t->weights && g < t->ngroups; g++) {
        t->weights[g] = group_bytes(t, &t->groups[g]);
        if (!checked_add(t->total, t->weights[g], &t->total))
            t->total = UINT64_MAX;
    }
    return t->weights ? CKPT_OK : fail_memory(err);
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
    struct stream_options o = tensor_reading(f);
    if (!st->s.has_crc || st->crc_checked)
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

/* make_groups - all items have the same file, and the same other. */
static ckpt_status make_groups(struct state *t, ckpt_error *err)
{
    const struct sweep *s = t->s;
    ckpt_file *file = s->n ? s->items[0].file : NULL, *other = s->n ? s->items[0].other : NULL;
    struct joins j = {calloc(s->n + 1, sizeof *j.parent), no_owners(file), no_owners(other)};
    ckpt_status st = j.parent && j.owner && j.owner_b ? CKPT_OK : fail_memory(err);
    for (uint32_t i = 0; st == CKPT_OK && i < s->n; i++)
        j.parent[i] = i;
    for (uint32_t i = 0; st == CKPT_OK && i < s->n; i++) {
        if (s->items[i].storage)
            continue;
        join(&j, j.owner, i, file, s->items[i].row);
        if (other)
            join(&j, other == file ? j.owner : j.owner_b, i, other, s->items[i].other_row);
    }
    if (st == CKPT_OK) {
        list_groups(t, j.parent);
        st = cut_groups(t, err);
    }
    if (st == CKPT_OK)
        st = weigh(t, err);
    free(j.parent);
    free(j.owner);
    free(j.owner_b);
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
static bool storages_parallel(const struct sweep *s)
{
    for (size_t i = 0; i < s->n; i++) {
        source *src = s->items[i].storage ? s->items[i].storage->src : NULL;
        if (src && (src->serial || source_locate(src, NULL) != CKPT_OK))
            return false;
    }
    return true;
}

static unsigned threads_for(const struct state *t)
{
    const struct sweep *s = t->s;
    unsigned n = pool_threads(s->threads);
    if (n == 1 || t->total < SMALL || !parallel(s->items[0].file) || !parallel(s->items[0].other) ||
        !storages_parallel(s))
        return 1;
    return n;
}

/* hand_ready - what is ready goes to done, in order. */
static void hand_ready(struct state *t)
{
    for (; !t->stop && t->next < t->s->n && atomic_load(&t->ready[t->next]); t->next++)
        t->stop = t->s->done && t->s->done(t->s->user, t->next);
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

/* do_part - and what follows from the item, if all others are done. */
static ckpt_status do_part(struct state *t, const struct group *g, struct sweep_run *run, ckpt_error *err)
{
    struct cut *c = &t->cuts[g->cut];
    size_t i = t->order[g->first];
    CKPT_TRY(t->s->part(t->s->user, i, &c->parts[g->part], run, err));
    if (atomic_fetch_sub(&c->left, 1) > 1)
        return CKPT_OK;
    CKPT_TRY(t->s->join(t->s->user, i, c->parts, c->n, err));
    free_parts(c);
    atomic_store(&t->ready[i], true);
    if (run->worker == 0)
        hand_on(t, run->pool);
    return CKPT_OK;
}

static ckpt_status task(void *user, struct pool *p, size_t g, unsigned worker, ckpt_error *err)
{
    struct state *t = user;
    struct sweep_run run = {t, p, g, worker};
    if (t->groups[g].cut != NOT_CUT)
        return do_part(t, &t->groups[g], &run, err);
    for (uint32_t k = 0; k < t->groups[g].count; k++) {
        size_t i = t->order[t->groups[g].first + k];
        if (pool_stopped(p, g))
            return CKPT_ECANCELLED;
        CKPT_TRY(t->s->work(t->s->user, i, &run, err));
        atomic_store(&t->ready[i], true);
        if (worker == 0)
            hand_on(t, p);
    }
    return CKPT_OK;
}

/* unchanged - what was read is of one time. */
static ckpt_status unchanged(const struct sweep *s, ckpt_error *err)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct sweep_item *it = &s->items[i], *last = i ? it - 1 : NULL;
        if (!last || last->file != it->file)
            CKPT_TRY(file_unchanged(it->file, err));
        if (it->other && (!last || last->other != it->other))
            CKPT_TRY(file_unchanged(it->other, err));
    }
    return CKPT_OK;
}

unsigned sweep_worker(const struct sweep_run *run) { return run->worker; }

static ckpt_status go(struct state *t, ckpt_error *err)
{
    struct pool_job job = {.n = t->ngroups, .weight = t->weights, .task = task, .idle = idle, .user = t};
    job.threads = threads_for(t);
    ckpt_status st = pool_run(&job, err);
    /* Those that were ready last; in front of a failure too, as one thread would. */
    hand_ready(t);
    if (st == CKPT_OK && t->stop)
        st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    return st == CKPT_OK ? unchanged(t->s, err) : st;
}

ckpt_status sweep_run(const struct sweep *s, ckpt_error *err)
{
    ckpt_error own;
    struct state t = {.s = s};
    if (s->n == 0)
        return CKPT_OK;
    if (s->n >= UINT32_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "%zu rows are too many to read at once", s->n);
    t.order = calloc(s->n, sizeof *t.order);
    t.groups = calloc(s->n, sizeof *t.groups);
    t.ready = calloc(s->n, sizeof *t.ready);
    atomic_init(&t.moved, 0);
    ckpt_status st = t.order && t.groups && t.ready ? make_groups(&t, err) : fail_memory(err);
    if (st == CKPT_OK)
        st = go(&t, err ? err : &own);
    for (size_t i = 0; i < t.ncuts; i++)
        free_parts(&t.cuts[i]);
    free(t.cuts);
    free(t.order);
    free(t.groups);
    free(t.weights);
    free(t.ready);
    return st;
}
